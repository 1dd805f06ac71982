// harness/store/remove.c - deletes runs
//
// A run is deleted with all of its rows, and with everything that only it used: its plan, build,
// environment, cases and files. Calibrations whose newest session it was are deleted too.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/scoped.h"
#include "harness/store/internal.h"

// References to a run from other records. Baselines have copies of what they need, so nothing
// breaks without the run except the link to it.
bt_status bt_store_run_references(bt_store *store, int64_t run, bt_str *out)
{
    int64_t found = 0;
    BT_TRY(bt_sql_integer(store, SQL_SESSION_COUNT, &found, "i", run));
    if (found != 1) {
        return bt_store_no_such_run(store, run);
    }
    bt_cursor baselines = bt_sql_rows(store, SQL_RUN_BASELINES, "i", run);
    while (bt_cursor_next(&baselines)) {
        bt_str_format(out, "%sbaseline %s of %s", out->length_bytes ? ", " : "",
                      (const char *)sqlite3_column_text(baselines.row, 0),
                      (const char *)sqlite3_column_text(baselines.row, 1));
    }
    BT_TRY(bt_cursor_end(&baselines));
    bt_cursor verdicts = bt_sql_rows(store, SQL_RUN_VERDICTS, "i", run);
    while (bt_cursor_next(&verdicts)) {
        bt_str_format(out, "%sthe verdicts of run %lld", out->length_bytes ? ", " : "",
                      (long long)sqlite3_column_int64(verdicts.row, 0));
    }
    BT_TRY(bt_cursor_end(&verdicts));
    return bt_str_status(out);
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat left, right;
    return strcmp(a, b) == 0 || (stat(a, &left) == 0 && stat(b, &right) == 0 &&
                                 left.st_dev == right.st_dev && left.st_ino == right.st_ino);
}

bt_status bt_store_run_beside(bt_store *store, int64_t run, const char *folder, int64_t *other)
{
    bt_cursor rows = bt_sql_rows(store, SQL_RUN_FOLDERS, "i", run);
    *other = 0;
    while (*other == 0 && bt_cursor_next(&rows)) {
        const bool same = is_same_folder((const char *)sqlite3_column_text(rows.row, 1), folder);
        *other = same ? sqlite3_column_int64(rows.row, 0) : 0;
    }
    return bt_cursor_end(&rows);
}

// Appends deletes for the rows of every table that references rows of `parent` by a foreign key;
// `which` selects the parent's rows. So no table can be forgotten. Rows below these are deleted by
// ON DELETE CASCADE.
static bt_status remove_children(bt_store *store, const char *parent, const char *which,
                                 bt_str *text)
{
    bt_cursor rows = bt_sql_rows(store, SQL_CHILDREN, "t", parent);
    while (bt_cursor_next(&rows)) {
        bt_str_format(text, "DELETE FROM \"%s\" WHERE \"%s\" IN (%s);",
                      (const char *)sqlite3_column_text(rows.row, 0),
                      (const char *)sqlite3_column_text(rows.row, 1), which);
    }
    return bt_cursor_end(&rows);
}

static bt_status list_removals(bt_store *store, int64_t run, bt_str *text)
{
    char number[24], rounds[80];
    (void)snprintf(number, sizeof number, "%lld", (long long)run);
    (void)snprintf(rounds, sizeof rounds, "SELECT id FROM round WHERE session_id=%s", number);
    BT_TRY(remove_children(store, "round", rounds, text));
    BT_TRY(remove_children(store, "session", number, text));
    bt_str_format(text,
                  "DELETE FROM session WHERE id=%s;"
                  "DELETE FROM content WHERE id NOT IN (SELECT content_id FROM session_file);"
                  "DELETE FROM suite WHERE id NOT IN (SELECT suite_id FROM session);"
                  "DELETE FROM build WHERE id NOT IN (SELECT build_id FROM session)"
                  " AND id NOT IN (SELECT build_id FROM session_system);"
                  "DELETE FROM env_fact WHERE env_id NOT IN (SELECT env_id FROM session);"
                  "DELETE FROM env WHERE id NOT IN (SELECT env_id FROM session);"
                  "DELETE FROM bench_case WHERE id NOT IN (SELECT case_id FROM round);"
                  "DELETE FROM bench WHERE id NOT IN (SELECT bench_id FROM bench_case);",
                  number);
    return bt_str_status(text);
}

static bt_status remove_rows(bt_store *store, int64_t run)
{
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(list_removals(store, run, &text));
    return bt_sql_exec(store, bt_str_text(&text), "removing a run");
}

bt_status bt_store_run_remove(bt_store *store, int64_t run)
{
    bt_cursor rows = bt_sql_rows(store, SQL_RESUME_LOOK, "i", run);
    const bool found = bt_cursor_next(&rows) && sqlite3_column_type(rows.row, 0) != SQLITE_NULL;
    const bool running =
        found && bt_reader_status(rows.row, 0, bt_reader_alive(rows.row, 2)) == BT_RUN_RUNNING;
    BT_TRY(bt_cursor_end(&rows));
    if (!found) {
        return bt_store_no_such_run(store, run);
    }
    BT_FAIL_IF(running, BT_STATUS_INVALID_ARGUMENT, "run %lld is still running", (long long)run);
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, remove_rows(store, run));
}

bt_status bt_store_compact(bt_store *store, int64_t *freed_bytes)
{
    int64_t pages = 0, fewer = 0, page_bytes = 0;
    *freed_bytes = 0;
    BT_TRY(bt_sql_integer(store, SQL_PAGE_COUNT, &pages, ""));
    BT_TRY(bt_sql_integer(store, SQL_PAGE_SIZE, &page_bytes, ""));
    BT_TRY(bt_sql_exec(store, "VACUUM", "freeing disk space"));
    BT_TRY(bt_sql_integer(store, SQL_PAGE_COUNT, &fewer, ""));
    *freed_bytes = (pages - fewer) * page_bytes;
    return bt_sql_exec(store, "PRAGMA wal_checkpoint(TRUNCATE)", "freeing disk space");
}
