// kernels/cuda/sum_squares.cu - the gradient norm in two steps, for gradients sharded over ranks
//   sum_squares  a partial sum per BT_SQUARES_BLOCK elements of an item
//   clip_scale   norm = grad_scale sqrt(sum of the partial sums), and the scale of clipping
//
// The list of items is a kernel parameter, as in optimizer.cu.
//
// Invariants
//   1. A partial sum is a function of its elements alone: the same thread takes the same elements
//      whatever the alignment, the item and its place in it.
//   2. clip_scale adds in an order that depends on the number of partial sums alone, in double.
//   Types  f32
//   Cost   reads 4 bytes an element: bound by HBM
//   Oracle sum_squares_cpu_f32, clip_scale_cpu_f32
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int V = 4;
constexpr int ITEMS = 1024; // per launch
constexpr int FINAL_THREADS = 1024;

struct squares_list {
    int count;
    int first[ITEMS + 1]; // blocks before an item; of [count]: all
    const float *x[ITEMS];
    int64_t elements[ITEMS];
    double *partials[ITEMS];
};
static_assert(sizeof(squares_list) < 32764, "kernel parameters are limited to 32764 bytes");

// The item that a block belongs to.
static __device__ __forceinline__ int find_item(const int *first, int count, int block)
{
    int low = 0;
    int high = count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first[middle] <= block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static __global__ void __launch_bounds__(THREADS)
    squares_kernel(const __grid_constant__ squares_list list)
{
    __shared__ float shared[WARPS];
    const int item = find_item(list.first, list.count, (int)blockIdx.x);
    const int block = (int)blockIdx.x - list.first[item];
    const int64_t start = (int64_t)block * BT_SQUARES_BLOCK;
    const float *x = list.x[item] + start;
    const int count = (int)min(list.elements[item] - start, (int64_t)BT_SQUARES_BLOCK);
    const bool vectors = ((uintptr_t)x & 15) == 0;
    float sum = 0.0f;
#pragma unroll 4
    for (int at = (int)threadIdx.x * V; at < count; at += THREADS * V) {
        float held[V] = {};
        if (vectors && at + V <= count) {
            load<V>(x + at, held);
        } else {
            for (int j = 0; j < V && at + j < count; ++j) {
                held[j] = x[at + j];
            }
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum += held[j] * held[j];
        }
    }
    sum = block_sum<WARPS>(sum, shared);
    if (threadIdx.x == 0) {
        list.partials[item][block] = sum;
    }
}

bt_status bt_sum_squares_cuda_f32(const bt_launch *launch, const void *call)
{
    const bt_sum_squares_args *args = (const bt_sum_squares_args *)call;
    for (int64_t at = 0; at < args->item_count;) {
        squares_list list;
        int blocks = 0;
        list.count = 0;
        for (; at < args->item_count && list.count < ITEMS; ++at) {
            const bt_sum_squares_item *item = &args->items[at];
            if (item->count > 0) {
                const int to = list.count++;
                list.first[to] = blocks;
                list.x[to] = (const float *)item->x;
                list.elements[to] = item->count;
                list.partials[to] = item->partials;
                blocks += (int)bt_div_up(item->count, BT_SQUARES_BLOCK);
            }
        }
        list.first[list.count] = blocks;
        if (blocks) {
            squares_kernel<<<(unsigned)blocks, THREADS, 0, bt_cuda_stream(launch)>>>(list);
            BT_TRY(bt_cuda_launched("sum_squares_cuda_f32"));
        }
    }
    return BT_OK;
}

static __global__ void __launch_bounds__(FINAL_THREADS)
    clip_kernel(const double *partials, int64_t count, double grad_scale, double max_norm,
                float *norm, float *scale)
{
    __shared__ double sums[FINAL_THREADS];
    const int at = (int)threadIdx.x;
    double sum = 0.0;
    for (int64_t i = at; i < count; i += FINAL_THREADS) {
        sum += partials[i];
    }
    sums[at] = sum;
    for (int half = FINAL_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at < half) {
            sums[at] += sums[at + half];
        }
    }
    if (at == 0) {
        const double length = grad_scale * sqrt(sums[0]);
        double factor = grad_scale;
        if (max_norm > 0 && max_norm < length + 1e-6) {
            factor *= max_norm / (length + 1e-6);
        }
        *norm = (float)length;
        *scale = isfinite((float)length) ? (float)factor : NAN;
    }
}

bt_status bt_clip_scale_cuda_f32(const bt_launch *launch, const void *call)
{
    const bt_clip_scale_args *args = (const bt_clip_scale_args *)call;
    clip_kernel<<<1, FINAL_THREADS, 0, bt_cuda_stream(launch)>>>(
        args->partials, args->count, args->grad_scale, args->max_norm, (float *)args->norm,
        (float *)args->scale);
    return bt_cuda_launched("clip_scale_cuda_f32");
}
