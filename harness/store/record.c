// harness/store/record.c - runs, rounds, measurements: rows that are written immediately
//
// Each call is one transaction.
#include <math.h>

#include "framework/base/clock.h"
#include "framework/base/scoped.h"
#include "harness/store/internal.h"

static bt_status check_ended(bt_run_status status)
{
    BT_FAIL_IF(status <= BT_RUN_RUNNING || status >= BT_RUN_STATUS_COUNT,
               BT_STATUS_INVALID_ARGUMENT, "a run must end as passed, failed or interrupted");
    return BT_OK;
}

// An update by number must have changed a row.
static bt_status check_found(const bt_store *store, const char *what, int64_t id)
{
    BT_FAIL_IF(sqlite3_changes(store->db) != 1, BT_STATUS_INVALID_ARGUMENT, "%s: no %s %lld",
               store->path, what, (long long)id);
    return BT_OK;
}

// XXH3-128 over all facts and the digest of the hard ones, as 32 hex digits.
static bt_status digest_facts(const bt_store_env *env, char digest[33])
{
    bt_str lines = {0};
    bt_str_format(&lines, "%s\n", env->digest);
    BT_EACH(const bt_store_fact, fact, env->facts, env->fact_count) {
        bt_str_format(&lines, "%s=%s\n%s\n", fact->key, fact->value,
                      bt_fact_level_name(fact->level));
    }
    return bt_record_digest_str(&lines, digest);
}

static bt_status add_env(bt_store *store, const bt_store_env *env, int64_t *id)
{
    char digest[33];
    BT_TRY(digest_facts(env, digest));
    BT_TRY(bt_sql_run(store, SQL_ENV_ADD, "tt", env->digest, digest));
    bool fresh = sqlite3_changes(store->db) == 1;
    BT_TRY(bt_sql_integer(store, SQL_ENV_ID, id, "t", digest));
    for (int64_t i = 0; fresh && i < env->fact_count; i++) {
        BT_TRY(bt_row_add(store, *id, BT_FIELDS_FACT, &env->facts[i]));
    }
    return BT_OK;
}

bt_status bt_build_add(bt_store *store, const bt_store_build *build, int64_t *id)
{
    BT_TRY(bt_row_run(store, SQL_BUILD_ADD, NO_OWNER, BT_FIELDS_BUILD, build));
    return bt_sql_integer(store, SQL_BUILD_ID, id, "t", build->digest);
}

bt_status bt_session_parents_add(bt_store *store, const bt_store_run_info *info,
                                 session_parents *out)
{
    BT_TRY(bt_row_run(store, SQL_SUITE_ADD, NO_OWNER, BT_FIELDS_SUITE, &info->suite));
    BT_TRY(bt_sql_integer(store, SQL_SUITE_ID, &out->suite, "t", info->suite.plan_hash));
    BT_TRY(bt_build_add(store, &info->build, &out->build));
    return add_env(store, &info->env, &out->env);
}

static bt_status add_run(bt_store *store, const bt_store_run_info *info)
{
    session_parents parents;
    process_mark mark;
    BT_TRY(bt_session_parents_add(store, info, &parents));
    bt_process_mark_self(&mark);
    return bt_sql_run(store, SQL_SESSION_ADD, "iiittiiiit", parents.suite, parents.build,
                      parents.env, info->command, info->out_dir, (int64_t)info->seed,
                      bt_clock_wall_ns(), mark.pid, mark.started, mark.boot_id);
}

bt_status bt_store_run_begin(bt_store *store, const bt_store_run_info *info, int64_t *run)
{
    BT_FAIL_IF(!info->suite.plan_hash || !info->build.digest || !info->env.digest,
               BT_STATUS_INVALID_ARGUMENT,
               "a run needs the digests of its plan, build and environment");
    BT_TRY(bt_sql_begin(store));
    bt_status status = add_run(store, info);
    *run = status == BT_OK ? sqlite3_last_insert_rowid(store->db) : 0;
    return bt_sql_end(store, status);
}

bt_status bt_store_run_set_out_dir(bt_store *store, int64_t run, const char *out_dir)
{
    BT_TRY(bt_sql_run(store, SQL_SESSION_OUT_DIR, "ti", out_dir, run));
    return check_found(store, "run", run);
}

bt_status bt_store_run_end(bt_store *store, int64_t run, bt_run_status status, const char *message)
{
    BT_TRY(check_ended(status));
    BT_TRY(bt_sql_run(store, SQL_SESSION_END, "itii", (int64_t)status, message, bt_clock_wall_ns(),
                      run));
    return check_found(store, "run", run);
}

bt_status bt_case_add(bt_store *store, const bt_store_case *what, int64_t *case_id)
{
    int64_t bench_id = 0;
    BT_TRY(bt_sql_run(store, SQL_BENCH_ADD, "tt", what->bench, what->kind));
    BT_TRY(bt_sql_integer(store, SQL_BENCH_ID, &bench_id, "tt", what->bench, what->kind));
    BT_TRY(bt_sql_run(store, SQL_CASE_ADD, "itt", bench_id, what->name, what->axes_json));
    return bt_sql_integer(store, SQL_CASE_ID, case_id, "itt", bench_id, what->name,
                          what->axes_json);
}

