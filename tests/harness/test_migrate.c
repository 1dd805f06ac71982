// tests/harness/test_migrate.c - databases of older and of later programs
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "harness/store/internal.h"
#include "tests/harness/sample_run.h"
#include "tests/harness/scratch_store.h"

static const char *const add_column[] = {"ALTER TABLE session ADD COLUMN remark TEXT NOT NULL "
                                         "DEFAULT 'none'",
                                         "CREATE TABLE extra(x INTEGER NOT NULL) STRICT", NULL};
static const char *const break_midway[] = {"CREATE TABLE half(x INTEGER) STRICT",
                                           "INSERT INTO nowhere VALUES(1)", NULL};

// The migrations of a later program: this one's, then its own.
enum { LATER_MAX = 64 };

static int later_program(const char *const *const own[], int own_count,
                         const char *const *steps[LATER_MAX])
{
    int known = 0;
    const char *const *const *migrations = bt_store_migrations(&known);
    assert_true(known + own_count <= LATER_MAX);
    for (int i = 0; i < known + own_count; i++) {
        steps[i] = i < known ? migrations[i] : own[i - known];
    }
    return known;
}

static void later_version_is_migrated_to_and_then_refused(void **state)
{
    (void)state;
    const char *const *const later_own[] = {add_column};
    const char *const *const broken_own[] = {add_column, break_midway};
    const char *const *later[LATER_MAX], *const *broken[LATER_MAX];
    int known = later_program(later_own, 1, later);
    (void)later_program(broken_own, 2, broken);
    sample_run sample = sample_run_default();
    int64_t id = 0;
    bt_store *store = scratch_open(BT_STORE_WRITE);
    ASSERT_OK(sample_run_record(store, &sample, &id));
    assert_int_equal(scratch_query("PRAGMA user_version"), known);
    assert_int_equal(scratch_query("PRAGMA application_id"), 0x6274626e);
    ASSERT_FAILS(BT_STATUS_INTERNAL, "nowhere", bt_store_migrate_through(store, broken, known + 2));
    assert_int_equal(scratch_query("PRAGMA user_version"), known); // all or nothing
    assert_int_equal(
        scratch_query("SELECT count(*) FROM sqlite_schema WHERE name IN ('half','extra')"), 0);
    ASSERT_OK(bt_store_migrate_through(store, later, known + 1));
    ASSERT_OK(bt_store_migrate_through(store, later, known + 1)); // a second time does nothing
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("PRAGMA user_version"), known + 1);
    assert_int_equal(scratch_query("SELECT count(*) FROM session WHERE remark='none'"), 1);
    assert_int_equal(scratch_query("SELECT count(*) FROM step"), 60);
    store = NULL; // and to this program that one is newer
    char words[96];
    (void)snprintf(words, sizeof words, "has version %d, this program supports versions up to %d",
                   known + 1, known);
    ASSERT_FAILS(BT_STATUS_UNSUPPORTED, words,
                 bt_store_open(scratch_database, BT_STORE_READ, &store));
}

static const char one_run[] =
    "INSERT INTO suite VALUES(1,'p','s','cpu','s.json','{}');"
    "INSERT INTO build VALUES(1,'b','0','','','gcc','','Release','');"
    "INSERT INTO env(id,digest) VALUES(1,'e');"
    "INSERT INTO session(id,suite_id,build_id,env_id,command,out_dir,seed,status,message,"
    "started_ns,ended_ns,pid,pid_started,boot_id) VALUES(7,1,1,1,'c','o',1,1,'',5,6,1,1,'');"
    "INSERT INTO bench VALUES(1,'s','kernel');"
    "INSERT INTO bench_case VALUES(1,1,'gelu','{}');"
    "INSERT INTO round(id,session_id,case_id,system,ordinal,status,message,started_ns,ended_ns)"
    " VALUES(3,7,1,'blutrain',0,1,'',5,6);"
    "INSERT INTO measurement VALUES(1,3,'time_ns',25.5,25,26)";

static const char one_calibration[] =
    "INSERT INTO calibration VALUES(1,7,'e','s','gelu','time_ns','{}',24,5,0,0,0.1,0.01,0.01,0.02)";
static const char one_file[] = "INSERT INTO session_file VALUES(1,7,'suite','s.json',X'7b7d')";

// The file's bytes.
static void read_bytes(void **bytes, size_t *size_bytes)
{
    ASSERT_OK(bt_file_read(scratch_database, bytes, size_bytes));
}

// A database as an earlier version left it, with a run in it.
static void make_old(int version)
{
    int known = 0;
    const char *const *const *migrations = bt_store_migrations(&known);
    bt_str text = {0}; // of one connection: a migration may keep rows in a temporary table
    assert_true(version <= known);
    for (int i = 0; i < version; i++) {
        for (int j = 0; migrations[i][j]; j++) {
            bt_str_format(&text, "%s;", migrations[i][j]);
        }
    }
    bt_str_format(&text, "PRAGMA user_version=%d;", version);
    scratch_execute(bt_str_text(&text));
    bt_str_release(&text);
    scratch_execute(one_run);
}

