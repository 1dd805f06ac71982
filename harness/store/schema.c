// harness/store/schema.c - the tables, and migrations of older databases
//
// `user_version` counts the migrations of a database; a published migration is never edited, a
// change is a new one. All outstanding ones run in one transaction.
#include "framework/base/idioms.h"
#include "harness/store/internal.h"

// 'btbn': distinguishes our databases from other SQLite files.
#define APPLICATION_ID "0x6274626e"
enum { APPLICATION_ID_VALUE = 0x6274626e };

// Columns of round up to version 3; published, so never edited.
#define ROUND_COLUMNS                                                                              \
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"                 \
    " case_id INTEGER NOT NULL REFERENCES bench_case(id), system TEXT NOT NULL,"                   \
    " ordinal INTEGER NOT NULL, status INTEGER NOT NULL, message TEXT NOT NULL,"                   \
    " started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, device TEXT NOT NULL DEFAULT '',"    \
    " precision TEXT NOT NULL DEFAULT '', dataset TEXT NOT NULL DEFAULT '',"                       \
    " parameters INTEGER NOT NULL DEFAULT 0, tensors INTEGER NOT NULL DEFAULT 0,"                  \
    " accumulation INTEGER NOT NULL DEFAULT 0, steps INTEGER NOT NULL DEFAULT 0,"                  \
    " train_tokens INTEGER NOT NULL DEFAULT 0, val_tokens INTEGER NOT NULL DEFAULT 0,"             \
    " params_digest TEXT NOT NULL DEFAULT '',"

static const char *const version_1[] = {
    "CREATE TABLE suite("
    " id INTEGER PRIMARY KEY, plan_hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
    " profile TEXT NOT NULL, path TEXT NOT NULL, plan_json TEXT NOT NULL) STRICT",
    "CREATE TABLE build("
    " id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, version TEXT NOT NULL,"
    " git_commit TEXT NOT NULL, git_diff TEXT NOT NULL, compiler TEXT NOT NULL,"
    " flags TEXT NOT NULL, type TEXT NOT NULL, cuda TEXT NOT NULL) STRICT",
    "CREATE TABLE env(id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE env_fact("
    " env_id INTEGER NOT NULL REFERENCES env(id), key TEXT NOT NULL, value TEXT NOT NULL,"
    " level INTEGER NOT NULL, PRIMARY KEY(env_id, key)) STRICT, WITHOUT ROWID",
    "CREATE TABLE session("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, suite_id INTEGER NOT NULL REFERENCES suite(id),"
    " build_id INTEGER NOT NULL REFERENCES build(id), env_id INTEGER NOT NULL REFERENCES env(id),"
    " command TEXT NOT NULL, out_dir TEXT NOT NULL, seed INTEGER NOT NULL,"
    " status INTEGER NOT NULL, message TEXT NOT NULL, started_ns INTEGER NOT NULL,"
    " ended_ns INTEGER NOT NULL, pid INTEGER NOT NULL, pid_started INTEGER NOT NULL,"
    " boot_id TEXT NOT NULL) STRICT",
    "CREATE TABLE bench("
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, UNIQUE(name, kind)) STRICT",
    "CREATE TABLE bench_case("
    " id INTEGER PRIMARY KEY, bench_id INTEGER NOT NULL REFERENCES bench(id), name TEXT NOT NULL,"
    " axes_json TEXT NOT NULL, UNIQUE(bench_id, name, axes_json)) STRICT",
    "CREATE TABLE round(" ROUND_COLUMNS " UNIQUE(session_id, case_id, system, ordinal)) STRICT",
    "CREATE TABLE measurement("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " metric TEXT NOT NULL, value REAL, low REAL, high REAL, UNIQUE(round_id, metric)) STRICT",
    "CREATE TABLE samples("
    " measurement_id INTEGER PRIMARY KEY REFERENCES measurement(id) ON DELETE CASCADE,"
    " count INTEGER NOT NULL, unit TEXT NOT NULL, data BLOB NOT NULL) STRICT",
    "CREATE TABLE step("
    " round_id INTEGER NOT NULL REFERENCES round(id), step INTEGER NOT NULL, loss REAL,"
    " loss_bits INTEGER NOT NULL, grad_norm REAL, lr REAL, tokens INTEGER NOT NULL,"
    " host_ns INTEGER NOT NULL, device_ns INTEGER NOT NULL, allocated_bytes INTEGER NOT NULL,"
    " peak_allocated_bytes INTEGER NOT NULL, reserved_bytes INTEGER NOT NULL,"
    " resident_bytes INTEGER NOT NULL, warmup INTEGER NOT NULL, profiled INTEGER NOT NULL,"
    " PRIMARY KEY(round_id, step)) STRICT, WITHOUT ROWID",
    "CREATE TABLE eval("
    " round_id INTEGER NOT NULL REFERENCES round(id), step INTEGER NOT NULL, loss REAL,"
    " tokens INTEGER NOT NULL, host_ns INTEGER NOT NULL,"
    " PRIMARY KEY(round_id, step)) STRICT, WITHOUT ROWID",
    "CREATE TABLE range_stat("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " step INTEGER NOT NULL, path TEXT NOT NULL, count INTEGER NOT NULL,"
    " device_ns INTEGER NOT NULL, host_ns INTEGER NOT NULL, UNIQUE(round_id, step, path)) STRICT",
    "CREATE TABLE kernel_use("
    " round_id INTEGER NOT NULL REFERENCES round(id), op TEXT NOT NULL, kernel TEXT NOT NULL,"
    " PRIMARY KEY(round_id, op, kernel)) STRICT, WITHOUT ROWID",
    "CREATE TABLE memory("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " phase TEXT NOT NULL, peak_allocated_bytes INTEGER NOT NULL,"
    " peak_reserved_bytes INTEGER NOT NULL, device_used_bytes INTEGER NOT NULL,"
    " peak_resident_bytes INTEGER NOT NULL, UNIQUE(round_id, phase)) STRICT",
    "CREATE TABLE artifact("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " kind TEXT NOT NULL, path TEXT NOT NULL, size_bytes INTEGER NOT NULL,"
    " digest TEXT NOT NULL) STRICT",
    "PRAGMA application_id=" APPLICATION_ID,
    NULL};

