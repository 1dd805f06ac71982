// tests/harness/test_store.c - recorded data can be read again, whatever happens to the file
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/store/internal.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"

// The store of a fresh database in which this is run 1.
static bt_store *open_with(const sample_run *sample)
{
    int64_t id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    ASSERT_OK(sample_run_record(store, sample, &id));
    assert_int_equal(id, 1);
    return store;
}

// A run without steps that has not ended.
static sample_run going_on(void)
{
    sample_run sample = sample_run_default();
    sample.steps = 0;
    sample.status = BT_RUN_RUNNING;
    return sample;
}

static void check_steps(const sample_run *sample, const bt_store_round *round)
{
    assert_int_equal(round->step_count, sample->steps);
    for (int64_t i = 0; i < sample->steps; i++) {
        bt_store_step wanted = sample_step(sample, i), got = round->steps[i];
        assert_memory_equal(&got.loss, &wanted.loss, sizeof got.loss);
        assert_memory_equal(&got.grad_norm, &wanted.grad_norm, sizeof got.grad_norm);
        assert_memory_equal(&got.lr, &wanted.lr, sizeof got.lr);
        assert_int_equal(got.step, wanted.step);
        assert_int_equal(got.tokens, wanted.tokens);
        assert_int_equal(got.host_ns, wanted.host_ns);
        assert_int_equal(got.device_ns, wanted.device_ns);
        assert_int_equal(got.allocated_bytes, wanted.allocated_bytes);
        assert_int_equal(got.peak_allocated_bytes, wanted.peak_allocated_bytes);
        assert_int_equal(got.reserved_bytes, wanted.reserved_bytes);
        assert_int_equal(got.resident_bytes, wanted.resident_bytes);
        assert_int_equal(got.warmup, wanted.warmup);
        assert_int_equal(got.profiled, wanted.profiled);
    }
}

static void everything_comes_back(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    sample.cases[1] = "bf16";
    bt_store *store = open_with(&sample);
    ASSERT_OK(bt_store_close(store));
    store = scratch_open(BT_STORE_READ);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(run.status, BT_RUN_PASSED);
    assert_int_equal(run.info.seed, 1337);
    assert_string_equal(run.info.suite.name, "gpt2_124m");
    assert_string_equal(run.info.suite.plan_json, sample.plan_json);
    assert_string_equal(run.info.build.compiler, "gcc 12.2.0");
    assert_int_equal(run.info.env.fact_count, 3);
    assert_string_equal(run.info.env.facts[1].key, "gpu.driver");
    assert_int_equal(run.info.env.facts[1].level, BT_FACT_SOFT);
    assert_true(run.ended_ns >= run.started_ns && run.started_ns > 0);
    assert_int_equal(run.process_id, getpid());
    assert_int_equal(run.round_count, 2);
    assert_int_equal(run.artifact_count, 1);
    assert_string_equal(run.artifacts[0].path, "results/run-1/report.html");
    const bt_store_round *round = &run.rounds[1];
    assert_string_equal(round->what.name, "bf16");
    assert_int_equal(round->shape.parameters, 124475904);
    assert_int_equal(round->eval_count, 4);
    assert_int_equal(round->evals[3].step, 60);
    assert_int_equal(round->kernel_count, 3);
    assert_string_equal(round->kernels[0].kernel, "attention_cpu_f32");
    assert_int_equal(round->range_count, 6 * 15);
    assert_string_equal(round->ranges[0].path, "step");
    assert_int_equal(round->memory_count, 1);
    assert_int_equal(round->measurement_count, 1);
    assert_int_equal(round->measurements[0].sample_count, 3);
    double samples[] = {0.99 * 250e6, 250e6, 1.01 * 250e6};
    assert_memory_equal(round->measurements[0].samples, samples, sizeof samples);
    check_steps(&sample, round);
    bt_store_run_release(&run);
    assert_int_equal(bt_mem_live_count(), 0);
}

