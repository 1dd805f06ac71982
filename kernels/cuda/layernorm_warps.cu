// kernels/cuda/layernorm_warps.cu - LayerNorm forward, a warp per row, with prefetch
// Computes what layernorm.cu does, without the residual. Resident warps walk the rows with a fixed
// stride and prefetch the next rows into shared memory by cp.async. Each lane reads back only what
// it copied itself, so no warp waits for another. Gamma and beta are converted once and stay in
// registers.
//   Shapes  129 <= cols <= 1024, a multiple of a pack; x of up to 64 MB, of bf16 16 to 40 MB:
//           otherwise one block per row in the order of memory is faster
//   Types   f32, bf16; gamma and beta the same or f32; the rest f32
//   Cost    reads x, writes y once; bound by HBM
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/layernorm_forward.cuh"

constexpr int WARPS = 4;         // of a block
constexpr int RING_MOST = 16;    // packs of a lane in flight, at most
constexpr int DEPTH_MOST = 6;    // rows of a warp in flight, at most
constexpr int COLS_FEWEST = 129; // shorter rows share a warp
constexpr int COLS_MOST = 1024;  // what 128 registers a thread hold

// Sizes of x.
template <typename T> constexpr int64_t BYTES_FEWEST = sizeof(T) == 2 ? 16 << 20 : 0;
template <typename T> constexpr int64_t BYTES_MOST = sizeof(T) == 2 ? 40 << 20 : 64 << 20;

// PACKS of 16 bytes a lane and row, of which the last SLACK may lie past the end.
template <typename T, int PACKS> struct warp_config {
    static constexpr int V = WIDE<T>;
    static constexpr int N = PACKS;
    static constexpr int SLACK = 8 / V;
    static constexpr int D = RING_MOST / N < DEPTH_MOST ? RING_MOST / N : DEPTH_MOST;
    static constexpr int BLOCKS = N * V > 16 ? 4 : 6; // of an SM, which limits registers
};

// A lane's columns and its part of the ring.
template <typename C> struct lane_place {
    uint4 *ring; // its first pack; the next is WARP further
    int cols;

    static __device__ __forceinline__ int column(int n)
    {
        return (n * WARP + (int)threadIdx.x % WARP) * C::V;
    }
    __device__ __forceinline__ bool there(int n) const
    {
        return n < C::N - C::SLACK || column(n) < cols;
    }
    __device__ __forceinline__ uint4 *pack(int stage, int n) const
    {
        return ring + (stage * C::N + n) * WARP;
    }
};

// Starts copying the row that begins at `base`, or nothing.
template <typename T, typename C>
static __device__ __forceinline__ void ask(const T *x, const lane_place<C> &at, int64_t base,
                                           bool inside, int stage)
{
#pragma unroll
    for (int n = 0; n < C::N; ++n) {
        if (inside && at.there(n)) {
            copy_async<16>(at.pack(stage, n), x + base + at.column(n));
        }
    }
    copy_commit();
}

// The sum of V numbers, pairwise.
template <int V> static __device__ __forceinline__ float sum_of(float (&value)[V])
{
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
        for (int j = 0; j < half; ++j) {
            value[j] += value[j + half];
        }
    }
    return value[0];
}

template <typename T, typename P, typename C>
static __global__ void __launch_bounds__(WARPS *WARP, C::BLOCKS)
    warps_kernel(const __grid_constant__ layernorm_forward_operands<T, P> with)
{
    constexpr int V = C::V;
    __shared__ uint4 rings[WARPS][C::D * C::N * WARP];
    const lane_place<C> at = {rings[threadIdx.x / WARP] + threadIdx.x % WARP, (int)with.cols};
    const float inverse = 1.0f / (float)at.cols;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    int64_t base = row * with.cols;
    wait_for_previous();
    allow_next();
#pragma unroll
    for (int stage = 0; stage < C::D; ++stage) {
#pragma unroll
        for (int n = C::N - C::SLACK; n < C::N; ++n) {
            if (!at.there(n)) { // not copied
                *at.pack(stage, n) = uint4{0, 0, 0, 0};
            }
        }
        ask(with.x, at, base + stage * step * with.cols, row + stage * step < with.rows, stage);
    }
    float gamma[C::N][V] = {};
    float beta[C::N][V] = {};
#pragma unroll
    for (int n = 0; n < C::N; ++n) {
        if (at.there(n)) {
            load<V>(with.gamma + at.column(n), gamma[n]);
            if (with.beta) {
                load<V>(with.beta + at.column(n), beta[n]);
            }
        }
    }
    for (int stage = 0; row < with.rows; stage = stage + 1 < C::D ? stage + 1 : 0) {
        float held[C::N][V];
        float total[V] = {};
        float squares[V] = {};
        copy_wait<C::D - 1>();
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
            unpack<T>(*at.pack(stage, n), held[n]);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                total[j] += held[n][j];
            }
        }
        const float mean = warp_sum(sum_of(total)) * inverse;
        // What the stage held has been used.
        ask(with.x, at, base + C::D * step * with.cols, row + C::D * step < with.rows, stage);
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[n][j] -= mean;
                squares[j] += at.there(n) ? held[n][j] * held[n][j] : 0.0f;
            }
        }
        const float rstd = rsqrtf(warp_sum(sum_of(squares)) * inverse + with.epsilon);
        if (threadIdx.x % WARP == 0) {
            with.mean[row] = mean;
            with.rstd[row] = rstd;
        }
#pragma unroll
        for (int n = 0; n < C::N; ++n) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[n][j] = held[n][j] * rstd * gamma[n][j] + beta[n][j];
            }
            if (at.there(n)) {
                store<V>(with.y + base + at.column(n), held[n]);
            }
        }
        row += step;
        base += step * with.cols;
    }
}

// By N packs a lane, or STEP more, or ...
template <typename T, typename P, int N, int STEP>
static bool choose(const bt_launch *launch, const layernorm_forward_operands<T, P> &with)
{
    if constexpr (N * WIDE<T> * WARP > COLS_MOST) {
        return false;
    } else if (with.cols > N * WIDE<T> * WARP) {
        return choose<T, P, N + STEP, STEP>(launch, with);
    } else {
        using C = warp_config<T, N>;
        const unsigned blocks =
            bt_cuda_grid(launch->device, bt_div_up(with.rows, WARPS), C::BLOCKS);
        launch_after(launch->device, warps_kernel<T, P, C>, blocks, WARPS * WARP, 0,
                     bt_cuda_stream(launch), with);
        return true;
    }
}

template <typename T, typename P>
bool layernorm_forward_warps(const bt_launch *launch, const layernorm_forward_operands<T, P> &with)
{
    constexpr int STEP = 8 / WIDE<T>;
    const int64_t bytes = with.rows * with.cols * (int64_t)sizeof(T);
    return !with.residual && with.cols >= COLS_FEWEST && bytes >= BYTES_FEWEST<T> &&
           bytes <= BYTES_MOST<T> && choose<T, P, STEP, STEP>(launch, with);
}

template bool layernorm_forward_warps(const bt_launch *,
                                      const layernorm_forward_operands<float, float> &);
template bool layernorm_forward_warps(const bt_launch *,
                                      const layernorm_forward_operands<bf16, bf16> &);
template bool layernorm_forward_warps(const bt_launch *,
                                      const layernorm_forward_operands<bf16, float> &);