static bt_status add_round(bt_store *store, int64_t run, const bt_store_case *what, int64_t ordinal)
{
    int64_t case_id = 0;
    BT_TRY(bt_case_add(store, what, &case_id));
    return bt_sql_run(store, SQL_ROUND_ADD, "iitii", run, case_id, what->system, ordinal,
                      bt_clock_wall_ns());
}

bt_status bt_store_round_begin(bt_store *store, int64_t run, const bt_store_case *what,
                               int64_t ordinal, int64_t *round)
{
    BT_TRY(bt_sql_begin(store));
    bt_status status = add_round(store, run, what, ordinal);
    *round = status == BT_OK ? sqlite3_last_insert_rowid(store->db) : 0;
    return bt_sql_end(store, status);
}

bt_status bt_round_recorded(bt_store *store, int64_t round)
{
    return bt_sql_run(store, SQL_SESSION_RECORDED, "ii", bt_clock_wall_ns(), round);
}

static bt_status describe_round(bt_store *store, int64_t round, const bt_store_shape *shape)
{
    BT_TRY(bt_row_run(store, SQL_ROUND_DESCRIBE, round, BT_FIELDS_SHAPE, shape));
    BT_TRY(check_found(store, "round", round));
    return bt_round_recorded(store, round);
}

bt_status bt_store_round_describe(bt_store *store, int64_t round, const bt_store_shape *shape)
{
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, describe_round(store, round, shape));
}

bt_status bt_store_round_end(bt_store *store, int64_t round, bt_run_status status,
                             const char *message, const char *params_digest)
{
    BT_TRY(check_ended(status));
    BT_TRY(bt_sql_begin(store));
    bt_status ended = bt_sql_run(store, SQL_ROUND_END, "ittii", (int64_t)status, message,
                                 params_digest, bt_clock_wall_ns(), round);
    ended = ended == BT_OK ? check_found(store, "round", round) : ended;
    return bt_sql_end(store, ended == BT_OK ? bt_seal_write(store, round) : ended);
}

static bt_status add_measurement(bt_store *store, int64_t round,
                                 const bt_store_measurement *measurement, const void *blob,
                                 int64_t size_bytes)
{
    const bt_metric_row *metric = bt_metric_info(measurement->metric);
    BT_TRY(bt_sql_run(store, SQL_MEASUREMENT_DROP, "it", round, metric->tag));
    BT_TRY(bt_sql_run(store, SQL_MEASUREMENT_ADD, "itrrr", round, metric->tag, measurement->value,
                      measurement->low, measurement->high));
    if (!blob) {
        return BT_OK;
    }
    return bt_sql_run(store, SQL_SAMPLES_ADD, "iitb", sqlite3_last_insert_rowid(store->db),
                      measurement->sample_count, bt_unit_name(metric->unit), blob, size_bytes);
}

bt_status bt_measurement_write(bt_store *store, int64_t round,
                               const bt_store_measurement *measurement)
{
    BT_SCOPED_MEM(void *) blob = NULL;
    int64_t size_bytes = 0;
    if (measurement->samples) {
        BT_TRY(
            bt_samples_pack(measurement->samples, measurement->sample_count, &blob, &size_bytes));
    }
    return add_measurement(store, round, measurement, blob, size_bytes);
}

bt_status bt_store_fault_extend(bt_store *store, int64_t round, int64_t step, const char *kind,
                                const char *text)
{
    return bt_sql_run(store, SQL_FAULT_EXTEND, "tiit", text, round, step, kind);
}

bt_status bt_store_measure(bt_store *store, int64_t round, const bt_store_measurement *measurement)
{
    BT_FAIL_IF((int)measurement->metric < 0 || measurement->metric >= BT_METRIC_COUNT ||
                   measurement->sample_count < 0,
               BT_STATUS_INVALID_ARGUMENT, "no metric %d, or a negative sample count",
               (int)measurement->metric);
    BT_TRY(bt_sql_begin(store));
    bt_status status = bt_measurement_write(store, round, measurement);
    return bt_sql_end(store, status == BT_OK ? bt_seal_renew(store, round) : status);
}

bt_status bt_store_artifact_add(bt_store *store, int64_t run, const bt_store_artifact *artifact)
{
    return bt_row_add(store, run, BT_FIELDS_ARTIFACT, artifact);
}

static bt_status set_verdicts(bt_store *store, int64_t run, const char *kind,
                              const bt_store_verdict *verdicts, int64_t count)
{
    int64_t found = 0;
    BT_TRY(bt_sql_integer(store, SQL_SESSION_COUNT, &found, "i", run));
    BT_FAIL_IF(found != 1, BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld", store->path,
               (long long)run);
    BT_TRY(bt_sql_run(store, SQL_VERDICTS_DROP, "it", run, kind));
    for (int64_t i = 0; i < count; i++) {
        bt_store_verdict verdict = verdicts[i];
        verdict.kind = kind;
        BT_TRY(bt_row_add(store, run, BT_FIELDS_VERDICT, &verdict));
    }
    return BT_OK;
}

bt_status bt_store_verdicts_set(bt_store *store, int64_t run, const char *kind,
                                const bt_store_verdict *verdicts, int64_t count)
{
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, set_verdicts(store, run, kind, verdicts, count));
}