// Whoever only reads changes nothing, not even a database of an older version.
static void reading_does_not_upgrade(void **state)
{
    (void)state;
    int known = 0;
    (void)bt_store_migrations(&known);
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE))); // makes the folder
    for (int version = 1; version <= known; version++) {
        void *before = NULL, *after = NULL;
        size_t before_bytes = 0, after_bytes = 0;
        assert_int_equal(unlink(scratch_database), 0);
        make_old(version);
        read_bytes(&before, &before_bytes);
        bt_store *store = scratch_open(BT_STORE_READ);
        bt_store_run run;
        bt_store_run_list list;
        ASSERT_OK(bt_store_run_read(store, 7, &run));
        assert_true(run.rounds[0].measurements[0].value == 25.5);
        bt_store_run_release(&run);
        ASSERT_OK(bt_store_run_list_read(store, &list));
        assert_int_equal(list.count, 1);
        bt_store_run_list_release(&list);
        ASSERT_OK(bt_store_close(store));
        read_bytes(&after, &after_bytes);
        assert_int_equal(before_bytes, after_bytes);
        assert_memory_equal(before, after, before_bytes);
        bt_mem_free(before);
        bt_mem_free(after);
        assert_int_equal(scratch_query("PRAGMA user_version"), version);
    }
}

// A database as each earlier version left it, with a run in it.
static void every_old_version_is_migrated_with_its_rows(void **state)
{
    (void)state;
    int known = 0;
    (void)bt_store_migrations(&known);
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE))); // makes the folder
    for (int version = 1; version < known; version++) {
        assert_int_equal(unlink(scratch_database), 0);
        make_old(version);
        if (version >= 6) { // made by shuffling pairs
            scratch_execute(version < 10 ? one_calibration : "SELECT 1");
        }
        if (version >= 7) {
            scratch_execute(version < 11 ? one_file : "SELECT 1");
        }
        bt_store *store = scratch_open(BT_STORE_AMEND);
        bt_store_run run;
        ASSERT_OK(bt_store_run_read(store, 7, &run));
        assert_int_equal(run.file_count, version >= 7 && version < 11);
        assert_true(run.file_count == 0 || strcmp(run.files[0].bytes, "{}") == 0);
        assert_int_equal(run.round_count, 1);
        assert_string_equal(run.rounds[0].what.name, "gelu");
        assert_true(run.rounds[0].measurements[0].value == 25.5);
        assert_string_equal(run.rounds[0].label, "");
        assert_int_equal(run.rounds[0].telemetry_count, 0);
        bt_store_run_release(&run);
        ASSERT_OK(bt_store_close(store));
        assert_int_equal(scratch_query("PRAGMA user_version"), known);
        assert_int_equal(scratch_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        assert_int_equal(scratch_query("SELECT count(*) FROM calibration"), 0);
    }
}

// An empty file is a database of version 0: it reads as one without runs, and becomes one when it
// is written to.
static void empty_file_becomes_a_database(void **state)
{
    (void)state;
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE)));
    assert_int_equal(unlink(scratch_database), 0);
    ASSERT_OK(bt_file_write(scratch_database, "", 0));
    bt_store *store = scratch_open(BT_STORE_READ);
    bt_store_run_list list;
    ASSERT_OK(bt_store_run_list_read(store, &list));
    assert_int_equal(list.count, 0);
    bt_store_run_list_release(&list);
    ASSERT_OK(bt_store_close(store));
    assert_int_equal(scratch_query("PRAGMA user_version"), 0);
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_AMEND)));
    int known = 0;
    (void)bt_store_migrations(&known);
    assert_int_equal(scratch_query("PRAGMA user_version"), known);
}

// Whoever comes first: all of them get a database that works.
static void many_make_it_at_once(void **state)
{
    (void)state;
    enum { TIMES = 20, OPENERS = 6 };
    ASSERT_OK(bt_store_close(scratch_open(BT_STORE_WRITE))); // makes the folder
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(unlink(scratch_database), 0);
        pid_t openers[OPENERS];
        for (int j = 0; j < OPENERS; j++) {
            openers[j] = fork();
            if (openers[j] == 0) {
                bt_store *store = NULL;
                bt_status status = bt_store_open(scratch_database, BT_STORE_WRITE, &store);
                if (status != BT_OK) {
                    print_error("%s\n", bt_error_message());
                }
                _exit(status == BT_OK && bt_store_close(store) == BT_OK ? 0 : 1);
            }
        }
        for (int j = 0; j < OPENERS; j++) {
            int code = -1;
            assert_int_equal(waitpid(openers[j], &code, 0), openers[j]);
            assert_int_equal(code, 0);
        }
    }
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, scratch_database_name, scratch_database_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(later_version_is_migrated_to_and_then_refused),
        TEST(every_old_version_is_migrated_with_its_rows),
        TEST(reading_does_not_upgrade),
        TEST(empty_file_becomes_a_database),
        TEST(many_make_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
