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

struct key_maps {
    CUtensorMap q, k, v, d_o, dk, dv, statistics;
    bool adds; // to the old dk and dv
};

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

// The tile to memory. `adds`: TMA adds it to what is there, once an element.
template <class F>
__device__ __forceinline__ void send_gradient(const CUtensorMap *map, uint32_t from, int tile,
                                              int head, int batch, bool adds)
{
    if (adds) {
        send_added<F>(map, from, tile, head, batch);
    } else {
        send<F>(map, from, tile, head, batch);
    }
}

#endif

} // namespace
} // namespace bt_attention_sm90
#endif
