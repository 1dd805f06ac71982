// kernels/cuda/cross_entropy.cu - loss over logits, forward, and backward in place
//   loss = lse - logit[target]; dlogit = (e^(logit - lse) - [c == target]) dmean inv_count
// Forward: a block per row, one pass with running maximum and sum, 16-byte loads, several in
// flight; then one block takes mean, count and the first bad row in a fixed order.
// Backward: elementwise, in the order of memory; each element read and written once by the same
// thread.
// Both at once (cross_entropy_grad): a block per row, forward and then backward.
//   Types  f32, bf16; everything else f32
//   Cost   forward reads the logits once, backward reads and writes them once; bound by HBM
//   NaN    a NaN or +inf in a row makes its lse and loss NaN; -inf is probability 0
//   Approximate: ex2 (see cuda.cuh), logf of the library
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/parts.cuh"

constexpr int LONG_THREADS = 256;
constexpr int SHORT_THREADS = 64; // for rows so short that most of 256 threads would be idle
constexpr int64_t SHORT_PACKS = 512;
constexpr int UNROLL = 4;
constexpr int MEAN_THREADS = 1024;
constexpr int MEAN_LOADS = 8;             // in flight per thread
constexpr int64_t GRID_MOST = 0x7fffffff; // blocks

// Sum of e^(x - maximum) as seen so far. A maximum of -inf counts as 0 in the exponent, so that
// e^(-inf) is 0 and not NaN.
struct running {
    float maximum, sum;
};

static __device__ __forceinline__ float base_of(float maximum)
{
    return maximum == -INFINITY ? 0.0f : maximum;
}

template <int N> static __device__ __forceinline__ void take(running &so_far, const float (&x)[N])
{
    float maximum = so_far.maximum;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        maximum = fmaxf(maximum, x[i]);
    }
    const float base = base_of(maximum);
    if (maximum > so_far.maximum) {
        so_far.sum *= exp_base2(so_far.maximum - base);
        so_far.maximum = maximum;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
        so_far.sum += exp_base2(x[i] - base);
    }
}

// Writes the row's loss, and its log-sum-exp if `lse` is not NULL; returns the log-sum-exp.
template <typename T, int V, int THREADS>
static __device__ __forceinline__ float
forward_row(const T *logits, const int32_t *targets, float *loss, float *lse, int64_t row,
            int64_t vocab, int64_t stride, int32_t ignore, float (*shared)[THREADS / WARP])
{
    constexpr int WARPS = THREADS / WARP;
    const T *x = logits + row * stride;
    const int64_t packs = vocab / V;
    running so_far = {-INFINITY, 0.0f};
    // Loaded at the start and used at the end; its logit is loaded only then, to not stall the row.
    const int32_t target = threadIdx.x == 0 ? targets[row] : ignore;
    for (int64_t first = threadIdx.x; first < packs; first += THREADS * UNROLL) {
        float held[UNROLL][V];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * THREADS < packs) {
                load<V>(x + (first + i * THREADS) * V, held[i]);
            } else {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    held[i][j] = -INFINITY;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            take(so_far, held[i]);
        }
    }
    for (int64_t c = packs * V + threadIdx.x; c < vocab; c += THREADS) {
        const float one[1] = {to_float(x[c])};
        take(so_far, one);
    }
    const bool named = target >= 0 && target < vocab;
    const float chosen = threadIdx.x == 0 && named ? to_float(x[target]) : NAN;
    const float maximum = block_max<WARPS>(so_far.maximum, shared[0]);
    const float scaled = so_far.sum * exp_base2(so_far.maximum - base_of(maximum));
    const float all = maximum + logf(block_sum<WARPS>(scaled, shared[1]));
    if (threadIdx.x == 0) {
        if (lse) {
            lse[row] = all;
        }
        loss[row] = target == ignore ? 0.0f : all - chosen;
    }
    return all;
}

template <typename T, int V, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    rows_kernel(const T *logits, const int32_t *targets, float *loss, float *lse, int64_t rows,
                int64_t vocab, int64_t stride, int32_t ignore)
{
    __shared__ float shared[2][THREADS / WARP];
    allow_next();
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        (void)forward_row<T, V, THREADS>(logits, targets, loss, lse, row, vocab, stride, ignore,
                                         shared);
    }
}

