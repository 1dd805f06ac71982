// kernels/cuda/embedding_backward.cu - gradients of a table that many rows may have looked up
//   dtable[v,:] (+)= sum of dy[r,:] over rows with ids[r] == v, in ascending r
// The pairs (id, row) are put in an order in which rows of one id lie together and ascend: by
// embedding_group.cuh where it fits, else by a stable sort. The list is cut into chunks of CHUNK
// pairs, a block each. A run of equal ids that lies inside its chunk is summed and written; a run
// that crosses chunks leaves a part per chunk, and a second kernel adds the parts in order. So a
// frequent id costs no more than its rows. Positions are summed while rows are brought together.
//
// Invariants
//   1. Each row of dtable is written by one block, once: no atomics, the same bits every time.
//   2. head[c] is the part of the run that entered chunk c from before (whole chunk or its start),
//      tail[c] that of the run that begins in chunk c and goes on.
//   Types      dy f32, bf16; sums and dtable f32
//   Workspace  ids and rows in that order, the sort's own, head and tail [chunks, cols] f32
//   Cost       reads dy twice (positions, table) and the rows of the table that ids name
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/embedding_group.cuh"
#include "kernels/cuda/parts.cuh"

constexpr int CHUNK = 32;
constexpr int THREADS = 128;
constexpr int AHEAD = 4;           // rows loaded before the first is added
constexpr int POSITION_AHEAD = 8;  // the same for the positions
constexpr int SLICES = 4;          // parts of a run added side by side
constexpr int CROSSINGS = 8;       // chunks that a block looks at
constexpr int CLEARING_PER_SM = 2; // blocks that clear the table

// Parts of the workspace, in bytes from its start.
struct plan {
    size_t ids, rows_in, rows, head, tail, sort, sort_bytes, total;
    int bits;    // of an id that the sort looks at
    bool groups; // embedding_group.cuh instead of the sort
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
    at.groups = group_fits(args->rows, args->vocab);
    if (at.groups) {
        at.total = at.sort;
        return at;
    }
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
    const int32_t *ids, *rows; // rows of an id together
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

// blockIdx.x is the chunk, blockIdx.y the tile of columns. What each row's end needs is worked out
// once for the block, so that the table's old rows are on their way together with dy's.
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    chunk_kernel(const T *dy, const __grid_constant__ table_sums with)
{
    __shared__ int32_t rows[CHUNK];
    __shared__ float *target[CHUNK]; // of the run that ends here; NULL: it goes on
    __shared__ bool adds[CHUNK];     // to what is there
    const int64_t chunk = blockIdx.x;
    const int64_t start = chunk * CHUNK;
    const int count = (int)min(with.count - start, (int64_t)CHUNK);
    const int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * V;
    wait_for_parts();
    if (threadIdx.x < CHUNK) {
        const int at = (int)threadIdx.x;
        const int64_t pair = start + at;
        float *to = nullptr;
        bool table = false;
        if (at < count) {
            const int32_t id = with.ids[pair];
            const int32_t first = with.ids[start];
            const bool goes_on = pair + 1 < with.count && with.ids[pair + 1] == id;
            const bool enters = start > 0 && first == id && with.ids[start - 1] == id;
            rows[at] = with.rows[pair];
            if (at + 1 == count || !goes_on) {
                table = !enters && !goes_on;
                to = table    ? with.dtable + id * with.cols
                     : enters ? with.head + chunk * with.cols
                              : with.tail + chunk * with.cols;
            }
        }
        target[at] = to;
        adds[at] = table && with.accumulate;
    }
    __syncthreads();
    float sum[V] = {};
    for (int base = 0; base < count && col < with.cols; base += AHEAD) {
        raw<T, V> held[AHEAD];
        float old[AHEAD][V];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (base + i < count) {
                held[i] = fetch<T, V>(dy + rows[base + i] * with.cols + col);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (adds[base + i]) {
                load<V>(target[base + i] + col, old[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (base + i < count) {
                float more[V];
                convert<T, V>(held[i], more);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    sum[j] += more[j];
                }
                if (target[base + i]) {
#pragma unroll
                    for (int j = 0; j < V; ++j) {
                        more[j] = adds[base + i] ? sum[j] + old[i][j] : sum[j];
                        sum[j] = 0.0f;
                    }
                    store<V>(target[base + i] + col, more);
                }
            }
        }
    }
    parts_follow();
}

// Adds the parts of the run of `id` that begins in `chunk` and goes on: SLICES of them side by
// side, then the slices.
template <int V>
static __device__ __forceinline__ void add_parts(const table_sums &with, int64_t chunk)
{
    __shared__ float sums[SLICES][V][THREADS];
    const int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * V;
    const int32_t id = with.ids[(chunk + 1) * CHUNK];
    int64_t end = chunk + 1; // past the last chunk that the run enters
    for (int found = THREADS * SLICES; found == THREADS * SLICES; end += found) {
        const int64_t pair = (end + threadIdx.y * THREADS + threadIdx.x) * CHUNK;
        found = __syncthreads_count(pair < with.count && with.ids[pair] == id);
    }
    float sum[V] = {};
    if (threadIdx.y == 0 && col < with.cols) {
        load<V>(with.tail + chunk * with.cols + col, sum);
    }
#pragma unroll 8
    for (int64_t part = chunk + 1 + threadIdx.y; part < end && col < with.cols; part += SLICES) {
        float more[V];
        load<V>(with.head + part * with.cols + col, more);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum[j] += more[j];
        }
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
        sums[threadIdx.y][j][threadIdx.x] = sum[j];
    }
    __syncthreads();
    if (threadIdx.y == 0 && col < with.cols) {
#pragma unroll
        for (int slice = 1; slice < SLICES; ++slice) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum[j] += sums[slice][j][threadIdx.x];
            }
        }
        put<V>(with, id, col, sum);
    }
}

