// tests/unit/test_compiler_fuse.c - fused groups, interpreted, against the calls they replace
//
//   unit_compiler_fuse_test [graphs [first seed]]
// Random graphs keep the bits of their outputs where each reduction has an order; with column sums
// and generated products they stay within rounding, also where groups are formed as for a step on
// CUDA. A failure prints the smallest graph that still fails.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/capture.h"
#include "framework/compiler/form.h"
#include "framework/compiler/step.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

static int64_t graph_count = TEST_SANITIZED ? 250 : 1000;
static uint64_t first_seed = 1;

static const unsigned ordered =
    1U << BT_FUSED_ELEMENTWISE | 1U << BT_FUSED_ROW | 1U << BT_FUSED_PRODUCT;

static int generated_count;

typedef struct checker {
    fixture f;
    unsigned kinds;
    bool simplify, products;
    bool cuda; // groups are formed as for a step on CUDA
    int groups[BT_FUSED_KIND_COUNT];
    int64_t before, after; // bytes
    bool generate;         // run by generated kernels
    bool spoil;            // the checker's own test
} checker;

static bt_status spoilt(void *self, bt_context *context, const bt_fused *group, void *const *at)
{
    bt_fused wrong = *group;
    (void)self;
    for (int i = 0; i < wrong.code_count; ++i) {
        if (wrong.code[i].op == BT_FUSED_ROW_SUM) { // another order of summation
            wrong.code[i].op = BT_FUSED_ROW_MAX;
        }
    }
    return bt_fused_interpret(NULL, context, &wrong, at);
}

// By a generated kernel; a group that the emitter does not take is interpreted.
static bt_status generated(void *self, bt_context *context, const bt_fused *group, void *const *at)
{
    bt_compiled *compiled = NULL;
    bt_status status = bt_compile(group, NULL, &compiled);
    (void)self;
    if (status == BT_STATUS_UNSUPPORTED) {
        return bt_fused_interpret(NULL, context, group, at);
    }
    BT_TRY(status);
    status = bt_compiled_run(compiled, NULL, group->shape[0], at, NULL);
    bt_compiled_release(compiled);
    ++generated_count;
    return status;
}

static size_t run(checker *c, const bt_dag *graph, const bt_fusion_plan *plan, unsigned char **out)
{
    random_dag_plan = plan;
    random_dag_launch = c->spoil ? spoilt : c->generate ? generated : bt_fused_interpret;
    const size_t bytes = random_dag_run(&c->f, graph, out);
    random_dag_plan = NULL;
    return bytes;
}

