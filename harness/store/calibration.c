// harness/store/calibration.c - calibrations per case and environment
#include "framework/base/clock.h"
#include "harness/store/internal.h"

static bt_status set_calibrations(bt_store *store, int64_t run, const bt_store_calibration *list,
                                  int64_t count)
{
    BT_TRY(bt_sql_run(store, SQL_CALIBRATIONS_DROP, "i", run));
    for (int64_t i = 0; i < count; i++) {
        bt_store_calibration item = list[i];
        item.run = run;
        item.made_ns = item.made_ns ? item.made_ns : bt_clock_wall_ns();
        BT_TRY(bt_row_run(store, SQL_CALIBRATION_ADD, NO_OWNER, BT_FIELDS_CALIBRATION, &item));
    }
    return BT_OK;
}

bt_status bt_store_calibrations_set(bt_store *store, int64_t run, const bt_store_calibration *list,
                                    int64_t count)
{
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, set_calibrations(store, run, list, count));
}

bt_status bt_store_calibration_find(bt_store *store, const bt_store_calibration *of,
                                    bt_arena *arena, bt_store_calibration *out, bool *found)
{
    bt_reader in = {store, arena};
    bt_cursor rows = bt_sql_rows(store, SQL_CALIBRATION, "tttttt", of->environment, of->card,
                                 of->bench, of->name, of->metric, of->rule_json);
    *found = bt_cursor_next(&rows);
    if (*found) {
        rows.status = bt_row_take(&in, rows.row, 0, BT_FIELDS_CALIBRATION, out);
    }
    return bt_cursor_end(&rows);
}

bt_status bt_store_calibrations_list(bt_store *store, bt_arena *arena,
                                     const bt_store_calibration **list, int64_t *count)
{
    bt_reader in = {store, arena};
    BT_READER_LIST(&in, SQL_CALIBRATIONS, NULL, BT_FIELDS_CALIBRATION, *list, *count, "");
    return BT_OK;
}

bt_status bt_store_calibrations_remove(bt_store *store, const char *glob, int64_t *removed)
{
    BT_TRY(bt_sql_integer(store, SQL_CALIBRATIONS_GLOB_COUNT, removed, "t", glob));
    return bt_sql_run(store, SQL_CALIBRATIONS_GLOB_DROP, "t", glob);
}

bt_status bt_store_sessions_of(bt_store *store, const char *kind, int64_t since_ns, int64_t except,
                               int64_t *numbers, int64_t room, int64_t *count)
{
    *count = 0;
    bt_cursor rows = bt_sql_rows(store, SQL_SESSIONS_OF_KIND, "tiii", kind, since_ns, except, room);
    while (bt_cursor_next(&rows)) {
        numbers[(*count)++] = sqlite3_column_int64(rows.row, 0);
    }
    return bt_cursor_end(&rows);
}