static void suite_build_and_environment_are_kept_once(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    int64_t first = 0, second = 0, third = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    ASSERT_OK(sample_run_record(store, &sample, &first));
    ASSERT_OK(sample_run_record(store, &sample, &second));
    sample.fact = "570.1";
    ASSERT_OK(sample_run_record(store, &sample, &third));
    bt_store_run_list list;
    ASSERT_OK(bt_store_run_list_read(store, &list));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.rows[0].id, third);
    assert_int_equal(list.rows[0].step_count, 60);
    assert_string_equal(list.rows[2].suite, "gpt2_124m");
    bt_store_run_list_release(&list);
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM suite"), 1);
    assert_int_equal(scratch_query("SELECT count(*) FROM build"), 1);
    assert_int_equal(scratch_query("SELECT count(*) FROM env"), 2);
    assert_int_equal(scratch_query("SELECT count(*) FROM env_fact"), 6);
    assert_int_equal(scratch_query("SELECT count(*) FROM bench_case"), 1);
}

static void nan_and_infinity_keep_their_bits(void **state)
{
    (void)state;
    sample_run sample = going_on();
    bt_store *store = open_with(&sample);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    int64_t round = run.rounds[0].id;
    bt_store_run_release(&run);
    uint32_t bits[] = {0x7fc01234U, 0x7f800000U, 0x80000000U, 1U};
    for (int64_t i = 0; i < 4; i++) {
        bt_store_step step = {.step = i};
        memcpy(&step.loss, &bits[i], sizeof step.loss);
        step.grad_norm = step.loss;
        ASSERT_OK(bt_store_step_add(store, round, &step));
    }
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    for (int64_t i = 0; i < 4; i++) {
        assert_memory_equal(&run.rounds[0].steps[i].loss, &bits[i], sizeof bits[i]);
    }
    assert_true(isnan(run.rounds[0].steps[0].grad_norm));
    assert_true(isinf(run.rounds[0].steps[1].grad_norm));
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
}

// A child records and is killed: what it flushed is there, and the run reads as interrupted.
static void killed_run_is_interrupted_and_readable(void **state)
{
    (void)state;
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE)));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        bt_store *store = NULL;
        sample_run sample = sample_run_default();
        sample.status = BT_RUN_RUNNING;
        int64_t id = 0;
        int ok = bt_store_open(scratch_database, BT_STORE_WRITE, &store) == BT_OK &&
                 sample_run_record(store, &sample, &id) == BT_OK;
        ssize_t told = write(ready[1], &ok, sizeof ok);
        pause();
        _exit(told == 0);
    }
    int ok = 0;
    assert_int_equal(read(ready[0], &ok, sizeof ok), (ssize_t)sizeof ok);
    assert_true(ok);
    bt_store *store = scratch_open(BT_STORE_READ);
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    assert_int_equal(run.status, BT_RUN_RUNNING);
    assert_int_equal(run.rounds[0].status, BT_RUN_RUNNING);
    bt_store_run_release(&run);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    assert_int_equal(run.status, BT_RUN_INTERRUPTED);
    assert_int_equal(run.rounds[0].status, BT_RUN_INTERRUPTED);
    assert_int_equal(run.rounds[0].step_count, 60);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
    close(ready[0]);
    close(ready[1]);
    // The number of the process alone is not enough: this one is running, with another start time.
    char sql[128];
    (void)snprintf(sql, sizeof sql, "UPDATE session SET pid=%d", (int)getpid());
    scratch_execute(sql);
    store = scratch_open(BT_STORE_READ);
    bt_store_run_list list;
    ASSERT_OK(bt_store_run_list_read(store, &list));
    assert_int_equal(list.rows[0].status, BT_RUN_INTERRUPTED);
    bt_store_run_list_release(&list);
    ASSERT_OK(bt_store_close(store));
}

