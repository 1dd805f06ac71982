// tests/unit/test_compiler_simplify.c - simplified graphs against those that they come from
//
//   unit_compiler_simplify_test [graphs [first seed]]
// Random graphs keep the bits of their outputs; each rule applies where it should, and not where
// only real numbers would allow it. A failure prints the smallest graph that still fails.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/simplify.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

static int64_t graph_count = 1000;
static uint64_t first_seed = 1;

typedef struct checker {
    fixture f;
    int applied[BT_DAG_RULE_COUNT];
    int64_t before, after;
    bool spoil; // the checker's own test
} checker;

// Spoils a graph as a wrong rule would.
static void spoil(bt_dag *g)
{
    for (int i = 0; i < g->node_count; ++i) {
        bt_unary_args *args = g->nodes[i].args;
        if (g->nodes[i].op == BT_KERNEL_UNARY && args->function == BT_UNARY_NEGATE) {
            args->function = BT_UNARY_RELU;
        }
    }
}

static bool differs(void *self, const bt_dag *graph)
{
    checker *c = self;
    unsigned char *expected = NULL, *got = NULL;
    bt_dag simple;
    bt_dag_simplified report;
    ASSERT_OK(bt_dag_copy(graph, &simple));
    ASSERT_OK(bt_dag_simplify(&simple, &report));
    ASSERT_OK(bt_dag_check(&simple));
    if (c->spoil) {
        spoil(&simple);
    }
    const size_t bytes = random_dag_run(&c->f, graph, &expected);
    const bool same =
        random_dag_run(&c->f, &simple, &got) == bytes && memcmp(expected, got, bytes) == 0;
    for (int i = 0; i < BT_DAG_RULE_COUNT; ++i) {
        c->applied[i] += report.applied[i];
    }
    c->before += report.nodes_before;
    c->after += report.nodes_after;
    free(expected);
    free(got);
    bt_dag_release(&simple);
    return !same;
}

static void random_graphs_keep_their_bits(void **state)
{
    (void)state;
    checker c = {.before = 0};
    fixture_open(&c.f, 0);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(&c, &g)) {
            random_dag_shrink(differs, &c, &g);
            random_dag_show("other bits", seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    assert_true(c.after < c.before * 9 / 10);
    for (int i = 0; i < BT_DAG_RULE_COUNT && graph_count >= 1000; ++i) {
        if (c.applied[i] == 0) {
            fail_msg("rule %s never applied", bt_dag_rule_name((bt_dag_rule_id)i));
        }
    }
    fixture_close(&c.f);
}

static void a_wrong_rule_is_found_and_shrunk(void **state)
{
    (void)state;
    checker c = {.spoil = true};
    int found = 0, before = 0, after = 0;
    fixture_open(&c.f, 0);
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(&c, &g)) {
            before += g.node_count;
            random_dag_shrink(differs, &c, &g);
            after += g.node_count;
            ++found;
        }
        bt_dag_release(&g);
    }
    assert_true(found > 5);
    assert_true(after < before / 2);
    fixture_close(&c.f);
}

// ---- each rule ----------------------------------------------------------------------------------

// Simplifies the text; returns how often the rule applied, and what is left in *nodes.
static int apply(const char *text, bt_dag_rule_id rule, int *nodes)
{
    bt_dag g;
    bt_dag_simplified report;
    ASSERT_OK(bt_dag_parse(text, &g));
    ASSERT_OK(bt_dag_simplify(&g, &report));
    ASSERT_OK(bt_dag_check(&g));
    *nodes = report.nodes_after;
    bt_dag_release(&g);
    return report.applied[rule];
}

#define X4  "value 0 f32 16 input \"x\"\n"
#define V1  "value 1 f32 16 \"\"\n"
#define OUT "value 2 f32 16 output \"\"\n"