static double element(bt_dtype dtype, const unsigned char *at)
{
    double wide = 0;
    float narrow = 0;
    uint16_t half = 0;
    if (dtype == BT_F64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (dtype == BT_BF16) {
        memcpy(&half, at, sizeof half);
        return (double)bt_bf16_to_f32(half);
    }
    memcpy(&narrow, at, sizeof narrow);
    return (double)narrow;
}

// Outputs are the same bits; with sums in another order they are close, element by element.
static bool agree(const checker *c, const bt_dag *graph, const unsigned char *a,
                  const unsigned char *b)
{
    bool same = true;
    for (int i = 0; i < graph->value_count; ++i) {
        const bt_dag_value *value = &graph->values[i];
        for (int64_t k = 0; value->is_output && k < bt_dag_value_count(value); ++k) {
            const size_t size = bt_dtype_size(value->dtype);
            const double x = element(value->dtype, a), y = element(value->dtype, b);
            const double error = fabs(x - y);
            const bool close = error <= 1e-4 * (1 + fabs(x)) || (isnan(x) && isnan(y));
            same = same && (c->kinds != 0 ? memcmp(a, b, size) == 0 : close);
            a += size, b += size;
        }
    }
    return same;
}

// Forms groups as for a step on CUDA, whose second half is its backward. Each has code, unless it
// needs a function of f64.
static void form_for_cuda(bt_dag *graph, bt_fusion_plan *plan)
{
    const bt_fuse_options options = bt_compiled_step_options(BT_TARGET_CUDA);
    bt_formed formed;
    for (int i = graph->node_count / 2; i < graph->node_count; ++i) {
        graph->nodes[i].phase = BT_DAG_BACKWARD;
    }
    ASSERT_OK(bt_dag_form(graph, NULL, &options, plan, &formed));
    ASSERT_OK(bt_dag_check(graph));
    for (int i = 0; i < plan->count; ++i) {
        bt_emitted_cuda emitted;
        const bt_status status = bt_emit_cuda(plan->groups[i].group, NULL, true, &emitted);
        bt_str_release(&emitted.text);
        if (status) {
            assert_int_equal(status, BT_STATUS_UNSUPPORTED);
            assert_non_null(strstr(bt_error_message(), "of f64 for CUDA"));
            bt_error_clear();
        }
    }
}

static bool differs(void *self, const bt_dag *given)
{
    checker *c = self;
    unsigned char *expected = NULL, *got = NULL;
    bt_dag graph;
    bt_dag_simplified report;
    bt_fusion_plan plan;
    ASSERT_OK(bt_dag_copy(given, &graph));
    if (c->simplify) {
        ASSERT_OK(bt_dag_simplify(&graph, &report));
    }
    if (c->cuda) {
        form_for_cuda(&graph, &plan);
    } else {
        const bt_fuse_options options = {.kinds = c->kinds, .products = c->products};
        ASSERT_OK(bt_dag_fuse(&graph, &options, &plan));
    }
    for (int i = 0; i < plan.count; ++i) {
        ASSERT_OK(bt_fused_check(plan.groups[i].group));
        c->groups[plan.groups[i].group->kind] += 1;
        c->before += plan.groups[i].bytes_before;
        c->after += plan.groups[i].bytes_after;
    }
    const size_t bytes = run(c, given, NULL, &expected);
    assert_int_equal(run(c, &graph, &plan, &got), bytes);
    const bool same = agree(c, given, expected, got);
    free(expected);
    free(got);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&graph);
    return !same;
}

static void check_random(checker *c)
{
    fixture_open(&c->f, 0);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(c, &g)) {
            random_dag_shrink(differs, c, &g);
            random_dag_show("fused groups make other bits", seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    fixture_close(&c->f);
    assert_true(c->after < c->before * 3 / 4);
    for (int i = 0; i < BT_FUSED_ATTENTION; ++i) {
        assert_true((c->groups[i] > 0) == (c->kinds == 0 || (c->kinds >> i & 1U)));
    }
}

static void random_graphs_keep_their_bits(void **state)
{
    (void)state;
    check_random(&(checker){.kinds = ordered});
}

// Rows of several blocks and lanes. Some graphs only: each value of the interpreter is an array.
static void larger_graphs_keep_their_bits(void **state)
{
    const int64_t usual = graph_count;
    (void)state;
    graph_count = usual / 10 + 1;
    random_dag_large = true;
    check_random(&(checker){.kinds = ordered});
    random_dag_large = false;
    graph_count = usual;
}

static void simplified_graphs_keep_their_bits(void **state)
{
    (void)state;
    check_random(&(checker){.kinds = ordered, .simplify = true});
}

static void sums_stay_within_rounding(void **state)
{
    (void)state;
    check_random(&(checker){.kinds = 0, .products = true});
}

static void groups_for_cuda_stay_within_rounding(void **state)
{
    (void)state;
    check_random(&(checker){.kinds = 0, .cuda = true});
}

static void find_wrong_groups(checker *c, uint64_t graphs)
{
    int found = 0;
    fixture_open(&c->f, 0);
    for (uint64_t seed = 1; seed <= graphs; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(c, &g)) {
            random_dag_shrink(differs, c, &g);
            assert_true(g.node_count >= 2 - c->cuda); // a group has two calls, of rows also one
            assert_true(g.node_count <= 6);
            ++found;
        }
        bt_dag_release(&g);
    }
    assert_true(found > 5);
    fixture_close(&c->f);
}

