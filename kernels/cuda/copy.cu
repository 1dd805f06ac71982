// kernels/cuda/copy.cu - y = x with conversion, any strides
//
// The host side first brings the call to its simplest form: dimensions of one element dropped, the
// rest sorted by y's stride and merged where both sides allow it. Then one of two kernels serves:
//   strided    packs of V elements along the last dimension, V = 8 or 16 bytes' worth where
//              strides and alignment allow it, otherwise 1
//   transpose  32 x 32 tiles through shared memory, where x is contiguous along another dimension
// Types    any to itself; f32 <-> bf16 (round to nearest even); u16 -> i32
// Cost     reads and writes each element once; bound by HBM
// Errors   accepts() is false for other pairs of types
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int UNROLL = 2; // packs per thread, all loaded before the first is stored
constexpr int TILE = 32;
constexpr int TILE_ROWS = 8;

struct layout {
    int rank; // >= 1
    int64_t shape[BT_MAX_RANK];
    int64_t x_stride[BT_MAX_RANK];
    int64_t y_stride[BT_MAX_RANK];
};

template <typename Y, typename X> __device__ __forceinline__ Y convert(X value) { return (Y)value; }
template <> __device__ __forceinline__ bf16 convert<bf16, float>(float value)
{
    return __float2bfloat16_rn(value);
}
template <> __device__ __forceinline__ float convert<float, bf16>(bf16 value)
{
    return __bfloat162float(value);
}

// Offsets of a pack: the last dimension counts in packs of V.
template <int V>
__device__ __forceinline__ void find(const layout &at, int64_t pack, int64_t *x, int64_t *y)
{
    *x = 0;
    *y = 0;
    for (int dim = at.rank - 1; dim > 0; --dim) {
        int64_t size = dim == at.rank - 1 ? at.shape[dim] / V : at.shape[dim];
        int64_t rest;
        if (pack <= 0x7fffffff && size <= 0x7fffffff) {
            rest = (int64_t)((unsigned)pack / (unsigned)size);
        } else {
            rest = pack / size;
        }
        int64_t index = (pack - rest * size) * (dim == at.rank - 1 ? V : 1);
        *x += index * at.x_stride[dim];
        *y += index * at.y_stride[dim];
        pack = rest;
    }
    pack *= at.rank == 1 ? V : 1;
    *x += pack * at.x_stride[0];
    *y += pack * at.y_stride[0];
}

template <typename X, typename Y, int V>
static __global__ void __launch_bounds__(THREADS)
    strided_kernel(const X *x, Y *y, int64_t packs, const __grid_constant__ layout at)
{
    int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    bt_pack<X, V> held[UNROLL];
    int64_t targets[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        int64_t pack = first + i * THREADS;
        if (pack < packs) {
            int64_t source;
            find<V>(at, pack, &source, &targets[i]);
            held[i] = *reinterpret_cast<const bt_pack<X, V> *>(x + source);
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * THREADS < packs) {
            bt_pack<Y, V> made;
#pragma unroll
            for (int j = 0; j < V; ++j) {
                made.at[j] = convert<Y, X>(held[i].at[j]);
            }
            *reinterpret_cast<bt_pack<Y, V> *>(y + targets[i]) = made;
        }
    }
}

// The last two dimensions are [rows, cols] with x_stride 1 along rows and y_stride 1 along cols;
// the dimensions before them are the batch.
template <typename X, typename Y>
static __global__ void __launch_bounds__(TILE *TILE_ROWS)
    transpose_kernel(const X *x, Y *y, int64_t batches, const __grid_constant__ layout at)
{
    __shared__ Y tile[TILE][TILE + 1];
    const int rows_dim = at.rank - 2;
    const int cols_dim = at.rank - 1;
    const int64_t rows = at.shape[rows_dim];
    const int64_t cols = at.shape[cols_dim];
    const int64_t tiles_down = (rows + TILE - 1) / TILE;
    const int64_t tiles_across = (cols + TILE - 1) / TILE;
    for (int64_t job = blockIdx.x; job < batches * tiles_down * tiles_across; job += gridDim.x) {
        int64_t row0 = job % tiles_down * TILE;
        int64_t col0 = job / tiles_down % tiles_across * TILE;
        int64_t batch = job / (tiles_down * tiles_across);
        int64_t x_base = 0;
        int64_t y_base = 0;
        for (int dim = rows_dim - 1; dim >= 0; --dim) {
            x_base += batch % at.shape[dim] * at.x_stride[dim];
            y_base += batch % at.shape[dim] * at.y_stride[dim];
            batch /= at.shape[dim];
        }
        for (int i = threadIdx.y; i < TILE; i += TILE_ROWS) {
            if (row0 + threadIdx.x < rows && col0 + i < cols) {
                tile[i][threadIdx.x] = convert<Y, X>(
                    x[x_base + row0 + threadIdx.x + (col0 + i) * at.x_stride[cols_dim]]);
            }
        }
        __syncthreads();
        for (int i = threadIdx.y; i < TILE; i += TILE_ROWS) {
            if (row0 + i < rows && col0 + threadIdx.x < cols) {
                y[y_base + (row0 + i) * at.y_stride[rows_dim] + col0 + threadIdx.x] =
                    tile[threadIdx.x][i];
            }
        }
        __syncthreads();
    }
}

