// tests/unit/test_compiler_form.c - passes that prepare a graph for groups: cheap values made
// again, products that turn halves as views
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/epilogue.h"
#include "framework/compiler/form.h"
#include "framework/compiler/half_turn.h"
#include "framework/compiler/rematerialize.h"
#include "tests/support/fixture.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

typedef struct checker {
    fixture f;
    int copied;
} checker;

static int count_lines(const char *text)
{
    int count = 0;
    for (; *text; ++text) {
        count += *text == '\n';
    }
    return count;
}

// The second half of a graph becomes a backward.
static void split_phases(bt_dag *graph)
{
    for (int i = graph->node_count / 2; i < graph->node_count; ++i) {
        graph->nodes[i].phase = BT_DAG_BACKWARD;
    }
}

static bool differs(void *self, const bt_dag *given)
{
    checker *c = self;
    unsigned char *expected = NULL, *got = NULL;
    bt_dag graph;
    int copied = 0;
    ASSERT_OK(bt_dag_copy(given, &graph));
    split_phases(&graph);
    const size_t bytes = random_dag_run(&c->f, &graph, &expected);
    ASSERT_OK(bt_dag_rematerialize(&graph, 1, &copied));
    ASSERT_OK(bt_dag_check(&graph));
    assert_int_equal(random_dag_run(&c->f, &graph, &got), bytes);
    const bool same = memcmp(expected, got, bytes) == 0;
    c->copied += copied;
    free(expected);
    free(got);
    bt_dag_release(&graph);
    return !same;
}

static void random_graphs_keep_their_bits_when_values_are_made_again(void **state)
{
    (void)state;
    checker c = {.copied = 0};
    fixture_open(&c.f, 0);
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(&c, &g)) {
            random_dag_shrink(differs, &c, &g);
            random_dag_show("values made again have other bits", seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    fixture_close(&c.f);
    assert_true(c.copied > 100);
}

// x -> wide (f32) -> y, and in the backward sum_columns(wide dy): wide is made again from x, which
// is half as large; a value that the caller needs is stored as before.
static void what_costs_less_is_made_again(void **state)
{
    (void)state;
    const int64_t shape[] = {8, 16}, stride[] = {16, 1};
    for (int kept = 0; kept < 2; ++kept) {
        bt_dag g = {0};
        bt_str text = {0};
        int x = 0, dy = 0, wide = 0, y = 0, product = 0, sum = 0, copied = 0;
        ASSERT_OK(bt_dag_input(&g, BT_BF16, 128, "x", &x));
        ASSERT_OK(bt_dag_input(&g, BT_F32, 128, "dy", &dy));
        ASSERT_OK(bt_dag_copy_of(&g, 2, shape, x, stride, BT_F32, &wide));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, wide, &y));
        ASSERT_OK(bt_dag_binary(&g, BT_BINARY_MUL, 2, shape, wide, stride, dy, stride, &product));
        ASSERT_OK(bt_dag_sum(&g, product, 1, 8, 16, 1, &sum));
        ASSERT_OK(bt_dag_output(&g, y));
        ASSERT_OK(bt_dag_output(&g, sum));
        if (kept) {
            ASSERT_OK(bt_dag_output(&g, wide));
        }
        g.nodes[2].phase = g.nodes[3].phase = BT_DAG_BACKWARD;
        assert_true(bt_dag_is_saved(&g, wide));
        ASSERT_OK(bt_dag_rematerialize(&g, 1, &copied));
        ASSERT_OK(bt_dag_check(&g));
        assert_false(bt_dag_is_saved(&g, wide));
        assert_int_equal(g.values[wide].producer, 0);
        assert_true(copied > 0);
        bt_dag_rematerialize_print(&g, &text);
        assert_non_null(strstr(bt_str_text(&text), "recomputes value 2 in the backward instead of "
                                                   "loading 512 bytes\n"));
        assert_in_range(count_lines(bt_str_text(&text)), 1, copied);
        bt_str_release(&text);
        bt_dag_release(&g);
    }
}