static void two_runs_record_at_once(void **state)
{
    (void)state;
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            bt_store *store = NULL;
            sample_run sample = sample_run_default();
            sample.steps = 3000;
            int64_t id = 0;
            int ok = bt_store_open(scratch_database, BT_STORE_WRITE, &store) == BT_OK &&
                     sample_run_record(store, &sample, &id) == BT_OK &&
                     bt_store_close(store) == BT_OK;
            if (!ok) {
                (void)fprintf(stderr, "%s\n", bt_error_message());
            }
            _exit(ok ? 0 : 1);
        }
    }
    for (int i = 0; i < 2; i++) {
        int code = -1;
        assert_int_equal(waitpid(children[i], &code, 0), children[i]);
        assert_int_equal(code, 0);
    }
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 6000);
    assert_int_equal(scratch_query("SELECT count(*) FROM session WHERE status=1"), 2);
    assert_int_equal(scratch_query("SELECT count(*) FROM suite"), 1);
}

static void half_a_second_flushes(void **state)
{
    (void)state;
    sample_run sample = going_on();
    bt_store *store = open_with(&sample);
    int64_t round = scratch_query("SELECT id FROM round");
    bt_store_step step = {.step = 0};
    ASSERT_OK(bt_store_step_add(store, round, &step));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 0); // a flush was just before
    ASSERT_OK(bt_store_tick(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 0);
    usleep(510000);
    ASSERT_OK(bt_store_tick(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 1);
    usleep(510000);
    step.step = 1;
    ASSERT_OK(bt_store_step_add(store, round, &step)); // slow steps are written one by one
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 2);
    for (step.step = 2; step.step < 2 + 512; step.step++) {
        ASSERT_OK(bt_store_step_add(store, round, &step));
    }
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 514); // a full queue is written
    ASSERT_OK(bt_store_close(store));
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    bt_store *store = NULL;
    bt_store_run run;
    ASSERT_FAILS(BT_STATUS_IO, "no such database",
                 bt_store_open(scratch_database, BT_STORE_READ, &store));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "file name", bt_store_open("", BT_STORE_READ, &store));
    ASSERT_FAILS(BT_STATUS_IO, "unable to open database file (Is a directory) while opening it",
                 bt_store_open("/tmp", BT_STORE_WRITE, &store));
    store = scratch_open(BT_STORE_WRITE);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run is recorded yet",
                 bt_store_run_read(store, 1, &run));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 7",
                 bt_store_run_end(store, 7, BT_RUN_PASSED, ""));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "must end as passed",
                 bt_store_run_end(store, 7, BT_RUN_RUNNING, ""));
    int64_t id = 0;
    sample_run sample = sample_run_default();
    ASSERT_OK(sample_run_record(store, &sample, &id));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "the newest is 1", bt_store_run_read(store, 2, &run));
    bt_store_step step = {.step = 3};
    ASSERT_OK(bt_store_step_add(store, 1, &step));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "UNIQUE", bt_store_flush(store));
    ASSERT_OK(bt_store_step_add(store, 99, &step));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "FOREIGN KEY", bt_store_flush(store));
    bt_store_measurement bad = {.metric = BT_METRIC_COUNT};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no metric", bt_store_measure(store, 1, &bad));
    bt_store_run_info info = {.command = "x"};
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "digests", bt_store_run_begin(store, &info, &id));
    ASSERT_OK(bt_store_close(store));
    ASSERT_OK(bt_store_close(NULL));
    store = scratch_open(BT_STORE_READ);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "for reading", bt_store_step_add(store, 1, &step));
    ASSERT_OK(bt_store_close(store));
}

static void newer_and_foreign_files_are_refused_untouched(void **state)
{
    (void)state;
    bt_store *store = NULL;
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE)));
    int64_t known = scratch_query("PRAGMA user_version");
    scratch_execute("PRAGMA user_version=99");
    char words[96];
    (void)snprintf(words, sizeof words,
                   "the database has version 99, this program supports versions up to %lld",
                   (long long)known);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, words,
                 bt_store_open(scratch_database, BT_STORE_READ, &store));
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, words,
                 bt_store_open(scratch_database, BT_STORE_WRITE, &store));
    assert_null(store);
    assert_int_equal(unlink(scratch_database), 0);
    scratch_execute("CREATE TABLE holiday(photo BLOB)");
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "was not created by bt-bench",
                 bt_store_open(scratch_database, BT_STORE_WRITE, &store));
    assert_int_equal(scratch_query("SELECT count(*) FROM sqlite_schema"), 1);
    assert_int_equal(unlink(scratch_database), 0);
    ASSERT_OK(bt_file_write(scratch_database,
                            "not a database at all, but longer than a header; "
                            "not a database at all, but longer than a header",
                            97));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "damaged or not a database",
                 bt_store_open(scratch_database, BT_STORE_READ, &store));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, scratch_database,
                 bt_store_open(scratch_database, BT_STORE_WRITE, &store));
    assert_int_equal(bt_mem_live_count(), 0);
}

