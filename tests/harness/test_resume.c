// tests/harness/test_resume.c - what a resumed run does, and what it refuses
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "harness/compare/compare.h"
#include "harness/report/report.h"
#include "harness/run/lock.h"
#include "harness/run/run.h"
#include "tests/harness/scratch_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/scratch.h"

enum { ROUNDS = 3, CASES = 2 }; // the copy, and gelu

static bt_suite suite;
static bt_plan plan;
static const bt_machine machine = {.host_memory_bytes = 1ULL << 34};

static int set_up(void **state)
{
    static const char text[] = SCRATCH_GELU_SUITE("\"4x5\"");
    return scratch_database_name(state) == 0 &&
                   scratch_plan_make(text, ROUNDS, &machine, &suite, &plan) == BT_OK &&
                   plan.case_count == CASES
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    bt_plan_release(&plan);
    bt_suite_release(&suite);
    return scratch_database_remove(state);
}

static bt_status execute(int64_t resumed, bt_run_outcome *outcome)
{
    bt_run_request request = scratch_run_request(&suite, &plan, &machine, SCRATCH_KERNEL_PEER);
    if (resumed) { // these are in the record
        request.suite = NULL;
        request.out_dir = NULL;
        request.resume = resumed;
    }
    return bt_run_execute(&request, outcome);
}

// A run that was broken off in its fourth round of six: two passes less two rounds, of a process
// that is gone.
static void make_broken(void)
{
    bt_run_outcome outcome;
    ASSERT_OK(execute(0, &outcome));
    assert_int_equal(outcome.run, 1);
    scratch_execute("DELETE FROM samples WHERE measurement_id IN"
                    " (SELECT id FROM measurement WHERE round_id>=4);"
                    "DELETE FROM measurement WHERE round_id>=4;"
                    "DELETE FROM kernel_use WHERE round_id>=4;"
                    "DELETE FROM telemetry WHERE round_id>=4;"
                    "DELETE FROM round WHERE id>4;"
                    "UPDATE round SET status=0, ended_ns=0, message='', seal='' WHERE id=4;"
                    "UPDATE session SET status=0, ended_ns=0, boot_id='another';"
                    // Recorded of the lost round: a step of 30 ns, and one copied from before it.
                    "INSERT INTO step VALUES(4,0,1,0,1,1,1,90,0,0,0,0,0,1,0),"
                    "(4,1,1,0,1,1,1,30,0,0,0,0,0,0,0)");
}

// What the list of runs says of the newest run.
static void assert_listed(int64_t rounds, int64_t steps)
{
    bt_store *store = scratch_open(BT_STORE_READ);
    bt_store_run_list list;
    ASSERT_OK(bt_store_run_list_read(store, &list));
    assert_int_equal(list.rows[0].round_count, rounds);
    assert_int_equal(list.rows[0].step_count, steps);
    bt_store_run_list_release(&list);
    ASSERT_OK(bt_store_close(store));
}

static void finished_rounds_stay(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    bt_store_run before = scratch_run_read(1);
    assert_int_equal(before.status, BT_RUN_INTERRUPTED);
    assert_int_equal(before.gap_count, 0);
    assert_listed(4, 2);
    // Its start-up took 7 s.
    const int64_t last_write_ns = before.rounds[3].started_ns + 7000000000;
    char recorded[80];
    (void)snprintf(recorded, sizeof recorded, "UPDATE session SET recorded_ns=%lld",
                   (long long)last_write_ns);
    scratch_execute(recorded);
    ASSERT_OK(execute(1, &outcome));
    assert_int_equal(outcome.run, 1);
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    bt_store_run after = scratch_run_read(1);
    assert_int_equal(after.status, BT_RUN_PASSED);
    assert_string_equal(after.info.out_dir, test_scratch_path("out"));
    assert_int_equal(after.round_count, CASES * ROUNDS + 1);
    assert_listed(CASES * ROUNDS, 0); // without the broken round and its steps
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(after.rounds[i].started_ns, before.rounds[i].started_ns);
        assert_int_equal(after.rounds[i].status, BT_RUN_PASSED);
        assert_false(after.rounds[i].superseded);
    }
    // The broken one stays, marked; it was run again under its ordinal, first of all.
    const bt_store_round *broken = &after.rounds[3], *again = &after.rounds[4];
    assert_int_equal(broken->status, BT_RUN_INTERRUPTED);
    assert_string_equal(broken->message, "the recorder of the round was lost");
    assert_true(broken->superseded);
    assert_int_equal(again->status, BT_RUN_PASSED);
    assert_int_equal(again->ordinal, broken->ordinal);
    assert_string_equal(again->what.name, broken->what.name);
    // The share of the copy of before.
    bool share = false;
    for (int64_t i = 0; i < again->measurement_count; i++) {
        share = share || again->measurements[i].metric == BT_METRIC_COPY_SHARE;
    }
    assert_true(share);
    assert_int_equal(after.gap_count, 1);
    assert_int_equal(after.gaps[0].status, BT_RUN_INTERRUPTED);
    assert_int_equal(after.gaps[0].stopped_ns, last_write_ns);
    bt_store_run_release(&before);
    bt_store_run_release(&after);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 1 has passed: it has no rounds left to run",
                 execute(1, &outcome));
}

