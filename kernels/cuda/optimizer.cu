// kernels/cuda/optimizer.cu - gradient norm and AdamW over many tensors at once
//
// The list of tensors is a kernel parameter (at most 32 KiB), so nothing is copied and the launch
// can be captured. Tensors are divided into chunks, a block each, which balances the load whatever
// their sizes. Small calls have shorter chunks, to occupy all SMs. A list too long for one launch
// takes several.
//
// Invariants
//   1. first[i] is the number of chunks before tensor i; first[count] is the number of all chunks.
//   2. The partial sums of the norm lie in the workspace in the order of tensors and chunks; one
//      block adds them in a fixed order, in double.
//   Types  f32
//   Cost   norm reads 4 bytes an element; AdamW reads 16, writes 12, and 2 more with a bf16 copy
#include "kernels/cuda/parts.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int V = 4;
constexpr int CHUNK = THREADS * V * 8; // of the norm, and the longest of AdamW
constexpr int CHUNKS_PER_SM = 32;      // AdamW: at least, while chunks are not of the shortest
constexpr int NORM_ITEMS = 1024;       // per launch
constexpr int ADAMW_ITEMS = 480;
constexpr int FINAL_THREADS = 1024;

struct norm_list {
    int count;
    int first[NORM_ITEMS + 1];
    const float *grad[NORM_ITEMS];
    int64_t elements[NORM_ITEMS];
};

struct adamw_list {
    int count, chunk; // elements of a chunk
    int first[ADAMW_ITEMS + 1];
    float decay[ADAMW_ITEMS];
    float *param[ADAMW_ITEMS], *m[ADAMW_ITEMS], *v[ADAMW_ITEMS];
    const float *grad[ADAMW_ITEMS];
    bf16 *copy[ADAMW_ITEMS];
    int64_t elements[ADAMW_ITEMS];
};
static_assert(sizeof(norm_list) + 64 < 32764, "kernel parameters are limited to 32764 bytes");
static_assert(sizeof(adamw_list) + 64 < 32764, "kernel parameters are limited to 32764 bytes");

struct adamw_step {
    float lr, beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
    float correction1, correction2; // 1 / (1 - beta^t)
};

// The tensor that a chunk belongs to.
static __device__ __forceinline__ int find_item(const int *first, int count, int chunk)
{
    int low = 0;
    int high = count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (first[middle] <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static __device__ __forceinline__ bool is_aligned(const void *pointer)
{
    return ((uintptr_t)pointer & 15) == 0;
}

static __global__ void __launch_bounds__(THREADS)
    norm_kernel(const __grid_constant__ norm_list list, float *partials)
{
    __shared__ float shared[WARPS];
    const int item = find_item(list.first, list.count, (int)blockIdx.x);
    const int64_t start = (int64_t)((int)blockIdx.x - list.first[item]) * CHUNK;
    const float *grad = list.grad[item] + start;
    wait_for_previous();
    const int64_t count = min(list.elements[item] - start, (int64_t)CHUNK);
    float sum = 0.0f;
    if (count == CHUNK && is_aligned(grad)) {
        float held[CHUNK / (THREADS * V)][V];
#pragma unroll
        for (int i = 0; i < CHUNK / (THREADS * V); ++i) {
            load<V>(grad + (i * THREADS + threadIdx.x) * V, held[i]);
        }
#pragma unroll
        for (int i = 0; i < CHUNK / (THREADS * V); ++i) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum += held[i][j] * held[i][j];
            }
        }
    } else {
        for (int64_t i = threadIdx.x; i < count; i += THREADS) {
            sum += grad[i] * grad[i];
        }
    }
    sum = block_sum<WARPS>(sum, shared);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
    }
    allow_next();
}

static __global__ void __launch_bounds__(FINAL_THREADS)
    norm_final_kernel(const float *partials, int64_t count, double grad_scale, double max_norm,
                      float *norm, float *scale)
{
    __shared__ double sums[FINAL_THREADS];
    const int at = (int)threadIdx.x;
    double sum = 0.0;
    wait_for_previous();
    for (int64_t i = at; i < count; i += FINAL_THREADS) {
        sum += (double)partials[i];
    }
    sums[at] = sum;
    for (int half = FINAL_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at < half) {
            sums[at] += sums[at + half];
        }
    }
    if (at == 0) {
        double length = grad_scale * sqrt(sums[0]);
        double factor = grad_scale;
        if (max_norm > 0 && max_norm < length + 1e-6) {
            factor *= max_norm / (length + 1e-6);
        }
        *norm = (float)length;
        *scale = isfinite((float)length) ? (float)factor : NAN;
    }
}

template <int N>
static __device__ __forceinline__ void update(const adamw_step &step, float scale, float decay,
                                              float (&param)[N], const float (&grad)[N],
                                              float (&m)[N], float (&v)[N])
{
#pragma unroll
    for (int j = 0; j < N; ++j) {
        float g = grad[j] * scale;
        m[j] = step.beta1 * m[j] + step.one_minus_beta1 * g;
        v[j] = step.beta2 * v[j] + step.one_minus_beta2 * g * g;
        float down = sqrtf(v[j] * step.correction2) + step.epsilon;
        param[j] -= step.lr * (m[j] * step.correction1 / down + decay * param[j]);
    }
}

template <int N>
static __device__ __forceinline__ void update_at(const adamw_list &list, int item, int64_t at,
                                                 const adamw_step &step, float scale)
{
    // The scale is used after all loads have been issued.
    float param[N], grad[N], m[N], v[N];
    load<N>(list.grad[item] + at, grad);
    load<N>(list.param[item] + at, param);
    load<N>(list.m[item] + at, m);
    load<N>(list.v[item] + at, v);
    if (scale != scale) {
        return; // NaN: the gradients are not to be used
    }
    update(step, scale, list.decay[item], param, grad, m, v);
    store<N>(list.param[item] + at, param);
    store<N>(list.m[item] + at, m);
    store<N>(list.v[item] + at, v);
    if (list.copy[item]) {
        store<N>(list.copy[item] + at, param);
    }
}

