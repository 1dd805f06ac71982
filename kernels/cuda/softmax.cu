// kernels/cuda/softmax.cu - row softmax and its backward
//   y = e^(x - max) / sum e^(x - max); dx = y (dy - sum dy y)
// Rows of up to 4096 columns stay in registers; longer or misaligned ones are read again from
// memory for each of the passes.
//   Types  f32, bf16; sums in float in a fixed order
//   Cost   reads each operand once, writes one; bound by HBM
//   NaN    a NaN or +inf in a row, or nothing but -inf, makes the row NaN
//   Approximate: ex2 (see cuda.cuh)
#include "kernels/cuda/rows.cuh"

template <typename T, typename C>
static __global__ void __launch_bounds__(ROW_THREADS)
    forward_rows_kernel(const T *x, T *y, int64_t rows, int64_t all_cols)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    __shared__ float shared[2][ROW_BLOCK_WARPS];
    const int cols = (int)all_cols;
    const int64_t row = (int64_t)blockIdx.x * C::ROWS + span::row();
    if (row >= rows) {
        return; // a whole warp at W = 1; never at W > 1
    }
    float held[span::N][V];
    span::read(x + row * cols, cols, -INFINITY, held);
    float maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            maximum = fmaxf(maximum, held[i][j]);
        }
    }
    maximum = row_max<C>(maximum, shared[0]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] = exp_base2(held[i][j] - maximum);
            sum += held[i][j];
        }
    }
    const float inverse = 1.0f / row_sum<C>(sum, shared[1]);
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] *= inverse;
        }
    }
    span::write(y + row * cols, cols, held);
}

template <typename T>
static __global__ void __launch_bounds__(ROW_THREADS)
    forward_any_kernel(const T *x, T *y, int64_t cols)
{
    __shared__ float shared[2][ROW_BLOCK_WARPS];
    const int64_t base = (int64_t)blockIdx.x * cols;
    float maximum = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += ROW_THREADS) {
        maximum = fmaxf(maximum, to_float(x[base + c]));
    }
    maximum = block_max<ROW_BLOCK_WARPS>(maximum, shared[0]);
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += ROW_THREADS) {
        sum += exp_base2(to_float(x[base + c]) - maximum);
    }
    const float inverse = 1.0f / block_sum<ROW_BLOCK_WARPS>(sum, shared[1]);
    for (int64_t c = threadIdx.x; c < cols; c += ROW_THREADS) {
        y[base + c] = from_float<T>(exp_base2(to_float(x[base + c]) - maximum) * inverse);
    }
}

template <typename T, typename C>
static __global__ void __launch_bounds__(ROW_THREADS)
    backward_rows_kernel(const T *y, const T *dy, T *dx, int64_t rows, int64_t all_cols)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    __shared__ float shared[ROW_BLOCK_WARPS];
    const int cols = (int)all_cols;
    const int64_t row = (int64_t)blockIdx.x * C::ROWS + span::row();
    if (row >= rows) {
        return;
    }
    float held[span::N][V];
    float given[span::N][V];
    span::read(y + row * cols, cols, 0.0f, held);
    span::read(dy + row * cols, cols, 0.0f, given);
    float dot = 0.0f;
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            dot += given[i][j] * held[i][j];
        }
    }
    dot = row_sum<C>(dot, shared);
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            held[i][j] *= given[i][j] - dot;
        }
    }
    span::write(dx + row * cols, cols, held);
}

template <typename T>
static __global__ void __launch_bounds__(ROW_THREADS)
    backward_any_kernel(const T *y, const T *dy, T *dx, int64_t cols)
{
    __shared__ float shared[ROW_BLOCK_WARPS];
    const int64_t base = (int64_t)blockIdx.x * cols;
    float dot = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += ROW_THREADS) {
        dot += to_float(dy[base + c]) * to_float(y[base + c]);
    }
    dot = block_sum<ROW_BLOCK_WARPS>(dot, shared);
    for (int64_t c = threadIdx.x; c < cols; c += ROW_THREADS) {
        const float value = to_float(y[base + c]) * (to_float(dy[base + c]) - dot);
        dx[base + c] = from_float<T>(value);
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
    wide = wide && with_row_config(args->cols, [&](auto config) {
               using C = decltype(config);
               unsigned grid = (unsigned)bt_div_up(args->rows, C::ROWS);
               forward_rows_kernel<T, C>
                   <<<grid, ROW_THREADS, 0, stream>>>(x, y, args->rows, args->cols);
           });
    if (!wide) {
        forward_any_kernel<T><<<(unsigned)args->rows, ROW_THREADS, 0, stream>>>(x, y, args->cols);
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
    wide = wide && with_row_config(args->cols, [&](auto config) {
               using C = decltype(config);
               unsigned grid = (unsigned)bt_div_up(args->rows, C::ROWS);
               backward_rows_kernel<T, C>
                   <<<grid, ROW_THREADS, 0, stream>>>(y, dy, dx, args->rows, args->cols);
           });
    if (!wide) {
        backward_any_kernel<T>
            <<<(unsigned)args->rows, ROW_THREADS, 0, stream>>>(y, dy, dx, args->cols);
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
