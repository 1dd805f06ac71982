// kernels/cuda/embedding_backward.cu - gradients of a table that many rows may have looked up
//   dtable[v,:] (+)= sum of dy[r,:] over rows with ids[r] == v, in ascending r
// The pairs (id, row) are sorted by id, stably, so rows of one id lie together in ascending order.
// The sorted list is cut into chunks of CHUNK pairs, a block each. A run of equal ids that lies
// inside its chunk is summed and written; a run that crosses chunks leaves a part per chunk, and a
// second kernel adds the parts in order. So a frequent id costs no more than its rows.
//
// Invariants
//   1. Each row of dtable is written by one block, once: no atomics, the same bits every time.
//   2. head[c] is the part of the run that entered chunk c from before (whole chunk or its start),
//      tail[c] that of the run that begins in chunk c and goes on.
//   Types      dy f32, bf16; sums and dtable f32
//   Workspace  sorted ids and rows, the sort's own, head and tail [chunks, cols] f32
//   Cost       reads dy once; sorting is a few passes over 8 bytes a row
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/cuda.cuh"

constexpr int CHUNK = 32;
constexpr int THREADS = 128;
constexpr int AHEAD = 4; // rows loaded before the first is added

// Parts of the workspace, in bytes from its start.
struct plan {
    size_t ids, rows_in, rows, head, tail, sort, sort_bytes, total;
    int bits; // of an id that the sort looks at
};

static plan make_plan(const bt_embedding_backward_args *args)
{
    plan at = {};
    size_t list_bytes = bt_align_256((size_t)args->rows * sizeof(int32_t));
    int64_t chunks = bt_div_up(args->rows, CHUNK);
    size_t part_bytes = bt_align_256((size_t)(chunks * args->cols) * sizeof(float));
    at.bits = 1;
    while (at.bits < 31 && ((int64_t)1 << at.bits) < args->vocab) {
        ++at.bits;
    }
    at.rows_in = list_bytes;
    at.rows = at.rows_in + list_bytes;
    at.head = at.rows + list_bytes;
    at.tail = at.head + part_bytes;
    at.sort = at.tail + part_bytes;
    const int32_t *none = NULL;
    int32_t *out = NULL;
    (void)cub::DeviceRadixSort::SortPairs(NULL, at.sort_bytes, none, out, none, out,
                                          (int)args->rows, 0, at.bits);
    at.total = at.sort + bt_align_256(at.sort_bytes);
    return at;
}

static __global__ void __launch_bounds__(THREADS) number_kernel(int32_t *rows, int64_t count)
{
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) {
        rows[at] = (int32_t)at;
    }
}

struct table_sums {
    const int32_t *ids, *rows; // sorted
    float *dtable, *head, *tail;
    int64_t count, cols;
    bool accumulate;
};

template <int V>
static __device__ __forceinline__ void put(const table_sums &with, int32_t id, int64_t col,
                                           float (&sum)[V])
{
    float *target = with.dtable + id * with.cols + col;
    if (with.accumulate) {
        float old[V];
        load<V>(target, old);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum[j] += old[j];
        }
    }
    store<V>(target, sum);
}

// blockIdx.x is the chunk, blockIdx.y the tile of columns.
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    chunk_kernel(const T *dy, const __grid_constant__ table_sums with)
{
    __shared__ int32_t ids[CHUNK];
    __shared__ int32_t rows[CHUNK];
    const int64_t chunk = blockIdx.x;
    const int64_t start = chunk * CHUNK;
    const int count = (int)min(with.count - start, (int64_t)CHUNK);
    const int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * V;
    if (threadIdx.x < count) {
        ids[threadIdx.x] = with.ids[start + threadIdx.x];
        rows[threadIdx.x] = with.rows[start + threadIdx.x];
    }
    __syncthreads();
    if (col >= with.cols) {
        return;
    }
    const bool enters = start > 0 && with.ids[start - 1] == ids[0];
    const bool goes_on = start + count < with.count && with.ids[start + count] == ids[count - 1];
    float sum[V] = {};
    bool first_run = true;
    for (int base = 0; base < count; base += AHEAD) {
        float held[AHEAD][V];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (base + i < count) {
                load<V>(dy + rows[base + i] * with.cols + col, held[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const int at = base + i;
            if (at < count) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    sum[j] += held[i][j];
                }
                const bool last = at + 1 == count;
                if (last || ids[at + 1] != ids[at]) {
                    if (first_run && enters) {
                        store<V>(with.head + chunk * with.cols + col, sum);
                    } else if (last && goes_on) {
                        store<V>(with.tail + chunk * with.cols + col, sum);
                    } else {
                        put<V>(with, ids[at], col, sum);
                    }
                    first_run = false;
#pragma unroll
                    for (int j = 0; j < V; ++j) {
                        sum[j] = 0.0f;
                    }
                }
            }
        }
    }
}

