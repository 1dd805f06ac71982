// harness/store/read.c - a run as plain structs, all of one moment, all in one arena
#include <math.h>
#include <string.h>

#include "harness/store/internal.h"

// A read in progress: where rows come from and where copies go.
typedef struct reader {
    bt_store *store;
    bt_arena *arena;
} reader;

static bt_status take_text(reader *in, sqlite3_stmt *row, int column, const char **text)
{
    const void *bytes = sqlite3_column_text(row, column);
    size_t size_bytes = (size_t)sqlite3_column_bytes(row, column);
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(in->arena, size_bytes + 1, &copy));
    if (bytes) {
        memcpy(copy, bytes, size_bytes);
    }
    *text = copy;
    return BT_OK;
}

// Texts of consecutive columns, into the given places, up to a NULL.
static bt_status take_texts(reader *in, sqlite3_stmt *row, int column, const char **const places[])
{
    for (int i = 0; places[i]; i++) {
        BT_TRY(take_text(in, row, column + i, places[i]));
    }
    return BT_OK;
}

// NULL is how the database holds NaN.
static double take_real(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

static bt_run_status take_status(sqlite3_stmt *row, int column, bool alive)
{
    int64_t value = sqlite3_column_int64(row, column);
    bt_run_status status =
        value >= 0 && value < BT_RUN_STATUS_COUNT ? (bt_run_status)value : BT_RUN_FAILED;
    return status == BT_RUN_RUNNING && !alive ? BT_RUN_INTERRUPTED : status;
}

static bool take_alive(sqlite3_stmt *row, int column)
{
    process_mark mark = {.pid = sqlite3_column_int64(row, column),
                         .started = sqlite3_column_int64(row, column + 1)};
    const void *boot = sqlite3_column_text(row, column + 2);
    sqlite3_snprintf(sizeof mark.boot_id, mark.boot_id, "%s", boot ? (const char *)boot : "");
    return bt_process_mark_alive(&mark);
}

// Reads rows [count] of an owner's statement through `take`, which fills the item it is given.
typedef bt_status (*take_fn)(reader *in, sqlite3_stmt *row, void *item);

typedef struct row_list {
    void *items; // in the reader's arena
    int64_t count;
} row_list;

static bt_status read_list(reader *in, store_statement count_statement, store_statement statement,
                           int64_t owner, size_t item_bytes, take_fn take, row_list *out)
{
    sqlite3_stmt *row = NULL;
    void *block = NULL;
    int64_t found = 0, filled = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, count_statement, &found, "i", owner));
    BT_TRY(bt_arena_alloc(in->arena, (size_t)found * item_bytes, &block));
    BT_TRY(bt_sql_bind(in->store, statement, &row, "i", owner));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && filled < found; filled++) {
        bt_status status = take(in, row, (char *)block + (size_t)filled * item_bytes);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    out->items = block;
    out->count = filled;
    return BT_OK;
}

#define READ_LIST(in, counting, listing, owner, take, list, list_count)                            \
    do {                                                                                           \
        row_list found_rows = {0};                                                                 \
        BT_TRY(read_list(in, counting, listing, owner, sizeof *(list), take, &found_rows));        \
        (list) = found_rows.items;                                                                 \
        (list_count) = found_rows.count;                                                           \
    } while (0)

static bt_status take_fact(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_fact *fact = item;
    const char **const texts[] = {&fact->key, &fact->value, NULL};
    int64_t level = sqlite3_column_int64(row, 2);
    fact->level = level >= 0 && level < BT_FACT_LEVEL_COUNT ? (bt_fact_level)level : BT_FACT_INFO;
    return take_texts(in, row, 0, texts);
}

static bt_status take_step(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_step *step = item;
    uint32_t bits = (uint32_t)sqlite3_column_int64(row, 1);
    (void)in;
    step->step = sqlite3_column_int64(row, 0);
    memcpy(&step->loss, &bits, sizeof bits);
    step->grad_norm = (float)take_real(row, 2);
    step->lr = take_real(row, 3);
    step->tokens = sqlite3_column_int64(row, 4);
    step->host_ns = sqlite3_column_int64(row, 5);
    step->device_ns = sqlite3_column_int64(row, 6);
    step->allocated_bytes = sqlite3_column_int64(row, 7);
    step->peak_allocated_bytes = sqlite3_column_int64(row, 8);
    step->reserved_bytes = sqlite3_column_int64(row, 9);
    step->resident_bytes = sqlite3_column_int64(row, 10);
    step->warmup = sqlite3_column_int64(row, 11) != 0;
    step->profiled = sqlite3_column_int64(row, 12) != 0;
    return BT_OK;
}

