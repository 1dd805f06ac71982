// tests/conformance/test_compiled.c - a Llama trained with generated kernels on a GPU, against the
// same run eagerly
//
// Row sums are made in another order, so losses differ by rounding that training carries on:
// relative bounds over 12 steps, by precision. Without a compiler the code must be in the cache
// (bt-bench compile --target).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/graph_runs.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

typedef struct curve {
    float loss[SMALL_STEPS];
    int64_t steps;
    char note[1024];
    bt_train_result result;
} curve;

static bt_status on_step(void *self, const bt_train_step *event)
{
    curve *c = self;
    c->loss[c->steps++] = event->loss;
    return BT_OK;
}

static bt_status on_note(void *self, const char *text)
{
    curve *c = self;
    if (strncmp(text, "compile:", 8) == 0) {
        (void)snprintf(c->note, sizeof c->note, "%s", text);
    }
    return BT_OK;
}

static bt_train_plan llama_plan(bt_precision precision, bool compile)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "cuda";
    plan.precision = precision;
    plan.model = (bt_model_config){.family = "llama",
                                   .layers = 2,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .width = 128,
                                   .hidden = 192,
                                   .vocab = 64,
                                   .context = 16};
    plan.compile = compile;
    return plan;
}

static void train(bt_precision precision, bool compile, int64_t verify_every, curve *out)
{
    bt_train_plan plan = llama_plan(precision, compile);
    const bt_train_observer told = {.self = out, .step = on_step, .note = on_note};
    memset(out, 0, sizeof *out);
    plan.verify_every = verify_every;
    ASSERT_OK(bt_train_run(&plan, &told, &out->result));
    assert_int_equal(out->steps, SMALL_STEPS);
}

static void losses_are_close_and_bits_repeat(void **state)
{
    static const double bounds[BT_PRECISION_COUNT] = {
        [BT_PRECISION_FP32] = 1e-4, [BT_PRECISION_TF32] = 5e-3, [BT_PRECISION_BF16] = 3e-2};
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        curve eager, compiled, again;
        train((bt_precision)precision, false, 0, &eager);
        train((bt_precision)precision, true, 0, &compiled);
        train((bt_precision)precision, true, 3, &again); // a replay that differs would be a fault
        print_message("%s: %s\n", bt_precision_name((bt_precision)precision), compiled.note);
        if (strstr(compiled.note, "not built") || strstr(compiled.note, "libbt_mlir")) {
            skip();
        }
        assert_non_null(strstr(compiled.note, "kernel calls run as"));
        assert_null(strstr(compiled.note, "have no code"));
        assert_string_equal(compiled.result.state_digest, again.result.state_digest);
        for (int i = 0; i < SMALL_STEPS; ++i) {
            const double a = (double)eager.loss[i], b = (double)compiled.loss[i];
            if (!(fabs(a - b) <= bounds[precision] * a)) {
                fail_msg("step %d: eager %.9g, compiled %.9g", i, a, b);
            }
        }
    }
}

// Generated kernels in a CUDA graph, with two micro-batches a step and evaluations in between.
static void captured_steps_have_the_same_bits(void **state)
{
    static graph_run run;
    (void)state;
    for (int precision = 0; precision < BT_PRECISION_COUNT; ++precision) {
        const bt_train_plan plan = llama_plan((bt_precision)precision, true);
        graph_runs_expect_same(&plan, SMALL_STEPS / 2, &run);
    }
}

int main(void)
{
    int devices = 0;
    if (bt_device_count("cuda", &devices) != BT_OK) {
        return test_skip(bt_error_message());
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_close_and_bits_repeat),
        cmocka_unit_test(captured_steps_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, small_corpus_write, small_corpus_remove);
}
