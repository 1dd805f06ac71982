// tests/harness/big_store.c - two sessions through the store, the others by copying rows
#include "tests/harness/big_store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/rng.h"
#include "framework/base/str.h"
#include "harness/store/store.h"
#include "tests/harness/sample_run.h"

#define IDS     "1000" // a copy's numbers are this far from the next copy's
#define HOUR_NS "3600000000000"

// ---- the two that are copied -------------------------------------------------------------------

static bt_status add_kernel_round(bt_store *store, int64_t run, int index, int64_t ordinal)
{
    char name[32];
    int64_t round = 0;
    double times_ns[BIG_SAMPLES];
    bt_rng noise = {.seed = (uint64_t)index, .stream = (uint64_t)ordinal};
    (void)snprintf(name, sizeof name, "op%d.f32", index);
    bt_store_case what = {"kernels", "kernel", name, "{\"cache\":\"cold\"}", "blutrain"};
    bt_store_shape shape = {.device = "a device", .precision = "f32"};
    for (int i = 0; i < BIG_SAMPLES; i++) {
        times_ns[i] =
            20000.0 * (index + 1) * (1 + 0.01 * (double)bt_rng_uniform(noise, (uint64_t)i));
    }
    double middle = 20100.0 * (index + 1);
    bt_store_measurement time = {.metric = BT_METRIC_TIME,
                                 .value = middle,
                                 .low = middle * 0.999,
                                 .high = middle * 1.001,
                                 .samples = times_ns,
                                 .sample_count = BIG_SAMPLES};
    bt_store_measurement bandwidth = {BT_METRIC_BANDWIDTH, 1e12, 0.99e12, 1.01e12, NULL, 0};
    bt_store_kernel kernel = {"op", "op_v1"};
    BT_TRY(bt_store_round_begin(store, run, &what, ordinal, &round));
    BT_TRY(bt_store_round_describe(store, round, &shape));
    BT_TRY(bt_store_kernel_add(store, round, &kernel));
    BT_TRY(bt_store_measure(store, round, &time));
    BT_TRY(bt_store_measure(store, round, &bandwidth));
    return bt_store_round_end(store, round, BT_RUN_PASSED, "", "");
}

static bt_status record_kernels(bt_store *store, int64_t *run)
{
    static char keys[BIG_FACTS][16];
    bt_store_fact facts[BIG_FACTS];
    for (int i = 0; i < BIG_FACTS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "fact.%02d", i);
        facts[i] = (bt_store_fact){keys[i], "a value", i % 3 ? BT_FACT_SOFT : BT_FACT_HARD};
    }
    bt_store_run_info info = {.suite = {"cafe", "kernels", "cpu", "kernels.json", "{}"},
                              .build = {.digest = "build 0", .git_commit = "00000000"},
                              .env = {"a machine", facts, BIG_FACTS},
                              .command = "bt-bench run kernels",
                              .out_dir = "results/run-1"};
    BT_TRY(bt_store_run_begin(store, &info, run));
    for (int64_t ordinal = 0; ordinal < BIG_ROUNDS; ordinal++) {
        for (int i = 0; i < BIG_KERNEL_CASES; i++) {
            BT_TRY(add_kernel_round(store, *run, i, ordinal));
        }
    }
    return bt_store_run_end(store, *run, BT_RUN_PASSED, "");
}

// The samples of its steps, as the recorder leaves them: three measurements of all of them.
static bt_status measure_training(bt_store *store, int64_t run, const sample_run *sample)
{
    static double values[BIG_STEPS];
    static const bt_metric metrics[] = {BT_METRIC_TOKENS_PER_S, BT_METRIC_STEP_TIME,
                                        BT_METRIC_STEP_DEVICE_TIME};
    bt_store_run read;
    BT_TRY(bt_store_run_read(store, run, &read));
    int64_t round = read.rounds[0].id;
    bt_store_run_release(&read);
    for (int i = 0; i < BIG_STEPS; i++) {
        values[i] = (double)sample_step(sample, i).host_ns;
    }
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        bt_store_measurement measured = {metrics[i], 250e6, 249e6, 251e6, values, BIG_STEPS};
        BT_TRY(bt_store_measure(store, round, &measured));
    }
    return BT_OK;
}

