// kernels/cuda/copy.cu - y = x with conversion, any strides
//
// The host first simplifies the call: it drops dimensions of one element, sorts the rest by y's
// stride, and merges neighbours where both sides allow it. Then it launches one of two kernels:
//   strided    packs of V elements along the last dimension, V being 16 bytes' worth of y where
//              strides and alignment allow it, otherwise 1
//   transpose  tiles through shared memory, where x is contiguous along another dimension; on both
//              sides a thread moves P elements at a time, 4 bytes' worth of the smaller type, where
//              strides and alignment allow it
// Types    any to itself; f32 <-> bf16 (round to nearest even); u16 -> i32; i32 <-> f32
// Cost     reads and writes each element once; bound by HBM
// Errors   accepts() is false for other pairs of types
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/overlap.cuh"

constexpr int TILE_WARPS = 8;
constexpr int TILE_MANY = 64;     // columns of a tile of the transpose, at least
constexpr int TRANSPOSE_MIN = 16; // a dimension shorter than that is not worth a tile

struct layout {
    int rank; // >= 1
    int64_t shape[BT_MAX_RANK];
    int64_t x_stride[BT_MAX_RANK];
    int64_t y_stride[BT_MAX_RANK];
    divisor by[BT_MAX_RANK]; // strided: the shape, its last dimension in packs; unless LARGE
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

// Offsets of a pack: the last dimension counts in packs of V. LARGE: the number of packs does not
// fit `divisor`.
template <int V, bool LARGE>
__device__ __forceinline__ void find(const layout &at, int64_t pack, int64_t *x, int64_t *y)
{
    *x = 0;
    *y = 0;
    int width = V;
    for (int dim = at.rank - 1; dim > 0; --dim) {
        const int64_t rest =
            LARGE ? pack / (at.shape[dim] / width) : (int64_t)at.by[dim].quotient((uint32_t)pack);
        const int64_t index =
            LARGE ? (pack - rest * (at.shape[dim] / width)) * width
                  : (int64_t)((uint32_t)pack - (uint32_t)rest * at.by[dim].by) * width;
        *x += index * at.x_stride[dim];
        *y += index * at.y_stride[dim];
        pack = rest;
        width = 1;
    }
    *x += pack * width * at.x_stride[0];
    *y += pack * width * at.y_stride[0];
}

template <typename X, typename Y, int V, bool LARGE>
static __global__ void __launch_bounds__(STREAM_THREADS)
    strided_kernel(const X *x, Y *y, int64_t packs, const __grid_constant__ layout at)
{
    const int64_t pack = (int64_t)blockIdx.x * STREAM_THREADS + threadIdx.x;
    wait_for_previous();
    if (pack >= packs) {
        return;
    }
    int64_t source;
    int64_t target;
    find<V, LARGE>(at, pack, &source, &target);
    const bt_pack<X, V> held = *reinterpret_cast<const bt_pack<X, V> *>(x + source);
    bt_pack<Y, V> made;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        made.at[j] = convert<Y, X>(held.at[j]);
    }
    *reinterpret_cast<bt_pack<Y, V> *>(y + target) = made;
}

// The smaller of two types: the type of a tile in shared memory.
template <typename X, typename Y> using smaller = std::conditional_t<(sizeof(Y) < sizeof(X)), Y, X>;

// The last two dimensions are [rows, cols] with x_stride 1 along rows and y_stride 1 along cols;
// the dimensions before them are the batch, whose sizes `by` divides by, after the tiles across
// and down. A block makes a tile of ROWS x COLS: a warp reads P rows a lane of one column, and
// writes P columns a lane of P rows. Words of P elements keep the lanes of a warp in distinct
// banks, but for pairs when P > 1.
template <int P> struct tile_size {
    static constexpr int ROWS = WARP * P;
    static constexpr int COLS = ROWS > TILE_MANY ? ROWS : TILE_MANY;
};

template <typename X, typename Y, int P>
static __global__ void __launch_bounds__(TILE_WARPS *WARP)
    transpose_kernel(const X *x, Y *y, divisor down, divisor across,
                     const __grid_constant__ layout at)
{
    using S = smaller<X, Y>;
    using word = bt_pack<S, P>;
    constexpr int ROWS = tile_size<P>::ROWS;
    constexpr int COLS = tile_size<P>::COLS;
    constexpr int LOADS = COLS / TILE_WARPS; // words a thread
    __shared__ word tile[COLS][WARP + 1];
    const int rows_dim = at.rank - 2;
    const int cols_dim = at.rank - 1;
    const int lane = (int)threadIdx.x;
    const int warp = (int)threadIdx.y;
    const uint32_t strip = across.quotient(blockIdx.x);
    uint32_t batch = down.quotient(strip);
    const int64_t row0 = (int64_t)(strip - batch * down.by) * ROWS;
    const int64_t col0 = (int64_t)(blockIdx.x - strip * across.by) * COLS;
    const int64_t rows = at.shape[rows_dim] - row0;
    const int64_t cols = at.shape[cols_dim] - col0;
    const int64_t x_step = at.x_stride[cols_dim];
    const int64_t y_step = at.y_stride[rows_dim];
    x += row0 + col0 * x_step;
    y += row0 * y_step + col0;
    for (int dim = rows_dim - 1; dim >= 0; --dim) {
        const uint32_t rest = at.by[dim].quotient(batch);
        x += (int64_t)(batch - rest * at.by[dim].by) * at.x_stride[dim];
        y += (int64_t)(batch - rest * at.by[dim].by) * at.y_stride[dim];
        batch = rest;
    }
    bt_pack<X, P> held[LOADS];
    const X *from = x + lane * P + warp * x_step;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        if (lane * P < rows && warp + i * TILE_WARPS < cols) {
            held[i] = *reinterpret_cast<const bt_pack<X, P> *>(from + i * TILE_WARPS * x_step);
        }
    }
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        word made;
#pragma unroll
        for (int j = 0; j < P; ++j) {
            made.at[j] = convert<S, X>(held[i].at[j]);
        }
        tile[warp + i * TILE_WARPS][lane] = made;
    }
    __syncthreads();
    // P words in, P rows of P columns out.