static bt_status take_eval(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_eval *eval = item;
    (void)in;
    eval->step = sqlite3_column_int64(row, 0);
    eval->loss = take_real(row, 1);
    eval->tokens = sqlite3_column_int64(row, 2);
    eval->host_ns = sqlite3_column_int64(row, 3);
    return BT_OK;
}

static bt_status take_range(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_range *range = item;
    range->step = sqlite3_column_int64(row, 0);
    range->count = sqlite3_column_int64(row, 2);
    range->device_ns = sqlite3_column_int64(row, 3);
    range->host_ns = sqlite3_column_int64(row, 4);
    return take_text(in, row, 1, &range->path);
}

static bt_status take_kernel(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_kernel *kernel = item;
    const char **const texts[] = {&kernel->op, &kernel->kernel, NULL};
    return take_texts(in, row, 0, texts);
}

static bt_status take_memory(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_memory *memory = item;
    memory->peak_allocated_bytes = sqlite3_column_int64(row, 1);
    memory->peak_reserved_bytes = sqlite3_column_int64(row, 2);
    memory->device_used_bytes = sqlite3_column_int64(row, 3);
    memory->peak_resident_bytes = sqlite3_column_int64(row, 4);
    return take_text(in, row, 0, &memory->phase);
}

static bt_status take_measurement(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_measurement *measurement = item;
    const char *tag = NULL;
    BT_TRY(take_text(in, row, 0, &tag));
    if (!bt_metric_parse(tag, &measurement->metric)) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: a measurement of an unknown metric '%s'",
                        in->store->path, tag);
    }
    measurement->value = take_real(row, 1);
    measurement->low = take_real(row, 2);
    measurement->high = take_real(row, 3);
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

static bt_status take_artifact(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_artifact *artifact = item;
    artifact->size_bytes = sqlite3_column_int64(row, 2);
    BT_TRY(take_text(in, row, 0, &artifact->kind));
    BT_TRY(take_text(in, row, 1, &artifact->path));
    return take_text(in, row, 3, &artifact->digest);
}

// The status is the recorded one; whether the run is alive is applied by the caller.
static bt_status take_round(reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_round *round = item;
    bt_store_shape *shape = &round->shape;
    const char **const texts[] = {&round->what.bench,     &round->what.kind,   &round->what.name,
                                  &round->what.axes_json, &round->what.system, &shape->device,
                                  &shape->precision,      &shape->dataset,     NULL};
    round->id = sqlite3_column_int64(row, 0);
    round->ordinal = sqlite3_column_int64(row, 1);
    BT_TRY(take_texts(in, row, 2, texts));
    shape->parameters = sqlite3_column_int64(row, 10);
    shape->tensors = sqlite3_column_int64(row, 11);
    shape->accumulation = sqlite3_column_int64(row, 12);
    shape->steps = sqlite3_column_int64(row, 13);
    shape->train_tokens = sqlite3_column_int64(row, 14);
    shape->val_tokens = sqlite3_column_int64(row, 15);
    round->status = take_status(row, 16, true);
    BT_TRY(take_text(in, row, 17, &round->message));
    BT_TRY(take_text(in, row, 18, &round->params_digest));
    round->started_ns = sqlite3_column_int64(row, 19);
    round->ended_ns = sqlite3_column_int64(row, 20);
    return BT_OK;
}

static bt_status read_round_rows(reader *in, bt_store_round *round)
{
    int64_t id = round->id;
    READ_LIST(in, SQL_STEPS_COUNT, SQL_STEPS, id, take_step, round->steps, round->step_count);
    READ_LIST(in, SQL_EVALS_COUNT, SQL_EVALS, id, take_eval, round->evals, round->eval_count);
    READ_LIST(in, SQL_RANGES_COUNT, SQL_RANGES, id, take_range, round->ranges, round->range_count);
    READ_LIST(in, SQL_KERNELS_COUNT, SQL_KERNELS, id, take_kernel, round->kernels,
              round->kernel_count);
    READ_LIST(in, SQL_MEMORIES_COUNT, SQL_MEMORIES, id, take_memory, round->memory,
              round->memory_count);
    READ_LIST(in, SQL_MEASUREMENTS_COUNT, SQL_MEASUREMENTS, id, take_measurement,
              round->measurements, round->measurement_count);
    return BT_OK;
}