// sum = a + b is stored: an output, or read by a product. The backward reads the sum, not a and b.
static void what_is_stored_anyway_is_not_made_again(void **state)
{
    (void)state;
    const int64_t shape[] = {8, 16}, stride[] = {16, 1};
    const bt_gemm_args args = {.m = 8,
                               .n = 8,
                               .k = 16,
                               .trans_b = true,
                               .lda = 16,
                               .ldb = 16,
                               .ldd = 8,
                               .batch = 1,
                               .alpha = 1,
                               .ab_dtype = BT_F32,
                               .d_dtype = BT_F32};
    for (int product = 0; product < 2; ++product) {
        bt_dag g = {0};
        int a = 0, b = 0, sum = 0, y = 0, copied = 0, results[3];
        ASSERT_OK(bt_dag_input(&g, BT_F32, 128, "a", &a));
        ASSERT_OK(bt_dag_input(&g, BT_F32, 128, "b", &b));
        ASSERT_OK(bt_dag_binary(&g, BT_BINARY_ADD, 2, shape, a, stride, b, stride, &sum));
        if (product) {
            const bt_dag_binding bindings[] = {{.field = "a", .value = sum},
                                               {.field = "b", .value = a},
                                               {.field = "d", .value = -1}};
            ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &args, bindings, 3, results));
            ASSERT_OK(bt_dag_output(&g, results[2]));
        } else {
            ASSERT_OK(bt_dag_output(&g, sum));
        }
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, sum, &y));
        ASSERT_OK(bt_dag_output(&g, y));
        g.nodes[g.node_count - 1].phase = BT_DAG_BACKWARD;
        ASSERT_OK(bt_dag_rematerialize(&g, 1, &copied));
        ASSERT_OK(bt_dag_check(&g));
        assert_int_equal(copied, 0);
        bt_dag_release(&g);
    }
}

static void small_values_stay(void **state)
{
    (void)state;
    bt_dag g = {0};
    int x = 0, wide = 0, y = 0, copied = 0;
    ASSERT_OK(bt_dag_input(&g, BT_F32, 128, "x", &x));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, x, &wide));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, wide, &y));
    ASSERT_OK(bt_dag_output(&g, y));
    g.nodes[1].phase = BT_DAG_BACKWARD;
    ASSERT_OK(bt_dag_rematerialize(&g, 128 * 4 + 1, &copied));
    assert_int_equal(copied, 0);
    ASSERT_OK(bt_dag_rematerialize(&g, 128 * 4, &copied));
    assert_int_equal(copied, 1);
    bt_dag_release(&g);
}

// ---- half turns ---------------------------------------------------------------------------------

enum { ROWS = 6, DIM = 8 };

// d = x M^T or x M, plus c; through: x is made by a multiplication that no other op reads.
static void make_turn(bt_dag *g, bool trans_b, bool adds, bool through, int *m, int *d)
{
    const bt_gemm_args args = {.m = ROWS,
                               .n = DIM,
                               .k = DIM,
                               .trans_b = trans_b,
                               .lda = DIM,
                               .ldb = DIM,
                               .ldc = DIM,
                               .ldd = DIM,
                               .batch = 1,
                               .alpha = 1,
                               .beta = adds ? 1 : 0,
                               .ab_dtype = BT_F32,
                               .d_dtype = BT_F32};
    const int64_t shape[] = {ROWS / 2, 2, DIM}, dense[] = {2 * DIM, DIM, 1}, table[] = {0, DIM, 1};
    int x = 0, factors = 0, c = 0, results[4];
    ASSERT_OK(bt_dag_input(g, BT_F32, ROWS * DIM, "x", &x));
    ASSERT_OK(bt_dag_input(g, BT_F32, DIM * DIM, "m", m));
    ASSERT_OK(bt_dag_input(g, BT_F32, ROWS * DIM, "c", &c));
    ASSERT_OK(bt_dag_input(g, BT_F32, 2 * DIM, "factors", &factors));
    if (through) {
        ASSERT_OK(bt_dag_binary(g, BT_BINARY_MUL, 3, shape, x, dense, factors, table, &x));
    }
    const bt_dag_binding bindings[] = {
        {.field = "a", .value = x},
        {.field = "b", .value = *m},
        {.field = "d", .value = -1},
        {.field = "c", .value = c},
    };
    ASSERT_OK(bt_dag_call(g, BT_KERNEL_GEMM, &args, bindings, adds ? 4 : 3, results));
    *d = results[2];
    ASSERT_OK(bt_dag_output(g, *d));
}