// A process may be lost before it has made a folder for its run.
static void a_run_without_a_folder_gets_one(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    scratch_execute("UPDATE session SET out_dir=''");
    ASSERT_OK(execute(1, &outcome));
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    bt_store_run run = scratch_run_read(1);
    const char *slash = strrchr(run.info.out_dir, '/');
    assert_non_null(slash);
    assert_non_null(strstr(slash, "run-1"));
    assert_int_equal(access(run.info.out_dir, W_OK), 0);
    bt_store_run_release(&run);
}

// The process is lost, and this one resumes the run: the gap that it records.
static bt_store_gap lose_and_resume(bt_store *store)
{
    scratch_execute("UPDATE session SET boot_id='another'");
    ASSERT_OK(bt_store_run_resume(store, 1));
    bt_store_run run = scratch_run_read(1);
    bt_store_gap gap = run.gaps[run.gap_count - 1];
    bt_store_run_release(&run);
    return gap;
}

// A gap begins when a round was last described or got records, or when the run was resumed, if it
// was lost again before that.
static void a_gap_begins_at_the_last_write(void **state)
{
    (void)state;
    make_broken();
    scratch_execute("UPDATE session SET recorded_ns=0"); // of an older program: only the step
    const int64_t started_ns = scratch_query("SELECT started_ns FROM round WHERE id=4");
    bt_store *store = scratch_open(BT_STORE_WRITE);
    const bt_store_gap first = lose_and_resume(store);
    assert_int_equal(first.stopped_ns, started_ns + 30);
    assert_int_equal(lose_and_resume(store).stopped_ns, first.resumed_ns);

    int64_t before_ns = bt_clock_wall_ns();
    ASSERT_OK(bt_store_round_describe(store, 4, &(bt_store_shape){.device = "cpu"}));
    int64_t after_ns = bt_clock_wall_ns();
    assert_in_range(lose_and_resume(store).stopped_ns, before_ns, after_ns);

    before_ns = bt_clock_wall_ns();
    ASSERT_OK(bt_store_step_add(store, 4, &(bt_store_step){.step = 2}));
    ASSERT_OK(bt_store_flush(store));
    after_ns = bt_clock_wall_ns();
    assert_in_range(lose_and_resume(store).stopped_ns, before_ns, after_ns);
    ASSERT_OK(bt_store_close(store));
}

// A product 20 times as large as the ceiling's in less time than that is below the floor, in
// the rounds after a resumption as in those before.
static void a_resumed_run_keeps_its_floor(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": ["
        "{\"name\": \"product\", \"kind\": \"kernel\", \"kernel\": {\"op\": \"gemm_nt\","
        " \"cache\": \"hot\", \"shape\": \"1024x1024x20480\"}}]}}}";
    bt_suite products;
    bt_plan of_products;
    bt_run_outcome outcome;
    ASSERT_OK(scratch_plan_make(text, 1, &machine, &products, &of_products));
    bt_run_request request =
        scratch_run_request(&products, &of_products, &machine, SCRATCH_KERNEL_PEER);
    ASSERT_OK(bt_run_execute(&request, &outcome));
    scratch_execute("DELETE FROM telemetry WHERE round_id>2;"
                    "DELETE FROM kernel_use WHERE round_id>2;"
                    "DELETE FROM samples WHERE measurement_id IN"
                    " (SELECT id FROM measurement WHERE round_id>2);"
                    "DELETE FROM measurement WHERE round_id>2;"
                    "DELETE FROM round WHERE id>2;"
                    "UPDATE session SET status=0, ended_ns=0, boot_id='another'");
    request.suite = NULL;
    request.out_dir = NULL;
    request.resume = outcome.run;
    ASSERT_OK(bt_run_execute(&request, &outcome));
    bt_store_run run = scratch_run_read(outcome.run);
    assert_int_equal(run.round_count, 5); // copy and product of the machine; three attempts
    for (int64_t i = 2; i < run.round_count; i++) {
        assert_string_equal(run.rounds[i].what.system, "kernel_peer.sh");
        if (run.rounds[i].status != BT_RUN_INVALID ||
            !strstr(run.rounds[i].message, "large product")) {
            fail_msg("%s: %s", bt_run_status_name(run.rounds[i].status), run.rounds[i].message);
        }
    }
    bt_store_run_release(&run);
    bt_plan_release(&of_products);
    bt_suite_release(&products);
}

