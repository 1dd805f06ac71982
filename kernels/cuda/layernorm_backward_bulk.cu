// kernels/cuda/layernorm_backward_bulk.cu - LayerNorm backward, rows by bulk copies (Hopper)
// Computes what layernorm_backward.cu does. A group of warps holds the columns, E elements a lane,
// and walks rows with a fixed stride. Each warp prefetches its part of the next D rows into shared
// memory, one bulk copy per operand and row. Converted values stay in registers between the two
// passes over a row, next to the column sums, so nothing is read or converted twice. At the end a
// block, one per SM, adds the column sums of its groups in order and writes them to the workspace.
//   Shapes  cols <= 4096, a multiple of a pack; operands aligned to 16 bytes
//   Types   f32, bf16; gamma the same or f32; the rest f32
//   Cost    reads dy and s, writes dx once (reads it too when it accumulates); bound by HBM
//   Source  PTX ISA, cp.async.bulk; compute capability 9.0 and newer
#include "kernels/cuda/layernorm_backward.cuh"
#include "kernels/cuda/ptx_sm90.cuh"

constexpr int64_t COLS_MOST = 4096;

// ELEMENTS a lane and row, WARPS of a block at most, STAGES rows a warp in flight; ADDS:
// accumulates into dx.
template <int ELEMENTS, int WARPS, int STAGES, bool ADDS> struct bulk_config {
    static constexpr int E = ELEMENTS;
    static constexpr int W = WARPS;
    static constexpr int D = STAGES;
    static constexpr bool ADD = ADDS;
    static constexpr int OPERANDS = ADDS ? 3 : 2;
    static constexpr int SPAN = E * WARP; // columns of a warp
    static_assert(D > 1, "the column sums need the space of two stages");
};

