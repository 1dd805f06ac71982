// kernels/cuda/unary.cu - y = f(x), and dx (+)= dy f'(x)
//   Types  f32, bf16; f in float
//   Cost   reads and writes each operand once; bound by HBM
//   GELU   x / (1 + e^(-2u)), which equals 0.5 x (1 + tanh u) and loses nothing for negative x
//   Approximate: exponentials and quotients are those of CUDA's single-precision library without
//   fast-math (2 ulp); ex2 carries GELU's and the sigmoids' exponential
#include "kernels/cuda/cuda.cuh"

constexpr int THREADS = 256;
constexpr int UNROLL = 2; // wide accesses per thread and operand

static __device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + exp_base2(-x)); }

constexpr float GELU_A = 0.7978845608028654f; // sqrt(2/pi)
constexpr float GELU_B = 0.044715f;

struct GELU {
    static __device__ float value(float x, float)
    {
        return x * sigmoid(2.0f * GELU_A * (x + GELU_B * x * x * x));
    }
    static __device__ float slope(float x, float)
    {
        float s = sigmoid(2.0f * GELU_A * (x + GELU_B * x * x * x));
        return s + x * s * (1.0f - s) * (2.0f * GELU_A * (1.0f + 3.0f * GELU_B * x * x));
    }
};
struct RELU {
    static __device__ float value(float x, float) { return x < 0.0f ? 0.0f : x; }
    static __device__ float slope(float x, float) { return x > 0.0f ? 1.0f : x == x ? 0.0f : x; }
};
struct SILU {
    static __device__ float value(float x, float) { return x * sigmoid(x); }
    static __device__ float slope(float x, float)
    {
        float s = sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};
struct TANH {
    static __device__ float value(float x, float) { return tanhf(x); }
    static __device__ float slope(float x, float)
    {
        float t = tanhf(x);
        return 1.0f - t * t;
    }
};
struct SIGMOID {
    static __device__ float value(float x, float) { return sigmoid(x); }
    static __device__ float slope(float x, float)
    {
        float s = sigmoid(x);
        return s * (1.0f - s);
    }
};
struct EXP {
    static __device__ float value(float x, float) { return expf(x); }
    static __device__ float slope(float x, float) { return expf(x); }
};
struct LOG {
    static __device__ float value(float x, float) { return logf(x); }
    static __device__ float slope(float x, float) { return 1.0f / x; }
};
struct SQRT {
    static __device__ float value(float x, float) { return sqrtf(x); }
    static __device__ float slope(float x, float) { return 0.5f / sqrtf(x); }
};
struct NEGATE {
    static __device__ float value(float x, float) { return -x; }
    static __device__ float slope(float, float) { return -1.0f; }
};
struct SQUARE {
    static __device__ float value(float x, float) { return x * x; }
    static __device__ float slope(float x, float) { return 2.0f * x; }
};
struct SCALE {
    static __device__ float value(float x, float alpha) { return alpha * x; }
    static __device__ float slope(float, float alpha) { return alpha; }
};
struct SHIFT {
    static __device__ float value(float x, float alpha) { return x + alpha; }
    static __device__ float slope(float, float) { return 1.0f; }
};

template <typename F, typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    forward_kernel(const T *x, T *y, int64_t packs, float alpha)
{
    int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    float held[UNROLL][V];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * THREADS < packs) {
            load<V>(x + (first + i * THREADS) * V, held[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * THREADS < packs) {
#pragma unroll
            for (int j = 0; j < V; ++j) {
                held[i][j] = F::value(held[i][j], alpha);
            }
            store<V>(y + (first + i * THREADS) * V, held[i]);
        }
    }
}

template <typename F, typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    backward_kernel(const T *x, const T *dy, T *dx, int64_t packs, float alpha, bool accumulate)
{
    int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    float at[UNROLL][V];
    float given[UNROLL][V];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * THREADS < packs) {
            load<V>(x + (first + i * THREADS) * V, at[i]);
            load<V>(dy + (first + i * THREADS) * V, given[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * THREADS < packs) {
            T *target = dx + (first + i * THREADS) * V;
            float old[V] = {};
            if (accumulate) {
                load<V>(target, old);
            }
#pragma unroll
            for (int j = 0; j < V; ++j) {
                old[j] = given[i][j] * F::slope(at[i][j], alpha) + (accumulate ? old[j] : 0.0f);
            }
            store<V>(target, old);
        }
    }
}

// Whole packs by the wide kernel, the rest (or a misaligned whole) one by one.
template <typename F, typename T>
static bt_status forward(const bt_launch *launch, const bt_unary_args *unary)
{
    constexpr int V = WIDE<T>;
    const T *x = (const T *)unary->x;
    T *y = (T *)unary->y;
    int64_t packs = bt_aligned_16(x) && bt_aligned_16(y) ? unary->count / V : 0;
    int64_t rest = unary->count - packs * V;
    float alpha = (float)unary->alpha;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (packs) {
        unsigned grid = (unsigned)bt_div_up(packs, THREADS * UNROLL);
        forward_kernel<F, T, V><<<grid, THREADS, 0, stream>>>(x, y, packs, alpha);
    }
    if (rest) {
        unsigned grid = (unsigned)bt_div_up(rest, THREADS * UNROLL);
        forward_kernel<F, T, 1>
            <<<grid, THREADS, 0, stream>>>(x + packs * V, y + packs * V, rest, alpha);
    }
    return bt_cuda_launched("unary_cuda");
}

template <typename F, typename T>
static bt_status backward(const bt_launch *launch, const bt_unary_backward_args *unary)
{
    constexpr int V = WIDE<T>;
    const T *x = (const T *)unary->x;
    const T *dy = (const T *)unary->dy;
    T *dx = (T *)unary->dx;
    bool aligned = bt_aligned_16(x) && bt_aligned_16(dy) && bt_aligned_16(dx);
    int64_t packs = aligned ? unary->count / V : 0;
    int64_t rest = unary->count - packs * V;
    float alpha = (float)unary->alpha;
    cudaStream_t stream = bt_cuda_stream(launch);
    if (packs) {
        unsigned grid = (unsigned)bt_div_up(packs, THREADS * UNROLL);
        backward_kernel<F, T, V>
            <<<grid, THREADS, 0, stream>>>(x, dy, dx, packs, alpha, unary->accumulate);
    }
    if (rest) {
        int64_t at = packs * V;
        unsigned grid = (unsigned)bt_div_up(rest, THREADS * UNROLL);
        backward_kernel<F, T, 1><<<grid, THREADS, 0, stream>>>(x + at, dy + at, dx + at, rest,
                                                               alpha, unary->accumulate);
    }
    return bt_cuda_launched("unary_backward_cuda");
}

template <typename T> static bt_status forward_of(const bt_launch *launch, const void *args)
{
    const bt_unary_args *unary = (const bt_unary_args *)args;
    switch (unary->function) {
#define FORWARD_CASE(name, text)                                                                   \
    case BT_UNARY_##name:                                                                          \
        return forward<name, T>(launch, unary);
        BT_UNARY_LIST(FORWARD_CASE)
#undef FORWARD_CASE
    default:
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unary function %d", (int)unary->function);
    }
}

template <typename T> static bt_status backward_of(const bt_launch *launch, const void *args)
{
    const bt_unary_backward_args *unary = (const bt_unary_backward_args *)args;
    switch (unary->function) {
#define BACKWARD_CASE(name, text)                                                                  \
    case BT_UNARY_##name:                                                                          \
        return backward<name, T>(launch, unary);
        BT_UNARY_LIST(BACKWARD_CASE)
#undef BACKWARD_CASE
    default:
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unary function %d", (int)unary->function);
    }
}

bt_status bt_unary_cuda_f32(const bt_launch *launch, const void *args)
{
    return forward_of<float>(launch, args);
}

bt_status bt_unary_cuda_bf16(const bt_launch *launch, const void *args)
{
    return forward_of<bf16>(launch, args);
}

bt_status bt_unary_backward_cuda_f32(const bt_launch *launch, const void *args)
{
    return backward_of<float>(launch, args);
}

bt_status bt_unary_backward_cuda_bf16(const bt_launch *launch, const void *args)
{
    return backward_of<bf16>(launch, args);
}
