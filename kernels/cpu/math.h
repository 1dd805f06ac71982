// kernels/cpu/math.h - functions that a compiler can vectorize, and activations
//
// f32: exp and tanh are our own polynomials (libm's are not vectorized without -ffast-math):
//   bt_exp_f32   at most 1.5 ulp, also where the result is subnormal; overflows to infinity
//   bt_tanh_f32  at most 2 ulp
//   The bounds are checked in tests/unit/test_cpu_math.c against double, over the whole range.
//   Multiply-adds are fused where the source says fma, so the bits are the same everywhere; a
//   processor without that instruction (before 2013) calls libm for each.
// f64: libm.
// gelu and silu divide by 1 + exp(-x), which may be infinite. The others follow from exp of a
// number that is not positive, so no intermediate result overflows: with e = exp(-|x|),
// sigmoid(x) is 1 / (1 + e) or e / (1 + e), its slope e / (1 + e)^2. Each function divides once,
// because a division takes as long as ten other instructions.
//
// NaN      propagates; the infinities give the limit, except in gelu(-inf), silu(-inf) and the
//          slope of gelu at both: NaN, as on CUDA and in PyTorch
// Small    gelu and silu may be 0 where |f(x)| < 2^-123, as exp leaves the normal numbers there
// Source   coefficients are our own minimax fits (relative error 2^-28.3 and 2^-27.6); the
//          reduction is Cody & Waite 1980.
#ifndef BT_KERNELS_CPU_MATH_H
#define BT_KERNELS_CPU_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/vector.h"

BT_INLINE float bt_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
BT_INLINE double bt_fma_f64(double a, double b, double c) { return fma(a, b, c); }

BT_INLINE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// exp(x) = 2^n exp(r) with |r| <= ln(2)/2: exp(r), and n + offset in the low bits of *bits.
BT_INLINE float exp_reduced(float x, float offset, uint32_t *bits)
{
    const float round_to_integer = 12582912.0F + offset; // 1.5 * 2^23: leaves an integer's bits
    const float shifted = fmaf(x, 1.44269504F, round_to_integer);
    const float n = shifted - round_to_integer;
    memcpy(bits, &shifted, sizeof *bits);
    const float r = fmaf(n, 1.90465421e-9F, fmaf(n, -0.693147182F, x)); // ln(2), high and low part
    float q = 1.3814539e-3F;
    q = fmaf(q, r, 8.368745e-3F);
    q = fmaf(q, r, 4.166839e-2F);
    q = fmaf(q, r, 0.16666521F);
    q = fmaf(q, r, 0.49999994F);
    q = fmaf(q, r, 1.0F);
    return fmaf(q, r, 1.0F);
}

// The scale is applied in two halves, each a normal number, so that subnormal results are rounded
// once. A NaN stays NaN.
BT_INLINE float bt_exp_f32(float x)
{
    x = x > 90.0F ? 90.0F : x;
    x = x < -105.0F ? -105.0F : x;
    uint32_t bits;
    const float p = exp_reduced(x, 0, &bits);
    const int32_t n = (int32_t)(bits - 0x4B400000U), half = n >> 1;
    return p * float_of_bits((uint32_t)(half + 127) << 23) *
           float_of_bits((uint32_t)(n - half + 127) << 23);
}

// exp(x) for x <= 1, the same bits as bt_exp_f32 with fewer steps: 2^(n + 33) is a normal number
// for all n that are left, so the other half can be a constant; n + 33 + 127 comes out of the
// reduction as an exponent's bits.
BT_INLINE float bt_exp_falling_f32(float x)
{
    x = x < -105.0F ? -105.0F : x;
    uint32_t bits;
    const float p = exp_reduced(x, 160, &bits);
    return p * float_of_bits(bits << 23) * 0x1p-33F;
}

// The number nearer to 0 of two with the same sign; a NaN gives the limit. One operation on the
// bits; a comparison that keeps NaN takes two or three.
BT_INLINE float bt_nearer_f32(float x, float limit)
{
    uint32_t bits, limit_bits;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&limit_bits, &limit, sizeof limit_bits);
    return float_of_bits(bits < limit_bits ? bits : limit_bits);
}