// Verdicts, with everything that each was judged by.
static const char *const version_2[] = {
    "CREATE TABLE verdict("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " kind TEXT NOT NULL, subject TEXT NOT NULL, metric TEXT NOT NULL, verdict TEXT NOT NULL,"
    " ratio REAL, low REAL, high REAL, rounds INTEGER NOT NULL, reason TEXT NOT NULL,"
    " rule_json TEXT NOT NULL, UNIQUE(session_id, kind, subject, metric)) STRICT",
    NULL};

// Rounds have a label, and telemetry. One that did not pass may be run again under its ordinal, so
// an index takes the place of the constraint; SQLite cannot drop that, hence the table is
// recreated, with references to it checked at the end of the transaction.
static const char *const version_3[] = {
    "PRAGMA defer_foreign_keys=ON",
    "CREATE TEMP TABLE round_kept AS SELECT * FROM round",
    "DROP TABLE round",
    "CREATE TABLE round(" ROUND_COLUMNS " label TEXT NOT NULL DEFAULT '') STRICT",
    "INSERT INTO round SELECT *, '' FROM round_kept",
    "DROP TABLE round_kept",
    "CREATE UNIQUE INDEX round_passed ON round(session_id, case_id, system, ordinal)"
    " WHERE status=1",
    "CREATE INDEX round_of_session ON round(session_id)",
    "CREATE TABLE telemetry("
    " round_id INTEGER PRIMARY KEY REFERENCES round(id), count INTEGER NOT NULL,"
    " columns TEXT NOT NULL, data BLOB NOT NULL) STRICT",
    NULL};

