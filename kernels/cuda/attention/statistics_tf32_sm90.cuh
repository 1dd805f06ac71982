// kernels/cuda/attention/statistics_tf32_sm90.cuh - row statistics of the tf32 backward
//   lse log2(e), which is inf past the last token, and delta = sum do o, from the f32 values
// Shapes   o, do views of [B, T, H, D], D <= 128, a multiple of 8; lse [B, H, T] -> see STATISTICS
// Cost     reads o and do once; bound by HBM
// Bitwise  a fixed order of each sum
#ifndef BT_KERNELS_CUDA_ATTENTION_STATISTICS_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_STATISTICS_TF32_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"
#include "kernels/cuda/overlap.cuh"

namespace bt_attention_sm90
{
namespace
{

struct statistics_args {
    bt_attention_view o, d_o;
    const float *lse;
    float *statistics;
    int tokens, tiles, heads, head_dim; // heads of a batch entry
};

constexpr int STATISTICS_THREADS = 256;

__device__ __forceinline__ float4 row_chunk(const bt_attention_view &view, int64_t batch,
                                            int64_t head, int token, int column, bool inside)
{
    const float *from = (const float *)view.base + batch * view.batch_stride +
                        head * view.head_stride + token * view.token_stride + column;
    return inside ? *(const float4 *)from : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// A block takes a tile of queries. N: 64-wide column tiles.
template <int N>
__global__ void __launch_bounds__(STATISTICS_THREADS) row_statistics(const statistics_args p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int LANES = N * COLUMNS / 4; // of a row
    constexpr int ROWS = STATISTICS_THREADS / LANES, STEPS = BLOCK / ROWS;
    const int head = (int)blockIdx.x / p.tiles, tile = (int)blockIdx.x % p.tiles;
    const int64_t batch = head / p.heads, of = head % p.heads;
    const int first = (int)threadIdx.x / LANES;
    const int column = (int)threadIdx.x % LANES * 4;
    float4 x[STEPS], y[STEPS];
    wait_for_previous();
    allow_next();
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
        const int token = tile * BLOCK + first + i * ROWS;
        const bool inside = token < p.tokens && column < p.head_dim;
        x[i] = row_chunk(p.d_o, batch, of, token, column, inside);
        y[i] = row_chunk(p.o, batch, of, token, column, inside);
    }
    float *to = p.statistics + ((int64_t)head * p.tiles + tile) * STATISTICS;
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
        const int row = first + i * ROWS, token = tile * BLOCK + row;
        float delta =
            fmaf(x[i].x, y[i].x, fmaf(x[i].y, y[i].y, fmaf(x[i].z, y[i].z, x[i].w * y[i].w)));
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) {
            delta += __shfl_xor_sync(0xffffffffu, delta, step);
        }
        if (column == 0) {
            to[row] =
                token < p.tokens ? p.lse[(int64_t)head * p.tokens + token] * LOG2_OF_E : INFINITY;
            to[BLOCK + row] = delta;
        }
    }
#endif
}

inline bt_status write_statistics(const bt_launch *launch, const bt_attention_backward_args *a,
                                  float *statistics)
{
    const shape &s = a->shape;
    const int64_t heads = s.batch * s.heads, tiles = q_tiles_of(s);
    const statistics_args p = {a->o,         a->d_o,          (const float *)a->lse,
                               statistics,   (int)s.q_tokens, (int)tiles,
                               (int)s.heads, (int)s.head_dim};
    auto *kernel = s.head_dim <= COLUMNS ? row_statistics<1> : row_statistics<2>;
    launch_after(launch->device, kernel, (unsigned)(heads * tiles), STATISTICS_THREADS, 0,
                 bt_cuda_stream(launch), p);
    return bt_cuda_launched("attention backward tf32, row statistics");
}

} // namespace
} // namespace bt_attention_sm90
#endif