static void fill_inputs(const bt_dag *g, int m, float sign,
                        float (*contents)[ROWS * DIM + DIM * DIM], void **memory)
{
    for (int i = 0; i < g->value_count; ++i) {
        const int64_t count = bt_dag_value_count(&g->values[i]);
        for (int64_t k = 0; k < count && g->values[i].producer == -1; ++k) {
            contents[i][k] = (float)((i * 31 + (int)k * 17) % 23 - 11) / 8;
            if (i == m) {
                const int64_t row = k / DIM, column = k % DIM, half = DIM / 2;
                contents[i][k] = column != (row + half) % DIM ? 0 : row < half ? -sign : sign;
            }
        }
        memory[i] = g->values[i].producer == -1 ? contents[i] : NULL;
    }
}

static void turns_are_products_by_the_matrix(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    for (int which = 0; which < 16; ++which) {
        static float contents[8][ROWS * DIM + DIM * DIM];
        const bool trans_b = which & 1, adds = which & 2, through = which & 4;
        bt_dag g = {0};
        int m = 0, d = 0, changed = 0;
        void *memory[8] = {NULL}, *turned[8] = {NULL};
        int64_t turns[8] = {0};
        make_turn(&g, trans_b, adds, through, &m, &d);
        fill_inputs(&g, m, which & 8 ? -1 : 1, contents, memory);
        ASSERT_OK(bt_dag_run(&f.context, &g, memory));
        turns[m] = DIM;
        ASSERT_OK(bt_dag_expand_half_turns(&g, turns, g.value_count, &changed));
        ASSERT_OK(bt_dag_check(&g));
        assert_int_equal(changed, 1);
        for (int i = 0; i < g.node_count; ++i) {
            assert_int_equal(g.nodes[i].op, BT_KERNEL_BINARY);
        }
        fill_inputs(&g, m, which & 8 ? -1 : 1, contents, turned);
        ASSERT_OK(bt_dag_run(&f.context, &g, turned));
        for (int k = 0; k < ROWS * DIM; ++k) { // == : zeros may have another sign
            assert_true(((float *)memory[d])[k] == ((float *)turned[d])[k]);
        }
        bt_pool_free(f.context.pool, memory[d]);
        bt_pool_free(f.context.pool, turned[d]);
        bt_dag_release(&g);
    }
    fixture_close(&f);
}

static void other_products_stay(void **state)
{
    (void)state;
    bt_dag g = {0};
    int m = 0, d = 0, changed = 0;
    int64_t turns[8] = {0};
    make_turn(&g, true, false, false, &m, &d);
    ASSERT_OK(
        bt_dag_expand_half_turns(&g, turns, g.value_count, &changed)); // m is not known to turn
    assert_int_equal(changed, 0);
    ((bt_gemm_args *)g.nodes[0].args)->alpha = 2;
    turns[m] = DIM;
    ASSERT_OK(bt_dag_expand_half_turns(&g, turns, g.value_count, &changed));
    assert_int_equal(changed, 0);
    bt_dag_release(&g);
}

