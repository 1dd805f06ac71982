// harness/store/systems.c - which builds a session compared, and how its rounds were ordered
#include "harness/store/internal.h"

static bt_status add_system(bt_store *store, int64_t run, int64_t position,
                            const bt_store_system *item)
{
    const bt_store_build *build = &item->build;
    int64_t build_id = 0;
    BT_TRY(bt_sql_run(store, SQL_BUILD_ADD, "tttttttt", build->digest, build->version,
                      build->git_commit, build->git_diff, build->compiler, build->flags,
                      build->type, build->cuda));
    BT_TRY(bt_sql_integer(store, SQL_BUILD_ID, &build_id, "t", build->digest));
    return bt_sql_run(store, SQL_SYSTEM_ADD, "iittri", run, position, item->name, item->program,
                      item->inject_slowdown, build_id);
}

bt_status bt_schedule_rows_write(bt_store *store, int64_t run, const bt_store_schedule *schedule)
{
    BT_TRY(bt_sql_run(store, SQL_SCHEDULE_DROP, "i", run));
    BT_TRY(bt_sql_run(store, SQL_SYSTEMS_DROP, "i", run));
    BT_TRY(bt_sql_run(store, SQL_SCHEDULE_ADD, "iitt", run, (int64_t)schedule->seed, schedule->kind,
                      schedule->rule_json));
    for (int64_t i = 0; i < schedule->system_count; i++) {
        BT_TRY(add_system(store, run, i, &schedule->systems[i]));
    }
    return BT_OK;
}

bt_status bt_store_schedule_set(bt_store *store, int64_t run, const bt_store_schedule *schedule)
{
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, bt_schedule_rows_write(store, run, schedule));
}

// ---- reading -----------------------------------------------------------------------------------

static bt_status take_system(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_system *system = item;
    bt_store_build *build = &system->build;
    const char **const texts[] = {&system->name,
                                  &system->program,
                                  &build->digest,
                                  &build->version,
                                  &build->git_commit,
                                  &build->git_diff,
                                  &build->compiler,
                                  &build->flags,
                                  &build->type,
                                  &build->cuda,
                                  NULL};
    system->inject_slowdown = bt_reader_real(row, 10);
    return bt_reader_texts(in, row, 0, texts);
}

static bt_status take_schedule(bt_reader *in, sqlite3_stmt *row, bt_store_schedule *out)
{
    const char **const texts[] = {&out->kind, &out->rule_json, NULL};
    out->seed = (uint64_t)sqlite3_column_int64(row, 0);
    return bt_reader_texts(in, row, 1, texts);
}

bt_status bt_store_schedule_read(bt_reader *in, bt_store_run *run)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    bt_store_schedule *schedule = &run->schedule;
    *schedule = (bt_store_schedule){.kind = "", .rule_json = ""};
    BT_TRY(bt_sql_bind(in->store, SQL_SCHEDULE, &row, "i", run->id));
    BT_TRY(bt_sql_next(in->store, row, &more));
    if (more) {
        bt_status status = take_schedule(in, row, schedule);
        sqlite3_reset(row);
        BT_TRY(status);
    }
    BT_READER_ROWS(in, SQL_SYSTEMS_COUNT, SQL_SYSTEMS, run->id, take_system, schedule->systems,
                   schedule->system_count);
    return BT_OK;
}
