// harness/store/read.c - a run as plain structs, all of one moment, all in one arena
#include <math.h>
#include <string.h>

#include "harness/store/internal.h"

static bt_status take_measurement(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_measurement *measurement = item;
    const char *tag = NULL;
    BT_TRY(bt_reader_text(in, row, 0, &tag));
    if (!bt_metric_parse(tag, &measurement->metric)) {
        return bt_error(BT_STATUS_UNAVAILABLE, "%s: a measurement of an unknown metric '%s'",
                        in->store->path, tag);
    }
    measurement->value = bt_reader_real(row, 1);
    measurement->low = bt_reader_real(row, 2);
    measurement->high = bt_reader_real(row, 3);
    if (sqlite3_column_type(row, 5) == SQLITE_NULL) {
        return BT_OK;
    }
    measurement->sample_count = sqlite3_column_int64(row, 4);
    const void *blob = sqlite3_column_blob(row, 5);
    return bt_error_context(bt_samples_unpack(blob, sqlite3_column_bytes(row, 5),
                                              measurement->sample_count, in->arena,
                                              &measurement->samples),
                            "%s: metric %s", in->store->path, tag);
}

// The status is the recorded one; whether the run is alive is applied by the caller.
static bt_status take_round(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_round *round = item;
    round->id = sqlite3_column_int64(row, 0);
    BT_TRY(bt_row_take(in, row, 1, BT_FIELDS_ROUND, round));
    BT_TRY(bt_row_take(in, row, 8, BT_FIELDS_CASE, &round->what));
    BT_TRY(bt_row_take(in, row, 13, BT_FIELDS_SHAPE, &round->shape));
    bt_noise noise;
    if (!bt_noise_parse(round->label, &noise)) {
        round->label = ""; // a word of older records: the power cap was one
    }
    return BT_OK;
}

static bt_status read_round_rows(bt_reader *in, bt_store_round *round)
{
    int64_t id = round->id;
    BT_TRY(bt_seal_check(in->store, id));
    BT_READER_RECORDS(in, BT_FIELDS_STEP, id, round->steps, round->step_count);
    BT_READER_RECORDS(in, BT_FIELDS_EVAL, id, round->evals, round->eval_count);
    BT_READER_RECORDS(in, BT_FIELDS_RANGE, id, round->ranges, round->range_count);
    BT_READER_RECORDS(in, BT_FIELDS_KERNEL, id, round->kernels, round->kernel_count);
    BT_READER_RECORDS(in, BT_FIELDS_SCORE, id, round->scores, round->score_count);
    BT_READER_RECORDS(in, BT_FIELDS_STATE, id, round->states, round->state_count);
    BT_READER_RECORDS(in, BT_FIELDS_LAUNCH, id, round->launches, round->launch_count);
    BT_READER_RECORDS(in, BT_FIELDS_FAULT, id, round->faults, round->fault_count);
    BT_READER_RECORDS(in, BT_FIELDS_MEMORY, id, round->memory, round->memory_count);
    BT_READER_ROWS(in, SQL_MEASUREMENTS, id, take_measurement, round->measurements,
                   round->measurement_count);
    return bt_store_telemetry_read(in, round);
}

static bt_status take_session(bt_reader *in, sqlite3_stmt *row, bt_store_run *run, int64_t *env_id,
                              bool *alive)
{
    bt_store_run_info *info = &run->info;
    *alive = bt_reader_alive(row, 0);
    run->process_id = sqlite3_column_int64(row, 0);
    *env_id = sqlite3_column_int64(row, 3);
    BT_TRY(bt_reader_text(in, row, 4, &info->env.digest));
    BT_TRY(bt_reader_text(in, row, 5, &info->out_dir));
    BT_TRY(bt_row_take(in, row, 6, BT_FIELDS_RUN, run));
    BT_TRY(bt_row_take(in, row, 13, BT_FIELDS_SUITE, &info->suite));
    BT_TRY(bt_row_take(in, row, 18, BT_FIELDS_BUILD, &info->build));
    if (run->status == BT_RUN_RUNNING && !*alive) {
        run->status = BT_RUN_INTERRUPTED;
    }
    return BT_OK;
}

bt_status bt_store_no_such_run(bt_store *store, int64_t run)
{
    int64_t last = 0;
    BT_TRY(bt_sql_integer(store, SQL_RUNS_RANGE, &last, ""));
    return last == 0 ? bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld: none is recorded yet",
                                store->path, (long long)run)
                     : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld; the last is %lld",
                                store->path, (long long)run, (long long)last);
}

