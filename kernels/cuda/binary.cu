// kernels/cuda/binary.cu - y = a op b over a common shape, with broadcasting
// The host side merges dimensions that are one in all three operands, so that equal contiguous
// operands are a single dimension and a bias is two. Packs of 16 bytes run along the last one
// where lengths and alignment allow it; an operand that is broadcast along it gives one element. A
// bias of many columns has a kernel of its own.
//   Types  f32, bf16; computed in float (IEEE division)
//   Cost   reads each operand once (broadcast ones from cache), writes y; bound by HBM
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/divide.cuh"

constexpr int ROW_PACKS = 256;      // of a block that has a whole row, at most
constexpr int ROW_LEAST_PACKS = 64; // of a row: fewer leave the block too small
constexpr int64_t ROW_MOST_COLS = 1 << 30;
constexpr int64_t ROW_MOST_ROWS = 65535; // of a launch: the grid's second dimension

struct layout {
    int rank; // >= 1
    int64_t shape[BT_MAX_RANK];
    int64_t a_stride[BT_MAX_RANK];
    int64_t b_stride[BT_MAX_RANK];
    divisor by[BT_MAX_RANK]; // the shape, its last dimension in packs; unless LARGE
};

struct ADD {
    static __device__ float apply(float a, float b) { return a + b; }
};
struct SUB {
    static __device__ float apply(float a, float b) { return a - b; }
};
struct MUL {
    static __device__ float apply(float a, float b) { return a * b; }
};
struct DIV {
    static __device__ float apply(float a, float b) { return a / b; }
};

// Offsets of a pack; the last dimension counts in packs of V. LARGE: the number of packs does not
// fit `divisor`.
template <int V, bool LARGE>
static __device__ __forceinline__ void find(const layout &at, int64_t pack, int64_t *a, int64_t *b)
{
    *a = 0;
    *b = 0;
    int width = V;
    for (int dim = at.rank - 1; dim > 0; --dim) {
        const int64_t rest =
            LARGE ? pack / (at.shape[dim] / width) : (int64_t)at.by[dim].quotient((uint32_t)pack);
        const int64_t index =
            LARGE ? (pack - rest * (at.shape[dim] / width)) * width
                  : (int64_t)((uint32_t)pack - (uint32_t)rest * at.by[dim].by) * width;
        *a += index * at.a_stride[dim];
        *b += index * at.b_stride[dim];
        pack = rest;
        width = 1;
    }
    *a += pack * width * at.a_stride[0];
    *b += pack * width * at.b_stride[0];
}

// V elements along the last dimension: contiguous, or one for all.
template <int V, typename T>
static __device__ __forceinline__ void fetch(const T *from, int64_t stride, float (&to)[V])
{
    if (V == 1 || stride != 0) {
        load<V>(from, to);
    } else {
        const float one = to_float(*from);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            to[j] = one;
        }
    }
}

template <typename F, typename T, int V, bool LARGE>
static __global__ void __launch_bounds__(STREAM_THREADS)
    binary_kernel(const T *a, const T *b, T *y, int64_t packs, const __grid_constant__ layout at)
{
    const int64_t pack = (int64_t)blockIdx.x * STREAM_THREADS + threadIdx.x;
    if (pack >= packs) {
        return;
    }
    const int last = at.rank - 1;
    int64_t a_at;
    int64_t b_at;
    float left[V];
    float right[V];
    find<V, LARGE>(at, pack, &a_at, &b_at);
    fetch<V>(a + a_at, at.a_stride[last], left);
    fetch<V>(b + b_at, at.b_stride[last], right);
#pragma unroll
    for (int j = 0; j < V; ++j) {
        left[j] = F::apply(left[j], right[j]);
    }
    store<V>(y + pack * V, left);
}

// a [rows, cols] op b [cols]: a block has a piece of one row, so that no index is divided.
template <typename F, typename T>
static __global__ void __launch_bounds__(ROW_PACKS)
    row_kernel(const T *a, const T *b, T *y, int64_t first_row, int cols)
{
    constexpr int V = WIDE<T>;
    const int col = (int)(blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (col < cols) {
        const int64_t at = (first_row + blockIdx.y) * cols + col;
        float left[V];
        float right[V];
        load<V>(a + at, left);
        load<V>(b + col, right);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            left[j] = F::apply(left[j], right[j]);
        }
        store<V>(y + at, left);
    }
}

// Whether that is what the call is, of whole packs.
static bool is_row(const layout &at, int64_t width)
{
    return at.rank == 2 && at.a_stride[1] == 1 && at.a_stride[0] == at.shape[1] &&
           at.b_stride[0] == 0 && at.b_stride[1] == 1 && at.shape[1] <= ROW_MOST_COLS &&
           at.shape[1] >= ROW_LEAST_PACKS * width;
}