static void a_wrong_group_is_found(void **state)
{
    (void)state;
    find_wrong_groups(&(checker){.kinds = ordered, .spoil = true}, 100);
    find_wrong_groups(&(checker){.kinds = 0, .cuda = true, .spoil = true}, 400); // few row sums
}

// Few of them: a kernel takes a few hundredths of a second to make.
static void generated_kernels_keep_the_bits(void **state)
{
    (void)state;
    checker c = {.kinds = 1U << BT_FUSED_ELEMENTWISE | 1U << BT_FUSED_ROW, .generate = true};
    bt_fused group;
    bt_compiled *compiled = NULL;
    ASSERT_OK(bt_fused_init(&group, BT_FUSED_ELEMENTWISE, (int64_t[]){8}, 1));
    bt_fused_builder b = {&group, BT_OK};
    const int to = bt_fused_operand_add(&b, BT_F32, NULL);
    bt_fused_store(&b, to, bt_fused_const(&b, BT_F32, 1));
    const bt_status status = bt_compile(&group, NULL, &compiled);
    bt_compiled_release(compiled);
    if (status == BT_STATUS_UNAVAILABLE) {
        print_message("skipped: %s\n", bt_error_message());
        return;
    }
    ASSERT_OK(status);
    fixture_open(&c.f, 0);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count / 25; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(&c, &g)) {
            random_dag_shrink(differs, &c, &g);
            random_dag_show("generated kernels make other bits", seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    assert_true(generated_count > 0);
    fixture_close(&c.f);
}

// ---- by hand ------------------------------------------------------------------------------------

// RMSNorm from elementwise and reduce calls: x / sqrt(mean(x^2) + epsilon) * gamma is one group.
static void rmsnorm_is_one_group(void **state)
{
    (void)state;
    const int64_t rows = 3, cols = 40, shape[] = {rows, cols}, full[] = {cols, 1};
    const int64_t per_row[] = {1, 0}, per_column[] = {0, 1};
    checker c = {.kinds = ordered};
    bt_dag g = {0};
    bt_fusion_plan plan;
    int x, gamma, square, mean, shifted, root, normal, y;
    ASSERT_OK(bt_dag_input(&g, BT_F32, rows * cols, "x", &x));
    ASSERT_OK(bt_dag_input(&g, BT_F32, cols, "gamma", &gamma));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, x, &square));
    ASSERT_OK(bt_dag_sum(&g, square, rows, cols, 1, 1.0 / 40, &mean));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SHIFT, 1e-5, mean, &shifted));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQRT, 0, shifted, &root));
    ASSERT_OK(bt_dag_binary(&g, BT_BINARY_DIV, 2, shape, x, full, root, per_row, &normal));
    ASSERT_OK(bt_dag_binary(&g, BT_BINARY_MUL, 2, shape, normal, full, gamma, per_column, &y));
    ASSERT_OK(bt_dag_output(&g, y));
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = 0}, &plan));
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.groups[0].node_count, 6);
    assert_int_equal(plan.groups[0].group->kind, BT_FUSED_ROW);
    assert_int_equal(plan.groups[0].group->operand_count, 3);
    assert_int_equal(plan.groups[0].bytes_after, (2 * rows * cols + cols) * 4);
    bt_fusion_plan_release(&plan);
    fixture_open(&c.f, 0);
    assert_false(differs(&c, &g));
    fixture_close(&c.f);
    bt_dag_release(&g);
}

