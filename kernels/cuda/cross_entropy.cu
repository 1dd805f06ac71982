// kernels/cuda/cross_entropy.cu - loss over logits, forward, and backward in place
//   loss = lse - logit[target]; dlogit = (e^(logit - lse) - [c == target]) dmean inv_count
// Forward: a block per row, one pass with running maximum and sum, 16-byte loads, several in
// flight; then one block takes mean, count and the first bad row in a fixed order.
// Backward: a block per row, each element read and written once by the same thread.
//   Types  f32, bf16; everything else f32
//   Cost   forward reads the logits once, backward reads and writes them once; bound by HBM
//   NaN    a NaN or +inf in a row makes its lse and loss NaN; -inf is probability 0
//   Approximate: ex2 (see cuda.cuh), logf of the library
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int UNROLL = 4;
constexpr int MEAN_THREADS = 1024;

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

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    rows_kernel(const T *logits, const int32_t *targets, float *loss, float *lse, int64_t vocab,
                int64_t stride, int32_t ignore)
{
    __shared__ float shared[2][WARPS];
    const int64_t row = blockIdx.x;
    const T *x = logits + row * stride;
    const int64_t packs = vocab / V;
    running so_far = {-INFINITY, 0.0f};
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
    const float maximum = block_max<WARPS>(so_far.maximum, shared[0]);
    const float scaled = so_far.sum * exp_base2(so_far.maximum - base_of(maximum));
    const float sum = block_sum<WARPS>(scaled, shared[1]);
    if (threadIdx.x == 0) {
        const int32_t target = targets[row];
        const float all = maximum + logf(sum);
        lse[row] = all;
        if (target == ignore) {
            loss[row] = 0.0f;
        } else {
            bool good = target >= 0 && target < vocab;
            loss[row] = good ? all - to_float(x[target]) : NAN;
        }
    }
}

static __global__ void __launch_bounds__(MEAN_THREADS)
    mean_kernel(const float *loss, const int32_t *targets, float *mean, float *inv_count,
                int64_t *bad_row, int64_t rows, int64_t vocab, int32_t ignore)
{
    __shared__ float sums[MEAN_THREADS];
    __shared__ int64_t counts[MEAN_THREADS];
    __shared__ int64_t bads[MEAN_THREADS];
    const int at = (int)threadIdx.x;
    float sum = 0.0f;
    int64_t count = 0;
    int64_t bad = rows;
    for (int64_t row = at; row < rows; row += MEAN_THREADS) {
        const int32_t target = targets[row];
        if (target != ignore) {
            sum += loss[row];
            ++count;
            if ((target < 0 || target >= vocab) && row < bad) {
                bad = row;
            }
        }
    }
    sums[at] = sum;
    counts[at] = count;
    bads[at] = bad;
    for (int half = MEAN_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at < half) {
            sums[at] += sums[at + half];
            counts[at] += counts[at + half];
            bads[at] = bads[at + half] < bads[at] ? bads[at + half] : bads[at];
        }
    }
    if (at == 0) {
        *mean = counts[0] ? sums[0] / (float)counts[0] : 0.0f;
        *inv_count = counts[0] ? 1.0f / (float)counts[0] : 0.0f;
        *bad_row = bads[0] < rows ? bads[0] : -1;
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    backward_kernel(const T *logits, const int32_t *targets, const float *lse,
                    const float *inv_count, const float *dmean, T *dlogits, int64_t vocab,
                    int64_t stride, int32_t ignore)
{
    const int64_t row = blockIdx.x;
    const T *x = logits + row * stride;
    T *dx = dlogits + row * stride;
    const int32_t target = targets[row];
    const bool ignored = target == ignore;
    const float scale = dmean[0] * inv_count[0];
    const float all = lse[row];
    const int64_t packs = vocab / V;
    for (int64_t first = threadIdx.x; first < packs; first += THREADS * UNROLL) {
        float held[UNROLL][V];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * THREADS < packs && !ignored) {
                load<V>(x + (first + i * THREADS) * V, held[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const int64_t col = (first + i * THREADS) * V;
            if (first + i * THREADS < packs) {
#pragma unroll
                for (int j = 0; j < V; ++j) {
                    float one = col + j == target ? 1.0f : 0.0f;
                    held[i][j] = ignored ? 0.0f : (exp_base2(held[i][j] - all) - one) * scale;
                }
                store<V>(dx + col, held[i]);
            }
        }
    }
    for (int64_t c = packs * V + threadIdx.x; c < vocab; c += THREADS) {
        float one = c == target ? 1.0f : 0.0f;
        float value = ignored ? 0.0f : (exp_base2(to_float(x[c]) - all) - one) * scale;
        dx[c] = from_float<T>(value);
    }
}

template <typename T> static bt_status forward(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_args *args = (const bt_cross_entropy_args *)call;
    const T *logits = (const T *)args->logits;
    float *loss = (float *)args->loss;
    float *lse = (float *)args->lse;
    cudaStream_t stream = bt_cuda_stream(launch);
    bool wide = bt_aligned_16(logits) && args->logits_stride % WIDE<T> == 0;
    if (args->rows > 0 && wide) {
        rows_kernel<T, WIDE<T>><<<(unsigned)args->rows, THREADS, 0, stream>>>(
            logits, args->targets, loss, lse, args->vocab, args->logits_stride, args->ignore);
    } else if (args->rows > 0) {
        rows_kernel<T, 1><<<(unsigned)args->rows, THREADS, 0, stream>>>(
            logits, args->targets, loss, lse, args->vocab, args->logits_stride, args->ignore);
    }
    mean_kernel<<<1, MEAN_THREADS, 0, stream>>>(loss, args->targets, (float *)args->mean,
                                                (float *)args->inv_count, args->bad_row, args->rows,
                                                args->vocab, args->ignore);
    return bt_cuda_launched("cross_entropy_cuda");
}

template <typename T> static bt_status backward(const bt_launch *launch, const void *call)
{
    const bt_cross_entropy_backward_args *args = (const bt_cross_entropy_backward_args *)call;
    const T *logits = (const T *)args->logits;
    T *dlogits = (T *)args->dlogits;
    const float *lse = (const float *)args->lse;
    const float *inv_count = (const float *)args->inv_count;
    const float *dmean = (const float *)args->dmean;
    if (args->rows == 0) {
        return BT_OK;
    }
    cudaStream_t stream = bt_cuda_stream(launch);
    unsigned grid = (unsigned)args->rows;
    if (bt_aligned_16(logits) && bt_aligned_16(dlogits) && args->logits_stride % WIDE<T> == 0) {
        backward_kernel<T, WIDE<T>>
            <<<grid, THREADS, 0, stream>>>(logits, args->targets, lse, inv_count, dmean, dlogits,
                                           args->vocab, args->logits_stride, args->ignore);
    } else {
        backward_kernel<T, 1><<<grid, THREADS, 0, stream>>>(logits, args->targets, lse, inv_count,
                                                            dmean, dlogits, args->vocab,
                                                            args->logits_stride, args->ignore);
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