static bt_status read_session(bt_reader *in, bt_store_run *run, int64_t *env_id, bool *alive)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    BT_TRY(bt_sql_bind(in->store, SQL_SESSION, &row, "i", run->id));
    BT_TRY(bt_sql_next(in->store, row, &more));
    if (!more) {
        return bt_store_no_such_run(in->store, run->id);
    }
    bt_status status = take_session(in, row, run, env_id, alive);
    sqlite3_reset(row);
    return status;
}

static bt_status read_label(bt_reader *in, bt_store_run *run)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    const char **const texts[] = {&run->name, &run->note, NULL};
    BT_TRY(bt_sql_bind(in->store, SQL_RUN_LABEL, &row, "i", run->id));
    BT_TRY(bt_sql_next(in->store, row, &more));
    bt_status status = more ? bt_reader_texts(in, row, 0, texts) : BT_OK;
    sqlite3_reset(row);
    return status;
}

static bt_status read_run(bt_reader *in, bt_store_run *run)
{
    int64_t env_id = 0;
    bool alive = false;
    BT_TRY(read_session(in, run, &env_id, &alive));
    BT_TRY(read_label(in, run));
    BT_READER_RECORDS(in, BT_FIELDS_FACT, env_id, run->info.env.facts, run->info.env.fact_count);
    BT_READER_RECORDS(in, BT_FIELDS_ARTIFACT, run->id, run->artifacts, run->artifact_count);
    BT_READER_RECORDS(in, BT_FIELDS_VERDICT, run->id, run->verdicts, run->verdict_count);
    BT_READER_RECORDS(in, BT_FIELDS_GAP, run->id, run->gaps, run->gap_count);
    BT_TRY(bt_store_files_read(in, run));
    BT_TRY(bt_store_schedule_read(in, run));
    bt_store_round *rounds = NULL;
    BT_READER_ROWS(in, SQL_ROUNDS, run->id, take_round, rounds, run->round_count);
    run->rounds = rounds;
    for (int64_t i = 0; i < run->round_count; i++) {
        bool going_on = alive && run->status == BT_RUN_RUNNING;
        if (rounds[i].status == BT_RUN_RUNNING && !going_on) {
            rounds[i].status = BT_RUN_INTERRUPTED;
        }
        BT_TRY(read_round_rows(in, &rounds[i]));
    }
    bt_store_rounds_mark(rounds, run->round_count);
    return BT_OK;
}

bt_status bt_store_run_read(bt_store *store, int64_t run, bt_store_run *out)
{
    memset(out, 0, sizeof *out);
    out->id = run;
    bt_reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_run(&in, out));
    if (status != BT_OK) {
        bt_store_run_release(out);
    }
    return status;
}

static bt_status read_run_rows(bt_reader *in, bt_store_run_list *list)
{
    sqlite3_stmt *row = NULL;
    int64_t count = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, SQL_RUNS_COUNT, &count, ""));
    BT_TRY(BT_ARENA_ARRAY(in->arena, count, &list->rows));
    BT_TRY(bt_sql_bind(in->store, SQL_RUNS, &row, ""));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && list->count < count; list->count++) {
        bt_store_run_row *item = &list->rows[list->count];
        const char **const texts[] = {&item->suite, &item->profile, NULL};
        bt_status status = bt_reader_texts(in, row, 1, texts);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        item->id = sqlite3_column_int64(row, 0);
        item->status = bt_reader_status(row, 3, bt_reader_alive(row, 6));
        item->started_ns = sqlite3_column_int64(row, 4);
        item->ended_ns = sqlite3_column_int64(row, 5);
        item->round_count = sqlite3_column_int64(row, 9);
        item->step_count = sqlite3_column_int64(row, 10);
        const char **const labels[] = {&item->name, &item->note, &item->report, &item->git_commit,
                                       NULL};
        item->modified = sqlite3_column_int(row, 15) != 0;
        if ((status = bt_reader_texts(in, row, 11, labels)) != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

bt_status bt_store_run_list_read(bt_store *store, bt_store_run_list *out)
{
    memset(out, 0, sizeof *out);
    bt_reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_run_rows(&in, out));
    if (status != BT_OK) {
        bt_store_run_list_release(out);
    }
    return status;
}

void bt_store_run_list_release(bt_store_run_list *list)
{
    bt_arena_release(&list->arena);
    memset(list, 0, sizeof *list);
}
