// kernels/cuda/layernorm_backward.cu - LayerNorm backward: dx, dgamma, dbeta
//   h = (s - mean) rstd, g = dy gamma
//   dx (+)= rstd (g - mean_c(g) - h mean_c(g h)); dgamma (+)= sum_r dy h; dbeta (+)= sum_r dy
// One pass over rows: a group of warps walks them with a fixed stride, prefetches the next rows to
// shared memory, and keeps its column sums in registers. A block, one per SM, adds the sums of its
// groups in order and writes them to the workspace; a second kernel adds the blocks in order. Rows
// of up to 4096 columns on Hopper: layernorm_backward_bulk.cu; otherwise
// layernorm_backward_wide.cu. Rows that fit neither, and other alignments: separate kernels for dx
// and for the column sums, here.
//   Types      f32, bf16; gamma the same or f32; mean, rstd, dgamma, dbeta f32
//   Workspace  [blocks, 2, cols] f32; the number of blocks depends only on rows and SMs
//   Cost       reads dy and s, writes dx once (reads it too when it accumulates); bound by HBM
#include "kernels/cuda/layernorm_backward.cuh"

constexpr int ANY_THREADS = 256;
constexpr int ANY_BLOCKS_PER_SM = 2;
constexpr int SLICES = 8; // rows that a block of params_any_kernel adds side by side

template <typename T, typename P> using backward_operands = layernorm_backward_operands<T, P>;

// dx of any shape, a block per row. dx may be dy, so each element is read before it is written.
template <typename T, typename P>
static __global__ void __launch_bounds__(ANY_THREADS)
    backward_any_kernel(const __grid_constant__ backward_operands<T, P> with)
{
    __shared__ float shared[2][ANY_THREADS / WARP];
    for (int64_t row = blockIdx.x; row < with.rows; row += gridDim.x) {
        const int64_t base = row * with.cols;
        const float mean = with.mean[row];
        const float rstd = with.rstd[row];
        float total = 0.0f;
        float dot = 0.0f;
        for (int64_t c = threadIdx.x; c < with.cols; c += ANY_THREADS) {
            float g = to_float(with.dy[base + c]) * to_float(with.gamma[c]);
            total += g;
            dot += g * (to_float(with.s[base + c]) - mean) * rstd;
        }
        total = block_sum<ANY_THREADS / WARP>(total, shared[0]) / (float)with.cols;
        dot = block_sum<ANY_THREADS / WARP>(dot, shared[1]) / (float)with.cols;
        for (int64_t c = threadIdx.x; c < with.cols; c += ANY_THREADS) {
            float g = to_float(with.dy[base + c]) * to_float(with.gamma[c]);
            float h = (to_float(with.s[base + c]) - mean) * rstd;
            float value = rstd * (g - total - h * dot);
            if (with.accumulate) {
                value += to_float(with.dx[base + c]);
            }
            with.dx[base + c] = from_float<T>(value);
        }
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
static __global__ void __launch_bounds__(PART_THREADS)
    params_sum_kernel(const float *partials, int blocks, int64_t cols, float *dgamma, float *dbeta,
                      bool accumulate)
{
    const int64_t at = (int64_t)blockIdx.x * WARP + threadIdx.x; // column of [2, cols]
    wait_for_previous();
    const float total = parts_sum(partials + at, at < 2 * cols ? blocks : 0, 2 * cols);
    float *target = at < cols ? dgamma + at : dbeta ? dbeta + at - cols : nullptr;
    if (threadIdx.y == 0 && at < 2 * cols && target) {
        *target = accumulate ? *target + total : total;
    }
}

// Number of blocks that write column sums in the kernel for any shape; the others use one per SM.
// The workspace fits either, since alignment decides.
static int any_blocks(const bt_device *device, int64_t rows)
{
    return (int)bt_cuda_grid(device, rows, ANY_BLOCKS_PER_SM);
}

size_t bt_layernorm_backward_cuda_workspace(const bt_device *device, const void *call)
{
    const bt_layernorm_backward_args *args = (const bt_layernorm_backward_args *)call;
    return (size_t)any_blocks(device, args->rows) * 2 * (size_t)args->cols * sizeof(float);
}

bool bt_layernorm_backward_cuda_accepts(const bt_device *device, const void *call)
{
    (void)device;
    const bt_layernorm_backward_args *args = (const bt_layernorm_backward_args *)call;
    return (args->param_dtype == BT_F32 || args->param_dtype == args->dtype) &&
           args->grad_dtype == BT_F32;
}

// Returns the number of blocks that write column sums.
template <typename T, typename P>
static int launch_rows(const bt_launch *launch, const backward_operands<T, P> &with)
{
    cudaStream_t stream = bt_cuda_stream(launch);
    int blocks = 0;
    const bool wide = with.cols % WIDE<T> == 0 && bt_aligned_16(with.dy) && bt_aligned_16(with.s) &&
                      bt_aligned_16(with.dx) && bt_aligned_16(with.gamma);
    if (wide) {
        blocks = layernorm_backward_bulk(launch, with);
    }
    if (wide && blocks == 0) {
        blocks = layernorm_backward_wide(launch, with);
    }
    if (blocks == 0) {
        // The column sums first: dx may overwrite dy.
        blocks = any_blocks(launch->device, with.rows);
        dim3 grid((unsigned)bt_div_up(with.cols, WARP), (unsigned)blocks);
        params_any_kernel<T, P><<<grid, dim3(WARP, SLICES), 0, stream>>>(with);
        backward_any_kernel<T, P>
            <<<(unsigned)bt_min_i64(with.rows, 0x7fffffff), ANY_THREADS, 0, stream>>>(with);
    }
    return blocks;
}

template <typename T, typename P>
static bt_status run(const bt_launch *launch, const bt_layernorm_backward_args *args)
{
    if (args->cols == 0) {
        return BT_OK;
    }
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
    const int blocks = args->rows ? launch_rows(launch, with) : 0;
    cudaStream_t stream = bt_cuda_stream(launch);
    launch_after(launch->device, params_sum_kernel, (unsigned)bt_div_up(2 * args->cols, WARP),
                 dim3(WARP, PART_WARPS), 0, stream, with.partials, blocks, args->cols,
                 (float *)args->dgamma, (float *)args->dbeta, args->accumulate_params);
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
