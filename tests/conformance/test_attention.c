// Attention on CUDA against the CPU in double: packed and flat operands, causal and not, token
// counts around the tiles of every kernel, head sizes that fill a bucket or do not, few heads
// (dealt out to several blocks) and many, large scores, NaN, and calls that no kernel takes.
#include <math.h>
#include <stdlib.h>

#include "tests/support/kernel.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

static const struct precision {
    const char *name;
    bt_dtype dtype;
    bt_compute compute;
    double roundoff; // of the products' operands
} precisions[] = {
    {"bf16", BT_BF16, BT_COMPUTE_NATIVE, 0x1p-8},
    {"tf32", BT_F32, BT_COMPUTE_TF32, 0x1p-11},
    {"f32", BT_F32, BT_COMPUTE_NATIVE, 0x1p-24},
};

enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

// batch, heads, tokens, head size
static const int64_t shapes[][4] = {{0, 2, 5, 64},   {1, 1, 1, 64},   {2, 3, 7, 64},
                                    {1, 2, 64, 64},  {1, 2, 65, 32},  {2, 1, 129, 64},
                                    {1, 3, 200, 40}, {1, 2, 131, 96}, {1, 2, 150, 128},
                                    {1, 2, 321, 64}, {9, 16, 140, 64}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct problem {
    const struct precision *precision;
    int64_t batch, heads, tokens, dim;
    bool causal, packed;
    double spread; // of the inputs
} problem;

static int64_t count_of(const problem *p) { return p->batch * p->heads * p->tokens * p->dim; }

// Operand `part` of a twin that holds `parts` of them, side by side in each token if packed, else
// one after the other.
static bt_attention_view view_of(const problem *p, const test_twin *twin, int part, int parts,
                                 test_side side)
{
    int64_t width = p->heads * p->dim;
    bool packed = p->packed && parts > 1;
    int64_t token_stride = packed ? parts * width : width;
    int64_t offset = part * (packed ? width : count_of(p));
    char *base = test_at(twin, side);
    size_t size = bt_dtype_size(test_type(p->precision->dtype, side));
    return (bt_attention_view){base + (size_t)offset * size, p->tokens * token_stride, token_stride,
                               p->dim};
}

static bt_attention_args forward_args(const problem *p, test_twin *qkv, test_twin *o,
                                      test_twin *lse, test_side side)
{
    return (bt_attention_args){.q = view_of(p, qkv, 0, 3, side),
                               .k = view_of(p, qkv, 1, 3, side),
                               .v = view_of(p, qkv, 2, 3, side),
                               .o = view_of(p, o, 0, 1, side),
                               .lse = test_at(lse, side),
                               .batch = p->batch,
                               .heads = p->heads,
                               .tokens = p->tokens,
                               .head_dim = p->dim,
                               .scale = 1 / sqrt((double)p->dim),
                               .causal = p->causal,
                               .compute =
                                   side == TEST_HOST ? BT_COMPUTE_NATIVE : p->precision->compute,
                               .dtype = test_type(p->precision->dtype, side)};
}

static bt_attention_backward_args backward_args(const problem *p, test_twin *qkv, test_twin *o,
                                                test_twin *d_o, test_twin *lse, test_twin *dqkv,
                                                test_side side)
{
    bt_attention_args f = forward_args(p, qkv, o, lse, side);
    return (bt_attention_backward_args){.q = f.q,
                                        .k = f.k,
                                        .v = f.v,
                                        .o = f.o,
                                        .d_o = view_of(p, d_o, 0, 1, side),
                                        .lse = f.lse,
                                        .dq = view_of(p, dqkv, 0, 3, side),
                                        .dk = view_of(p, dqkv, 1, 3, side),
                                        .dv = view_of(p, dqkv, 2, 3, side),
                                        .batch = f.batch,
                                        .heads = f.heads,
                                        .tokens = f.tokens,
                                        .head_dim = f.head_dim,
                                        .scale = f.scale,
                                        .causal = f.causal,
                                        .compute = f.compute,
                                        .dtype = f.dtype};
}

// What a sum of terms of size `bound` may be off by: the roundings of its operands, and those of
// fp32 in the score, in exp2 (4 units) and along the sum, whose errors add up like a random walk.
static double tolerance(const problem *p, double bound)
{
    double steps = 16 + sqrt((double)p->dim) + sqrt((double)p->tokens);
    return bound * (4 * p->precision->roundoff + steps * 0x1p-23);
}

static void name_case(const problem *p, const char *what)
{
    test_case_name("%s %s [%d, %d, %d, %d] %s %s", p->precision->name, what, (int)p->batch,
                   (int)p->heads, (int)p->tokens, (int)p->dim, p->causal ? "causal" : "full",
                   p->packed ? "packed" : "flat");
}

// The values that the host found, as an input that both sides see alike.
static test_twin *as_input(const test_twin *twin, bt_dtype dtype)
{
    double *values = test_doubles(twin->count);
    for (int64_t i = 0; i < twin->count; ++i) {
        values[i] = test_twin_get(twin, TEST_HOST, i);
    }
    test_twin *input = test_twin_values(dtype, values, twin->count);
    free(values);
    return input;
}

static void check_case(const problem *p)
{
    bt_dtype dtype = p->precision->dtype;
    int64_t count = count_of(p);
    bool steep = p->spread > 1;
    test_twin *qkv = test_twin_random(dtype, 3 * count, 11, -p->spread, p->spread);
    test_twin *o = test_twin_output(dtype, count);
    test_twin *lse = test_twin_output(BT_F32, p->batch * p->heads * p->tokens);
    bt_attention_args forward[TEST_SIDES] = {forward_args(p, qkv, o, lse, TEST_HOST),
                                             forward_args(p, qkv, o, lse, TEST_NEAR)};
    name_case(p, "forward");
    test_run(BT_KERNEL_ATTENTION, dtype, &forward[0], &forward[1]);
    if (steep) {
        // fp32 sums leave some 1e-2 in exponents of 1e4, so weights are off by 1 %; operands
        // rounded to tf32 change the scores themselves, and all that is asked is that nothing
        // overflows.
        bool exact = p->precision->compute != BT_COMPUTE_TF32;
        for (int64_t i = 0; i < count; ++i) {
            double expected = exact ? test_twin_get(o, TEST_HOST, i) : 0;
            double limit = p->spread * (exact ? 0.05 : 1.01);
            assert_true(fabs(test_twin_get(o, TEST_NEAR, i) - expected) <= limit);
        }
        return;
    }
    test_twin_check(o, tolerance(p, 1), bt_dtype_epsilon(dtype), "o");
    test_twin_check(lse, tolerance(p, 1), 0x1p-22, "lse");

    test_twin *d_o = test_twin_random(dtype, count, 12, -1, 1);
    test_twin *dqkv = test_twin_output(dtype, 3 * count);
    test_twin *seen_o = as_input(o, dtype);
    test_twin *seen_lse = as_input(lse, BT_F32);
    bt_attention_backward_args backward[TEST_SIDES];
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        backward[side] = backward_args(p, qkv, seen_o, d_o, seen_lse, dqkv, side);
    }
    name_case(p, "backward");
    test_run(BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward[0], &backward[1]);
    // dk and dv of an early key sum over all queries, with weights that add up to about log(T).
    test_twin_check(dqkv, tolerance(p, 4), bt_dtype_epsilon(dtype), "dqkv");
}

