// tests/conformance/test_train_graph.c - steps captured as CUDA graphs: the bits of eager steps
#include <stdio.h>
#include <string.h>

#include "tests/support/graph_runs.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static graph_run run;

static bt_train_plan gpu_plan(bt_precision precision)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "cuda";
    plan.precision = precision;
    plan.model.width = 128; // heads of 64
    plan.graph = BT_TRAIN_GRAPH_ON;
    return plan;
}

// Every precision and way to recompute, with 4 micro-batches a step, evaluations between replays,
// and steps that are verified by an eager replay.
static void every_mode_has_the_bits_of_eager_steps(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        for (int recompute = 0; recompute < BT_RECOMPUTE_COUNT; ++recompute) {
            bt_train_plan plan = gpu_plan((bt_precision)precision);
            plan.recompute = (bt_recompute_mode)recompute;
            plan.micro_batch = 4;
            plan.eval_every = 4;
            plan.verify_every = 5;
            plan.on_nonfinite = recompute % 2 ? BT_TRAIN_POLICY_SKIP : BT_TRAIN_POLICY_CONTINUE;
            const bool host = recompute == BT_RECOMPUTE_BLOCK_OFFLOAD;
            graph_runs_expect_same(&plan, host ? 0 : 6, &run);
            assert_int_equal(run.faults, 0);
        }
    }
}

// The kernels of the full model: those of large shapes, with tuned plans and workspaces.
static void gpt2_124m_is_captured(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        bt_train_plan plan = gpu_plan((bt_precision)precision);
        plan.model = (bt_model_config){
            .layers = 12, .heads = 12, .width = 768, .vocab = 50304, .context = 1024};
        plan.optimizer.lr = 6e-4;
        plan.micro_batch = 2;
        plan.sequence = 512;
        plan.tokens_per_step = 2048;
        plan.steps = 6;
        plan.warmup_timing_steps = plan.profile_steps = plan.eval_every = 0;
        graph_runs_expect_same(&plan, 3, &run);
    }
}

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        const bt_train_plan plan = gpu_plan((bt_precision)precision);
        graph_runs_expect_resumed(&plan, 2);
    }
}

int main(void)
{
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_has_the_bits_of_eager_steps),
        cmocka_unit_test(gpt2_124m_is_captured),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
    };
    return cmocka_run_group_tests_name("captured steps on a GPU", tests, small_corpus_write,
                                       small_corpus_remove);
}
