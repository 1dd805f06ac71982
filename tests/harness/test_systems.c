// tests/harness/test_systems.c - systems of a session, order of rounds, calibrations: stored, read
#include <math.h>

#include "framework/base/mem.h"
#include "harness/store/store.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/test.h"

static int64_t record_run(void)
{
    int64_t run = 0;
    sample_run sample = sample_run_default();
    ASSERT_OK(sample_run_record(scratch_store, &sample, &run));
    return run;
}

static const bt_store_system systems[] = {
    {"base", "/old/bt-bench", 0, {"d1", "0.1.0", "c1", "", "GNU 12", "-O3", "Release", ""}},
    {"candidate", "", 0.02, {"d2", "0.1.0", "c2", "x", "GNU 12", "-O2", "Release", "13.0"}}};

static void schedule_and_systems_come_back(void **state)
{
    (void)state;
    int64_t id = record_run();
    const bt_store_schedule schedule = {0xfedcba9876543210u, "ab", "{\"tolerance\":0.01}", systems,
                                        2};
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(scratch_store, id, &run)); // before: none
    assert_int_equal(run.schedule.system_count, 0);
    assert_string_equal(run.schedule.kind, "");
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_schedule_set(scratch_store, id, &schedule));
    ASSERT_OK(bt_store_schedule_set(scratch_store, id, &schedule)); // replaces
    ASSERT_OK(bt_store_run_read(scratch_store, id, &run));
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
                 bt_store_schedule_set(scratch_store, 99, &schedule));
}

static void newest_calibration_is_found(void **state)
{
    (void)state;
    int64_t first = record_run(), second = record_run();
    bt_store_calibration list[] = {
        {0, "e", "", "b", "gelu", "time_ns", "{}", 8, 24, 1, 5, 0.001, 0.004, 0.03, 0.04},
        {0, "e", "", "b", "adamw", "time_ns", "{}", 8, 24, 1, 5, 0, 0.1, (double)NAN, 0.5}};
    ASSERT_OK(bt_store_calibrations_set(scratch_store, first, list, 2));
    list[0].smallest = 0.05;
    ASSERT_OK(bt_store_calibrations_set(scratch_store, second, list, 1));
    bt_arena arena = {0};
    bt_store_calibration got;
    const bt_store_calibration of[] = {list[0], list[1], {.environment = "other", .name = "gelu"}};
    bool found = false;
    ASSERT_OK(bt_store_calibration_find(scratch_store, &of[0], &arena, &got, &found));
    assert_true(found && got.smallest == 0.05 && got.run == second && got.pairs == 8);
    assert_true(got.false_alarm_rate == 0.001 && got.false_alarm_high == 0.004);
    assert_string_equal(got.rule_json, "{}");
    ASSERT_OK(bt_store_calibration_find(scratch_store, &of[1], &arena, &got, &found));
    assert_true(found && isnan(got.smallest) && got.smallest_high == 0.5 && got.run == first);
    ASSERT_OK(bt_store_calibration_find(scratch_store, &of[2], &arena, &got, &found));
    assert_false(found);
    ASSERT_OK(bt_store_calibrations_set(scratch_store, second, list, 0)); // taken back
    ASSERT_OK(bt_store_calibration_find(scratch_store, &of[0], &arena, &got, &found));
    assert_true(found && got.smallest == 0.03 && got.run == first);
    list[1] = list[0];
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "UNIQUE",
                 bt_store_calibrations_set(scratch_store, second, list, 2));
    bt_arena_release(&arena);
}

static bt_status read_all(int64_t id)
{
    bt_store_run run;
    bt_store_calibration got;
    bt_arena arena = {0};
    bool found = false;
    bt_status status = bt_store_run_read(scratch_store, id, &run);
    if (status == BT_OK) {
        bt_store_run_release(&run);
        const bt_store_calibration of = {
            .environment = "e", .card = "", .bench = "b", .name = "gelu", .metric = "time_ns"};
        status = bt_store_calibration_find(scratch_store, &of, &arena, &got, &found);
    }
    bt_arena_release(&arena);
    return status;
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    int64_t id = record_run(), failures = 0;
    const bt_store_schedule schedule = {1, "ab", "{}", systems, 2};
    bt_store_calibration item = {0, "e", "", "b", "gelu", "time_ns", "{}", 8, 24, 1, 5, 0, 0, 0, 0};
    ASSERT_OK(bt_store_schedule_set(scratch_store, id, &schedule));
    ASSERT_OK(bt_store_calibrations_set(scratch_store, id, &item, 1));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; status == BT_STATUS_OUT_OF_MEMORY && n < 100; n++) {
        bt_mem_fail_at(n);
        status = read_all(id);
        bt_mem_fail_at(0);
        failures += status != BT_OK;
        assert_int_equal(bt_mem_live_count(), live);
    }
    ASSERT_OK(status);
    assert_true(failures > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_store_open, scratch_store_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(schedule_and_systems_come_back),
        TEST(newest_calibration_is_found),
        TEST(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
