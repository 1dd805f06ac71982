// tests/unit/test_cpu_kernels.c - elementwise kernels and sums of the CPU
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/kernel.h"

static const bt_dtype reals[] = {BT_F32, BT_F64};

// Sizes around the lanes, the column block and the chunk that threads share.
static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 65, 1000, 16383, 16384, 16385, 50000};

// The CPU is the oracle of every op: a row for f32 and one for f64, or one for every type.
static void test_every_op_has_rows(void **state)
{
    (void)state;
    bt_device device;
    int count = 0;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    const bt_kernel *rows = bt_kernel_table(&device, &count);
    for (int op = 0; op < BT_KERNEL_OP_COUNT; ++op) {
        for (int t = 0; t < 2; ++t) {
            int serving = 0;
            for (int i = 0; i < count; ++i) {
                serving += rows[i].op == (bt_kernel_op)op &&
                           (rows[i].dtype == reals[t] || rows[i].dtype == BT_DTYPE_COUNT);
            }
            if (serving != 1) {
                fail_msg("%d CPU rows of %s for %s", serving, bt_kernel_op_name((bt_kernel_op)op),
                         bt_dtype_name(reals[t]));
            }
        }
    }
    bt_device_close(&device);
}

static void test_fill(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < BT_DTYPE_COUNT; ++dtype) {
        for (int64_t count = 0; count < 40; count += 13) {
            unsigned char bytes[400] = {0};
            bt_fill_args args = {bytes, count, (bt_dtype)dtype, 1};
            ASSERT_OK(test_kernel_status(BT_KERNEL_FILL, (bt_dtype)dtype, &args));
            bt_copy_args back = {1, {count}, bytes, {1}, (bt_dtype)dtype, NULL, {1}, BT_F64};
            double values[40];
            back.y = values;
            ASSERT_OK(test_kernel_status(BT_KERNEL_COPY, (bt_dtype)dtype, &back));
            for (int64_t i = 0; i < count; ++i) {
                assert_true(values[i] == 1);
            }
            assert_int_equal(bytes[(size_t)count * bt_dtype_size((bt_dtype)dtype)], 0);
        }
    }
}

// ---- scale -------------------------------------------------------------------------------------

static void check_scale(bt_dtype dtype, int64_t count, double factor)
{
    const double eps = bt_dtype_epsilon(dtype);
    double *x = test_doubles(count), *expected = test_doubles(count), *got = test_doubles(count);
    test_random(x, count, 5, -6, 6);
    test_buffer bx = test_buffer_make(dtype, x, count), by = test_buffer_make(dtype, NULL, count);
    test_buffer by_factor = test_buffer_make(dtype, &factor, 1);
    bt_scale_args args = {bx.data, by_factor.data, by.data, count, false, dtype, 0};
    for (int i = 0; i < 2; ++i) { // overwrites the NaN of nothing; then adds
        args.accumulate = i;
        TEST_KERNEL(BT_KERNEL_SCALE, dtype, &args, &by);
        for (int64_t k = 0; k < count; ++k) {
            expected[k] = (1 + i) * factor * x[k];
        }
        test_buffer_read(&by, got);
        test_assert_close(got, expected, count, 0, 2 * eps, "scale");
    }
    args = (bt_scale_args){bx.data, by_factor.data, bx.data, count, false, dtype, 0};
    TEST_KERNEL(BT_KERNEL_SCALE, dtype, &args, &bx); // in place
    for (int64_t k = 0; k < count; ++k) {
        expected[k] = factor * x[k];
    }
    test_buffer_read(&bx, got);
    test_assert_close(got, expected, count, 0, eps, "scale in place");
    free(x), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by), test_buffer_release(&by_factor);
}

