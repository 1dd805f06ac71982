// tests/unit/test_cpu_copy.c - strided copies and conversions among all types
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/half.h"
#include "tests/support/kernel.h"

// ---- half precision, from its definition -------------------------------------------------------

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) {
        return fraction ? TEST_NAN : sign * TEST_INFINITY;
    }
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static void test_half(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const double expected = half_value((uint16_t)bits);
        const float got = bt_f16_to_f32((uint16_t)bits);
        assert_true(isnan(expected) ? isnan(got) : (double)got == expected);
        if (!isnan(expected)) {
            assert_int_equal(bt_f32_to_f16(got), bits);
        }
        if (bits < 0x7bff) { // midway to the next rounds to even, a little off to the nearer
            const double next = half_value((uint16_t)(bits + 1));
            const float middle = (float)((expected + next) / 2);
            assert_int_equal(bt_f32_to_f16(middle), bits + (bits & 1));
            assert_int_equal(bt_f32_to_f16(nextafterf(middle, 0)), bits);
            assert_int_equal(bt_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
        }
    }
    assert_int_equal(bt_f32_to_f16(65519.9F), 0x7bff);
    assert_int_equal(bt_f32_to_f16(65520), 0x7c00);
    assert_int_equal(bt_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(bt_f32_to_f16(NAN) & 0x7e00, 0x7e00);
    assert_int_equal(bt_f32_to_f16(1e-30F), 0);
    assert_int_equal(bt_f32_to_f16(-0.0F), 0x8000);
}

// ---- conversions -------------------------------------------------------------------------------

// What a value becomes in a type, read back as a double.
static double rounded_to(bt_dtype dtype, double value)
{
    switch (dtype) {
    case BT_F64:
        return value;
    case BT_F32:
        return (double)(float)value;
    case BT_BF16:
        return (double)bt_bf16_to_f32(bt_f32_to_bf16((float)value));
    case BT_F16:
        return (double)bt_f16_to_f32(bt_f32_to_f16((float)value));
    case BT_I64:
        return trunc(fmax(-0x1p63, fmin(0x1p63, value)));
    case BT_I32:
        return trunc(fmax(-2147483648.0, fmin(2147483647.0, value)));
    case BT_U16:
        return trunc(fmax(0, fmin(65535, value)));
    case BT_U8:
        return trunc(fmax(0, fmin(255, value)));
    case BT_BOOL:
        return value != 0;
    case BT_DTYPE_COUNT:
    default:
        return TEST_NAN;
    }
}

static void convert(bt_dtype from, const void *x, bt_dtype to, void *y, int64_t count)
{
    const bt_copy_args args = {1, {count}, x, {1}, from, y, {1}, to};
    ASSERT_OK(test_kernel_status(BT_KERNEL_COPY, to, &args));
}

static void test_every_pair_of_types(void **state)
{
    (void)state;
    enum { COUNT = 1200 };
    static double values[COUNT], expected[COUNT], got[COUNT];
    static uint64_t source[COUNT], target[COUNT];
    test_random(values, COUNT, 3, -300, 300);
    values[0] = 0, values[1] = 70000, values[2] = -70000, values[3] = 1e10, values[4] = 255.5;
    for (int from = 0; from < BT_DTYPE_COUNT; ++from) {
        convert(BT_F64, values, (bt_dtype)from, source, COUNT);
        convert((bt_dtype)from, source, BT_F64, got, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            expected[i] = rounded_to((bt_dtype)from, values[i]);
        }
        test_assert_close(got, expected, COUNT, 0, 0, bt_dtype_name((bt_dtype)from));
        for (int to = 0; to < BT_DTYPE_COUNT; ++to) {
            convert((bt_dtype)from, source, (bt_dtype)to, target, COUNT);
            convert((bt_dtype)to, target, BT_F64, got, COUNT);
            for (int i = 0; i < COUNT; ++i) {
                double first = rounded_to((bt_dtype)from, values[i]);
                bool wraps = !bt_dtype_is_float((bt_dtype)from) && to != BT_BOOL &&
                             !bt_dtype_is_float((bt_dtype)to);
                // From integer to integer the low bits are kept.
                double in_range = rounded_to((bt_dtype)to, first);
                expected[i] = wraps && in_range != first ? got[i] : in_range;
            }
            test_assert_close(got, expected, COUNT, 0, 0, bt_dtype_name((bt_dtype)to));
        }
    }
}

static void test_extremes(void **state)
{
    (void)state;
    const double values[5] = {TEST_NAN, TEST_INFINITY, -TEST_INFINITY, 9.3e18, -9.3e18};
    int64_t wide[5];
    int32_t narrow[5];
    uint8_t bits[5];
    uint16_t brain[5];
    convert(BT_F64, values, BT_I64, wide, 5);
    assert_true(wide[0] == 0 && wide[1] == INT64_MAX && wide[2] == INT64_MIN);
    assert_true(wide[3] == INT64_MAX && wide[4] == INT64_MIN);
    convert(BT_F64, values, BT_I32, narrow, 5);
    assert_true(narrow[0] == 0 && narrow[1] == INT32_MAX && narrow[2] == INT32_MIN);
    convert(BT_F64, values, BT_BOOL, bits, 5);
    assert_true(bits[0] == 1 && bits[1] == 1);
    convert(BT_F64, values, BT_BF16, brain, 5);
    assert_true(isnan(bt_bf16_to_f32(brain[0])) && brain[1] == 0x7f80 && brain[2] == 0xff80);
    const uint16_t tokens[3] = {0, 50256, 65535};
    convert(BT_U16, tokens, BT_I32, narrow, 3);
    assert_true(narrow[0] == 0 && narrow[1] == 50256 && narrow[2] == 65535);
    const int64_t high[2] = {0x1FFFF, -1};
    uint16_t low[2];
    convert(BT_I64, high, BT_U16, low, 2);
    assert_true(low[0] == 0xFFFF && low[1] == 0xFFFF);
    const float ties[2] = {1.00390625F, 1.01171875F}; // 1 + 2^-8 and 1 + 3 * 2^-8
    convert(BT_F32, ties, BT_BF16, brain, 2);
    assert_true(brain[0] == 0x3f80 && brain[1] == 0x3f82);
}

// ---- strides -----------------------------------------------------------------------------------

typedef struct copy_case {
    int rank;
    int64_t shape[4], x_stride[4], y_stride[4];
} copy_case;

static void check_strided(const copy_case *shapes, bt_dtype from, bt_dtype to)
{
    bt_copy_args args = {.rank = shapes->rank, .x_dtype = from, .y_dtype = to};
    int64_t count = 1, x_count = 1, y_count = 1;
    for (int dim = 0; dim < shapes->rank; ++dim) {
        args.shape[dim] = shapes->shape[dim];
        args.x_stride[dim] = shapes->x_stride[dim];
        args.y_stride[dim] = shapes->y_stride[dim];
        count *= shapes->shape[dim];
        x_count += (shapes->shape[dim] - 1) * shapes->x_stride[dim];
        y_count += (shapes->shape[dim] - 1) * shapes->y_stride[dim];
    }
    x_count = count ? x_count : 0, y_count = count ? y_count : 0;
    double *x = test_doubles(x_count), *expected = test_doubles(y_count);
    double *got = test_doubles(y_count);
    test_random(x, x_count, 4, -9, 9);
    for (int64_t i = 0; i < y_count; ++i) {
        expected[i] = 77; // what the gaps must keep
    }
    test_buffer bx = test_buffer_make(from, x, x_count);
    test_buffer by = test_buffer_make(to, expected, y_count);
    for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i, at_x = 0, at_y = 0;
        for (int dim = shapes->rank - 1; dim >= 0; --dim) {
            at_x += rest % shapes->shape[dim] * shapes->x_stride[dim];
            at_y += rest % shapes->shape[dim] * shapes->y_stride[dim];
            rest /= shapes->shape[dim];
        }
        expected[at_y] = x[at_x];
    }
    args.x = bx.data, args.y = by.data;
    TEST_KERNEL(BT_KERNEL_COPY, to, &args, &by);
    test_buffer_read(&by, got);
    test_assert_close(got, expected, y_count, 0, 0, "copy");
    free(x), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by);
}

