// tests/fault/test_train_faults.c - kernels that give wrong numbers while training continues
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/faulty_device.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 8, SEEN_MAX = 64, TEXT_BYTES = 3000 };

typedef struct seen {
    float loss[STEPS];
    int64_t steps, faults;
    struct {
        int64_t step;
        bt_train_fault_kind kind;
        char action[16], message[TEXT_BYTES];
    } fault[SEEN_MAX];
    bt_train_result result;
} seen;

static bt_status on_step(void *self, const bt_train_step *event)
{
    seen *s = self;
    assert_int_equal(event->step, s->steps);
    s->loss[s->steps++] = event->loss;
    return BT_OK;
}

static bt_status on_fault(void *self, const bt_train_fault *event)
{
    seen *s = self;
    assert_true(s->faults < SEEN_MAX);
    s->fault[s->faults].step = event->step;
    s->fault[s->faults].kind = event->kind;
    (void)snprintf(s->fault[s->faults].action, sizeof s->fault[0].action, "%s", event->action);
    (void)snprintf(s->fault[s->faults].message, TEXT_BYTES, "%s", event->message);
    ++s->faults;
    return BT_OK;
}

static bt_train_graph graph; // of every plan: all tests also apply to replayed steps

static bt_train_plan base_plan(void)
{
    bt_train_plan plan = small_train_plan();
    plan.device = "faulty";
    plan.graph = graph;
    plan.model.layers = 1;
    plan.steps = STEPS;
    plan.eval_every = 0;
    plan.profile_steps = 0;
    return plan;
}

static bt_status train(const bt_train_plan *plan, const faulty_plan *fault, seen *out)
{
    const bt_train_observer observer = {.self = out, .step = on_step, .fault = on_fault};
    memset(out, 0, sizeof *out);
    faulty_device_plan(fault);
    return bt_train_run(plan, &observer, &out->result);
}

// The first launch of `op` in step `step`, counting from 1; *per_step: launches of a step.
static int64_t launch_in(bt_kernel_op op, int64_t step, int64_t *per_step)
{
    static seen clean;
    const bt_train_plan plan = base_plan();
    const faulty_plan count = {.kind = FAULTY_SCALE, .op = op, .from = INT64_MAX};
    ASSERT_OK(train(&plan, &count, &clean));
    assert_int_equal(clean.faults, 0);
    *per_step = faulty_device_launches() / STEPS;
    assert_int_equal(faulty_device_launches() % STEPS, 0);
    return step * *per_step + 1;
}

static void expect(const seen *s, int64_t index, int64_t step, bt_train_fault_kind kind,
                   const char *action, const char *words)
{
    assert_true(index < s->faults);
    if (s->fault[index].step != step || s->fault[index].kind != kind ||
        strcmp(s->fault[index].action, action) != 0 || !strstr(s->fault[index].message, words)) {
        fail_msg("fault %lld: step %lld, %s, %s: %s\nexpected %s: %s", (long long)index,
                 (long long)s->fault[index].step, bt_train_fault_name(s->fault[index].kind),
                 s->fault[index].action, s->fault[index].message, action, words);
    }
}

static seen s, other;
static const faulty_plan none = {.kind = FAULTY_NONE};

// ---- a loss that is not finite -----------------------------------------------------------------

// NaN in one product of step 3, once: the step is null, the run continues, and reports it once.
static void without_a_policy_it_is_flagged(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    const faulty_plan once = {FAULTY_NAN, BT_KERNEL_GEMM, at, at};
    ASSERT_OK(train(&plan, &once, &s));
    assert_int_equal(s.steps, STEPS);
    assert_true(isnan(s.loss[3]) && isfinite(s.loss[4]));
    assert_int_equal(s.faults, 1);
    expect(&s, 0, 3, BT_TRAIN_FAULT_NONFINITE, "continue", "loss nan");
}

static void stop_ends_the_run(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    plan.on_nonfinite = BT_TRAIN_POLICY_STOP;
    ASSERT_OK(train(&plan, &none, &s)); // without a fault the policy changes nothing
    plan.on_nonfinite = BT_TRAIN_POLICY_CONTINUE;
    ASSERT_OK(train(&plan, &none, &other));
    assert_string_equal(s.result.state_digest, other.result.state_digest);
    plan.on_nonfinite = BT_TRAIN_POLICY_STOP;
    const faulty_plan once = {FAULTY_NAN, BT_KERNEL_GEMM, at, at};
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "step 3: loss nan", train(&plan, &once, &s));
    assert_int_equal(s.steps, 4);
    expect(&s, 0, 3, BT_TRAIN_FAULT_NONFINITE, "stop", "the first result was a hardware error");
    // A fault that recurs in the replay is the program's, and the op is named.
    const faulty_plan always = {FAULTY_NAN, BT_KERNEL_GEMM, at, INT64_MAX};
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "non-finite", train(&plan, &always, &other));
    assert_non_null(strstr(bt_error_message(), "so the cause is software or data: "));
    assert_non_null(strstr(bt_error_message(), ", in step/forward/block/"));
    (void)each;
}

