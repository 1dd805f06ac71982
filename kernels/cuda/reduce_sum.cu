// kernels/cuda/reduce_sum.cu - y[o,i] (+)= scale * sum_r x[o,r,i]
// Long sums are split among blocks; the split depends only on shapes and SMs. Blocks write partial
// sums to the workspace, and a second kernel adds these in order.
//   rows     inner == 1: a warp per row where there are many of moderate length, else a block per
//            row or per part of it
//   columns  inner > 1: a block sums 32 packs of columns over 8 rows side by side
//   Types      x f32, bf16; y the same or f32; sums f32
//   Workspace  [splits, outer, inner] f32 when there are several parts
//   Cost       reads x once; bound by HBM
#include "kernels/cuda/parts.cuh"

constexpr int WARPS = 8;
constexpr int THREADS = WARPS * WARP;
constexpr int UNROLL = 8;     // loads in flight per thread, in rows
constexpr int ROWS_AHEAD = 8; // the same, in columns
constexpr int BLOCKS_PER_SM = 4;
constexpr int64_t SHORT_ROW = 1024; // a warp takes it, however few there are
constexpr int64_t WARP_PACKS = 640; // a warp takes so long a row where there are WARP_ROWS_PER_SM
constexpr int64_t WARP_ROWS_PER_SM = 32;
constexpr int64_t LEAST_ROWS = 64;       // of a part, in columns
constexpr int64_t LEAST_ELEMENTS = 8192; // of a part, in rows
// Fixed cost of a part, and of a second launch, in units of the time of one row of a block.
constexpr double PART_COST = 16;
constexpr double LAUNCH_COST = 32;

// Where sums go: to y scaled, or as they are to the parts.
template <typename Y> struct destination {
    Y *y;
    float *parts;  // NULL: straight to y
    int64_t count; // outer * inner
    float scale;
    bool accumulate;

    __device__ __forceinline__ void put(int64_t at, int64_t part, float sum) const
    {
        if (parts) {
            parts[part * count + at] = sum;
        } else {
            float old = accumulate ? to_float(y[at]) : 0.0f;
            y[at] = from_float<Y>(scale * sum + old);
        }
    }
};

// The sum of x[0..count) over `threads` threads, of which this is number `thread`: a sum for each
// element of a pack, then these.
template <int V, typename T>
static __device__ __forceinline__ float span_sum(const T *x, int64_t count, int thread, int threads)
{
    float sums[V] = {};
    const int64_t packs = count / V;
    for (int64_t first = thread; first < packs; first += (int64_t)threads * UNROLL) {
        raw<T, V> held[UNROLL] = {};
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * threads < packs) {
                held[i] = fetch<T, V>(x + (first + i * threads) * V);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            float more[V];
            convert<T, V>(held[i], more);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sums[j] += more[j];
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        sum += sums[j];
    }
    for (int64_t i = packs * V + thread; i < count; i += threads) {
        sum += to_float(x[i]);
    }
    return sum;
}

template <typename T, typename Y, int V>
static __global__ void __launch_bounds__(THREADS)
    short_rows_kernel(const T *x, int64_t reduce, destination<Y> to)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row < to.count) {
        const int lane = (int)threadIdx.x % WARP;
        float sum = warp_sum(span_sum<V>(x + row * reduce, reduce, lane, WARP));
        if (lane == 0) {
            to.put(row, 0, sum);
        }
    }
}

template <typename T, typename Y, int V>
static __global__ void __launch_bounds__(THREADS)
    long_rows_kernel(const T *x, int64_t reduce, int64_t per_part, destination<Y> to)
{
    __shared__ float shared[WARPS];
    const int64_t start = blockIdx.y * per_part;
    for (int64_t row = blockIdx.x; row < to.count; row += gridDim.x) {
        const int64_t count = max(min(reduce - start, per_part), (int64_t)0);
        float sum = span_sum<V>(x + row * reduce + start, count, (int)threadIdx.x, THREADS);
        sum = block_sum<WARPS>(sum, shared);
        if (threadIdx.x == 0) {
            to.put(row, blockIdx.y, sum);
        }
        __syncthreads();
    }
}

