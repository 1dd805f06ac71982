// Sums of parts of the rows on CUDA, against the definition bit by bit and against the CPU in
// double: parts that hold some rows or none, rows off alignment, many parts, NaN and zeros of both
// signs.

#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include <math.h>

enum { PARTS = 64, SOURCES = 8 }; // part n reads operand n % SOURCES: a test has 64 operands

typedef struct call {
    int64_t batch, rows, width;
    int parts;
    int64_t x_gap, y_gap, offset; // elements between rows, and off alignment
} call;

static const call calls[] = {
    {2, 130, 768, 2, 0, 384, 0}, {1, 33, 192, 5, 0, 0, 0},    {3, 40, 256, PARTS, 0, 0, 0},
    {2, 50, 66, 3, 0, 0, 0},     {2, 50, 65, 3, 0, 0, 0},     {2, 50, 128, 3, 3, 0, 0},
    {2, 50, 128, 3, 0, 3, 0},    {2, 50, 128, 3, 0, 0, 1},    {1, 100, 384, 1, 16, 8, 0},
    {1, 1, 1, 2, 0, 0, 0},       {1, 700, 1, 4, 0, 0, 1},     {2, 1, 1031, 2, 1, 0, 0},
    {1, 600, 8, 2, 0, 8, 0},     {2, 31, 33, PARTS, 1, 2, 3}, {0, 9, 64, 2, 0, 0, 0},
    {1, 0, 64, 2, 0, 0, 0},      {1, 9, 0, 2, 8, 8, 0},       {3, 17, 64, 0, 0, 0, 0},
};

static test_twin *sources[SOURCES];

static int64_t x_stride(const call *c) { return c->width + c->x_gap; }
static int64_t y_stride(const call *c) { return c->width + c->y_gap; }

// Every third part holds all rows, every fifth none, the others some.
static bt_sum_parts_item part_of(const call *c, int n, test_side side)
{
    bt_sum_parts_item part = {.x = test_at(sources[n % SOURCES], side),
                              .batch_stride = c->rows * x_stride(c),
                              .row_stride = x_stride(c),
                              .rows = c->rows};
    if (n % 3) {
        part.first = c->rows * n / (2 * c->parts);
        part.rows = n % 5 == 4 ? 0 : (c->rows - part.first + 1) / 2;
    }
    return part;
}

static double expected(const call *c, bt_dtype dtype, int64_t batch, int64_t row, int64_t col)
{
    float sum = 0;
    bool held = false;
    for (int n = 0; n < c->parts; ++n) {
        const bt_sum_parts_item part = part_of(c, n, TEST_NEAR);
        if (row >= part.first && row < part.first + part.rows) {
            const float x = (float)test_twin_get(sources[n % SOURCES], TEST_NEAR,
                                                 batch * part.batch_stride +
                                                     (row - part.first) * part.row_stride + col);
            sum = held ? sum + x : x;
            held = true;
        }
    }
    return dtype == BT_BF16 ? (double)bt_bf16_to_f32(bt_f32_to_bf16(sum)) : (double)sum;
}

// Each of parts - 1 additions rounds a sum of up to `parts`; the CPU's result is rounded once.
static void compare(const call *c, bt_dtype dtype, const test_twin *y)
{
    const double most = c->parts;
    test_twin_check(y, most * most * 0x1p-24, dtype == BT_BF16 ? 0x1p-8 : 0x1p-23, "sum");
    for (int64_t row = 0; row < c->batch * c->rows; ++row) {
        for (int64_t col = 0; col < c->width; ++col) {
            const double got = test_twin_get(y, TEST_NEAR, row * y_stride(c) + col);
            const double want = expected(c, dtype, row / c->rows, row % c->rows, col);
            if (!test_same_value(got, want)) {
                fail_msg("row %lld, column %lld: %g, expected %g", (long long)row, (long long)col,
                         got, want);
            }
        }
    }
}

// Random numbers, among them some of `special` values.
static test_twin *draw(bt_dtype dtype, int64_t count, uint64_t seed, const double *special,
                       int kinds)
{
    test_twin *twin = test_twin_random(dtype, count, seed, -1, 1);
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t at = ((uint64_t)i * 7 + seed * 11) % 64;
        if (at < (uint64_t)kinds) {
            test_twin_set(twin, i, special[at]);
        }
    }
    return twin;
}

