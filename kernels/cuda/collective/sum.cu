// kernels/cuda/collective/sum.cu - out[o][i] = tree over the ranks r of in[r][i], plus base[i]
//
// With a view, ranks synchronize before the sum (operands are ready) and after it (operands may be
// overwritten). It is the two-shot all-reduce when every rank sums its shard into all windows, and
// reduce-scatter when it sums its shard into one buffer. Without a view it sums slots that copy
// engines or NCCL have filled.
// Shapes   in [in_count][count], base [count] or none, out [out_count][count]; in_count 2, 4, 8
// Types    f64, f32, i64, i32; bf16 in f32, rounded once, and once more with a base. Integers wrap
// Order    w = 1, 2, 4: x[i] += x[i + w]: the balanced tree over ranks, whatever the grid
// Cost     reads in_count + 1, writes out_count times count elements; bound by the links
// NaN      a NaN of any rank gives NaN, for the maximum too
// Oracle   bt_reduce_tree, bit for bit but for the payload of NaN
#include "kernels/cuda/collective/collective.h"
#include "kernels/cuda/collective/wait.cuh"

namespace
{
using namespace bt_collective;

enum class reduction { SUM, MAXIMUM };

// The type in which elements are combined.
template <typename T> struct held {
    using type = T;
};
template <> struct held<bf16> {
    using type = float;
};

template <typename H, reduction R> __device__ __forceinline__ H combine(H a, H b)
{
    if constexpr (R == reduction::MAXIMUM) {
        return a > b || a != a ? a : b;
    } else if constexpr (std::is_integral_v<H>) {
        using U = std::make_unsigned_t<H>;
        return (H)((U)a + (U)b);
    } else {
        return a + b;
    }
}

template <int N, typename H, reduction R> __device__ __forceinline__ H tree(H (&x)[N])
{
#pragma unroll
    for (int w = 1; w < N; w *= 2) {
#pragma unroll
        for (int i = 0; i + w < N; i += 2 * w) {
            x[i] = combine<H, R>(x[i], x[i + w]);
        }
    }
    return x[0];
}

__device__ __forceinline__ float widen(bf16 x) { return __bfloat162float(x); }
template <typename T> __device__ __forceinline__ T widen(T x) { return x; }
template <typename T> __device__ __forceinline__ T narrow(typename held<T>::type x)
{
    if constexpr (sizeof(T) == 2) {
        return __float2bfloat16_rn(x);
    } else {
        return x;
    }
}

// Element by element: the tail shorter than a vector, and operands that are not aligned.
template <int N, typename T, reduction R, bool BASE>
__device__ void sum_elements(const bt_p2p_sum &args, int64_t begin)
{
    using H = typename held<T>::type;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = begin + blockIdx.x * (int64_t)THREADS + threadIdx.x; i < args.count;
         i += step) {
        H x[N];
#pragma unroll
        for (int r = 0; r < N; ++r) {
            x[r] = widen(load_element((const T *)args.in[r] + i));
        }
        T sum = narrow<T>(tree<N, H, R>(x));
        if constexpr (BASE) {
            sum =
                narrow<T>(combine<H, R>(widen(sum), widen(load_element((const T *)args.base + i))));
        }
        for (int o = 0; o < args.out_count; ++o) {
            ((T *)args.out[o])[i] = sum;
        }
    }
}

template <int N, typename T> __device__ __forceinline__ uint32_t sum_word(const uint32_t (&w)[N])
{
    if constexpr (sizeof(T) == 2) {
        float low[N], high[N];
#pragma unroll
        for (int r = 0; r < N; ++r) {
            low[r] = __uint_as_float(w[r] << 16);
            high[r] = __uint_as_float(w[r] & 0xffff0000u);
        }
        const float a = tree<N, float, reduction::SUM>(low);
        return bf16_pair(a, tree<N, float, reduction::SUM>(high));
    } else {
        float x[N];
#pragma unroll
        for (int r = 0; r < N; ++r) {
            x[r] = __uint_as_float(w[r]);
        }
        return __float_as_uint(tree<N, float, reduction::SUM>(x));
    }
}

template <int N, typename T> __device__ __forceinline__ uint4 sum_vector(const uint4 (&v)[N])
{
    uint32_t x[N], y[N], z[N], w[N];
#pragma unroll
    for (int r = 0; r < N; ++r) {
        x[r] = v[r].x, y[r] = v[r].y, z[r] = v[r].z, w[r] = v[r].w;
    }
    return make_uint4(sum_word<N, T>(x), sum_word<N, T>(y), sum_word<N, T>(z), sum_word<N, T>(w));
}