static void against_the_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS * SHAPES * 4; ++i) {
        const int64_t *shape = shapes[i / 4 % SHAPES];
        problem p = {&precisions[i / 4 / SHAPES],
                     shape[0],
                     shape[1],
                     shape[2],
                     shape[3],
                     (i & 1) != 0,
                     (i & 2) != 0,
                     1};
        check_case(&p);
        test_twins_release();
    }
}

static void large_scores(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        problem p = {&precisions[i], 1, 2, 150, 64, true, true, 100};
        check_case(&p); // scores up to 1e5 / 8
        test_twins_release();
    }
}

// A NaN in a query reaches its own row and no other.
static void nan_in_a_query(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        problem p = {&precisions[i], 1, 2, 150, 64, true, false, 1};
        bt_dtype dtype = p.precision->dtype;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 13, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.batch * p.heads * p.tokens);
        test_twin_set(qkv, 70 * p.heads * p.dim + 3, (double)NAN);
        bt_attention_args args[TEST_SIDES] = {forward_args(&p, qkv, o, lse, TEST_HOST),
                                              forward_args(&p, qkv, o, lse, TEST_NEAR)};
        name_case(&p, "NaN");
        test_run(BT_KERNEL_ATTENTION, dtype, &args[0], &args[1]);
        test_twin_check(o, tolerance(&p, 1), bt_dtype_epsilon(dtype), "o");
        test_twins_release();
    }
}

static void refuse(const bt_attention_args *args)
{
    const bt_kernel *row = NULL;
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, "attention",
                 bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, args->dtype, args, &row));
}

static void refuses_what_it_cannot(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; ++i) {
        problem p = {&precisions[i], 1, 2, 16, 64, true, true, 1};
        bt_dtype dtype = p.precision->dtype;
        test_twin *qkv = test_twin_random(dtype, 3 * count_of(&p), 14, -1, 1);
        test_twin *o = test_twin_output(dtype, count_of(&p));
        test_twin *lse = test_twin_output(BT_F32, p.heads * p.tokens);
        const bt_attention_args good = forward_args(&p, qkv, o, lse, TEST_NEAR);
        const bt_kernel *row = NULL;
        ASSERT_OK(bt_kernel_find(test_device(), BT_KERNEL_ATTENTION, dtype, &good, &row));
        bt_attention_args bad = good;
        bad.head_dim = 12;
        refuse(&bad);
        bad.head_dim = 136;
        refuse(&bad);
        bad = good;
        bad.scale = 0;
        refuse(&bad);
        bad.scale = (double)NAN;
        refuse(&bad);
        bad = good;
        bad.q.base = (char *)bad.q.base + bt_dtype_size(dtype);
        refuse(&bad);
        bad = good;
        bad.k.token_stride += 1;
        refuse(&bad);

        test_twin *dqkv = test_twin_output(dtype, 3 * count_of(&p));
        bt_attention_backward_args backward = backward_args(&p, qkv, o, o, lse, dqkv, TEST_NEAR);
        ASSERT_OK(
            bt_kernel_find(test_device(), BT_KERNEL_ATTENTION_BACKWARD, dtype, &backward, &row));
        assert_true(row->workspace(test_device(), &backward) > 0);
        bt_launch launch = {.device = test_device()};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "workspace", row->launch(&launch, &backward));
        test_twins_release();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_cpu),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(nan_in_a_query),
        cmocka_unit_test(refuses_what_it_cannot),
    };
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