// Where a run begins in a chunk and goes on, its parts are added in order.
template <int V>
static __global__ void __launch_bounds__(THREADS)
    crossing_kernel(const __grid_constant__ table_sums with)
{
    const int64_t chunk = blockIdx.x;
    const int64_t start = chunk * CHUNK;
    const int64_t next = start + CHUNK;
    const int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * V;
    if (next >= with.count || col >= with.cols) {
        return;
    }
    const int32_t id = with.ids[next - 1];
    const bool whole = start > 0 && with.ids[start] == id && with.ids[start - 1] == id;
    if (with.ids[next] != id || whole) {
        return; // no run begins here that goes on
    }
    float sum[V];
    load<V>(with.tail + chunk * with.cols + col, sum);
    int64_t last = chunk + 1; // the last chunk that the run is in
    while ((last + 1) * CHUNK < with.count && with.ids[(last + 1) * CHUNK] == id) {
        ++last;
    }
#pragma unroll 16
    for (int64_t part = chunk + 1; part <= last; ++part) {
        float more[V];
        load<V>(with.head + part * with.cols + col, more);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum[j] += more[j];
        }
    }
    put<V>(with, id, col, sum);
}

// dposition[p,:] (+)= sum over rows p, p + positions, ... ; a block per position.
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    position_kernel(const T *dy, float *dposition, int64_t rows, int64_t cols, int64_t positions,
                    bool accumulate)
{
    const int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * V;
    if (col >= cols) {
        return;
    }
    float sum[V] = {};
    for (int64_t row = blockIdx.x; row < rows; row += positions * AHEAD) {
        float held[AHEAD][V] = {};
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (row + i * positions < rows) {
                load<V>(dy + (row + i * positions) * cols + col, held[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum[j] += held[i][j];
            }
        }
    }
    float *target = dposition + (int64_t)blockIdx.x * cols + col;
    if (accumulate) {
        float old[V];
        load<V>(target, old);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum[j] += old[j];
        }
    }
    store<V>(target, sum);
}

static bt_status sort_ids(const bt_launch *launch, const bt_embedding_backward_args *args,
                          const plan &at)
{
    char *base = (char *)launch->workspace;
    int32_t *rows_in = (int32_t *)(base + at.rows_in);
    size_t sort_bytes = at.sort_bytes;
    cudaStream_t stream = bt_cuda_stream(launch);
    unsigned grid = (unsigned)bt_div_up(args->rows, THREADS);
    number_kernel<<<grid, THREADS, 0, stream>>>(rows_in, args->rows);
    BT_TRY(bt_cuda_launched("embedding_backward_cuda"));
    return bt_cuda_check(cub::DeviceRadixSort::SortPairs(base + at.sort, sort_bytes, args->ids,
                                                         (int32_t *)(base + at.ids), rows_in,
                                                         (int32_t *)(base + at.rows),
                                                         (int)args->rows, 0, at.bits, stream),
                         "sorting ids");
}

template <typename T, int V>
static bt_status sum_rows(const bt_launch *launch, const bt_embedding_backward_args *args)
{
    const plan at = make_plan(args);
    char *base = (char *)launch->workspace;
    const T *dy = (const T *)args->dy;
    cudaStream_t stream = bt_cuda_stream(launch);
    const unsigned tiles = (unsigned)bt_div_up(args->cols, THREADS * V);
    BT_TRY(sort_ids(launch, args, at));
    const table_sums with = {
        (const int32_t *)(base + at.ids),
        (const int32_t *)(base + at.rows),
        (float *)args->dtable,
        (float *)(base + at.head),
        (float *)(base + at.tail),
        args->rows,
        args->cols,
        args->accumulate,
    };
    dim3 grid((unsigned)bt_div_up(args->rows, CHUNK), tiles);
    chunk_kernel<T, V><<<grid, THREADS, 0, stream>>>(dy, with);
    crossing_kernel<V><<<grid, THREADS, 0, stream>>>(with);
    if (args->dposition) {
        position_kernel<T, V><<<dim3((unsigned)args->positions, tiles), THREADS, 0, stream>>>(
            dy, (float *)args->dposition, args->rows, args->cols, args->positions,
            args->accumulate_position);
    }
    return bt_cuda_launched("embedding_backward_cuda");
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_embedding_backward_args *args = (const bt_embedding_backward_args *)call;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->cols == 0) {
        return BT_OK;
    }
    if (!args->accumulate) {
        size_t size_bytes = (size_t)(args->vocab * args->cols) * sizeof(float);
        BT_TRY(bt_cuda_check(cudaMemsetAsync(args->dtable, 0, size_bytes, stream), "clearing"));
    }
    if (args->rows == 0) {
        size_t size_bytes = (size_t)(args->positions * args->cols) * sizeof(float);
        return args->dposition && !args->accumulate_position
                   ? bt_cuda_check(cudaMemsetAsync(args->dposition, 0, size_bytes, stream),
                                   "clearing")
                   : BT_OK;
    }
    bool wide = args->cols % WIDE<T> == 0 && bt_aligned_16(args->dy) &&
                bt_aligned_16(args->dtable) && bt_aligned_16(args->dposition);
    return wide ? sum_rows<T, WIDE<T>>(launch, args) : sum_rows<T, 1>(launch, args);
}

bool bt_embedding_backward_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_embedding_backward_args *args = (const bt_embedding_backward_args *)call;
    return args->grad_dtype == BT_F32 && args->rows <= INT32_MAX && args->vocab <= INT32_MAX;
}

size_t bt_embedding_backward_cuda_workspace(const bt_device *device, const void *call)
{
    const bt_embedding_backward_args *args = (const bt_embedding_backward_args *)call;
    (void)bt_cuda_stream_of(device, NULL); // the sort asks the current device
    return args->rows ? make_plan(args).total : 0;
}

bt_status bt_embedding_backward_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_embedding_backward_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
