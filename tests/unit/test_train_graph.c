// tests/unit/test_train_graph.c - steps captured and replayed, on a backend that does with a list
// of calls what a GPU does with a graph
#include <stdio.h>
#include <string.h>

#include "framework/train/trainer.h"
#include "tests/support/fake_graph.h"
#include "tests/support/faulty_device.h"
#include "tests/support/graph_runs.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

static graph_run run, other;

static bt_train_plan graph_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "faulty";
    plan.graph = BT_TRAIN_GRAPH_ON;
    return plan;
}

static void expect_launches(const graph_run *r, const char *expected)
{
    bt_str said = {0};
    for (int64_t i = r->first; i < r->steps; ++i) {
        bt_str_format(&said, "%s ", bt_train_launch_name(r->launch[i]));
    }
    assert_string_equal(bt_str_text(&said), expected);
    bt_str_release(&said);
}

// Recorded, replayed by the pool, captured; then replays, but for the two profiled steps.
static void a_step_is_captured_once_and_replayed(void **state)
{
    (void)state;
    const bt_train_plan plan = graph_plan();
    const int64_t captures = fake_graph_captures(), launches = fake_graph_launches();
    const faulty_plan updates = {.kind = FAULTY_SCALE, .op = BT_KERNEL_ADAMW, .from = INT64_MAX};
    faulty_device_plan(&updates);
    graph_runs_expect_same(&plan, 7, &run);
    expect_launches(&run, "memory memory capture graph profiled graph graph graph graph profiled "
                          "graph graph ");
    assert_int_equal(fake_graph_captures() - captures, 1);
    assert_int_equal(fake_graph_launches() - launches, 8);
    assert_int_equal(fake_graph_live(), 0);
    assert_int_equal(faulty_device_launches(), 2 * SMALL_STEPS); // an update for each step
    assert_int_equal(run.mode[0].launch, BT_TRAIN_LAUNCH_MEMORY);
}

static void every_mode_has_the_bits_of_eager_steps(void **state)
{
    (void)state;
    for (int precision = 0; precision < 2; ++precision) {
        for (int recompute = 0; recompute < BT_RECOMPUTE_COUNT; ++recompute) {
            bt_train_plan plan = graph_plan();
            plan.precision = precision ? BT_PRECISION_BF16 : BT_PRECISION_FP32;
            plan.recompute = (bt_recompute_mode)recompute;
            plan.micro_batch = 4; // 4 a step
            plan.profile_steps = 0;
            plan.eval_every = 4;
            plan.on_nonfinite = recompute % 2 ? BT_TRAIN_POLICY_SKIP : BT_TRAIN_POLICY_CONTINUE;
            plan.verify_every = 5;
            const bool host = recompute == BT_RECOMPUTE_BLOCK_OFFLOAD;
            graph_runs_expect_same(&plan, host ? 0 : 9, &run);
            assert_int_equal(run.faults, 0);
            assert_int_equal(run.count[BT_TRAIN_LAUNCH_HOST], host ? SMALL_STEPS : 0);
        }
    }
}

// How many marks of the device's progress are kept after each step.
typedef struct watched_steps {
    bt_ranges ranges;
    int marks[SMALL_STEPS];
    bt_train_launch launch[SMALL_STEPS];
} watched_steps;

static bt_status count_marks(void *self, const bt_train_step *event)
{
    watched_steps *w = self;
    assert_in_range(event->step, 0, SMALL_STEPS - 1);
    w->marks[event->step] = atomic_load(&w->ranges.mark_count);
    w->launch[event->step] = event->launch;
    return BT_OK;
}

// A graph that sets marks would set those of the step that was captured.
static void graphs_set_no_marks(void **state)
{
    (void)state;
    static watched_steps watched;
    watched.ranges.watched = true;
    const bt_train_plan plan = graph_plan();
    const bt_train_observer observer = {
        .self = &watched, .step = count_marks, .ranges = &watched.ranges};
    bt_train_result result;
    ASSERT_OK(bt_train_run(&plan, &observer, &result));
    int replays = 0;
    for (int i = 0; i < SMALL_STEPS; ++i) {
        if (watched.launch[i] == BT_TRAIN_LAUNCH_MEMORY) {
            assert_true(watched.marks[i] > 3);
        } else if (watched.launch[i] != BT_TRAIN_LAUNCH_PROFILED) {
            assert_true(watched.marks[i] <= 1); // that of the update, after the graph
            ++replays;
        }
    }
    assert_true(replays > 3);
}

// Another family than GPT-2 is captured like it.
static void a_llama_is_captured(void **state)
{
    (void)state;
    bt_train_plan plan = graph_plan();
    plan.model.family = "llama";
    plan.model.kv_heads = 1;
    plan.model.hidden = 64;
    graph_runs_expect_same(&plan, 7, &run);
}

// A run that was stopped and resumed has the bits of one that was not; each captures its own graph.
static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    const bt_train_plan plan = graph_plan();
    graph_runs_expect_resumed(&plan, 3);
}

// A capture that the device cannot end: the same step runs kernel by kernel, and so do the others.
static void a_failed_capture_costs_nothing_but_the_graph(void **state)
{
    (void)state;
    bt_train_plan plan = graph_plan();
    plan.profile_steps = 0;
    plan.graph = BT_TRAIN_GRAPH_OFF;
    graph_run_train(&plan, &other);
    plan.graph = BT_TRAIN_GRAPH_ON;
    fake_graph_break_next();
    graph_run_train(&plan, &run);
    graph_runs_expect_bits(&other, &run);
    assert_int_equal(run.count[BT_TRAIN_LAUNCH_FAILED], SMALL_STEPS - 2);
    assert_non_null(strstr(run.message, "a capture failed: the capture was broken: a test"));
    assert_int_equal(fake_graph_live(), 0);
}

