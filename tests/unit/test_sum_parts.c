// tests/unit/test_sum_parts.c - sums of parts of the rows, on the CPU: every bit by the definition
#include <math.h>
#include <stdlib.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"

enum { PARTS = 100 };

typedef struct sum_case {
    int64_t batch, rows, width;
    int64_t gap, offset; // elements between rows, and before the first one
    int parts;
    int64_t first[PARTS], count[PARTS]; // of the parts
} sum_case;

static const sum_case cases[] = {
    {1, 1, 1, 0, 0, 2, {0, 0}, {1, 1}},
    {2, 7, 15, 0, 0, 4, {0, 3, 0, 2}, {7, 4, 3, 1}},
    {2, 7, 15, 3, 1, 4, {0, 3, 0, 2}, {7, 4, 3, 1}},
    {1, 9, 260, 0, 0, 3, {1, 4, 8}, {3, 4, 0}},     // rows that no part holds, an empty part
    {2, 9, 131, 5, 3, 3, {9, 4, 0}, {0, 5, 0}},     // two empty parts
    {3, 4, 64, 0, 0, 1, {0}, {4}},                  // one part alone
    {2, 90, 97, 1, 0, 3, {0, 0, 45}, {90, 45, 45}}, // more than a thread's share
    {1, 3, 8, 0, 0, 0, {0}, {0}},                   // no part
    {0, 3, 8, 0, 0, 1, {0}, {3}},
    {2, 0, 8, 0, 0, 2, {0, 0}, {0, 0}},
    {2, 3, 0, 0, 0, 1, {0}, {3}},
};
static const bt_dtype types[] = {BT_F32, BT_F64, BT_BF16};

typedef struct operands {
    double *x[PARTS];
    test_buffer part[PARTS], y;
    bt_sum_parts_item items[PARTS];
    bt_sum_parts_args args;
} operands;

static int64_t stride_of(const sum_case *c) { return c->width + c->gap; }

static int64_t elements(const sum_case *c, int64_t rows)
{
    return c->offset + c->batch * rows * stride_of(c);
}

static void *at_offset(const sum_case *c, const test_buffer *buffer)
{
    return (char *)buffer->data + c->offset * (int64_t)bt_dtype_size(buffer->dtype);
}

// Random numbers, among them NaN, infinities and zeros of both signs.
static void draw(double *values, int64_t count, uint64_t seed)
{
    static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0,
                                     -0.0};
    test_random(values, count, seed, -2, 2);
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t at = ((uint64_t)i * 7 + seed * 11) % 64;
        values[i] = at < 6 ? special[at] : values[i];
    }
}

static operands *make(const sum_case *c, bt_dtype dtype)
{
    operands *at = calloc(1, sizeof *at);
    assert_non_null(at);
    for (int n = 0; n < c->parts; ++n) {
        const int64_t count = elements(c, c->count[n]);
        at->x[n] = test_doubles(count);
        draw(at->x[n], count, (uint64_t)n + 1);
        at->part[n] = test_buffer_make(dtype, at->x[n], count);
        test_buffer_read(&at->part[n], at->x[n]); // as rounded
        at->items[n] = (bt_sum_parts_item){.x = c->count[n] ? at_offset(c, &at->part[n]) : NULL,
                                           .batch_stride = c->count[n] * stride_of(c),
                                           .row_stride = stride_of(c),
                                           .first = c->first[n],
                                           .rows = c->count[n]};
    }
    at->y = test_buffer_make(dtype, NULL, elements(c, c->rows));
    at->args = (bt_sum_parts_args){.items = at->items,
                                   .item_count = c->parts,
                                   .y = at_offset(c, &at->y),
                                   .y_batch_stride = c->rows * stride_of(c),
                                   .y_row_stride = stride_of(c),
                                   .batch = c->batch,
                                   .rows = c->rows,
                                   .width = c->width,
                                   .dtype = dtype};
    return at;
}

static void drop(const sum_case *c, operands *at)
{
    for (int n = 0; n < c->parts; ++n) {
        free(at->x[n]);
        test_buffer_release(&at->part[n]);
    }
    test_buffer_release(&at->y);
    free(at);
}

