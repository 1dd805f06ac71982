// tests/conformance/test_train.c - training on a GPU: the CPU's losses in fp32, the same bits twice
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/small_train.h"
#include "tests/support/test.h"

typedef struct curve {
    float loss[SMALL_STEPS];
    bt_train_result result;
} curve;

static bt_status on_step(void *self, const bt_train_step *event)
{
    ((curve *)self)->loss[event->step] = event->loss;
    return BT_OK;
}

static void train(const bt_train_plan *plan, curve *out)
{
    bt_train_observer observer = {.self = out, .step = on_step};
    *out = (curve){0};
    ASSERT_OK(bt_train_run(plan, &observer, &out->result));
}

static bt_train_plan gpu_plan(bt_precision precision)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "cuda";
    plan.precision = precision;
    plan.model.width = 128; // heads of 64
    return plan;
}

static void losses_follow_the_cpu(void **state)
{
    (void)state;
    // fp32: sums in another order. tf32 and bf16: eps of the operands, over a short run.
    const double tolerance[BT_PRECISION_COUNT] = {
        [BT_PRECISION_FP32] = 1e-5, [BT_PRECISION_TF32] = 2e-3, [BT_PRECISION_BF16] = 2e-2};
    bt_train_plan reference = gpu_plan(BT_PRECISION_FP32);
    curve expected;
    reference.device = "cpu";
    train(&reference, &expected);
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        bt_train_plan plan = gpu_plan((bt_precision)precision);
        curve actual;
        train(&plan, &actual);
        for (int i = 0; i < SMALL_STEPS; ++i) {
            double error = fabs((double)actual.loss[i] / (double)expected.loss[i] - 1);
            if (!(error <= tolerance[precision] * (1 + i / 4.0))) {
                fail_msg("%s, step %d: loss %.7f, on the CPU %.7f",
                         bt_precision_name(plan.precision), i, (double)actual.loss[i],
                         (double)expected.loss[i]);
            }
        }
        assert_true(fabs(actual.result.val_loss / expected.result.val_loss - 1) <=
                    5 * tolerance[precision]);
    }
}

// Gradients in flat buckets, summed in a tree of shards: losses of the run without, and the same
// bits twice.
static void virtual_shards_repeat_their_bits(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        bt_train_plan plan = gpu_plan((bt_precision)precision);
        curve plain, sharded[2];
        plan.micro_batch = 2; // 8 micro-batches a step
        train(&plan, &plain);
        plan.parallel.bucket_mb = 0.5;
        for (int i = 0; i < 2; ++i) {
            plan.parallel.invariant = 4;
            train(&plan, &sharded[i]);
        }
        assert_memory_equal(sharded[0].loss, sharded[1].loss, sizeof plain.loss);
        assert_string_equal(sharded[0].result.state_digest, sharded[1].result.state_digest);
        for (int i = 0; i < SMALL_STEPS; ++i) {
            const double error = fabs((double)sharded[0].loss[i] / (double)plain.loss[i] - 1);
            assert_true(error <= (precision == BT_PRECISION_FP32 ? 1e-5 : 2e-2) * (1 + i / 4.0));
        }
    }
}

// GPT-2 124M in fp32: 1e-4 relative over the first 5 steps, on the same data.
static void gpt2_124m_equals_the_cpu(void **state)
{
    (void)state;
    bt_train_plan plan = small_train_plan();
    curve on[2];
    plan.model =
        (bt_model_config){.layers = 12, .heads = 12, .width = 768, .vocab = 50304, .context = 1024};
    plan.optimizer.lr = 6e-4;
    plan.micro_batch = 4;
    plan.sequence = 128;
    plan.tokens_per_step = 512;
    plan.steps = 5;
    plan.warmup_timing_steps = plan.profile_steps = plan.eval_every = 0;
    for (int gpu = 0; gpu < 2; ++gpu) {
        plan.device = gpu ? "cuda" : "cpu";
        train(&plan, &on[gpu]);
    }
    for (int i = 0; i < 5; ++i) {
        print_message("step %d: cpu %.7f, gpu %.7f\n", i, (double)on[0].loss[i],
                      (double)on[1].loss[i]);
        assert_true(fabs((double)on[1].loss[i] / (double)on[0].loss[i] - 1) <= 1e-4);
    }
}

static void bits_repeat(void **state)
{
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        bt_train_plan plan = gpu_plan((bt_precision)precision);
        curve first;
        train(&plan, &first);
        for (int repeat = 0; repeat <= BT_RECOMPUTE_COUNT; ++repeat) {
            curve again;
            plan.recompute = (bt_recompute_mode)(repeat % BT_RECOMPUTE_COUNT);
            plan.recompute_blocks = repeat == BT_RECOMPUTE_BLOCK;
            plan.profile_steps = repeat;
            train(&plan, &again);
            assert_memory_equal(first.loss, again.loss, sizeof first.loss);
            assert_string_equal(first.result.state_digest, again.result.state_digest);
        }
    }
}

static void a_full_device_is_reported(void **state)
{
    (void)state;
    bt_train_plan plan = gpu_plan(BT_PRECISION_BF16);
    bt_train_observer quiet = {0};
    bt_train_result result;
    plan.model.vocab = 8000000; // 262 GB of token embedding: more than any device has
    plan.model.width = 8192;
    plan.model.heads = 64;
    ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "wte.weight", bt_train_run(&plan, &quiet, &result));
}

int main(void)
{
    int count = 0;
    if (bt_device_count("cuda", &count) != BT_OK) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_follow_the_cpu),
        cmocka_unit_test(virtual_shards_repeat_their_bits),
        cmocka_unit_test(gpt2_124m_equals_the_cpu),
        cmocka_unit_test(bits_repeat),
        cmocka_unit_test(a_full_device_is_reported),
    };
    return cmocka_run_group_tests_name("training on a GPU", tests, small_corpus_write,
                                       small_corpus_remove);
}
