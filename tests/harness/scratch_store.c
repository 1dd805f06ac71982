// tests/harness/scratch_store.c - set-up and tear-down around a database; SQL on its file
#include "tests/harness/scratch_store.h"

#include <sqlite3.h>
#include <stdio.h>

#include "framework/base/mem.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

char scratch_database[SCRATCH_DATABASE_CAPACITY];
bt_store *scratch_store;

int scratch_database_name(void **state)
{
    (void)state;
    (void)test_scratch_make();
    const char *path = test_scratch_path("results/bt.sqlite");
    int length = snprintf(scratch_database, sizeof scratch_database, "%s", path);
    return length < SCRATCH_DATABASE_CAPACITY ? 0 : -1;
}

int scratch_database_remove(void **state)
{
    (void)state;
    test_scratch_remove();
    return bt_mem_live_count() == 0 ? 0 : -1;
}

int scratch_store_open(void **state)
{
    int named = scratch_database_name(state);
    return named == 0 && bt_store_open(scratch_database, BT_STORE_WRITE, &scratch_store) == BT_OK
               ? 0
               : -1;
}

int scratch_store_close(void **state)
{
    bt_status status = bt_store_close(scratch_store);
    int removed = scratch_database_remove(state);
    return status == BT_OK ? removed : -1;
}

bt_store *scratch_open(bt_store_mode mode)
{
    bt_store *store = NULL;
    ASSERT_OK(bt_store_open(scratch_database, mode, &store));
    return store;
}

bt_store_run scratch_run_read(int64_t id)
{
    bt_store_run run;
    bt_store *store = scratch_open(BT_STORE_READ);
    ASSERT_OK(bt_store_run_read(store, id, &run));
    ASSERT_OK(bt_store_close(store));
    return run;
}

// ---- past the store ----------------------------------------------------------------------------

static sqlite3 *open_file(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(scratch_database, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    return db;
}

void scratch_execute(const char *sql)
{
    sqlite3 *db = open_file();
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    sqlite3_close(db);
}

int64_t scratch_query(const char *sql)
{
    sqlite3 *db = open_file();
    sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return value;
}
