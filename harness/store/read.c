// harness/store/read.c - a run as plain structs, all of one moment, all in one arena
#include <math.h>
#include <string.h>

#include "harness/store/internal.h"

bt_run_status bt_reader_status(sqlite3_stmt *row, int column, bool alive)
{
    int64_t value = sqlite3_column_int64(row, column);
    bt_run_status status =
        value >= 0 && value < BT_RUN_STATUS_COUNT ? (bt_run_status)value : BT_RUN_FAILED;
    return status == BT_RUN_RUNNING && !alive ? BT_RUN_INTERRUPTED : status;
}

bool bt_reader_alive(sqlite3_stmt *row, int column)
{
    process_mark mark = {.pid = sqlite3_column_int64(row, column),
                         .started = sqlite3_column_int64(row, column + 1)};
    const void *boot = sqlite3_column_text(row, column + 2);
    sqlite3_snprintf(sizeof mark.boot_id, mark.boot_id, "%s", boot ? (const char *)boot : "");
    return bt_process_mark_alive(&mark);
}

static bt_status take_fact(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_fact *fact = item;
    const char **const texts[] = {&fact->key, &fact->value, NULL};
    int64_t level = sqlite3_column_int64(row, 2);
    fact->level = level >= 0 && level < BT_FACT_LEVEL_COUNT ? (bt_fact_level)level : BT_FACT_INFO;
    return bt_reader_texts(in, row, 0, texts);
}

bt_status bt_store_facts_read(bt_reader *in, int64_t env, bt_store_env *out)
{
    BT_READER_ROWS(in, SQL_FACTS_COUNT, SQL_FACTS, env, take_fact, out->facts, out->fact_count);
    return BT_OK;
}

