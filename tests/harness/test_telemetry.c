// tests/harness/test_telemetry.c - samples of the machine beside a round: recorded, read, judged
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/store/internal.h"
#include "tests/harness/sample_run.h"
#include "tests/support/test.h"

static char database[128];

static int make_folder(void **state)
{
    const char *folder = sample_folder_make();
    *state = (void *)(uintptr_t)folder;
    (void)snprintf(database, sizeof database, "%s/bt.sqlite", folder);
    return folder ? 0 : -1;
}

static int remove_folder(void **state)
{
    sample_folder_remove(*state);
    return 0;
}

static bt_store *open_store(void)
{
    bt_store *store = NULL;
    ASSERT_OK(bt_store_open(database, BT_STORE_WRITE, &store));
    return store;
}

static void execute(const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    sqlite3_close(db);
}

// ---- the record --------------------------------------------------------------------------------

enum { SAMPLES = 700 };

static bt_store_telemetry sample(int i)
{
    return (bt_store_telemetry){.t_ns = 1e8 * i,
                                .sm_clock_mhz = 1980.0 - i % 7,
                                .memory_clock_mhz = 3201.0,
                                .power_w = 312.125 + i,
                                .temperature_c = i % 3 ? 51.0 : (double)NAN,
                                .throttle = BT_THROTTLE_POWER_CAP,
                                .other_processes = 0.0,
                                .cpu_clock_mhz = (double)NAN,
                                .load = 1.5,
                                .other_cores = 0.25,
                                .steal_share = 0.0,
                                .held_share = 0.0,
                                .switches_per_s = 1000.0 + i};
}

// Run and round of a fresh database, still going on.
static int64_t begin_round(bt_store *store, int64_t *run)
{
    sample_run made = sample_run_default();
    made.steps = 3;
    ASSERT_OK(sample_run_record(store, &made, run));
    const bt_store_case what = {
        .bench = "b", .kind = "kernel", .name = "c", .axes_json = "{}", .system = "blutrain"};
    int64_t round = 0;
    ASSERT_OK(bt_store_round_begin(store, *run, &what, 0, &round));
    return round;
}

static void telemetry_comes_back(void **state)
{
    (void)state;
    static bt_store_telemetry samples[SAMPLES];
    int64_t run_id = 0;
    bt_store *store = open_store();
    int64_t round = begin_round(store, &run_id);
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = sample(i);
    }
    ASSERT_OK(bt_store_telemetry_set(store, round, "throttled", samples, 3));
    ASSERT_OK(bt_store_telemetry_set(store, round, "power cap", samples, SAMPLES)); // replaces
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    assert_string_equal(run.rounds[0].label, ""); // what was never looked at
    assert_int_equal(run.rounds[0].telemetry_count, 0);
    const bt_store_round *read = &run.rounds[run.round_count - 1];
    assert_int_equal(read->id, round);
    assert_string_equal(read->label, "power cap");
    assert_int_equal(read->telemetry_count, SAMPLES);
    assert_memory_equal(read->telemetry, samples, sizeof samples);
    bt_store_run_release(&run);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no round 999",
                 bt_store_telemetry_set(store, 999, "", samples, 1));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "-1 samples",
                 bt_store_telemetry_set(store, round, "", samples, -1));
    ASSERT_OK(bt_store_close(store));
}

static void an_invalid_round_is_run_again_and_passes_once(void **state)
{
    (void)state;
    int64_t run_id = 0, again = 0;
    bt_store *store = open_store();
    int64_t round = begin_round(store, &run_id);
    const bt_store_case what = {
        .bench = "b", .kind = "kernel", .name = "c", .axes_json = "{}", .system = "blutrain"};
    ASSERT_OK(bt_store_round_end(store, round, BT_RUN_INVALID, "throttled", ""));
    ASSERT_OK(bt_store_round_begin(store, run_id, &what, 0, &again));
    ASSERT_OK(bt_store_round_end(store, again, BT_RUN_PASSED, "", ""));
    ASSERT_OK(bt_store_round_begin(store, run_id, &what, 0, &again));
    bt_status status = bt_store_round_end(store, again, BT_RUN_PASSED, "", "");
    assert_int_equal(status, BT_STATUS_INVALID_ARGUMENT);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    assert_int_equal(run.round_count, 4);
    assert_int_equal(run.rounds[1].status, BT_RUN_INVALID);
    assert_string_equal(bt_run_status_name(run.rounds[1].status), "invalid");
    assert_int_equal(run.rounds[2].status, BT_RUN_PASSED);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
}

static void columns_of_other_versions_are_read_by_name(void **state)
{
    (void)state;
    const bt_store_telemetry samples[2] = {sample(1), sample(2)};
    int64_t run_id = 0;
    bt_store *store = open_store();
    int64_t round = begin_round(store, &run_id);
    ASSERT_OK(bt_store_telemetry_set(store, round, "", samples, 2));
    ASSERT_OK(bt_store_close(store));
    // As if power had not been known and another column had stood in its place.
    execute("UPDATE telemetry SET columns=replace(columns, 'power_w', 'fan_speed')");
    store = open_store();
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, run_id, &run));
    const bt_store_round *read = &run.rounds[run.round_count - 1];
    assert_true(isnan(read->telemetry[1].power_w));
    assert_true(read->telemetry[1].sm_clock_mhz == samples[1].sm_clock_mhz);
    assert_true(read->telemetry[1].switches_per_s == samples[1].switches_per_s);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
    execute("UPDATE telemetry SET count=3"); // more than the blob holds
    store = open_store();
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "telemetry", bt_store_run_read(store, run_id, &run));
    ASSERT_OK(bt_store_close(store));
}

static void columns_have_names(void **state)
{
    (void)state;
    const bt_store_telemetry one = sample(4);
    assert_string_equal(bt_telemetry_column_info(0)->name, "t_ns");
    assert_true(bt_telemetry_value(&one, 0) == one.t_ns);
    assert_string_equal(bt_telemetry_column_info(BT_TELEMETRY_COLUMNS - 1)->name, "switches_per_s");
    assert_true(bt_telemetry_value(&one, BT_TELEMETRY_COLUMNS - 1) == one.switches_per_s);
    assert_string_equal(bt_noise_name(BT_NOISE_QUIET), "");
    assert_true(bt_noise_invalidates(BT_NOISE_FOREIGN_PROCESS));
    assert_false(bt_noise_invalidates(BT_NOISE_LOADED));
}

static void every_failed_allocation_of_writing_is_reported(void **state)
{
    (void)state;
    const bt_store_telemetry samples[2] = {sample(1), sample(2)};
    int64_t run_id = 0;
    bt_store *store = open_store();
    int64_t round = begin_round(store, &run_id);
    int64_t before = bt_mem_live_count();
    for (int64_t n = 1;; n++) {
        bt_mem_fail_at(n);
        bt_status status = bt_store_telemetry_set(store, round, "", samples, 2);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
    ASSERT_OK(bt_store_close(store));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(telemetry_comes_back),
        TEST(an_invalid_round_is_run_again_and_passes_once),
        TEST(columns_of_other_versions_are_read_by_name),
        TEST(columns_have_names),
        TEST(every_failed_allocation_of_writing_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