// exp(x) for -88 <= x <= 1; 0 where it is below 2^-126.5.
BT_INLINE float exp_flushed(float x)
{
    uint32_t bits;
    const float p = exp_reduced(x, 127, &bits); // n is at least -127, whose scale is 0
    return p * float_of_bits(bits << 23);
}

// exp(x) for x <= 0, likewise. A NaN gives 0.
BT_INLINE float bt_exp_negative_f32(float x) { return exp_flushed(bt_nearer_f32(x, -88.0F)); }

// exp(x) for x <= 1, likewise, for loops that keep NaN: lowest is bt_exp_lowest(), taken before the
// loop. It is -88, hidden from the compiler, which generates one instruction for a maximum with a
// variable and two or three for one with a constant.
BT_INLINE float bt_exp_normal_f32(float x, float lowest)
{
    return exp_flushed(lowest > x ? lowest : x);
}

BT_INLINE float bt_exp_lowest_f32(void)
{
    float lowest = -88.0F;
    __asm__("" : "+m"(lowest));
    return lowest;
}

// 1 + exp(x), as a divisor: 1 below -87, infinite if exp is more than 2^127.5. A NaN gives an
// arbitrary number.
BT_INLINE float bt_one_plus_exp_f32(float x)
{
    const int32_t highest = 0x42B20000; // 89; as integers, floats below 0 are less than the others
    int32_t limited;
    memcpy(&limited, &x, sizeof limited);
    limited = limited < highest ? limited : highest;
    uint32_t bits = (uint32_t)limited;
    bits = bits < 0xC2AE0000U ? bits : 0xC2AE0000U; // -87; as unsigned integers they are larger
    const float p = exp_reduced(float_of_bits(bits), 127, &bits);
    return fmaf(p, float_of_bits(bits << 23), 1.0F);
}

BT_INLINE double bt_nearer_f64(double x, double limit) { return x < limit ? x : limit; }
BT_INLINE double bt_exp_negative_f64(double x) { return exp(x); }
BT_INLINE double bt_exp_lowest_f64(void) { return (double)-INFINITY; }
BT_INLINE double bt_exp_normal_f64(double x, double lowest) { return exp(lowest > x ? lowest : x); }
BT_INLINE double bt_one_plus_exp_f64(double x) { return 1 + exp(x); }
BT_INLINE double bt_exp_f64(double x) { return exp(x); }
BT_INLINE double bt_exp_falling_f64(double x) { return exp(x); }

BT_INLINE float bt_abs_f32(float x) { return fabsf(x); }
BT_INLINE double bt_abs_f64(double x) { return fabs(x); }
// One operation on the bits; -fabsf(x) would take two.
BT_INLINE float bt_minus_abs_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return float_of_bits(bits | 0x80000000U);
}
BT_INLINE double bt_minus_abs_f64(double x) { return -fabs(x); }
BT_INLINE float bt_sqrt_f32(float x) { return sqrtf(x); }
BT_INLINE double bt_sqrt_f64(double x) { return sqrt(x); }
BT_INLINE float bt_log_f32(float x) { return logf(x); }
BT_INLINE double bt_log_f64(double x) { return log(x); }

BT_INLINE float bt_tanh_f32(float x)
{
    const float z = x * x;
    float q = -5.6669763e-3F;
    q = fmaf(q, z, 2.0606175e-2F);
    q = fmaf(q, z, -5.3730007e-2F);
    q = fmaf(q, z, 0.13331331F);
    q = fmaf(q, z, -0.33333278F);
    const float near = fmaf(x * z, q, x);
    const float e = bt_exp_falling_f32(2.0F * bt_minus_abs_f32(x));
    const float far = copysignf((1.0F - e) / (1.0F + e), x);
    return fabsf(x) < 0.625F ? near : far;
}

BT_INLINE double bt_tanh_f64(double x) { return tanh(x); }

#define GELU_SQUARE_MAX_f32 101.0F
#define GELU_SQUARE_MAX_f64 1600.0