// A factor for each group of elements.
static void check_scale_groups(bt_dtype dtype, int64_t groups, int64_t group, bool in_place,
                               bool accumulate)
{
    const int64_t count = groups * group;
    const double eps = bt_dtype_epsilon(dtype);
    double *x = test_doubles(count), *expected = test_doubles(count), *got = test_doubles(count);
    double *factors = test_doubles(groups);
    test_random(x, count, 5, -6, 6);
    test_random(factors, groups, 6, -2, 2);
    for (int64_t k = 0; k < count; ++k) {
        expected[k] = factors[k / group] * x[k] + (accumulate ? x[k] : 0);
    }
    test_buffer bx = test_buffer_make(dtype, x, count);
    test_buffer by = test_buffer_make(dtype, accumulate ? x : NULL, count);
    test_buffer by_factor = test_buffer_make(dtype, factors, groups);
    test_buffer *out = in_place ? &bx : &by;
    const bt_scale_args args = {bx.data,    by_factor.data, out->data, count,
                                accumulate, dtype,          group};
    TEST_KERNEL(BT_KERNEL_SCALE, dtype, &args, out);
    test_buffer_read(out, got);
    test_assert_close(got, expected, count, accumulate ? 16 * eps : 0, 2 * eps, "scale by groups");
    free(x), free(expected), free(got), free(factors);
    test_buffer_release(&bx), test_buffer_release(&by), test_buffer_release(&by_factor);
}

static void test_scale(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        check_scale_groups(reals[t], 0, 3, false, false);
        check_scale_groups(reals[t], 1, 1, false, false);
        check_scale_groups(reals[t], 7, 5, true, false);
        check_scale_groups(reals[t], 7, 5, false, true);
        check_scale_groups(reals[t], 300, 129, false, false);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        for (int t = 0; t < 2; ++t) {
            check_scale(reals[t], sizes[i], -0.75);
            check_scale(reals[t], sizes[i], 1);
            check_scale(reals[t], sizes[i], TEST_NAN);
        }
    }
}

// ---- unary -------------------------------------------------------------------------------------

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double value_of(bt_unary function, double x, double alpha)
{
    switch (function) {
    case BT_UNARY_GELU:
        return gelu(x);
    case BT_UNARY_RELU:
        return x > 0 ? x : 0;
    case BT_UNARY_SILU:
        return x * sigmoid(x);
    case BT_UNARY_TANH:
        return tanh(x);
    case BT_UNARY_SIGMOID:
        return sigmoid(x);
    case BT_UNARY_EXP:
        return exp(x);
    case BT_UNARY_LOG:
        return log(x);
    case BT_UNARY_SQRT:
        return sqrt(x);
    case BT_UNARY_NEGATE:
        return -x;
    case BT_UNARY_SQUARE:
        return x * x;
    case BT_UNARY_SCALE:
        return alpha * x;
    case BT_UNARY_SHIFT:
        return x + alpha;
    case BT_UNARY_COUNT:
    default:
        fail_msg("no reference for unary %s", bt_unary_name(function));
        return TEST_NAN;
    }
}

static double slope_of(bt_unary function, double x, double alpha)
{
    const double step = 1e-5;
    if (function == BT_UNARY_RELU) {
        return x > 0;
    }
    return (value_of(function, x + step, alpha) - value_of(function, x - step, alpha)) / (2 * step);
}