static void left_to_itself_a_run_is_captured(void **state)
{
    (void)state;
    bt_train_plan plan = graph_plan();
    plan.profile_steps = 0;
    plan.graph = BT_TRAIN_GRAPH_AUTO;
    graph_run_train(&plan, &run);
    assert_true(run.count[BT_TRAIN_LAUNCH_GRAPH] > SMALL_STEPS / 2);
    assert_int_equal(run.count[BT_TRAIN_LAUNCH_OFF], 0);
}

// compile: on with a model that forms no groups runs the steps of eager execution, captured.
static void a_compiled_step_without_groups_is_captured(void **state)
{
    (void)state;
    bt_train_plan plan = graph_plan();
    plan.profile_steps = 0;
    plan.graph = BT_TRAIN_GRAPH_AUTO;
    graph_run_train(&plan, &other);
    plan.compile = true;
    graph_run_train(&plan, &run);
    graph_runs_expect_bits(&other, &run);
    assert_int_equal(run.count[BT_TRAIN_LAUNCH_GRAPH], other.count[BT_TRAIN_LAUNCH_GRAPH]);
    assert_true(run.count[BT_TRAIN_LAUNCH_GRAPH] > SMALL_STEPS / 2);
}

static bt_status ignore_value(void *self, bt_context *context, const bt_train_value *event)
{
    (void)self;
    (void)context;
    (void)event;
    return BT_OK;
}

static bt_status count_launch(void *self, const bt_train_step *event)
{
    ++((int64_t *)self)[event->launch];
    return BT_OK;
}

static void expect_only(const bt_train_plan *plan, bool values, bt_train_launch launch)
{
    int64_t count[BT_TRAIN_LAUNCH_COUNT] = {0};
    const bt_train_observer observer = {
        .self = count, .step = count_launch, .value = values ? ignore_value : NULL};
    bt_train_result result;
    ASSERT_OK(bt_train_run(plan, &observer, &result));
    assert_int_equal(count[launch], plan->steps);
}

// A step that cannot be captured runs kernel by kernel, and its event gives the reason.
static void what_cannot_be_captured_says_why(void **state)
{
    (void)state;
    bt_train_plan plan = graph_plan();
    plan.graph = BT_TRAIN_GRAPH_OFF;
    expect_only(&plan, false, BT_TRAIN_LAUNCH_OFF);
    plan.graph = BT_TRAIN_GRAPH_ON;
    expect_only(&plan, true, BT_TRAIN_LAUNCH_HOST);
    plan.anomaly = true;
    expect_only(&plan, false, BT_TRAIN_LAUNCH_HOST);
    plan.anomaly = false;
    plan.parallel.invariant = 2;
    expect_only(&plan, false, BT_TRAIN_LAUNCH_RANKS);
    plan = graph_plan();
    plan.device = "cpu";
    expect_only(&plan, false, BT_TRAIN_LAUNCH_DEVICE);
    plan.graph = BT_TRAIN_GRAPH_COUNT;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "unknown graph", bt_train_check(&plan));
}

// Kernels that draw by a seed among their arguments would draw the same again.
static void kernels_that_draw_are_noticed(void **state)
{
    (void)state;
    static bt_trainer t;
    bt_kernel row = {.op = BT_KERNEL_DROPOUT};
    bt_dropout_args dropout = {.rate = 0};
    bt_attention_args attention = {.shape = {.dropout = 0.1}};
    bt_attention_backward_args backward = {.shape = {.dropout = 0.1}};
    bt_step_graph_hear(&t, &row, &dropout);
    assert_int_equal(t.graph.kernels, 0); // no capture is open
    t.graph.capturing = true;
    bt_step_graph_hear(&t, &row, &dropout);
    assert_true(t.graph.kernels == 1 && !t.graph.draws);
    dropout.rate = 0.1;
    const struct {
        bt_kernel_op op;
        const void *args;
    } calls[] = {{BT_KERNEL_DROPOUT, &dropout},
                 {BT_KERNEL_ATTENTION, &attention},
                 {BT_KERNEL_ATTENTION_BACKWARD, &backward}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        t.graph.draws = false;
        row.op = calls[i].op;
        bt_step_graph_hear(&t, &row, calls[i].args);
        assert_true(t.graph.draws);
    }
}

static int set_up(void **state)
{
    static const faulty_plan none = {.kind = FAULTY_NONE};
    faulty_device_add();
    faulty_device_plan(&none);
    return small_corpus_write(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_captured_once_and_replayed),
        cmocka_unit_test(every_mode_has_the_bits_of_eager_steps),
        cmocka_unit_test(graphs_set_no_marks),
        cmocka_unit_test(a_llama_is_captured),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_failed_capture_costs_nothing_but_the_graph),
        cmocka_unit_test(left_to_itself_a_run_is_captured),
        cmocka_unit_test(a_compiled_step_without_groups_is_captured),
        cmocka_unit_test(what_cannot_be_captured_says_why),
        cmocka_unit_test(kernels_that_draw_are_noticed),
    };
    return cmocka_run_group_tests_name("captured steps", tests, set_up, small_corpus_remove);
}
