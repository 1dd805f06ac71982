// kernels/cuda/embedding_backward.cu - gradients of a table that many rows may have looked up
//   dtable[v,:] (+)= sum of dy[r,:] over rows with ids[r] == v, in ascending r
// The pairs (id, row) are grouped by id, rows ascending: by embedding_group.cuh where it fits, else
// by a stable sort. The list is divided into chunks of CHUNK pairs, a block each. A run of up to
// CHUNK equal ids is summed and written by the block in whose chunk it begins. A longer run that
// crosses chunks gets a partial sum per chunk, and a second kernel adds these in order, so the cost
// of a frequent id is proportional to its rows. The grouping kernel also sums positions and clears
// rows of the table that no id refers to.
//
// Invariants
//   1. Each row of dtable is written by one block, once: no atomics, the same bits every time.
//   2. Of a run longer than CHUNK, tail[c] is the partial sum of the chunk c in which it begins,
//      head[c] that of a chunk c into which it continues.
//   Types      dy f32, bf16; sums and dtable f32
//   Workspace  ids and rows in that order, the sort's own, head and tail [chunks, cols] f32
//   Cost       reads dy twice (positions, table) and the rows of the table that ids name
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/embedding_group.cuh"
#include "kernels/cuda/parts.cuh"

constexpr int CHUNK = WARP;
constexpr int THREADS = 128;
constexpr int CHUNK_THREADS_MOST = 256;
constexpr int AHEAD = 4;                           // rows loaded before the first is added
constexpr int POSITION_AHEAD = 8;                  // the same for the positions
constexpr int SLICES = 4;                          // parts of a run added side by side
constexpr int CROSSINGS = THREADS * SLICES / WARP; // chunks that a block checks: one a warp
constexpr int64_t PART_ROWS = INT32_MAX;           // rows at a time, so that a row has 32 bits

// Parts of the workspace, in bytes from its start.
struct plan {
    size_t ids, rows_in, rows, head, tail, sort, sort_bytes, total;
    int bits;    // of an id that the sort uses
    bool groups; // embedding_group.cuh instead of the sort
};

