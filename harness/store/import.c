// harness/store/import.c - writes a whole run into a database
#include "framework/base/idioms.h"
#include "harness/store/internal.h"

static bt_status add_session(bt_store *store, const bt_store_run *run, bool number, int64_t *id)
{
    const bt_store_run_info *info = &run->info;
    session_parents parents;
    BT_TRY(bt_session_parents_add(store, info, &parents));
    BT_TRY(bt_sql_run(store, SQL_SESSION_IMPORT, "iiiittiitii", number ? run->id : (int64_t)0,
                      parents.suite, parents.build, parents.env, info->command, info->out_dir,
                      (int64_t)info->seed, (int64_t)run->status, run->message, run->started_ns,
                      run->ended_ns));
    *id = sqlite3_last_insert_rowid(store->db);
    return BT_OK;
}

static bt_status add_rows(bt_store *store, int64_t owner, bt_fields_of kind, const void *items,
                          int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        BT_TRY(bt_row_add(store, owner, kind,
                          (const char *)items + (size_t)i * bt_fields_info(kind)->item_bytes));
    }
    return BT_OK;
}

static bt_status add_round(bt_store *store, int64_t run, const bt_store_round *from)
{
    int64_t case_id = 0;
    BT_TRY(bt_case_add(store, &from->what, &case_id));
    BT_TRY(bt_sql_run(store, SQL_ROUND_IMPORT, "iitiitiit", run, case_id, from->what.system,
                      from->ordinal, (int64_t)from->status, from->message, from->started_ns,
                      from->ended_ns, from->params_digest));
    int64_t round = sqlite3_last_insert_rowid(store->db);
    BT_TRY(bt_row_run(store, SQL_ROUND_DESCRIBE, round, BT_FIELDS_SHAPE, &from->shape));
    size_t list_count = 0;
    const bt_list *lists = bt_round_lists(&list_count);
    for (size_t i = 0; i < list_count; i++) {
        int64_t count = 0;
        const void *items = bt_list_get(&lists[i], from, &count);
        BT_TRY(add_rows(store, round, lists[i].kind, items, lists[i].is_table ? count : 0));
    }
    for (int64_t i = 0; i < from->measurement_count; i++) {
        BT_TRY(bt_measurement_write(store, round, &from->measurements[i]));
    }
    BT_TRY(
        bt_telemetry_row_write(store, round, from->label, from->telemetry, from->telemetry_count));
    return bt_seal_write(store, round);
}

static bt_status add_all(bt_store *store, const bt_store_run *run, bool number, int64_t *id)
{
    BT_TRY(add_session(store, run, number, id));
    for (int64_t i = 0; i < run->round_count; i++) {
        BT_TRY(add_round(store, *id, &run->rounds[i]));
    }
    const bt_store_schedule *schedule = &run->schedule;
    if (schedule->seed || (schedule->kind && schedule->kind[0]) || schedule->system_count) {
        BT_TRY(bt_schedule_rows_write(store, *id, schedule));
    }
    BT_TRY(add_rows(store, *id, BT_FIELDS_GAP, run->gaps, run->gap_count));
    for (int64_t i = 0; i < run->file_count; i++) {
        BT_TRY(bt_file_row_write(store, *id, &run->files[i]));
    }
    return add_rows(store, *id, BT_FIELDS_VERDICT, run->verdicts, run->verdict_count);
}

bt_status bt_store_run_find(bt_store *store, const bt_store_run *run, int64_t *id)
{
    const bt_store_run_info *info = &run->info;
    *id = 0;
    return bt_sql_integer(store, SQL_SESSION_SAME, id, "ittt", run->started_ns,
                          info->suite.plan_hash, info->build.digest, info->env.digest);
}

bt_status bt_store_run_import(bt_store *store, const bt_store_run *run, bool number, int64_t *id)
{
    BT_FAIL_IF(run->status == BT_RUN_RUNNING, BT_STATUS_INVALID_ARGUMENT,
               "run %lld is still running", (long long)run->id);
    *id = 0;
    BT_TRY(bt_sql_begin(store));
    bt_status status = bt_sql_end(store, add_all(store, run, number, id));
    if (status != BT_OK) {
        *id = 0;
    }
    return status;
}