// A rule adds relu(b) in bf16, which the product then reads: no value of the capture.
static void values_that_rules_add_turn_nothing(void **state)
{
    (void)state;
    bt_dag g = {0};
    const bt_fuse_options options = {.any_order = true};
    const int64_t shape[] = {DIM * DIM}, flat[] = {1};
    const bt_gemm_args args = {.m = ROWS,
                               .n = DIM,
                               .k = DIM,
                               .lda = DIM,
                               .ldb = DIM,
                               .ldd = DIM,
                               .batch = 1,
                               .alpha = 1,
                               .ab_dtype = BT_BF16,
                               .d_dtype = BT_BF16};
    int x = 0, b = 0, results[3];
    int64_t turns[16] = {0};
    bt_fusion_plan plan;
    bt_formed formed;
    ASSERT_OK(bt_dag_input(&g, BT_BF16, ROWS * DIM, "x", &x));
    ASSERT_OK(bt_dag_input(&g, BT_BF16, DIM * DIM, "b", &b));
    ASSERT_OK(bt_dag_copy_of(&g, 1, shape, b, flat, BT_F32, &b));
    ASSERT_OK(bt_dag_unary(&g, BT_UNARY_RELU, 0, b, &b));
    ASSERT_OK(bt_dag_copy_of(&g, 1, shape, b, flat, BT_BF16, &b));
    const bt_dag_binding bindings[] = {
        {.field = "a", .value = x}, {.field = "b", .value = b}, {.field = "d", .value = -1}};
    ASSERT_OK(bt_dag_call(&g, BT_KERNEL_GEMM, &args, bindings, 3, results));
    ASSERT_OK(bt_dag_output(&g, results[2]));
    const int captured = g.value_count;
    for (int i = captured; i < 16; ++i) {
        turns[i] = DIM; // not to be looked at
    }
    ASSERT_OK(bt_dag_form(&g, turns, &options, &plan, &formed));
    assert_true(g.nodes[g.node_count - 1].operands[1].value >= captured);
    assert_int_equal(formed.half_turns, 0);
    bt_fusion_plan_release(&plan);
    bt_dag_release(&g);
}

// ---- epilogues ----------------------------------------------------------------------------------

// y = (x w + bias) + residual, each sum its own op; `kept`: the caller needs x w as well.
static void make_sums(bt_dag *g, bool kept, bool bias_first, int *y)
{
    const bt_gemm_args args = {.m = ROWS,
                               .n = DIM,
                               .k = DIM,
                               .lda = DIM,
                               .ldb = DIM,
                               .ldd = DIM,
                               .batch = 1,
                               .alpha = 1,
                               .ab_dtype = BT_F32,
                               .d_dtype = BT_F32};
    const int64_t shape[] = {2, ROWS / 2, DIM}, dense[] = {ROWS / 2 * DIM, DIM, 1},
                  row[] = {0, 0, 1};
    int x = 0, w = 0, bias = 0, residual = 0, results[3];
    ASSERT_OK(bt_dag_input(g, BT_F32, ROWS * DIM, "x", &x));
    ASSERT_OK(bt_dag_input(g, BT_F32, DIM * DIM, "w", &w));
    ASSERT_OK(bt_dag_input(g, BT_F32, DIM, "bias", &bias));
    ASSERT_OK(bt_dag_input(g, BT_F32, ROWS * DIM, "residual", &residual));
    const bt_dag_binding bindings[] = {
        {.field = "a", .value = x}, {.field = "b", .value = w}, {.field = "d", .value = -1}};
    ASSERT_OK(bt_dag_call(g, BT_KERNEL_GEMM, &args, bindings, 3, results));
    *y = results[2];
    if (kept) {
        ASSERT_OK(bt_dag_output(g, *y));
    }
    if (bias_first) {
        ASSERT_OK(bt_dag_binary(g, BT_BINARY_ADD, 3, shape, bias, row, *y, dense, y));
    } else {
        ASSERT_OK(bt_dag_binary(g, BT_BINARY_ADD, 3, shape, *y, dense, bias, row, y));
    }
    ASSERT_OK(bt_dag_binary(g, BT_BINARY_ADD, 3, shape, *y, dense, residual, dense, y));
    ASSERT_OK(bt_dag_output(g, *y));
}

