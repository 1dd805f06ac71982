// kernels/cuda/gelu.cuh - GELU, one formula for the elementwise kernel and the GEMMs' epilogues
//
//   gelu_f32      x / (1 + e^-2u), which equals 0.5 x (1 + tanh u) without cancellation for
//                 negative x;
//                 exponential and reciprocal are approximate (2^-22)
//   gelu_fast     0.5 x (1 + tanh u) with the hardware's tanh: |error| <= 2^-12 |x|; computed by a
//                 GEMM's epilogue in bf16, from the pre-activation as stored
// Additions and multiplications are spelled out, so that each caller gets the same bits: the result
// of an epilogue can be recomputed from its pre-activation (bt_unary_args.as_epilogue).
#ifndef BT_KERNELS_CUDA_GELU_CUH
#define BT_KERNELS_CUDA_GELU_CUH

namespace bt_gelu
{

constexpr float INNER_A = 0.7978845608028654f, INNER_B = INNER_A * 0.044715f; // sqrt(2/pi)
constexpr float LOG2_OF_E = 1.4426950408889634f;

// e^-x to 1 / (1 + e^-x)
static __device__ __forceinline__ float sigmoid(float x)
{
    float power, y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(__fmul_rn(x, -LOG2_OF_E)));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(__fadd_rn(1.0f, power)));
    return y;
}

// 2 u / x
static __device__ __forceinline__ float double_inner(float x)
{
    return __fmaf_rn(__fmul_rn(2 * INNER_B, x), x, 2 * INNER_A);
}

static __device__ __forceinline__ float gelu_f32(float x)
{
    return __fmul_rn(x, sigmoid(__fmul_rn(x, double_inner(x))));
}

static __device__ __forceinline__ float gelu_fast(float x)
{
    const float half = __fmul_rn(0.5f, x);
    float t;
    asm("tanh.approx.f32 %0, %1;"
        : "=f"(t)
        : "f"(__fmul_rn(x, __fmaf_rn(__fmul_rn(INNER_B, x), x, INNER_A))));
    return __fmaf_rn(half, t, half);
}

} // namespace bt_gelu

#endif