static double round_to(bt_dtype dtype, double value)
{
    return dtype == BT_BF16  ? (double)bt_bf16_to_f32(bt_f32_to_bf16((float)value))
           : dtype == BT_F32 ? (double)(float)value
                             : value;
}

static double expected(const sum_case *c, const operands *at, int64_t batch, int64_t row,
                       int64_t col)
{
    double sum = 0;
    bool held = false;
    for (int n = 0; n < c->parts; ++n) {
        const int64_t own = row - c->first[n];
        if (own >= 0 && own < c->count[n]) {
            const double x = at->x[n][c->offset + (batch * c->count[n] + own) * stride_of(c) + col];
            sum = held ? round_to(at->args.dtype == BT_F64 ? BT_F64 : BT_F32, sum + x) : x;
            held = true;
        }
    }
    return round_to(at->args.dtype, sum);
}

static void assert_same(double got, double want, const char *what, int64_t at)
{
    if (!test_same_value(got, want)) {
        fail_msg("%s %lld: %g, expected %g", what, (long long)at, got, want);
    }
}

// Elements between rows and before the first one keep their NaN.
static void compare(const sum_case *c, const operands *at)
{
    double *y = test_doubles(at->y.count);
    test_buffer_read(&at->y, y);
    for (int64_t i = 0; i < at->y.count; ++i) {
        const int64_t place = i - c->offset;
        const int64_t row = place < 0 ? 0 : place / stride_of(c);
        const int64_t col = place < 0 ? c->width : place % stride_of(c);
        const double want =
            col < c->width ? expected(c, at, row / c->rows, row % c->rows, col) : (double)NAN;
        assert_same(y[i], want, bt_dtype_name(at->args.dtype), i);
    }
    free(y);
}

static void check(const sum_case *c)
{
    for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t) {
        operands *at = make(c, types[t]);
        TEST_KERNEL(BT_KERNEL_SUM_PARTS, types[t], &at->args, &at->y);
        compare(c, at);
        drop(c, at);
    }
}

static void equals_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        check(&cases[i]);
    }
}

static void many_parts(void **state)
{
    (void)state;
    static const int counts[] = {64, PARTS};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        sum_case c = {.batch = 2, .rows = 11, .width = 7, .gap = 2, .parts = counts[i]};
        for (int n = 0; n < c.parts; ++n) {
            c.first[n] = n * 5 % 11;
            c.count[n] = n % 7 * (11 - c.first[n]) / 6;
        }
        check(&c);
    }
}

// Every bit, also of a NaN that is not signaling.
static void one_part_is_taken_over(void **state)
{
    (void)state;
    const sum_case one = {2, 5, 33, 0, 0, 1, {0}, {5}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t) {
        operands *at = make(&one, types[t]);
        TEST_KERNEL(BT_KERNEL_SUM_PARTS, types[t], &at->args, &at->y);
        assert_memory_equal(at->y.data, at->part[0].data, at->y.size_bytes);
        drop(&one, at);
    }
}

// Small terms, each lost if added to a large one, show the order of the list.
static void adds_in_the_order_of_the_list(void **state)
{
    (void)state;
    const float small = 0x1p-24F, large[] = {1, -1};
    float y[2] = {0};
    bt_sum_parts_item items[] = {{&small, 1, 1, 0, 1}, {&small, 1, 1, 0, 1}, {large, 1, 1, 0, 1}};
    const bt_sum_parts_args args = {items, 3, y, 1, 1, 1, 1, 1, BT_F32};
    ASSERT_OK(test_kernel_status(BT_KERNEL_SUM_PARTS, BT_F32, &args));
    assert_true(y[0] == 1 + 0x1p-23F);
    items[0].x = large, items[2].x = &small;
    ASSERT_OK(test_kernel_status(BT_KERNEL_SUM_PARTS, BT_F32, &args));
    assert_true(y[0] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definition), cmocka_unit_test(many_parts),
        cmocka_unit_test(one_part_is_taken_over), cmocka_unit_test(adds_in_the_order_of_the_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