// What the recorder measured is the time between its two ends.
static void a_round_has_one_wall_time(void **state)
{
    (void)state;
    sample_run sample = going_on();
    bt_store *store = open_with(&sample);
    const bt_store_case what = {"b", "kernel", "c", "{}", "blutrain"};
    const bt_store_measurement wall = {.metric = BT_METRIC_WALL_TIME, .value = 123456789};
    int64_t round = 0;
    bt_store_run run;
    ASSERT_OK(bt_store_round_begin(store, 1, &what, 0, &round));
    ASSERT_OK(bt_store_measure(store, round, &wall));
    ASSERT_OK(bt_store_round_end(store, round, BT_RUN_PASSED, "", ""));
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    const bt_store_round *last = &run.rounds[run.round_count - 1];
    assert_int_equal(last->id, round);
    assert_int_equal(last->ended_ns - last->started_ns, 123456789);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
}

static void damaged_pages_and_blobs_are_named(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_store_run run;
    bt_store *store = open_with(&sample);
    ASSERT_OK(bt_store_close(store));
    scratch_execute("UPDATE samples SET data=substr(data, 1, 10); UPDATE round SET seal=''");
    store = scratch_open(BT_STORE_READ);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "step_time_ns", bt_store_run_read(store, 1, &run));
    ASSERT_OK(bt_store_close(store));
    scratch_execute("UPDATE samples SET count=1000000000000");
    store = scratch_open(BT_STORE_READ);
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "1000000000000 doubles", bt_store_run_read(store, 1, &run));
    ASSERT_OK(bt_store_close(store));
    int file = open(scratch_database, O_RDWR);
    char junk[4096];
    memset(junk, 0x5a, sizeof junk);
    for (off_t page = 1; page < 40; page++) {
        assert_int_equal(pwrite(file, junk, sizeof junk, page * 4096), (ssize_t)sizeof junk);
    }
    close(file);
    store = NULL;
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "damaged",
                 bt_store_open(scratch_database, BT_STORE_READ, &store));
    assert_int_equal(bt_mem_live_count(), 0);
}

static void locked_database_times_out_and_recovers(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_store *store = open_with(&sample);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(scratch_database, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    bt_store_set_timeout(store, 100);
    bt_store_step step = {.step = 1000};
    ASSERT_OK(bt_store_step_add(store, 1, &step));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, "locked by another process (waited 0.1 s)",
                 bt_store_flush(store));
    ASSERT_FAILS(BT_STATUS_UNAVAILABLE, scratch_database, bt_store_flush(store));
    bt_store *reader = scratch_open(BT_STORE_READ); // readers do not wait
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(reader, 1, &run));
    assert_int_equal(run.rounds[0].step_count, 60);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(reader));
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    ASSERT_OK(bt_store_flush(store)); // the row was kept
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 61);
}

// A limit on file sizes simulates a full disk: a write of SQLite fails.
static void full_disk_is_said_and_loses_nothing(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_store *store = open_with(&sample);
    int64_t id = 0;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    sample.profile = "other";
    bt_status status = sample_run_record(store, &sample, &id);
    char message[512];
    (void)snprintf(message, sizeof message, "%s", bt_error_message());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, BT_STATUS_IO);
    assert_non_null(strstr(message, scratch_database));
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    assert_int_equal(run.rounds[0].step_count, 60);
    bt_store_run_release(&run);
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 60);
}