struct grad_operands {
    const int32_t *targets;
    const float *inv_count;
    float *loss;
    int64_t rows, vocab, stride;
    int32_t ignore;
};

// Loss and gradient of a row by a block. The second pass goes from the last pack to the first: the
// packs read last are still in L2.
template <typename T, int V, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    grad_kernel(const T *logits, T *dlogits, const __grid_constant__ grad_operands with)
{
    __shared__ float shared[2][THREADS / WARP];
    const float scale = with.inv_count[0];
    const int64_t packs = with.vocab / V;
    for (int64_t row = blockIdx.x; row < with.rows; row += gridDim.x) {
        const float all = forward_row<T, V, THREADS>(logits, with.targets, with.loss, NULL, row,
                                                     with.vocab, with.stride, with.ignore, shared);
        const T *x = logits + row * with.stride;
        T *dx = dlogits + row * with.stride;
        const int32_t target = with.targets[row];
        const bool ignored = target == with.ignore;
        for (int64_t c = packs * V + threadIdx.x; c < with.vocab; c += THREADS) {
            const float value = (exp_base2(to_float(x[c]) - all) - (c == target ? 1.0f : 0.0f));
            dx[c] = from_float<T>(ignored ? 0.0f : value * scale);
        }
        for (int64_t pack = packs - 1 - threadIdx.x; pack >= 0; pack -= THREADS) {
            float held[V];
            load<V>(x + pack * V, held);
#pragma unroll
            for (int j = 0; j < V; ++j) {
                const float one = pack * V + j == target ? 1.0f : 0.0f;
                held[j] = ignored ? 0.0f : (exp_base2(held[j] - all) - one) * scale;
            }
            store<V>(dx + pack * V, held);
        }
    }
}

// Rows that are not ignored, and the first of them, up to `rows`, whose target is out of range.
struct target_count {
    int64_t rows, bad;

    __device__ __forceinline__ void join_lanes()
    {
#pragma unroll
        for (int lane = WARP / 2; lane > 0; lane /= 2) {
            const int64_t other = __shfl_xor_sync(ALL_LANES, bad, lane);
            rows += __shfl_xor_sync(ALL_LANES, rows, lane);
            bad = other < bad ? other : bad;
        }
    }
};

// Calls f(row, value) for the rows of a thread.
template <typename T, typename F>
static __device__ __forceinline__ void each_row(const T *values, int64_t rows, F f)
{
    for (int64_t first = threadIdx.x; first < rows; first += MEAN_THREADS * MEAN_LOADS) {
        T held[MEAN_LOADS];
#pragma unroll
        for (int i = 0; i < MEAN_LOADS; ++i) {
            if (first + i * MEAN_THREADS < rows) {
                held[i] = values[first + i * MEAN_THREADS];
            }
        }
#pragma unroll
        for (int i = 0; i < MEAN_LOADS; ++i) {
            if (first + i * MEAN_THREADS < rows) {
                f(first + i * MEAN_THREADS, held[i]);
            }
        }
    }
}