// The state after the run is that of a run in which the step's update is left out: every skipped
// run ends with the same bits, wherever in the step the fault was.
static void skip_leaves_the_update_out(void **state)
{
    (void)state;
    int64_t each = 0;
    char digest[33] = "";
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    plan.on_nonfinite = BT_TRAIN_POLICY_SKIP;
    for (int64_t i = 0; i < each; i += each / 3) {
        const faulty_plan once = {FAULTY_NAN, BT_KERNEL_GEMM, at + i, at + i};
        ASSERT_OK(train(&plan, &once, &s));
        assert_int_equal(s.steps, STEPS);
        assert_int_equal(s.faults, 1);
        expect(&s, 0, 3, BT_TRAIN_FAULT_NONFINITE, "skip", "hardware");
        assert_true(isfinite(s.loss[7]));
        assert_true(*digest == '\0' || strcmp(digest, s.result.state_digest) == 0);
        (void)snprintf(digest, sizeof digest, "%s", s.result.state_digest);
    }
    ASSERT_OK(train(&plan, &none, &other));
    assert_memory_equal(s.loss, other.loss, 3 * sizeof(float)); // steps 0 to 2
    assert_string_not_equal(digest, other.result.state_digest);
}

static void skipping_for_ever_ends_the_run(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan();
    const faulty_plan always = {FAULTY_NAN, BT_KERNEL_GEMM, 1, INT64_MAX};
    plan.steps = 2 * BT_TRAIN_REFUSALS_MAX;
    plan.on_nonfinite = BT_TRAIN_POLICY_SKIP;
    static seen many;
    const bt_train_observer observer = {.self = &many, .fault = on_fault};
    memset(&many, 0, sizeof many);
    faulty_device_plan(&always);
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "too many such steps in a row",
                 bt_train_run(&plan, &observer, &many.result));
    assert_int_equal(many.faults, BT_TRAIN_REFUSALS_MAX + 1);
    expect(&many, 0, 0, BT_TRAIN_FAULT_NONFINITE, "skip", "forward of ");
}

static void rollback_takes_the_newest_checkpoint(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 5, &each);
    const faulty_plan once = {FAULTY_NAN, BT_KERNEL_GEMM, at, at};
    plan.on_nonfinite = BT_TRAIN_POLICY_ROLLBACK;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no checkpoints are written", train(&plan, &once, &s));
    assert_non_null(test_scratch_make());
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        char folder[128];
        (void)snprintf(folder, sizeof folder, "%s",
                       test_scratch_path(asynchronous ? "asynchronous" : "synchronous"));
        plan.checkpoints = (bt_train_checkpoints){
            .folder = folder, .every_steps = 4, .asynchronous = asynchronous != 0};
        ASSERT_OK(train(&plan, &once, asynchronous ? &other : &s));
    }
    assert_int_equal(s.steps, STEPS);
    assert_int_equal(s.faults, 1);
    expect(
        &s, 0, 5, BT_TRAIN_FAULT_NONFINITE, "rollback",
        "parameters and moments of step 4 were restored, the batches of steps 4 to 5 are skipped");
    assert_true(isfinite(s.loss[6]));
    assert_string_equal(s.result.state_digest, other.result.state_digest);
    // Before the first checkpoint there is nothing to go back to.
    const int64_t early = launch_in(BT_KERNEL_GEMM, 1, &each);
    const faulty_plan first = {FAULTY_NAN, BT_KERNEL_GEMM, early, early};
    char fresh[128];
    (void)snprintf(fresh, sizeof fresh, "%s", test_scratch_path("fresh"));
    plan.checkpoints.folder = fresh;
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "there is no checkpoint to roll back to",
                 train(&plan, &first, &s));
    test_scratch_remove();
}

