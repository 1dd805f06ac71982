// harness/store/calibration.c - what a rule can find, per case and environment
#include "framework/base/clock.h"
#include "harness/store/internal.h"

static bt_status set_calibrations(bt_store *store, int64_t run, const bt_store_calibration *list,
                                  int64_t count)
{
    BT_TRY(bt_sql_run(store, SQL_CALIBRATIONS_DROP, "i", run));
    for (int64_t i = 0; i < count; i++) {
        const bt_store_calibration *item = &list[i];
        BT_TRY(bt_sql_run(store, SQL_CALIBRATION_ADD, "itttttiirrrrrr", run, item->environment,
                          item->bench, item->name, item->metric, item->rule_json, item->pairs,
                          item->made_ns ? item->made_ns : bt_clock_wall_ns(),
                          item->false_alarm_rate, item->false_alarm_low, item->false_alarm_high,
                          item->smallest, item->smallest_low, item->smallest_high));
    }
    return BT_OK;
}

bt_status bt_store_calibrations_set(bt_store *store, int64_t run, const bt_store_calibration *list,
                                    int64_t count)
{
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, set_calibrations(store, run, list, count));
}

static bt_status take_calibration(bt_reader *in, sqlite3_stmt *row, bt_store_calibration *out)
{
    const char **const texts[] = {&out->environment, &out->bench,     &out->name,
                                  &out->metric,      &out->rule_json, NULL};
    out->run = sqlite3_column_int64(row, 5);
    out->pairs = sqlite3_column_int64(row, 6);
    out->made_ns = sqlite3_column_int64(row, 7);
    out->false_alarm_rate = bt_reader_real(row, 8);
    out->false_alarm_low = bt_reader_real(row, 9);
    out->false_alarm_high = bt_reader_real(row, 10);
    out->smallest = bt_reader_real(row, 11);
    out->smallest_low = bt_reader_real(row, 12);
    out->smallest_high = bt_reader_real(row, 13);
    return bt_reader_texts(in, row, 0, texts);
}

bt_status bt_store_calibration_find(bt_store *store, const char *environment, const char *bench,
                                    const char *name, const char *metric, bt_arena *arena,
                                    bt_store_calibration *out, bool *found)
{
    bt_reader in = {store, arena};
    sqlite3_stmt *row = NULL;
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_bind(store, SQL_CALIBRATION, &row, "tttt", environment, bench, name, metric));
    BT_TRY(bt_sql_next(store, row, found));
    if (!*found) {
        return BT_OK;
    }
    bt_status status = take_calibration(&in, row, out);
    sqlite3_reset(row);
    return status;
}
