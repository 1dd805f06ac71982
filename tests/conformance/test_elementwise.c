// Fill, copy, unary, binary, dropout and count_nonfinite on CUDA against the CPU.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const bt_dtype dtypes[] = {BT_F32, BT_BF16};
static const double EPSILON = 0x1p-23;

// elements, and how many of them off alignment
static const int64_t lengths[][2] = {{0, 0}, {1, 0}, {7, 0}, {1024, 0}, {4099, 0}, {4099, 1}};

enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void for_each(void (*f)(bt_dtype dtype, int64_t count))
{
    for (int type = 0; type < 2; ++type) {
        for (int i = 0; i < LENGTHS; ++i) {
            test_case_name("%s [%d] + %d", bt_dtype_name(dtypes[type]), (int)lengths[i][0],
                           (int)lengths[i][1]);
            test_twin_offset(lengths[i][1]);
            f(dtypes[type], lengths[i][0]);
            test_twins_release();
            test_twin_offset(0);
        }
    }
}

static void fill_case(bt_dtype dtype, int64_t count)
{
    test_twin *y = test_twin_output(dtype, count);
    bt_fill_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_fill_args){test_at(y, side), count, test_type(dtype, side), 1.375};
    }
    test_run(BT_KERNEL_FILL, dtype, &args[0], &args[1]);
    test_twin_check(y, 0, 0, "fill");
}

static void fill(void **state)
{
    (void)state;
    for_each(fill_case);
    test_twin *ids = test_twin_output(BT_I32, 33);
    bt_fill_args args = {ids->near, 33, BT_I32, -7};
    test_run(BT_KERNEL_FILL, BT_I32, NULL, &args);
    for (int64_t i = 0; i < 33; ++i) {
        assert_int_equal((int)test_twin_get(ids, TEST_NEAR, i), -7);
    }
    test_twins_release();
}

static bool is_domain_positive(bt_unary function)
{
    return function == BT_UNARY_LOG || function == BT_UNARY_SQRT;
}

static void unary_case(bt_dtype dtype, int64_t count)
{
    for (bt_unary function = 0; function < BT_UNARY_COUNT; ++function) {
        double low = is_domain_positive(function) ? 0.01 : -6;
        test_twin *x = test_twin_random(dtype, count, 1, low, 6);
        test_twin *y = test_twin_output(dtype, count);
        bt_unary_args args[TEST_SIDES];
        if (count > 8) {
            test_twin_set(x, 3, (double)NAN);
        }
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] = (bt_unary_args){
                function, 1.75, test_at(x, side), test_at(y, side), count, test_type(dtype, side),
                false};
        }
        test_run(BT_KERNEL_UNARY, dtype, &args[0], &args[1]);
        // An exponent of up to 25 is rounded, which the exponential magnifies by as much.
        test_twin_check(y, 4 * EPSILON, 32 * EPSILON + bt_dtype_epsilon(dtype),
                        bt_unary_name(function));
        test_twins_release();
    }
}

static void unary_backward_case(bt_dtype dtype, int64_t count)
{
    for (bt_unary function = 0; function < BT_UNARY_COUNT; ++function) {
        for (int accumulate = 0; accumulate < 2; ++accumulate) {
            double low = is_domain_positive(function) ? 0.01 : -6;
            test_twin *x = test_twin_random(dtype, count, 2, low, 6);
            test_twin *dy = test_twin_random(dtype, count, 3, -2, 2);
            test_twin *dx = accumulate ? test_twin_inout(dtype, count, 4, -1, 1)
                                       : test_twin_output(dtype, count);
            bt_unary_backward_args args[TEST_SIDES];
            for (test_side side = 0; side < TEST_SIDES; ++side) {
                args[side] = (bt_unary_backward_args){
                    function,          1.75,  test_at(x, side),       test_at(dy, side),
                    test_at(dx, side), count, test_type(dtype, side), accumulate};
            }
            test_run(BT_KERNEL_UNARY_BACKWARD, dtype, &args[0], &args[1]);
            // Where terms cancel (GELU's slope crosses zero) their own rounding is left.
            test_twin_check(dx, 64 * EPSILON, 32 * EPSILON + bt_dtype_epsilon(dtype),
                            bt_unary_name(function));
            test_twins_release();
        }
    }
}