// A warp's place and its ring, [D, OPERANDS, SPAN] of shared memory.
template <typename T, typename C> struct bulk_place {
    static constexpr int V = WIDE<T>;
    T *ring;
    uint32_t arrived; // D barriers
    int lane;
    int64_t column; // its first
    int width;      // columns that there are, at most SPAN

    __device__ __forceinline__ int offset(int n) const { return (n * WARP + lane) * V; }
    __device__ __forceinline__ bool there(int n) const { return offset(n) < width; }
    __device__ __forceinline__ T *row(int stage, int operand) const
    {
        return ring + (stage * C::OPERANDS + operand) * C::SPAN;
    }
    __device__ __forceinline__ uint4 pack(int stage, int operand, int n) const
    {
        return *reinterpret_cast<const uint4 *>(row(stage, operand) + offset(n));
    }
    __device__ __forceinline__ uint32_t barrier(int stage) const { return arrived + 8 * stage; }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static __device__ __forceinline__ void bulk_copy(void *to, const void *from, uint32_t bytes,
                                                 uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Starts the copies of a row; called by one lane.
template <typename T, typename P, typename C>
static __device__ __forceinline__ void ask(const layernorm_backward_operands<T, P> &with,
                                           const bulk_place<T, C> &at, int64_t row, int stage)
{
    if (at.lane == 0 && row < with.rows) {
        const int64_t base = row * with.cols + at.column;
        const uint32_t bytes = (uint32_t)at.width * sizeof(T);
        mbarrier_expect(at.barrier(stage), bytes * C::OPERANDS);
        bulk_copy(at.row(stage, 0), with.dy + base, bytes, at.barrier(stage));
        bulk_copy(at.row(stage, 1), with.s + base, bytes, at.barrier(stage));
        if (C::ADD) {
            bulk_copy(at.row(stage, 2), with.dx + base, bytes, at.barrier(stage));
        }
    }
}

// The two sums over a group. `shared` has a pair per warp and is used again two rows later.
static __device__ __forceinline__ float2 group_sums(float2 value, float2 *shared, int warps,
                                                    int part, int group)
{
    value.x = warp_sum(value.x);
    value.y = warp_sum(value.y);
    if (warps > 1) {
        if (threadIdx.x % WARP == 0) {
            shared[part] = value;
        }
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"(warps * WARP) : "memory");
        value = shared[0];
        for (int warp = 1; warp < warps; ++warp) {
            value.x += shared[warp].x;
            value.y += shared[warp].y;
        }
    }
    return value;
}

// Writes one of the two sets of column sums over the warp's ring: [N, V / 4, WARP] of four.
template <typename T, typename C>
static __device__ __forceinline__ void leave(const float (&held)[C::E / WIDE<T>][WIDE<T>], int lane,
                                             float4 *to)
{
    constexpr int V = WIDE<T>;
#pragma unroll
    for (int n = 0; n < C::E / V; ++n) {
#pragma unroll
        for (int four = 0; four < V / 4; ++four) {
            const float *from = &held[n][4 * four];
            to[(n * (V / 4) + four) * WARP + lane] = {from[0], from[1], from[2], from[3]};
        }
    }
}

// Adds the column sums of the block's groups in order and writes them to the workspace.
template <typename T, typename C>
static __device__ __forceinline__ void write_parts(const float4 *sums, int cols, int warps,
                                                   int groups, float *target)
{
    constexpr int V = WIDE<T>;
    constexpr int FOURS = C::SPAN / 4;                                         // of a warp and sum
    constexpr int STRIDE = C::D * C::OPERANDS * C::SPAN * (int)sizeof(T) / 16; // of a warp
    for (int at = (int)threadIdx.x; at < warps * 2 * FOURS; at += (int)blockDim.x) {
        const int part = at / (2 * FOURS);
        const int place = at % (2 * FOURS);
        float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int group = 0; group < groups; ++group) {
            const float4 more = sums[(group * warps + part) * STRIDE + place];
            total.x += more.x;
            total.y += more.y;
            total.z += more.z;
            total.w += more.w;
        }
        const int four = place % FOURS / WARP; // n * (V / 4) + which four
        const int col =
            part * C::SPAN + (four / (V / 4) * WARP + place % WARP) * V + four % (V / 4) * 4;
        if (col < cols) {
            *reinterpret_cast<float4 *>(target + place / FOURS * cols + col) = total;
        }
    }
}
#endif

template <typename T, typename P, typename C>
static __global__ void __launch_bounds__(C::W *WARP, 1)
    bulk_kernel(const __grid_constant__ layernorm_backward_operands<T, P> with, int warps,
                int groups)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr int V = WIDE<T>;
    constexpr int N = C::E / V;
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t arrived[C::W][C::D];
    __shared__ float2 shared[2][C::W];
    const int warp = __shfl_sync(ALL_LANES, (int)threadIdx.x / WARP, 0);
    const int group = warp / warps;
    const int part = warp - group * warps;
    const int cols = (int)with.cols;
    bulk_place<T, C> at;
    at.ring = reinterpret_cast<T *>(memory) + warp * (C::D * C::OPERANDS * C::SPAN);
    at.arrived = shared_address(arrived[warp]);
    at.lane = (int)threadIdx.x % WARP;
    at.column = part * C::SPAN;
    at.width = min(C::SPAN, cols - part * C::SPAN);
    const int64_t step = (int64_t)gridDim.x * groups;
    int64_t row = (int64_t)group * gridDim.x + blockIdx.x; // spreads few rows over many SMs
    if (at.lane == 0) {
#pragma unroll
        for (int stage = 0; stage < C::D; ++stage) {
            mbarrier_init(at.barrier(stage), 1);
        }
        mbarrier_init_fence();
    }
    __syncwarp();
    wait_for_previous();
#pragma unroll
    for (int stage = 0; stage < C::D; ++stage) {
        ask(with, at, row + stage * step, stage);
    }
    allow_next();
    float gamma[N][V] = {};
    float dgamma[N][V] = {};
    float dbeta[N][V] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) {
        if (at.there(n)) {
            load<V>(with.gamma + at.column + at.offset(n), gamma[n]);
        } else { // not copied
#pragma unroll
            for (int i = 0; i < C::D * C::OPERANDS; ++i) {
                *reinterpret_cast<uint4 *>(at.row(0, i) + at.offset(n)) = uint4{0, 0, 0, 0};
            }
        }
    }
    // Lane l has mean and rstd of the warp's l-th row of 32.
    const auto numbers = [&](const float *of, int64_t first) {
        const int64_t mine = first + at.lane * step;
        return mine < with.rows ? of[mine] : 0.0f;
    };
    float next_mean = numbers(with.mean, row);
    float next_rstd = numbers(with.rstd, row);
    float means = 0.0f;
    float rstds = 0.0f;
    const float inverse = 1.0f / (float)cols;
    int stage = 0;
    uint32_t parity = 0;
    for (int turn = 0; row < with.rows; ++turn, row += step) {
        if (turn % WARP == 0) {
            means = next_mean;
            rstds = next_rstd;
            next_mean = numbers(with.mean, row + WARP * step);
            next_rstd = numbers(with.rstd, row + WARP * step);
        }
        const float rstd = __shfl_sync(ALL_LANES, rstds, turn % WARP);
        const float shift = -__shfl_sync(ALL_LANES, means, turn % WARP) * rstd;
        float g[N][V];
        float h[N][V];
        uint4 old[N];
        float2 totals[N] = {};
        mbarrier_wait(at.barrier(stage), parity);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            unpack<T>(at.pack(stage, 0, n), g[n]);
            unpack<T>(at.pack(stage, 1, n), h[n]);
            if (C::ADD) {
                old[n] = at.pack(stage, 2, n);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                h[n][j] = h[n][j] * rstd + shift;
                dgamma[n][j] += g[n][j] * h[n][j];
                dbeta[n][j] += g[n][j];
                g[n][j] *= gamma[n][j];
                totals[n].x += g[n][j];
                totals[n].y += g[n][j] * h[n][j];
            }
        }
