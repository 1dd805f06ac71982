// kernels/cuda/count_nonfinite.cu - how many elements are NaN or infinite
// Counts are integers, so adding them atomically in any order gives the same result.
//   Types  f32, bf16
//   Cost   reads x once; bound by HBM
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int UNROLL = 4;

// Blocks whose share holds none, which is nearly all of them, touch no counter.
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    count_kernel(const T *x, int64_t packs, unsigned long long *result)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS;
    int found = 0;
    for (int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x; first < packs;
         first += stride * UNROLL) {
        float held[UNROLL][V] = {};
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * stride < packs) {
                load<V>(x + (first + i * stride) * V, held[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                found += !isfinite(held[i][j]);
            }
        }
    }
    if (__syncthreads_or(found)) {
        atomicAdd(result, (unsigned long long)found);
    }
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_count_nonfinite_args *args = (const bt_count_nonfinite_args *)call;
    const T *x = (const T *)args->x;
    unsigned long long *result = (unsigned long long *)args->result;
    cudaStream_t stream = bt_cuda_stream(launch);
    const int64_t packs = bt_aligned_16(x) ? args->count / WIDE<T> : 0;
    const int64_t done = packs * WIDE<T>;
    BT_TRY(bt_cuda_check(cudaMemsetAsync(result, 0, sizeof *result, stream), "clearing"));
    if (packs) {
        unsigned grid = bt_cuda_grid(launch->device, bt_div_up(packs, THREADS * UNROLL), 8);
        count_kernel<T, WIDE<T>><<<grid, THREADS, 0, stream>>>(x, packs, result);
    }
    if (done < args->count) {
        int64_t rest = args->count - done;
        unsigned grid = bt_cuda_grid(launch->device, bt_div_up(rest, THREADS * UNROLL), 8);
        count_kernel<T, 1><<<grid, THREADS, 0, stream>>>(x + done, rest, result);
    }
    return bt_cuda_launched("count_nonfinite_cuda");
}

bt_status bt_count_nonfinite_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_count_nonfinite_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
