// kernels/cuda/layernorm_backward.cu - LayerNorm backward: dx, dgamma, dbeta
//   h = (s - mean) rstd, g = dy gamma
//   dx (+)= rstd (g - mean_c(g) - h mean_c(g h)); dgamma (+)= sum_r dy h; dbeta (+)= sum_r dy
// Rows of up to 4096 columns (3072 of bf16): one pass. A group of warps walks rows with a fixed
// stride, prefetches the next rows, and keeps its column sums in registers. A block, one per SM,
// adds the sums of its groups in order and writes them to the workspace; a second kernel adds the
// blocks in order. Wider rows, and large calls in bf16, are in layernorm_backward_wide.cu; Hopper's
// kernel for up to 4096 columns is in layernorm_backward_bulk.cu.
// Any other shape or alignment: separate kernels for dx and for the column sums.
//   Types      f32, bf16; gamma the same or f32; mean, rstd, dgamma, dbeta f32
//   Workspace  [blocks, 2, cols] f32; the number of blocks depends only on rows and SMs
//   Cost       reads dy and s, writes dx once (reads it too when it accumulates); bound by HBM
#include "kernels/cuda/layernorm_backward.cuh"

// Configuration: groups of W warps, G groups a block, E elements a thread, D rows in flight.
template <int ELEMENTS, int WARPS, int GROUPS, int DEPTH> struct group_config {
    static constexpr int E = ELEMENTS;
    static constexpr int W = WARPS;
    static constexpr int G = GROUPS;
    static constexpr int D = DEPTH;
    static constexpr int SIZE = W * WARP; // threads of a group
    static constexpr int THREADS = G * SIZE;
};

// Calls f with the configuration that holds `cols`; false when none does. Registers are the limit:
// 768 threads may have 80 each, 512 threads 128.
template <typename T, typename F>
static bool with_group_config(int64_t cols, [[maybe_unused]] bool accumulate, F f)
{
    if (cols <= 256) {
        f(group_config<8, 1, 24, 1>{});
    } else if (cols <= 512) {
        f(group_config<8, 2, 12, 1>{});
    } else if (cols <= 768) {
        f(group_config<8, 3, 8, 1>{});
    } else if (cols <= 1024) {
        f(group_config<8, 4, 6, 1>{});
    } else if (cols <= 2048) {
        f(group_config<8, 8, 3, 1>{});
    } else if (cols <= 3072) {
        f(group_config<8, 12, 2, 1>{});
    } else if (cols > 4096) {
        return false;
    } else if constexpr (sizeof(T) == 2) {
        return false;
    } else if (accumulate) {
        f(group_config<8, 16, 1, 2>{});
    } else {
        f(group_config<16, 8, 2, 0>{});
    }
    return true;
}

constexpr int64_t MANY_ELEMENTS = 20 << 20; // of bf16
constexpr int ANY_THREADS = 256;
constexpr int ANY_BLOCKS_PER_SM = 2;
constexpr int SLICES = 8; // rows that a block of params_any_kernel adds side by side

template <typename T, typename P> using backward_operands = layernorm_backward_operands<T, P>;

template <typename T, typename C> struct group_span {
    static constexpr int V = WIDE<T>;
    static constexpr int N = C::E / V; // packs a thread

    static __device__ __forceinline__ int group() { return (int)threadIdx.x / C::SIZE; }
    static __device__ __forceinline__ int column(int i)
    {
        return (i * C::SIZE + (int)threadIdx.x % C::SIZE) * V;
    }
};

// The register sums of one of the two: those of the block's groups in order, to `target`.
template <typename T, typename C>
static __device__ __forceinline__ void write_part(const float (&held)[group_span<T, C>::N][WIDE<T>],
                                                  int cols, float *sums, float *target)
{
    using span = group_span<T, C>;
    constexpr int V = span::V;
    constexpr int WIDTH = C::E * C::SIZE;
    __syncthreads(); // sums may be in use
#pragma unroll
    for (int i = 0; i < span::N; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) { // element by element, so that a warp meets distinct banks
            sums[span::group() * WIDTH + (i * V + j) * C::SIZE + (int)threadIdx.x % C::SIZE] =
                held[i][j];
        }
    }
    __syncthreads();
    for (int at = (int)threadIdx.x; at < WIDTH; at += C::THREADS) {
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < C::G; ++group) {
            total += sums[group * WIDTH + at];
        }
        const int place = at / C::SIZE; // i * V + j
        const int col = (place / V * C::SIZE + at % C::SIZE) * V + place % V;
        if (col < cols) {
            target[col] = total;
        }
    }
}

// A prefetched row: its operands, and its mean and rstd.
template <typename T, typename C> struct row_read {
    using span = group_span<T, C>;
    uint4 dy[span::N], s[span::N];
    float mean, rstd;

    template <typename P>
    __device__ __forceinline__ void fetch(const backward_operands<T, P> &with, int64_t row)
    {
        if (row >= with.rows) {
            return;
        }
        const int cols = (int)with.cols;
        mean = with.mean[row];
        rstd = with.rstd[row];
#pragma unroll
        for (int i = 0; i < span::N; ++i) {
            if (span::column(i) < cols) {
                dy[i] = ::fetch<T, span::V>(with.dy + row * cols + span::column(i));
                s[i] = ::fetch<T, span::V>(with.s + row * cols + span::column(i));
            }
        }
    }
};

