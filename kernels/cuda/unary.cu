// kernels/cuda/unary.cu - y = f(x), and dx (+)= dy f'(x)
//   Types  f32, bf16; f in float
//   Cost   reads and writes each operand once; bound by HBM
//   GELU   gelu.cuh; in bf16, what a GEMM's epilogue makes where the call asks for that
//   Approximate: GELU's and the sigmoids' exponential is ex2 (cuda.cuh), their quotient rcp.approx
//   (1 ulp; results below 2^-126 become 0); the rest is CUDA's library without fast-math (2 ulp)
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/gelu.cuh"

static __device__ __forceinline__ float sigmoid(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + exp_base2(-x)));
    return y;
}

constexpr float GELU_A = 0.7978845608028654f; // sqrt(2/pi)
constexpr float GELU_B = 0.044715f;

struct GELU {
    static __device__ float value(float x, float) { return bt_gelu::gelu_f32(x); }
    static __device__ float slope(float x, float)
    {
        float s = sigmoid(2.0f * GELU_A * (x + GELU_B * x * x * x));
        return s + x * s * (1.0f - s) * (2.0f * GELU_A * (1.0f + 3.0f * GELU_B * x * x));
    }
};
struct GELU_FAST {
    static __device__ float value(float x, float) { return bt_gelu::gelu_fast(x); }
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

// Packs of eight bf16 have arithmetic to hide: two a thread.
template <int V> struct shape {
    static constexpr int UNROLL = V == 8 ? 2 : 1;
    static constexpr int THREADS = V == 8 ? 256 : STREAM_THREADS;

    static unsigned blocks(int64_t packs) { return (unsigned)bt_div_up(packs, THREADS * UNROLL); }
};

template <typename F, typename T, int V>
static __global__ void __launch_bounds__(shape<V>::THREADS)
    forward_kernel(const T *x, T *y, int64_t packs, float alpha)
{
    constexpr int UNROLL = shape<V>::UNROLL;
    constexpr int THREADS = shape<V>::THREADS;
    const int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
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
static __global__ void __launch_bounds__(shape<V>::THREADS)
    backward_kernel(const T *x, const T *dy, T *dx, int64_t packs, float alpha, bool accumulate)
{
    constexpr int UNROLL = shape<V>::UNROLL;
    constexpr int THREADS = shape<V>::THREADS;
    const int64_t first = (int64_t)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
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

template <typename F, typename T, int V>
static void forward_packs(cudaStream_t stream, const T *x, T *y, int64_t packs, float alpha)
{
    if (packs) {
        forward_kernel<F, T, V>
            <<<shape<V>::blocks(packs), shape<V>::THREADS, 0, stream>>>(x, y, packs, alpha);
    }
}

template <typename F, typename T, int V>
static void backward_packs(cudaStream_t stream, const T *x, const T *dy, T *dx, int64_t packs,
                           float alpha, bool accumulate)
{
    if (packs) {
        backward_kernel<F, T, V><<<shape<V>::blocks(packs), shape<V>::THREADS, 0, stream>>>(
            x, dy, dx, packs, alpha, accumulate);
    }
}

// Whole packs by the wide kernel, the rest (or a misaligned whole) one by one.
template <typename F, typename T>
static bt_status forward(const bt_launch *launch, const bt_unary_args *unary)
{
    constexpr int V = WIDE<T>;
    const T *x = (const T *)unary->x;
    T *y = (T *)unary->y;
    const int64_t packs = bt_aligned_16(x) && bt_aligned_16(y) ? unary->count / V : 0;
    const int64_t done = packs * V;
    const float alpha = (float)unary->alpha;
    cudaStream_t stream = bt_cuda_stream(launch);
    forward_packs<F, T, V>(stream, x, y, packs, alpha);
    forward_packs<F, T, 1>(stream, x + done, y + done, unary->count - done, alpha);
    return bt_cuda_launched("unary_cuda");
}

template <typename F, typename T>
static bt_status backward(const bt_launch *launch, const bt_unary_backward_args *unary)
{
    constexpr int V = WIDE<T>;
    const T *x = (const T *)unary->x;
    const T *dy = (const T *)unary->dy;
    T *dx = (T *)unary->dx;
    const bool aligned = bt_aligned_16(x) && bt_aligned_16(dy) && bt_aligned_16(dx);
    const int64_t packs = aligned ? unary->count / V : 0;
    const int64_t done = packs * V;
    const float alpha = (float)unary->alpha;
    cudaStream_t stream = bt_cuda_stream(launch);
    backward_packs<F, T, V>(stream, x, dy, dx, packs, alpha, unary->accumulate);
    backward_packs<F, T, 1>(stream, x + done, dy + done, dx + done, unary->count - done, alpha,
                            unary->accumulate);
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
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown unary function %d",
                        (int)unary->function);
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
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "unknown unary function %d",
                        (int)unary->function);
    }
}

bt_status bt_unary_cuda_f32(const bt_launch *launch, const void *args)
{
    return forward_of<float>(launch, args);
}

bt_status bt_unary_cuda_bf16(const bt_launch *launch, const void *args)
{
    const bt_unary_args *unary = (const bt_unary_args *)args;
    if (unary->as_epilogue && unary->function == BT_UNARY_GELU) {
        return forward<GELU_FAST, bf16>(launch, unary);
    }
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
