// tests/unit/test_attention_merge.c - partial results of attention become the whole, on the CPU
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"

enum { PARTS = 4 };

typedef struct merge_case {
    int64_t batch, heads, tokens, dim;
    int64_t first[PARTS], count[PARTS]; // of the parts; a count of -1: no part
    bool sum;                           // plain, without lse
} merge_case;

static const merge_case cases[] = {
    {1, 1, 1, 1, {0, 0}, {1, 1, -1, -1}, false},
    {2, 3, 7, 5, {0, 3, 0, 2}, {7, 4, 3, 1}, false},
    {2, 3, 7, 5, {0, 3, 0, 2}, {7, 4, 3, 1}, true},
    {1, 2, 9, 130, {1, 4, 8}, {3, 4, 0, -1}, false}, // queries that no part holds
    {1, 2, 9, 130, {1, 4, 8}, {3, 4, 0, -1}, true},
    {3, 1, 4, 64, {0}, {4, -1, -1, -1}, false}, // one part alone
    {1, 2, 3, 4, {0}, {-1, -1, -1, -1}, false},
    {0, 2, 3, 4, {0}, {3, -1, -1, -1}, false},
};

typedef struct operands {
    int parts;
    double *o[PARTS], *lse[PARTS]; // [batch, count, heads, dim], [batch, heads, count]
    test_buffer part[PARTS], part_lse[PARTS], out, out_lse;
    bt_attention_part items[PARTS];
} operands;

static bt_attention_view view_of(const merge_case *c, const test_buffer *buffer, int64_t tokens)
{
    return (bt_attention_view){buffer->data, tokens * c->heads * c->dim, c->heads * c->dim, c->dim};
}

static bt_dtype wide(bt_dtype dtype) { return dtype == BT_F64 ? BT_F64 : BT_F32; }

static operands make(const merge_case *c, bt_dtype dtype)
{
    operands at = {.parts = 0};
    for (int n = 0; n < PARTS && c->count[n] >= 0; ++n) {
        const int64_t rows = c->batch * c->heads * c->count[n];
        at.o[n] = test_doubles(rows * c->dim);
        at.lse[n] = test_doubles(rows);
        test_random(at.o[n], rows * c->dim, (uint64_t)n + 1, -2, 2);
        test_random(at.lse[n], rows, (uint64_t)n + 9, -30, 30);
        at.part[n] = test_buffer_make(dtype, at.o[n], rows * c->dim);
        test_buffer_read(&at.part[n], at.o[n]); // as rounded
        at.part_lse[n] = test_buffer_make(wide(dtype), at.lse[n], rows);
        at.items[n] = (bt_attention_part){.o = view_of(c, &at.part[n], c->count[n]),
                                          .lse = c->sum ? NULL : at.part_lse[n].data,
                                          .first = c->first[n],
                                          .tokens = c->count[n]};
        at.parts = n + 1;
    }
    at.out = test_buffer_make(dtype, NULL, c->batch * c->heads * c->tokens * c->dim);
    at.out_lse = test_buffer_make(wide(dtype), NULL, c->batch * c->heads * c->tokens);
    return at;
}

static void drop(operands *at)
{
    for (int n = 0; n < at->parts; ++n) {
        free(at->o[n]);
        free(at->lse[n]);
        test_buffer_release(&at->part[n]);
        test_buffer_release(&at->part_lse[n]);
    }
    test_buffer_release(&at->out);
    test_buffer_release(&at->out_lse);
}

static void run(const merge_case *c, bt_dtype dtype, operands *at)
{
    const bt_attention_merge_args args = {.items = at->items,
                                          .item_count = at->parts,
                                          .o = view_of(c, &at->out, c->tokens),
                                          .lse = c->sum ? NULL : at->out_lse.data,
                                          .batch = c->batch,
                                          .heads = c->heads,
                                          .tokens = c->tokens,
                                          .head_dim = c->dim,
                                          .dtype = dtype};
    if (c->sum) {
        TEST_KERNEL(BT_KERNEL_ATTENTION_MERGE, dtype, &args, &at->out);
    } else {
        TEST_KERNEL(BT_KERNEL_ATTENTION_MERGE, dtype, &args, &at->out, &at->out_lse);
    }
}

// By the definition, in double.
static double expected_lse(const merge_case *c, const operands *at, int64_t pair, int64_t query)
{
    double total = 0;
    for (int n = 0; n < at->parts; ++n) {
        const int64_t i = query - c->first[n];
        total += i >= 0 && i < c->count[n] ? exp(at->lse[n][pair * c->count[n] + i]) : 0;
    }
    return log(total);
}

static double expected_o(const merge_case *c, const operands *at, int64_t pair, int64_t query,
                         int64_t col, double lse, double *magnitude)
{
    const int64_t batch = pair / c->heads, head = pair % c->heads;
    double sum = 0;
    *magnitude = 0;
    for (int n = 0; n < at->parts; ++n) {
        const int64_t i = query - c->first[n];
        if (i >= 0 && i < c->count[n]) {
            const double o = at->o[n][((batch * c->count[n] + i) * c->heads + head) * c->dim + col];
            const double weight = c->sum ? 1 : exp(at->lse[n][pair * c->count[n] + i] - lse);
            sum += weight * o;
            *magnitude += weight * fabs(o);
        }
    }
    return sum;
}

