// kernels/cuda/layernorm_backward_wide.cu - LayerNorm backward, rows through shared memory
// Computes what layernorm_backward.cu does. A group of warps holds the columns, N packs a thread,
// and processes R rows at a time. The next rows are prefetched into shared memory, where each
// thread reads back what it copied itself, so that registers are free for the column sums. The 2 R
// sums over the group are reduced together. At the end a block, one per SM, adds the column sums of
// its groups in order and writes them to the workspace.
//   Shapes  cols a multiple of a pack, up to 32 warps of 2 packs a thread: 8192 of f32, 16384 of
//           bf16; operands aligned to 16 bytes
//   Types   f32, bf16; gamma the same or f32; the rest f32
//   Cost    reads dy and s, writes dx once (reads it too when it accumulates); bound by HBM
// Used for rows of more than 4096 columns, and for all rows on GPUs without bulk copies.
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/layernorm_backward.cuh"

constexpr int GROUP_WARPS_MOST = 32;
constexpr int BLOCK_WARPS = 24; // of a block of several groups: 80 registers a thread
constexpr int STAGES = 2;       // batches of R rows in shared memory: one in use, one in flight

// PACKS of 16 bytes a thread and row, ROWS at a time; ADDS: accumulates into dx.
template <int PACKS, int ROWS, bool ADDS> struct batch_config {
    static constexpr int N = PACKS;
    static constexpr int R = ROWS;
    static constexpr bool ADD = ADDS;
    static constexpr int OPERANDS = ADDS ? 3 : 2;
    static constexpr int RING = STAGES * OPERANDS * R * N; // packs a thread
};

// A thread's place, and its rows in shared memory: pack (operand, r, n) of a stage lies beside
// those of the other lanes of its warp.
template <typename T, typename C> struct batch_place {
    static constexpr int V = WIDE<T>;
    uint4 *ring;  // its first pack; the next is WARP further
    float *stats; // [STAGES, 2 R] of the warp: means, then rstds
    int size, group, thread;
    int cols;

    __device__ __forceinline__ int column(int n) const { return (n * size + thread) * V; }
    __device__ __forceinline__ uint4 *pack(int stage, int operand, int r, int n) const
    {
        const int at = ((stage * C::OPERANDS + operand) * C::R + r) * C::N + n;
        return ring + at * WARP;
    }
    __device__ __forceinline__ float *stat(int stage) const { return stats + stage * 2 * C::R; }
};

// Starts copying rows [first, first + R).
template <typename T, typename P, typename C>
static __device__ __forceinline__ void ask(const layernorm_backward_operands<T, P> &with,
                                           const batch_place<T, C> &at, int64_t first, int stage)
{
    const T *const from[3] = {with.dy, with.s, with.dx};
#pragma unroll
    for (int r = 0; r < C::R; ++r) {
        const bool inside = first + r < with.rows;
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
            const bool there = inside && at.column(n) < at.cols;
            const int64_t offset = there ? (first + r) * with.cols + at.column(n) : 0;
#pragma unroll
            for (int operand = 0; operand < C::OPERANDS; ++operand) {
                copy_async<16>(at.pack(stage, operand, r, n), from[operand] + offset, there);
            }
        }
    }
    const int lane = (int)threadIdx.x % WARP;
    if (lane < 2 * C::R) {
        const int64_t row = first + lane % C::R;
        const bool there = row < with.rows;
        const float *stat = lane < C::R ? with.mean : with.rstd;
        copy_async<4>(at.stat(stage) + lane, stat + (there ? row : 0), there);
    }
    copy_commit();
}

// Sums COUNT values each over the lanes of a warp. Each step exchanges half of the values between
// half-warps, so that in the end lane l has the sum of value l / (32 / COUNT).
template <int COUNT> static __device__ __forceinline__ float warp_sums(float (&value)[COUNT])
{
    const int lane = (int)threadIdx.x % WARP;
    int reach = WARP / 2;
#pragma unroll
    for (int half = COUNT / 2; half > 0; half /= 2, reach /= 2) {
        const bool upper = (lane & reach) != 0;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const float sent = upper ? value[i] : value[i + half];
            const float kept = upper ? value[i + half] : value[i];
            value[i] = kept + __shfl_xor_sync(ALL_LANES, sent, reach);
        }
    }
    float sum = value[0];
    for (; reach > 0; reach /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, reach);
    }
    return sum;
}

