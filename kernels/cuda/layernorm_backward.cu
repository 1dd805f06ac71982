// kernels/cuda/layernorm_backward.cu - LayerNorm backward: dx, dgamma, dbeta
//   h = (s - mean) rstd, g = dy gamma
//   dx (+)= rstd (g - mean_c(g) - h mean_c(g h)); dgamma (+)= sum_r dy h; dbeta (+)= sum_r dy
// Rows of up to 4096 columns: one pass; a block walks rows at a fixed distance, keeps its column
// sums in registers, adds those of its warps in order and writes them to the workspace; a second
// kernel adds the blocks in order. Any other shape: dx and column sums by kernels of their own.
//   Types      f32, bf16; gamma the same or f32; mean, rstd, dgamma, dbeta f32
//   Workspace  [blocks, 2, cols] f32; the number of blocks depends on rows and SMs alone
//   Cost       reads dy and s, writes dx once (reads it too when it accumulates); bound by HBM
#include "kernels/cuda/rows.cuh"

// Blocks that fit on an SM beside each other, as the registers of a row of `cols` columns allow.
static constexpr int blocks_per_sm(int64_t cols)
{
    return cols <= 768 ? 2 : cols <= 1024 ? 1 : cols <= 2048 ? 4 : 2;
}

constexpr int SLICES = 8; // rows, or blocks, that a block of the column kernels adds side by side

template <typename T, typename P> struct backward_operands {
    const T *dy, *s;
    const P *gamma;
    const float *mean, *rstd;
    T *dx;
    float *partials; // [blocks, 2, cols]
    int64_t rows, cols;
    bool accumulate;
};

// Adds the register sums of the block's rows in order and writes them out.
template <typename T, typename C>
static __device__ __forceinline__ void
write_partials(const float (&dgamma)[row_span<T, C>::N][WIDE<T>],
               const float (&dbeta)[row_span<T, C>::N][WIDE<T>], int cols, float *partials)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    constexpr int HELD = C::W == 1 ? C::E * WARP : 1;
    __shared__ float sums[2][HELD];
    float *target = partials + (int64_t)blockIdx.x * 2 * cols;
    for (int turn = 0; C::W == 1 && turn < C::ROWS; ++turn) {
        if (span::row() == turn) {
#pragma unroll
            for (int i = 0; i < span::N; ++i) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    // Interleaved by lane, so that a warp's accesses fall into distinct banks.
                    int at = (i * V + j) * WARP + (int)threadIdx.x % WARP;
                    sums[0][at] = (turn ? sums[0][at] : 0.0f) + dgamma[i][j];
                    sums[1][at] = (turn ? sums[1][at] : 0.0f) + dbeta[i][j];
                }
            }
        }
        __syncthreads();
    }
    if (span::row() != 0) {
        return;
    }
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
        if (span::column(i) < cols) {
            float first[V];
            float second[V];
#pragma unroll
            for (int j = 0; j < V; ++j) {
                int at = C::W == 1 ? (i * V + j) * WARP + (int)threadIdx.x % WARP : 0;
                first[j] = C::W == 1 ? sums[0][at] : dgamma[i][j];
                second[j] = C::W == 1 ? sums[1][at] : dbeta[i][j];
            }
            store<V>(target + span::column(i), first);
            store<V>(target + cols + span::column(i), second);
        }
    }
}