#pragma unroll
        for (int n = 1; n < N; ++n) {
            totals[0].x += totals[n].x;
            totals[0].y += totals[n].y;
        }
        const float2 total =
            group_sums(totals[0], shared[turn % 2] + group * warps, warps, part, group);
        __syncwarp(); // every lane has read the stage
        ask(with, at, row + C::D * step, stage);
        if (++stage == C::D) {
            stage = 0;
            parity ^= 1;
        }
        const float mean_g = -total.x * inverse * rstd;
        const float mean_gh = -total.y * inverse * rstd;
        T *dx = with.dx + row * with.cols + at.column;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float held[V] = {};
            if (C::ADD) {
                unpack<T>(old[n], held);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float value = g[n][j] * rstd + (h[n][j] * mean_gh + mean_g);
                held[j] = C::ADD ? held[j] + value : value;
            }
            if (at.there(n)) {
                store<V>(dx + at.offset(n), held);
            }
        }
    }
    float4 *sums = reinterpret_cast<float4 *>(at.ring);
    __syncwarp();
    leave<T, C>(dgamma, at.lane, sums);
    leave<T, C>(dbeta, at.lane, sums + C::SPAN / 4);
    __syncthreads();
    write_parts<T, C>(reinterpret_cast<const float4 *>(memory), cols, warps, groups,
                      with.partials + (int64_t)blockIdx.x * 2 * cols);
#endif
}

// Fraction of a block's lanes that have columns.
template <typename C> static double busy(int64_t cols)
{
    const int64_t groups = C::W / bt_div_up(cols, C::SPAN);
    return (double)(groups * cols) / (C::W * C::SPAN);
}

// Launches the kernel of a configuration where the device can; returns the number of blocks.
template <typename T, typename P, typename C>
static int try_bulk(const bt_launch *launch, const layernorm_backward_operands<T, P> &with)
{
    const int warps = (int)bt_div_up(with.cols, C::SPAN);
    const int groups = C::W / warps;
    auto kernel = bulk_kernel<T, P, C>;
    cudaStream_t stream = bt_cuda_stream(launch); // makes the device current
    cudaFuncAttributes known = {};
    int most = 0;
    const size_t shared_bytes = (size_t)(groups * warps * C::D * C::OPERANDS * C::SPAN) * sizeof(T);
    (void)cudaFuncGetAttributes(&known, kernel);
    (void)cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                 launch->device->ordinal);
    if (groups == 0 || known.ptxVersion < 90 ||
        known.sharedSizeBytes + shared_bytes > (size_t)most) {
        return 0;
    }
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               (int)shared_bytes);
    const unsigned blocks = bt_cuda_grid(launch->device, with.rows, 1);
    launch_after(launch->device, kernel, blocks, (unsigned)(groups * warps * WARP), shared_bytes,
                 stream, with, warps, groups);
    return (int)blocks;
}

// 24 elements a lane cost fewer instructions per element than 8, but may leave more lanes idle.
template <typename T, typename P, bool ADD>
static int choose(const bt_launch *launch, const layernorm_backward_operands<T, P> &with)
{
    using many = bulk_config<24, 12, ADD ? 2 : sizeof(T) == 2 ? 4 : 3, ADD>;
    using few = bulk_config<8, 24, ADD ? 2 : 4, ADD>;
    return busy<many>(with.cols) * 6 >= busy<few>(with.cols) * 5
               ? try_bulk<T, P, many>(launch, with)
               : try_bulk<T, P, few>(launch, with);
}

template <typename T, typename P>
int layernorm_backward_bulk(const bt_launch *launch, const layernorm_backward_operands<T, P> &with)
{
    if (with.cols > COLS_MOST) {
        return 0;
    }
    return with.accumulate ? choose<T, P, true>(launch, with) : choose<T, P, false>(launch, with);
}

template int layernorm_backward_bulk(const bt_launch *,
                                     const layernorm_backward_operands<float, float> &);
template int layernorm_backward_bulk(const bt_launch *,
                                     const layernorm_backward_operands<bf16, bf16> &);
template int layernorm_backward_bulk(const bt_launch *,
                                     const layernorm_backward_operands<bf16, float> &);