// A case over all sessions: without these indices, a history reads every round.
static const char *const version_4[] = {"CREATE INDEX round_of_case ON round(case_id)",
                                        "CREATE INDEX bench_case_of_name ON bench_case(name)",
                                        "CREATE INDEX artifact_of_session ON artifact(session_id)",
                                        NULL};

// Baselines: the newest row of a name and machine is current, the others are its history.
static const char *const version_5[] = {
    "CREATE TABLE baseline("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, machine TEXT NOT NULL,"
    " reason TEXT NOT NULL CHECK(reason<>''), run INTEGER NOT NULL, created_ns INTEGER NOT NULL,"
    " document TEXT NOT NULL) STRICT",
    "CREATE INDEX baseline_by_name ON baseline(name, id)", NULL};

// Systems of a session and the order of its rounds; calibrations of cases.
static const char *const version_6[] = {
    "CREATE TABLE session_schedule("
    " session_id INTEGER PRIMARY KEY REFERENCES session(id), seed INTEGER NOT NULL,"
    " kind TEXT NOT NULL, rule_json TEXT NOT NULL) STRICT",
    "CREATE TABLE session_system("
    " session_id INTEGER NOT NULL REFERENCES session(id), position INTEGER NOT NULL,"
    " name TEXT NOT NULL, program TEXT NOT NULL, inject_slowdown REAL NOT NULL,"
    " build_id INTEGER NOT NULL REFERENCES build(id),"
    " PRIMARY KEY(session_id, position)) STRICT, WITHOUT ROWID",
    "CREATE TABLE calibration("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " environment TEXT NOT NULL, bench TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,"
    " rule_json TEXT NOT NULL, pairs INTEGER NOT NULL, made_ns INTEGER NOT NULL,"
    " false_alarm_rate REAL, false_alarm_low REAL, false_alarm_high REAL,"
    " smallest REAL, smallest_low REAL, smallest_high REAL,"
    " UNIQUE(session_id, bench, name, metric)) STRICT",
    "CREATE INDEX calibration_of_case ON calibration(environment, bench, name)", NULL};

// Files that a run was made from: its suite, the claims that it was judged by.
static const char *const version_7[] = {
    "CREATE TABLE session_file("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " kind TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,"
    " UNIQUE(session_id, kind)) STRICT",
    NULL};

// An environment is kept once per list of facts, not once per digest of the hard ones: soft facts
// of a later run differ. Recreated as in version 3.
static const char *const version_8[] = {"PRAGMA defer_foreign_keys=ON",
                                        "CREATE TEMP TABLE env_kept AS SELECT * FROM env",
                                        "DROP TABLE env",
                                        ("CREATE TABLE env("
                                         " id INTEGER PRIMARY KEY, digest TEXT NOT NULL,"
                                         " facts_digest TEXT NOT NULL UNIQUE DEFAULT '') STRICT"),
                                        "INSERT INTO env SELECT id, digest, digest FROM env_kept",
                                        "DROP TABLE env_kept",
                                        NULL};

// Gaps of a session before it was resumed.
static const char *const version_9[] = {
    "CREATE TABLE session_gap("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " stopped_ns INTEGER NOT NULL, resumed_ns INTEGER NOT NULL, status INTEGER NOT NULL) STRICT",
    "CREATE INDEX session_gap_of_session ON session_gap(session_id)", NULL};

// Calibrations have bounds, and belong to a card. Earlier ones were made by shuffling pairs, which
// hides bias and drift: they are dropped.
static const char *const version_10[] = {
    "DROP TABLE calibration",
    "CREATE TABLE calibration("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " environment TEXT NOT NULL, card TEXT NOT NULL, bench TEXT NOT NULL, name TEXT NOT NULL,"
    " metric TEXT NOT NULL, rule_json TEXT NOT NULL, pairs INTEGER NOT NULL,"
    " needed INTEGER NOT NULL, sessions INTEGER NOT NULL, made_ns INTEGER NOT NULL,"
    " false_alarm_rate REAL, false_alarm_high REAL, smallest REAL, smallest_high REAL,"
    " UNIQUE(session_id, bench, name, metric)) STRICT",
    "CREATE INDEX calibration_of_case ON calibration(environment, card, bench, name)", NULL};

