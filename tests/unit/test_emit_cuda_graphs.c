// tests/unit/test_emit_cuda_graphs.c - the CUDA emitter refuses no group that fuse forms
//
//   unit_emit_cuda_graphs_test [graphs]
// Random graphs are formed as a compiled step on a GPU is. Needs no GPU and no MLIR: groups are
// emitted as text only. A failure prints the smallest graph that still fails.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/compiler/form.h"
#include "framework/compiler/step.h"
#include "framework/compiler/tiling.h"
#include "tests/support/random_dag.h"
#include "tests/support/test.h"

static int64_t graph_count = 3000;

typedef struct checker {
    bool unasked;                        // groups are formed without asking what is refused
    int64_t groups[BT_FUSED_KIND_COUNT]; // formed, by kind
    int64_t same_sums;                   // column sums of a value per row
    char refusal[2 * BT_ERROR_CAPACITY]; // of the last group that was refused
} checker;

static bool is_refused(checker *c, const bt_target *target, const bt_fused *group)
{
    bt_emitted_cuda emitted;
    const bt_status status = bt_tilings_emit(target, group, &emitted);
    bt_str_release(&emitted.text);
    if (status != BT_OK) {
        assert_int_equal(status, BT_STATUS_UNSUPPORTED);
        (void)snprintf(c->refusal, sizeof c->refusal, "%s", bt_error_message());
    }
    c->groups[group->kind] += 1;
    for (int i = 0; i < group->code_count; ++i) {
        c->same_sums +=
            group->code[i].op == BT_FUSED_COLUMN_SUM && group->code[i].extent == BT_FUSED_SCALAR;
    }
    return status != BT_OK;
}

// As compiled steps on CUDA: half of the calls are of the backward, products are tf32.
static void prepare(bt_dag *graph)
{
    for (int i = 0; i < graph->node_count; ++i) {
        bt_dag_node *node = &graph->nodes[i];
        node->phase = i < graph->node_count / 2 ? BT_DAG_FORWARD : BT_DAG_BACKWARD;
        if (node->op == BT_KERNEL_GEMM && ((bt_gemm_args *)node->args)->ab_dtype == BT_F32) {
            ((bt_gemm_args *)node->args)->compute = BT_COMPUTE_TF32;
        }
    }
}

// Whether some group of the graph is refused.
static bool refuses(void *self, const bt_dag *given)
{
    checker *c = self;
    bt_fuse_options options = bt_compiled_step_options(BT_TARGET_CUDA);
    bt_target target;
    bt_dag graph;
    bt_fusion_plan plan;
    bt_formed formed;
    int refused = 0;
    options.refuses = c->unasked ? NULL : options.refuses;
    ASSERT_OK(bt_target_cuda(90, &target));
    ASSERT_OK(bt_dag_copy(given, &graph));
    prepare(&graph);
    ASSERT_OK(bt_dag_form(&graph, NULL, &options, &plan, &formed));
    for (int i = 0; i < plan.count; ++i) {
        refused += is_refused(c, &target, plan.groups[i].group);
    }
    bt_fusion_plan_release(&plan);
    bt_dag_release(&graph);
    return refused > 0;
}

static void check(checker *c)
{
    for (uint64_t seed = 1; seed <= (uint64_t)graph_count; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        if (refuses(c, &g)) {
            random_dag_shrink(refuses, c, &g);
            random_dag_show(c->refusal, seed, &g);
            fail();
        }
        bt_dag_release(&g);
    }
    print_message("groups: %lld elementwise, %lld row, %lld column, %lld product; %lld sums of a "
                  "value per row\n",
                  (long long)c->groups[BT_FUSED_ELEMENTWISE], (long long)c->groups[BT_FUSED_ROW],
                  (long long)c->groups[BT_FUSED_COLUMN], (long long)c->groups[BT_FUSED_PRODUCT],
                  (long long)c->same_sums);
}

static void every_group_is_emitted(void **state)
{
    (void)state;
    checker c = {.unasked = false};
    check(&c);
    for (int kind = 0; kind <= BT_FUSED_PRODUCT; ++kind) {
        assert_true(c.groups[kind] > 0);
    }
    assert_true(c.same_sums > 0);
}

static void every_group_of_larger_graphs_is_emitted(void **state)
{
    (void)state;
    checker c = {.unasked = false};
    random_dag_large = true;
    check(&c);
    random_dag_large = false;
}

static void a_refused_group_is_found(void **state)
{
    (void)state;
    checker c = {.unasked = true};
    int found = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        bt_dag g;
        random_dag_make(seed, &g);
        found += refuses(&c, &g);
        bt_dag_release(&g);
    }
    assert_true(found > 0);
    assert_non_null(strstr(c.refusal, "no CUDA code is generated"));
}

int main(int argc, char **argv)
{
    graph_count = argc > 1 ? strtoll(argv[1], NULL, 10) : graph_count;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_is_emitted),
        cmocka_unit_test(every_group_of_larger_graphs_is_emitted),
        cmocka_unit_test(a_refused_group_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