// Each value's sum over the group, in every thread. `shared` [warps, COUNT] is used again two
// batches later.
template <int COUNT>
static __device__ __forceinline__ void group_sums(float (&value)[COUNT], float *shared, int warps,
                                                  int group, int thread)
{
    constexpr int SHARE = WARP / COUNT; // lanes of a value
    const int lane = thread % WARP;
    float sum = warp_sums<COUNT>(value);
    if (warps > 1) {
        if (lane % SHARE == 0) {
            shared[thread / WARP * COUNT + lane / SHARE] = sum;
        }
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"(warps * WARP) : "memory");
        sum = 0.0f;
        for (int warp = lane % SHARE; warp < warps; warp += SHARE) {
            sum += shared[warp * COUNT + lane / SHARE];
        }
#pragma unroll
        for (int reach = SHARE / 2; reach > 0; reach /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, reach);
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        value[i] = __shfl_sync(ALL_LANES, sum, i * SHARE);
    }
}

// The register sums of one of the two: those of the block's groups in order, to `target`.
template <typename T, typename C>
static __device__ __forceinline__ void write_part(const float (&held)[C::N][WIDE<T>],
                                                  const batch_place<T, C> &at, int groups,
                                                  float *sums, float *target)
{
    constexpr int V = WIDE<T>;
    const int width = C::N * V * at.size;
    __syncthreads(); // sums may be in use
#pragma unroll
    for (int n = 0; n < C::N; ++n) {
#pragma unroll
        for (int j = 0; j < V; ++j) { // element by element, so that a warp meets distinct banks
            sums[at.group * width + (n * V + j) * at.size + at.thread] = held[n][j];
        }
    }
    __syncthreads();
    for (int place = (int)threadIdx.x; place < width; place += (int)blockDim.x) {
        float total = 0.0f;
        for (int group = 0; group < groups; ++group) {
            total += sums[group * width + place];
        }
        const int element = place / at.size; // n * V + j
        const int col = (element / V * at.size + place % at.size) * V + element % V;
        if (col < at.cols) {
            target[col] = total;
        }
    }
}

// R rows: adds to the column sums, writes dx.
template <typename T, typename P, typename C>
static __device__ __forceinline__ void
work(const layernorm_backward_operands<T, P> &with, const batch_place<T, C> &at, int64_t first,
     int stage, const float (&gamma)[C::N][WIDE<T>], float *shared, float (&dgamma)[C::N][WIDE<T>],
     float (&dbeta)[C::N][WIDE<T>])
{
    constexpr int V = WIDE<T>;
    float total[2 * C::R] = {}; // of g, then of g h
    const float *stat = at.stat(stage);
#pragma unroll
    for (int r = 0; r < C::R; ++r) {
        const float rstd = stat[C::R + r];
        const float shift = -stat[r] * rstd;
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
            float dy[V];
            float s[V];
            unpack<T>(*at.pack(stage, 0, r, n), dy);
            unpack<T>(*at.pack(stage, 1, r, n), s);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float h = s[j] * rstd + shift;
                const float g = dy[j] * gamma[n][j];
                dgamma[n][j] += dy[j] * h;
                dbeta[n][j] += dy[j];
                total[r] += g;
                total[C::R + r] += g * h;
            }
        }
    }
    group_sums<2 * C::R>(total, shared, at.size / WARP, at.group, at.thread);
    const float inverse = 1.0f / (float)at.cols;
#pragma unroll
    for (int r = 0; r < C::R; ++r) {
        const float rstd = stat[C::R + r];
        const float shift = -stat[r] * rstd;
        const float mean_g = -total[r] * inverse * rstd;
        const float mean_gh = -total[C::R + r] * inverse * rstd;
        T *dx = with.dx + (first + r) * with.cols;
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
            float dy[V];
            float s[V];
            float old[V] = {};
            unpack<T>(*at.pack(stage, 0, r, n), dy);
            unpack<T>(*at.pack(stage, 1, r, n), s);
            if (C::ADD) {
                unpack<T>(*at.pack(stage, C::OPERANDS - 1, r, n), old);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float h = s[j] * rstd + shift;
                const float value = dy[j] * gamma[n][j] * rstd + (h * mean_gh + mean_g);
                old[j] = C::ADD ? old[j] + value : value;
            }
            if (first + r < with.rows && at.column(n) < at.cols) {
                store<V>(dx + at.column(n), old);
            }
        }
    }
}