// Sums of f32 and bf16, 16 bytes at a time. Enough loads in flight for the links: N * UNROLL.
template <int N, typename T, bool BASE>
__device__ void sum_vectors(const bt_p2p_sum &args, int64_t count)
{
    constexpr int UNROLL = N == 2 ? 8 : N == 4 ? 4 : 2;
    constexpr int TILE = THREADS * UNROLL;
    for (int64_t tile = blockIdx.x; tile * TILE < count; tile += gridDim.x) {
        const int64_t at = tile * TILE + threadIdx.x;
        uint4 x[UNROLL][N], added[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int r = 0; r < N; ++r) {
                if (at + u * THREADS < count) {
                    x[u][r] = load_data((const uint4 *)args.in[r] + at + u * THREADS);
                }
            }
            if (BASE && at + u * THREADS < count) {
                added[u] = load_data((const uint4 *)args.base + at + u * THREADS);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (at + u * THREADS < count) {
                uint4 sum = sum_vector<N, T>(x[u]);
                if constexpr (BASE) {
                    const uint4 both[2] = {sum, added[u]};
                    sum = sum_vector<2, T>(both);
                }
#pragma unroll
                for (int o = 0; o < N; ++o) {
                    if (o < args.out_count) {
                        store_data((uint4 *)args.out[o] + at + u * THREADS, sum);
                    }
                }
            }
        }
    }
}

template <int N, typename T, reduction R, bool MEETS, bool BASE>
__global__ void __launch_bounds__(THREADS, 1)
    sum_kernel(const __grid_constant__ bt_p2p_view view, const __grid_constant__ bt_p2p_sum args,
               int64_t vectors)
{
    if constexpr (MEETS) {
        if (!meet(view, ~0u, args.call, true)) {
            return;
        }
    }
    int64_t done = 0;
    if constexpr (R == reduction::SUM && std::is_same_v<typename held<T>::type, float>) {
        sum_vectors<N, T, BASE>(args, vectors);
        done = vectors * (int64_t)(16 / sizeof(T));
    }
    sum_elements<N, T, R, BASE>(args, done);
    if constexpr (MEETS) {
        meet(view, ~0u, args.call, false);
    }
}

typedef void (*kernel_fn)(const bt_p2p_view, const bt_p2p_sum, int64_t);

template <typename T, reduction R, bool MEETS, bool BASE> kernel_fn kernel_of(int ranks)
{
    return ranks == 2   ? sum_kernel<2, T, R, MEETS, BASE>
           : ranks == 4 ? sum_kernel<4, T, R, MEETS, BASE>
                        : sum_kernel<8, T, R, MEETS, BASE>;
}

template <reduction R, bool MEETS, bool BASE> kernel_fn find_kernel(bt_dtype dtype, int ranks)
{
    switch (dtype) {
    case BT_F64:
        return kernel_of<double, R, MEETS, BASE>(ranks);
    case BT_F32:
        return kernel_of<float, R, MEETS, BASE>(ranks);
    case BT_BF16:
        return kernel_of<bf16, R, MEETS, BASE>(ranks);
    case BT_I64:
        return kernel_of<long long, R, MEETS, BASE>(ranks);
    case BT_I32:
        return kernel_of<int, R, MEETS, BASE>(ranks);
    default:
        return NULL;
    }
}

template <bool MEETS> kernel_fn find_reduction(const bt_p2p_sum *args)
{
    return args->maximum
               ? find_kernel<reduction::MAXIMUM, MEETS, false>(args->dtype, args->in_count)
               : find_kernel<reduction::SUM, MEETS, false>(args->dtype, args->in_count);
}

int64_t vectors_of(const bt_p2p_sum *args)
{
    bool aligned = true;
    for (int i = 0; i < args->in_count; ++i) {
        aligned = aligned && bt_aligned_16(args->in[i]);
    }
    for (int i = 0; i < args->out_count; ++i) {
        aligned = aligned && bt_aligned_16(args->out[i]);
    }
    aligned = aligned && bt_aligned_16(args->base);
    return aligned ? args->count * (int64_t)bt_dtype_size(args->dtype) / 16 : 0;
}

bt_status launch(kernel_fn kernel, const bt_p2p_view &view, const bt_p2p_sum *args, unsigned blocks,
                 cudaStream_t stream)
{
    if (kernel == NULL) {
        return bt_error(BT_STATUS_UNSUPPORTED, "sum over ranks: type %s is not supported",
                        bt_dtype_name(args->dtype));
    }
    kernel<<<blocks, THREADS, 0, stream>>>(view, *args, vectors_of(args));
    return bt_cuda_launched("sum over ranks");
}

} // namespace

bt_status bt_p2p_sum_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                            const bt_p2p_sum *args)
{
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    return launch(find_reduction<true>(args), *view, args, (unsigned)args->blocks, on);
}

bt_status bt_p2p_fold_launch(bt_device *device, bt_stream stream, const bt_p2p_sum *args)
{
    bt_p2p_view none = {};
    int64_t tiles = bt_div_up(args->count * (int64_t)bt_dtype_size(args->dtype), 32768);
    unsigned grid = args->blocks > 0 ? (unsigned)args->blocks : bt_cuda_grid(device, tiles, 1);
    cudaStream_t on = bt_cuda_stream_of(device, stream);
    kernel_fn kernel = args->base != NULL
                           ? find_kernel<reduction::SUM, false, true>(args->dtype, args->in_count)
                           : find_reduction<false>(args);
    return launch(kernel, none, args, grid, on);
}