static bt_status record_templates(const char *path)
{
    bt_store *store = NULL;
    int64_t kernels = 0, training = 0;
    sample_run sample = sample_run_default();
    sample.steps = BIG_STEPS;
    BT_TRY(bt_store_open(path, BT_STORE_WRITE, &store));
    bt_status status = record_kernels(store, &kernels);
    if (status == BT_OK) {
        status = sample_run_record(store, &sample, &training);
    }
    if (status == BT_OK) {
        status = measure_training(store, training, &sample);
    }
    bt_status closed = bt_store_close(store);
    return status == BT_OK ? closed : status;
}

// ---- copying -----------------------------------------------------------------------------------

static bt_status execute(sqlite3 *db, const char *text)
{
    char *message = NULL;
    bt_status status = BT_OK;
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) {
        status = bt_error(BT_STATUS_INTERNAL, "%s: %s", text, message ? message : "?");
    }
    sqlite3_free(message);
    return status;
}

// What becomes of a column in copy k; all others stay as they are.
static const struct {
    const char *table, *column, *becomes; // NULL: of every table
} changes[] = {
    {"round", "seal", "''"}, // its rows change
    {NULL, "session_id", "k"},
    {NULL, "round_id", "t.round_id+k*" IDS},
    {NULL, "measurement_id", "t.measurement_id+k*" IDS},
    {NULL, "started_ns", "t.started_ns+k*" HOUR_NS},
    {NULL, "ended_ns", "t.ended_ns+k*" HOUR_NS},
    {"session", "id", "k"},
    {NULL, "id", "t.id+k*" IDS},
    {"session", "env_id", "k+" IDS},
    {"session", "build_id", "(SELECT id FROM build WHERE digest='build '||(k/10))"},
    {"measurement", "value",
     "t.value*(1+0.00002*((k*7919+t.round_id*31)%101-50)"
     "+0.03*(k>=(SELECT shift_at FROM of_template) AND t.metric='time_ns'))"},
};

// "t.column", or what becomes of it.
static void append_column(const char *table, const char *column, bt_str *out)
{
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if ((!changes[i].table || strcmp(changes[i].table, table) == 0) &&
            strcmp(changes[i].column, column) == 0) {
            bt_str_append(out, changes[i].becomes);
            return;
        }
    }
    bt_str_format(out, "t.%s", column);
}

// Copies the rows of a template into every session of `which`. `of` says which rows are the
// template's.
static bt_status copy_table(sqlite3 *db, const char *table, const char *of, const char *which)
{
    bt_str names = {0}, values = {0}, text = {0};
    sqlite3_stmt *row = NULL;
    bt_str_format(&text, "SELECT name FROM pragma_table_info('%s')", table);
    bool good = sqlite3_prepare_v2(db, bt_str_text(&text), -1, &row, NULL) == SQLITE_OK;
    while (good && sqlite3_step(row) == SQLITE_ROW) {
        const char *column = (const char *)sqlite3_column_text(row, 0);
        bt_str_append(&names, names.length_bytes ? "," : "");
        bt_str_append(&values, values.length_bytes ? "," : "");
        bt_str_append(&names, column);
        append_column(table, column, &values);
    }
    sqlite3_finalize(row);
    bt_str_clear(&text);
    // The template's rows are taken aside first, so that no copy is copied.
    bt_str_format(&text,
                  "CREATE TEMP TABLE taken AS SELECT * FROM %s WHERE %s;"
                  "INSERT INTO %s(%s) SELECT %s FROM copies CROSS JOIN taken t WHERE %s ORDER BY k;"
                  "DROP TABLE taken",
                  table, of, table, bt_str_text(&names), bt_str_text(&values), which);
    bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        status = execute(db, bt_str_text(&text));
    }
    bt_str_release(&names);
    bt_str_release(&values);
    bt_str_release(&text);
    return status;
}