static void unary(void **state)
{
    (void)state;
    for_each(unary_case);
    for_each(unary_backward_case);
}

static void scale_with(bt_dtype dtype, int64_t count, double by, bool accumulate)
{
    test_twin *x = test_twin_random(dtype, count, 5, -6, 6);
    test_twin *factor = test_twin_values(BT_F32, &by, 1);
    test_twin *y =
        accumulate ? test_twin_inout(dtype, count, 6, -1, 1) : test_twin_output(dtype, count);
    test_twin *z = test_twin_inout(dtype, count, 7, -6, 6); // in place
    bt_scale_args args[TEST_SIDES], in_place[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_scale_args){test_at(x, side),
                                     test_at(factor, side),
                                     test_at(y, side),
                                     count,
                                     accumulate,
                                     test_type(dtype, side),
                                     0};
        in_place[side] = (bt_scale_args){test_at(z, side),
                                         test_at(factor, side),
                                         test_at(z, side),
                                         count,
                                         false,
                                         test_type(dtype, side),
                                         0};
    }
    test_run(BT_KERNEL_SCALE, dtype, &args[0], &args[1]);
    test_twin_check(y, 2 * EPSILON, 2 * EPSILON + bt_dtype_epsilon(dtype), "scale");
    test_run(BT_KERNEL_SCALE, dtype, &in_place[0], &in_place[1]);
    test_twin_check(z, 0, 2 * EPSILON + bt_dtype_epsilon(dtype), "scale in place");
    test_twins_release();
}

static void scale_case(bt_dtype dtype, int64_t count)
{
    const double factors[] = {-0.375, 1, 0, (double)NAN};
    for (int i = 0; i < 8; ++i) {
        scale_with(dtype, count, factors[i / 2], i % 2 == 1);
    }
}

// A factor for each group of elements.
static void scale_groups_with(bt_dtype dtype, int64_t groups, int64_t group, bool accumulate)
{
    test_twin *factors = test_twin_random(BT_F32, groups, 8, -2, 2);
    test_twin *y = test_twin_inout(dtype, groups * group, 9, -6, 6);
    test_twin *x = accumulate ? test_twin_random(dtype, groups * group, 10, -6, 6) : y;
    bt_scale_args args[TEST_SIDES];
    test_case_name("%d groups of %d", (int)groups, (int)group);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_scale_args){test_at(x, side),
                                     test_at(factors, side),
                                     test_at(y, side),
                                     groups * group,
                                     accumulate,
                                     test_type(dtype, side),
                                     group};
    }
    test_run(BT_KERNEL_SCALE, dtype, &args[0], &args[1]);
    test_twin_check(y, 4 * EPSILON, 2 * EPSILON + bt_dtype_epsilon(dtype), "scale by groups");
    test_twins_release();
}

static void scale(void **state)
{
    (void)state;
    for (int type = 0; type < 2; ++type) {
        for (int i = 0; i < 2; ++i) {
            scale_groups_with(dtypes[type], 1, 1, i == 1);
            scale_groups_with(dtypes[type], 37, 13, i == 1);
            scale_groups_with(dtypes[type], 301, 768, i == 1);
            scale_groups_with(dtypes[type], 40000, 264, i == 1);
        }
    }
    for_each(scale_case);
    scale_with(BT_BF16, 1 << 24, 0.5, true); // more than the grid takes at once
}

// shape, then strides of a and of b
typedef struct binary_shape {
    int rank;
    int64_t shape[4], a[4], b[4];
} binary_shape;

static const binary_shape binary_shapes[] = {
    {.rank = 0},
    {.rank = 1, .shape = {1029}, .a = {1}, .b = {1}},
    {.rank = 2, .shape = {64, 768}, .a = {768, 1}, .b = {768, 1}},
    {.rank = 2, .shape = {64, 768}, .a = {768, 1}, .b = {0, 1}},
    {.rank = 2, .shape = {64, 768}, .a = {768, 1}, .b = {1, 0}},
    {.rank = 2, .shape = {33, 7}, .a = {0, 1}, .b = {7, 1}},
    {.rank = 2, .shape = {12, 40}, .a = {1, 12}, .b = {40, 1}},
    {.rank = 1, .shape = {4096}, .a = {0}, .b = {1}},
    {.rank = 4, .shape = {3, 1, 5, 16}, .a = {80, 80, 16, 1}, .b = {16, 0, 0, 1}},
    {.rank = 2, .shape = {0, 9}, .a = {9, 1}, .b = {9, 1}},
};

