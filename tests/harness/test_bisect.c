// tests/harness/test_bisect.c - two recorded runs: between which steps they part, and at what value
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/diff/bisect.h"
#include "harness/suite/json.h"
#include "tests/support/faulty_device.h"
#include "tests/support/scratch.h"
#include "tests/support/small_train.h"
#include "tests/support/test.h"

enum { STEPS = 9, EVERY = 3 };

static const faulty_plan none = {.kind = FAULTY_NONE};

// A training that was recorded: its round, its checkpoints, what can be trained again.
typedef struct recorded {
    bt_train_plan plan;
    bt_store_step steps[STEPS];
    bt_store_round round;
    bt_store_state states[STEPS];
    char state_digests[STEPS][33];
    char digest[64], checkpoints[256];
} recorded;

static int64_t digests; // recorded every so many steps, of what is recorded next; 0: never
static double decay;    // of the weights, of what is recorded next; 0: the usual one

static bt_status on_step(void *self, const bt_train_step *event)
{
    recorded *to = self;
    to->steps[to->round.step_count++] =
        (bt_store_step){.step = event->step, .loss = event->loss, .grad_norm = event->grad_norm};
    return BT_OK;
}

static bt_status on_state(void *self, const bt_train_state *event)
{
    recorded *to = self;
    const int64_t at = to->round.state_count++;
    memcpy(to->state_digests[at], event->digest, sizeof event->digest);
    to->states[at] = (bt_store_state){.step = event->step, .digest = to->state_digests[at]};
    return BT_OK;
}

// Trains on the device that fails, by this plan of faults. every: checkpoints; 0: none.
static void record(recorded *out, const char *name, const faulty_plan *fault, int64_t every)
{
    const bt_train_observer observer = {.self = out, .step = on_step, .state = on_state};
    bt_train_result result;
    *out = (recorded){.plan = small_train_plan()};
    out->plan.device = "faulty";
    out->plan.steps = STEPS;
    out->plan.optimizer.weight_decay = decay > 0 ? decay : out->plan.optimizer.weight_decay;
    out->plan.eval_every = out->plan.profile_steps = out->plan.warmup_timing_steps = 0;
    (void)snprintf(out->checkpoints, sizeof out->checkpoints, "%s", test_scratch_path(name));
    bt_train_plan saving = out->plan;
    saving.digest_every = digests;
    if (every > 0) {
        saving.checkpoints =
            (bt_train_checkpoints){.folder = out->checkpoints, .every_steps = every};
    }
    faulty_device_plan(fault);
    ASSERT_OK(bt_train_run(&saving, &observer, &result));
    (void)snprintf(out->digest, sizeof out->digest, "state:%s", result.state_digest);
    out->round.steps = out->steps;
    out->round.states = out->states;
    out->round.params_digest = out->digest;
}

static void make_sides(recorded *a, recorded *b, bt_bisect_side sides[2])
{
    sides[0] = (bt_bisect_side){"run 1", &a->round, &a->plan, a->checkpoints};
    sides[1] = (bt_bisect_side){"run 2", &b->round, &b->plan, b->checkpoints};
}

// Launches of an op in a step.
static int64_t launches_of_step(bt_kernel_op op)
{
    static recorded counted;
    const faulty_plan count = {FAULTY_FLIP, op, INT64_MAX, INT64_MAX};
    record(&counted, "counted", &count, 0);
    assert_int_equal(faulty_device_launches() % STEPS, 0);
    return faulty_device_launches() / STEPS;
}

static recorded a, b;

static void equal_runs_have_nothing_to_find(void **state)
{
    (void)state;
    bt_bisect_side sides[2];
    bt_bisect_result result;
    bt_str text = {0};
    record(&a, "equal-a", &none, EVERY);
    record(&b, "equal-b", &none, 0);
    make_sides(&a, &b, sides);
    ASSERT_OK(bt_bisect_run(sides, &result));
    assert_int_equal(result.span.differs, BT_BISECT_NOTHING);
    assert_int_equal(result.replayed, 0);
    bt_bisect_text(sides, &result, &text);
    assert_string_equal(bt_str_text(&text), "run 1 and run 2 have the same bits\n");
    bt_str_release(&text);
}

