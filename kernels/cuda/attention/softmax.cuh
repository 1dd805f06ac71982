// kernels/cuda/attention/softmax.cuh - the online softmax of the tensor-core forward kernels
//
// A warp holds the scores of M_TILES x 16 rows and 64 keys as C fragments (mma.cuh): s[m][n] is
// rows 16 m + g and + 8, keys 8 n + 2t and the next; [.][half] of what belongs to a row stands for
// rows g and g + 8. A row's scores are shifted by a maximum that may be out of date: it is renewed,
// and the row's sums rescaled, only when a score of the warp's rows passes its own by params.slack,
// which makes P 2^8. Sums of l are per lane until the end.
#ifndef BT_KERNELS_CUDA_ATTENTION_SOFTMAX_CUH
#define BT_KERNELS_CUDA_ATTENTION_SOFTMAX_CUH

#include "kernels/cuda/attention/tile.cuh"

namespace
{

// -inf where a row may not see a key; first_row belongs to the warp, t to the lane.
template <int M_TILES, bool CAUSAL>
__device__ __forceinline__ void mask_scores(float (&s)[M_TILES][8][4], int key0, int first_row,
                                            int tokens, int g, int t)
{
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int key = key0 + (i >> 2) * 8 + 2 * t + (i & 1);
            const int row = first_row + m * 16 + g + (i & 2) * 4;
            if (key >= tokens || (CAUSAL && key > row)) {
                s[m][i >> 2][i & 3] = -INFINITY;
            }
        }
    }
}

// Turns scores into unscaled P; rescale(m, half, factor) brings the lane's sums of P v up to date.
template <int M_TILES, typename Rescale>
__device__ __forceinline__ void
softmax_tile(float (&s)[M_TILES][8][4], float (&row_max)[M_TILES][2], float (&row_sum)[M_TILES][2],
             const forward_params &params, const Rescale &rescale)
{
    float top[M_TILES][2]; // of this lane's scores
    bool grows = false;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            top[m][half] = row_max[m][half];
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                top[m][half] = fmaxf(top[m][half], fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
            }
            grows |= top[m][half] > row_max[m][half] + params.slack;
        }
    }
    if (__any_sync(0xffffffffU, grows)) {
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float now = quad_max(top[m][half]);
                const float fade = now == -INFINITY
                                       ? 0.0f
                                       : exp2_fast((row_max[m][half] - now) * params.scale_log2);
                row_max[m][half] = now;
                row_sum[m][half] *= fade;
                rescale(m, half, fade);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float shift =
                row_max[m][half] == -INFINITY ? 0.0f : row_max[m][half] * params.scale_log2;
            float sum = 0.0f;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {
                    s[m][n][e] = exp2_fast(fmaf(s[m][n][e], params.scale_log2, -shift));
                    sum += s[m][n][e];
                }
            }
            row_sum[m][half] += sum;
        }
    }
}

} // namespace
#endif