bt_status bt_reader_step(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_step *step = item;
    uint32_t bits = (uint32_t)sqlite3_column_int64(row, 1);
    (void)in;
    step->step = sqlite3_column_int64(row, 0);
    memcpy(&step->loss, &bits, sizeof bits);
    step->grad_norm = (float)bt_reader_real(row, 2);
    step->lr = bt_reader_real(row, 3);
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

static bt_status take_eval(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_eval *eval = item;
    (void)in;
    eval->step = sqlite3_column_int64(row, 0);
    eval->loss = bt_reader_real(row, 1);
    eval->tokens = sqlite3_column_int64(row, 2);
    eval->host_ns = sqlite3_column_int64(row, 3);
    return BT_OK;
}

static bt_status take_range(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_range *range = item;
    range->step = sqlite3_column_int64(row, 0);
    range->count = sqlite3_column_int64(row, 2);
    range->device_ns = sqlite3_column_int64(row, 3);
    range->host_ns = sqlite3_column_int64(row, 4);
    return bt_reader_text(in, row, 1, &range->path);
}

static bt_status take_kernel(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_kernel *kernel = item;
    const char **const texts[] = {&kernel->op, &kernel->kernel, NULL};
    return bt_reader_texts(in, row, 0, texts);
}

static bt_status take_score(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_score *score = item;
    (void)in;
    score->step = sqlite3_column_int64(row, 0);
    score->questions = sqlite3_column_int64(row, 1);
    score->correct = sqlite3_column_int64(row, 2);
    score->normalised_correct = sqlite3_column_int64(row, 3);
    score->host_ns = sqlite3_column_int64(row, 4);
    return BT_OK;
}

static bt_status take_fault(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_fault *fault = item;
    const char **const texts[] = {&fault->kind, &fault->action, &fault->message, NULL};
    fault->step = sqlite3_column_int64(row, 0);
    return bt_reader_texts(in, row, 1, texts);
}

static bt_status take_memory(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_memory *memory = item;
    memory->peak_allocated_bytes = sqlite3_column_int64(row, 1);
    memory->peak_reserved_bytes = sqlite3_column_int64(row, 2);
    memory->device_used_bytes = sqlite3_column_int64(row, 3);
    memory->peak_resident_bytes = sqlite3_column_int64(row, 4);
    return bt_reader_text(in, row, 0, &memory->phase);
}

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

static bt_status take_artifact(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_artifact *artifact = item;
    artifact->size_bytes = sqlite3_column_int64(row, 2);
    BT_TRY(bt_reader_text(in, row, 0, &artifact->kind));
    BT_TRY(bt_reader_text(in, row, 1, &artifact->path));
    return bt_reader_text(in, row, 3, &artifact->digest);
}

// The status is the recorded one; whether the run is alive is applied by the caller.
static bt_status take_round(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_round *round = item;
    bt_store_shape *shape = &round->shape;
    const char **const texts[] = {&round->what.bench,     &round->what.kind,   &round->what.name,
                                  &round->what.axes_json, &round->what.system, &shape->device,
                                  &shape->precision,      &shape->dataset,     NULL};
    round->id = sqlite3_column_int64(row, 0);
    round->ordinal = sqlite3_column_int64(row, 1);
    BT_TRY(bt_reader_texts(in, row, 2, texts));
    shape->parameters = sqlite3_column_int64(row, 10);
    shape->tensors = sqlite3_column_int64(row, 11);
    shape->accumulation = sqlite3_column_int64(row, 12);
    shape->steps = sqlite3_column_int64(row, 13);
    shape->train_tokens = sqlite3_column_int64(row, 14);
    shape->val_tokens = sqlite3_column_int64(row, 15);
    round->status = bt_reader_status(row, 16, true);
    BT_TRY(bt_reader_text(in, row, 17, &round->message));
    BT_TRY(bt_reader_text(in, row, 18, &round->params_digest));
    round->started_ns = sqlite3_column_int64(row, 19);
    round->ended_ns = sqlite3_column_int64(row, 20);
    BT_TRY(bt_reader_text(in, row, 21, &round->label));
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
    BT_READER_ROWS(in, SQL_STEPS_COUNT, SQL_STEPS, id, bt_reader_step, round->steps,
                   round->step_count);
    BT_READER_ROWS(in, SQL_EVALS_COUNT, SQL_EVALS, id, take_eval, round->evals, round->eval_count);
    BT_READER_ROWS(in, SQL_RANGES_COUNT, SQL_RANGES, id, take_range, round->ranges,
                   round->range_count);
    BT_READER_ROWS(in, SQL_KERNELS_COUNT, SQL_KERNELS, id, take_kernel, round->kernels,
                   round->kernel_count);
    BT_READER_ROWS(in, SQL_SCORES_COUNT, SQL_SCORES, id, take_score, round->scores,
                   round->score_count);
    BT_READER_ROWS(in, SQL_FAULTS_COUNT, SQL_FAULTS, id, take_fault, round->faults,
                   round->fault_count);
    BT_READER_ROWS(in, SQL_MEMORIES_COUNT, SQL_MEMORIES, id, take_memory, round->memory,
                   round->memory_count);
    BT_READER_ROWS(in, SQL_MEASUREMENTS_COUNT, SQL_MEASUREMENTS, id, take_measurement,
                   round->measurements, round->measurement_count);
    return bt_store_telemetry_read(in, round);
}

static bt_status take_session(bt_reader *in, sqlite3_stmt *row, bt_store_run *run, int64_t *env_id,
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
    *alive = bt_reader_alive(row, 4);
    run->status = bt_reader_status(row, 0, *alive);
    BT_TRY(bt_reader_text(in, row, 1, &run->message));
    run->started_ns = sqlite3_column_int64(row, 2);
    run->ended_ns = sqlite3_column_int64(row, 3);
    run->process_id = sqlite3_column_int64(row, 4);
    BT_TRY(bt_reader_text(in, row, 7, &info->command));
    BT_TRY(bt_reader_text(in, row, 8, &info->out_dir));
    info->seed = (uint64_t)sqlite3_column_int64(row, 9);
    *env_id = sqlite3_column_int64(row, 10);
    return bt_reader_texts(in, row, 11, texts);
}

bt_status bt_store_no_such_run(bt_store *store, int64_t run)
{
    int64_t last = 0;
    BT_TRY(bt_sql_integer(store, SQL_RUNS_RANGE, &last, ""));
    return last == 0 ? bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld; there is none yet",
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

// Only what did not pass is ever run again.
void bt_store_rounds_mark(bt_store_round *rounds, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bt_store_round *round = &rounds[i];
        for (int64_t j = i + 1; round->status != BT_RUN_PASSED && j < count; j++) {
            const bt_store_case *a = &round->what, *b = &rounds[j].what;
            round->superseded =
                round->superseded ||
                (rounds[j].ordinal == round->ordinal && strcmp(a->name, b->name) == 0 &&
                 strcmp(a->system, b->system) == 0 && strcmp(a->axes_json, b->axes_json) == 0);
        }
    }
}

static bt_status read_run(bt_reader *in, bt_store_run *run)
{
    int64_t env_id = 0;
    bool alive = false;
    BT_TRY(read_session(in, run, &env_id, &alive));
    BT_TRY(bt_store_facts_read(in, env_id, &run->info.env));
    BT_READER_ROWS(in, SQL_ARTIFACTS_COUNT, SQL_ARTIFACTS, run->id, take_artifact, run->artifacts,
                   run->artifact_count);
    BT_TRY(bt_store_files_read(in, run));
    BT_TRY(bt_store_verdicts_read(in, run));
    BT_TRY(bt_store_schedule_read(in, run));
    BT_TRY(bt_store_gaps_read(in, run));
    bt_store_round *rounds = NULL;
    BT_READER_ROWS(in, SQL_ROUNDS_COUNT, SQL_ROUNDS, run->id, take_round, rounds, run->round_count);
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

void bt_store_run_release(bt_store_run *run)
{
    bt_arena_release(&run->arena);
    memset(run, 0, sizeof *run);
}

static bt_status read_run_rows(bt_reader *in, bt_store_run_list *list)
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