template <typename T, typename P, typename C, int WARPS>
static __global__ void __launch_bounds__(WARPS *WARP, 1)
    wide_kernel(const __grid_constant__ layernorm_backward_operands<T, P> with, int warps,
                int groups)
{
    constexpr int V = WIDE<T>;
    extern __shared__ __align__(16) uint4 ring[];
    __shared__ float stats[WARPS][STAGES * 2 * C::R];
    __shared__ float shared[2][WARPS * 2 * C::R];
    batch_place<T, C> at;
    at.size = warps * WARP;
    at.group = (int)threadIdx.x / at.size;
    at.thread = (int)threadIdx.x % at.size;
    at.ring = ring + threadIdx.x / WARP * (C::RING * WARP) + threadIdx.x % WARP;
    at.stats = stats[threadIdx.x / WARP];
    at.cols = (int)with.cols;
    float gamma[C::N][V];
    float dgamma[C::N][V] = {};
    float dbeta[C::N][V] = {};
#pragma unroll
    for (int n = 0; n < C::N; ++n) {
        const int col = at.column(n);
        load<V>(with.gamma + (col < at.cols ? col : 0), gamma[n]);
    }
    // Spreads few batches over all SMs.
    const int64_t step = (int64_t)gridDim.x * groups * C::R;
    int64_t first = ((int64_t)at.group * gridDim.x + blockIdx.x) * C::R;
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        ask(with, at, first + stage * step, stage);
    }
    for (int turn = 0; first < with.rows; first += step, turn ^= 1) {
        copy_wait<STAGES - 1>();
        __syncwarp(); // means and rstds were copied by other lanes
        work(with, at, first, turn, gamma, shared[turn] + at.group * warps * 2 * C::R, dgamma,
             dbeta);
        __syncwarp();
        ask(with, at, first + STAGES * step, turn);
    }
    allow_next();
    float *target = with.partials + (int64_t)blockIdx.x * 2 * at.cols;
    float *sums = reinterpret_cast<float *>(ring);
    copy_wait<0>();
    write_part<T, C>(dgamma, at, groups, sums, target);
    write_part<T, C>(dbeta, at, groups, sums, target + at.cols);
}

// Launches the kernel of a configuration when a block of it fits the device; returns the number of
// blocks.
template <typename T, typename P, typename C, int WARPS>
static int try_rows(const bt_launch *launch, const layernorm_backward_operands<T, P> &with)
{
    const int64_t warps = bt_div_up(with.cols, (int64_t)C::N * WIDE<T> * WARP);
    const size_t a_warp = (size_t)C::RING * sizeof(uint4) * WARP;
    int most = 0;
    cudaFuncAttributes known = {};
    auto kernel = wide_kernel<T, P, C, WARPS>;
    cudaStream_t stream = bt_cuda_stream(launch); // makes the device current
    (void)cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                 launch->device->ordinal);
    (void)cudaFuncGetAttributes(&known, kernel);
    const int64_t room = ((int64_t)most - (int64_t)known.sharedSizeBytes) / (int64_t)a_warp;
    const int groups = (int)(bt_min_i64(room, WARPS) / warps);
    if (groups == 0) {
        return 0;
    }
    const int threads = groups * (int)warps * WARP;
    const size_t shared_bytes = a_warp * (size_t)(groups * warps);
    const unsigned blocks = bt_cuda_grid(launch->device, with.rows, 1);
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               (int)shared_bytes);
    kernel<<<blocks, threads, shared_bytes, stream>>>(with, (int)warps, groups);
    return (int)blocks;
}

template <typename T, typename P>
int layernorm_backward_wide(const bt_launch *launch, const layernorm_backward_operands<T, P> &with)
{
    const bool one_pack = with.cols <= BLOCK_WARPS * WARP * WIDE<T>;
    if (with.accumulate) {
        return one_pack ? try_rows<T, P, batch_config<1, 2, true>, BLOCK_WARPS>(launch, with)
                        : try_rows<T, P, batch_config<2, 1, true>, GROUP_WARPS_MOST>(launch, with);
    }
    return one_pack ? try_rows<T, P, batch_config<1, 4, false>, BLOCK_WARPS>(launch, with)
                    : try_rows<T, P, batch_config<2, 1, false>, GROUP_WARPS_MOST>(launch, with);
}

template int layernorm_backward_wide(const bt_launch *,
                                     const layernorm_backward_operands<float, float> &);
template int layernorm_backward_wide(const bt_launch *,
                                     const layernorm_backward_operands<bf16, bf16> &);
template int layernorm_backward_wide(const bt_launch *,
                                     const layernorm_backward_operands<bf16, float> &);
