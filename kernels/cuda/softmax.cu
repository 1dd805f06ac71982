// kernels/cuda/softmax.cu - row softmax and its backward
//   y = e^(x - max) / sum e^(x - max); dx = y (dy - sum dy y)
// Rows of up to 16384 columns stay in registers; longer or misaligned ones are read again from
// memory for each of the passes.
//   Types  f32, bf16; sums in float in a fixed order
//   Cost   reads each operand once, writes one; bound by HBM
//   NaN    a NaN or +inf in a row, or nothing but -inf, makes the row NaN
//   Approximate: ex2 (see cuda.cuh)
#include "kernels/cuda/rows.cuh"

constexpr int ANY_THREADS = 512;
constexpr int ANY_WARPS = ANY_THREADS / WARP;

template <typename T, typename C>
static __global__ void __launch_bounds__(C::BLOCK, C::RESIDENT)
    forward_rows_kernel(const T *x, T *y, int64_t rows, int64_t all_cols)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    constexpr int N = span::N;
    __shared__ float shared[2][C::WARPS];
    const int64_t row = row_index<C>();
    const int cols = row < rows ? (int)all_cols : 0;
    const int64_t base = row * all_cols;
    uint4 raw[N];
    float held[N][V];
    span::read(x + base, cols, raw);
    float maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        unpack<T>(raw[i], held[i]);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] = span::column(i) < cols ? held[i][j] : -INFINITY;
            maximum = fmaxf(maximum, held[i][j]);
        }
    }
    maximum = row_max<C>(maximum, shared[0]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] = exp_base2(held[i][j] - maximum);
            sum += held[i][j];
        }
    }
    const float inverse = 1.0f / row_sum<C>(sum, shared[1]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] *= inverse;
        }
        if (span::column(i) < cols) {
            store<V>(y + base + span::column(i), held[i]);
        }
    }
}

// Any length and alignment: a block per row, which is read again for each pass.
template <typename T>
static __global__ void __launch_bounds__(ANY_THREADS)
    forward_any_kernel(const T *x, T *y, int64_t rows, int64_t cols)
{
    __shared__ float shared[2][ANY_WARPS];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t base = row * cols;
        float maximum = -INFINITY;
        for (int64_t c = threadIdx.x; c < cols; c += ANY_THREADS) {
            maximum = fmaxf(maximum, to_float(x[base + c]));
        }
        maximum = block_max<ANY_WARPS>(maximum, shared[0]);
        float sum = 0.0f;
        for (int64_t c = threadIdx.x; c < cols; c += ANY_THREADS) {
            sum += exp_base2(to_float(x[base + c]) - maximum);
        }
        const float inverse = 1.0f / block_sum<ANY_WARPS>(sum, shared[1]);
        for (int64_t c = threadIdx.x; c < cols; c += ANY_THREADS) {
            y[base + c] = from_float<T>(exp_base2(to_float(x[base + c]) - maximum) * inverse);
        }
    }
}

template <typename T, typename C>
static __global__ void __launch_bounds__(C::BLOCK, C::ROOMY)
    backward_rows_kernel(const T *y, const T *dy, T *dx, int64_t rows, int64_t all_cols)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    constexpr int N = span::N;
    __shared__ float shared[C::WARPS];
    const int64_t row = row_index<C>();
    const int cols = row < rows ? (int)all_cols : 0;
    const int64_t base = row * all_cols;
    uint4 held[N];
    uint4 given[N];
    span::read(y + base, cols, held);
    span::read(dy + base, cols, given);
    float dot = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float a[V];
        float b[V];
        unpack<T>(held[i], a);
        unpack<T>(given[i], b);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            dot += a[j] * b[j];
        }
    }
    dot = row_sum<C>(dot, shared);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float a[V];
        float b[V];
        unpack<T>(held[i], a);
        unpack<T>(given[i], b);