static int64_t count_of(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int dim = 0; dim < rank; ++dim) {
        count *= shape[dim];
    }
    return count;
}

// The elements that strides reach.
static int64_t extent_of(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t extent = 1;
    for (int dim = 0; dim < rank; ++dim) {
        extent += (shape[dim] > 0 ? shape[dim] - 1 : 0) * stride[dim];
    }
    return extent;
}

static void binary_with(bt_dtype dtype, const binary_shape *shape, bt_binary function)
{
    int64_t count = count_of(shape->rank, shape->shape);
    test_twin *a =
        test_twin_random(dtype, extent_of(shape->rank, shape->shape, shape->a), 5, -3, 3);
    test_twin *b =
        test_twin_random(dtype, extent_of(shape->rank, shape->shape, shape->b), 6, 0.5, 3);
    test_twin *y = test_twin_output(dtype, count);
    bt_binary_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_binary_args){.function = function,
                                      .rank = shape->rank,
                                      .a = test_at(a, side),
                                      .b = test_at(b, side),
                                      .y = test_at(y, side),
                                      .dtype = test_type(dtype, side)};
        for (int dim = 0; dim < shape->rank; ++dim) {
            args[side].shape[dim] = shape->shape[dim];
            args[side].a_stride[dim] = shape->a[dim];
            args[side].b_stride[dim] = shape->b[dim];
        }
    }
    test_run(BT_KERNEL_BINARY, dtype, &args[0], &args[1]);
    test_twin_check(y, 0, bt_dtype_epsilon(dtype), bt_binary_name(function));
    test_twins_release();
}

static void binary(void **state)
{
    (void)state;
    for (int type = 0; type < 2; ++type) {
        for (size_t i = 0; i < sizeof binary_shapes / sizeof binary_shapes[0]; ++i) {
            for (bt_binary function = 0; function < BT_BINARY_COUNT; ++function) {
                for (int64_t off = 0; off < 2; ++off) {
                    test_case_name("%s shape %d + %d", bt_dtype_name(dtypes[type]), (int)i,
                                   (int)off);
                    test_twin_offset(off);
                    binary_with(dtypes[type], &binary_shapes[i], function);
                    test_twin_offset(0);
                }
            }
        }
    }
}

// shape, then strides of x and of y
static const struct copy_shape {
    int rank;
    int64_t shape[4], x[4], y[4];
} copy_shapes[] = {
    {.rank = 0},
    {.rank = 1, .shape = {5000}, .x = {1}, .y = {1}},
    {.rank = 2, .shape = {65, 129}, .x = {129, 1}, .y = {1, 65}},
    {.rank = 2, .shape = {129, 65}, .x = {1, 129}, .y = {65, 1}},
    {.rank = 2, .shape = {40, 64}, .x = {192, 1}, .y = {64, 1}},
    {.rank = 2, .shape = {40, 64}, .x = {0, 1}, .y = {64, 1}},
    {.rank = 2, .shape = {40, 7}, .x = {1, 0}, .y = {7, 1}},
    {.rank = 4, .shape = {2, 3, 50, 16}, .x = {2400, 16, 48, 1}, .y = {2400, 800, 16, 1}},
    {.rank = 4, .shape = {2, 3, 33, 40}, .x = {3960, 1320, 1, 33}, .y = {3960, 1320, 40, 1}},
    {.rank = 3, .shape = {4, 0, 3}, .x = {3, 3, 1}, .y = {3, 3, 1}},
};

