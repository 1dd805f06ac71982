// tests/unit/test_cpu_math.c - the vectorisable functions against libm's double, over their range
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/math.h"

// Error of `got` in units of the last place of a float near `expected` (subnormals included).
static double ulps(float got, double expected)
{
    int exponent;
    if (isinf(got) || fabs(expected) > (double)3.4028235e38F) {
        return isinf(got) && expected > 3.4028235e38 ? 0 : (double)INFINITY;
    }
    (void)frexp(expected, &exponent);
    exponent = exponent - 24 < -149 ? -149 : exponent - 24;
    return fabs((double)got - expected) / ldexp(1, exponent);
}

static void sweep(float (*function)(float), double (*exact)(double), float from, float to,
                  double limit_ulps)
{
    double worst = 0;
    float at = from;
    const int64_t steps = 4000000;
    for (int64_t i = 0; i <= steps; ++i) {
        float x = (float)((double)from + ((double)to - (double)from) * (double)i / (double)steps);
        double error = ulps(function(x), exact((double)x));
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    if (!(worst <= limit_ulps)) {
        fail_msg("%.3f ulp at %a, limit %.3f", worst, (double)at, limit_ulps);
    }
}

static float exp_of(float x) { return bt_exp_f32(x); }
static float tanh_of(float x) { return bt_tanh_f32(x); }
static float gelu_of(float x) { return bt_gelu_f32(x); }

static void test_exp(void **state)
{
    (void)state;
    sweep(exp_of, exp, -106, 89.5F, 1.5);
    sweep(exp_of, exp, -1, 1, 1.5);
    assert_true(bt_exp_f32(0) == 1);
    assert_true(bt_exp_f32(-INFINITY) == 0);
    assert_true(isinf(bt_exp_f32(INFINITY)) && bt_exp_f32(INFINITY) > 0);
    assert_true(isinf(bt_exp_f32(3e38F)) && bt_exp_f32(-3e38F) == 0);
    assert_true(isnan(bt_exp_f32(NAN)) && isnan(bt_exp_f32(-NAN)));
    for (int i = -87 * 64; i < 88 * 64; ++i) { // monotonous enough for a softmax
        assert_true(bt_exp_f32((float)i / 64) < bt_exp_f32((float)(i + 1) / 64));
    }
}

static void test_exp_falling(void **state)
{
    (void)state;
    for (int i = -110 * 4096; i <= 4096; ++i) {
        const float x = (float)i / 4096;
        assert_true(bt_exp_falling_f32(x) == bt_exp_f32(x));
    }
    assert_true(bt_exp_falling_f32(-INFINITY) == 0 && bt_exp_falling_f32(-3e38F) == 0);
    assert_true(isnan(bt_exp_falling_f32(NAN)) && isnan(bt_exp_falling_f32(-NAN)));
}

static void test_exp_normal(void **state)
{
    (void)state;
    const float lowest = bt_exp_lowest_f32();
    for (int i = -110 * 4096; i <= 4096; ++i) {
        const float x = (float)i / 4096, exact = bt_exp_f32(x), got = bt_exp_normal_f32(x, lowest);
        assert_true(got == exact || (got == 0 && exact < 0x1p-126F));
        assert_true(x > 0 || bt_exp_negative_f32(x) == got);
    }
    assert_true(bt_exp_normal_f32(-INFINITY, lowest) == 0 && bt_exp_normal_f32(0, lowest) == 1);
    assert_true(bt_exp_negative_f32(-INFINITY) == 0 && bt_exp_negative_f32(-0.0F) == 1);
    assert_true(isnan(bt_exp_normal_f32(NAN, lowest)) && isnan(bt_exp_normal_f32(-NAN, lowest)));
    assert_true(bt_exp_normal_f64(-700, bt_exp_lowest_f64()) == exp(-700));
    assert_true(isnan(bt_exp_normal_f64((double)NAN, bt_exp_lowest_f64())));
}

static void test_tanh(void **state)
{
    (void)state;
    sweep(tanh_of, tanh, -12, 12, 2);
    sweep(tanh_of, tanh, -0.7F, 0.7F, 2);
    sweep(tanh_of, tanh, -1e-30F, 1e-30F, 1);
    assert_true(bt_tanh_f32(INFINITY) == 1 && bt_tanh_f32(-INFINITY) == -1);
    assert_true(bt_tanh_f32(0) == 0 && isnan(bt_tanh_f32(NAN)));
}

static double exact_gelu(double x)
{
    const double inner = sqrt(8 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-inner));
}