// The two sums over a group. `shared` holds W pairs and is used again two rows later.
template <typename C>
static __device__ __forceinline__ float2 group_sums(float2 value, float2 *shared)
{
    value.x = warp_sum(value.x);
    value.y = warp_sum(value.y);
    if (C::W > 1) {
        const int thread = (int)threadIdx.x % C::SIZE;
        if (thread % WARP == 0) {
            shared[thread / WARP] = value;
        }
        asm volatile("bar.sync %0, %1;"
                     :
                     : "r"(1 + (int)threadIdx.x / C::SIZE), "n"(C::SIZE)
                     : "memory");
        value = shared[0];
#pragma unroll
        for (int warp = 1; warp < C::W; ++warp) {
            value.x += shared[warp].x;
            value.y += shared[warp].y;
        }
    }
    return value;
}

template <typename T, typename P, typename C, bool ACCUMULATE>
static __global__ void __launch_bounds__(C::THREADS, 1)
    backward_rows_kernel(const __grid_constant__ backward_operands<T, P> with)
{
    using span = group_span<T, C>;
    constexpr int V = span::V;
    constexpr int N = span::N;
    constexpr int RING = C::D > 0 ? C::D : 1;
    __shared__ float2 shared[2][C::G][C::W];
    // Gamma is loaded before the rows: a load that hits L1 may still wait for earlier loads.
    __shared__ __align__(16) float sums[C::G * C::E * C::SIZE];
    P *gammas = reinterpret_cast<P *>(sums);
    const int cols = (int)with.cols;
    const int64_t step = (int64_t)gridDim.x * C::G;
    const float inverse = 1.0f / (float)cols;
    float dgamma[N][V] = {};
    float dbeta[N][V] = {};
    int turn = 0;
    row_read<T, C> ring[RING] = {};
    int64_t base = (int64_t)blockIdx.x * C::G + span::group();
    wait_for_previous();
#pragma unroll
    for (int d = 0; d < C::D; ++d) {
        ring[d].fetch(with, base + d * step);
    }
    for (int c = (int)threadIdx.x; c < cols; c += C::THREADS) {
        gammas[c] = with.gamma[c];
    }
    __syncthreads();
    for (; base < with.rows; base += RING * step) {
#pragma unroll
        for (int d = 0; d < RING; ++d) {
            const int64_t row = base + d * step;
            if (row >= with.rows) {
                break;
            }
            if (C::D == 0) {
                ring[d].fetch(with, row);
            }
            row_read<T, C> now = ring[d];
            if (C::D > 0) {
                ring[d].fetch(with, row + RING * step);
            }
            T *dx = with.dx + row * cols;
            uint4 old[N];
            float2 total = {0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < N; ++i) {
                if (span::column(i) < cols) {
                    float gamma[V];
                    float dy[V];
                    float s[V];
                    if (ACCUMULATE) {
                        old[i] = fetch<T, V>(dx + span::column(i));
                    }
                    load<V>(gammas + span::column(i), gamma);
                    unpack<T>(now.dy[i], dy);
                    unpack<T>(now.s[i], s);
#pragma unroll
                    for (int j = 0; j < V; ++j) {
                        const float h = (s[j] - now.mean) * now.rstd;
                        const float g = dy[j] * gamma[j];
                        dgamma[i][j] += dy[j] * h;
                        dbeta[i][j] += dy[j];
                        total.x += g;
                        total.y += g * h;
                    }
                }
            }
            total = group_sums<C>(total, shared[turn][span::group()]);
            turn ^= 1;
            total.x *= inverse;
            total.y *= inverse;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                if (span::column(i) < cols) {
                    float gamma[V];
                    float dy[V];
                    float s[V];
                    float held[V];
                    load<V>(gammas + span::column(i), gamma);
                    unpack<T>(now.dy[i], dy);
                    unpack<T>(now.s[i], s);
                    if (ACCUMULATE) {
                        unpack<T>(old[i], held);
                    }
#pragma unroll
                    for (int j = 0; j < V; ++j) {
                        const float h = (s[j] - now.mean) * now.rstd;
                        const float value = now.rstd * (dy[j] * gamma[j] - total.x - h * total.y);
                        dy[j] = ACCUMULATE ? held[j] + value : value;
                    }
                    store<V>(dx + span::column(i), dy);
                }
            }
        }
    }
    allow_next();
    float *target = with.partials + (int64_t)blockIdx.x * 2 * cols;
    write_part<T, C>(dgamma, cols, sums, target);
    write_part<T, C>(dbeta, cols, sums, target + cols);
}

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

// Number of blocks that write column sums: of the kernel with rows in registers (`at_a_time` rows a
// block), or of the one for any shape. The workspace fits either, since alignment decides.
static int rows_blocks(const bt_device *device, int64_t rows, int64_t at_a_time)
{
    return (int)bt_cuda_grid(device, bt_div_up(rows, at_a_time), 1);
}
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
    bool wide = with.cols % WIDE<T> == 0 && bt_aligned_16(with.dy) && bt_aligned_16(with.s) &&
                bt_aligned_16(with.dx) && bt_aligned_16(with.gamma);
    // Large calls in bf16 are faster through shared memory: fewer instructions a row.
    const bool many = sizeof(T) == 2 && with.rows * with.cols >= MANY_ELEMENTS;
    if (wide) {
        blocks = layernorm_backward_bulk(launch, with);
    }
    if (wide && blocks == 0 &&
        (many || !with_group_config<T>(with.cols, with.accumulate, [&](auto config) {
             using C = decltype(config);
             blocks = rows_blocks(launch->device, with.rows, C::G);
             auto kernel = with.accumulate ? backward_rows_kernel<T, P, C, true>
                                           : backward_rows_kernel<T, P, C, false>;
             launch_after(launch->device, kernel, blocks, C::THREADS, 0, stream, with);
         }))) {
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
