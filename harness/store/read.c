// harness/store/read.c - reads a run as plain structs, in one transaction and one arena
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/store/internal.h"

static bt_status take_measurement(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_measurement *measurement = item;
    const char *tag = NULL;
    BT_TRY(bt_reader_text(in, row, 0, &tag));
    BT_FAIL_IF(!bt_metric_parse(tag, &measurement->metric), BT_STATUS_UNAVAILABLE,
               "%s: a measurement of an unknown metric '%s'", in->store->path, tag);
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
        round->label = ""; // a word of older records, in which the power cap was a label
    }
    return BT_OK;
}

static bt_status read_round_rows(bt_reader *in, bt_store_round *round)
{
    int64_t id = round->id;
    BT_TRY(bt_seal_check(in->store, id));
    size_t count = 0;
    const bt_list *lists = bt_round_lists(&count);
    for (size_t i = 0; i < count; i++) {
        const bt_fields_of kind = lists[i].kind;
        bt_reader_list found = {NULL, kind, bt_fields_info(kind)->item_bytes, NULL, 0};
        if (lists[i].is_table) {
            BT_TRY(bt_reader_rows(in, SQL_LIST_OF(kind), &found, "i", id));
            bt_list_set(&lists[i], round, found.items, found.count);
        }
    }
    BT_READER_ROWS(in, SQL_MEASUREMENTS, take_measurement, round->measurements,
                   round->measurement_count, "i", id);
    return bt_store_telemetry_read(in, round);
}

static bt_status take_session(bt_reader *in, sqlite3_stmt *row, bt_store_run *run, int64_t *env_id,
                              bool *alive)
{
    bt_store_run_info *info = &run->info;
    *alive = bt_reader_alive(row, 0);
    run->process_id = sqlite3_column_int64(row, 0);
    BT_TRY(bt_reader_scan(in, row, 3, "itttt", env_id, &info->env.digest, &info->out_dir,
                          &run->name, &run->note));
    BT_TRY(bt_row_take(in, row, 8, BT_FIELDS_RUN, run));
    BT_TRY(bt_row_take(in, row, 15, BT_FIELDS_SUITE, &info->suite));
    BT_TRY(bt_row_take(in, row, 20, BT_FIELDS_BUILD, &info->build));
    if (run->status == BT_RUN_RUNNING && !*alive) {
        run->status = BT_RUN_INTERRUPTED;
    }
    return BT_OK;
}

bt_status bt_store_no_such_run(bt_store *store, int64_t run)
{
    int64_t last = 0;
    BT_TRY(bt_sql_integer(store, SQL_RUNS_RANGE, &last, ""));
    return last == 0
               ? bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld: no run is recorded yet",
                          store->path, (long long)run)
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld; the newest is %lld",
                          store->path, (long long)run, (long long)last);
}

static bt_status read_session(bt_reader *in, bt_store_run *run, int64_t *env_id, bool *alive)
{
    bt_cursor rows = bt_sql_rows(in->store, SQL_SESSION, "i", run->id);
    const bool found = bt_cursor_next(&rows);
    if (found) {
        rows.status = take_session(in, rows.row, run, env_id, alive);
    }
    BT_TRY(bt_cursor_end(&rows));
    return found ? BT_OK : bt_store_no_such_run(in->store, run->id);
}

static bt_status read_run(bt_reader *in, void *out)
{
    bt_store_run *run = out;
    int64_t env_id = 0;
    bool alive = false;
    BT_TRY(read_session(in, run, &env_id, &alive));
    BT_READER_RECORDS(in, BT_FIELDS_FACT, env_id, run->info.env.facts, run->info.env.fact_count);
    BT_READER_RECORDS(in, BT_FIELDS_ARTIFACT, run->id, run->artifacts, run->artifact_count);
    BT_READER_RECORDS(in, BT_FIELDS_VERDICT, run->id, run->verdicts, run->verdict_count);
    BT_READER_RECORDS(in, BT_FIELDS_GAP, run->id, run->gaps, run->gap_count);
    BT_TRY(bt_store_files_read(in, run));
    BT_TRY(bt_store_schedule_read(in, run));
    bt_store_round *rounds = NULL;
    BT_READER_ROWS(in, SQL_ROUNDS, take_round, rounds, run->round_count, "i", run->id);
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

bt_status bt_read_at_once(bt_store *store, bt_status (*read)(bt_reader *in, void *out), void *out,
                          size_t size_bytes, bt_arena *arena)
{
    bt_reader in = {store, arena};
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read(&in, out));
    if (status != BT_OK) {
        bt_arena_release(arena);
        memset(out, 0, size_bytes);
    }
    return status;
}

bt_status bt_store_run_read(bt_store *store, int64_t run, bt_store_run *out)
{
    memset(out, 0, sizeof *out);
    out->id = run;
    return bt_read_at_once(store, read_run, out, sizeof *out, &out->arena);
}

static bt_status take_run_row(bt_reader *in, sqlite3_stmt *row, void *out)
{
    bt_store_run_row *item = out;
    item->status = bt_reader_status(row, 1, bt_reader_alive(row, 2));
    item->id = sqlite3_column_int64(row, 0);
    return bt_reader_scan(in, row, 5, "iiiibtttttt", &item->started_ns, &item->ended_ns,
                          &item->round_count, &item->step_count, &item->modified, &item->suite,
                          &item->profile, &item->name, &item->note, &item->report,
                          &item->git_commit);
}

static bt_status read_run_rows(bt_reader *in, void *out)
{
    bt_store_run_list *list = out;
    BT_READER_ROWS(in, SQL_RUNS, take_run_row, list->rows, list->count, "");
    return BT_OK;
}

bt_status bt_store_run_list_read(bt_store *store, bt_store_run_list *out)
{
    memset(out, 0, sizeof *out);
    return bt_read_at_once(store, read_run_rows, out, sizeof *out, &out->arena);
}