// SQLite's own count of a full disk: a database that may not grow.
static void database_that_cannot_grow_is_said_and_recovers(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    bt_store *store = open_with(&sample);
    char limit[64];
    (void)snprintf(limit, sizeof limit, "PRAGMA max_page_count=%lld",
                   (long long)scratch_query("PRAGMA page_count"));
    assert_int_equal(sqlite3_exec(store->db, limit, NULL, NULL, NULL), SQLITE_OK);
    bt_status status = BT_OK;
    int64_t given = 0;
    while (status == BT_OK && given < 100000) {
        bt_store_step step = {.step = 100 + given};
        status = bt_store_step_add(store, 1, &step);
        given++;
    }
    assert_int_equal(status, BT_STATUS_IO);
    assert_non_null(strstr(bt_error_message(), "the disk is full"));
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA max_page_count=1000000", NULL, NULL, NULL),
                     SQLITE_OK);
    ASSERT_OK(bt_store_flush(store)); // the rows were kept
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 60 + given);
}

// An ordinary user's access to a folder of another user: 0 when as it should be.
static int look_at_read_only_folder(void)
{
    bt_store *store = NULL;
    bt_store_run run;
    if (geteuid() == 0 && setuid(65534) != 0) {
        return 77;
    }
    if (bt_store_open(scratch_database, BT_STORE_WRITE, &store) != BT_STATUS_IO ||
        !strstr(bt_error_message(), "read-only")) {
        return 1;
    }
    if (bt_store_open(scratch_database, BT_STORE_READ, &store) != BT_OK ||
        bt_store_run_read(store, 1, &run) != BT_OK) {
        return 2;
    }
    int64_t steps = run.rounds[0].step_count;
    bt_store_run_release(&run);
    return bt_store_close(store) == BT_OK && steps == 60 ? 0 : 3;
}

static void read_only_folder_can_be_read(void **state)
{
    (void)state;
    sample_run sample = sample_run_default();
    // A name that a URI would misread.
    (void)snprintf(scratch_database, sizeof scratch_database, "%s",
                   test_scratch_path("sub/a?b#c%d.sqlite"));
    ASSERT_OK(bt_store_close(open_with(&sample)));
    const char *folder = test_scratch_path("sub");
    assert_int_equal(chmod(test_scratch_path(""), 0755), 0);
    assert_int_equal(chmod(scratch_database, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        int code = look_at_read_only_folder();
        (void)fprintf(stderr, "%s\n", code ? bt_error_message() : "");
        _exit(code);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(code, 0);
}

static void verdicts_are_replaced_by_kind(void **state)
{
    (void)state;
    bt_store_verdict list[] = {
        {"", "gelu", "time_ns", "SLOWER", 1.03, 1.02, 1.04, 8, "", "{\"tolerance\":0.01}"},
        {"", "gelu", "tokens_per_s", "INVALID", (double)NAN, (double)NAN, (double)NAN, 0, "wrong",
         "{}"},
        {"", "adamw", "time_ns", "SAME", 1, 0.99, 1.001, 8, "", "{}"}};
    sample_run sample = sample_run_default();
    bt_store *store = open_with(&sample);
    ASSERT_OK(bt_store_verdicts_set(store, 1, "gate", list, 3));
    ASSERT_OK(bt_store_verdicts_set(store, 1, "ab", &list[2], 1));
    ASSERT_OK(bt_store_verdicts_set(store, 1, "gate", list, 2));
    bt_store_run run;
    ASSERT_OK(bt_store_run_read(store, 1, &run));
    assert_int_equal(run.verdict_count, 3);
    assert_string_equal(run.verdicts[0].kind, "ab");
    assert_string_equal(run.verdicts[0].subject, "adamw");
    assert_string_equal(run.verdicts[1].verdict, "SLOWER");
    assert_string_equal(run.verdicts[1].rule_json, "{\"tolerance\":0.01}");
    assert_true(run.verdicts[1].ratio == 1.03 && run.verdicts[1].low == 1.02);
    assert_true(isnan(run.verdicts[2].ratio));
    assert_string_equal(run.verdicts[2].reason, "wrong");
    bt_store_run_release(&run);
    // Two of one subject and metric: nothing changes. A run that is not there: neither.
    list[1] = list[0];
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "UNIQUE",
                 bt_store_verdicts_set(store, 1, "gate", list, 2));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no run 99",
                 bt_store_verdicts_set(store, 99, "gate", list, 1));
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("SELECT count(*) FROM verdict"), 3);
}