#pragma unroll
    for (int i = 0; i < WARP / TILE_WARPS; ++i) {
        const int group = warp + i * TILE_WARPS;
#pragma unroll
        for (int part = 0; part < COLS / ROWS; ++part) {
            const int col = (part * WARP + lane) * P;
            word read[P];
#pragma unroll
            for (int j = 0; j < P; ++j) {
                read[j] = tile[col + j][group];
            }
#pragma unroll
            for (int k = 0; k < P; ++k) {
                const int row = group * P + k;
                bt_pack<Y, P> made;
#pragma unroll
                for (int j = 0; j < P; ++j) {
                    made.at[j] = convert<Y, S>(read[j].at[k]);
                }
                if (row < rows && col < cols) {
                    *reinterpret_cast<bt_pack<Y, P> *>(y + row * y_step + col) = made;
                }
            }
        }
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
        if (at->x_stride[dim] == 1 && at->shape[dim] >= TRANSPOSE_MIN &&
            at->shape[last] >= TRANSPOSE_MIN) {
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

// Whether both sides of an arranged transpose can be touched `width` elements at a time.
static bool tiles_fit(const layout *at, const bt_copy_args *copy, int64_t width)
{
    const int rows_dim = at->rank - 2;
    const int cols_dim = at->rank - 1;
    bool fit = at->shape[rows_dim] % width == 0 && at->shape[cols_dim] % width == 0 &&
               bt_aligned_16(copy->x) && bt_aligned_16(copy->y);
    for (int dim = 0; dim < at->rank; ++dim) {
        fit = fit && (dim == rows_dim || at->x_stride[dim] % width == 0) &&
              (dim == cols_dim || at->y_stride[dim] % width == 0);
    }
    return fit;
}

template <typename X, typename Y, int V>
static void launch_packs(const bt_launch *launch, const bt_copy_args *copy, int64_t packs,
                         layout at)
{
    const X *x = (const X *)copy->x;
    Y *y = (Y *)copy->y;
    cudaStream_t stream = bt_cuda_stream(launch);
    const unsigned grid = (unsigned)bt_div_up(packs, STREAM_THREADS);
    for (int dim = 0; dim < at.rank && packs <= DIVIDE_MOST; ++dim) {
        at.by[dim] = divisor::make(dim == at.rank - 1 ? at.shape[dim] / V : at.shape[dim]);
    }
    auto kernel =
        packs > DIVIDE_MOST ? strided_kernel<X, Y, V, true> : strided_kernel<X, Y, V, false>;
    launch_after(launch->device, kernel, grid, STREAM_THREADS, 0, stream, x, y, packs, at);
}

// False when there are more tiles than a grid has blocks.
template <typename X, typename Y, int P>
static bool launch_tiles(const bt_launch *launch, const bt_copy_args *copy, layout at)
{
    const int64_t down = bt_div_up(at.shape[at.rank - 2], tile_size<P>::ROWS);
    const int64_t across = bt_div_up(at.shape[at.rank - 1], tile_size<P>::COLS);
    int64_t tiles = down * across;
    for (int dim = 0; dim < at.rank - 2; ++dim) {
        at.by[dim] = divisor::make(at.shape[dim]);
        tiles *= at.shape[dim];
    }
    if (tiles > DIVIDE_MOST) {
        return false;
    }
    transpose_kernel<X, Y, P>
        <<<(unsigned)tiles, dim3(WARP, TILE_WARPS), 0, bt_cuda_stream(launch)>>>(
            (const X *)copy->x, (Y *)copy->y, divisor::make(down), divisor::make(across), at);
    return true;
}

template <typename X, typename Y>
static bt_status run(const bt_launch *launch, const bt_copy_args *copy)
{
    constexpr int SMALL = (int)sizeof(smaller<X, Y>);
    constexpr int V = 16 / (int)sizeof(Y); // caches coalesce reads, but not writes
    constexpr int P = SMALL < 4 ? 4 / SMALL : 1;
    layout at = {};
    const int64_t count = simplify(copy, &at);
    if (count == 0) {
        return BT_OK;
    }
    if (packs_fit(&at, copy, V)) {
        launch_packs<X, Y, V>(launch, copy, count / V, at);
    } else if (!arrange_transpose(&at) ||
               !(tiles_fit(&at, copy, P) ? launch_tiles<X, Y, P>(launch, copy, at)
                                         : launch_tiles<X, Y, 1>(launch, copy, at))) {
        launch_packs<X, Y, 1>(launch, copy, count, at);
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
           (x == BT_U16 && y == BT_I32) || (x == BT_I32 && y == BT_F32) ||
           (x == BT_F32 && y == BT_I32);
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
    if (copy->x_dtype == BT_I32 && copy->y_dtype == BT_F32) {
        return run<int32_t, float>(launch, copy);
    }
    if (copy->x_dtype == BT_F32 && copy->y_dtype == BT_I32) {
        return run<float, int32_t>(launch, copy);
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
