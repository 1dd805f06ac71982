// harness/store/remove.c - runs out of the record
//
// A run is removed with all of its rows, and with what only it used: its plan, build, environment,
// cases and files. Calibrations that it was the newest session of go with it.
#include "harness/store/internal.h"

// What refers to a run from elsewhere. Baselines hold copies of what they need, so nothing breaks
// without the run but the way back to it.
bt_status bt_store_run_references(bt_store *store, int64_t run, bt_str *out)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    int64_t found = 0;
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_integer(store, SQL_SESSION_COUNT, &found, "i", run));
    if (found != 1) {
        return bt_store_no_such_run(store, run);
    }
    BT_TRY(bt_sql_bind(store, SQL_RUN_BASELINES, &row, "i", run));
    BT_TRY(bt_sql_next(store, row, &more));
    while (more) {
        bt_str_format(out, "%sbaseline %s of %s", out->length_bytes ? ", " : "",
                      (const char *)sqlite3_column_text(row, 0),
                      (const char *)sqlite3_column_text(row, 1));
        BT_TRY(bt_sql_next(store, row, &more));
    }
    sqlite3_reset(row);
    BT_TRY(bt_sql_bind(store, SQL_RUN_VERDICTS, &row, "i", run));
    BT_TRY(bt_sql_next(store, row, &more));
    while (more) {
        bt_str_format(out, "%sthe verdicts of run %lld", out->length_bytes ? ", " : "",
                      (long long)sqlite3_column_int64(row, 0));
        BT_TRY(bt_sql_next(store, row, &more));
    }
    sqlite3_reset(row);
    return bt_str_status(out);
}

static bt_status remove_rows(bt_store *store, int64_t run)
{
    static const store_statement of_rounds[] = {
        SQL_REMOVE_SAMPLES, SQL_REMOVE_MEASUREMENTS, SQL_REMOVE_STEPS,  SQL_REMOVE_EVALS,
        SQL_REMOVE_RANGES,  SQL_REMOVE_KERNELS,      SQL_REMOVE_FAULTS, SQL_REMOVE_MEMORY,
        SQL_REMOVE_SCORES,  SQL_REMOVE_TELEMETRY,    SQL_REMOVE_ROUNDS};
    static const store_statement of_session[] = {
        SQL_REMOVE_ARTIFACTS, SQL_REMOVE_VERDICTS, SQL_REMOVE_FILES,        SQL_REMOVE_SCHEDULE,
        SQL_REMOVE_SYSTEMS,   SQL_REMOVE_GAPS,     SQL_REMOVE_CALIBRATIONS, SQL_REMOVE_SESSION};
    static const store_statement unused[] = {SQL_REMOVE_UNUSED_CONTENT, SQL_REMOVE_UNUSED_SUITES,
                                             SQL_REMOVE_UNUSED_BUILDS,  SQL_REMOVE_UNUSED_FACTS,
                                             SQL_REMOVE_UNUSED_ENVS,    SQL_REMOVE_UNUSED_CASES};
    for (size_t i = 0; i < sizeof of_rounds / sizeof of_rounds[0]; i++) {
        BT_TRY(bt_sql_run(store, of_rounds[i], "i", run));
    }
    for (size_t i = 0; i < sizeof of_session / sizeof of_session[0]; i++) {
        BT_TRY(bt_sql_run(store, of_session[i], "i", run));
    }
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++) {
        BT_TRY(bt_sql_run(store, unused[i], ""));
    }
    return BT_OK;
}

bt_status bt_store_run_remove(bt_store *store, int64_t run)
{
    sqlite3_stmt *row = NULL;
    bool found = false;
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_bind(store, SQL_RESUME_LOOK, &row, "i", run));
    BT_TRY(bt_sql_next(store, row, &found));
    found = found && sqlite3_column_type(row, 0) != SQLITE_NULL;
    bool running = found && bt_reader_status(row, 0, bt_reader_alive(row, 2)) == BT_RUN_RUNNING;
    sqlite3_reset(row);
    if (!found) {
        return bt_store_no_such_run(store, run);
    }
    if (running) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "run %lld still goes on", (long long)run);
    }
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, remove_rows(store, run));
}

bt_status bt_store_compact(bt_store *store, int64_t *freed_bytes)
{
    int64_t pages = 0, fewer = 0, page_bytes = 0;
    *freed_bytes = 0;
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_integer(store, SQL_PAGE_COUNT, &pages, ""));
    BT_TRY(bt_sql_integer(store, SQL_PAGE_SIZE, &page_bytes, ""));
    BT_TRY(bt_sql_exec(store, "VACUUM", "giving back space"));
    BT_TRY(bt_sql_integer(store, SQL_PAGE_COUNT, &fewer, ""));
    *freed_bytes = (pages - fewer) * page_bytes;
    return bt_sql_exec(store, "PRAGMA wal_checkpoint(TRUNCATE)", "giving back space");
}