#define OF_TEMPLATE       "session_id=(SELECT session FROM of_template)"
#define ROUND_OF_TEMPLATE "round_id IN (SELECT id FROM round WHERE " OF_TEMPLATE ")"

static bt_status copy_session(sqlite3 *db, const char *template, const char *which)
{
    static const char *const tables[][2] = {
        {"session", "id=(SELECT session FROM of_template)"},
        {"round", OF_TEMPLATE},
        {"artifact", OF_TEMPLATE},
        {"step", ROUND_OF_TEMPLATE},
        {"eval", ROUND_OF_TEMPLATE},
        {"range_stat", ROUND_OF_TEMPLATE},
        {"kernel_use", ROUND_OF_TEMPLATE},
        {"memory", ROUND_OF_TEMPLATE},
        {"measurement", ROUND_OF_TEMPLATE},
        {"samples", "measurement_id IN (SELECT id FROM measurement WHERE " ROUND_OF_TEMPLATE ")"},
    };
    BT_TRY(execute(db, template));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        BT_TRY(copy_table(db, tables[i][0], tables[i][1], which));
    }
    return BT_OK;
}

static bt_status copy_all(sqlite3 *db, int64_t sessions)
{
    bt_str text = {0};
    bt_str_format(
        &text,
        "PRAGMA synchronous=OFF; BEGIN;"
        "CREATE TEMP TABLE copies(k INTEGER PRIMARY KEY);"
        "CREATE TEMP TABLE of_template(session INTEGER, shift_at INTEGER);"
        "INSERT INTO of_template VALUES(0,%d);"
        "WITH RECURSIVE n(k) AS (SELECT 3 UNION ALL SELECT k+1 FROM n WHERE k<%lld)"
        " INSERT INTO copies SELECT k FROM n;"
        "INSERT INTO build(digest,version,git_commit,git_diff,compiler,flags,type,cuda)"
        " SELECT DISTINCT 'build '||(k/10),'','c'||substr('0000000'||(k/10),-7),'','','','',''"
        " FROM copies WHERE k/10>0;"
        "INSERT INTO env(id,digest,facts_digest) SELECT k+" IDS
        ",'a machine','facts '||k FROM copies;"
        "INSERT INTO env_fact(env_id,key,value,level) SELECT k+" IDS ",t.key,t.value,t.level"
        " FROM copies CROSS JOIN env_fact t WHERE t.env_id=1",
        BIG_SHIFT_AT, (long long)sessions);
    bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        status = execute(db, bt_str_text(&text));
    }
    bt_str_release(&text);
    BT_TRY(status);
    BT_TRY(copy_session(db, "UPDATE of_template SET session=1", "k%10<>0"));
    BT_TRY(copy_session(db, "UPDATE of_template SET session=2", "k%10=0"));
    return execute(db, "COMMIT");
}

bt_status big_store_make(const char *path, int64_t sessions)
{
    sqlite3 *db = NULL;
    BT_TRY(record_templates(path));
    bt_status status = sqlite3_open(path, &db) == SQLITE_OK
                           ? copy_all(db, sessions)
                           : bt_error(BT_STATUS_INTERNAL, "%s: cannot open", path);
    sqlite3_close(db);
    return status;
}

bt_status big_store_count(const char *path, int64_t *samples)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    bool good = sqlite3_open(path, &db) == SQLITE_OK &&
                sqlite3_prepare_v2(db,
                                   "SELECT (SELECT total(count) FROM samples)"
                                   " + (SELECT count(*) FROM step)",
                                   -1, &row, NULL) == SQLITE_OK &&
                sqlite3_step(row) == SQLITE_ROW;
    *samples = good ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_finalize(row);
    sqlite3_close(db);
    return good ? BT_OK : bt_error(BT_STATUS_INTERNAL, "%s: cannot count", path);
}
