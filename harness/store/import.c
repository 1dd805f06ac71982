// harness/store/import.c - a whole run, as it was read, into a database
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

static bt_status add_series(bt_store *store, const bt_store_round *from, int64_t round)
{
    for (int64_t i = 0; i < from->step_count; i++) {
        queue_row row = {QUEUE_STEP, round, {.step = from->steps[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->eval_count; i++) {
        queue_row row = {QUEUE_EVAL, round, {.eval = from->evals[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->range_count; i++) {
        queue_row row = {QUEUE_RANGE, round, {.range = from->ranges[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->kernel_count; i++) {
        queue_row row = {QUEUE_KERNEL, round, {.kernel = from->kernels[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->score_count; i++) {
        queue_row row = {QUEUE_SCORE, round, {.score = from->scores[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->fault_count; i++) {
        queue_row row = {QUEUE_FAULT, round, {.fault = from->faults[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    for (int64_t i = 0; i < from->memory_count; i++) {
        queue_row row = {QUEUE_MEMORY, round, {.memory = from->memory[i]}};
        BT_TRY(bt_queue_row_write(store, &row));
    }
    return BT_OK;
}

static bt_status add_round(bt_store *store, int64_t run, const bt_store_round *from)
{
    const bt_store_shape *shape = &from->shape;
    int64_t case_id = 0;
    BT_TRY(bt_case_add(store, &from->what, &case_id));
    BT_TRY(bt_sql_run(store, SQL_ROUND_IMPORT, "iitiitiit", run, case_id, from->what.system,
                      from->ordinal, (int64_t)from->status, from->message, from->started_ns,
                      from->ended_ns, from->params_digest));
    int64_t round = sqlite3_last_insert_rowid(store->db);
    BT_TRY(bt_sql_run(store, SQL_ROUND_DESCRIBE, "tttiiiiiii", shape->device, shape->precision,
                      shape->dataset, shape->parameters, shape->tensors, shape->accumulation,
                      shape->steps, shape->train_tokens, shape->val_tokens, round));
    BT_TRY(add_series(store, from, round));
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
    for (int64_t i = 0; i < run->gap_count; i++) {
        BT_TRY(bt_sql_run(store, SQL_GAP_ADD, "iiii", *id, run->gaps[i].stopped_ns,
                          run->gaps[i].resumed_ns, (int64_t)run->gaps[i].status));
    }
    for (int64_t i = 0; i < run->file_count; i++) {
        BT_TRY(bt_file_row_write(store, *id, &run->files[i]));
    }
    for (int64_t i = 0; i < run->verdict_count; i++) {
        BT_TRY(bt_verdict_row_write(store, *id, run->verdicts[i].kind, &run->verdicts[i]));
    }
    return BT_OK;
}

bt_status bt_store_run_find(bt_store *store, const bt_store_run *run, int64_t *id)
{
    const bt_store_run_info *info = &run->info;
    *id = 0;
    BT_TRY(bt_store_flush(store));
    return bt_sql_integer(store, SQL_SESSION_SAME, id, "ittt", run->started_ns,
                          info->suite.plan_hash, info->build.digest, info->env.digest);
}

bt_status bt_store_run_import(bt_store *store, const bt_store_run *run, bool number, int64_t *id)
{
    if (run->status == BT_RUN_RUNNING) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "run %lld still goes on", (long long)run->id);
    }
    *id = 0;
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_begin(store));
    bt_status status = bt_sql_end(store, add_all(store, run, number, id));
    if (status != BT_OK) {
        *id = 0;
    }
    return status;
}
