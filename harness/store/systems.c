// harness/store/systems.c - the builds that a session compared, and the order of its rounds
#include "harness/store/internal.h"

static bt_status add_system(bt_store *store, int64_t run, int64_t position,
                            const bt_store_system *item)
{
    int64_t build_id = 0;
    BT_TRY(bt_build_add(store, &item->build, &build_id));
    return bt_sql_run(store, SQL_SYSTEM_ADD, "iittri", run, position, item->name, item->program,
                      item->inject_slowdown, build_id);
}

bt_status bt_schedule_rows_write(bt_store *store, int64_t run, const bt_store_schedule *schedule)
{
    BT_TRY(bt_sql_run(store, SQL_SCHEDULE_DROP, "i", run));
    BT_TRY(bt_sql_run(store, SQL_SYSTEMS_DROP, "i", run));
    BT_TRY(bt_row_add(store, run, BT_FIELDS_SCHEDULE, schedule));
    for (int64_t i = 0; i < schedule->system_count; i++) {
        BT_TRY(add_system(store, run, i, &schedule->systems[i]));
    }
    return BT_OK;
}

bt_status bt_store_schedule_set(bt_store *store, int64_t run, const bt_store_schedule *schedule)
{
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, bt_schedule_rows_write(store, run, schedule));
}

// ---- reading -----------------------------------------------------------------------------------

static bt_status take_system(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_system *system = item;
    BT_TRY(bt_row_take(in, row, 0, BT_FIELDS_SYSTEM, system));
    return bt_row_take(in, row, 3, BT_FIELDS_BUILD, &system->build);
}

bt_status bt_store_schedule_read(bt_reader *in, bt_store_run *run)
{
    bt_store_schedule *schedule = &run->schedule, *found = NULL;
    int64_t count = 0;
    BT_READER_RECORDS(in, BT_FIELDS_SCHEDULE, run->id, found, count);
    *schedule = count > 0 ? *found : (bt_store_schedule){.kind = "", .rule_json = ""};
    BT_READER_ROWS(in, SQL_SYSTEMS, take_system, schedule->systems, schedule->system_count, "i",
                   run->id);
    return BT_OK;
}
