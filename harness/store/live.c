// harness/store/live.c - progress of a run
#include "harness/store/live.h"

#include <math.h>
#include <string.h>

#include "harness/store/internal.h"

bt_status bt_store_newest(bt_store *store, int64_t *run)
{
    return bt_sql_integer(store, SQL_RUNS_RANGE, run, "");
}

bt_status bt_store_newest_running(bt_store *store, int64_t *run)
{
    bt_cursor rows = bt_sql_rows(store, SQL_LIVE_RUNNING, "");
    *run = 0;
    while (*run == 0 && bt_cursor_next(&rows)) {
        *run = bt_reader_alive(rows.row, 1) ? sqlite3_column_int64(rows.row, 0) : 0;
    }
    return bt_cursor_end(&rows);
}

static bt_status take_session(bt_reader *in, sqlite3_stmt *row, bt_store_live *live)
{
    live->status = bt_reader_status(row, 0, bt_reader_alive(row, 3));
    BT_TRY(
        bt_reader_scan(in, row, 1, "iii", &live->started_ns, &live->ended_ns, &live->process_id));
    return bt_reader_scan(in, row, 6, "tttttt", &live->message, &live->out_dir, &live->suite,
                          &live->profile, &live->plan_json, &live->kind);
}

static bt_status read_session(bt_reader *in, bt_store_live *live)
{
    bt_cursor rows = bt_sql_rows(in->store, SQL_LIVE_SESSION, "i", live->run);
    const bool found = bt_cursor_next(&rows);
    if (found) {
        rows.status = take_session(in, rows.row, live);
    }
    BT_TRY(bt_cursor_end(&rows));
    return found ? BT_OK : bt_store_no_such_run(in->store, live->run);
}

static bt_status read_counts(bt_reader *in, bt_store_live *live)
{
    bt_cursor rows = bt_sql_rows(in->store, SQL_LIVE_COUNTS, "i", live->run);
    live->round_ns = (double)NAN;
    while (bt_cursor_next(&rows)) {
        const int64_t status = sqlite3_column_int64(rows.row, 0);
        if (status >= 0 && status < BT_RUN_STATUS_COUNT) {
            live->counts[status] = sqlite3_column_int64(rows.row, 1);
        }
        if (status == BT_RUN_PASSED) {
            live->round_ns = sqlite3_column_double(rows.row, 2);
        }
    }
    BT_TRY(bt_cursor_end(&rows));
    return bt_sql_integer(in->store, SQL_LIVE_SYSTEMS, &live->system_count, "i", live->run);
}

static bt_status take_round(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_live_round *round = item;
    round->status = bt_reader_status(row, 6, true);
    BT_TRY(bt_reader_scan(in, row, 0, "iitttt", &round->id, &round->ordinal, &round->kind,
                          &round->name, &round->system, &round->message));
    return bt_reader_scan(in, row, 7, "iiirr", &round->started_ns, &round->ended_ns, &round->steps,
                          &round->time_ns, &round->rate_tok_s);
}

static bt_status read_live(bt_reader *in, void *out)
{
    bt_store_live *live = out;
    bt_store_live_round *last = NULL;
    BT_TRY(read_session(in, live));
    BT_TRY(read_counts(in, live));
    BT_READER_ROWS(in, SQL_LIVE_ROUNDS, take_round, last, live->round_count, "ii", live->run,
                   (int64_t)BT_STORE_LIVE_ROUNDS);
    live->rounds = last;
    for (int64_t i = 0; i < live->round_count; i++) {
        if (last[i].status == BT_RUN_RUNNING && (i > 0 || live->status != BT_RUN_RUNNING)) {
            last[i].status = BT_RUN_INTERRUPTED;
        }
    }
    if (live->round_count > 0) {
        BT_READER_LIST(in, SQL_LIVE_STEPS, NULL, BT_FIELDS_STEP, live->steps, live->step_count,
                       "ii", last[0].id, (int64_t)BT_STORE_LIVE_STEPS);
        BT_TRY(bt_sql_integer(in->store, SQL_LIVE_DONE, &live->steps_done, "i", last[0].id));
        BT_TRY(bt_sql_integer(in->store, SQL_LIVE_SPENT, &live->spent_ns, "i", last[0].id));
    }
    return BT_OK;
}

bt_status bt_store_live_read(bt_store *store, int64_t run, bt_store_live *out)
{
    memset(out, 0, sizeof *out);
    out->run = run;
    return bt_read_at_once(store, read_live, out, sizeof *out, &out->arena);
}
