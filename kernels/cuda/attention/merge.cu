// kernels/cuda/attention/merge.cu - merges partial results of attention over subsets of the keys,
// or sums partial gradients: a thread per 16 bytes of a row (per element where a row is not
// aligned)
//
// Types  f32, bf16; weights and sums in f32, o rounded once
// Order  parts in the order of the list, whatever the launch: bitwise repeatable
// Cost   reads each part once, writes o; bound by HBM
// NaN    spreads to its row
// Errors accepts() is false above PARTS parts
// Oracle attention_merge_cpu_f32, max|err| of a few epsilon of the sum of magnitudes
#include "kernels/attention.h"
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int PARTS = 64;
constexpr int64_t BATCHES = 65535;

struct merge_call {
    bt_attention_part parts[PARTS];
    int part_count;
    bt_attention_view o;
    float *lse;
    int heads, tokens, head_dim;
};
static_assert(sizeof(merge_call) < 4096, "more than a kernel's parameters may hold");

static __device__ __forceinline__ int64_t row_at(const bt_attention_view &view, int64_t batch,
                                                 int64_t token, int64_t head)
{
    return batch * view.batch_stride + token * view.token_stride + head * view.head_stride;
}

static __device__ __forceinline__ float lse_of(const bt_attention_part &part, int64_t row,
                                               int64_t query)
{
    return static_cast<const float *>(part.lse)[row * part.tokens + query - part.first];
}

static __device__ __forceinline__ bool holds(const bt_attention_part &part, int64_t query)
{
    return query >= part.first && query < part.first + part.tokens;
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) merge_kernel(const __grid_constant__ merge_call c)
{
    const int packs = c.head_dim / V; // of a row
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (int64_t)c.tokens * c.heads * packs) {
        return;
    }
    const int batch = (int)blockIdx.y;
    const int row = (int)at / packs;
    const int col = ((int)at - row * packs) * V;
    const int query = row / c.heads;
    const int head = row - query * c.heads;
    const int64_t pair = (int64_t)batch * c.heads + head;
    float shift = 0.0f, inverse = 1.0f;
    if (c.lse) {
        float largest = -INFINITY, total = 0.0f;
        for (int n = 0; n < c.part_count; ++n) {
            if (holds(c.parts[n], query)) {
                largest = fmaxf(largest, lse_of(c.parts[n], pair, query));
            }
        }
        shift = largest > -INFINITY ? largest : 0.0f;
        for (int n = 0; n < c.part_count; ++n) {
            if (holds(c.parts[n], query)) {
                total += expf(lse_of(c.parts[n], pair, query) - shift);
            }
        }
        inverse = total > 0.0f || isnan(total) ? 1.0f / total : 1.0f;
        if (col == 0) {
            c.lse[pair * c.tokens + query] = total == 1.0f ? shift : shift + logf(total);
        }
    }
    float sum[V] = {};
    bool first = true; // its products are taken, not added to +0: a -0 keeps its sign
    for (int n = 0; n < c.part_count; ++n) {
        const bt_attention_part &part = c.parts[n];
        if (holds(part, query)) {
            const float weight = c.lse ? expf(lse_of(part, pair, query) - shift) : 1.0f;
            float value[V];
            load<V>(static_cast<const T *>(part.o.base) +
                        row_at(part.o, batch, query - part.first, head) + col,
                    value);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum[j] = first ? weight * value[j] : sum[j] + weight * value[j];
            }
            first = false;
        }
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
        sum[j] *= inverse;
    }
    store<V>(static_cast<T *>(c.o.base) + row_at(c.o, batch, query, head) + col, sum);
}

bool bt_attention_merge_cuda_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_attention_merge_args *op = (const bt_attention_merge_args *)args;
    return op->item_count <= PARTS && op->batch <= BATCHES && op->tokens <= INT32_MAX &&
           op->heads <= INT32_MAX && op->head_dim <= INT32_MAX &&
           (op->tokens == 0 || op->heads == 0 ||
            op->head_dim <= INT32_MAX / op->tokens / op->heads);
}

// Whether every row begins at an aligned place.
template <typename T> static bool is_aligned(const bt_attention_view &view)
{
    return (uintptr_t)view.base % 16 == 0 &&
           (view.batch_stride | view.token_stride | view.head_stride) % WIDE<T> == 0;
}

template <typename T>
static bt_status merge(const bt_launch *launch, const bt_attention_merge_args *op, const char *name)
{
    merge_call call = {};
    bool wide = op->head_dim % WIDE<T> == 0 && is_aligned<T>(op->o);
    for (int64_t n = 0; n < op->item_count; ++n) {
        call.parts[n] = op->items[n];
        wide = wide && is_aligned<T>(op->items[n].o);
    }
    call.part_count = (int)op->item_count;
    call.o = op->o;
    call.lse = (float *)op->lse;
    call.heads = (int)op->heads;
    call.tokens = (int)op->tokens;
    call.head_dim = (int)op->head_dim;
    const int64_t packs = op->tokens * op->heads * (op->head_dim / (wide ? WIDE<T> : 1));
    if (packs == 0 || op->batch == 0) {
        return BT_OK;
    }
    const dim3 grid((unsigned)bt_div_up(packs, THREADS), (unsigned)op->batch);
    if (wide) {
        merge_kernel<T, WIDE<T>><<<grid, THREADS, 0, bt_cuda_stream(launch)>>>(call);
    } else {
        merge_kernel<T, 1><<<grid, THREADS, 0, bt_cuda_stream(launch)>>>(call);
    }
    return bt_cuda_launched(name);
}

bt_status bt_attention_merge_cuda_f32(const bt_launch *launch, const void *args)
{
    return merge<float>(launch, (const bt_attention_merge_args *)args, "attention_merge_cuda_f32");
}

bt_status bt_attention_merge_cuda_bf16(const bt_launch *launch, const void *args)
{
    return merge<bf16>(launch, (const bt_attention_merge_args *)args, "attention_merge_cuda_bf16");
}