static __global__ void __launch_bounds__(MEAN_THREADS)
    mean_kernel(const float *loss, const int32_t *targets, float *mean, float *inv_count,
                int64_t *bad_row, int64_t rows, int64_t vocab, int32_t ignore)
{
    __shared__ target_count counts[MEAN_THREADS / WARP];
    __shared__ float sums[MEAN_THREADS / WARP];
    const int lane = (int)threadIdx.x % WARP;
    const int warp = (int)threadIdx.x / WARP;
    target_count count = {0, rows};
    each_row(targets, rows, [&](int64_t row, int32_t target) {
        if (target != ignore) {
            ++count.rows;
            count.bad = (target < 0 || target >= vocab) && row < count.bad ? row : count.bad;
        }
    });
    count.join_lanes();
    wait_for_previous(); // the losses; the targets are not written by the kernel before
    float sum = 0.0f;
    each_row(loss, loss ? rows : 0, [&](int64_t, float one) { sum += one; }); // 0 where ignored
    sum = warp_sum(sum);
    if (lane == 0) {
        counts[warp] = count;
        sums[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        count = counts[lane];
        count.join_lanes();
        sum = warp_sum(sums[lane]);
        if (lane == 0) {
            const float counted = (float)count.rows;
            if (mean) {
                *mean = count.rows ? sum / counted : 0.0f;
            }
            *inv_count = count.rows ? 1.0f / counted : 0.0f;
            *bad_row = count.bad < rows ? count.bad : -1;
        }
    }
}

struct backward_operands {
    const int32_t *targets;
    const float *lse, *inv_count, *dmean;
    int64_t rows, vocab, stride;
    int32_t ignore;
    divisor chunks; // of a row: blocks of STREAM_THREADS packs
};

// A block is a chunk of a row.
template <typename T, int V>
static __global__ void __launch_bounds__(STREAM_THREADS)
    backward_kernel(const T *logits, T *dlogits, int64_t first_row,
                    const __grid_constant__ backward_operands with)
{
    const uint32_t in_turn = with.chunks.quotient(blockIdx.x);
    const int64_t row = first_row + in_turn;
    const int64_t col =
        ((int64_t)(blockIdx.x - in_turn * with.chunks.by) * STREAM_THREADS + threadIdx.x) * V;
    if (col >= with.vocab) {
        return;
    }
    // All loads are issued before the first value is used. A row may end within a pack (its stride
    // leaves room for it): elements past the end are padding and keep their values.
    const T *x = logits + row * with.stride + col;
    T *dx = dlogits + row * with.stride + col;
    float held[V];
    const bool whole = col + V <= with.vocab;
    if (whole) {
        load<V>(x, held);
    }
    const int32_t target = with.targets[row];
    const float all = with.lse[row];
    const float scale = with.dmean[0] * with.inv_count[0];
    const bool ignored = target == with.ignore;
    if (!whole) {
        for (int j = 0; col + j < with.vocab; ++j) {
            const float one = col + j == target ? 1.0f : 0.0f;
            const float value = (exp_base2(to_float(x[j]) - all) - one) * scale;
            dx[j] = from_float<T>(ignored ? 0.0f : value);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const float one = col + j == target ? 1.0f : 0.0f;
        held[j] = ignored ? 0.0f : (exp_base2(held[j] - all) - one) * scale;
    }
    store<V>(dx, held);
}

template <typename T, int V, int THREADS>
static void launch_forward(const bt_launch *launch, const bt_cross_entropy_args *args)
{
    const unsigned grid = (unsigned)bt_min_i64(args->rows, GRID_MOST);
    rows_kernel<T, V, THREADS><<<grid, THREADS, 0, bt_cuda_stream(launch)>>>(
        (const T *)args->logits, args->targets, (float *)args->loss, (float *)args->lse, args->rows,
        args->vocab, args->logits_stride, args->ignore);
}

template <typename T> static bt_status forward(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_args *args = (const bt_cross_entropy_args *)call;
    cudaStream_t stream = bt_cuda_stream(launch);
    const bool wide = bt_aligned_16(args->logits) && args->logits_stride % WIDE<T> == 0;
    if (args->rows > 0 && wide && args->vocab <= SHORT_PACKS * WIDE<T>) {
        launch_forward<T, WIDE<T>, SHORT_THREADS>(launch, args);
    } else if (args->rows > 0 && wide) {
        launch_forward<T, WIDE<T>, LONG_THREADS>(launch, args);
    } else if (args->rows > 0) {
        launch_forward<T, 1, LONG_THREADS>(launch, args);
    }
    launch_after(launch->device, mean_kernel, dim3(1), dim3(MEAN_THREADS), 0, stream,
                 (const float *)args->loss, args->targets, (float *)args->mean,
                 (float *)args->inv_count, args->bad_row, args->rows, args->vocab, args->ignore);
    return bt_cuda_launched("cross_entropy_cuda");
}

template <typename T, int V, int THREADS>
static void launch_grad(const bt_launch *launch, const bt_cross_entropy_grad_args *args)
{
    const unsigned grid = (unsigned)bt_min_i64(args->rows, GRID_MOST);
    cudaStream_t stream = bt_cuda_stream(launch);
    if (args->dlogits) {
        const grad_operands with = {args->targets,       (const float *)args->inv_count,
                                    (float *)args->loss, args->rows,
                                    args->vocab,         args->logits_stride,
                                    args->ignore};
        grad_kernel<T, V, THREADS>
            <<<grid, THREADS, 0, stream>>>((const T *)args->logits, (T *)args->dlogits, with);
    } else {
        rows_kernel<T, V, THREADS><<<grid, THREADS, 0, stream>>>(
            (const T *)args->logits, args->targets, (float *)args->loss, NULL, args->rows,
            args->vocab, args->logits_stride, args->ignore);
    }
}

template <typename T> static bt_status grad(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_grad_args *args = (const bt_cross_entropy_grad_args *)call;
    const bool wide = bt_aligned_16(args->logits) && bt_aligned_16(args->dlogits) &&
                      args->logits_stride % WIDE<T> == 0;
    if (args->rows > 0 && wide && args->vocab <= SHORT_PACKS * WIDE<T>) {
        launch_grad<T, WIDE<T>, SHORT_THREADS>(launch, args);
    } else if (args->rows > 0 && wide) {
        launch_grad<T, WIDE<T>, LONG_THREADS>(launch, args);
    } else if (args->rows > 0) {
        launch_grad<T, 1, LONG_THREADS>(launch, args);
    }
    return bt_cuda_launched("cross_entropy_grad_cuda");
}

template <typename T, int V>
static void launch_backward(const bt_launch *launch, const bt_cross_entropy_backward_args *args)
{
    const int64_t chunks = bt_max_i64(bt_div_up(args->vocab, V * STREAM_THREADS), 1);
    const backward_operands with = {args->targets,
                                    (const float *)args->lse,
                                    (const float *)args->inv_count,
                                    (const float *)args->dmean,
                                    args->rows,
                                    args->vocab,
                                    args->logits_stride,
                                    args->ignore,
                                    divisor::make(chunks)};
    // Rows of a launch: as many as a grid holds, usually all of them.
    const int64_t most = bt_max_i64(GRID_MOST / chunks, 1);
    for (int64_t row = 0; row < args->rows; row += most) {
        const unsigned grid = (unsigned)(chunks * bt_min_i64(most, args->rows - row));
        backward_kernel<T, V><<<grid, STREAM_THREADS, 0, bt_cuda_stream(launch)>>>(
            (const T *)args->logits, (T *)args->dlogits, row, with);
    }
}

template <typename T> static bt_status backward(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_backward_args *args = (const bt_cross_entropy_backward_args *)call;
    if (bt_aligned_16(args->logits) && bt_aligned_16(args->dlogits) &&
        args->logits_stride % WIDE<T> == 0) {
        launch_backward<T, WIDE<T>>(launch, args);
    } else {
        launch_backward<T, 1>(launch, args);
    }
    return bt_cuda_launched("cross_entropy_backward_cuda");
}

bt_status bt_cross_entropy_cuda_f32(const bt_launch *launch, const void *args)
{
    return forward<float>(launch, args);
}

bt_status bt_cross_entropy_cuda_bf16(const bt_launch *launch, const void *args)
{
    return forward<bf16>(launch, args);
}

bt_status bt_cross_entropy_backward_cuda_f32(const bt_launch *launch, const void *args)
{
    return backward<float>(launch, args);
}

bt_status bt_cross_entropy_backward_cuda_bf16(const bt_launch *launch, const void *args)
{
    return backward<bf16>(launch, args);
}

bt_status bt_cross_entropy_grad_cuda_f32(const bt_launch *launch, const void *args)
{
    return grad<float>(launch, args);
}

bt_status bt_cross_entropy_grad_cuda_bf16(const bt_launch *launch, const void *args)
{
    return grad<bf16>(launch, args);
}

bt_status bt_cross_entropy_mean_cuda_f32(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_mean_args *args = (const bt_cross_entropy_mean_args *)call;
    // No programmatic dependent launch: the kernel before may have written the targets.
    mean_kernel<<<1, MEAN_THREADS, 0, bt_cuda_stream(launch)>>>(
        (const float *)args->loss, args->targets, (float *)args->mean, (float *)args->inv_count,
        args->bad_row, args->rows, args->vocab, args->ignore);
    return bt_cuda_launched("cross_entropy_mean_cuda");
}
