// kernels/cuda/binary.cu - y = a op b over a common shape, with broadcasting
// The host side merges dimensions that are one in all three operands, so that equal contiguous
// operands are a single dimension and a bias is two. Packs of 16 bytes run along the last one
// where lengths and alignment allow it; an operand that is broadcast along it gives one element.
//   Types  f32, bf16; computed in float (IEEE division)
//   Cost   reads each operand once (broadcast ones from cache), writes y; bound by HBM
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int UNROLL = 2; // packs per thread

struct layout {
    int rank; // >= 1
    int64_t shape[BT_MAX_RANK];
    int64_t a_stride[BT_MAX_RANK];
    int64_t b_stride[BT_MAX_RANK];
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

// Offsets of a pack; the last dimension counts in packs of V.
template <int V>
static __device__ __forceinline__ void find(const layout &at, int64_t pack, int64_t *a, int64_t *b)
{
    if (at.rank == 1) {
        *a = pack * V * at.a_stride[0];
        *b = pack * V * at.b_stride[0];
        return;
    }
    *a = 0;
    *b = 0;
    for (int dim = at.rank - 1; dim >= 0; --dim) {
        const int width = dim == at.rank - 1 ? V : 1;
        const int64_t size = at.shape[dim] / width;
        int64_t rest = 0;
        if (dim > 0) {
            rest = pack <= 0x7fffffff && size <= 0x7fffffff
                       ? (int64_t)((unsigned)pack / (unsigned)size)
                       : pack / size;
        }
        const int64_t index = (pack - rest * size) * width;
        *a += index * at.a_stride[dim];
        *b += index * at.b_stride[dim];
        pack = rest;
    }
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

template <typename F, typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    binary_kernel(const T *a, const T *b, T *y, int64_t packs, const __grid_constant__ layout at)
{
    const int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    const int last = at.rank - 1;
    float left[UNROLL][V];
    float right[UNROLL][V];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const int64_t pack = first + i * THREADS;
        if (pack < packs) {
            int64_t a_at;
            int64_t b_at;
            find<V>(at, pack, &a_at, &b_at);
            fetch<V>(a + a_at, at.a_stride[last], left[i]);
            fetch<V>(b + b_at, at.b_stride[last], right[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const int64_t pack = first + i * THREADS;
        if (pack < packs) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                left[i][j] = F::apply(left[i][j], right[i][j]);
            }
            store<V>(y + pack * V, left[i]);
        }
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

template <typename F, typename T>
static bt_status run(const bt_launch *launch, const bt_binary_args *binary)
{
    constexpr int V = WIDE<T>;
    layout at = {};
    const int64_t count = simplify(binary, &at);
    const T *a = (const T *)binary->a;
    const T *b = (const T *)binary->b;
    T *y = (T *)binary->y;
    if (count == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    if (packs_fit(&at, binary, V)) {
        unsigned grid = (unsigned)bt_div_up(count / V, THREADS * UNROLL);
        binary_kernel<F, T, V><<<grid, THREADS, 0, stream>>>(a, b, y, count / V, at);
    } else {
        unsigned grid = (unsigned)bt_div_up(count, THREADS * UNROLL);
        binary_kernel<F, T, 1><<<grid, THREADS, 0, stream>>>(a, b, y, count, at);
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
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "binary function %d", (int)binary->function);
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
