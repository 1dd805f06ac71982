// tests/unit/test_compiler_run.c - random graphs with generated kernels, against eager execution
//
//   unit_compiler_run_test [graphs [first seed]]
// Reductions with an order keep the bits; graphs with generated products have those that the
// interpreter makes of their groups (unit.compiler_fuse compares these with eager execution). A
// failure prints the smallest graph that still fails. Some graphs only: each group is compiled.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/run.h"
#include "tests/support/random_dag.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static int64_t graph_count = 40;
static uint64_t first_seed = 1;

typedef struct checker {
    fixture f;
    bt_code_cache cache;
    int64_t groups, fallbacks, products; // products: graphs with some
    bool spoil;                          // the checker's own test
} checker;

static bt_compiler *compiler; // of the graph that runs
static bool spoil;

static bt_status launch(void *self, bt_context *context, const bt_fused *group, void *const *at)
{
    bt_fused given = *group;
    (void)self;
    for (int i = 0; spoil && i < given.code_count; ++i) {
        given.code[i].op = given.code[i].op == BT_FUSED_ADD ? BT_FUSED_SUB : given.code[i].op;
    }
    return bt_compiler_launch(compiler, context, &given, at);
}

static bool differs(void *self, const bt_dag *graph)
{
    checker *c = self;
    const bt_fuse_options options = {.kinds = 1U << BT_FUSED_ELEMENTWISE | 1U << BT_FUSED_ROW |
                                              1U << BT_FUSED_PRODUCT,
                                     .products = true};
    unsigned char *expected = NULL, *got = NULL;
    bt_fusion_plan plan;
    bt_compiler made;
    bt_compiler_init(&made, &c->cache);
    ASSERT_OK(bt_dag_fuse(graph, &options, &plan));
    bool products = false;
    for (int i = 0; i < plan.count; ++i) {
        products = products || plan.groups[i].group->kind == BT_FUSED_PRODUCT;
    }
    random_dag_plan = products ? &plan : NULL;
    random_dag_launch = bt_fused_interpret;
    const size_t bytes = random_dag_run(&c->f, graph, &expected);
    compiler = &made, spoil = c->spoil;
    random_dag_plan = &plan;
    random_dag_launch = launch;
    assert_int_equal(random_dag_run(&c->f, graph, &got), bytes);
    random_dag_plan = NULL;
    const bool same = memcmp(expected, got, bytes) == 0;
    c->groups += made.count;
    c->products += products;
    c->fallbacks += made.fallbacks;
    free(expected);
    free(got);
    bt_compiler_release(&made);
    bt_fusion_plan_release(&plan);
    return !same;
}

static void open_checker(checker *c)
{
    fixture_open(&c->f, 0);
    ASSERT_OK(
        bt_code_cache_open(&bt_file_ops_system, test_scratch_path("code"), 1 << 26, &c->cache));
}

static void close_checker(checker *c)
{
    bt_code_cache_close(&c->cache);
    fixture_close(&c->f);
}

static void random_graphs_keep_their_bits(void **state)
{
    (void)state;
    checker c = {0};
    open_checker(&c);
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)graph_count; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (differs(&c, &g)) {
            random_dag_shrink(differs, &c, &g);
            random_dag_show("generated kernels make other bits", seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    print_message("%lld groups, %lld of their runs interpreted, products in %lld graphs\n",
                  (long long)c.groups, (long long)c.fallbacks, (long long)c.products);
    assert_true(c.products > 0);
    assert_true(c.groups > graph_count / 4);
    assert_int_equal(c.fallbacks, 0);
    close_checker(&c);
}

static void larger_graphs_keep_their_bits(void **state)
{
    graph_count = graph_count / 4 + 1;
    random_dag_large = true;
    random_graphs_keep_their_bits(state);
    random_dag_large = false;
}

static void a_wrong_kernel_is_found(void **state)
{
    (void)state;
    checker c = {.spoil = true};
    int found = 0;
    open_checker(&c);
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        found += differs(&c, &g);
        bt_dag_release(&g);
    }
    assert_true(found > 0);
    close_checker(&c);
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    if (bt_compiler_available() == BT_STATUS_UNAVAILABLE) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_keep_their_bits),
        cmocka_unit_test(larger_graphs_keep_their_bits),
        cmocka_unit_test(a_wrong_kernel_is_found),
    };
    return cmocka_run_group_tests(tests, test_scratch_setup, test_scratch_teardown);
}