// The functions below exist for both types; SUFFIX selects the functions that they call.
#define BT_DEFINE_ACTIVATIONS(REAL, SUFFIX)                                                        \
    BT_INLINE REAL bt_sigmoid_##SUFFIX(REAL x)                                                     \
    {                                                                                              \
        const REAL e = bt_exp_falling_##SUFFIX(bt_minus_abs_##SUFFIX(x));                          \
        return (x < 0 ? e : (REAL)1) / (1 + e);                                                    \
    }                                                                                              \
    BT_INLINE REAL bt_silu_##SUFFIX(REAL x) { return x / bt_one_plus_exp_##SUFFIX(-x); }           \
    /* Returns the sigmoid; its slope goes to *slope. */                                           \
    BT_INLINE REAL bt_sigmoid_both_##SUFFIX(REAL x, REAL *slope)                                   \
    {                                                                                              \
        const REAL e = bt_exp_falling_##SUFFIX(bt_minus_abs_##SUFFIX(x));                          \
        const REAL larger = 1 / (1 + e), smaller = e * larger;                                     \
        *slope = smaller * larger;                                                                 \
        return x < 0 ? smaller : larger;                                                           \
    }                                                                                              \
    BT_INLINE REAL bt_sigmoid_slope_##SUFFIX(REAL x)                                               \
    {                                                                                              \
        REAL slope;                                                                                \
        (void)bt_sigmoid_both_##SUFFIX(x, &slope);                                                 \
        return slope;                                                                              \
    }                                                                                              \
    /* sqrt(8/pi) (x + 0.044715 x z) with z = x^2: gelu(x) = x sigmoid of this */                  \
    BT_INLINE REAL bt_gelu_inner_##SUFFIX(REAL x, REAL z)                                          \
    {                                                                                              \
        return x * bt_fma_##SUFFIX(z, (REAL)0.07135481627260025, (REAL)1.5957691216057308);        \
    }                                                                                              \
    BT_INLINE REAL bt_gelu_##SUFFIX(REAL x)                                                        \
    {                                                                                              \
        return x / bt_one_plus_exp_##SUFFIX(-bt_gelu_inner_##SUFFIX(x, x * x));                    \
    }                                                                                              \
    /* x^2 is clamped where the slope is 0 or 1 in the type: nothing overflows for a finite x. */  \
    BT_INLINE REAL bt_gelu_slope_##SUFFIX(REAL x)                                                  \
    {                                                                                              \
        const REAL z = bt_nearer_##SUFFIX(x * x, GELU_SQUARE_MAX_##SUFFIX);                        \
        const REAL inner = bt_gelu_inner_##SUFFIX(x, z);                                           \
        const REAL inner_slope =                                                                   \
            bt_fma_##SUFFIX(z, (REAL)0.21406444881780073, (REAL)1.5957691216057308);               \
        const REAL e = bt_exp_negative_##SUFFIX(bt_minus_abs_##SUFFIX(inner));                     \
        const REAL larger = 1 / (1 + e), smaller = e * larger;                                     \
        const REAL sigmoid = inner < 0 ? smaller : larger;                                         \
        return bt_fma_##SUFFIX(x, inner_slope * (smaller * larger), sigmoid);                      \
    }                                                                                              \
    BT_INLINE REAL bt_silu_slope_##SUFFIX(REAL x)                                                  \
    {                                                                                              \
        REAL slope;                                                                                \
        const REAL s = bt_sigmoid_both_##SUFFIX(x, &slope);                                        \
        return bt_fma_##SUFFIX(x, slope, s);                                                       \
    }                                                                                              \
    /* 1 - tanh(x)^2 without cancellation */                                                       \
    BT_INLINE REAL bt_tanh_slope_##SUFFIX(REAL x) { return 4 * bt_sigmoid_slope_##SUFFIX(2 * x); }

BT_DEFINE_ACTIVATIONS(float, f32)
BT_DEFINE_ACTIVATIONS(double, f64)
#undef BT_DEFINE_ACTIVATIONS
#undef GELU_SQUARE_MAX_f32
#undef GELU_SQUARE_MAX_f64

#endif