#pragma unroll
        for (int j = 0; j < V; ++j) {
            a[j] *= b[j] - dot;
        }
        if (span::column(i) < cols) {
            store<V>(dx + base + span::column(i), a);
        }
    }
}

template <typename T>
static __global__ void __launch_bounds__(ANY_THREADS)
    backward_any_kernel(const T *y, const T *dy, T *dx, int64_t rows, int64_t cols)
{
    __shared__ float shared[2][ANY_WARPS];
    int turn = 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        const int64_t base = row * cols;
        float dot = 0.0f;
        for (int64_t c = threadIdx.x; c < cols; c += ANY_THREADS) {
            dot += to_float(dy[base + c]) * to_float(y[base + c]);
        }
        dot = block_sum<ANY_WARPS>(dot, shared[turn]);
        for (int64_t c = threadIdx.x; c < cols; c += ANY_THREADS) {
            const float value = to_float(y[base + c]) * (to_float(dy[base + c]) - dot);
            dx[base + c] = from_float<T>(value);
        }
    }
}

template <typename T> static bt_status forward(const bt_launch *launch, const void *call)
{
    const bt_softmax_args *args = (const bt_softmax_args *)call;
    const T *x = (const T *)args->x;
    T *y = (T *)args->y;
    if (args->rows == 0 || args->cols == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    bool wide = args->cols % WIDE<T> == 0 && bt_aligned_16(x) && bt_aligned_16(y);
    wide = wide && with_row_config<T>(args->cols, [&](auto config) {
               using C = decltype(config);
               row_launches<C>(args->rows, [&](int64_t first, int64_t rows, unsigned blocks) {
                   const int64_t at = first * args->cols;
                   forward_rows_kernel<T, C>
                       <<<blocks, C::BLOCK, 0, stream>>>(x + at, y + at, rows, args->cols);
               });
           });
    if (!wide) {
        const unsigned grid = (unsigned)bt_min_i64(args->rows, ROW_MOST_BLOCKS);
        forward_any_kernel<T><<<grid, ANY_THREADS, 0, stream>>>(x, y, args->rows, args->cols);
    }
    return bt_cuda_launched("softmax_cuda");
}

template <typename T> static bt_status backward(const bt_launch *launch, const void *call)
{
    const bt_softmax_backward_args *args = (const bt_softmax_backward_args *)call;
    const T *y = (const T *)args->y;
    const T *dy = (const T *)args->dy;
    T *dx = (T *)args->dx;
    if (args->rows == 0 || args->cols == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    bool wide =
        args->cols % WIDE<T> == 0 && bt_aligned_16(y) && bt_aligned_16(dy) && bt_aligned_16(dx);
    wide = wide && with_row_config<T>(args->cols, [&](auto config) {
               using C = decltype(config);
               row_launches<C>(args->rows, [&](int64_t first, int64_t rows, unsigned blocks) {
                   const int64_t at = first * args->cols;
                   backward_rows_kernel<T, C><<<blocks, C::BLOCK, 0, stream>>>(
                       y + at, dy + at, dx + at, rows, args->cols);
               });
           });
    if (!wide) {
        const unsigned grid = (unsigned)bt_min_i64(args->rows, ROW_MOST_BLOCKS);
        backward_any_kernel<T><<<grid, ANY_THREADS, 0, stream>>>(y, dy, dx, args->rows, args->cols);
    }
    return bt_cuda_launched("softmax_backward_cuda");
}

bt_status bt_softmax_cuda_f32(const bt_launch *launch, const void *args)
{
    return forward<float>(launch, args);
}

bt_status bt_softmax_cuda_bf16(const bt_launch *launch, const void *args)
{
    return forward<bf16>(launch, args);
}

bt_status bt_softmax_backward_cuda_f32(const bt_launch *launch, const void *args)
{
    return backward<float>(launch, args);
}

bt_status bt_softmax_backward_cuda_bf16(const bt_launch *launch, const void *args)
{
    return backward<bf16>(launch, args);
}