static bt_status record_and_read(void)
{
    bt_store *store = NULL;
    bt_store_run run;
    sample_run sample = sample_run_default();
    sample.steps = 12;
    int64_t id = 0;
    BT_TRY(bt_store_open(scratch_database, BT_STORE_WRITE, &store));
    bt_status status = sample_run_record(store, &sample, &id);
    if (status == BT_OK) {
        status = bt_store_run_read(store, id, &run);
    }
    if (status == BT_OK) {
        bt_store_run_release(&run);
    }
    bt_status closed = bt_store_close(store);
    return status != BT_OK ? status : closed;
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    int64_t live = bt_mem_live_count();
    int64_t n = 0;
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    while (status != BT_OK) {
        bt_mem_fail_at(++n);
        status = record_and_read();
        bt_mem_fail_at(0);
        if (status != BT_OK) {
            assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        }
        assert_int_equal(bt_mem_live_count(), live);
        assert_true(n < 1000);
    }
    assert_true(n > 5); // the sweep met failures before it met none
}

// Half a percent of a fast step (10 ms) is 50 us; a step is queued in far less, and all steps of a
// batch, flush included, stay below that on average. The fastest batch counts: other work on the
// machine slows single ones.
static void recording_costs_little(void **state)
{
    (void)state;
    enum { BATCHES = 5, STEPS = 1000 };
    sample_run sample = going_on();
    bt_store *store = open_with(&sample);
    double best_us = (double)INFINITY;
    for (int64_t i = 0; i < BATCHES; i++) {
        const int64_t start_ns = bt_clock_ns();
        for (int64_t k = 0; k < STEPS; k++) {
            bt_store_step step = {
                .step = i * STEPS + k, .loss = 3.0F, .tokens = 512, .host_ns = 10000000};
            ASSERT_OK(bt_store_step_add(store, 1, &step));
        }
        ASSERT_OK(bt_store_flush(store));
        best_us = fmin(best_us, (double)(bt_clock_ns() - start_ns) / 1e3 / STEPS);
    }
    print_message("%.1f us a step\n", best_us);
    assert_true(best_us <= 50.0);
    ASSERT_OK(bt_store_close(store));
}

static void metrics_table_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        const bt_metric_row *row = bt_metric_info((bt_metric)i);
        bt_metric back = BT_METRIC_COUNT;
        assert_true(bt_metric_parse(row->tag, &back));
        assert_int_equal(back, i);
        assert_true(row->description[0] != '\0');
    }
    bt_metric none;
    assert_false(bt_metric_parse("no_such", &none));
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, scratch_database_name, scratch_database_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everything_comes_back),
        TEST(suite_build_and_environment_are_kept_once),
        TEST(nan_and_infinity_keep_their_bits),
        TEST(killed_run_is_interrupted_and_readable),
        TEST(two_runs_record_at_once),
        TEST(half_a_second_flushes),
        TEST(bad_arguments_are_refused),
        TEST(newer_and_foreign_files_are_refused_untouched),
        TEST(a_round_has_one_wall_time),
        TEST(damaged_pages_and_blobs_are_named),
        TEST(locked_database_times_out_and_recovers),
        TEST(full_disk_is_said_and_loses_nothing),
        TEST(database_that_cannot_grow_is_said_and_recovers),
        TEST(read_only_folder_can_be_read),
        TEST(verdicts_are_replaced_by_kind),
        TEST(every_failing_allocation_is_reported),
        TEST(recording_costs_little),
        TEST(metrics_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