// A call with an element per row joins the elementwise call that reads it in all columns; not where
// its result is needed elsewhere: groups without reductions do not store one.
static void calls_per_row_join_elementwise_groups(void **state)
{
    (void)state;
    const int64_t rows = 5, cols = 24, shape[] = {rows, cols}, full[] = {cols, 1};
    const int64_t per_row[] = {1, 0};
    for (int i = 0; i < 4; ++i) {
        const bool is_output = i & 1;
        checker c = {.kinds = ordered, .generate = i & 2 && bt_compiler_available() == BT_OK};
        bt_dag g = {0};
        bt_fusion_plan plan;
        int d, p, negative, y;
        bt_error_clear();
        ASSERT_OK(bt_dag_input(&g, BT_BF16, rows, "d", &d));
        ASSERT_OK(bt_dag_input(&g, BT_BF16, rows * cols, "p", &p));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_NEGATE, 0, d, &negative));
        ASSERT_OK(bt_dag_binary(&g, BT_BINARY_MUL, 2, shape, negative, per_row, p, full, &y));
        ASSERT_OK(bt_dag_output(&g, y));
        if (is_output) {
            ASSERT_OK(bt_dag_output(&g, negative));
        }
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = ordered}, &plan));
        assert_int_equal(plan.count, !is_output);
        if (!is_output) {
            assert_int_equal(plan.groups[0].node_count, 2);
            assert_int_equal(plan.groups[0].group->kind, BT_FUSED_ELEMENTWISE);
        }
        bt_fusion_plan_release(&plan);
        fixture_open(&c.f, 0);
        assert_false(differs(&c, &g));
        fixture_close(&c.f);
        bt_dag_release(&g);
    }
}

// Softmax from exponentials, sums and quotients, in bf16 too: rows of bf16 are summed as f32.
static void softmax_is_one_group(void **state)
{
    (void)state;
    for (int i = 0; i < 2; ++i) {
        const bt_dtype dtype = i ? BT_BF16 : BT_F32;
        const int64_t rows = 5, cols = 300, shape[] = {rows, cols}, full[] = {cols, 1};
        const int64_t per_row[] = {1, 0};
        checker c = {.kinds = ordered};
        bt_dag g = {0};
        bt_fusion_plan plan;
        unsigned char *expected = NULL, *got = NULL;
        int x, power, total, y;
        ASSERT_OK(bt_dag_input(&g, dtype, rows * cols, "x", &x));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_EXP, 0, x, &power));
        ASSERT_OK(bt_dag_sum(&g, power, rows, cols, 1, 1, &total));
        ASSERT_OK(bt_dag_binary(&g, BT_BINARY_DIV, 2, shape, power, full, total, per_row, &y));
        ASSERT_OK(bt_dag_output(&g, y));
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = ordered}, &plan));
        assert_int_equal(plan.count, 1);
        assert_int_equal(plan.groups[0].node_count, 3);
        assert_int_equal(plan.groups[0].group->kind, BT_FUSED_ROW);
        fixture_open(&c.f, 0);
        const size_t bytes = run(&c, &g, NULL, &expected);
        assert_int_equal(run(&c, &g, &plan, &got), bytes);
        assert_memory_equal(expected, got, bytes);
        free(expected);
        free(got);
        fixture_close(&c.f);
        bt_fusion_plan_release(&plan);
        bt_dag_release(&g);
    }
}