static __global__ void __launch_bounds__(THREADS)
    adamw_kernel(const __grid_constant__ adamw_list list, const __grid_constant__ adamw_step step,
                 const float *scale)
{
    const int item = find_item(list.first, list.count, (int)blockIdx.x);
    const int64_t start = (int64_t)((int)blockIdx.x - list.first[item]) * list.chunk;
    const int64_t end = min(start + list.chunk, list.elements[item]);
    const bool wide = is_aligned(list.param[item]) && is_aligned(list.grad[item]) &&
                      is_aligned(list.m[item]) && is_aligned(list.v[item]) &&
                      is_aligned(list.copy[item]);
    int64_t at = start + threadIdx.x * V;
    wait_for_previous();
    const float factor = *scale;
    if (wide) {
#pragma unroll 2
        for (; at + V <= end; at += THREADS * V) {
            update_at<V>(list, item, at, step, factor);
        }
        for (; at < end; ++at) { // the one thread that the tail begins at
            update_at<1>(list, item, at, step, factor);
        }
    } else {
        for (at = start + threadIdx.x; at < end; at += THREADS) {
            update_at<1>(list, item, at, step, factor);
        }
    }
}

size_t bt_grad_norm_cuda_f32_workspace(const bt_device *device, const void *call)
{
    (void)device;
    const bt_grad_norm_args *args = (const bt_grad_norm_args *)call;
    int64_t chunks = 0;
    for (int64_t i = 0; i < args->item_count; ++i) {
        chunks += bt_div_up(args->items[i].count, CHUNK);
    }
    return (size_t)bt_max_i64(chunks, 1) * sizeof(float);
}

bt_status bt_grad_norm_cuda_f32(const bt_launch *launch, const void *call)
{
    const bt_grad_norm_args *args = (const bt_grad_norm_args *)call;
    float *partials = (float *)launch->workspace;
    cudaStream_t stream = bt_cuda_stream(launch);
    int64_t done = 0; // chunks
    for (int64_t item = 0; item < args->item_count;) {
        norm_list list;
        int chunks = 0;
        list.count = 0;
        for (; item < args->item_count && list.count < NORM_ITEMS; ++item) {
            if (args->items[item].count > 0) {
                list.first[list.count] = chunks;
                list.grad[list.count] = (const float *)args->items[item].grad;
                list.elements[list.count++] = args->items[item].count;
                chunks += (int)bt_div_up(args->items[item].count, CHUNK);
            }
        }
        list.first[list.count] = chunks;
        if (chunks) {
            launch_after(launch->device, norm_kernel, (unsigned)chunks, THREADS, 0, stream, list,
                         partials + done);
            BT_TRY(bt_cuda_launched("grad_norm_cuda_f32"));
        }
        done += chunks;
    }
    launch_after(launch->device, norm_final_kernel, dim3(1), dim3(FINAL_THREADS), 0, stream,
                 partials, done, args->grad_scale, args->max_norm, (float *)args->norm,
                 (float *)args->scale);
    return bt_cuda_launched("grad_norm_cuda_f32");
}

static adamw_step make_step(const bt_adamw_args *args)
{
    adamw_step step;
    step.lr = (float)args->lr;
    step.beta1 = (float)args->beta1;
    step.one_minus_beta1 = (float)(1 - args->beta1);
    step.beta2 = (float)args->beta2;
    step.one_minus_beta2 = (float)(1 - args->beta2);
    step.epsilon = (float)args->epsilon;
    step.correction1 = (float)(1 / (1 - pow(args->beta1, (double)args->step)));
    step.correction2 = (float)(1 / (1 - pow(args->beta2, (double)args->step)));
    return step;
}

static int chunk_of(const bt_device *device, const bt_adamw_args *args)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < args->item_count; ++i) {
        elements += args->items[i].count;
    }
    const int64_t shortest = THREADS * V;
    const int64_t even = elements / ((int64_t)device->info.processor_count * CHUNKS_PER_SM);
    return (int)bt_max_i64(shortest, bt_min_i64(even / shortest * shortest, CHUNK));
}

bt_status bt_adamw_cuda_f32(const bt_launch *launch, const void *call)
{
    const bt_adamw_args *args = (const bt_adamw_args *)call;
    const adamw_step step = make_step(args);
    const int chunk = chunk_of(launch->device, args);
    cudaStream_t stream = bt_cuda_stream(launch);
    for (int64_t at = 0; at < args->item_count;) {
        adamw_list list;
        int chunks = 0;
        list.count = 0;
        list.chunk = chunk;
        for (; at < args->item_count && list.count < ADAMW_ITEMS; ++at) {
            const bt_adamw_item *item = &args->items[at];
            if (item->count > 0) {
                int to = list.count++;
                list.first[to] = chunks;
                list.decay[to] = (float)item->decay;
                list.param[to] = (float *)item->param;
                list.m[to] = (float *)item->m;
                list.v[to] = (float *)item->v;
                list.grad[to] = (const float *)item->grad;
                list.copy[to] = (bf16 *)item->copy;
                list.elements[to] = item->count;
                chunks += (int)bt_div_up(item->count, chunk);
            }
        }
        list.first[list.count] = chunks;
        if (chunks) {
            launch_after(launch->device, adamw_kernel, (unsigned)chunks, THREADS, 0, stream, list,
                         step, (const float *)args->scale);
            BT_TRY(bt_cuda_launched("adamw_cuda_f32"));
        }
    }
    return BT_OK;
}