// A product of step 7 is wrong, in the run and whenever it is trained again: found exactly, from
// the checkpoint of step 6, which is the last that both have in common.
static void a_fault_of_one_op_at_one_step_is_found(void **state)
{
    (void)state;
    bt_bisect_side sides[2];
    bt_bisect_result result;
    bt_str text = {0}, json = {0};
    const int64_t each = launches_of_step(BT_KERNEL_GEMM);
    const faulty_plan fault = {FAULTY_FLIP, BT_KERNEL_GEMM, 7 * each + 2, 7 * each + 2};
    record(&a, "fault-a", &none, EVERY);
    record(&b, "fault-b", &fault, EVERY);
    a.plan.device = "cpu"; // so that run 2 alone has the fault when it is trained again
    make_sides(&a, &b, sides);
    const int64_t kept = test_scratch_count("fault-b");
    const faulty_plan again = {FAULTY_FLIP, BT_KERNEL_GEMM, each + 2, each + 2};
    faulty_device_plan(&again);
    ASSERT_OK(bt_bisect_run(sides, &result));
    assert_int_equal(result.span.differs, BT_BISECT_LOSS);
    assert_int_equal(result.span.first, 6);
    assert_int_equal(result.span.last, 7);
    assert_int_equal(result.replayed, 2);
    assert_true(result.found);
    assert_int_equal(result.step, 7);
    assert_string_equal(result.name, "forward.0.h.0.attn.c_proj.linear");
    assert_string_equal(result.op, "linear");
    assert_int_equal(result.difference.first, 16); // faulty_device.c: element 16 of each 32
    assert_int_equal(result.difference.differing, result.difference.elements / 32);
    assert_int_equal(result.strange[0], -1);
    assert_int_equal(result.strange[1], -1);
    bt_bisect_text(sides, &result, &text);
    assert_non_null(strstr(bt_str_text(&text), "the first difference is the loss of step 7\n"));
    assert_non_null(strstr(bt_str_text(&text), "from the checkpoint of step 6, which is the same"));
    assert_non_null(strstr(bt_str_text(&text), "element      [0, 0, 16]: "));
    ASSERT_OK(bt_bisect_json(sides, &result, &json));
    bt_json_doc doc = {0};
    ASSERT_OK(bt_json_parse("bisect", bt_str_text(&json), json.length_bytes, &doc));
    assert_true(bt_json_number_of(bt_json_get(doc.root, "first"), "index") <= 16 &&
                bt_json_number_of(bt_json_get(doc.root, "first"), "index") >= 16);
    bt_json_doc_release(&doc);
    bt_str_release(&text);
    bt_str_release(&json);
    assert_int_equal(test_scratch_count("fault-b"), kept); // nothing of the run was removed
}

// The norm of step 4 is wrong, and no other value: it is what is named.
static void a_fault_of_the_norm_is_found(void **state)
{
    (void)state;
    bt_bisect_side sides[2];
    bt_bisect_result result;
    const int64_t each = launches_of_step(BT_KERNEL_GRAD_NORM);
    const faulty_plan fault = {FAULTY_SCALE, BT_KERNEL_GRAD_NORM, 4 * each + 1, 4 * each + 1};
    record(&a, "norm-a", &none, 0);
    record(&b, "norm-b", &fault, 0);
    a.plan.device = "cpu";
    make_sides(&a, &b, sides);
    faulty_device_plan(&fault);
    ASSERT_OK(bt_bisect_run(sides, &result));
    assert_int_equal(result.span.differs, BT_BISECT_NORM);
    assert_int_equal(result.span.first, 0); // there are no checkpoints
    assert_true(result.found);
    assert_int_equal(result.step, 4);
    assert_string_equal(result.name, "gradient norm");
    assert_true(result.difference.first_b > 100 * result.difference.first_a);
}

