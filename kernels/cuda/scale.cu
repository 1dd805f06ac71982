// kernels/cuda/scale.cu - y[i] = factor[i / group] x[i], or += that
//   Types  f32, bf16; the product in f32, rounded once
//   Cost   reads x, writes y (reads y too when it accumulates); bound by HBM. In place with a
//          factor of 1, a launch
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/overlap.cuh"

constexpr int LOADS = 4;          // packs a thread, in flight together
constexpr int BLOCKS_PER_SM = 16; // few, so that a factor of 1 costs no more than a launch

template <typename T, int V>
static __global__ void __launch_bounds__(STREAM_THREADS)
    scale_kernel(const T *x, const float *factor, T *y, int64_t first, int64_t count,
                 bool accumulate)
{
    const float by = factor[0];
    if (by == 1.0f && x == y) {
        return;
    }
    const int64_t packs = (count - first) / V;
    const int64_t step = (int64_t)gridDim.x * (STREAM_THREADS * LOADS);
    for (int64_t pack = (int64_t)blockIdx.x * (STREAM_THREADS * LOADS) + threadIdx.x; pack < packs;
         pack += step) {
        float held[LOADS][V], old[LOADS][V] = {};
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int64_t at = pack + i * STREAM_THREADS;
            if (at < packs) {
                load<V>(x + first + at * V, held[i]);
                if (accumulate) {
                    load<V>(y + first + at * V, old[i]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const int64_t at = pack + i * STREAM_THREADS;
            if (at < packs) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    const float value = held[i][j] * by;
                    held[i][j] = accumulate ? old[i][j] + value : value;
                }
                store<V>(y + first + at * V, held[i]);
            }
        }
    }
}

// A factor for each group of elements; a warp takes a group.
template <typename T, int V>
static __global__ void __launch_bounds__(STREAM_THREADS)
    scale_groups_kernel(const T *x, const float *factors, T *y, int64_t groups, int64_t size,
                        bool accumulate)
{
    const int64_t step = (int64_t)gridDim.x * (STREAM_THREADS / WARP);
    wait_for_previous();
    int64_t group = ((int64_t)blockIdx.x * STREAM_THREADS + threadIdx.x) / WARP;
    for (; group < groups; group += step) {
        const float by = factors[group];
        for (int64_t at = threadIdx.x % WARP * V; at < size; at += WARP * V) {
            float held[V], old[V] = {};
            load<V>(x + group * size + at, held);
            if (accumulate) {
                load<V>(y + group * size + at, old);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[j] = accumulate ? old[j] + held[j] * by : held[j] * by;
            }
            store<V>(y + group * size + at, held);
        }
    }
}

template <typename T, int V>
static void scale_groups(const bt_launch *launch, const bt_scale_args *args)
{
    const int64_t groups = args->count / args->group;
    if (groups > 0) {
        const unsigned grid =
            bt_cuda_grid(launch->device, bt_div_up(groups, STREAM_THREADS / WARP), BLOCKS_PER_SM);
        launch_after(launch->device, scale_groups_kernel<T, V>, grid, STREAM_THREADS, 0,
                     bt_cuda_stream(launch), (const T *)args->x, (const float *)args->factor,
                     (T *)args->y, groups, args->group, args->accumulate);
    }
}

template <typename T, int V>
static void part(const bt_launch *launch, const bt_scale_args *args, int64_t first, int64_t count)
{
    const int64_t blocks = bt_div_up((count - first) / V, STREAM_THREADS * LOADS);
    if (blocks > 0) {
        const unsigned grid = bt_cuda_grid(launch->device, blocks, BLOCKS_PER_SM);
        scale_kernel<T, V><<<grid, STREAM_THREADS, 0, bt_cuda_stream(launch)>>>(
            (const T *)args->x, (const float *)args->factor, (T *)args->y, first, count,
            args->accumulate);
    }
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_scale_args *args = (const bt_scale_args *)call;
    const bool wide = bt_aligned_16(args->x) && bt_aligned_16(args->y);
    if (args->group > 0) {
        (wide && args->group % WIDE<T> == 0 ? scale_groups<T, WIDE<T>> : scale_groups<T, 1>)(launch,
                                                                                             args);
        return bt_cuda_launched("scale_cuda");
    }
    const int64_t done = wide ? args->count / WIDE<T> * WIDE<T> : 0;
    part<T, WIDE<T>>(launch, args, 0, done);
    part<T, 1>(launch, args, done, args->count);
    return bt_cuda_launched("scale_cuda");
}

bt_status bt_scale_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_scale_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