template <typename T, typename Y, int V>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    columns_kernel(const T *x, int64_t reduce, int64_t inner, int64_t per_part, destination<Y> to)
{
    __shared__ float sums[WARPS][WARP * V];
    const int64_t first_col = (int64_t)blockIdx.x * WARP * V;
    const int64_t col = first_col + threadIdx.x * V;
    const int64_t start = blockIdx.y * per_part;
    const int64_t end = min(start + per_part, reduce);
    const int64_t outer = to.count / inner;
    const int64_t step = WARPS * inner;
    wait_for_previous();
    for (int64_t o = blockIdx.z; o < outer; o += gridDim.z) {
        float sum[V] = {};
        for (int64_t r = start + threadIdx.y; r < end && col < inner; r += WARPS * ROWS_AHEAD) {
            const T *from = x + (o * reduce + r) * inner + col;
            raw<T, V> held[ROWS_AHEAD] = {};
#pragma unroll
            for (int i = 0; i < ROWS_AHEAD; ++i) {
                if (r + i * WARPS < end) {
                    held[i] = fetch<T, V>(from + i * step);
                }
            }
#pragma unroll
            for (int i = 0; i < ROWS_AHEAD; ++i) {
                float more[V];
                convert<T, V>(held[i], more);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    sum[j] += more[j];
                }
            }
        }
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sums[threadIdx.y][j * WARP + threadIdx.x] = sum[j]; // by lane: distinct banks
        }
        __syncthreads();
        // Thread t finishes the column whose sums lie at t: pack t % 32, element t / 32.
        const int t = (int)(threadIdx.y * WARP + threadIdx.x);
        const int64_t mine = first_col + (t % WARP) * V + t / WARP;
        if (t < WARP * V && mine < inner) {
            float total = 0.0f;
#pragma unroll
            for (int warp = 0; warp < WARPS; ++warp) {
                total += sums[warp][t];
            }
            to.put(o * inner + mine, blockIdx.y, total);
        }
        __syncthreads();
    }
    allow_next();
}

// A block adds the parts of 32 elements.
template <typename Y>
static __global__ void __launch_bounds__(PART_THREADS)
    parts_kernel(const float *parts, int64_t splits, destination<Y> to)
{
    const int64_t at = (int64_t)blockIdx.x * WARP + threadIdx.x;
    wait_for_previous();
    const float sum = parts_sum(parts + at, at < to.count ? splits : 0, to.count);
    if (threadIdx.y == 0 && at < to.count) {
        to.put(at, 0, sum);
    }
}

static bool is_wide(const bt_reduce_sum_args *args)
{
    int64_t width = 16 / (int64_t)bt_dtype_size(args->dtype);
    return bt_aligned_16(args->x) && (args->inner > 1 ? args->inner : args->reduce) % width == 0;
}

// Whether a sum over rows uses a warp per row.
static bool by_warps(const bt_device *device, const bt_reduce_sum_args *args)
{
    const int64_t width = is_wide(args) ? 16 / (int64_t)bt_dtype_size(args->dtype) : 1;
    return args->reduce <= SHORT_ROW ||
           (args->reduce / width <= WARP_PACKS &&
            args->outer >= WARP_ROWS_PER_SM * (int64_t)device->info.processor_count);
}

// Number of parts of a column sum: minimizes `waves * rows of a part` plus the fixed costs.
static int64_t column_splits(const bt_device *device, const bt_reduce_sum_args *args)
{
    const int64_t width = is_wide(args) ? 16 / (int64_t)bt_dtype_size(args->dtype) : 1;
    const int64_t tiles = args->outer * bt_div_up(args->inner, WARP * width);
    const int64_t slots = (int64_t)device->info.processor_count * BLOCKS_PER_SM;
    const int64_t most = bt_min_i64(bt_div_up(args->reduce, LEAST_ROWS), 2 * slots);
    const double row_bytes = (double)slots * WARP * 16;
    int64_t best = 1;
    double best_cost = 0;
    for (int64_t splits = 1; splits <= most; ++splits) {
        const double waves = (double)bt_div_up(tiles * splits, slots);
        const double rows = (double)bt_div_up(args->reduce, splits);
        const double parts = (double)(splits * args->outer * args->inner) * 2 * sizeof(float);
        const double cost =
            waves * (rows + PART_COST) + (splits > 1 ? LAUNCH_COST + parts / row_bytes : 0);
        if (splits == 1 || cost < best_cost) {
            best = splits;
            best_cost = cost;
        }
    }
    return best;
}

