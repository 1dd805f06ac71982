// kernels/cuda/attention/backward_sm90.cuh - code shared by the kernels of the Hopper backward
//   with p = exp(scale q k^T - lse), dp = do v^T, delta = rowsum(do o), ds = p (dp - delta):
//   dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Two kernels with seven products instead of one with five: queries_sm90.cuh gives dq and (bf16)
// the row statistics, keys_*_sm90.cuh dk and dv. Each sum has one owner, and p and ds go from C
// fragments to A fragments in the registers of the warpgroup that made them.
#ifndef BT_KERNELS_CUDA_ATTENTION_BACKWARD_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_BACKWARD_SM90_CUH

#include "kernels/cuda/attention/pipeline_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// The old bf16 gradient to accumulate into. `base` NULL: none.
struct old_values {
    const char *base;
    int64_t batch_stride, token_stride, head_stride; // bytes
    int head_dim;
};

inline old_values old_values_of(const bt_attention_backward_args *a, const bt_attention_view &view,
                                bool adds)
{
    const int64_t size = (int64_t)bt_dtype_size(a->dtype);
    return {adds ? (const char *)view.base : nullptr, view.batch_stride * size,
            view.token_stride * size, view.head_stride * size, (int)a->shape.head_dim};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// p^T in place of the scores, with the statistics of the tile's queries at `rows`: from the
// thread's first column.
__device__ __forceinline__ void exponentials_of_columns(float (&s)[32], uint32_t rows,
                                                        float scale_log2)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float2 lse = load_pair(rows + i * 32);
        s[4 * i] = exp2_approximate(fmaf(s[4 * i], scale_log2, -lse.x));
        s[4 * i + 1] = exp2_approximate(fmaf(s[4 * i + 1], scale_log2, -lse.y));
        s[4 * i + 2] = exp2_approximate(fmaf(s[4 * i + 2], scale_log2, -lse.x));
        s[4 * i + 3] = exp2_approximate(fmaf(s[4 * i + 3], scale_log2, -lse.y));
    }
}

// d = scale d + old, in f32.
template <int N>
__device__ __forceinline__ void add_old(float (&d)[N][32], float scale, const old_values &old,
                                        const item &t, int block, int tokens, const place &at)
{
    const int token = block * BLOCK + row_of(at);
    const bool has0 = token >= 0 && token < tokens, has1 = token >= 0 && token + 8 < tokens;
    const char *row =
        old.base + t.batch * old.batch_stride + t.head * old.head_stride + token * old.token_stride;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int column = n * COLUMNS + 8 * i + column_of(at);
            const bool inside = column < old.head_dim;
            const float *from = (const float *)(row + 2 * column);
            const float *below = (const float *)(row + 8 * old.token_stride + 2 * column);
            const uint32_t x0 = __float_as_uint(load_if(inside && has0, from, 0.0f));
            const uint32_t x1 = __float_as_uint(load_if(inside && has1, below, 0.0f));
            d[n][4 * i] = fmaf(d[n][4 * i], scale, low_bf16(x0));
            d[n][4 * i + 1] = fmaf(d[n][4 * i + 1], scale, high_bf16(x0));
            d[n][4 * i + 2] = fmaf(d[n][4 * i + 2], scale, low_bf16(x1));
            d[n][4 * i + 3] = fmaf(d[n][4 * i + 3], scale, high_bf16(x1));
        }
    }
}

// A finished gradient of item `index` to its tile. GENERAL may add an old one in bf16.
template <class F, bool GENERAL>
__device__ __forceinline__ void store_gradient(uint32_t tile, float (&d)[F::COLUMN_TILES][32],
                                               float scale, const old_values &old, const work &w,
                                               int index, int block, int tokens, const place &at)
{
    if constexpr (GENERAL && !F::TRANSPOSES) {
        if (old.base) {
            add_old(d, scale, old, item_at(w, index), block, tokens, at);
            scale = 1.0f;
        }
    }
    F::store(tile, d, scale, scale, at);
}

// The same for a known item and block, in kernels whose items overlap.
template <class F>
__device__ __forceinline__ void store_joined(uint32_t tile, float (&d)[F::COLUMN_TILES][32],
                                             float scale, const old_values &old, const item &t,
                                             int block, int tokens, const place &at)
{
    if (old.base) {
        add_old(d, scale, old, t, block, tokens, at);
        scale = 1.0f;
    }
    F::store(tile, d, scale, scale, at);
}

// The tile to memory. In f32 `adds` has TMA add it to what is there: one addition an element.
template <class F>
__device__ __forceinline__ void send_gradient(const CUtensorMap *map, uint32_t from, int tile,
                                              int head, int batch, bool adds)
{
    if constexpr (F::TRANSPOSES) {
        if (adds) {
            send_added<F>(map, from, tile, head, batch);
            return;
        }
    }
    send<F>(map, from, tile, head, batch);
}

#endif

} // namespace
} // namespace bt_attention_sm90
#endif