template <typename F, typename T>
static void launch_row(cudaStream_t stream, const bt_binary_args *binary, const layout &at)
{
    const int64_t packs = at.shape[1] / WIDE<T>;
    const int64_t wide = packs <= ROW_PACKS ? packs : STREAM_THREADS;
    for (int64_t row = 0; row < at.shape[0]; row += ROW_MOST_ROWS) {
        const dim3 grid((unsigned)bt_div_up(packs, wide),
                        (unsigned)bt_min_i64(at.shape[0] - row, ROW_MOST_ROWS));
        row_kernel<F, T><<<grid, (unsigned)wide, 0, stream>>>(
            (const T *)binary->a, (const T *)binary->b, (T *)binary->y, row, (int)at.shape[1]);
    }
}

// Drops dimensions of size 1 and merges neighbours. Returns the element count.
static int64_t simplify(const bt_binary_args *binary, layout *at)
{
    int64_t count = 1;
    at->rank = 0;
    for (int dim = 0; dim < binary->rank; ++dim) {
        const int64_t size = binary->shape[dim];
        const int64_t a = binary->a_stride[dim];
        const int64_t b = binary->b_stride[dim];
        const int before = at->rank - 1;
        count *= size;
        if (size == 1) {
            continue;
        }
        if (at->rank > 0 && at->a_stride[before] == a * size && at->b_stride[before] == b * size) {
            at->shape[before] *= size;
            at->a_stride[before] = a;
            at->b_stride[before] = b;
        } else {
            at->shape[at->rank] = size;
            at->a_stride[at->rank] = a;
            at->b_stride[at->rank++] = b;
        }
    }
    if (at->rank == 0) {
        at->rank = 1;
        at->shape[0] = 1;
    }
    return count;
}

static bool packs_fit(const layout *at, const bt_binary_args *binary, int64_t width)
{
    const int last = at->rank - 1;
    bool a_wide = at->a_stride[last] == 1 && bt_aligned_16(binary->a);
    bool b_wide = at->b_stride[last] == 1 && bt_aligned_16(binary->b);
    for (int dim = 0; dim < last; ++dim) {
        a_wide = a_wide && at->a_stride[dim] % width == 0;
        b_wide = b_wide && at->b_stride[dim] % width == 0;
    }
    return at->shape[last] % width == 0 && bt_aligned_16(binary->y) &&
           (a_wide || at->a_stride[last] == 0) && (b_wide || at->b_stride[last] == 0);
}

template <typename F, typename T, int V>
static void launch_packs(cudaStream_t stream, const bt_binary_args *binary, int64_t packs,
                         layout at)
{
    const T *a = (const T *)binary->a;
    const T *b = (const T *)binary->b;
    T *y = (T *)binary->y;
    const unsigned grid = (unsigned)bt_div_up(packs, STREAM_THREADS);
    for (int dim = 0; dim < at.rank && packs <= DIVIDE_MOST; ++dim) {
        at.by[dim] = divisor::make(dim == at.rank - 1 ? at.shape[dim] / V : at.shape[dim]);
    }
    if (packs > DIVIDE_MOST) {
        binary_kernel<F, T, V, true><<<grid, STREAM_THREADS, 0, stream>>>(a, b, y, packs, at);
    } else {
        binary_kernel<F, T, V, false><<<grid, STREAM_THREADS, 0, stream>>>(a, b, y, packs, at);
    }
}

template <typename F, typename T>
static bt_status run(const bt_launch *launch, const bt_binary_args *binary)
{
    layout at = {};
    const int64_t count = simplify(binary, &at);
    if (count == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    const bool wide = packs_fit(&at, binary, WIDE<T>);
    if (wide && is_row(at, WIDE<T>)) {
        launch_row<F, T>(stream, binary, at);
    } else if (wide) {
        launch_packs<F, T, WIDE<T>>(stream, binary, count / WIDE<T>, at);
    } else {
        launch_packs<F, T, 1>(stream, binary, count, at);
    }
    return bt_cuda_launched("binary_cuda");
}

template <typename T> static bt_status choose(const bt_launch *launch, const void *args)
{
    const bt_binary_args *binary = (const bt_binary_args *)args;
    switch (binary->function) {
#define BINARY_CASE(name, text)                                                                    \
    case BT_BINARY_##name:                                                                         \
        return run<name, T>(launch, binary);
        BT_BINARY_LIST(BINARY_CASE)
#undef BINARY_CASE
    default:
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown binary function %d",
                        (int)binary->function);
    }
}

bt_status bt_binary_cuda_f32(const bt_launch *launch, const void *args)
{
    return choose<float>(launch, args);
}

bt_status bt_binary_cuda_bf16(const bt_launch *launch, const void *args)
{
    return choose<bf16>(launch, args);
}