// Drops dimensions of size 1, sorts by y's stride (largest first), merges neighbours that are one
// dimension on both sides. Returns the element count.
static int64_t simplify(const bt_copy_args *copy, layout *at)
{
    int64_t count = 1;
    at->rank = 0;
    for (int dim = 0; dim < copy->rank; ++dim) {
        count *= copy->shape[dim];
        if (copy->shape[dim] == 1) {
            continue;
        }
        int place = at->rank++;
        for (; place > 0 && at->y_stride[place - 1] < copy->y_stride[dim]; --place) {
            at->shape[place] = at->shape[place - 1];
            at->x_stride[place] = at->x_stride[place - 1];
            at->y_stride[place] = at->y_stride[place - 1];
        }
        at->shape[place] = copy->shape[dim];
        at->x_stride[place] = copy->x_stride[dim];
        at->y_stride[place] = copy->y_stride[dim];
    }
    int kept = 0;
    for (int dim = 1; dim < at->rank; ++dim) {
        if (at->x_stride[kept] == at->x_stride[dim] * at->shape[dim] &&
            at->y_stride[kept] == at->y_stride[dim] * at->shape[dim]) {
            at->shape[kept] *= at->shape[dim];
        } else {
            ++kept;
            at->shape[kept] = at->shape[dim];
        }
        at->x_stride[kept] = at->x_stride[dim];
        at->y_stride[kept] = at->y_stride[dim];
    }
    at->rank = at->rank ? kept + 1 : 1;
    if (kept == 0 && count == 1) {
        at->shape[0] = 1;
        at->x_stride[0] = 1;
        at->y_stride[0] = 1;
    }
    return count;
}

// Whether packs of `width` elements along the last dimension are whole and aligned on both sides.
static bool packs_fit(const layout *at, const bt_copy_args *copy, int64_t width)
{
    int last = at->rank - 1;
    bool fit = at->x_stride[last] == 1 && at->y_stride[last] == 1 && at->shape[last] % width == 0 &&
               bt_aligned_16(copy->x) && bt_aligned_16(copy->y);
    for (int dim = 0; dim < last; ++dim) {
        fit = fit && at->x_stride[dim] % width == 0 && at->y_stride[dim] % width == 0;
    }
    return fit;
}

// Moves the dimension along which x is contiguous next to the last; false when there is none.
static bool arrange_transpose(layout *at)
{
    int last = at->rank - 1;
    if (at->rank < 2 || at->y_stride[last] != 1 || at->x_stride[last] == 1) {
        return false;
    }
    for (int dim = 0; dim < last; ++dim) {
        if (at->x_stride[dim] == 1 && at->shape[dim] >= TILE / 2 && at->shape[last] >= TILE / 2) {
            int64_t shape = at->shape[dim];
            int64_t y_stride = at->y_stride[dim];
            for (int i = dim; i < last - 1; ++i) {
                at->shape[i] = at->shape[i + 1];
                at->x_stride[i] = at->x_stride[i + 1];
                at->y_stride[i] = at->y_stride[i + 1];
            }
            at->shape[last - 1] = shape;
            at->x_stride[last - 1] = 1;
            at->y_stride[last - 1] = y_stride;
            return true;
        }
    }
    return false;
}

template <typename X, typename Y>
static bt_status run(const bt_launch *launch, const bt_copy_args *copy)
{
    constexpr int V = 16 / (int)(sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y));
    layout at = {};
    int64_t count = simplify(copy, &at);
    if (count == 0) {
        return BT_OK;
    }
    const X *x = (const X *)copy->x;
    Y *y = (Y *)copy->y;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (packs_fit(&at, copy, V)) {
        unsigned grid = (unsigned)bt_div_up(count / V, THREADS * UNROLL);
        strided_kernel<X, Y, V><<<grid, THREADS, 0, stream>>>(x, y, count / V, at);
    } else if (arrange_transpose(&at)) {
        int64_t jobs =
            bt_div_up(at.shape[at.rank - 2], TILE) * bt_div_up(at.shape[at.rank - 1], TILE);
        int64_t batches = count / (at.shape[at.rank - 2] * at.shape[at.rank - 1]);
        unsigned grid = bt_cuda_grid(launch->device, jobs * batches, 32);
        transpose_kernel<X, Y><<<grid, dim3(TILE, TILE_ROWS), 0, stream>>>(x, y, batches, at);
    } else {
        unsigned grid = (unsigned)bt_div_up(count, THREADS * UNROLL);
        strided_kernel<X, Y, 1><<<grid, THREADS, 0, stream>>>(x, y, count, at);
    }
    return bt_cuda_launched("copy_cuda");
}

bool bt_copy_cuda_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_copy_args *copy = (const bt_copy_args *)args;
    bt_dtype x = copy->x_dtype;
    bt_dtype y = copy->y_dtype;
    return x == y || (x == BT_F32 && y == BT_BF16) || (x == BT_BF16 && y == BT_F32) ||
           (x == BT_U16 && y == BT_I32);
}

bt_status bt_copy_cuda(const bt_launch *launch, const void *args)
{
    const bt_copy_args *copy = (const bt_copy_args *)args;
    if (copy->x_dtype == BT_F32 && copy->y_dtype == BT_BF16) {
        return run<float, bf16>(launch, copy);
    }
    if (copy->x_dtype == BT_BF16 && copy->y_dtype == BT_F32) {
        return run<bf16, float>(launch, copy);
    }
    if (copy->x_dtype == BT_U16 && copy->y_dtype == BT_I32) {
        return run<uint16_t, int32_t>(launch, copy);
    }
    switch (bt_dtype_size(copy->x_dtype)) {
    case 1:
        return run<uint8_t, uint8_t>(launch, copy);
    case 2:
        return run<uint16_t, uint16_t>(launch, copy);
    case 4:
        return run<uint32_t, uint32_t>(launch, copy);
    default:
        return run<uint64_t, uint64_t>(launch, copy);
    }
}
