// tests/harness/test_seal.c - damage to what is recorded of a round does not go unnoticed
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"
#include "tests/support/test.h"

enum { FLIPS = 300 };

static const bt_store_fault fault = {3, "loss_spike", "continue", "loss 9"};

// A run with rows in every table of a round; the database is then closed.
static int64_t record(void)
{
    sample_run sample = sample_run_default();
    bt_store_eval eval = {0, 3.5, 512, 1000};
    bt_store_range range = {0, "step/forward", 1, 10, 20};
    bt_store_case what = {"t", "training", "second", "{}", "blutrain"};
    bt_store *store = scratch_open(BT_STORE_WRITE);
    int64_t run = 0, round = 0;
    sample.steps = 10;
    sample.telemetry = true;
    sample.fault = &fault;
    ASSERT_OK(sample_run_record(store, &sample, &run));
    ASSERT_OK(bt_store_round_begin(store, run, &what, 0, &round));
    ASSERT_OK(bt_store_eval_add(store, round, &eval));
    ASSERT_OK(bt_store_score_add(store, round, &(bt_store_score){0, 40, 9, 14, 1000}));
    ASSERT_OK(bt_store_state_add(store, round, &(bt_store_state){5, "0123", 1000}));
    ASSERT_OK(bt_store_launch_add(store, round, &(bt_store_launch){3, "graph", "at once"}));
    const bt_store_timeline line = {.step = 5, .time_ns = 9, .work = "pc", .phases = "fb"};
    const bt_store_group group = {"forward", "row", "row-1", "mul", 1, 2, 3, 2, 9};
    const bt_store_group_calls calls = {"forward", "row-1", 20};
    ASSERT_OK(bt_store_group_add(store, round, &group));
    ASSERT_OK(bt_store_group_calls_add(store, round, &calls));
    ASSERT_OK(bt_store_timeline_add(store, round, &line));
    ASSERT_OK(bt_store_range_add(store, round, &range));
    ASSERT_OK(bt_store_round_end(store, round, BT_RUN_PASSED, "", "d1"));
    ASSERT_OK(bt_store_close(store));
    return run;
}

static bt_status read_run(int64_t id, bt_store_run *run)
{
    bt_store *store = NULL;
    bt_status status = bt_store_open(scratch_database, BT_STORE_READ, &store);
    if (status == BT_OK) {
        status = bt_store_run_read(store, id, run);
        char message[BT_ERROR_CAPACITY];
        (void)snprintf(message, sizeof message, "%s", bt_error_message());
        if (bt_store_close(store) != BT_OK && status == BT_OK) {
            bt_store_run_release(run);
            return BT_STATUS_CORRUPT_DATA;
        }
        status = status == BT_OK ? BT_OK : bt_error(status, "%s", message);
    }
    return status;
}

