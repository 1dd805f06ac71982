// kernels/cuda/attention/ffma.cuh - register-tiled fp32 products of a warp, operands in shared
// memory
//
// A lane is (r, c), r in 0..3, c in 0..7. r is made of lane bits 1 and 4, c of bits 0, 2 and 3, so
// that of any 16-byte access half the lanes of a pair of quarter-warps repeat each other.
// Every product is summed in ascending order of its summed index by one thread, in FFMAs.
#ifndef BT_KERNELS_CUDA_ATTENTION_FFMA_CUH
#define BT_KERNELS_CUDA_ATTENTION_FFMA_CUH

#include "kernels/cuda/attention/tile.cuh"

namespace
{

__device__ __forceinline__ int lane_r(int lane) { return (lane >> 1 & 1) | (lane >> 4) << 1; }
__device__ __forceinline__ int lane_c(int lane) { return (lane & 1) | (lane >> 2 & 3) << 1; }

// Over the 8 lanes of one r; every lane gets the result.
__device__ __forceinline__ float row_of_lanes_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 4));
    return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 8));
}

__device__ __forceinline__ float row_of_lanes_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffU, x, 1);
    x += __shfl_xor_sync(0xffffffffU, x, 4);
    return x + __shfl_xor_sync(0xffffffffU, x, 8);
}

// s[i][j] += sum_d a[i * a_step + d] * b[j * b_step + d], d < D
template <int D, int I, int J>
__device__ __forceinline__ void product_nt(float (&s)[I][J], const float *a, int a_step,
                                           const float *b, int b_step)
{
#pragma unroll 2
    for (int d = 0; d < D; d += 4) {
        float4 x[I];
#pragma unroll
        for (int i = 0; i < I; ++i) {
            x[i] = *(const float4 *)(a + i * a_step + d);
        }
#pragma unroll
        for (int j = 0; j < J; ++j) {
            const float4 y = *(const float4 *)(b + j * b_step + d);
#pragma unroll
            for (int i = 0; i < I; ++i) {
                s[i][j] = fmaf(x[i].x, y.x, s[i][j]);
                s[i][j] = fmaf(x[i].y, y.y, s[i][j]);
                s[i][j] = fmaf(x[i].z, y.z, s[i][j]);
                s[i][j] = fmaf(x[i].w, y.w, s[i][j]);
            }
        }
    }
}

// One summed index: sum[i][4h + e] += x[i] * b[32h + e], b at the lane's column 4c.
template <int D, int I>
__device__ __forceinline__ void accumulate(float (&sum)[I][D / 8], const float (&x)[I],
                                           const float *b)
{
#pragma unroll
    for (int h = 0; h < D / 32; ++h) {
        const float4 y = *(const float4 *)(b + 32 * h);
#pragma unroll
        for (int i = 0; i < I; ++i) {
            sum[i][4 * h] = fmaf(x[i], y.x, sum[i][4 * h]);
            sum[i][4 * h + 1] = fmaf(x[i], y.y, sum[i][4 * h + 1]);
            sum[i][4 * h + 2] = fmaf(x[i], y.z, sum[i][4 * h + 2]);
            sum[i][4 * h + 3] = fmaf(x[i], y.w, sum[i][4 * h + 3]);
        }
    }
}

// sum[i][4h + e] += sum_k a[i * a_step + k] * b[k][32h + e], k < K; b is a tile of D columns, from
// the lane's column 4c on.
template <int D, int I, int K>
__device__ __forceinline__ void product_nn(float (&sum)[I][D / 8], const float *a, int a_step,
                                           const float *b)
{
#pragma unroll 2
    for (int k = 0; k < K; k += 4) {
        float4 x[I];
#pragma unroll
        for (int i = 0; i < I; ++i) {
            x[i] = *(const float4 *)(a + i * a_step + k);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            float one[I];
#pragma unroll
            for (int i = 0; i < I; ++i) {
                one[i] = e == 0 ? x[i].x : e == 1 ? x[i].y : e == 2 ? x[i].z : x[i].w;
            }
            accumulate<D, I>(sum, one, b + (k + e) * (D + 4));
        }
    }
}

// Columns 32h + 4c .. + 3 of a row, scaled.
template <int D>
__device__ __forceinline__ void store_row(float *row, const float (&sum)[D / 8], float scale, int c,
                                          int head_dim)
{
#pragma unroll
    for (int h = 0; h < D / 32; ++h) {
        if (32 * h + 4 * c < head_dim) {
            *(float4 *)(row + 32 * h + 4 * c) =
                make_float4(sum[4 * h] * scale, sum[4 * h + 1] * scale, sum[4 * h + 2] * scale,
                            sum[4 * h + 3] * scale);
        }
    }
}

} // namespace
#endif