static bt_status take_session(reader *in, sqlite3_stmt *row, bt_store_run *run, int64_t *env_id,
                              bool *alive)
{
    bt_store_run_info *info = &run->info;
    bt_store_suite *suite = &info->suite;
    bt_store_build *build = &info->build;
    const char **const texts[] = {&suite->plan_hash, &suite->name,       &suite->profile,
                                  &suite->path,      &suite->plan_json,  &build->digest,
                                  &build->version,   &build->git_commit, &build->git_diff,
                                  &build->compiler,  &build->flags,      &build->type,
                                  &build->cuda,      &info->env.digest,  NULL};
    *alive = take_alive(row, 4);
    run->status = take_status(row, 0, *alive);
    BT_TRY(take_text(in, row, 1, &run->message));
    run->started_ns = sqlite3_column_int64(row, 2);
    run->ended_ns = sqlite3_column_int64(row, 3);
    run->process_id = sqlite3_column_int64(row, 4);
    BT_TRY(take_text(in, row, 7, &info->command));
    BT_TRY(take_text(in, row, 8, &info->out_dir));
    info->seed = (uint64_t)sqlite3_column_int64(row, 9);
    *env_id = sqlite3_column_int64(row, 10);
    return take_texts(in, row, 11, texts);
}

static bt_status no_such_run(bt_store *store, int64_t run)
{
    int64_t last = 0;
    BT_TRY(bt_sql_integer(store, SQL_RUNS_RANGE, &last, ""));
    return last == 0 ? bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld; there is none yet",
                                store->path, (long long)run)
                     : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld; the last is %lld",
                                store->path, (long long)run, (long long)last);
}

static bt_status read_session(reader *in, bt_store_run *run, int64_t *env_id, bool *alive)
{
    sqlite3_stmt *row = NULL;
    bool more = false;
    BT_TRY(bt_sql_bind(in->store, SQL_SESSION, &row, "i", run->id));
    BT_TRY(bt_sql_next(in->store, row, &more));
    if (!more) {
        return no_such_run(in->store, run->id);
    }
    bt_status status = take_session(in, row, run, env_id, alive);
    sqlite3_reset(row);
    return status;
}

static bt_status read_run(reader *in, bt_store_run *run)
{
    int64_t env_id = 0;
    bool alive = false;
    BT_TRY(read_session(in, run, &env_id, &alive));
    READ_LIST(in, SQL_FACTS_COUNT, SQL_FACTS, env_id, take_fact, run->info.env.facts,
              run->info.env.fact_count);
    READ_LIST(in, SQL_ARTIFACTS_COUNT, SQL_ARTIFACTS, run->id, take_artifact, run->artifacts,
              run->artifact_count);
    bt_store_round *rounds = NULL;
    READ_LIST(in, SQL_ROUNDS_COUNT, SQL_ROUNDS, run->id, take_round, rounds, run->round_count);
    run->rounds = rounds;
    for (int64_t i = 0; i < run->round_count; i++) {
        bool going_on = alive && run->status == BT_RUN_RUNNING;
        if (rounds[i].status == BT_RUN_RUNNING && !going_on) {
            rounds[i].status = BT_RUN_INTERRUPTED;
        }
        BT_TRY(read_round_rows(in, &rounds[i]));
    }
    return BT_OK;
}

bt_status bt_store_run_read(bt_store *store, int64_t run, bt_store_run *out)
{
    memset(out, 0, sizeof *out);
    out->id = run;
    reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_run(&in, out));
    if (status != BT_OK) {
        bt_store_run_release(out);
    }
    return status;
}

void bt_store_run_release(bt_store_run *run)
{
    bt_arena_release(&run->arena);
    memset(run, 0, sizeof *run);
}

static bt_status read_run_rows(reader *in, bt_store_run_list *list)
{
    sqlite3_stmt *row = NULL;
    void *block = NULL;
    int64_t count = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, SQL_RUNS_COUNT, &count, ""));
    BT_TRY(bt_arena_alloc(in->arena, (size_t)count * sizeof *list->rows, &block));
    list->rows = block;
    BT_TRY(bt_sql_bind(in->store, SQL_RUNS, &row, ""));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && list->count < count; list->count++) {
        bt_store_run_row *item = &list->rows[list->count];
        const char **const texts[] = {&item->suite, &item->profile, NULL};
        bt_status status = take_texts(in, row, 1, texts);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        item->id = sqlite3_column_int64(row, 0);
        item->status = take_status(row, 3, take_alive(row, 6));
        item->started_ns = sqlite3_column_int64(row, 4);
        item->ended_ns = sqlite3_column_int64(row, 5);
        item->round_count = sqlite3_column_int64(row, 9);
        item->step_count = sqlite3_column_int64(row, 10);
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

bt_status bt_store_run_list_read(bt_store *store, bt_store_run_list *out)
{
    memset(out, 0, sizeof *out);
    reader in = {store, &out->arena};
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
