// tests/conformance/test_products.c - generated products on a GPU against the CPU in double
//
//   conformance_products_test            compares
//   conformance_products_test sm_90      compiles the cases into the code cache, without a GPU
// Every layout, sizes from 1 up, rows that are not aligned, batches, alpha, a bias and an addend,
// in bf16 and tf32. Without a compiler the code must be in the cache.
#include <math.h>
#include <stdio.h>

#include "framework/compiler/run.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

typedef struct product_case {
    int64_t m, n, k, batch;
    int64_t pad; // elements after each row of A and B
    bool adds;   // alpha 0.5, a bias and C
} product_case;

static const product_case cases[] = {
    {1, 2, 1, 1, 0, false},      {16, 8, 16, 1, 0, false},   {32, 32, 64, 1, 0, true},
    {33, 31, 65, 1, 0, true},    {64, 64, 64, 5, 0, true},   {7, 129, 3, 2, 1, true},
    {100, 50, 200, 3, 4, false}, {65, 66, 67, 1, 0, true},   {256, 256, 64, 24, 0, true},
    {257, 130, 71, 30, 0, true}, {40, 800, 512, 1, 8, true}, {313, 315, 317, 1, 0, true}};
enum { CASES = sizeof cases / sizeof *cases, LAYOUTS = 4 };

enum { A, B, BIAS, C, D, FIELDS };
static const char *const names[FIELDS] = {"a", "b", "bias", "c", "d"};

static bool is_read(const product_case *c, int field)
{
    return field < BIAS || (field < D && c->adds);
}

static bt_gemm_args args_of(const product_case *c, int layout, bt_dtype dtype)
{
    const bool trans_a = layout & 1, trans_b = layout & 2;
    const int64_t a_cols = trans_a ? c->m : c->k, b_cols = trans_b ? c->k : c->n;
    return (bt_gemm_args){.m = c->m,
                          .n = c->n,
                          .k = c->k,
                          .trans_a = trans_a,
                          .trans_b = trans_b,
                          .lda = a_cols + c->pad,
                          .ldb = b_cols + c->pad,
                          .ldc = c->n,
                          .ldd = c->n,
                          .batch = c->batch,
                          .stride_a = (trans_a ? c->k : c->m) * (a_cols + c->pad),
                          .stride_b = (trans_b ? c->n : c->k) * (b_cols + c->pad),
                          .stride_c = c->m * c->n,
                          .stride_d = c->m * c->n,
                          .alpha = c->adds ? 0.5 : 1,
                          .beta = c->adds ? 1 : 0,
                          .epilogue = c->adds ? BT_EPILOGUE_BIAS : BT_EPILOGUE_NONE,
                          .ab_dtype = dtype,
                          .d_dtype = dtype,
                          .compute = dtype == BT_F32 ? BT_COMPUTE_TF32 : BT_COMPUTE_NATIVE};
}

static void counts_of(const bt_gemm_args *args, int64_t *counts)
{
    counts[A] = args->batch * args->stride_a;
    counts[B] = args->batch * args->stride_b;
    counts[BIAS] = args->n;
    counts[C] = counts[D] = args->batch * args->m * args->n;
}

// ---- the generated row --------------------------------------------------------------------------

static bt_fused group;
static int field_of[BT_FUSED_OPERANDS_MOST]; // of the group's operands
static bt_compiled *compiled;

static bt_status launch(const bt_launch *to, const void *given)
{
    const bt_gemm_args *args = given;
    void *at[BT_FUSED_OPERANDS_MOST];
    const void *pointers[FIELDS] = {args->a, args->b, args->bias, args->c, args->d};
    for (int i = 0; i < group.operand_count; ++i) {
        memcpy(&at[i], &pointers[field_of[i]], sizeof at[i]);
    }
    return bt_compiled_run(compiled, to->stream, group.shape[0], at, NULL);
}

static void make_group(const product_case *c, const bt_gemm_args *args)
{
    const bt_fuse_options options = {.any_order = true, .products = true};
    const int node = 0;
    const char *why = NULL;
    bt_dag_binding bindings[FIELDS];
    int64_t counts[FIELDS];
    int values[FIELDS], results[FIELDS], count = 0;
    bt_dag graph = {0};
    counts_of(args, counts);
    for (int i = 0; i < FIELDS; ++i) {
        values[i] = -1;
        if (is_read(c, i)) {
            ASSERT_OK(bt_dag_input(&graph, args->ab_dtype, counts[i], names[i], &values[i]));
        }
        if (is_read(c, i) || i == D) {
            bindings[count++] = (bt_dag_binding){.field = names[i], .value = values[i]};
        }
    }
    ASSERT_OK(bt_dag_call(&graph, BT_KERNEL_GEMM, args, bindings, count, results));
    values[D] = results[count - 1];
    ASSERT_OK(bt_dag_output(&graph, values[D]));
    bt_fused_of_nodes(&graph, &options, &node, 1, &group, &why);
    if (why) {
        fail_msg("no group: %s", why);
    }
    for (int i = 0; i < group.operand_count; ++i) {
        for (int f = 0; f < FIELDS; ++f) {
            field_of[i] = values[f] == group.operands[i].value ? f : field_of[i];
        }
    }
    bt_dag_release(&graph);
}