static void check_unary(bt_unary function, bt_dtype dtype, int64_t count)
{
    const double alpha = 0.75, eps = bt_dtype_epsilon(dtype);
    const bool positive = function == BT_UNARY_LOG || function == BT_UNARY_SQRT;
    double *x = test_doubles(count), *dy = test_doubles(count), *expected = test_doubles(count);
    double *got = test_doubles(count);
    test_random(x, count, 5, positive ? 0.25 : -6, 6);
    test_random(dy, count, 6, -2, 2);
    test_buffer bx = test_buffer_make(dtype, x, count), by = test_buffer_make(dtype, NULL, count);
    test_buffer bdy = test_buffer_make(dtype, dy, count);
    bt_unary_args args = {function, alpha, bx.data, by.data, count, dtype, false};
    TEST_KERNEL(BT_KERNEL_UNARY, dtype, &args, &by);
    for (int64_t i = 0; i < count; ++i) {
        expected[i] = value_of(function, x[i], alpha);
    }
    test_buffer_read(&by, got);
    // Left of 0 exp's argument, of size up to 20, is rounded before exp is taken.
    test_assert_close(got, expected, count, eps, 32 * eps, bt_unary_name(function));

    bt_unary_backward_args back = {.function = function, .alpha = alpha, .x = bx.data};
    back.dy = bdy.data, back.dx = by.data, back.count = count, back.dtype = dtype;
    for (int i = 0; i < 2; ++i) { // overwrites the NaN of nothing; then adds
        back.accumulate = i;
        TEST_KERNEL(BT_KERNEL_UNARY_BACKWARD, dtype, &back, &by);
        for (int64_t k = 0; k < count; ++k) {
            expected[k] = (1 + i) * dy[k] * slope_of(function, x[k], alpha);
        }
        test_buffer_read(&by, got);
        // The reference is a central difference: 1e-8 of it is its own.
        test_assert_close(got, expected, count, 16 * eps + 1e-7, 32 * eps + 1e-7,
                          bt_unary_name(function));
    }
    // In place: y is x, dx is dy.
    back.accumulate = false, back.dx = bdy.data;
    TEST_KERNEL(BT_KERNEL_UNARY_BACKWARD, dtype, &back, &bdy);
    args.y = bx.data;
    TEST_KERNEL(BT_KERNEL_UNARY, dtype, &args, &bx);
    for (int64_t i = 0; i < count; ++i) {
        expected[i] = value_of(function, x[i], alpha);
    }
    test_buffer_read(&bx, got);
    test_assert_close(got, expected, count, eps, 32 * eps, "in place");
    free(x), free(dy), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by), test_buffer_release(&bdy);
}

static void test_unary(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        for (int function = 0; function < BT_UNARY_COUNT; ++function) {
            check_unary((bt_unary)function, reals[t], 1001);
        }
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
            check_unary(BT_UNARY_GELU, reals[t], sizes[s]);
        }
    }
}

static void test_unary_propagates_nan(void **state)
{
    (void)state;
    const double x[3] = {TEST_NAN, 1, TEST_NAN};
    double got[3];
    for (int t = 0; t < 2; ++t) {
        for (int function = 0; function < BT_UNARY_COUNT; ++function) {
            test_buffer bx = test_buffer_make(reals[t], x, 3);
            test_buffer by = test_buffer_make(reals[t], NULL, 3);
            bt_unary_args args = {(bt_unary)function, 2, bx.data, by.data, 3, reals[t], false};
            TEST_KERNEL(BT_KERNEL_UNARY, reals[t], &args, &by);
            test_buffer_read(&by, got);
            assert_true(isnan(got[0]) && isfinite(got[1]) && isnan(got[2]));
            test_buffer_release(&bx), test_buffer_release(&by);
        }
    }
    bt_unary_args bad = {BT_UNARY_COUNT, 0, NULL, NULL, 0, BT_F32, false};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "unary function",
                 test_kernel_status(BT_KERNEL_UNARY, BT_F32, &bad));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "f16", test_kernel_status(BT_KERNEL_UNARY, BT_F16, &bad));
}

// ---- binary ------------------------------------------------------------------------------------

static double combine(bt_binary function, double a, double b)
{
    switch (function) {
    case BT_BINARY_ADD:
        return a + b;
    case BT_BINARY_SUB:
        return a - b;
    case BT_BINARY_MUL:
        return a * b;
    case BT_BINARY_DIV:
        return a / b;
    case BT_BINARY_COUNT:
    default:
        fail_msg("no reference for binary %s", bt_binary_name(function));
        return TEST_NAN;
    }
}

typedef struct binary_case {
    int rank;
    int64_t shape[4], a_stride[4], b_stride[4];
} binary_case;