// Rows of whole blocks, of a part of a block, and of elements after the last round of lanes. Orders
// of a sum differ in the bits of f64.
static void rows_of_any_length_keep_their_bits(void **state)
{
    (void)state;
    static const int64_t lengths[] = {9, 32, 41, 265, 512, 521, 544, 553, 745, 1104, 1600};
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; ++i) {
        const bt_dtype dtype = i % 2 ? BT_F64 : BT_F32;
        const int64_t rows = 8, cols = lengths[i / 2];
        const bt_softmax_args softmax = {.rows = rows, .cols = cols, .dtype = dtype};
        const bt_layernorm_args norm = {
            .rows = rows, .cols = cols, .epsilon = 1e-5, .dtype = dtype, .param_dtype = dtype};
        checker c = {.kinds = ordered};
        bt_dag g = {0};
        int x, gamma, made[2], out[5];
        ASSERT_OK(bt_dag_input(&g, dtype, rows * cols, "x", &x));
        ASSERT_OK(bt_dag_input(&g, dtype, cols, "gamma", &gamma));
        ASSERT_OK(bt_dag_call(
            &g, BT_KERNEL_SOFTMAX, &softmax,
            (bt_dag_binding[]){{.field = "x", .value = x}, {.field = "y", .value = -1}}, 2, made));
        ASSERT_OK(bt_dag_call(&g, BT_KERNEL_LAYERNORM, &norm,
                              (bt_dag_binding[]){{.field = "x", .value = made[1]},
                                                 {.field = "gamma", .value = gamma},
                                                 {.field = "y", .value = -1},
                                                 {.field = "mean", .value = -1},
                                                 {.field = "rstd", .value = -1}},
                              5, out));
        for (int k = 2; k < 5; ++k) {
            ASSERT_OK(bt_dag_output(&g, out[k]));
        }
        ASSERT_OK(bt_dag_output(&g, made[1]));
        fixture_open(&c.f, 0);
        if (differs(&c, &g)) {
            fail_msg("%s rows of %lld have other bits", bt_dtype_name(dtype), (long long)cols);
        }
        assert_int_equal(c.groups[BT_FUSED_ROW], 1);
        fixture_close(&c.f);
        bt_dag_release(&g);
    }
}

// b = f(a), c = product(b), d = b + c: b and d must not be one group, for c lies between them.
static void a_group_is_convex(void **state)
{
    (void)state;
    const bt_gemm_args product = {.m = 4,
                                  .n = 4,
                                  .k = 4,
                                  .lda = 4,
                                  .ldb = 4,
                                  .ldd = 4,
                                  .batch = 1,
                                  .alpha = 1,
                                  .ab_dtype = BT_F32,
                                  .d_dtype = BT_F32};
    const int64_t shape[] = {16}, stride[] = {1};
    const unsigned elementwise = 1U << BT_FUSED_ELEMENTWISE;
    bt_dag g = {0};
    bt_fusion_plan plan;
    int a, b, d, results[3];
    ASSERT_OK(bt_dag_input(&g, BT_F32, 16, "a", &a));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_GELU, 0, a, &b));
    ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &product,
                          (bt_dag_binding[]){{.field = "a", .value = b},
                                             {.field = "b", .value = a},
                                             {.field = "d", .value = -1}},
                          3, results));
    ASSERT_OK(bt_dag_binary(&g, BT_BINARY_ADD, 1, shape, b, stride, results[2], stride, &d));
    ASSERT_OK(bt_dag_output(&g, d));
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = elementwise}, &plan));
    assert_int_equal(plan.count, 0);
    assert_non_null(strstr(bt_str_text(&plan.decisions), "leads through another call"));
    assert_non_null(strstr(bt_str_text(&plan.decisions), "groups of this kind are not supported"));
    bt_fusion_plan_release(&plan);
    // As its epilogue, the sum is the product's.
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = 0}, &plan));
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.groups[0].group->kind, BT_FUSED_PRODUCT);
    assert_non_null(strstr(bt_str_text(&plan.decisions), "joins node 1: product group of 2 calls"));
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
}

// The sum of no elements is 0: a loop over the elements of its reader would read past the operand.
static void an_empty_sum_joins_nothing(void **state)
{
    (void)state;
    bt_dag g = {0};
    bt_fusion_plan plan;
    int x, y, z;
    ASSERT_OK(bt_dag_input(&g, BT_F32, 0, "x", &x));
    ASSERT_OK(bt_dag_sum(&g, x, 1, 0, 1, 1, &y));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_EXP, 0, y, &z));
    ASSERT_OK(bt_dag_output(&g, z));
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = ordered}, &plan));
    assert_int_equal(plan.count, 0);
    assert_non_null(strstr(bt_str_text(&plan.decisions), "a call of it has no elements"));
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
}

