// kernels/cuda/layernorm.cu - LayerNorm forward, with the residual sum in the same pass
//   s = x + residual (as stored, rounded); y = (s - mean) rstd gamma + beta
// Two kernels: rows of up to 4096 columns stay in registers (one pass over memory, variance from
// the registers in a second pass); any other shape or alignment rereads its row.
//   Types  f32, bf16; gamma and beta of either the same type or f32; mean and rstd f32
//   Cost   reads x (and residual), writes y (and sum) once; bound by HBM
//   NaN    a NaN or an infinity makes its row NaN
//   Approximate: rsqrtf (2 ulp)
#include "kernels/cuda/rows.cuh"

template <typename T, typename P> struct forward_operands {
    const T *x, *residual;
    T *sum, *y;
    const P *gamma, *beta;
    float *mean, *rstd;
    int64_t rows, cols;
    float epsilon;
};

template <typename T, typename P, typename C>
static __global__ void __launch_bounds__(ROW_THREADS)
    forward_rows_kernel(const __grid_constant__ forward_operands<T, P> with)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    __shared__ float shared[2][ROW_BLOCK_WARPS];
    const int cols = (int)with.cols;
    const int64_t row = (int64_t)blockIdx.x * C::ROWS + span::row();
    if (row >= with.rows) {
        return; // a whole warp at W = 1; never at W > 1, where the grid is exact
    }
    float held[span::N][V];
    span::read(with.x + row * cols, cols, 0.0f, held);
    if (with.residual) {
        float other[span::N][V];
        span::read(with.residual + row * cols, cols, 0.0f, other);
#pragma unroll
        for (int i = 0; i < span::N; ++i) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[i][j] = to_float(from_float<T>(held[i][j] + other[i][j]));
            }
        }
        span::write(with.sum + row * cols, cols, held);
    }
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            total += held[i][j];
        }
    }
    const float mean = row_sum<C>(total, shared[0]) / (float)cols;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
            float distance = span::column(i) < cols ? held[i][j] - mean : 0.0f;
            squares += distance * distance;
        }
    }
    const float rstd = rsqrtf(row_sum<C>(squares, shared[1]) / (float)cols + with.epsilon);
    if (span::column(0) == 0) {
        with.mean[row] = mean;
        with.rstd[row] = rstd;
    }
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
        if (span::column(i) < cols) {
            float gamma[V];
            float beta[V] = {};
            load<V>(with.gamma + span::column(i), gamma);
            if (with.beta) {
                load<V>(with.beta + span::column(i), beta);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[i][j] = (held[i][j] - mean) * rstd * gamma[j] + beta[j];
            }
        }
    }
    span::write(with.y + row * cols, cols, held);
}

template <typename T, typename P>
static __global__ void __launch_bounds__(ROW_THREADS)
    forward_any_kernel(const __grid_constant__ forward_operands<T, P> with)
{
    __shared__ float shared[2][ROW_BLOCK_WARPS];
    const int64_t base = (int64_t)blockIdx.x * with.cols;
    const T *s = with.residual ? with.sum : with.x;
    float total = 0.0f;
    for (int64_t c = threadIdx.x; c < with.cols; c += ROW_THREADS) {
        float value = to_float(with.x[base + c]);
        if (with.residual) {
            T rounded = from_float<T>(value + to_float(with.residual[base + c]));
            with.sum[base + c] = rounded;
            value = to_float(rounded);
        }
        total += value;
    }
    const float mean = block_sum<ROW_BLOCK_WARPS>(total, shared[0]) / (float)with.cols;
    float squares = 0.0f;
    for (int64_t c = threadIdx.x; c < with.cols; c += ROW_THREADS) {
        float distance = to_float(s[base + c]) - mean;
        squares += distance * distance;
    }
    squares = block_sum<ROW_BLOCK_WARPS>(squares, shared[1]);
    const float rstd = rsqrtf(squares / (float)with.cols + with.epsilon);
    if (threadIdx.x == 0) {
        with.mean[blockIdx.x] = mean;
        with.rstd[blockIdx.x] = rstd;
    }
    for (int64_t c = threadIdx.x; c < with.cols; c += ROW_THREADS) {
        float beta = with.beta ? to_float(with.beta[c]) : 0.0f;
        float value = (to_float(s[base + c]) - mean) * rstd * to_float(with.gamma[c]) + beta;
        with.y[base + c] = from_float<T>(value);
    }
}

template <typename T, typename P>
static bt_status run(const bt_launch *launch, const bt_layernorm_args *args)
{
    if (args->rows == 0 || args->cols == 0) {
        return BT_OK;
    }
    const forward_operands<T, P> with = {
        (const T *)args->x,  (const T *)args->residual, (T *)args->sum,
        (T *)args->y,        (const P *)args->gamma,    (const P *)args->beta,
        (float *)args->mean, (float *)args->rstd,       args->rows,
        args->cols,          (float)args->epsilon,
    };
    bool wide = args->cols % WIDE<T> == 0 && bt_aligned_16(with.x) &&
                bt_aligned_16(with.residual) && bt_aligned_16(with.sum) && bt_aligned_16(with.y) &&
                bt_aligned_16(with.gamma) && bt_aligned_16(with.beta);
    cudaStream_t stream = bt_cuda_stream(launch);
    wide = wide && with_row_config(args->cols, [&](auto config) {
               using C = decltype(config);
               unsigned grid = (unsigned)bt_div_up(args->rows, C::ROWS);
               forward_rows_kernel<T, P, C><<<grid, ROW_THREADS, 0, stream>>>(with);
           });
    if (!wide) {
        forward_any_kernel<T, P><<<(unsigned)args->rows, ROW_THREADS, 0, stream>>>(with);
    }
    return bt_cuda_launched("layernorm_cuda");
}

bool bt_layernorm_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_layernorm_args *args = (const bt_layernorm_args *)call;
    return args->param_dtype == BT_F32 || args->param_dtype == args->dtype;
}

bt_status bt_layernorm_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float, float>(launch, (const bt_layernorm_args *)args);
}

bt_status bt_layernorm_cuda_bf16(const bt_launch *launch, const void *call)
{
    const bt_layernorm_args *args = (const bt_layernorm_args *)call;
    return args->param_dtype == BT_F32 ? run<bf16, float>(launch, args)
                                       : run<bf16, bf16>(launch, args);
}
