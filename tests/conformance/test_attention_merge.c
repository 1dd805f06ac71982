// Merging partial results of attention on CUDA against the CPU in double: with lse and as plain
// sums, parts that hold some of the queries, rows off alignment, many parts.
#include <math.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

enum { PARTS = 30 }; // each is two twins, of which a test has 64

typedef struct call {
    int64_t batch, heads, tokens, dim;
    int parts;
    int64_t gap, offset; // elements between tokens' rows, and off alignment
} call;

static const call calls[] = {
    {2, 12, 130, 64, 2, 0, 0}, {1, 3, 33, 64, 5, 0, 0}, {1, 2, 40, 128, PARTS, 0, 0},
    {2, 2, 50, 33, 3, 0, 0},   {2, 2, 50, 64, 3, 3, 0}, {2, 2, 50, 64, 3, 0, 1},
    {1, 4, 100, 96, 1, 16, 0}, {1, 1, 1, 1, 2, 0, 0},   {0, 2, 9, 64, 2, 0, 0},
    {1, 2, 0, 64, 2, 0, 0},    {3, 2, 17, 64, 0, 0, 0},
};

static bt_attention_view view_of(const call *c, test_twin *twin, int64_t tokens, test_side side)
{
    const int64_t width = c->heads * c->dim + c->gap;
    return (bt_attention_view){test_at(twin, side), tokens * width, width, c->dim};
}

static int64_t elements(const call *c, int64_t tokens)
{
    return c->batch * tokens * (c->heads * c->dim + c->gap);
}

static void check(const call *c, bt_dtype dtype, bool sum)
{
    static bt_attention_part items[TEST_SIDES][PARTS];
    bt_attention_merge_args args[TEST_SIDES];
    test_case_name("%s of %d parts of %lldx%lldx%lldx%lld %s", sum ? "sum" : "merge", c->parts,
                   (long long)c->batch, (long long)c->heads, (long long)c->tokens,
                   (long long)c->dim, bt_dtype_name(dtype));
    test_twin_offset(c->offset);
    for (int n = 0; n < c->parts; ++n) {
        // Every third part holds all queries, the others some of them.
        const int64_t first = n % 3 ? c->tokens * n / (2 * c->parts) : 0;
        const int64_t tokens = n % 3 ? (c->tokens - first) / 2 : c->tokens;
        test_twin *o = test_twin_random(dtype, elements(c, tokens), 7 * (uint64_t)n, -1, 1);
        test_twin *lse =
            test_twin_random(BT_F32, c->batch * c->heads * tokens, 7 * (uint64_t)n + 1, -9, 9);
        for (test_side side = 0; side < TEST_SIDES; ++side) {
            items[side][n] = (bt_attention_part){.o = view_of(c, o, tokens, side),
                                                 .lse = sum ? NULL : test_at(lse, side),
                                                 .first = first,
                                                 .tokens = tokens};
        }
    }
    test_twin *o = test_twin_inout(dtype, elements(c, c->tokens), 3, -1, 1);
    test_twin *lse = test_twin_output(BT_F32, c->batch * c->heads * c->tokens);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        args[side] = (bt_attention_merge_args){.items = items[side],
                                               .item_count = c->parts,
                                               .o = view_of(c, o, c->tokens, side),
                                               .lse = sum ? NULL : test_at(lse, side),
                                               .batch = c->batch,
                                               .heads = c->heads,
                                               .tokens = c->tokens,
                                               .head_dim = c->dim,
                                               .dtype = test_type(dtype, side)};
    }
    test_run(BT_KERNEL_ATTENTION_MERGE, dtype, &args[0], &args[1]);
    // A weight is good to the rounding of its exponent, of up to 18; values are at most 1 and
    // weights sum up to 1, or to the parts in a plain sum.
    const double bound = (sum ? 2 * c->parts + 2 : 64) * 0x1p-23;
    test_twin_check(o, bound, dtype == BT_BF16 ? 0x1p-8 : 0, "merged");
    if (!sum) {
        test_twin_check(lse, 32 * 0x1p-23, 4 * 0x1p-23, "log-sum-exp");
    }
    test_twins_release();
}

static void agrees_with_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        check(&calls[i], BT_F32, false);
        check(&calls[i], BT_F32, true);
        check(&calls[i], BT_BF16, false);
        check(&calls[i], BT_BF16, true);
    }
}

// One part alone, of zeros of both signs, is taken over bit for bit.
static void keeps_signs_of_zeros(bt_dtype dtype, bool sum, int64_t offset)
{
    enum { TOKENS = 5, DIM = 64 };
    const call c = {1, 1, TOKENS, DIM, 1, 0, offset};
    double zeros[TOKENS * DIM];
    bt_attention_part items[TEST_SIDES];
    bt_attention_merge_args args[TEST_SIDES];
    test_case_name("zeros, %s, %s, offset %lld", sum ? "sum" : "merge", bt_dtype_name(dtype),
                   (long long)offset);
    test_twin_offset(offset);
    for (int i = 0; i < TOKENS * DIM; ++i) {
        zeros[i] = i % 3 ? 0.0 : -0.0;
    }
    test_twin *part = test_twin_values(dtype, zeros, TOKENS * DIM);
    test_twin *part_lse = test_twin_values(BT_F32, zeros, TOKENS);
    test_twin *o = test_twin_output(dtype, TOKENS * DIM), *lse = test_twin_output(BT_F32, TOKENS);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        items[side] = (bt_attention_part){.o = view_of(&c, part, TOKENS, side),
                                          .lse = sum ? NULL : test_at(part_lse, side),
                                          .tokens = TOKENS};
        args[side] = (bt_attention_merge_args){.items = &items[side],
                                               .item_count = 1,
                                               .o = view_of(&c, o, TOKENS, side),
                                               .lse = sum ? NULL : test_at(lse, side),
                                               .batch = 1,
                                               .heads = 1,
                                               .tokens = TOKENS,
                                               .head_dim = DIM,
                                               .dtype = test_type(dtype, side)};
    }
    test_run(BT_KERNEL_ATTENTION_MERGE, dtype, &args[0], &args[1]);
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        for (int i = 0; i < TOKENS * DIM; ++i) {
            assert_int_equal(signbit(test_twin_get(o, side, i)) != 0, i % 3 == 0);
        }
        for (int i = 0; i < TOKENS && !sum; ++i) {
            assert_int_equal(signbit(test_twin_get(lse, side, i)) != 0, i % 3 == 0);
        }
    }
    test_twins_release();
}

static void one_part_keeps_signs_of_zeros(void **state)
{
    (void)state;
    for (int64_t offset = 0; offset < 2; ++offset) {
        keeps_signs_of_zeros(BT_F32, false, offset);
        keeps_signs_of_zeros(BT_F32, true, offset);
        keeps_signs_of_zeros(BT_BF16, false, offset);
        keeps_signs_of_zeros(BT_BF16, true, offset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_cpu),
                                       cmocka_unit_test(one_part_keeps_signs_of_zeros)};
    if (!test_device_open()) {
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