// Equal files of several runs, such as a common baseline, are stored once.
static const char *const version_11[] = {
    "CREATE TABLE content("
    " id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, data BLOB NOT NULL) STRICT",
    "INSERT INTO content SELECT id, 'file ' || id, data FROM session_file",
    "CREATE TEMP TABLE file_kept AS SELECT id, session_id, kind, name FROM session_file",
    "DROP TABLE session_file",
    "CREATE TABLE session_file("
    " id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),"
    " kind TEXT NOT NULL, name TEXT NOT NULL,"
    " content_id INTEGER NOT NULL REFERENCES content(id), UNIQUE(session_id, kind)) STRICT",
    "INSERT INTO session_file SELECT id, session_id, kind, name, id FROM file_kept",
    "DROP TABLE file_kept",
    "CREATE INDEX session_file_of_content ON session_file(content_id)",
    NULL};

// Faults detected during training.
static const char *const version_12[] = {
    "CREATE TABLE fault("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " step INTEGER NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL, message TEXT NOT NULL)"
    " STRICT",
    "CREATE INDEX fault_of_round ON fault(round_id)", NULL};

// A digest over all rows of a completed round (seal.c); none for earlier ones.
static const char *const version_13[] = {
    "ALTER TABLE round ADD COLUMN seal TEXT NOT NULL DEFAULT ''", NULL};

// Scores on HellaSwag during training.
static const char *const version_14[] = {
    "CREATE TABLE score("
    " round_id INTEGER NOT NULL REFERENCES round(id), step INTEGER NOT NULL,"
    " questions INTEGER NOT NULL, correct INTEGER NOT NULL, normalised_correct INTEGER NOT NULL,"
    " host_ns INTEGER NOT NULL, PRIMARY KEY(round_id, step)) STRICT, WITHOUT ROWID",
    NULL};

// The user's name and note of a run.
static const char *const version_15[] = {
    "ALTER TABLE session ADD COLUMN name TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE session ADD COLUMN note TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX session_of_name ON session(name)", NULL};

// Digests of parameters and moments during training.
static const char *const version_16[] = {
    "CREATE TABLE state("
    " round_id INTEGER NOT NULL REFERENCES round(id), step INTEGER NOT NULL, digest TEXT NOT NULL,"
    " host_ns INTEGER NOT NULL, PRIMARY KEY(round_id, step)) STRICT, WITHOUT ROWID",
    NULL};

// How training steps were launched.
static const char *const version_17[] = {
    "CREATE TABLE launch("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " step INTEGER NOT NULL, way TEXT NOT NULL, message TEXT NOT NULL) STRICT",
    "CREATE INDEX launch_of_round ON launch(round_id)", NULL};

// How each rank spent one profiled step.
static const char *const version_18[] = {
    "CREATE TABLE timeline("
    " round_id INTEGER NOT NULL REFERENCES round(id), step INTEGER NOT NULL,"
    " rank INTEGER NOT NULL, start_ns INTEGER NOT NULL, time_ns INTEGER NOT NULL,"
    " products_ns INTEGER NOT NULL, attention_ns INTEGER NOT NULL, other_ns INTEGER NOT NULL,"
    " communication_ns INTEGER NOT NULL, work TEXT NOT NULL, phases TEXT NOT NULL,"
    " PRIMARY KEY(round_id, rank)) STRICT, WITHOUT ROWID",
    NULL};

// Kernels of compiled steps.
static const char *const version_19[] = {
    "CREATE TABLE fused_group("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " direction TEXT NOT NULL, kind TEXT NOT NULL, kernel TEXT NOT NULL, ops TEXT NOT NULL,"
    " count INTEGER NOT NULL, calls INTEGER NOT NULL, bytes_before INTEGER NOT NULL,"
    " bytes_after INTEGER NOT NULL, time_ns INTEGER NOT NULL) STRICT",
    "CREATE INDEX fused_group_of_round ON fused_group(round_id)", NULL};

