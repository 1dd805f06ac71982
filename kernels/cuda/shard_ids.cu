// kernels/cuda/shard_ids.cu - ids and targets of a vocabulary whose rows are split over ranks
//   Types  i32; the mask f32, bf16
//   Cost   reads ids once, writes each output once; bound by the launch at the size of a
//   micro-batch
#include <math.h>
#include <stdint.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/overlap.cuh"

constexpr int THREADS = 256;

static __device__ __forceinline__ bool is_between(int64_t x, int64_t first, int64_t count)
{
    return x >= first && x < first + count;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) ids_kernel(bt_shard_ids_args op)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS;
    T *mask = (T *)op.mask;
    wait_for_previous();
    allow_next();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < op.count; i += stride) {
        const int64_t id = op.ids[i];
        const bool own = is_between(id, op.first, op.rows);
        const float other = is_between(id, 0, op.vocab) ? 0.0f : NAN;
        op.own[i] = own ? (int32_t)(id - op.first) : 0;
        mask[i] = from_float<T>(own ? 1.0f : other);
    }
}

static __global__ void __launch_bounds__(THREADS) targets_kernel(bt_shard_targets_args op)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS;
    wait_for_previous();
    allow_next();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < op.count; i += stride) {
        const int64_t target = op.targets[i];
        const bool counts = target != op.ignore;
        const bool own = counts && is_between(target, op.first, op.rows);
        const bool known = is_between(target, 0, op.vocab);
        const int32_t place = own ? (int32_t)(target - op.first) : -1;
        op.own[i] = place;
        op.column[i] = own || !counts ? place : INT32_MAX;
        op.owner[i] = !counts ? -1 : known ? (int32_t)(target / op.each) : INT32_MAX;
    }
}

template <typename T> static bt_status run_ids(const bt_launch *launch, const void *args)
{
    const bt_shard_ids_args *op = (const bt_shard_ids_args *)args;
    if (op->count > 0) {
        const unsigned grid = bt_cuda_grid(launch->device, bt_div_up(op->count, THREADS), 8);
        launch_after(launch->device, ids_kernel<T>, grid, THREADS, 0, bt_cuda_stream(launch), *op);
    }
    return bt_cuda_launched("shard_ids_cuda");
}

bt_status bt_shard_ids_cuda_f32(const bt_launch *launch, const void *args)
{
    return run_ids<float>(launch, args);
}

bt_status bt_shard_ids_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run_ids<bf16>(launch, args);
}

bt_status bt_shard_targets_cuda(const bt_launch *launch, const void *args)
{
    const bt_shard_targets_args *op = (const bt_shard_targets_args *)args;
    if (op->count > 0) {
        const unsigned grid = bt_cuda_grid(launch->device, bt_div_up(op->count, THREADS), 8);
        launch_after(launch->device, targets_kernel, grid, THREADS, 0, bt_cuda_stream(launch), *op);
    }
    return bt_cuda_launched("shard_targets_cuda");
}
