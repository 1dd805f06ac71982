// kernels/cuda/sum_parts.cu - y[b,r,:] = sum of row r of the parts that hold it
//
// A thread takes LOADS packs of one batch entry: 16 bytes each, or one element where a row of y or
// of a part is not aligned. What two parts have of them is requested before any of it is added.
// Types    f32, bf16; sums in f32, rounded once
// Order    parts in the order of the list: bitwise repeatable
// Cost     reads each part once, writes y once; bound by HBM
// Errors   accepts() is false above 64 parts, a batch of 65535, or 2^31 - 1 elements of an entry
// Oracle   sum_parts_cpu: the same bits, except for the payload of a NaN
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/overlap.cuh"

constexpr int PARTS = 64;
constexpr int LOADS = 4; // packs a thread
constexpr int PAIR = 2;  // parts whose loads are in flight together
constexpr int64_t BATCH_MOST = 65535;
static_assert(PARTS % PAIR == 0, "the last pair is whole: its second part may hold no row");
static_assert((DIVIDE_MOST + 1) % (STREAM_THREADS * LOADS) == 0,
              "packs past the end can be divided, too");

struct sum_part {
    const void *x;
    int64_t batch_stride, row_stride;
    uint32_t first, rows;
};

struct sum_call {
    sum_part parts[PARTS]; // those past part_count hold no row
    int part_count;
    uint32_t rows;
    divisor packs; // of a row
    void *y;
    int64_t y_batch_stride, y_row_stride;
};
static_assert(sizeof(sum_call) < 4096, "more than a kernel's parameters may hold");

// V times -0, which changes no number that it is added to: 0 would make 0 of -0.
template <typename T, int V> static __device__ __forceinline__ raw<T, V> negative_zeros()
{
    if constexpr (V == 1) {
        return from_float<T>(-0.0f);
    } else {
        constexpr uint32_t word = sizeof(T) == 2 ? 0x80008000u : 0x80000000u;
        return make_uint4(word, word, word, word);
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(STREAM_THREADS)
    sum_parts_kernel(const __grid_constant__ sum_call c)
{
    const int64_t batch = blockIdx.y;
    uint32_t row[LOADS], col[LOADS]; // past the end: a row that no part holds
    bool held[LOADS] = {};
    float sum[LOADS][V];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const uint32_t pack =
            blockIdx.x * (STREAM_THREADS * LOADS) + i * STREAM_THREADS + threadIdx.x;
        row[i] = c.packs.quotient(pack);
        col[i] = (pack - row[i] * c.packs.by) * V;
#pragma unroll
        for (int j = 0; j < V; ++j) {
            sum[i][j] = -0.0f;
        }
    }
    wait_for_previous();
    for (int n = 0; n < c.part_count; n += PAIR) {
        raw<T, V> loaded[PAIR][LOADS];
#pragma unroll
        for (int k = 0; k < PAIR; ++k) {
            const sum_part &part = c.parts[n + k];
            const T *x = static_cast<const T *>(part.x) + batch * part.batch_stride;
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                const uint32_t own = row[i] - part.first;
                loaded[k][i] = negative_zeros<T, V>();
                if (own < part.rows) {
                    loaded[k][i] = fetch<T, V>(x + own * part.row_stride + col[i]);
                    held[i] = true;
                }
            }
        }
#pragma unroll
        for (int k = 0; k < PAIR; ++k) {
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                float value[V];
                convert<T, V>(loaded[k][i], value);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    sum[i][j] += value[j];
                }
            }
        }
    }
    T *y = static_cast<T *>(c.y) + batch * c.y_batch_stride;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        if (row[i] < c.rows) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                sum[i][j] = held[i] ? sum[i][j] : 0.0f;
            }
            store<V>(y + row[i] * c.y_row_stride + col[i], sum[i]);
        }
    }
}

bool bt_sum_parts_cuda_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_sum_parts_args *op = (const bt_sum_parts_args *)args;
    return op->item_count <= PARTS && op->batch <= BATCH_MOST &&
           (op->rows == 0 || op->width <= DIVIDE_MOST / op->rows);
}

template <typename T, int V>
static void launch_packs(const bt_launch *launch, const bt_sum_parts_args *op, sum_call call)
{
    const int64_t packs = op->width / V;
    call.packs = divisor::make(packs);
    const dim3 grid((unsigned)bt_div_up(op->rows * packs, STREAM_THREADS * LOADS),
                    (unsigned)op->batch);
    launch_after(launch->device, sum_parts_kernel<T, V>, grid, STREAM_THREADS, 0,
                 bt_cuda_stream(launch), call);
}

// Whether every row begins at an aligned place.
template <typename T>
static bool rows_are_aligned(const void *base, int64_t batch_stride, int64_t row_stride)
{
    return bt_aligned_16(base) && batch_stride % WIDE<T> == 0 && row_stride % WIDE<T> == 0;
}

template <typename T> static bt_status run(const bt_launch *launch, const void *args)
{
    const bt_sum_parts_args *op = (const bt_sum_parts_args *)args;
    if (op->batch == 0 || op->rows == 0 || op->width == 0) {
        return BT_OK;
    }
    bool wide = op->width % WIDE<T> == 0 &&
                rows_are_aligned<T>(op->y, op->y_batch_stride, op->y_row_stride);
    sum_call call = {};
    for (int64_t n = 0; n < op->item_count; ++n) {
        const bt_sum_parts_item &part = op->items[n];
        if (part.rows > 0) {
            wide = wide && rows_are_aligned<T>(part.x, part.batch_stride, part.row_stride);
            call.parts[call.part_count++] = {part.x, part.batch_stride, part.row_stride,
                                             (uint32_t)part.first, (uint32_t)part.rows};
        }
    }
    call.rows = (uint32_t)op->rows;
    call.y = op->y;
    call.y_batch_stride = op->y_batch_stride;
    call.y_row_stride = op->y_row_stride;
    if (wide) {
        launch_packs<T, WIDE<T>>(launch, op, call);
    } else {
        launch_packs<T, 1>(launch, op, call);
    }
    return bt_cuda_launched("sum_parts_cuda");
}

bt_status bt_sum_parts_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float>(launch, args);
}

bt_status bt_sum_parts_cuda_bf16(const bt_launch *launch, const void *args)
{
    return run<bf16>(launch, args);
}