static void check_binary(const binary_case *shapes, bt_binary function, bt_dtype dtype)
{
    bt_binary_args args = {.function = function, .rank = shapes->rank, .dtype = dtype};
    int64_t count = 1, a_count = 1, b_count = 1;
    for (int dim = 0; dim < shapes->rank; ++dim) {
        args.shape[dim] = shapes->shape[dim];
        args.a_stride[dim] = shapes->a_stride[dim];
        args.b_stride[dim] = shapes->b_stride[dim];
        count *= shapes->shape[dim];
        a_count += (shapes->shape[dim] - 1) * shapes->a_stride[dim];
        b_count += (shapes->shape[dim] - 1) * shapes->b_stride[dim];
    }
    if (count == 0) {
        a_count = b_count = 0;
    }
    double *a = test_doubles(a_count), *b = test_doubles(b_count), *expected = test_doubles(count);
    double *got = test_doubles(count);
    test_random(a, a_count, 1, -3, 3);
    test_random(b, b_count, 2, 0.5, 2);
    for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i, at_a = 0, at_b = 0;
        for (int dim = shapes->rank - 1; dim >= 0; --dim) {
            at_a += rest % shapes->shape[dim] * shapes->a_stride[dim];
            at_b += rest % shapes->shape[dim] * shapes->b_stride[dim];
            rest /= shapes->shape[dim];
        }
        expected[i] = combine(function, a[at_a], b[at_b]);
    }
    test_buffer ba = test_buffer_make(dtype, a, a_count), bb = test_buffer_make(dtype, b, b_count);
    test_buffer by = test_buffer_make(dtype, NULL, count);
    args.a = ba.data, args.b = bb.data, args.y = by.data;
    TEST_KERNEL(BT_KERNEL_BINARY, dtype, &args, &by);
    test_buffer_read(&by, got);
    test_assert_close(got, expected, count, 0, bt_dtype_epsilon(dtype), bt_binary_name(function));
    if (a_count == count) { // in place of a
        args.y = ba.data;
        TEST_KERNEL(BT_KERNEL_BINARY, dtype, &args, &ba);
        test_buffer_read(&ba, got);
        test_assert_close(got, expected, count, 0, bt_dtype_epsilon(dtype), "in place");
    }
    free(a), free(b), free(expected), free(got);
    test_buffer_release(&ba), test_buffer_release(&bb), test_buffer_release(&by);
}

static void test_binary(void **state)
{
    (void)state;
    const binary_case cases[] = {
        {0, {0}, {0}, {0}},                                // scalars
        {1, {0}, {1}, {1}},                                // empty
        {1, {1}, {1}, {1}},                                // one element
        {1, {40001}, {1}, {1}},                            // several chunks
        {2, {3, 20000}, {20000, 1}, {0, 1}},               // a row for every row
        {2, {7, 5}, {5, 1}, {1, 0}},                       // a column for every column
        {2, {7, 5}, {5, 1}, {0, 0}},                       // a scalar
        {2, {7, 5}, {0, 1}, {1, 0}},                       // an outer product
        {3, {4, 1, 6}, {6, 6, 1}, {1, 9, 4}},              // transposed right side
        {4, {2, 3, 4, 5}, {60, 20, 5, 1}, {0, 5, 0, 1}},   // broadcast in the middle
        {4, {2, 0, 4, 5}, {60, 20, 5, 1}, {60, 20, 5, 1}}, // empty in the middle
        {4, {2, 2, 2, 9000}, {36000, 18000, 9000, 1}, {9000, 0, 18000, 1}}, // permuted
    };
    for (int t = 0; t < 2; ++t) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
            for (int function = 0; function < BT_BINARY_COUNT; ++function) {
                check_binary(&cases[i], (bt_binary)function, reals[t]);
            }
        }
    }
}

// ---- sums --------------------------------------------------------------------------------------