static plan make_plan(const bt_embedding_backward_args *args)
{
    plan at = {};
    const int64_t rows = bt_min_i64(args->rows, PART_ROWS);
    size_t list_bytes = bt_align_256((size_t)rows * sizeof(int32_t));
    int64_t chunks = bt_div_up(rows, CHUNK);
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
    (void)cub::DeviceRadixSort::SortPairs(NULL, at.sort_bytes, none, out, none, out, (int)rows, 0,
                                          at.bits);
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

// A warp's view of a chunk: lane l has pair l of the chunk and pair l of the next chunk.
struct chunk_view {
    int32_t here, after;  // ids, or NO_ID
    int32_t first, last;  // of the chunk
    int skipped;          // pairs at its start that belong to the block before
    int borrowed;         // pairs of the next chunk that belong to this block
    bool enters, crosses; // a long run enters; another begins here and goes on
};
constexpr int32_t NO_ID = -1;

static __device__ __forceinline__ chunk_view look(const table_sums &with, int64_t chunk)
{
    const int64_t at = chunk * CHUNK + threadIdx.x % WARP;
    const int64_t earlier = at - CHUNK;
    const int32_t before = earlier >= 0 && earlier < with.count ? with.ids[earlier] : NO_ID;
    chunk_view view;
    view.here = at < with.count ? with.ids[at] : NO_ID;
    view.after = at + CHUNK < with.count ? with.ids[at + CHUNK] : NO_ID;
    view.first = __shfl_sync(ALL_LANES, view.here, 0);
    view.last = __shfl_sync(ALL_LANES, view.here, WARP - 1);
    // Equal ids are consecutive, so counts are run lengths.
    const int came = __popc(__ballot_sync(ALL_LANES, before == view.first));
    const int stays = __popc(__ballot_sync(ALL_LANES, view.here == view.first));
    const int ending = __popc(__ballot_sync(ALL_LANES, view.here == view.last));
    const int going = __popc(__ballot_sync(ALL_LANES, view.after == view.last));
    const bool through = came > 0 && view.first == view.last;
    view.enters = came > 0 && came + stays > CHUNK;
    view.crosses = view.last != NO_ID && !through && ending + going > CHUNK;
    view.skipped = came > 0 && !view.enters ? stays : 0;
    view.borrowed = view.last != NO_ID && !through && !view.crosses ? going : 0;
    return view;
}

// blockIdx.x is the chunk, blockIdx.y the tile of columns. The destination of each run is computed
// once for the block, so that old rows of the table are loaded together with rows of dy.
template <typename T, int V>
static __global__ void __launch_bounds__(CHUNK_THREADS_MOST)
    chunk_kernel(const T *dy, const __grid_constant__ table_sums with)
{
    __shared__ int32_t rows[2 * CHUNK];
    __shared__ float *target[2 * CHUNK]; // of the run that ends here; NULL: it goes on
    __shared__ bool adds[2 * CHUNK];     // to what is there
    __shared__ int first, count;         // pairs first <= i < count are the block's
    const int64_t chunk = blockIdx.x;
    const int64_t col = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * V;
    wait_for_previous();
    if (threadIdx.x < WARP) {
        const int lane = (int)threadIdx.x;
        const int64_t pair = chunk * CHUNK + lane;
        const chunk_view view = look(with, chunk);
        const int32_t following = __shfl_down_sync(ALL_LANES, view.here, 1);
        const bool entered = view.enters && view.here == view.first;
        const bool crosses = view.crosses && view.here == view.last;
        const bool goes_on = lane + 1 < WARP ? following == view.here : view.borrowed > 0;
        const bool table = !entered && !crosses;
        rows[lane] = view.here != NO_ID ? with.rows[pair] : 0;
        target[lane] = goes_on ? nullptr
                       : table ? with.dtable + view.here * with.cols
                               : (entered ? with.head : with.tail) + chunk * with.cols;
        adds[lane] = !goes_on && table && with.accumulate;
        rows[CHUNK + lane] = lane < view.borrowed ? with.rows[pair + CHUNK] : 0;
        target[CHUNK + lane] =
            lane + 1 == view.borrowed ? with.dtable + view.last * with.cols : nullptr;
        adds[CHUNK + lane] = lane + 1 == view.borrowed && with.accumulate;
        if (lane == 0) {
            first = view.skipped;
            count = (int)min(with.count - chunk * CHUNK, (int64_t)CHUNK) + view.borrowed;
        }
    }
    __syncthreads();
    float sum[V] = {};
    for (int base = first; base < count && col < with.cols; base += AHEAD) {
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
            if (base + i < count && adds[base + i]) {
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
    allow_next();
}

// Adds the partial sums of the run of `id` that begins in `chunk` and crosses it: SLICES of them in
// parallel, then the slices.
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

// A block searches CROSSINGS chunks for long runs that begin there and cross into the next.
template <int V>
static __global__ void __launch_bounds__(THREADS *SLICES)
    crossing_kernel(const __grid_constant__ table_sums with)
{
    __shared__ bool crosses[CROSSINGS];
    const int warp = (int)(threadIdx.y * THREADS + threadIdx.x) / WARP;
    const int64_t first = (int64_t)blockIdx.x * CROSSINGS;
    wait_for_previous();
    const chunk_view view = look(with, first + warp);
    if (threadIdx.x % WARP == 0) {
        crosses[warp] = view.crosses;
    }
    __syncthreads();
    for (int i = 0; i < CROSSINGS; ++i) {
        if (crosses[i]) {
            add_parts<V>(with, first + i);
        }
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

// The first `owners` blocks group rows by id, and clear the rows of `cleared` (the table, unless it
// accumulates) that no id refers to; the others sum positions.
template <typename T, int V>
static __global__ void __launch_bounds__(GROUP_THREADS)
    group_kernel(const int32_t *ids, int count, int owners, int vocab, int32_t *out_ids,
                 int32_t *out_rows, float *cleared, const __grid_constant__ position_sums<T> with)
{
    extern __shared__ uint32_t counts[];
    const int block = (int)blockIdx.x;
    const int warp = (int)threadIdx.x / WARP;
    wait_for_previous();
    if (block < owners) {
        unsigned unnamed = group_rows(ids, count, vocab, block, counts, out_ids, out_rows);
        for (; cleared && unnamed; unnamed &= unnamed - 1) {
            const int64_t bin = warp * WARP + __ffs((int)unnamed) - 1;
            float *row = cleared + (bin * GROUP_OWNERS + block) * with.cols;
            for (int64_t col = threadIdx.x % WARP * V; col < with.cols; col += WARP * V) {
                const float zeros[V] = {};
                store<V>(row + col, zeros);
            }
        }
    } else {
        sum_position<T, V>(with, (int64_t)(block - owners) * GROUP_WARPS + warp);
    }
    allow_next();
}

static bt_status sort_ids(const bt_launch *launch, const int32_t *ids, int count, const plan &at)
{
    char *base = (char *)launch->workspace;
    int32_t *rows_in = (int32_t *)(base + at.rows_in);
    size_t sort_bytes = at.sort_bytes;
    cudaStream_t stream = bt_cuda_stream(launch);
    unsigned grid = (unsigned)bt_div_up(count, THREADS);
    number_kernel<<<grid, THREADS, 0, stream>>>(rows_in, count);
    BT_TRY(bt_cuda_launched("embedding_backward_cuda"));
    return bt_cuda_check(cub::DeviceRadixSort::SortPairs(
                             base + at.sort, sort_bytes, ids, (int32_t *)(base + at.ids), rows_in,
                             (int32_t *)(base + at.rows), count, 0, at.bits, stream),
                         "sorting ids");
}

// Rows [first, first + PART_ROWS), added to the rows before; the positions of all rows with the
// first part.
template <typename T, int V>
static bt_status sum_part(const bt_launch *launch, const bt_embedding_backward_args *args,
                          int64_t first)
{
    const plan at = make_plan(args);
    const int count = (int)bt_min_i64(args->rows - first, PART_ROWS);
    char *base = (char *)launch->workspace;
    const int32_t *given = args->ids + first;
    int32_t *ids = (int32_t *)(base + at.ids);
    int32_t *rows = (int32_t *)(base + at.rows);
    const T *dy = (const T *)args->dy;
    float *dtable = (float *)args->dtable;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (!at.groups) {
        BT_TRY(sort_ids(launch, given, count, at));
    }
    const bool clears = !args->accumulate && first == 0;
    if (clears && !at.groups) {
        const size_t size_bytes = (size_t)(args->vocab * args->cols) * sizeof(float);
        BT_TRY(bt_cuda_check(cudaMemsetAsync(dtable, 0, size_bytes, stream), "clearing"));
    }
    const position_sums<T> positions = {
        dy,         (float *)args->dposition, args->rows,
        args->cols, args->positions,          args->accumulate_position,
    };
    const int owners = at.groups ? GROUP_OWNERS : 0;
    const int64_t units =
        args->dposition && first == 0 ? args->positions * bt_div_up(args->cols, WARP * V) : 0;
    const unsigned blocks = (unsigned)(owners + bt_div_up(units, GROUP_WARPS));
    if (blocks) {
        const size_t shared_bytes = at.groups ? group_shared_bytes(args->vocab) : 0;
        launch_after(launch->device, group_kernel<T, V>, blocks, GROUP_THREADS, shared_bytes,
                     stream, given, count, owners, (int)args->vocab, ids, rows,
                     clears ? dtable : nullptr, positions);
    }
    const table_sums with = {
        ids,   rows,       dtable,  (float *)(base + at.head), (float *)(base + at.tail),
        count, args->cols, !clears,
    };
    const int64_t threads = bt_min_i64(bt_div_up(args->cols, V * WARP) * WARP, CHUNK_THREADS_MOST);
    const int64_t chunks = bt_div_up(count, CHUNK);
    launch_after(launch->device, chunk_kernel<T, V>,
                 dim3((unsigned)chunks, (unsigned)bt_div_up(args->cols, threads * V)),
                 dim3((unsigned)threads), 0, stream, dy + first * args->cols, with);
    launch_after(
        launch->device, crossing_kernel<V>,
        dim3((unsigned)bt_div_up(chunks, CROSSINGS), (unsigned)bt_div_up(args->cols, THREADS * V)),
        dim3(THREADS, SLICES), 0, stream, with);
    return bt_cuda_launched("embedding_backward_cuda");
}

template <typename T, int V>
static bt_status sum_rows(const bt_launch *launch, const bt_embedding_backward_args *args)
{
    for (int64_t first = 0; first < args->rows; first += PART_ROWS) {
        BT_TRY((sum_part<T, V>(launch, args, first)));
    }
    return BT_OK;
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
    return args->grad_dtype == BT_F32;
}

size_t bt_embedding_backward_cuda_workspace(const bt_device *device, const void *call)
{
    const bt_embedding_backward_args *args = (const bt_embedding_backward_args *)call;
    (void)bt_cuda_stream_of(device, NULL); // the sort uses the current device
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
