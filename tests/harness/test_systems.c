// tests/harness/test_systems.c - systems of a session, order of rounds, calibrations: stored, read
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/store/store.h"
#include "tests/harness/sample_run.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static char database[128];

static int make_folder(void **state)
{
    const char *folder = test_scratch_make();
    *state = (void *)(uintptr_t)folder;
    (void)snprintf(database, sizeof database, "%s/bt.sqlite", folder);
    return folder ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    test_scratch_remove();
    return 0;
}

static bt_store *open_with_run(int64_t *run)
{
    bt_store *store = NULL;
    sample_run sample = sample_run_default();
    ASSERT_OK(bt_store_open(database, BT_STORE_WRITE, &store));
    ASSERT_OK(sample_run_record(store, &sample, run));
    return store;
}

static const bt_store_system systems[] = {
    {"base", "/old/bt-bench", 0, {"d1", "0.1.0", "c1", "", "GNU 12", "-O3", "Release", ""}},
    {"candidate", "", 0.02, {"d2", "0.1.0", "c2", "x", "GNU 12", "-O2", "Release", "13.0"}}};

static void schedule_and_systems_come_back(void **state)
{
    (void)state;
    int64_t id = 0;
    bt_store *store = open_with_run(&id);
    const bt_store_schedule schedule = {0xfedcba9876543210u, "ab", "{\"tolerance\":0.01}", systems,
                                        2};
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, id, &run)); // before: none
    assert_int_equal(run.schedule.system_count, 0);
    assert_string_equal(run.schedule.kind, "");
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_schedule_set(store, id, &schedule));
    ASSERT_OK(bt_store_schedule_set(store, id, &schedule)); // replaces
    ASSERT_OK(bt_store_run_read(store, id, &run));
    assert_true(run.schedule.seed == schedule.seed);
    assert_string_equal(run.schedule.kind, "ab");
    assert_string_equal(run.schedule.rule_json, "{\"tolerance\":0.01}");
    assert_int_equal(run.schedule.system_count, 2);
    assert_string_equal(run.schedule.systems[0].name, "base");
    assert_string_equal(run.schedule.systems[0].program, "/old/bt-bench");
    assert_string_equal(run.schedule.systems[0].build.digest, "d1");
    assert_string_equal(run.schedule.systems[1].build.git_diff, "x");
    assert_string_equal(run.schedule.systems[1].build.cuda, "13.0");
    assert_true(run.schedule.systems[1].inject_slowdown == 0.02);
    bt_store_run_release(&run);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "FOREIGN KEY",
                 bt_store_schedule_set(store, 99, &schedule));
    ASSERT_OK(bt_store_close(store));
}

static void newest_calibration_is_found(void **state)
{
    (void)state;
    int64_t first = 0, second = 0;
    bt_store *store = open_with_run(&first);
    sample_run sample = sample_run_default();
    ASSERT_OK(sample_run_record(store, &sample, &second));
    bt_store_calibration list[] = {
        {0, "e", "b", "gelu", "time_ns", "{}", 8, 5, 0.001, 0, 0.004, 0.03, 0.02, 0.04},
        {0, "e", "b", "adamw", "time_ns", "{}", 8, 5, 0, 0, 0.1, (double)NAN, 0.5, (double)NAN}};
    ASSERT_OK(bt_store_calibrations_set(store, first, list, 2));
    list[0].smallest = 0.05;
    ASSERT_OK(bt_store_calibrations_set(store, second, list, 1));
    bt_arena arena = {0};
    bt_store_calibration got;
    bool found = false;
    ASSERT_OK(bt_store_calibration_find(store, "e", "b", "gelu", "time_ns", &arena, &got, &found));
    assert_true(found && got.smallest == 0.05 && got.run == second && got.pairs == 8);
    assert_true(got.false_alarm_rate == 0.001 && got.false_alarm_high == 0.004);
    assert_string_equal(got.rule_json, "{}");
    ASSERT_OK(bt_store_calibration_find(store, "e", "b", "adamw", "time_ns", &arena, &got, &found));
    assert_true(found && isnan(got.smallest) && got.smallest_low == 0.5 && got.run == first);
    ASSERT_OK(
        bt_store_calibration_find(store, "other", "b", "gelu", "time_ns", &arena, &got, &found));
    assert_false(found);
    ASSERT_OK(bt_store_calibrations_set(store, second, list, 0)); // taken back
    ASSERT_OK(bt_store_calibration_find(store, "e", "b", "gelu", "time_ns", &arena, &got, &found));
    assert_true(found && got.smallest == 0.03 && got.run == first);
    list[1] = list[0];
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "UNIQUE",
                 bt_store_calibrations_set(store, second, list, 2));
    bt_arena_release(&arena);
    ASSERT_OK(bt_store_close(store));
}

static bt_status read_all(bt_store *store, int64_t id)
{
    bt_store_run run;
    bt_store_calibration got;
    bt_arena arena = {0};
    bool found = false;
    bt_status status = bt_store_run_read(store, id, &run);
    if (status == BT_OK) {
        bt_store_run_release(&run);
        status =
            bt_store_calibration_find(store, "e", "b", "gelu", "time_ns", &arena, &got, &found);
    }
    bt_arena_release(&arena);
    return status;
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    int64_t id = 0, failures = 0;
    bt_store *store = open_with_run(&id);
    const bt_store_schedule schedule = {1, "ab", "{}", systems, 2};
    bt_store_calibration item = {0, "e", "b", "gelu", "time_ns", "{}", 8, 5, 0, 0, 0, 0, 0, 0};
    ASSERT_OK(bt_store_schedule_set(store, id, &schedule));
    ASSERT_OK(bt_store_calibrations_set(store, id, &item, 1));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status == BT_STATUS_OUT_OF_MEMORY && n < 100; n++) {
        bt_mem_fail_at(n);
        status = read_all(store, id);
        bt_mem_fail_at(0);
        failures += status != BT_OK;
        assert_int_equal(bt_mem_live_count(), live);
    }
    ASSERT_OK(status);
    assert_true(failures > 0);
    ASSERT_OK(bt_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(schedule_and_systems_come_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(newest_calibration_is_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(failing_allocations_leak_nothing, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