// lse comes from exp and log of values up to 30: their error is that of the exponent, 30 epsilon;
// a weight has it too. Each of up to PARTS terms is rounded twice more, the result once in dtype.
static void compare(const merge_case *c, bt_dtype dtype, const operands *at)
{
    const double epsilon = dtype == BT_F64 ? 0x1p-52 : 0x1p-23;
    const double stored = dtype == BT_BF16 ? 0x1p-8 : epsilon;
    double *o = test_doubles(at->out.count), *lse = test_doubles(at->out_lse.count);
    test_buffer_read(&at->out, o);
    test_buffer_read(&at->out_lse, lse);
    for (int64_t row = 0; row < c->batch * c->heads * c->tokens; ++row) {
        const int64_t pair = row / c->tokens, query = row % c->tokens;
        const double whole = expected_lse(c, at, pair, query);
        if (!c->sum && !(fabs(lse[row] - whole) <= 64 * epsilon) && !(lse[row] <= whole)) {
            fail_msg("lse %lld: %g, expected %g", (long long)row, lse[row], whole);
        }
        for (int64_t d = 0; d < c->dim; ++d) {
            double magnitude = 0;
            const double want = expected_o(c, at, pair, query, d, whole, &magnitude);
            const int64_t place =
                ((pair / c->heads * c->tokens + query) * c->heads + pair % c->heads) * c->dim + d;
            if (!(fabs(o[place] - want) <= (64 * epsilon + stored) * magnitude)) {
                fail_msg("element %lld of row %lld: %g, expected %g", (long long)d, (long long)row,
                         o[place], want);
            }
        }
    }
    free(o);
    free(lse);
}

static void equals_the_definition(void **state)
{
    (void)state;
    static const bt_dtype types[] = {BT_F32, BT_F64, BT_BF16};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; ++t) {
            operands at = make(&cases[i], types[t]);
            run(&cases[i], types[t], &at);
            compare(&cases[i], types[t], &at);
            drop(&at);
        }
    }
}

static void one_part_is_taken_over(void **state)
{
    (void)state;
    const merge_case one = {2, 2, 5, 6, {0}, {5, -1, -1, -1}, false};
    operands at = make(&one, BT_F32);
    run(&one, BT_F32, &at);
    assert_memory_equal(at.out.data, at.part[0].data, at.out.size_bytes);
    assert_memory_equal(at.out_lse.data, at.part_lse[0].data, at.out_lse.size_bytes);
    drop(&at);
}

static void fill(test_buffer *buffer, const double *values)
{
    test_buffer given = test_buffer_make(buffer->dtype, values, buffer->count);
    memcpy(buffer->data, given.data, buffer->size_bytes);
    test_buffer_release(&given);
}

// Also a zero's sign, in each type, with and without lse; an element that no part holds is +0.
static void one_part_keeps_signs_of_zeros(void **state)
{
    (void)state;
    static const bt_dtype types[] = {BT_F32, BT_F64, BT_BF16};
    for (size_t t = 0; t < 3; ++t) {
        for (int sum = 0; sum < 2; ++sum) {
            const merge_case one = {1, 1, 3, 2, {0}, {2, -1, -1, -1}, sum == 1};
            operands at = make(&one, types[t]);
            const size_t row_bytes = at.out.size_bytes / 3;
            for (int i = 0; i < 4; ++i) {
                at.o[0][i] = i % 2 ? 0.0 : -0.0;
                at.lse[0][i / 2] = i / 2 ? 0.0 : -0.0;
            }
            fill(&at.part[0], at.o[0]);
            fill(&at.part_lse[0], at.lse[0]);
            run(&one, types[t], &at);
            assert_memory_equal(at.out.data, at.part[0].data, 2 * row_bytes);
            const double zeros[2] = {0};
            assert_memory_equal((const char *)at.out.data + 2 * row_bytes, zeros, row_bytes);
            if (!sum) {
                assert_memory_equal(at.out_lse.data, at.part_lse[0].data,
                                    at.part_lse[0].size_bytes);
            }
            drop(&at);
        }
    }
}

// A part without a visible key counts nothing; where no part has one, o is 0; a NaN stays.
static void parts_without_keys(void **state)
{
    (void)state;
    const float low = -INFINITY;
    float o[3][2] = {{0, 0}, {3, -4}, {NAN, NAN}}, lse[3] = {low, 2, low}, out[2], whole;
    bt_attention_part items[3];
    for (int n = 0; n < 3; ++n) {
        items[n] = (bt_attention_part){{o[n], 2, 2, 2}, &lse[n], 0, 1};
    }
    bt_attention_merge_args args = {.items = items,
                                    .item_count = 2,
                                    .o = {out, 2, 2, 2},
                                    .lse = &whole,
                                    .batch = 1,
                                    .heads = 1,
                                    .tokens = 1,
                                    .head_dim = 2,
                                    .dtype = BT_F32};
    ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION_MERGE, BT_F32, &args));
    assert_memory_equal(out, o[1], sizeof out);
    assert_memory_equal(&whole, &lse[1], sizeof whole);
    args.item_count = 1;
    ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION_MERGE, BT_F32, &args));
    assert_memory_equal(out, o[0], sizeof out);
    assert_memory_equal(&whole, &low, sizeof whole);
    args.item_count = 3;
    ASSERT_OK(test_kernel_status(BT_KERNEL_ATTENTION_MERGE, BT_F32, &args));
    assert_true(isnan(out[0]) && isnan(out[1]));
    assert_memory_equal(&whole, &lse[1], sizeof whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definition), cmocka_unit_test(one_part_is_taken_over),
        cmocka_unit_test(one_part_keeps_signs_of_zeros), cmocka_unit_test(parts_without_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