static void anomaly_mode_names_op_range_and_tensor(void **state)
{
    (void)state;
    bt_train_plan plan = base_plan();
    plan.anomaly = true;
    ASSERT_OK(train(&plan, &none, &s));
    assert_int_equal(s.faults, 0);
    int64_t each = 0;
    plan.anomaly = false;
    const int64_t at = launch_in(BT_KERNEL_GEMM, 2, &each);
    const faulty_plan once = {FAULTY_NAN, BT_KERNEL_GEMM, at, at}; // the first product: forward
    plan.anomaly = true;
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA,
                 "forward of linear produced the first non-finite value: 1 of ",
                 train(&plan, &once, &s));
    expect(&s, 0, 2, BT_TRAIN_FAULT_ANOMALY, "stop", "in step/forward/block/attention/linear");
    expect(&s, 0, 2, BT_TRAIN_FAULT_ANOMALY, "stop", "output 0, [");
    expect(&s, 0, 2, BT_TRAIN_FAULT_ANOMALY, "stop", "attributes: activation ");
    const faulty_plan late = {FAULTY_NAN, BT_KERNEL_GEMM, at + each / 2 - 1, at + each / 2 - 1};
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "produced the first non-finite gradient: 1 of ",
                 train(&plan, &late, &s));
    expect(&s, 0, 2, BT_TRAIN_FAULT_ANOMALY, "stop", ", in step/backward/");
}

// ---- spikes ------------------------------------------------------------------------------------

static void a_spike_is_flagged_and_nothing_else_changes(void **state)
{
    (void)state;
    enum { LONG = 60, BAD = 50 };
    bt_train_plan plan = base_plan();
    plan.steps = LONG;
    static seen many;
    const bt_train_observer observer = {.self = &many, .fault = on_fault};
    int64_t each = 0;
    const int64_t mean = launch_in(BT_KERNEL_CROSS_ENTROPY_MEAN, BAD, &each);
    const faulty_plan large[] = {
        {FAULTY_SCALE, BT_KERNEL_GRAD_NORM, BAD + 1, BAD + 1},
        {FAULTY_SCALE, BT_KERNEL_CROSS_ENTROPY_MEAN, mean, mean + each - 1},
    };
    const bt_train_fault_kind kinds[] = {BT_TRAIN_FAULT_EXPLOSION, BT_TRAIN_FAULT_SPIKE};
    for (int i = 0; i < 2; ++i) {
        memset(&many, 0, sizeof many);
        faulty_device_plan(&large[i]);
        ASSERT_OK(bt_train_run(&plan, &observer, &many.result));
        assert_int_equal(many.faults, 1);
        expect(&many, 0, BAD, kinds[i], "continue", "median of the last 64");
    }
}

// ---- silent corruption -------------------------------------------------------------------------

// Several bits of each 32nd element of one product, in a step that is verified.
static void other_bits_are_the_hardware(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    plan.verify_every = 4; // steps 3 and 7
    plan.precision = BT_PRECISION_FP32;
    ASSERT_OK(train(&plan, &none, &other));
    assert_int_equal(other.faults, 0);
    plan.verify_every = 0;
    ASSERT_OK(train(&plan, &none, &s));
    assert_string_equal(s.result.state_digest, other.result.state_digest); // replays leave no trace
    assert_memory_equal(s.loss, other.loss, sizeof s.loss);
    plan.verify_every = 4;
    for (int64_t i = 0; i < each; i += each / 4) { // forward and backward
        const faulty_plan once = {FAULTY_FLIP, BT_KERNEL_GEMM, at + i, at + i};
        ASSERT_OK(train(&plan, &once, &s));
        assert_int_equal(s.faults, 1);
        expect(&s, 0, 3, BT_TRAIN_FAULT_CORRUPTION, "corrected", "hardware: the step and its");
        expect(&s, 0, 3, BT_TRAIN_FAULT_CORRUPTION, "corrected", "the step was wrong, its replays");
        assert_string_equal(s.result.state_digest, other.result.state_digest);
        // The same in the replay: the step itself was right.
        const faulty_plan replay = {FAULTY_FLIP, BT_KERNEL_GEMM, at + i + each, at + i + each};
        ASSERT_OK(train(&plan, &replay, &s));
        expect(&s, 0, 3, BT_TRAIN_FAULT_CORRUPTION, "corrected", "the first replay was wrong");
        assert_string_equal(s.result.state_digest, other.result.state_digest);
        assert_memory_equal(s.loss, other.loss, sizeof s.loss);
    }
}