// What a call costs decides.
static void a_launch_has_its_price(void **state)
{
    (void)state;
    bt_dag g = {0};
    bt_fusion_plan plan;
    bt_str text = {0};
    int x, y, z;
    ASSERT_OK(bt_dag_input(&g, BT_F32, 8, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_GELU, 0, x, &y));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_TANH, 0, y, &z));
    ASSERT_OK(bt_dag_output(&g, z));
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.launch_bytes = 1}, &plan));
    assert_int_equal(plan.count, 1);
    assert_int_equal(plan.groups[0].bytes_before, 128);
    assert_int_equal(plan.groups[0].bytes_after, 64);
    bt_fusion_plan_print(&g, &plan, &text);
    assert_non_null(strstr(bt_str_text(&text),
                           "fusion 0 bytes=64 before=128 nodes=0:unary,1:unary\n"
                           "group elementwise shape=8\n"));
    bt_str_release(&text);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
}

// ---- a training step ----------------------------------------------------------------------------

enum { WIDTH = 24, HIDDEN = 40, TOKENS = 6 };

// Keeps the newest tensor of a chain of ops.
static void advance(bt_tensor **x, bt_tensor *next)
{
    bt_tensor_release(*x);
    *x = next;
}

// x / sqrt(mean(x^2) + epsilon) gamma, from elementwise and reduce ops.
static bt_tensor *rmsnorm(bt_context *c, bt_tensor *x, bt_tensor *gamma)
{
    bt_tensor *y = NULL, *next = NULL;
    ASSERT_OK(bt_unary_op(c, BT_UNARY_SQUARE, 0, x, &y));
    ASSERT_OK(bt_sum(c, y, -1, &next));
    advance(&y, next);
    ASSERT_OK(bt_scale(c, y, 1.0 / WIDTH, &next));
    advance(&y, next);
    ASSERT_OK(bt_unary_op(c, BT_UNARY_SHIFT, 1e-5, y, &next));
    advance(&y, next);
    ASSERT_OK(bt_unary_op(c, BT_UNARY_SQRT, 0, y, &next));
    advance(&y, next);
    ASSERT_OK(bt_reshape(c, y, BT_SHAPE(TOKENS, 1), &next));
    advance(&y, next);
    ASSERT_OK(bt_div(c, x, y, &next));
    advance(&y, next);
    ASSERT_OK(bt_mul(c, y, gamma, &next));
    advance(&y, next);
    return y;
}

// x + down(silu(gate(norm x)) up(norm x)), and the mean of its squares.
static bt_tensor *swiglu_loss(bt_context *c, bt_tensor *const *p, bt_tensor *x)
{
    bt_tensor *norm = rmsnorm(c, x, p[0]), *gate = NULL, *up = NULL, *next = NULL, *loss = NULL;
    ASSERT_OK(bt_linear(c, norm, p[1], NULL, NULL, BT_ACTIVATION_NONE, &gate));
    ASSERT_OK(bt_linear(c, norm, p[2], NULL, NULL, BT_ACTIVATION_NONE, &up));
    ASSERT_OK(bt_unary_op(c, BT_UNARY_SILU, 0, gate, &next));
    advance(&gate, next);
    ASSERT_OK(bt_mul(c, gate, up, &next));
    advance(&gate, next);
    ASSERT_OK(bt_linear(c, gate, p[3], NULL, x, BT_ACTIVATION_NONE, &next));
    advance(&gate, next);
    ASSERT_OK(bt_unary_op(c, BT_UNARY_SQUARE, 0, gate, &next));
    advance(&gate, next);
    ASSERT_OK(bt_mean_all(c, gate, &loss));
    bt_tensor_release(norm), bt_tensor_release(gate), bt_tensor_release(up);
    return loss;
}