static void sums_become_epilogues(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, 0);
    for (int which = 0; which < 4; ++which) {
        static float contents[8][ROWS * DIM + DIM * DIM];
        const bool kept = which & 1;
        bt_dag g = {0};
        int y = 0, absorbed = 0;
        void *memory[8] = {NULL}, *joined[8] = {NULL};
        make_sums(&g, kept, which & 2, &y);
        fill_inputs(&g, -1, 1, contents, memory);
        ASSERT_OK(bt_dag_run(&f.context, &g, memory));
        ASSERT_OK(bt_dag_absorb_sums(&g, &absorbed));
        ASSERT_OK(bt_dag_check(&g));
        assert_int_equal(absorbed, kept ? 0 : 2);
        assert_int_equal(g.node_count, kept ? 3 : 1);
        fill_inputs(&g, -1, 1, contents, joined);
        ASSERT_OK(bt_dag_run(&f.context, &g, joined));
        for (int k = 0; k < ROWS * DIM; ++k) { // values are eighths: sums of them are exact
            assert_true(((float *)memory[y])[k] == ((float *)joined[y])[k]);
        }
        for (int i = 0; i < g.value_count; ++i) {
            if (g.values[i].is_output) {
                bt_pool_free(f.context.pool, memory[i]);
                bt_pool_free(f.context.pool, joined[i]);
            }
        }
        bt_dag_release(&g);
    }
    fixture_close(&f);
}

// ---- what is joined -----------------------------------------------------------------------------

enum { LARGE = 1 << 18 }; // elements of f32: as many bytes as a launch costs

// y = x^2 and z = -x share x alone: one group, unless one is of the backward.
static void readers_of_one_value_join_within_a_phase(void **state)
{
    (void)state;
    for (int backward = 0; backward < 2; ++backward) {
        bt_dag g = {0};
        bt_fusion_plan plan;
        int x = 0, y = 0, z = 0;
        ASSERT_OK(bt_dag_input(&g, BT_F32, LARGE, "x", &x));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_SQUARE, 0, x, &y));
        ASSERT_OK(bt_dag_unary(&g, BT_UNARY_NEGATE, 0, x, &z));
        ASSERT_OK(bt_dag_output(&g, y));
        ASSERT_OK(bt_dag_output(&g, z));
        g.nodes[1].phase = backward ? BT_DAG_BACKWARD : BT_DAG_FORWARD;
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.rematerialize = true}, &plan));
        assert_int_equal(plan.count, backward ? 0 : 1);
        assert_true(!plan.count ||
                    plan.groups[0].bytes_after == 3 * (int64_t)sizeof(float) * LARGE);
        bt_fusion_plan_release(&plan);
        bt_dag_release(&g);
    }
}

// x / sum(x): one quotient a row where a bound is enough, one an element where equal bits are
// required.
static void quotients_by_a_value_per_row_are_products(void **state)
{
    (void)state;
    const int64_t shape[] = {16, 64}, dense[] = {64, 1}, per_row[] = {1, 0};
    for (int any_order = 0; any_order < 2; ++any_order) {
        bt_dag g = {0};
        bt_fusion_plan plan;
        bt_str text = {0};
        int x = 0, sum = 0, y = 0;
        ASSERT_OK(bt_dag_input(&g, BT_F32, 16 * 64, "x", &x));
        ASSERT_OK(bt_dag_sum(&g, x, 16, 64, 1, 1, &sum));
        ASSERT_OK(bt_dag_binary(&g, BT_BINARY_DIV, 2, shape, x, dense, sum, per_row, &y));
        ASSERT_OK(bt_dag_output(&g, y));
        ASSERT_OK(bt_dag_fuse(&g, &(bt_fuse_options){.any_order = any_order}, &plan));
        assert_int_equal(plan.count, 1);
        bt_fused_print(plan.groups[0].group, &text);
        const char *division = strstr(bt_str_text(&text), "= div f32");
        assert_non_null(division);
        assert_true((strstr(division, "per=row") == strstr(division, "per=")) == any_order);
        bt_str_release(&text);
        bt_fusion_plan_release(&plan);
        bt_dag_release(&g);
    }
}