static double exact_silu(double x) { return x / (1 + exp(-x)); }

// What may be lost where exp leaves the range of normal numbers; without it: nothing.
#define FLUSHED 0x1p-123

// The rounding of exp's argument, |inner| units, is exp's relative error where x < 0.
static void test_gelu(void **state)
{
    (void)state;
    for (int i = -12 * 1024; i <= 12 * 1024; ++i) {
        const double x = i / 1024.0;
        double error = fabs((double)gelu_of((float)x) - exact_gelu(x));
        double inner = fabs(bt_gelu_inner_f64(x, x * x));
        assert_true(error <= (4 + 3 * inner) * 0x1p-24 * fabs(exact_gelu(x)) + FLUSHED);
        error = fabs((double)bt_silu_f32((float)(8 * x)) - exact_silu(8 * x));
        assert_true(error <= 4 * 0x1p-24 * fabs(exact_silu(8 * x)) + 8 * FLUSHED);
        double step = 1e-6;
        double slope = (exact_gelu(x + step) - exact_gelu(x - step)) / (2 * step);
        assert_true(fabs(bt_gelu_slope_f64(x) - slope) <= 1e-8);
        assert_true(fabs((double)bt_gelu_slope_f32((float)x) - slope) <= 1e-6);
    }
    assert_true(bt_gelu_f32(1e30F) == 1e30F && bt_gelu_f32(-1e30F) == 0);
    assert_true(bt_gelu_slope_f32(1e30F) == 1 && bt_gelu_slope_f32(-1e30F) == 0);
    assert_true(bt_gelu_slope_f32(3e38F) == 1 && bt_gelu_slope_f32(-3e38F) == 0);
    assert_true(bt_gelu_slope_f64(1e300) == 1 && bt_gelu_slope_f64(-1e300) == 0);
    assert_true(bt_gelu_f64(1e300) == 1e300 && bt_gelu_f64(-1e300) == 0);
    assert_true(bt_gelu_f32(1e-45F) == 0 && bt_gelu_f32(3e-45F) == 1e-45F); // half of it, rounded
    assert_true(isnan(bt_gelu_f32(NAN)) && isnan(bt_gelu_slope_f32(NAN)));
    assert_true(isnan(bt_gelu_f32(-NAN)) && isnan(bt_gelu_slope_f32(-NAN)));
    assert_true(isnan(bt_silu_f32(NAN)) && isnan(bt_silu_f32(-NAN)));
    assert_true(isinf(bt_gelu_f32(INFINITY)) && isnan(bt_gelu_f32(-INFINITY)));
    assert_true(isnan(bt_gelu_slope_f32(INFINITY)) && isnan(bt_gelu_slope_f32(-INFINITY)));
    assert_true(bt_one_plus_exp_f32(-INFINITY) == 1 && isinf(bt_one_plus_exp_f32(INFINITY)));
}

static void test_sigmoid_and_slopes(void **state)
{
    (void)state;
    for (int i = -100 * 64; i <= 100 * 64; ++i) {
        const double x = i / 64.0;
        double s = 1 / (1 + exp(-x)), slope = exp(-fabs(x)) / pow(1 + exp(-fabs(x)), 2);
        assert_true(fabs((double)bt_sigmoid_f32((float)x) - s) <= 4 * 0x1p-24 * s + 0x1p-149);
        assert_true(fabs((double)bt_sigmoid_slope_f32((float)x) - slope) <=
                    8 * 0x1p-24 * slope + 0x1p-149);
        assert_true(fabs(bt_silu_slope_f64(x) - (s + x * slope)) <= 1e-14);
        assert_true(fabs(bt_tanh_slope_f64(x) - 1 / (cosh(x) * cosh(x))) <= 1e-14);
    }
}

static void test_the_check_can_fail(void **state)
{
    (void)state;
    assert_true(ulps(1.0000002F, 1) > 1.5);
    assert_false(ulps(NAN, 1) <= 1.5);
    assert_false(ulps(INFINITY, 1) <= 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_falling),
        cmocka_unit_test(test_exp_normal),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_sigmoid_and_slopes),
        cmocka_unit_test(test_the_check_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