// A block looks at CROSSINGS chunks for runs that begin there and go on.
template <int V>
static __global__ void __launch_bounds__(THREADS *SLICES)
    crossing_kernel(const __grid_constant__ table_sums with)
{
    wait_for_parts();
    const int64_t first = (int64_t)blockIdx.x * CROSSINGS;
    const int64_t start = (first + threadIdx.x % WARP) * CHUNK;
    const int64_t next = start + CHUNK;
    bool crosses = false;
    if (threadIdx.x % WARP < CROSSINGS && next < with.count) {
        const int32_t id = with.ids[next];
        const bool whole = start > 0 && with.ids[start] == id && with.ids[start - 1] == id;
        crosses = with.ids[next - 1] == id && !whole;
    }
    for (unsigned left = __ballot_sync(ALL_LANES, crosses); left; left &= left - 1) {
        add_parts<V>(with, first + __ffs((int)left) - 1);
    }
}

template <typename T> struct position_sums {
    const T *dy;
    float *dposition;
    int64_t rows, cols, positions;
    bool accumulate;
};

// dposition[p,:] (+)= sum over rows p, p + positions, ...; a warp per position and tile of columns.
template <typename T, int V>
static __device__ void sum_position(const position_sums<T> &with, int64_t unit)
{
    const int64_t tiles = (with.cols + WARP * V - 1) / (WARP * V);
    const int64_t position = unit / tiles;
    const int64_t col = (unit - position * tiles) * WARP * V + threadIdx.x % WARP * V;
    if (position >= with.positions || col >= with.cols) {
        return;
    }
    float sum[V] = {};
    for (int64_t row = position; row < with.rows; row += with.positions * POSITION_AHEAD) {
        raw<T, V> held[POSITION_AHEAD] = {};
#pragma unroll
        for (int i = 0; i < POSITION_AHEAD; ++i) {
            if (row + i * with.positions < with.rows) {
                held[i] = fetch<T, V>(with.dy + (row + i * with.positions) * with.cols + col);
            }
        }
#pragma unroll
        for (int i = 0; i < POSITION_AHEAD; ++i) {
            float more[V];
            convert<T, V>(held[i], more);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum[j] += more[j];
            }
        }
    }
    float *target = with.dposition + position * with.cols + col;
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

// A table to be cleared, in packs of 16 bytes, by `blocks` blocks.
struct clearing {
    float4 *table;
    int64_t packs;
    int blocks;
};