// Checkpoints of the parameters alone are smaller than the state that a replay needs.
static void a_replay_has_the_whole_state_beside_small_checkpoints(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    assert_non_null(test_scratch_make());
    plan.model.width = 512; // more than a segment of the pool
    ASSERT_OK(train(&plan, &none, &other));
    plan.verify_every = 4;
    plan.checkpoints = (bt_train_checkpoints){
        .folder = test_scratch_path("small"), .at_end = true, .parameters_only = true};
    const faulty_plan once = {FAULTY_FLIP, BT_KERNEL_GEMM, at, at};
    ASSERT_OK(train(&plan, &once, &s));
    expect(&s, 0, 3, BT_TRAIN_FAULT_CORRUPTION, "corrected", "the step was wrong, its replays");
    assert_string_equal(s.result.state_digest, other.result.state_digest);
    test_scratch_remove();
}

static void three_results_end_the_run(void **state)
{
    (void)state;
    int64_t each = 0;
    bt_train_plan plan = base_plan();
    plan.verify_every = 4;
    const int64_t at = launch_in(BT_KERNEL_GEMM, 3, &each);
    // From the last product of the step to the first of its replay: both err, each otherwise.
    const faulty_plan twice = {FAULTY_FLIP, BT_KERNEL_GEMM, at + each - 1, at + each};
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "no two results agree", train(&plan, &twice, &s));
    expect(&s, 0, 3, BT_TRAIN_FAULT_CORRUPTION, "stop", "hardware");
    // A fault that repeats bit by bit is not detected, as documented in verify.c.
    const faulty_plan always = {FAULTY_FLIP, BT_KERNEL_GEMM, 1, INT64_MAX};
    ASSERT_OK(train(&plan, &always, &s));
    for (int64_t i = 0; i < s.faults; ++i) {
        assert_int_not_equal(s.fault[i].kind, BT_TRAIN_FAULT_CORRUPTION);
    }
}

// ---- a copy of the state that takes its time ----------------------------------------------------

enum { HELD_FROM = 2, HELD_TO = 5 }; // a checkpoint after step 2 copies until step 5 is done

static int64_t joins_of_step[STEPS];

static bt_status count_joins(void *self, const bt_train_step *event)
{
    (void)self;
    joins_of_step[event->step] = faulty_device_joins();
    if (event->step == HELD_FROM - 1) {
        faulty_device_hold(true);
    } else if (event->step == HELD_TO) {
        faulty_device_hold(false);
    }
    return BT_OK;
}

// Joining all streams would make each of those steps wait for the copy, after the step's timed
// region.
static void steps_do_not_wait_for_the_copy_of_a_checkpoint(void **state)
{
    (void)state;
    const bt_train_observer observer = {.step = count_joins};
    bt_train_plan plan = base_plan();
    bt_train_result result;
    assert_non_null(test_scratch_make());
    plan.checkpoints = (bt_train_checkpoints){
        .folder = test_scratch_path("held"), .every_steps = HELD_FROM, .asynchronous = true};
    faulty_device_plan(&none);
    const int64_t before = faulty_device_joins();
    ASSERT_OK(bt_train_run(&plan, &observer, &result));
    assert_int_equal(joins_of_step[0], before + 1);
    assert_int_equal(joins_of_step[HELD_FROM - 1], before + HELD_FROM);
    assert_int_equal(joins_of_step[HELD_TO], before + HELD_FROM);
    test_scratch_remove();
}

static int set_up(void **state)
{
    faulty_device_add();
    return small_corpus_write(state);
}

static int eager(void **state)
{
    (void)state;
    graph = BT_TRAIN_GRAPH_OFF;
    return 0;
}

static int captured(void **state)
{
    (void)state;
    graph = BT_TRAIN_GRAPH_ON;
    return 0;
}

#define BOTH(test) cmocka_unit_test_setup(test, eager), cmocka_unit_test_setup(test, captured)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(without_a_policy_it_is_flagged),
        BOTH(stop_ends_the_run),
        BOTH(skip_leaves_the_update_out),
        BOTH(skipping_for_ever_ends_the_run),
        BOTH(rollback_takes_the_newest_checkpoint),
        BOTH(anomaly_mode_names_op_range_and_tensor),
        BOTH(a_spike_is_flagged_and_nothing_else_changes),
        BOTH(other_bits_are_the_hardware),
        BOTH(a_replay_has_the_whole_state_beside_small_checkpoints),
        BOTH(three_results_end_the_run),
        BOTH(steps_do_not_wait_for_the_copy_of_a_checkpoint),
    };
    return cmocka_run_group_tests_name("faults of training", tests, set_up, small_corpus_remove);
}
