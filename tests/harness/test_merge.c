// tests/harness/test_merge.c - loss curves of several runs in one baseline, and runs that do not
// fit
#include "tests/support/test.h"

#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/baseline.h"
#include "tests/harness/made_run.h"

enum { RUNS = 3, STEPS = 6 };

static made_run made[RUNS];
static const bt_baseline_wish wish = {.name = "main", .reason = "why"};
static const bt_store_run *const runs[RUNS] = {&made[0].run, &made[1].run, &made[2].run};

#define SETTINGS(batch, seed, lr)                                                                  \
    "{\"train\":{\"lr\":" #lr ",\"micro_batch\":" #batch ",\"seed\":" #seed "}}"

// Run 7 of two rounds, run 8 of other micro-batches, run 9 of another seed.
static int make_runs(void **state)
{
    static const char *const settings[RUNS] = {SETTINGS(2, 1, 0.1), SETTINGS(4, 1, 0.1),
                                               SETTINGS(2, 9, 0.1)};
    (void)state;
    for (int i = 0; i < RUNS; ++i) {
        made_run_init(&made[i]);
        made[i].run.id = 7 + i;
        made[i].run.started_ns += i * INT64_C(86400000000000);
        for (int round = 0; round < 2; ++round) {
            made_train_round(&made[i], "tiny", "blutrain", 5e6, 1 << 20, STEPS, i ? 3 : STEPS,
                             1e-6F * (float)i * (float)(1 + round))
                ->what.axes_json = settings[i];
        }
    }
    return 0;
}

static int release_runs(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; ++i) {
        made_run_release(&made[i]);
    }
    return bt_mem_live_count() == 0 ? 0 : -1;
}

static void curves_are_sorted_by_what_they_are_of(void **state)
{
    (void)state;
    const bt_store_run *const turned[RUNS] = {runs[0], runs[2], runs[1]};
    bt_str text = {0};
    bt_baseline baseline;
    ASSERT_OK(bt_baseline_write(turned, RUNS, &wish, &text));
    ASSERT_OK(bt_baseline_parse("b", bt_str_text(&text), text.length_bytes, &baseline));
    const bt_gate_side *side = &baseline.sides.items[0];
    assert_int_equal(side->round_count, 2); // times are the first run's
    assert_int_equal(side->own_count, 1);
    assert_int_equal(side->data_count, 3);  // both rounds of run 8 differ
    assert_int_equal(side->curve_count, 4); // one of run 9
    assert_int_equal(side->curves[0].rounds, 2);
    for (int64_t i = 0; i < side->curve_count; ++i) {
        static const int of[] = {0, 1, 1, 2}, round[] = {0, 0, 1, 0};
        const bt_store_step *expected = &made[of[i]].rounds[round[i]].steps[STEPS - 1];
        assert_memory_equal(&side->curves[i].steps[STEPS - 1].loss, &expected->loss, sizeof(float));
    }
    bt_baseline_release(&baseline);
    char *source = strstr(bt_str_text(&text), "\"of\": \"permuted\"");
    assert_non_null(source);
    memcpy(source + 7, "seed\"    ", 9); // after another seed's curve, none of the own seed is
                                         // allowed
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "expected the case's own curves first",
                 bt_baseline_parse("b", bt_str_text(&text), text.length_bytes, &baseline));
    bt_str_release(&text);
}

static void refuses(const char *words)
{
    bt_str text = {0};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, words, bt_baseline_write(runs, RUNS, &wish, &text));
    bt_str_release(&text);
}

static void a_run_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    bt_store_round *round = &made[1].rounds[0];
    bt_store_step *steps = (bt_store_step *)(uintptr_t)round->steps;
    round->what.axes_json = made[1].rounds[1].what.axes_json = SETTINGS(4, 1, 0.2);
    refuses("run 8 cannot be combined with run 7, case tiny: its settings differ");
    round->what.axes_json = made[1].rounds[1].what.axes_json = SETTINGS(4, 9, 0.1);
    refuses(
        "run 9 cannot be combined with run 7, case tiny: another run already has the same seed");
    round->what.axes_json = made[1].rounds[1].what.axes_json = SETTINGS(4, 1, 0.1);
    steps[2].tokens = 511;
    refuses("its number of steps or of tokens per step differs");
    steps[2].tokens = 512;
    round->step_count = STEPS - 1;
    refuses("its number of steps");
    round->step_count = STEPS;
    made[1].facts[1].value = "other books";
    refuses("hard facts of the environments, or the data, differ");
    made[1].facts[1].value = made[0].facts[1].value;
    made[1].run.round_count = 0;
    refuses("it lacks this case");
    made[1].run.round_count = 2;
    made[2].run.status = BT_RUN_FAILED;
    refuses("run 9 failed: expected a run that passed");
    made[2].run.status = BT_RUN_PASSED;
    const int64_t started_ns = made[2].run.started_ns;
    made[2].run.started_ns = made[0].run.started_ns; // the first, under another number
    refuses("run 9 is given twice, or is a session of the baseline already");
    made[2].run.started_ns = started_ns;
    made[2].run.id = 8;
    refuses("run 8 is given twice");
    made[0].rounds[0].step_count = made[0].rounds[1].step_count = 0;
    made[2].run.id = 9;
    refuses("run 8 cannot be combined with run 7, case tiny: its settings differ");
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status != BT_OK; ++n) {
        bt_str text = {0};
        bt_mem_fail_at(n);
        status = bt_baseline_write(runs, RUNS, &wish, &text);
        bt_mem_fail_at(0);
        bt_str_release(&text);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), live);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_runs, release_runs)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(curves_are_sorted_by_what_they_are_of),
        TEST(a_run_that_does_not_fit_is_refused),
        TEST(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