// The first `owners` blocks bring rows of an id together; meanwhile others clear the table, and the
// rest sum positions.
template <typename T, int V>
static __global__ void __launch_bounds__(GROUP_THREADS)
    group_kernel(const int32_t *ids, int owners, int vocab, int32_t *out_ids, int32_t *out_rows,
                 const __grid_constant__ clearing clear,
                 const __grid_constant__ position_sums<T> with)
{
    extern __shared__ uint32_t counts[];
    const int block = (int)blockIdx.x - owners;
    if (block < 0) {
        group_rows(ids, (int)with.rows, vocab, (int)blockIdx.x, counts, out_ids, out_rows);
    } else if (block < clear.blocks) {
        for (int64_t at = (int64_t)block * GROUP_THREADS + threadIdx.x; at < clear.packs;
             at += (int64_t)clear.blocks * GROUP_THREADS) {
            clear.table[at] = float4{0.0f, 0.0f, 0.0f, 0.0f};
        }
    } else {
        sum_position<T, V>(with,
                           (int64_t)(block - clear.blocks) * GROUP_WARPS + threadIdx.x / WARP);
    }
    parts_follow();
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
    int32_t *ids = (int32_t *)(base + at.ids);
    int32_t *rows = (int32_t *)(base + at.rows);
    const T *dy = (const T *)args->dy;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (!at.groups) {
        BT_TRY(sort_ids(launch, args, at));
    }
    const position_sums<T> positions = {
        dy,         (float *)args->dposition, args->rows,
        args->cols, args->positions,          args->accumulate_position,
    };
    const int owners = at.groups ? GROUP_OWNERS : 0;
    const int64_t table = args->vocab * args->cols;
    clearing clear = {};
    if (!args->accumulate && at.groups && V > 1) {
        clear = {(float4 *)args->dtable, table / WIDE<float>,
                 CLEARING_PER_SM * launch->device->info.processor_count};
    } else if (!args->accumulate) {
        BT_TRY(bt_cuda_check(
            cudaMemsetAsync(args->dtable, 0, (size_t)table * sizeof(float), stream), "clearing"));
    }
    const int64_t units = args->dposition ? args->positions * bt_div_up(args->cols, WARP * V) : 0;
    const unsigned blocks = (unsigned)(owners + clear.blocks + bt_div_up(units, GROUP_WARPS));
    if (blocks) {
        const size_t shared_bytes = at.groups ? group_shared_bytes(args->vocab) : 0;
        group_kernel<T, V><<<blocks, GROUP_THREADS, shared_bytes, stream>>>(
            args->ids, owners, (int)args->vocab, ids, rows, clear, positions);
    }
    const table_sums with = {
        ids,
        rows,
        (float *)args->dtable,
        (float *)(base + at.head),
        (float *)(base + at.tail),
        args->rows,
        args->cols,
        args->accumulate,
    };
    const dim3 grid((unsigned)bt_div_up(args->rows, CHUNK),
                    (unsigned)bt_div_up(args->cols, THREADS * V));
    launch_after(launch->device, chunk_kernel<T, V>, grid, dim3(THREADS), stream, dy, with);
    launch_after(launch->device, crossing_kernel<V>,
                 dim3((unsigned)bt_div_up(grid.x, CROSSINGS), grid.y), dim3(THREADS, SLICES),
                 stream, with);
    return bt_cuda_launched("embedding_backward_cuda");
}

template <typename T> static bt_status run(const bt_launch *launch, const void *call)
{
    const bt_embedding_backward_args *args = (const bt_embedding_backward_args *)call;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->cols == 0) {
        return BT_OK;
    }
    if (args->rows == 0) {
        if (!args->accumulate) {
            size_t size_bytes = (size_t)(args->vocab * args->cols) * sizeof(float);
            BT_TRY(bt_cuda_check(cudaMemsetAsync(args->dtable, 0, size_bytes, stream), "clearing"));
        }
        size_t size_bytes = (size_t)(args->positions * args->cols) * sizeof(float);
        return args->dposition && !args->accumulate_position
                   ? bt_cuda_check(cudaMemsetAsync(args->dposition, 0, size_bytes, stream),
                                   "clearing")
                   : BT_OK;
    }
    bool wide = args->cols % WIDE<T> == 0 && bt_aligned_16(args->dy) &&
                bt_aligned_16(args->dtable) && bt_aligned_16(args->dposition);
    return wide ? sum_rows<T, WIDE<float>>(launch, args) : sum_rows<T, 1>(launch, args);
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