// Hardware that erred once does not err again: the run whose record cannot be repeated is named.
static void a_fault_that_does_not_come_again_is_the_hardware(void **state)
{
    (void)state;
    bt_bisect_side sides[2];
    bt_bisect_result result;
    bt_str text = {0};
    const int64_t each = launches_of_step(BT_KERNEL_GEMM);
    const faulty_plan once = {FAULTY_FLIP, BT_KERNEL_GEMM, 5 * each + 3, 5 * each + 3};
    record(&a, "once-a", &none, EVERY);
    record(&b, "once-b", &once, EVERY);
    make_sides(&a, &b, sides);
    a.plan.device = "cpu";
    faulty_device_plan(&none);
    ASSERT_OK(bt_bisect_run(sides, &result));
    assert_int_equal(result.span.first, 3);
    assert_int_equal(result.span.last, 5);
    assert_false(result.found);
    assert_int_equal(result.replayed, 3);
    assert_int_equal(result.strange[0], -1);
    assert_int_equal(result.strange[1], 5);
    bt_bisect_text(sides, &result, &text);
    assert_non_null(
        strstr(bt_str_text(&text), "record       run 2, step 5: the replay has another"));
    bt_str_release(&text);
}

// Losses that are the same hide a state that is not: checkpoints show it, or the digest at the end.
static void digests_of_the_state_narrow_the_span(void **state)
{
    (void)state;
    bt_bisect_side sides[2];
    bt_bisect_span span;
    record(&a, "span-a", &none, EVERY);
    record(&b, "span-b", &none, EVERY);
    make_sides(&a, &b, sides);
    b.digest[10] = b.digest[10] == '0' ? '1' : '0';
    ASSERT_OK(bt_bisect_span_of(sides, &span));
    assert_int_equal(span.differs, BT_BISECT_DIGEST);
    assert_int_equal(span.first, 9);
    assert_int_equal(span.last, 8);
    // A loss that differs although the state after it does not.
    recorded other;
    record(&other, "span-c", &none, EVERY);
    sides[1].round = &other.round;
    other.steps[8].loss = 0;
    const char *folder = other.checkpoints;
    sides[1].checkpoints = folder;
    ASSERT_OK(bt_bisect_span_of(sides, &span));
    assert_int_equal(span.differs, BT_BISECT_LOSS);
    assert_int_equal(span.first, 9);
    assert_int_equal(span.last, 8);
    // An update that differs: the loss differs a step later than the checkpoint.
    record(&a, "span-d", &none, 1);
    decay = 0.2;
    record(&other, "span-e", &none, 1);
    decay = 0;
    sides[0].checkpoints = a.checkpoints;
    ASSERT_OK(bt_bisect_span_of(sides, &span));
    assert_int_equal(span.differs, BT_BISECT_CHECKPOINT);
    assert_int_equal(span.first, 0);
    assert_int_equal(span.last, 0);
    // The same without checkpoints, by recorded digests of every second step.
    digests = 2;
    record(&a, "span-f", &none, 0);
    decay = 0.2;
    record(&other, "span-g", &none, 0);
    decay = 0;
    digests = 0;
    assert_int_equal(a.round.state_count, 4);
    assert_int_equal(a.states[3].step, 8);
    const float loss = other.steps[1].loss;
    for (int i = 0; i < STEPS; ++i) { // as if no loss had shown it
        other.steps[i] = a.steps[i];
    }
    ASSERT_OK(bt_bisect_span_of(sides, &span));
    assert_int_equal(span.differs, BT_BISECT_STATE);
    assert_int_equal(span.first, 0);
    assert_int_equal(span.last, 1);
    other.steps[1].loss = loss;
    // Nothing in common.
    for (int i = 0; i < STEPS; ++i) {
        other.steps[i].step += 100;
    }
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 1 and run 2 have no common step",
                 bt_bisect_span_of(sides, &span));
}

static int set_up(void **state)
{
    faulty_device_add();
    return test_scratch_setup(state) != 0 || small_corpus_write(state) != 0;
}

static int tear_down(void **state)
{
    return test_scratch_teardown(state) != 0 || small_corpus_remove(state) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs_have_nothing_to_find),
        cmocka_unit_test(a_fault_of_one_op_at_one_step_is_found),
        cmocka_unit_test(a_fault_of_the_norm_is_found),
        cmocka_unit_test(a_fault_that_does_not_come_again_is_the_hardware),
        cmocka_unit_test(digests_of_the_state_narrow_the_span),
    };
    return cmocka_run_group_tests_name("where two runs part", tests, set_up, tear_down);
}