// Forward and backward of a block that users compose from our ops fuse without further work.
static void composed_blocks_fuse_and_keep_their_bits(void **state)
{
    (void)state;
    const bt_shape shapes[] = {BT_SHAPE(WIDTH), BT_SHAPE(HIDDEN, WIDTH), BT_SHAPE(HIDDEN, WIDTH),
                               BT_SHAPE(WIDTH, HIDDEN)};
    fixture f;
    bt_dag_capture capture;
    bt_dag g;
    bt_dag_simplified report;
    bt_fusion_plan plan;
    bt_tensor *p[4];
    int values[4] = {0};
    int64_t offsets[4] = {0};
    fixture_open(&f, 0);
    for (int i = 0; i < 4; ++i) {
        p[i] = fixture_random(&f, BT_F32, shapes[i], -1, 1, (uint64_t)i + 5);
        p[i]->requires_grad = true;
    }
    bt_tensor *x = fixture_random(&f, BT_F32, BT_SHAPE(TOKENS, WIDTH), -1, 1, 3);
    ASSERT_OK(bt_dag_capture_begin(&f.context, true, &capture));
    bt_tensor *loss = swiglu_loss(&f.context, p, x);
    ASSERT_OK(bt_backward(&f.context, loss, NULL));
    for (int i = 0; i < 4; ++i) {
        ASSERT_OK(bt_dag_capture_output(&capture, p[i]->grad));
        values[i] = bt_dag_capture_value(&capture, p[i]->grad, &offsets[i]);
    }
    ASSERT_OK(bt_dag_capture_end(&capture, &g));
    ASSERT_OK(bt_dag_simplify(&g, &report));
    ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.kinds = ordered}, &plan));
    assert_true(report.nodes_after < report.nodes_before);
    int fused = 0;
    for (int i = 0; i < plan.count; ++i) {
        fused += plan.groups[i].node_count;
    }
    assert_int_equal(g.node_count, 27); // 8 of them products
    assert_int_equal(plan.count, 5);
    assert_int_equal(fused, 18);
    void **memory = calloc((size_t)g.value_count, sizeof *memory);
    for (int i = 0; i < g.value_count; ++i) {
        memory[i] = g.values[i].producer == -1 ? bt_dag_capture_input(&capture, i) : NULL;
    }
    ASSERT_OK(bt_dag_run_fused(&f.context, &g, &plan, bt_fused_interpret, NULL, memory));
    for (int i = 0; i < 4; ++i) {
        assert_memory_equal((char *)memory[values[i]] + offsets[i], bt_tensor_data(p[i]->grad),
                            bt_tensor_bytes(p[i]->grad));
        bt_pool_free(f.context.pool, memory[values[i]]);
        bt_tensor_release(p[i]);
    }
    free(memory);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
    bt_dag_capture_release(&capture);
    bt_tensor_release(x), bt_tensor_release(loss);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_is_one_group),
        cmocka_unit_test(softmax_is_one_group),
        cmocka_unit_test(calls_per_row_join_elementwise_groups),
        cmocka_unit_test(rows_of_any_length_keep_their_bits),
        cmocka_unit_test(a_group_is_convex),
        cmocka_unit_test(an_empty_sum_joins_nothing),
        cmocka_unit_test(a_launch_has_its_price),
        cmocka_unit_test(composed_blocks_fuse_and_keep_their_bits),
        cmocka_unit_test(random_graphs_keep_their_bits),
        cmocka_unit_test(larger_graphs_keep_their_bits),
        cmocka_unit_test(simplified_graphs_keep_their_bits),
        cmocka_unit_test(sums_stay_within_rounding),
        cmocka_unit_test(groups_for_cuda_stay_within_rounding),
        cmocka_unit_test(a_wrong_group_is_found),
        cmocka_unit_test(generated_kernels_keep_the_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
