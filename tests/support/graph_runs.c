// tests/support/graph_runs.c - runs with and without graphs, compared bit by bit
#include "tests/support/graph_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

static bt_status on_start(void *self, const bt_train_start *event)
{
    graph_run *run = self;
    run->first = run->steps = event->first_step;
    return BT_OK;
}

static bt_status on_step(void *self, const bt_train_step *event)
{
    graph_run *run = self;
    assert_true(event->step == run->steps && run->steps < GRAPH_STEPS_MAX);
    assert_true(event->enqueue_ns >= 0 && event->enqueue_ns <= event->host_ns);
    assert_true(event->device_ns > 0);
    run->loss[run->steps] = event->loss;
    run->grad_norm[run->steps] = event->grad_norm;
    run->launch[run->steps++] = event->launch;
    ++run->count[event->launch];
    return BT_OK;
}

static bt_status on_mode(void *self, const bt_train_mode *event)
{
    graph_run *run = self;
    assert_int_equal(event->step, run->steps - 1); // after the step's event
    assert_int_equal(event->launch, run->launch[run->steps - 1]);
    run->mode[run->modes++] = *event;
    (void)snprintf(run->message, sizeof run->message, "%s", event->message);
    return BT_OK;
}

static bt_status on_fault(void *self, const bt_train_fault *event)
{
    (void)event;
    ++((graph_run *)self)->faults;
    return BT_OK;
}

void graph_run_train(const bt_train_plan *plan, graph_run *out)
{
    const bt_train_observer observer = {
        .self = out, .start = on_start, .step = on_step, .mode = on_mode, .fault = on_fault};
    memset(out, 0, sizeof *out);
    ASSERT_OK(bt_train_run(plan, &observer, &out->result));
    // A mode is reported only when it changes.
    int64_t changes = 0;
    for (int64_t i = out->first; i < out->steps; ++i) {
        changes += i == out->first || out->launch[i] != out->launch[i - 1];
    }
    assert_int_equal(out->modes, changes);
}

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void graph_runs_expect_bits(const graph_run *a, const graph_run *b)
{
    const int64_t first = a->first > b->first ? a->first : b->first;
    assert_int_equal(a->steps, b->steps);
    for (int64_t i = first; i < a->steps; ++i) {
        if (bits_of(a->loss[i]) != bits_of(b->loss[i]) ||
            bits_of(a->grad_norm[i]) != bits_of(b->grad_norm[i])) {
            fail_msg("step %lld (%s and %s): loss %.9g and %.9g, norm %.9g and %.9g", (long long)i,
                     bt_train_launch_name(a->launch[i]), bt_train_launch_name(b->launch[i]),
                     (double)a->loss[i], (double)b->loss[i], (double)a->grad_norm[i],
                     (double)b->grad_norm[i]);
        }
    }
    assert_string_equal(a->result.state_digest, b->result.state_digest);
}

void graph_runs_expect_same(const bt_train_plan *plan, int64_t least, graph_run *on)
{
    static graph_run off;
    bt_train_plan own = *plan;
    own.graph = BT_TRAIN_GRAPH_OFF;
    graph_run_train(&own, &off);
    assert_int_equal(off.count[BT_TRAIN_LAUNCH_OFF], off.steps - off.first);
    own.graph = BT_TRAIN_GRAPH_ON;
    graph_run_train(&own, on);
    if (on->count[BT_TRAIN_LAUNCH_GRAPH] < least) {
        fail_msg("%lld steps of %lld were replays, expected %lld; the last mode: %s",
                 (long long)on->count[BT_TRAIN_LAUNCH_GRAPH], (long long)(on->steps - on->first),
                 (long long)least, on->message);
    }
    graph_runs_expect_bits(&off, on);
    // Evaluations, too: they use the memory of the steps between two replays.
    assert_true(off.result.val_loss == on->result.val_loss ||
                (isnan(off.result.val_loss) && isnan(on->result.val_loss)));
}

void graph_runs_expect_resumed(const bt_train_plan *plan, int64_t least)
{
    static graph_run whole, run;
    bt_train_plan own = *plan;
    own.graph = BT_TRAIN_GRAPH_OFF;
    graph_run_train(&own, &whole);
    assert_non_null(test_scratch_make());
    char folder[128];
    (void)snprintf(folder, sizeof folder, "%s", test_scratch_path("saved"));
    own.graph = BT_TRAIN_GRAPH_ON;
    own.checkpoints = (bt_train_checkpoints){
        .folder = folder, .every_steps = 5, .asynchronous = true, .at_end = true};
    graph_run_train(&own, &run);
    graph_runs_expect_bits(&whole, &run);
    own.checkpoints.resume = true;
    own.checkpoints.resume_below = 7;
    graph_run_train(&own, &run);
    assert_int_equal(run.first, 5);
    assert_true(run.count[BT_TRAIN_LAUNCH_GRAPH] >= least);
    graph_runs_expect_bits(&whole, &run);
    test_scratch_remove();
}