// Number of parts of a sum.
static int64_t split_count(const bt_device *device, const bt_reduce_sum_args *args)
{
    if (args->inner > 1) {
        return column_splits(device, args);
    }
    if (by_warps(device, args)) {
        return 1;
    }
    const int64_t wanted = (int64_t)device->info.processor_count * BLOCKS_PER_SM;
    const int64_t splits = bt_div_up(wanted, bt_max_i64(args->outer, 1));
    return bt_max_i64(1, bt_min_i64(splits, bt_div_up(args->reduce, LEAST_ELEMENTS)));
}

size_t bt_reduce_sum_cuda_workspace(const bt_device *device, const void *call)
{
    const bt_reduce_sum_args *args = (const bt_reduce_sum_args *)call;
    int64_t splits = split_count(device, args);
    return splits > 1 ? (size_t)(splits * args->outer * args->inner) * sizeof(float) : 0;
}

bool bt_reduce_sum_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_reduce_sum_args *args = (const bt_reduce_sum_args *)call;
    return args->y_dtype == args->dtype || args->y_dtype == BT_F32;
}

template <typename T, typename Y, int V>
static bt_status run(const bt_launch *launch, const bt_reduce_sum_args *args)
{
    const T *x = (const T *)args->x;
    const int64_t splits = split_count(launch->device, args);
    // Row sums: every part but the last consists of whole packs.
    const int64_t whole = args->inner > 1 ? 1 : 16;
    const int64_t per_part = bt_div_up(bt_div_up(args->reduce, splits), whole) * whole;
    const destination<Y> last = {(Y *)args->y, NULL, args->outer * args->inner, (float)args->scale,
                                 args->accumulate};
    destination<Y> to = last;
    to.parts = splits > 1 ? (float *)launch->workspace : NULL;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (to.count == 0) {
        return BT_OK;
    }
    if (args->inner > 1) {
        dim3 grid((unsigned)bt_div_up(args->inner, WARP * V), (unsigned)splits,
                  (unsigned)bt_min_i64(args->outer, 65535));
        launch_after(launch->device, columns_kernel<T, Y, V>, grid, dim3(WARP, WARPS), 0, stream, x,
                     args->reduce, args->inner, per_part, to);
    } else if (by_warps(launch->device, args)) {
        unsigned grid = (unsigned)bt_div_up(to.count, WARPS);
        short_rows_kernel<T, Y, V><<<grid, THREADS, 0, stream>>>(x, args->reduce, to);
    } else {
        dim3 grid((unsigned)bt_min_i64(to.count, 1 << 20), (unsigned)splits);
        long_rows_kernel<T, Y, V><<<grid, THREADS, 0, stream>>>(x, args->reduce, per_part, to);
    }
    if (to.parts) {
        unsigned grid = (unsigned)bt_div_up(to.count, WARP);
        launch_after(launch->device, parts_kernel<Y>, grid, dim3(WARP, PART_WARPS), 0, stream,
                     to.parts, splits, last);
    }
    return bt_cuda_launched("reduce_sum_cuda");
}

template <typename T, typename Y>
static bt_status choose(const bt_launch *launch, const bt_reduce_sum_args *args)
{
    return is_wide(args) ? run<T, Y, WIDE<T>>(launch, args) : run<T, Y, 1>(launch, args);
}

bt_status bt_reduce_sum_cuda_f32(const bt_launch *launch, const void *args)
{
    return choose<float, float>(launch, (const bt_reduce_sum_args *)args);
}

bt_status bt_reduce_sum_cuda_bf16(const bt_launch *launch, const void *call)
{
    const bt_reduce_sum_args *args = (const bt_reduce_sum_args *)call;
    return args->y_dtype == BT_F32 ? choose<bf16, float>(launch, args)
                                   : choose<bf16, bf16>(launch, args);
}