// Times of the calls of those kernels, one by one.
static const char *const version_20[] = {
    "CREATE TABLE group_calls("
    " id INTEGER PRIMARY KEY, round_id INTEGER NOT NULL REFERENCES round(id),"
    " direction TEXT NOT NULL, kernel TEXT NOT NULL, time_ns INTEGER NOT NULL) STRICT",
    "CREATE INDEX group_calls_of_round ON group_calls(round_id)", NULL};

// When rows of a run's rounds were last written; 0: by a program that did not record it.
static const char *const version_21[] = {
    "ALTER TABLE session ADD COLUMN recorded_ns INTEGER NOT NULL DEFAULT 0", NULL};

static const char *const *const migrations[] = {
    version_1,  version_2,  version_3,  version_4,  version_5,  version_6,  version_7,
    version_8,  version_9,  version_10, version_11, version_12, version_13, version_14,
    version_15, version_16, version_17, version_18, version_19, version_20, version_21};

enum { KNOWN_VERSION = (int)(sizeof migrations / sizeof migrations[0]) };

const char *const *const *bt_store_migrations(int *count)
{
    *count = KNOWN_VERSION;
    return migrations;
}

static bt_status check_known(const bt_store *store, int64_t version, int known)
{
    BT_FAIL_IF(version > known, BT_STATUS_UNSUPPORTED,
               "%s: the database has version %lld, this program supports versions up to %d",
               store->path, (long long)version, known);
    return BT_OK;
}

// A database that has tables but not our mark is foreign.
static bt_status check_ours(bt_store *store)
{
    int64_t mark = 0, tables = 0;
    // Tables first: another process that creates the database writes tables and mark in one
    // transaction, so if tables are visible, a later read sees the mark.
    BT_TRY(bt_sql_integer(store, SQL_TABLE_COUNT, &tables, ""));
    BT_TRY(bt_sql_integer(store, SQL_APPLICATION_ID, &mark, ""));
    BT_FAIL_IF(mark != APPLICATION_ID_VALUE && (mark != 0 || tables > 0), BT_STATUS_UNAVAILABLE,
               "%s: this SQLite database was not created by bt-bench; choose another file",
               store->path);
    return BT_OK;
}

static bt_status migrate_locked(bt_store *store, const char *const *const *steps, int count)
{
    int64_t version = 0;
    // Read again under the lock: another process may have migrated in between.
    BT_TRY(bt_sql_integer(store, SQL_USER_VERSION, &version, ""));
    BT_TRY(check_known(store, version, count));
    for (int64_t next = version; next < count; next++) {
        char text[64];
        sqlite3_snprintf(sizeof text, text, "PRAGMA user_version=%lld;", (long long)next + 1);
        for (int i = 0; steps[next][i]; i++) {
            BT_TRY(bt_sql_exec(store, steps[next][i], "changing the tables"));
        }
        BT_TRY(bt_sql_exec(store, text, "changing the tables"));
    }
    return BT_OK;
}

bt_status bt_store_migrate_through(bt_store *store, const char *const *const *steps, int count)
{
    int64_t version = 0;
    BT_TRY(bt_sql_integer(store, SQL_USER_VERSION, &version, ""));
    BT_TRY(check_ours(store));
    BT_TRY(check_known(store, version, count));
    if (version == count) {
        return BT_OK;
    }
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, migrate_locked(store, steps, count));
}

bt_status bt_store_check_version(bt_store *store, bool *outdated)
{
    int64_t version = 0;
    BT_TRY(bt_sql_integer(store, SQL_USER_VERSION, &version, ""));
    BT_TRY(check_ours(store));
    *outdated = version < KNOWN_VERSION;
    return check_known(store, version, KNOWN_VERSION);
}

bt_status bt_store_migrate(bt_store *store)
{
    return bt_store_migrate_through(store, migrations, KNOWN_VERSION);
}