template <typename T, typename P, typename C>
static __global__ void __launch_bounds__(ROW_THREADS, blocks_per_sm(C::E *C::W *WARP))
    backward_rows_kernel(const __grid_constant__ backward_operands<T, P> with)
{
    using span = row_span<T, C>;
    constexpr int V = span::V;
    constexpr int N = span::N;
    __shared__ float shared[2][2][ROW_BLOCK_WARPS];
    const int cols = (int)with.cols;
    float dgamma[N][V] = {};
    float dbeta[N][V] = {};
    int turn = 0;
    for (int64_t row = (int64_t)blockIdx.x * C::ROWS + span::row(); row < with.rows;
         row += (int64_t)gridDim.x * C::ROWS) {
        float g[N][V];
        float h[N][V];
        span::read(with.dy + row * cols, cols, 0.0f, g);
        span::read(with.s + row * cols, cols, 0.0f, h);
        const float mean = with.mean[row];
        const float rstd = with.rstd[row];
        float total = 0.0f;
        float dot = 0.0f;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (span::column(i) < cols) {
                float gamma[V];
                load<V>(with.gamma + span::column(i), gamma);
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    h[i][j] = (h[i][j] - mean) * rstd;
                    dgamma[i][j] += g[i][j] * h[i][j];
                    dbeta[i][j] += g[i][j];
                    g[i][j] *= gamma[j];
                    total += g[i][j];
                    dot += g[i][j] * h[i][j];
                }
            }
        }
        total = row_sum<C>(total, shared[turn][0]) / (float)cols;
        dot = row_sum<C>(dot, shared[turn][1]) / (float)cols;
        turn ^= 1;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (span::column(i) < cols) {
                float old[V] = {};
                if (with.accumulate) {
                    load<V>(with.dx + row * cols + span::column(i), old);
                }
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    float value = rstd * (g[i][j] - total - h[i][j] * dot);
                    old[j] = with.accumulate ? old[j] + value : value;
                }
                store<V>(with.dx + row * cols + span::column(i), old);
            }
        }
    }
    write_partials<T, C>(dgamma, dbeta, cols, with.partials);
}

// dx of any shape, a block per row. dx may be dy, so each element is read before it is written.
template <typename T, typename P>
static __global__ void __launch_bounds__(ROW_THREADS)
    backward_any_kernel(const __grid_constant__ backward_operands<T, P> with)
{
    __shared__ float shared[2][ROW_BLOCK_WARPS];
    const int64_t base = (int64_t)blockIdx.x * with.cols;
    const float mean = with.mean[blockIdx.x];
    const float rstd = with.rstd[blockIdx.x];
    float total = 0.0f;
    float dot = 0.0f;
    for (int64_t c = threadIdx.x; c < with.cols; c += ROW_THREADS) {
        float g = to_float(with.dy[base + c]) * to_float(with.gamma[c]);
        total += g;
        dot += g * (to_float(with.s[base + c]) - mean) * rstd;
    }
    total = block_sum<ROW_BLOCK_WARPS>(total, shared[0]) / (float)with.cols;
    dot = block_sum<ROW_BLOCK_WARPS>(dot, shared[1]) / (float)with.cols;
    for (int64_t c = threadIdx.x; c < with.cols; c += ROW_THREADS) {
        float g = to_float(with.dy[base + c]) * to_float(with.gamma[c]);
        float h = (to_float(with.s[base + c]) - mean) * rstd;
        float value = rstd * (g - total - h * dot);
        if (with.accumulate) {
            value += to_float(with.dx[base + c]);
        }
        with.dx[base + c] = from_float<T>(value);
    }
}

// Column sums of any shape: blocks of 32 columns, 8 rows side by side, a slice of the rows each.
template <typename T, typename P>
static __global__ void __launch_bounds__(WARP *SLICES)
    params_any_kernel(const __grid_constant__ backward_operands<T, P> with)
{
    __shared__ float sums[2][SLICES][WARP];
    const int64_t col = (int64_t)blockIdx.x * WARP + threadIdx.x;
    float dgamma = 0.0f;
    float dbeta = 0.0f;
    for (int64_t row = (int64_t)blockIdx.y * SLICES + threadIdx.y;
         row < with.rows && col < with.cols; row += (int64_t)gridDim.y * SLICES) {
        float dy = to_float(with.dy[row * with.cols + col]);
        dgamma += dy * (to_float(with.s[row * with.cols + col]) - with.mean[row]) * with.rstd[row];
        dbeta += dy;
    }
    sums[0][threadIdx.y][threadIdx.x] = dgamma;
    sums[1][threadIdx.y][threadIdx.x] = dbeta;
    __syncthreads();
    if (threadIdx.y < 2 && col < with.cols) {
        float total = 0.0f;
        for (int slice = 0; slice < SLICES; ++slice) {
            total += sums[threadIdx.y][slice][threadIdx.x];
        }
        with.partials[((int64_t)blockIdx.y * 2 + threadIdx.y) * with.cols + col] = total;
    }
}