// ---- comparing ----------------------------------------------------------------------------------

static void compare(const product_case *c, const bt_gemm_args *args)
{
    const bt_kernel row = {.op = BT_KERNEL_GEMM,
                           .device = BT_DEVICE_CUDA,
                           .dtype = args->ab_dtype,
                           .name = "generated",
                           .launch = launch};
    const bool tf32 = args->compute == BT_COMPUTE_TF32;
    int64_t counts[FIELDS];
    test_twin *twins[FIELDS] = {NULL};
    bt_gemm_args sides[TEST_SIDES];
    counts_of(args, counts);
    for (int i = 0; i < FIELDS; ++i) {
        if (i == D) {
            twins[i] = test_twin_output(args->d_dtype, counts[i]);
        } else if (is_read(c, i)) {
            twins[i] = test_twin_random(args->ab_dtype, counts[i], (uint64_t)i + 3, -1, 1);
        }
    }
    for (test_side side = 0; side < TEST_SIDES; ++side) {
        sides[side] = *args;
        sides[side].a = test_at(twins[A], side);
        sides[side].b = test_at(twins[B], side);
        sides[side].bias = test_at(twins[BIAS], side);
        sides[side].c = test_at(twins[C], side);
        sides[side].d = test_at(twins[D], side);
        sides[side].ab_dtype = sides[side].d_dtype = test_type(args->ab_dtype, side);
    }
    sides[TEST_HOST].compute = BT_COMPUTE_NATIVE;
    test_run_row(&row, &sides[TEST_HOST], &sides[TEST_NEAR]);
    // Terms below 1: sums in f32 lose at most k roundings of a sum below k; tf32 rounds operands by
    // 2^-11 of their size, errors of which a random walk keeps the sum below 6 sqrt(k).
    const double k = (double)args->k;
    const double sum = 2 * (k + 2) * 0x1p-24 * (1 + sqrt(k)),
                 rounded = tf32 ? 6 * sqrt(k) * 0x1p-10 : 0;
    test_twin_check(twins[D], sum + rounded, bt_dtype_epsilon(args->d_dtype), "product");
    test_twins_release();
}

static bt_code_cache cache;

static void each_case(bt_status (*make)(const void *with), const void *with, bool runs)
{
    for (int i = 0; i < CASES * LAYOUTS * 2; ++i) {
        const product_case *c = &cases[i / 2 / LAYOUTS];
        const bt_gemm_args args = args_of(c, i / 2 % LAYOUTS, i % 2 ? BT_F32 : BT_BF16);
        test_case_name("%s %dx%dx%d batch %d, layout %d", bt_dtype_name(args.ab_dtype), (int)c->m,
                       (int)c->n, (int)c->k, (int)c->batch, i / 2 % LAYOUTS);
        make_group(c, &args);
        const bt_status status = make(with);
        if (status == BT_STATUS_UNAVAILABLE) {
            print_message("skipped: %s\n", bt_error_message());
            skip();
        }
        ASSERT_OK(status);
        if (runs) {
            compare(c, &args);
            bt_compiled_release(compiled);
        }
    }
}

static bt_status make_code(const void *with)
{
    return bt_compile_for(with, &group, &cache, &compiled);
}

static bt_status make_ahead(const void *with) { return bt_compile_ahead(with, &group, &cache); }

static void test_products(void **state)
{
    (void)state;
    ASSERT_OK(bt_code_cache_from_environment(&cache));
    each_case(make_code, test_device(), true);
    bt_code_cache_close(&cache);
}

static const char *target_name;

static void test_ahead(void **state)
{
    bt_target target;
    (void)state;
    ASSERT_OK(bt_target_parse(target_name, &target));
    ASSERT_OK(bt_code_cache_from_environment(&cache));
    each_case(make_ahead, &target, false);
    bt_code_cache_close(&cache);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    const struct CMUnitTest ahead[] = {cmocka_unit_test(test_ahead)};
    target_name = count > 1 ? arguments[1] : NULL;
    if (target_name) {
        return cmocka_run_group_tests(ahead, NULL, NULL);
    }
    if (!test_device_open()) {
        return test_skip("no CUDA device");
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close();
    return failed;
}