static void a_comparison_meets_the_round_that_counts(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    bt_comparison both;
    make_broken();
    ASSERT_OK(execute(1, &outcome));
    ASSERT_OK(execute(0, &outcome));
    bt_store *store = scratch_open(BT_STORE_READ);
    ASSERT_OK(bt_compare_runs(store, 1, 2, &both));
    // Nor does a report speak of it as if something were missing.
    bt_str page = {0};
    ASSERT_OK(bt_report_markdown(store, (const int64_t[]){1}, 1, &page));
    assert_null(strstr(bt_str_text(&page), "interrupted"));
    bt_str_release(&page);
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(both.pair_count, CASES);
    assert_int_equal(both.alone_count, 0);
    for (int64_t i = 0; i < both.pair_count; i++) {
        assert_int_equal(both.pairs[i].left_side.count, ROUNDS);
        for (int64_t j = 0; j < both.pairs[i].left_side.count; j++) {
            assert_int_equal(both.pairs[i].left_side.rounds[j]->status, BT_RUN_PASSED);
        }
    }
    bt_comparison_release(&both);
}

static void nothing_changes_when_it_is_refused(void)
{
    bt_store_run run = scratch_run_read(1);
    assert_int_equal(run.status, BT_RUN_INTERRUPTED);
    assert_int_equal(run.gap_count, 0);
    assert_int_equal(run.round_count, 4);
    bt_store_run_release(&run);
}

static void another_program_is_refused(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    scratch_execute("UPDATE build SET git_commit='0123abc', digest='other'");
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "build git_commit: was \"0123abc\", is \"",
                 execute(1, &outcome));
    nothing_changes_when_it_is_refused();
    scratch_execute("DELETE FROM session; DELETE FROM round; DELETE FROM build");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 1", execute(1, &outcome));
}

static void another_machine_is_refused(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    scratch_execute("UPDATE env_fact SET value='a slide rule' WHERE key='cpu.model'");
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "environment cpu.model: was \"a slide rule\", is \"",
                 execute(1, &outcome));
    nothing_changes_when_it_is_refused();
    // A soft fact may differ.
    scratch_execute("UPDATE env_fact SET level=1 WHERE key='cpu.model'");
    ASSERT_OK(execute(1, &outcome));
    assert_int_equal(outcome.status, BT_RUN_PASSED);
}

static void another_plan_or_verb_is_refused(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    scratch_execute("UPDATE suite SET plan_hash='beef'");
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "the recorded plan has the hash", execute(1, &outcome));
    scratch_execute("INSERT INTO session_schedule VALUES(1, 7, 'ab', '{}')");
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "started by 'bt-bench ab'", execute(1, &outcome));
    nothing_changes_when_it_is_refused();
}

static void a_running_one_is_refused(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    bt_store *store = scratch_open(BT_STORE_WRITE);
    ASSERT_OK(bt_store_run_resume(store, 1)); // this process has it now
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 1 is running in process",
                 bt_store_run_resume(store, 1));
    ASSERT_OK(bt_store_close(store));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 1 is running in process", execute(1, &outcome));
}

static void a_failure_before_stays_one(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    make_broken();
    scratch_execute("UPDATE round SET status=2, message='wrong', seal='' WHERE id=2");
    ASSERT_OK(execute(1, &outcome));
    assert_int_equal(outcome.status, BT_RUN_FAILED);
    assert_non_null(strstr(outcome.message, "wrong"));
    bt_store_run run = scratch_run_read(1);
    assert_int_equal(run.round_count, CASES * ROUNDS + 1); // the failed round was not run again
    bt_store_run_release(&run);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "has no rounds left to run", execute(1, &outcome));
}