static void check_reduce(int64_t outer, int64_t reduce, int64_t inner, bt_dtype dtype)
{
    const double scale = 0.5, eps = bt_dtype_epsilon(dtype);
    const int64_t count = outer * reduce * inner, out = outer * inner;
    double *x = test_doubles(count), *expected = test_doubles(out), *got = test_doubles(out);
    test_random(x, count, 3, -1, 1);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            for (int64_t r = 0; r < reduce; ++r) {
                expected[o * inner + i] += scale * x[(o * reduce + r) * inner + i];
            }
        }
    }
    test_buffer bx = test_buffer_make(dtype, x, count), by = test_buffer_make(dtype, NULL, out);
    bt_reduce_sum_args args = {bx.data, by.data, outer, reduce, inner, scale, false, dtype, dtype};
    for (int i = 1; i <= 2; ++i) {
        args.accumulate = i == 2;
        TEST_KERNEL(BT_KERNEL_REDUCE_SUM, dtype, &args, &by);
        test_buffer_read(&by, got);
        for (int64_t k = 0; k < out; ++k) {
            got[k] /= i;
        }
        // Summed in double: only the result is rounded, and the reference's own error counts.
        test_assert_close(got, expected, out, 0x1p-52 * (double)reduce, 2 * eps, "reduce_sum");
    }
    free(x), free(expected), free(got);
    test_buffer_release(&bx), test_buffer_release(&by);
}

static void test_reduce_sum(void **state)
{
    (void)state;
    for (int t = 0; t < 2; ++t) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
            check_reduce(1, sizes[i], 1, reals[t]);
            check_reduce(2, 3, sizes[i], reals[t]);
            check_reduce(sizes[i] % 1000, 5, 2, reals[t]);
        }
        check_reduce(3, 512, 768, reals[t]);
        check_reduce(0, 4, 4, reals[t]);
    }
    bt_reduce_sum_args mixed = {.dtype = BT_F64, .y_dtype = BT_F32};
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "reduce_sum_cpu_f64",
                 test_kernel_status(BT_KERNEL_REDUCE_SUM, BT_F64, &mixed));
}

static void test_reduce_sum_propagates(void **state)
{
    (void)state;
    double x[40] = {[7] = TEST_NAN, [25] = TEST_INFINITY}, got[2];
    for (int t = 0; t < 2; ++t) {
        test_buffer bx = test_buffer_make(reals[t], x, 40);
        test_buffer by = test_buffer_make(reals[t], NULL, 2);
        bt_reduce_sum_args args = {bx.data, by.data, 2, 20, 1, 1, false, reals[t], reals[t]};
        TEST_KERNEL(BT_KERNEL_REDUCE_SUM, reals[t], &args, &by);
        test_buffer_read(&by, got);
        assert_true(isnan(got[0]) && isinf(got[1]));
        test_buffer_release(&bx), test_buffer_release(&by);
    }
}

// Says whether the mapping that holds an address asks for huge pages.
static bool asks_for_huge_pages(const void *address)
{
    char line[512];
    bool inside = false, asks = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            asks = strstr(line, " hg") != NULL;
        }
    }
    (void)fclose(file);
    return asks;
}

static void test_large_blocks_have_huge_pages(void **state)
{
    (void)state;
    bt_device device;
    void *large = NULL, *small = NULL;
    ASSERT_OK(bt_device_open("cpu", 0, &device));
    ASSERT_OK(device.backend->memory_alloc(&device, (5 << 20) + 1, &large));
    ASSERT_OK(device.backend->memory_alloc(&device, 1 << 20, &small));
    assert_int_equal((uintptr_t)large % (2 << 20), 0);
    assert_int_equal((uintptr_t)small % 256, 0);
    memset(large, 1, (5 << 20) + 1);
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0) {
        assert_true(asks_for_huge_pages(large));
    }
    device.backend->memory_free(&device, large);
    device.backend->memory_free(&device, small);
    bt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_rows),
        cmocka_unit_test(test_large_blocks_have_huge_pages),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_unary_propagates_nan),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_reduce_sum),
        cmocka_unit_test(test_reduce_sum_propagates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