static void copy_with(bt_dtype x_type, bt_dtype y_type, const struct copy_shape *shape)
{
    test_twin *x =
        test_twin_random(x_type, extent_of(shape->rank, shape->shape, shape->x), 7, -100, 100);
    int64_t extent = extent_of(shape->rank, shape->shape, shape->y);
    test_twin *y = test_twin_output(y_type, extent);
    bt_copy_args args[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_copy_args){.rank = shape->rank,
                                    .x = test_at(x, side),
                                    .x_dtype = test_type(x_type, side),
                                    .y = test_at(y, side),
                                    .y_dtype = test_type(y_type, side)};
        for (int dim = 0; dim < shape->rank; ++dim) {
            args[side].shape[dim] = shape->shape[dim];
            args[side].x_stride[dim] = shape->x[dim];
            args[side].y_stride[dim] = shape->y[dim];
        }
    }
    test_run(BT_KERNEL_COPY, x_type, &args[0], &args[1]);
    // The host's double is rounded here, so that a narrowing copy must round exactly so.
    for (int64_t i = 0; bt_dtype_is_float(y_type) && i < extent; ++i) {
        double *value = &((double *)y->host)[i];
        *value = y_type == BT_BF16 ? (double)bt_bf16_to_f32(bt_f32_to_bf16((float)*value)) : *value;
    }
    if (count_of(shape->rank, shape->shape) > 0) {
        test_twin_check(y, 0, 0, "copy");
    }
    test_twins_release();
}

static void copy(void **state)
{
    (void)state;
    static const bt_dtype pairs[][2] = {{BT_F32, BT_F32},  {BT_BF16, BT_BF16}, {BT_F32, BT_BF16},
                                        {BT_BF16, BT_F32}, {BT_I32, BT_I32},   {BT_I32, BT_F32},
                                        {BT_F32, BT_I32}};
    for (size_t pair = 0; pair < sizeof pairs / sizeof pairs[0]; ++pair) {
        for (size_t i = 0; i < sizeof copy_shapes / sizeof copy_shapes[0]; ++i) {
            for (int64_t off = 0; off < 2; ++off) {
                test_case_name("%s to %s shape %d + %d", bt_dtype_name(pairs[pair][0]),
                               bt_dtype_name(pairs[pair][1]), (int)i, (int)off);
                test_twin_offset(off);
                copy_with(pairs[pair][0], pairs[pair][1], &copy_shapes[i]);
                test_twin_offset(0);
            }
        }
    }
}

static void dropout_case(bt_dtype dtype, int64_t count)
{
    for (int accumulate = 0; accumulate < 2; ++accumulate) {
        test_twin *x = test_twin_random(dtype, count, 8, 1, 2);
        test_twin *y =
            accumulate ? test_twin_inout(dtype, count, 9, 1, 2) : test_twin_output(dtype, count);
        bt_dropout_args args[TEST_SIDES];
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            args[side] = (bt_dropout_args){
                test_at(x, side), test_at(y, side),      count, 0.3, 0x123456789abcdef0, 77,
                accumulate,       test_type(dtype, side)};
        }
        test_run(BT_KERNEL_DROPOUT, dtype, &args[0], &args[1]);
        test_twin_check(y, 0, 2 * EPSILON + bt_dtype_epsilon(dtype), "dropout");
        test_twins_release();
    }
}

static void dropout(void **state)
{
    (void)state;
    for_each(dropout_case);
}

static void count_nonfinite_case(bt_dtype dtype, int64_t count)
{
    test_twin *x = test_twin_random(dtype, count, 10, -1, 1);
    test_twin *result = test_twin_output(BT_I64, 1);
    if (count > 8) {
        test_twin_set(x, 0, (double)NAN);
        test_twin_set(x, count / 2, (double)INFINITY);
        test_twin_set(x, count - 1, (double)-INFINITY);
    }
    bt_count_nonfinite_args args = {x->near, count, result->near, dtype};
    test_run(BT_KERNEL_COUNT_NONFINITE, dtype, NULL, &args);
    assert_int_equal((int)test_twin_get(result, TEST_NEAR, 0), count > 8 ? 3 : 0);
}

static void count_nonfinite(void **state)
{
    (void)state;
    for_each(count_nonfinite_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill),
        cmocka_unit_test(copy),
        cmocka_unit_test(unary),
        cmocka_unit_test(scale),
        cmocka_unit_test(binary),
        cmocka_unit_test(dropout),
        cmocka_unit_test(count_nonfinite),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