static bt_sum_parts_args args_of(const call *c, bt_dtype dtype, const test_twin *y,
                                 const bt_sum_parts_item *items, test_side side)
{
    return (bt_sum_parts_args){.items = items,
                               .item_count = c->parts,
                               .y = test_at(y, side),
                               .y_batch_stride = c->rows * y_stride(c),
                               .y_row_stride = y_stride(c),
                               .batch = c->batch,
                               .rows = c->rows,
                               .width = c->width,
                               .dtype = test_type(dtype, side)};
}

static void check(const call *c, bt_dtype dtype)
{
    static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0,
                                     -0.0};
    bt_sum_parts_item items[TEST_SIDES][PARTS];
    bt_sum_parts_args args[TEST_SIDES];
    test_case_name("%d parts of %lldx%lldx%lld %s", c->parts, (long long)c->batch,
                   (long long)c->rows, (long long)c->width, bt_dtype_name(dtype));
    test_twin_offset(c->offset);
    for (int n = 0; n < SOURCES; ++n) {
        sources[n] = draw(dtype, c->batch * c->rows * x_stride(c), (uint64_t)n, special, 6);
    }
    test_twin *y = test_twin_inout(dtype, c->batch * c->rows * y_stride(c), 3, -1, 1);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        for (int n = 0; n < c->parts; ++n) {
            items[side][n] = part_of(c, n, side);
        }
        args[side] = args_of(c, dtype, y, items[side], side);
    }
    test_run(BT_KERNEL_SUM_PARTS, dtype, &args[0], &args[1]);
    compare(c, dtype, y);
    test_twins_release();
}

static void equals_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        check(&calls[i], BT_F32);
        check(&calls[i], BT_BF16);
    }
}

// One part that is not aligned to 16 bytes, beside others that are.
static void one_part_off_alignment(void **state)
{
    (void)state;
    const call c = {2, 40, 64, 3, 0, 0, 0};
    const double zeros[] = {0.0, -0.0};
    for (int odd = 0; odd < c.parts; ++odd) {
        bt_sum_parts_item items[TEST_SIDES][PARTS];
        bt_sum_parts_args args[TEST_SIDES];
        test_case_name("part %d is not aligned", odd);
        for (int n = 0; n < SOURCES; ++n) {
            test_twin_offset(n == odd);
            sources[n] = draw(BT_BF16, c.batch * c.rows * c.width, (uint64_t)n, zeros, 2);
        }
        test_twin_offset(0);
        test_twin *y = test_twin_output(BT_BF16, c.batch * c.rows * c.width);
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            for (int n = 0; n < c.parts; ++n) {
                items[side][n] = part_of(&c, n, side);
            }
            args[side] = args_of(&c, BT_BF16, y, items[side], side);
        }
        test_run(BT_KERNEL_SUM_PARTS, BT_BF16, &args[0], &args[1]);
        compare(&c, BT_BF16, y);
        test_twins_release();
    }
}

static bool is_served(bt_sum_parts_args args)
{
    return bt_kernel_lookup(test_device(), BT_KERNEL_SUM_PARTS, args.dtype, &args) != NULL;
}

static void larger_calls_are_refused(void **state)
{
    (void)state;
    const bt_sum_parts_args most = {
        .item_count = 64, .batch = 65535, .rows = INT32_MAX, .width = 1, .dtype = BT_F32};
    bt_sum_parts_args args = most;
    assert_true(is_served(args));
    args.item_count = 65;
    assert_false(is_served(args));
    args = most, args.batch = 65536;
    assert_false(is_served(args));
    args = most, args.rows = (int64_t)INT32_MAX + 1;
    assert_false(is_served(args));
    args = most, args.width = 2;
    assert_false(is_served(args));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_definition),
                                       cmocka_unit_test(one_part_off_alignment),
                                       cmocka_unit_test(larger_calls_are_refused)};
    if (!test_device_open()) {
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
