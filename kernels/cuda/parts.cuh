// kernels/cuda/parts.cuh - the second launch of a column sum: adds the blocks' partial sums in
// order
//
// The second kernel is launched by `launch_after` (overlap.cuh), so that it starts while the first
// ends.
#ifndef BT_KERNELS_CUDA_PARTS_CUH
#define BT_KERNELS_CUDA_PARTS_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/overlap.cuh"

constexpr int PART_WARPS = 32; // of a block, all at the same 32 columns
constexpr int PART_LOADS = 8;  // in flight per thread
constexpr int PART_THREADS = PART_WARPS * WARP;

// The sum of parts[p * stride] over p < count, in every thread of warp 0, by a block of dimensions
// (WARP, PART_WARPS). Warp w adds parts w, w + 32, ... and then the warps are added in order.
static __device__ __forceinline__ float parts_sum(const float *parts, int64_t count, int64_t stride)
{
    __shared__ float sums[PART_WARPS][WARP];
    float sum = 0.0f;
    for (int64_t first = threadIdx.y; first < count; first += PART_WARPS * PART_LOADS) {
        float held[PART_LOADS] = {};
#pragma unroll
        for (int i = 0; i < PART_LOADS; ++i) {
            if (first + i * PART_WARPS < count) {
                held[i] = parts[(first + i * PART_WARPS) * stride];
            }
        }
#pragma unroll
        for (int i = 0; i < PART_LOADS; ++i) {
            sum += held[i];
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        sum = 0.0f;
#pragma unroll
        for (int warp = 0; warp < PART_WARPS; ++warp) {
            sum += sums[warp][threadIdx.x];
        }
    }
    return sum;
}

#endif