static void signed_zeros_are_kept(void **state)
{
    (void)state;
    int nodes = 0;
    // x + 0 is not x at -0; x - 0 is, and so is x + -0
    assert_int_equal(apply(X4 V1 OUT
                           "node unary forward \"\" x=0 y=>1 function=shift count=4 dtype=f32\n"
                           "node unary forward \"\" x=1 y=>2 function=tanh count=4 dtype=f32\n",
                           BT_DAG_RULE_identity_function, &nodes),
                     0);
    assert_int_equal(nodes, 2);
    assert_int_equal(
        apply(X4 V1 OUT
              "node unary forward \"\" x=0 y=>1 function=shift alpha=-0x0p+0 count=4 dtype=f32\n"
              "node unary forward \"\" x=1 y=>2 function=tanh count=4 dtype=f32\n",
              BT_DAG_RULE_identity_function, &nodes),
        1);
    assert_int_equal(nodes, 1);
}

static void quotients_become_products_where_exact(void **state)
{
    (void)state;
    int nodes = 0;
    static const char by_four[] = X4
        "value 1 f32 4 \"\"\n" OUT "node fill forward \"\" y=>1 count=1 dtype=f32 value=4\n"
        "node binary forward \"\" a=0 b=1 y=>2 function=div rank=1 shape=4 a_stride=1 dtype=f32\n";
    static const char by_three[] = X4
        "value 1 f32 4 \"\"\n" OUT "node fill forward \"\" y=>1 count=1 dtype=f32 value=3\n"
        "node binary forward \"\" a=0 b=1 y=>2 function=div rank=1 shape=4 a_stride=1 dtype=f32\n";
    assert_int_equal(apply(by_four, BT_DAG_RULE_constant_operand, &nodes), 1);
    assert_int_equal(nodes, 1);
    assert_int_equal(apply(by_three, BT_DAG_RULE_constant_operand, &nodes), 0);
    assert_int_equal(nodes, 2);
}

static void what_is_read_stays(void **state)
{
    (void)state;
    int nodes = 0;
    // Both are outputs: each is made.
    assert_int_equal(apply(X4 "value 1 f32 16 output \"\"\n" OUT
                              "node unary forward \"\" x=0 y=>1 function=exp count=4 dtype=f32\n"
                              "node unary forward \"\" x=0 y=>2 function=exp count=4 dtype=f32\n",
                           BT_DAG_RULE_common_call, &nodes),
                     0);
    assert_int_equal(nodes, 2);
    // A slope added to zeros is not replaced by the slope: 0 + -0 is 0.
    (void)apply(
        X4 V1 OUT
        "node fill forward \"\" y=>1 count=4 dtype=f32\n"
        "node unary_backward backward \"\" x=0 dy=0 dx=1>2 count=4 dtype=f32 accumulate=1\n",
        BT_DAG_RULE_dead_call, &nodes);
    assert_int_equal(nodes, 2);
}

static void a_part_of_a_copy_stays_behind_it(void **state)
{
    (void)state;
    int nodes = 0;
    // The function reads two of three rows.
    static const char of_broadcast[] =
        "value 0 f32 8 input \"x\"\nvalue 1 f32 24 \"\"\n" OUT
        "node copy forward \"\" x=0 y=>1 rank=2 shape=3,2 x_stride=0,1 x_dtype=f32 "
        "y_stride=2,1 y_dtype=f32\n"
        "node unary forward \"\" x=1 y=>2 count=4 dtype=f32\n";
    static const char of_cast[] =
        "value 0 bf16 12 input \"x\"\nvalue 1 f32 24 \"\"\n" OUT
        "node copy forward \"\" x=0 y=>1 rank=1 shape=6 x_stride=1 x_dtype=bf16 y_stride=1 "
        "y_dtype=f32\n"
        "node unary forward \"\" x=1 y=>2 function=negate count=4 dtype=f32\n";
    assert_int_equal(apply(of_broadcast, BT_DAG_RULE_function_before_broadcast, &nodes), 0);
    assert_int_equal(apply(of_cast, BT_DAG_RULE_function_before_widen, &nodes), 0);
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signed_zeros_are_kept),
        cmocka_unit_test(quotients_become_products_where_exact),
        cmocka_unit_test(what_is_read_stays),
        cmocka_unit_test(a_part_of_a_copy_stays_behind_it),
        cmocka_unit_test(random_graphs_keep_their_bits),
        cmocka_unit_test(a_wrong_rule_is_found_and_shrunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