static void restore(const void *bytes, size_t size_bytes)
{
    char beside[SCRATCH_DATABASE_CAPACITY + 8];
    (void)snprintf(beside, sizeof beside, "%s-wal", scratch_database);
    (void)unlink(beside);
    (void)snprintf(beside, sizeof beside, "%s-shm", scratch_database);
    (void)unlink(beside);
    FILE *file = fopen(scratch_database, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

typedef struct column {
    char table[32], name[64];
} column;

enum { COLUMNS_MAX = 128 };

// The columns of a round's tables, but for ids and the seal itself.
static int list_columns(column *out)
{
    static const char sql[] =
        "SELECT t.column1, c.name FROM (VALUES('round'),('step'),('eval'),('range_stat'),"
        "('kernel_use'),('fault'),('score'),('state'),('launch'),('memory'),('measurement'),('"
        "samples'),('"
        "telemetry')) t"
        " JOIN pragma_table_info(t.column1) c WHERE c.name NOT LIKE '%id' AND c.name<>'seal'";
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    int count = 0;
    assert_int_equal(sqlite3_open(scratch_database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    while (sqlite3_step(row) == SQLITE_ROW) {
        assert_true(count < COLUMNS_MAX);
        (void)snprintf(out[count].table, sizeof out->table, "%s", sqlite3_column_text(row, 0));
        (void)snprintf(out[count].name, sizeof out->name, "%s", sqlite3_column_text(row, 1));
        ++count;
    }
    sqlite3_finalize(row);
    sqlite3_close(db);
    return count;
}

static void every_column_counts(void **state)
{
    (void)state;
    column columns[COLUMNS_MAX];
    const int64_t id = record();
    void *whole = NULL;
    size_t size_bytes = 0;
    bt_store_run run;
    ASSERT_OK(read_run(id, &run));
    bt_store_run_release(&run);
    ASSERT_OK(bt_file_read(scratch_database, &whole, &size_bytes));
    const int count = list_columns(columns);
    assert_true(count > 60);
    for (int i = 0; i < count; ++i) {
        char sql[1024];
        const char *name = columns[i].name;
        (void)snprintf(sql, sizeof sql,
                       "UPDATE %.31s SET %.63s=CASE typeof(%.63s) WHEN 'text' THEN %.63s||'x' WHEN "
                       "'blob' THEN zeroblob(length(%.63s)) WHEN 'real' THEN %.63s*1.5+1 "
                       "WHEN 'integer' THEN %.63s+1000 ELSE 1 END",
                       columns[i].table, name, name, name, name, name, name);
        scratch_execute(sql);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "was changed after it was recorded",
                     read_run(id, &run));
        restore(whole, size_bytes);
    }
    ASSERT_OK(read_run(id, &run));
    bt_store_run_release(&run);
    bt_mem_free(whole);
}

static void a_row_more_or_less_counts(void **state)
{
    (void)state;
    static const char *const edits[] = {"DELETE FROM step WHERE step=4",
                                        "DELETE FROM fault",
                                        "DELETE FROM score",
                                        "DELETE FROM state",
                                        "DELETE FROM launch",
                                        "DELETE FROM telemetry",
                                        "DELETE FROM samples",
                                        "INSERT INTO kernel_use VALUES(1, 'gemm', 'another')",
                                        "UPDATE round SET seal='0'||substr(seal, 2)"};
    const int64_t id = record();
    void *whole = NULL;
    size_t size_bytes = 0;
    bt_store_run run;
    ASSERT_OK(bt_file_read(scratch_database, &whole, &size_bytes));
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; ++i) {
        scratch_execute(edits[i]);
        ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "was changed after it was recorded",
                     read_run(id, &run));
        restore(whole, size_bytes);
    }
    bt_mem_free(whole);
}

// Single bits of the file: what can still be read of a round is what was recorded.
static void flipped_bits_change_no_number(void **state)
{
    (void)state;
    const int64_t id = record();
    void *whole = NULL;
    size_t size_bytes = 0;
    bt_store_run run, clean;
    int refused = 0;
    ASSERT_OK(read_run(id, &clean));
    ASSERT_OK(bt_file_read(scratch_database, &whole, &size_bytes));
    unsigned char *bytes = whole;
    for (uint64_t i = 0; i < FLIPS; ++i) {
        const uint64_t bit = bt_rng_below((bt_rng){11, 0}, i, 8 * size_bytes);
        bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        restore(bytes, size_bytes);
        if (read_run(id, &run) != BT_OK) {
            ++refused;
        } else {
            for (int64_t at = 0; at < run.round_count && at < clean.round_count; ++at) {
                const bt_store_round *a = &clean.rounds[at], *b = &run.rounds[at];
                assert_int_equal(a->step_count, b->step_count);
                assert_memory_equal(a->steps, b->steps, (size_t)a->step_count * sizeof *a->steps);
                assert_int_equal(a->measurement_count, b->measurement_count);
                assert_int_equal(a->status, b->status);
            }
            bt_store_run_release(&run);
        }
        bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    print_message("%d of %d flipped bits were refused; the others hit free or unused space\n",
                  refused, FLIPS);
    assert_true(refused > FLIPS / 60);
    restore(bytes, size_bytes);
    bt_store_run_release(&clean);
    bt_mem_free(whole);
}

int main(void)
{
#define SEAL_TEST(name)                                                                            \
    cmocka_unit_test_setup_teardown(name, scratch_database_name, scratch_database_remove)
    const struct CMUnitTest tests[] = {
        SEAL_TEST(every_column_counts),
        SEAL_TEST(a_row_more_or_less_counts),
        SEAL_TEST(flipped_bits_change_no_number),
    };
    return cmocka_run_group_tests_name("seals", tests, NULL, NULL);
}