static void only_the_end_was_missing(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    ASSERT_OK(execute(0, &outcome));
    scratch_execute("UPDATE session SET status=0, ended_ns=0, boot_id='another'");
    ASSERT_OK(execute(1, &outcome));
    assert_int_equal(outcome.status, BT_RUN_PASSED);
    bt_store_run run = scratch_run_read(1);
    assert_int_equal(run.round_count, CASES * ROUNDS);
    bt_store_run_release(&run);
}

// The n-th allocation fails: reported as such, nothing leaks, and the run can still be resumed.
static void failing_allocations_are_reported(void **state)
{
    (void)state;
    bt_run_outcome outcome;
    int refused = 0;
    make_broken();
    int64_t before = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    for (int64_t n = 1; n < 4000 && status != BT_OK; n += 1 + n / 8) {
        bt_mem_fail_at(n);
        status = execute(1, &outcome);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK || status == BT_STATUS_OUT_OF_MEMORY ||
                    status == BT_STATUS_INVALID_ARGUMENT); // the last: it has passed meanwhile
        assert_int_equal(bt_mem_live_count(), before);
        refused += status == BT_STATUS_OUT_OF_MEMORY;
        if (status == BT_STATUS_INVALID_ARGUMENT) {
            break;
        }
    }
    assert_true(refused > 10);
    bt_store_run run = scratch_run_read(1);
    assert_int_equal(run.status, BT_RUN_PASSED);
    bt_store_run_release(&run);
}

// ---- the lock of a device ----------------------------------------------------------------------

static void a_device_has_one_owner(void **state)
{
    (void)state;
    bt_device_lock mine = {-1}, yours = {-1}, other = {-1};
    bool taken = false;
    char owner[64] = "";
    setenv("TMPDIR", test_scratch_path(""), 1);
    ASSERT_OK(bt_device_lock_try("GPU-1/../x", &mine, &taken, owner, sizeof owner));
    assert_true(taken);
    bt_device_lock_sign(&mine, "run 5 of here, process 7");
    ASSERT_OK(bt_device_lock_try("GPU-1/../x", &yours, &taken, owner, sizeof owner));
    assert_false(taken);
    assert_string_equal(owner, "run 5 of here, process 7");
    ASSERT_OK(bt_device_lock_try("GPU-2", &other, &taken, owner, sizeof owner));
    assert_true(taken);
    bt_device_lock_release(&other);
    bt_device_lock_release(&mine);
    bt_device_lock_release(&mine); // again is fine
    ASSERT_OK(bt_device_lock_try("GPU-1/../x", &yours, &taken, owner, sizeof owner));
    assert_true(taken);
    bt_device_lock_release(&yours);
    setenv("TMPDIR", "/dev/null", 1); // no folder
    ASSERT_FAILS(BT_STATUS_IO, "cannot open the lock of the device",
                 bt_device_lock_try("GPU-1", &mine, &taken, owner, sizeof owner));
    unsetenv("TMPDIR");
}

// However its owner ends: here by kill -9.
static void a_dead_owner_has_no_lock(void **state)
{
    (void)state;
    bt_device_lock lock = {-1};
    bool taken = false;
    char owner[64];
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    setenv("TMPDIR", test_scratch_path(""), 1);
    pid_t child = fork();
    if (child == 0) {
        bt_status status = bt_device_lock_try("GPU-1", &lock, &taken, owner, sizeof owner);
        ssize_t told = write(ready[1], status == BT_OK && taken ? "y" : "n", 1);
        (void)told;
        (void)pause();
        _exit(0);
    }
    char answer = 0;
    assert_int_equal(read(ready[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    ASSERT_OK(bt_device_lock_try("GPU-1", &lock, &taken, owner, sizeof owner));
    assert_false(taken);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    ASSERT_OK(bt_device_lock_try("GPU-1", &lock, &taken, owner, sizeof owner));
    assert_true(taken);
    bt_device_lock_release(&lock);
    close(ready[0]);
    close(ready[1]);
    unsetenv("TMPDIR");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(finished_rounds_stay),
        TEST(a_run_without_a_folder_gets_one),
        TEST(a_gap_begins_at_the_last_write),
        TEST(a_resumed_run_keeps_its_floor),
        TEST(a_comparison_meets_the_round_that_counts),
        TEST(another_program_is_refused),
        TEST(another_machine_is_refused),
        TEST(another_plan_or_verb_is_refused),
        TEST(a_running_one_is_refused),
        TEST(a_failure_before_stays_one),
        TEST(only_the_end_was_missing),
        TEST(failing_allocations_are_reported),
        TEST(a_device_has_one_owner),
        TEST(a_dead_owner_has_no_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
