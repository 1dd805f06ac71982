// tests/unit/test_train_resume.c - a run that continues from a checkpoint has the bits of one that
// was never stopped
#include <stdio.h>
#include <string.h>

#include "framework/checkpoint/checkpoint.h"
#include "tests/support/test.h"
#include "tests/support/train_child.h"

// kill -9 at one step after the other, across the end of an epoch (step 15), with the threads and
// the way of saving changed between the processes; what follows has the bits of the whole run.
static void resumed_bits_are_those_of_the_whole_run(void **state)
{
    (void)state;
    static const struct {
        bt_precision precision;
        bt_recompute_mode recompute;
        bool asynchronous;
        int threads, threads_later;
    } modes[] = {{BT_PRECISION_FP32, BT_RECOMPUTE_NONE, false, 1, 3},
                 {BT_PRECISION_FP32, BT_RECOMPUTE_GELU_LN, true, 2, 1},
                 {BT_PRECISION_BF16, BT_RECOMPUTE_NONE, true, 3, 2},
                 {BT_PRECISION_BF16, BT_RECOMPUTE_BLOCK, false, 1, 1}};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; ++m) {
        char folder[TEST_FOLDER_CAPACITY];
        bt_train_plan plan = train_child_plan(checkpoint_folder_make(folder));
        plan.precision = modes[m].precision;
        plan.recompute = modes[m].recompute;
        plan.checkpoints.every_steps = 0;
        const train_history whole = train_child_well(&plan, modes[m].threads);
        plan.checkpoints.every_steps = 1 + (int64_t)m;
        plan.checkpoints.asynchronous = modes[m].asynchronous;
        plan.checkpoints.max_to_keep = 2;
        for (int64_t at = (int64_t)m; at < CHILD_STEPS; at += 7) {
            const train_history killed = train_child(&plan, modes[m].threads, at, -1);
            assert_memory_equal(killed.loss + killed.first_step, whole.loss + killed.first_step,
                                (size_t)(at + 1 - killed.first_step) * sizeof(float));
            plan.checkpoints.resume = true;
        }
        const train_history last = train_child_well(&plan, modes[m].threads_later);
        // A thread may not have been done in time; a save for which training waits is.
        assert_true(modes[m].asynchronous || last.loaded > CHILD_STEPS / 2);
        train_histories_expect_same(&whole, &last);
        checkpoint_folder_remove(folder);
    }
}

// A stop saves where it is, whether a save was due or not; going on needs no step twice.
static void a_stopped_run_goes_on_where_it_stopped(void **state)
{
    (void)state;
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        char folder[TEST_FOLDER_CAPACITY];
        bt_train_plan plan = train_child_plan(checkpoint_folder_make(folder));
        const train_history whole = train_child_well(&plan, 2);
        checkpoint_folder_expect(folder, "5 10 15 20 ");
        checkpoint_folder_remove(folder);
        plan.checkpoints.folder = checkpoint_folder_make(folder);
        plan.checkpoints.asynchronous = asynchronous;
        const train_history stopped = train_child(&plan, 2, -1, 12);
        assert_int_equal(stopped.status, BT_OK);
        assert_true(stopped.result.stopped);
        assert_int_equal(stopped.result.steps_done, 13);
        assert_int_equal(stopped.saved, 13);
        plan.checkpoints.resume = true;
        const train_history resumed = train_child_well(&plan, 1);
        assert_int_equal(resumed.loaded, 13);
        train_histories_expect_same(&whole, &resumed);
        checkpoint_folder_remove(folder);
    }
}

// What the folder holds decides; nothing is overwritten that was not asked for.
static void folders_in_use_and_other_plans_are_refused(void **state)
{
    (void)state;
    char folder[TEST_FOLDER_CAPACITY];
    bt_train_plan plan = train_child_plan(checkpoint_folder_make(folder));
    plan.checkpoints.at_end = true;
    (void)train_child_well(&plan, 1);
    checkpoint_folder_expect(folder, "5 10 15 20 24 ");
    train_history h = train_child(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(h.error, "already contains checkpoints, the newest of step 24"));
    plan.checkpoints.resume = true;
    plan.checkpoints.plan_hash = "q";
    h = train_child(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(h.error, "belongs to the plan p, expected the plan q"));
    plan.checkpoints.plan_hash = NULL;
    plan.optimizer.lr *= 2;
    h = train_child(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "step 24 has optimizer.lr 0.003"));
    plan = train_child_plan(folder);
    plan.checkpoints.resume = true;
    plan.seed = 1;
    h = train_child(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "seed 1337, the plan 1"));
    plan = train_child_plan(folder);
    plan.checkpoints.resume = true;
    plan.model.layers = 1;
    h = train_child(&plan, 1, -1, -1);
    assert_non_null(strstr(h.error, "h.1.attn.c_attn.bias is not in the state"));
    plan = train_child_plan(folder);
    plan.checkpoints.resume = true;
    h = train_child_well(&plan, 1); // nothing is left to do
    assert_int_equal(h.steps, 0);
    assert_int_equal(h.result.steps_done, CHILD_STEPS);
    checkpoint_folder_remove(folder);
}

