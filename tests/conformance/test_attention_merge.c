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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_cpu)};
    if (!test_device_open()) {
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
