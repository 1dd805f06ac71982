// harness/store/live.c - how far a run is
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
    sqlite3_stmt *row = NULL;
    bool more = false;
    *run = 0;
    BT_TRY(bt_sql_bind(store, SQL_LIVE_RUNNING, &row, ""));
    BT_TRY(bt_sql_next(store, row, &more));
    while (more && *run == 0) {
        *run = bt_reader_alive(row, 1) ? sqlite3_column_int64(row, 0) : 0;
        BT_TRY(bt_sql_next(store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

static bt_status take_session(bt_reader *in, sqlite3_stmt *row, bt_store_live *live)
{
    const char **const texts[] = {&live->message,   &live->out_dir, &live->suite, &live->profile,
                                  &live->plan_json, &live->kind,    NULL};
    live->status = bt_reader_status(row, 0, bt_reader_alive(row, 3));
    live->started_ns = sqlite3_column_int64(row, 1);
    live->ended_ns = sqlite3_column_int64(row, 2);
    live->process_id = sqlite3_column_int64(row, 3);
    return bt_reader_texts(in, row, 6, texts);
}

static bt_status read_session(bt_reader *in, bt_store_live *live)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    BT_TRY(bt_sql_bind(in->store, SQL_LIVE_SESSION, &row, "i", live->run));
    BT_TRY(bt_sql_next(in->store, row, &more));
    if (!more) {
        return bt_store_no_such_run(in->store, live->run);
    }
    bt_status status = take_session(in, row, live);
    sqlite3_reset(row);
    return status;
}

static bt_status read_counts(bt_reader *in, bt_store_live *live)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    double weight = 0;
    live->round_ns = 0;
    BT_TRY(bt_sql_bind(in->store, SQL_LIVE_COUNTS, &row, "i", live->run));
    BT_TRY(bt_sql_next(in->store, row, &more));
    while (more) {
        int64_t status = sqlite3_column_int64(row, 0), count = sqlite3_column_int64(row, 1);
        if (status >= 0 && status < BT_RUN_STATUS_COUNT) {
            live->counts[status] = count;
        }
        if (status == BT_RUN_PASSED) {
            live->round_ns = sqlite3_column_double(row, 2);
            weight = 1;
        }
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    live->round_ns = weight > 0 ? live->round_ns : (double)NAN;
    return bt_sql_integer(in->store, SQL_LIVE_SYSTEMS, &live->system_count, "i", live->run);
}

static bt_status take_round(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_live_round *round = item;
    const char **const texts[] = {&round->kind, &round->name, &round->system, &round->message,
                                  NULL};
    round->id = sqlite3_column_int64(row, 0);
    round->ordinal = sqlite3_column_int64(row, 1);
    BT_TRY(bt_reader_texts(in, row, 2, texts));
    round->status = bt_reader_status(row, 6, true);
    round->started_ns = sqlite3_column_int64(row, 7);
    round->ended_ns = sqlite3_column_int64(row, 8);
    round->steps = sqlite3_column_int64(row, 9);
    round->time_ns = bt_reader_real(row, 10);
    round->rate_tok_s = bt_reader_real(row, 11);
    return BT_OK;
}

// Up to `limit` rows of an owner, newest first.
static bt_status read_last(bt_reader *in, int which, int64_t owner, int64_t limit,
                           size_t item_bytes, bt_reader_take take, bt_reader_list *out)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    BT_TRY(bt_arena_alloc(in->arena, (size_t)limit * item_bytes, &out->items));
    BT_TRY(bt_sql_bind(in->store, which, &row, "ii", owner, limit));
    BT_TRY(bt_sql_next(in->store, row, &more));
    while (more && out->count < limit) {
        bt_status status = take(in, row, (char *)out->items + (size_t)out->count * item_bytes);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        out->count++;
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

static bt_status take_step(bt_reader *in, sqlite3_stmt *row, void *item)
{
    return bt_row_take(in, row, 0, BT_FIELDS_STEP, item);
}

static bt_status read_live(bt_reader *in, bt_store_live *live)
{
    bt_reader_list rounds = {0}, steps = {0};
    BT_TRY(read_session(in, live));
    BT_TRY(read_counts(in, live));
    BT_TRY(read_last(in, SQL_LIVE_ROUNDS, live->run, BT_STORE_LIVE_ROUNDS,
                     sizeof(bt_store_live_round), take_round, &rounds));
    bt_store_live_round *last = rounds.items;
    for (int64_t i = 0; i < rounds.count; i++) {
        if (last[i].status == BT_RUN_RUNNING && (i > 0 || live->status != BT_RUN_RUNNING)) {
            last[i].status = BT_RUN_INTERRUPTED;
        }
    }
    if (rounds.count > 0) {
        BT_TRY(read_last(in, SQL_LIVE_STEPS, last[0].id, BT_STORE_LIVE_STEPS, sizeof(bt_store_step),
                         take_step, &steps));
        BT_TRY(bt_sql_integer(in->store, SQL_LIVE_DONE, &live->steps_done, "i", last[0].id));
        BT_TRY(bt_sql_integer(in->store, SQL_LIVE_SPENT, &live->spent_ns, "i", last[0].id));
    }
    live->rounds = rounds.items;
    live->round_count = rounds.count;
    live->steps = steps.items;
    live->step_count = steps.count;
    return BT_OK;
}

bt_status bt_store_live_read(bt_store *store, int64_t run, bt_store_live *out)
{
    memset(out, 0, sizeof *out);
    out->run = run;
    bt_reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_live(&in, out));
    if (status != BT_OK) {
        bt_store_live_release(out);
    }
    return status;
}

void bt_store_live_release(bt_store_live *live)
{
    bt_arena_release(&live->arena);
    memset(live, 0, sizeof *live);
}