static void flip_a_byte(const char *folder, int64_t step)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/step-%08lld/state-00001.safetensors", folder,
                   (long long)step);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -9, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 4, file), byte ^ 4);
    assert_int_equal(fclose(file), 0);
}

// Damaged checkpoints are skipped and reported; by choice newer ones are left out and removed.
static void older_checkpoints_are_taken_when_newer_ones_do_not_serve(void **state)
{
    (void)state;
    char folder[TEST_FOLDER_CAPACITY];
    bt_train_plan plan = train_child_plan(checkpoint_folder_make(folder));
    const train_history whole = train_child_well(&plan, 1);
    plan.checkpoints.resume = true;
    flip_a_byte(folder, 20);
    flip_a_byte(folder, 15);
    train_history h = train_child_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_SKIPPED], 1);
    assert_non_null(strstr(h.message, "step-00000020"));
    assert_int_equal(h.loaded, 10);
    train_histories_expect_same(&whole, &h);
    plan.checkpoints.resume_below = 20; // 15 and 20 are whole again
    plan.steps = CHILD_STEPS;
    h = train_child(&plan, 1, 16, -1);
    assert_int_equal(h.loaded, 15);
    checkpoint_folder_expect(folder, "5 10 15 ");
    plan.checkpoints.resume_below = 5;
    h = train_child_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_NONE], 1);
    assert_int_equal(h.first_step, 0);
    assert_string_equal(h.result.state_digest, whole.result.state_digest);
    for (int64_t step = 5; step <= 20; step += 5) {
        flip_a_byte(folder, step);
    }
    plan.checkpoints.resume_below = 0;
    h = train_child(&plan, 1, -1, -1);
    assert_int_equal(h.status, BT_STATUS_CORRUPT_DATA);
    assert_non_null(strstr(h.error, "none of the 4 checkpoints"));
    checkpoint_folder_remove(folder);
}

// A save that fails is reported and training continues; but the last one must succeed.
static void failed_saves_are_reported(void **state)
{
    (void)state;
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        bt_train_plan plan = train_child_plan("/proc/bt-no-such-folder");
        plan.checkpoints.asynchronous = asynchronous;
        plan.checkpoints.every_steps = 10;
        train_history h = train_child_well(&plan, 1);
        // The second is left out while a slow thread is at the first.
        assert_in_range(h.saves[BT_TRAIN_SAVE_FAILED], asynchronous ? 1 : 2, 2);
        assert_int_equal(h.saves[BT_TRAIN_SAVE_SAVED], 0);
        assert_non_null(strstr(h.message, "/proc/bt-no-such-folder"));
        plan.checkpoints.at_end = true;
        h = train_child(&plan, 1, -1, -1);
        assert_int_equal(h.status, BT_STATUS_IO);
        assert_non_null(strstr(h.error, "the state after step 24 was not saved"));
    }
    bt_train_plan plan = small_train_plan();
    plan.checkpoints.every_minutes = -1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "checkpoint.every_minutes is -1",
                 bt_train_check(&plan));
    plan.checkpoints.every_minutes = 0;
    plan.checkpoints.max_to_keep = -1;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "checkpoint.max_to_keep is -1", bt_train_check(&plan));
}

static void minutes_count(void **state)
{
    (void)state;
    char folder[TEST_FOLDER_CAPACITY];
    bt_train_plan plan = train_child_plan(checkpoint_folder_make(folder));
    plan.checkpoints.every_steps = 0;
    plan.checkpoints.every_minutes = 1e-9; // every step takes longer
    const train_history h = train_child_well(&plan, 1);
    assert_int_equal(h.saves[BT_TRAIN_SAVE_SAVED], CHILD_STEPS);
    plan.checkpoints.every_minutes = 1e6;
    plan.checkpoints.resume = true;
    plan.checkpoints.resume_below = 1;
    const train_history none = train_child_well(&plan, 1);
    assert_int_equal(none.saves[BT_TRAIN_SAVE_SAVED], 0);
    assert_string_equal(none.result.state_digest, h.result.state_digest);
    checkpoint_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_bits_are_those_of_the_whole_run),
        cmocka_unit_test(a_stopped_run_goes_on_where_it_stopped),
        cmocka_unit_test(folders_in_use_and_other_plans_are_refused),
        cmocka_unit_test(older_checkpoints_are_taken_when_newer_ones_do_not_serve),
        cmocka_unit_test(failed_saves_are_reported),
        cmocka_unit_test(minutes_count),
    };
    return cmocka_run_group_tests_name("resume", tests, train_child_setup, train_child_remove);
}