static void test_strides(void **state)
{
    (void)state;
    const copy_case cases[] = {
        {0, {0}, {0}, {0}},                                // a scalar
        {1, {0}, {1}, {1}},                                // empty
        {1, {40000}, {1}, {1}},                            // contiguous
        {1, {700}, {3}, {2}},                              // both with gaps
        {1, {700}, {0}, {1}},                              // expanded
        {2, {33, 45}, {1, 33}, {45, 1}},                   // transposed
        {3, {5, 7, 6}, {42, 6, 1}, {1, 5, 35}},            // reversed
        {4, {2, 3, 4, 8}, {96, 8, 24, 1}, {96, 32, 8, 1}}, // (B,T,H,D) to (B,H,T,D)
        {4, {2, 1, 4, 8}, {0, 99, 8, 1}, {32, 7, 8, 1}},   // expanded, with a unit dimension
        {3, {4, 0, 3}, {3, 3, 1}, {3, 3, 1}},              // empty in the middle
        {2, {3, 30000}, {30001, 1}, {30007, 1}},           // long rows with gaps
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        check_strided(&cases[i], BT_F32, BT_F32);
        check_strided(&cases[i], BT_F64, BT_F64);
        check_strided(&cases[i], BT_F32, BT_F64);
        check_strided(&cases[i], BT_F64, BT_F32);
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    bt_copy_args args = {.rank = 9, .x_dtype = BT_F32, .y_dtype = BT_F32};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "rank 9",
                 test_kernel_status(BT_KERNEL_COPY, BT_F32, &args));
    args.rank = 0, args.x_dtype = BT_DTYPE_COUNT;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "type 9",
                 test_kernel_status(BT_KERNEL_COPY, BT_F32, &args));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),          cmocka_unit_test(test_every_pair_of_types),
        cmocka_unit_test(test_extremes),      cmocka_unit_test(test_strides),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
