// harness/store/resume.c - this process resumes an interrupted run
//
// Rounds that had begun and not ended stay in the record as interrupted; the gap is recorded. All
// of it is one transaction under the write lock, so that only one of two processes gets the run.
#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "harness/store/internal.h"

// When and with which status it stopped; refuses a run that did not.
static bt_status look(bt_store *store, sqlite3_stmt *row, int64_t run, bt_store_gap *gap)
{
    bool alive = bt_reader_alive(row, 2);
    gap->status = bt_reader_status(row, 0, alive);
    BT_FAIL_IF(gap->status == BT_RUN_RUNNING, BT_STATUS_INVALID_ARGUMENT,
               "%s: run %lld is running in process %lld; 'bt-bench watch %lld' shows it",
               store->path, (long long)run, (long long)sqlite3_column_int64(row, 2),
               (long long)run);
    BT_FAIL_IF(gap->status == BT_RUN_PASSED, BT_STATUS_INVALID_ARGUMENT,
               "%s: run %lld has passed: it has no rounds left to run", store->path,
               (long long)run);
    int64_t ended_ns = sqlite3_column_int64(row, 1), sign_ns = sqlite3_column_int64(row, 5);
    gap->stopped_ns = ended_ns ? ended_ns : sign_ns;
    return BT_OK;
}

static bt_status resume(bt_store *store, int64_t run)
{
    bt_store_gap gap = {.resumed_ns = bt_clock_wall_ns()};
    process_mark mark;
    bt_cursor rows = bt_sql_rows(store, SQL_RESUME_LOOK, "i", run);
    const bool found = bt_cursor_next(&rows);
    if (found) {
        rows.status = look(store, rows.row, run, &gap);
    }
    BT_TRY(bt_cursor_end(&rows));
    if (!found) {
        return bt_store_no_such_run(store, run);
    }
    bt_process_mark_self(&mark);
    BT_TRY(bt_row_add(store, run, BT_FIELDS_GAP, &gap));
    BT_TRY(bt_sql_run(store, SQL_RESUME_ROUNDS, "iti", (int64_t)BT_RUN_INTERRUPTED,
                      "the recorder of the round was lost", run));
    return bt_sql_run(store, SQL_RESUME_SESSION, "iiiti", gap.resumed_ns, mark.pid, mark.started,
                      mark.boot_id, run);
}

bt_status bt_store_run_resume(bt_store *store, int64_t run)
{
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, resume(store, run));
}