// dgamma and dbeta from the partial sums of `blocks` blocks, in order.
static __global__ void __launch_bounds__(WARP *SLICES)
    params_sum_kernel(const float *partials, int blocks, int64_t cols, float *dgamma, float *dbeta,
                      bool accumulate)
{
    __shared__ float sums[SLICES][WARP];
    const int64_t at = (int64_t)blockIdx.x * WARP + threadIdx.x; // column of [2, cols]
    float total = 0.0f;
#pragma unroll 4
    for (int block = threadIdx.y; block < blocks && at < 2 * cols; block += SLICES) {
        total += partials[block * 2 * cols + at];
    }
    sums[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    float *target = at < cols ? dgamma + at : dbeta ? dbeta + at - cols : nullptr;
    if (threadIdx.y == 0 && at < 2 * cols && target) {
        total = 0.0f;
        for (int slice = 0; slice < SLICES; ++slice) {
            total += sums[slice][threadIdx.x];
        }
        *target = accumulate ? *target + total : total;
    }
}

static int block_count(const bt_device *device, const bt_layernorm_backward_args *args)
{
    int64_t rows = args->cols <= 1024 ? ROW_BLOCK_WARPS : 1; // of a block at a time
    return (int)bt_cuda_grid(device, bt_div_up(args->rows, rows), blocks_per_sm(args->cols));
}

size_t bt_layernorm_backward_cuda_workspace(const bt_device *device, const void *call)
{
    const bt_layernorm_backward_args *args = (const bt_layernorm_backward_args *)call;
    return (size_t)block_count(device, args) * 2 * (size_t)args->cols * sizeof(float);
}

bool bt_layernorm_backward_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_layernorm_backward_args *args = (const bt_layernorm_backward_args *)call;
    return (args->param_dtype == BT_F32 || args->param_dtype == args->dtype) &&
           args->grad_dtype == BT_F32;
}

template <typename T, typename P>
static void launch_rows(const bt_launch *launch, const backward_operands<T, P> &with, int blocks)
{
    cudaStream_t stream = bt_cuda_stream(launch);
    bool wide = with.cols % WIDE<T> == 0 && bt_aligned_16(with.dy) && bt_aligned_16(with.s) &&
                bt_aligned_16(with.dx) && bt_aligned_16(with.gamma);
    wide =
        wide && with_row_config(with.cols, [&](auto config) {
            backward_rows_kernel<T, P, decltype(config)><<<blocks, ROW_THREADS, 0, stream>>>(with);
        });
    if (!wide && with.rows > 0) {
        // The column sums first: dx may overwrite dy.
        dim3 grid((unsigned)bt_div_up(with.cols, WARP), (unsigned)blocks);
        params_any_kernel<T, P><<<grid, dim3(WARP, SLICES), 0, stream>>>(with);
        backward_any_kernel<T, P><<<(unsigned)with.rows, ROW_THREADS, 0, stream>>>(with);
    }
}

template <typename T, typename P>
static bt_status run(const bt_launch *launch, const bt_layernorm_backward_args *args)
{
    if (args->cols == 0) {
        return BT_OK;
    }
    int blocks = block_count(launch->device, args);
    const backward_operands<T, P> with = {
        (const T *)args->dy,
        (const T *)args->s,
        (const P *)args->gamma,
        (const float *)args->mean,
        (const float *)args->rstd,
        (T *)args->dx,
        (float *)launch->workspace,
        args->rows,
        args->cols,
        args->accumulate,
    };
    launch_rows(launch, with, blocks);
    cudaStream_t stream = bt_cuda_stream(launch);
    params_sum_kernel<<<(unsigned)bt_div_up(2 * args->cols, WARP), dim3(WARP, SLICES), 0, stream>>>(
        with.partials, args->rows ? blocks : 0, args->cols, (float *)args->dgamma,
        (float *)args->dbeta, args->accumulate_params);
    return bt_cuda_launched("layernorm_backward_cuda");
}

bt_status bt_layernorm_backward_cuda_f32(const bt_launch *launch, const void *args)
{
    return run<float, float>(launch, (const bt_layernorm_backward_args *)args);
}

bt_status bt_layernorm_backward_cuda_bf16(const bt_launch *launch, const void *call)
{
    const bt_layernorm_backward_args *args = (const bt_layernorm_backward_args *)call;
    return args->param_dtype == BT_F32 ? run<bf16, float>(launch, args)
                                       : run<bf16, bf16>(launch, args);
}
