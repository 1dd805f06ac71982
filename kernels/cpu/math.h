// kernels/cpu/math.h - functions that a compiler can vectorise, and what is made of them
//
// f32: exp and tanh are our own polynomials (libm's are not vectorised without -ffast-math):
//   bt_exp_f32   at most 1.5 ulp, also where the result is subnormal; overflows to infinity
//   bt_tanh_f32  at most 2 ulp
//   The bounds are checked in tests/unit/test_cpu_math.c against double, on all of the range.
// f64: libm.
// Everything else follows from exp of a number that is not positive, so nothing overflows on the
// way: with e = exp(-|x|), sigmoid(x) = 1 / (1 + e) or e / (1 + e), its slope e / (1 + e)^2.
// NaN      propagates; the infinities give the limit, except gelu(-inf) and silu(-inf): NaN
// Source   coefficients are our own minimax fits (relative error 2^-28.3 and 2^-27.6); the
//          reduction is Cody & Waite 1980.
#ifndef BT_KERNELS_CPU_MATH_H
#define BT_KERNELS_CPU_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/vector.h"

// 2^n for n in [-126, 127]; some bit pattern for others (bt_exp_f32 multiplies a NaN by it).
BT_INLINE float power_of_two(int32_t n)
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// exp(x) = 2^n exp(r) with |r| <= ln(2)/2: exp(r), and n.
BT_INLINE float exp_reduced(float x, int32_t *exponent)
{
    const float round_to_integer = 12582912.0F; // 1.5 * 2^23: adding it leaves an integer's bits
    const float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F; // high * n is exact
    const float shifted = x * 1.44269504F + round_to_integer;
    const float n = shifted - round_to_integer;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    *exponent = bits - 0x4B400000;
    const float r = (x - n * ln2_high) - n * ln2_low;
    float q = 1.3814539e-3F;
    q = q * r + 8.368745e-3F;
    q = q * r + 4.166839e-2F;
    q = q * r + 0.16666521F;
    q = q * r + 0.49999994F;
    return 1.0F + (r + r * r * q);
}

// The scale is applied in two halves, each a normal number, so that subnormal results are rounded
// once.
BT_INLINE float bt_exp_f32(float x)
{
    x = x > 90.0F ? 90.0F : x;
    x = x < -105.0F ? -105.0F : x;
    int32_t exponent;
    const float p = exp_reduced(x, &exponent);
    const int32_t half = exponent >> 1;
    return p * power_of_two(half) * power_of_two(exponent - half);
}

// exp(x) for x <= 1, the same bits as bt_exp_f32 with fewer steps: 2^(n + 32) is a normal number
// for all n that are left, so the other half can be a constant.
BT_INLINE float bt_exp_falling_f32(float x)
{
    x = x < -105.0F ? -105.0F : x;
    int32_t exponent;
    const float p = exp_reduced(x, &exponent);
    return p * power_of_two(exponent + 32) * 0x1p-32F;
}

BT_INLINE double bt_exp_f64(double x) { return exp(x); }
BT_INLINE double bt_exp_falling_f64(double x) { return exp(x); }

BT_INLINE float bt_abs_f32(float x) { return fabsf(x); }
BT_INLINE double bt_abs_f64(double x) { return fabs(x); }
BT_INLINE float bt_sqrt_f32(float x) { return sqrtf(x); }
BT_INLINE double bt_sqrt_f64(double x) { return sqrt(x); }
BT_INLINE float bt_log_f32(float x) { return logf(x); }
BT_INLINE double bt_log_f64(double x) { return log(x); }

BT_INLINE float bt_tanh_f32(float x)
{
    const float size = fabsf(x);
    const float z = x * x;
    float q = -5.6669763e-3F;
    q = q * z + 2.0606175e-2F;
    q = q * z - 5.3730007e-2F;
    q = q * z + 0.13331331F;
    q = q * z - 0.33333278F;
    const float near = x + x * z * q;
    const float far = copysignf(1.0F - 2.0F / (bt_exp_f32(2.0F * size) + 1.0F), x);
    return size < 0.625F ? near : far;
}

BT_INLINE double bt_tanh_f64(double x) { return tanh(x); }

// The functions that follow exist for both types; SUFFIX picks what they call.
#define BT_DEFINE_ACTIVATIONS(REAL, SUFFIX)                                                        \
    BT_INLINE REAL bt_sigmoid_##SUFFIX(REAL x)                                                     \
    {                                                                                              \
        const REAL e = bt_exp_falling_##SUFFIX(-bt_abs_##SUFFIX(x));                               \
        return (x < 0 ? e : (REAL)1) / (1 + e);                                                    \
    }                                                                                              \
    BT_INLINE REAL bt_sigmoid_slope_##SUFFIX(REAL x)                                               \
    {                                                                                              \
        const REAL e = bt_exp_falling_##SUFFIX(-bt_abs_##SUFFIX(x));                               \
        return e / ((1 + e) * (1 + e));                                                            \
    }                                                                                              \
    /* sqrt(8/pi) (x + 0.044715 x^3): gelu(x) = x sigmoid of this */                               \
    BT_INLINE REAL bt_gelu_inner_##SUFFIX(REAL x)                                                  \
    {                                                                                              \
        return (REAL)1.5957691216057308 * x * (1 + (REAL)0.044715 * x * x);                        \
    }                                                                                              \
    BT_INLINE REAL bt_gelu_##SUFFIX(REAL x)                                                        \
    {                                                                                              \
        return x * bt_sigmoid_##SUFFIX(bt_gelu_inner_##SUFFIX(x));                                 \
    }                                                                                              \
    /* Constant (0 or 1) beyond 40, in both types; cutting there keeps 0 * infinity out. */        \
    BT_INLINE REAL bt_gelu_slope_##SUFFIX(REAL x)                                                  \
    {                                                                                              \
        REAL v = x > 40 ? 40 : x;                                                                  \
        v = v < -40 ? -40 : v;                                                                     \
        const REAL inner = bt_gelu_inner_##SUFFIX(v);                                              \
        const REAL inner_slope = (REAL)1.5957691216057308 * (1 + (REAL)0.134145 * v * v);          \
        const REAL e = bt_exp_falling_##SUFFIX(-bt_abs_##SUFFIX(inner));                           \
        const REAL s = (inner < 0 ? e : (REAL)1) / (1 + e);                                        \
        return s + v * inner_slope * (e / ((1 + e) * (1 + e)));                                    \
    }                                                                                              \
    BT_INLINE REAL bt_silu_slope_##SUFFIX(REAL x)                                                  \
    {                                                                                              \
        return bt_sigmoid_##SUFFIX(x) + x * bt_sigmoid_slope_##SUFFIX(x);                          \
    }                                                                                              \
    /* 1 - tanh(x)^2 without cancellation */                                                       \
    BT_INLINE REAL bt_tanh_slope_##SUFFIX(REAL x) { return 4 * bt_sigmoid_slope_##SUFFIX(2 * x); }

BT_DEFINE_ACTIVATIONS(float, f32)
BT_DEFINE_ACTIVATIONS(double, f64)
#undef BT_DEFINE_ACTIVATIONS

#endif