// Of divisors whose inverse is infinite or subnormal too: 1.5 ulp, where the result is normal; also
// zeros, infinities and NaN.
static void quotients_hold_their_bound(void **state)
{
    (void)state;
    enum { DIVISORS = 14, EACH = 8 };
    const float y[DIVISORS] = {0x1p-149F,  0x1.8p-140F, 0x1p-128F,  0x1.9p-127F, 0x1p-126F,
                               0x1.2p-70F, 0x1.1p0F,    -0x1.3p64F, 0x1.4p90F,   0x1.7p126F,
                               0x1.9p127F, 0.0F,        INFINITY,   NAN};
    const int64_t shape[] = {DIVISORS, EACH}, dense[] = {EACH, 1}, per_row[] = {1, 0};
    bt_dag g = {0};
    bt_fused group;
    const char *why = NULL;
    float x[DIVISORS * EACH], got[DIVISORS * EACH] = {0};
    int given = 0, divisor = 0, made = 0;
    const int node = 0;
    fixture f;
    fixture_open(&f, 0);
    for (int i = 0; i < DIVISORS * EACH; ++i) { // results of all sizes, where the divisor has one
        const float size = y[i / EACH] != 0 && isfinite(y[i / EACH]) ? y[i / EACH] : 1;
        x[i] = ldexpf((1 + 0.07F * (float)(i % EACH)) * size, 20 * (i % EACH) - 60);
    }
    x[11 * EACH] = x[12 * EACH] = 0;
    x[12 * EACH + 1] = INFINITY;
    ASSERT_OK(bt_dag_input(&g, BT_F32, (int64_t)DIVISORS * EACH, "x", &given));
    ASSERT_OK(bt_dag_input(&g, BT_F32, DIVISORS, "y", &divisor));
    ASSERT_OK(bt_dag_binary(&g, BT_BINARY_DIV, 2, shape, given, dense, divisor, per_row, &made));
    ASSERT_OK(bt_dag_output(&g, made));
    bt_fused_of_nodes(&g, &(bt_fuse_options){.any_order = true}, &node, 1, &group, &why);
    assert_null(why);
    void *at[3] = {NULL};
    assert_int_equal(group.operand_count, 3);
    for (int i = 0; i < 3; ++i) {
        const int value = group.operands[i].value;
        at[i] = value == given ? (void *)x : value == divisor ? (void *)(uintptr_t)y : (void *)got;
    }
    ASSERT_OK(bt_fused_interpret(NULL, &f.context, &group, at));
    for (int i = 0; i < DIVISORS * EACH; ++i) {
        const double exact = (double)x[i] / (double)y[i / EACH];
        const float rounded = x[i] / y[i / EACH];
        const double error = fabs((double)got[i] - exact);
        const double ulp = fmax(fabs(exact) * 0x1p-23, 0x1p-149);
        const bool same = got[i] == rounded || (isnan(got[i]) && isnan(rounded));
        if (!same && !(error <= 1.5 * ulp)) {
            fail_msg("%a / %a: %a, expected %a", (double)x[i], (double)y[i / EACH], (double)got[i],
                     exact);
        }
    }
    bt_dag_release(&g);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_keep_their_bits_when_values_are_made_again),
        cmocka_unit_test(what_costs_less_is_made_again),
        cmocka_unit_test(what_is_stored_anyway_is_not_made_again),
        cmocka_unit_test(small_values_stay),
        cmocka_unit_test(turns_are_products_by_the_matrix),
        cmocka_unit_test(other_products_stay),
        cmocka_unit_test(values_that_rules_add_turn_nothing),
        cmocka_unit_test(sums_become_epilogues),
        cmocka_unit_test(readers_of_one_value_join_within_a_phase),
        cmocka_unit_test(quotients_by_a_value_per_row_are_products),
        cmocka_unit_test(quotients_hold_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
