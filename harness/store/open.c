// harness/store/open.c - opening, closing, and settings of a connection
//
// WAL, so that readers never wait for the writer; synchronous=NORMAL, so that a commit is an
// append to the log: a killed process loses nothing, a power failure at most the last commits.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/store/internal.h"

enum { DEFAULT_TIMEOUT_MS = 10000, RETRY_MS = 20 };

const char *bt_store_path(const bt_store *store) { return store->path; }

bool bt_store_is_removed(const bt_store *store)
{
    int moved = 0;
    return sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
           moved;
}

void bt_store_set_timeout(bt_store *store, int timeout_ms)
{
    store->timeout_ms = timeout_ms;
    sqlite3_busy_timeout(store->db, timeout_ms);
}

static bt_status make_folder(const char *path)
{
    BT_SCOPED_MEM(char *) folder = NULL;
    BT_TRY(bt_mem_strdup(path, &folder));
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        BT_TRY(bt_dir_make(folder));
    }
    return BT_OK;
}

// While another process creates the same file, the switch to WAL returns 'busy' at once, ignoring
// the timeout; so it is repeated until the timeout.
static bt_status use_wal(bt_store *store)
{
    int64_t limit_ns = bt_clock_ns() + store->timeout_ms * INT64_C(1000000);
    int code = sqlite3_exec(store->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    while ((code & 0xff) == SQLITE_BUSY && bt_clock_ns() < limit_ns) {
        usleep(RETRY_MS * 1000);
        code = sqlite3_exec(store->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    }
    return code == SQLITE_OK ? BT_OK : bt_sql_error(store, code, "opening it");
}

static void disconnect(bt_store *store)
{
    for (int i = 0; i < SQL_STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close(store->db);
    store->db = NULL;
}

static bt_status connect_as(bt_store *store, const char *name, int flags)
{
    flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(name, &store->db, flags, NULL);
    if (code != SQLITE_OK) {
        return bt_sql_error(store, code, "opening it");
    }
    bt_store_set_timeout(store, DEFAULT_TIMEOUT_MS);
    return BT_OK;
}

// An older database is read through a copy of this program's version, in a temporary SQLite file:
// readers change nothing.
static bt_status read_through_copy(bt_store *store)
{
    sqlite3 *copy = NULL;
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2("", &copy, flags, NULL);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(copy, "main", store->db, "main") : NULL;
    if (backup) {
        (void)sqlite3_backup_step(backup, -1);
        code = sqlite3_backup_finish(backup);
    } else if (copy) {
        code = sqlite3_extended_errcode(copy);
    }
    if (code != SQLITE_OK) {
        bt_status status = bt_sql_error(store, code, "copying it, to read an older version");
        sqlite3_close(copy);
        return status;
    }
    disconnect(store);
    store->db = copy;
    bt_store_set_timeout(store, DEFAULT_TIMEOUT_MS);
    return bt_store_migrate(store);
}

static bt_status connect_as_reader(bt_store *store, const char *name, int flags)
{
    bool outdated = false;
    BT_TRY(connect_as(store, name, SQLITE_OPEN_READONLY | flags));
    BT_TRY(bt_store_check_version(store, &outdated));
    return outdated ? read_through_copy(store) : BT_OK;
}

// The path as a URI with the immutable flag. SQLite then needs no additional files.
static bt_status connect_unchanging(bt_store *store)
{
    BT_SCOPED(bt_str) name = {0};
    bt_str_append(&name, "file:");
    for (const char *at = store->path; *at; at++) {
        bool plain = *at != '%' && *at != '?' && *at != '#';
        bt_str_format(&name, plain ? "%c" : "%%%02x", (unsigned char)*at);
    }
    bt_str_append(&name, "?immutable=1");
    BT_TRY(bt_str_status(&name));
    return connect_as_reader(store, bt_str_text(&name), SQLITE_OPEN_URI);
}

// On a read-only medium SQLite cannot create its log files. If the database has no log (the last
// writer closed it), it can be read without.
static bool is_closed_on_read_only_medium(const bt_store *store)
{
    char log[4096];
    uint64_t size_bytes = 0;
    int code = store->db ? sqlite3_errcode(store->db) & 0xff : SQLITE_OK;
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) {
        return false;
    }
    (void)snprintf(log, sizeof log, "%s-wal", store->path);
    return !bt_file_exists(log) || (bt_file_size(log, &size_bytes) == BT_OK && size_bytes == 0);
}

static bt_status connect_to_read(bt_store *store)
{
    bt_status status = connect_as_reader(store, store->path, 0);
    if (status == BT_STATUS_IO && is_closed_on_read_only_medium(store)) {
        disconnect(store);
        status = connect_unchanging(store);
    }
    return status;
}

static bt_status connect_to_write(bt_store *store)
{
    BT_TRY(connect_as(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    // Checked before anything is written, so that a foreign database is not changed.
    BT_TRY(bt_store_migrate(store));
    if (sqlite3_db_readonly(store->db, "main")) {
        return bt_sql_error(store, SQLITE_READONLY, "opening it to record");
    }
    BT_TRY(use_wal(store));
    return bt_sql_exec(store, "PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON", "opening it");
}

static void release(bt_store *store)
{
    disconnect(store);
    bt_arena_release(&store->queue_text);
    bt_mem_free(store->queue);
    bt_mem_free(store->path);
    bt_mem_free(store);
}

static bt_status prepare(bt_store *store, const char *path, bt_store_mode mode)
{
    BT_TRY(bt_mem_strdup(path, &store->path));
    BT_FAIL_IF(mode != BT_STORE_WRITE && !bt_file_exists(path), BT_STATUS_IO,
               "%s: no such database; `bt-bench run` creates one", path);
    if (mode != BT_STORE_READ) {
        BT_TRY(make_folder(path));
        BT_TRY(BT_MEM_ARRAY(QUEUE_ROWS, &store->queue));
        store->flush = bt_store_flush;
    }
    return mode == BT_STORE_READ ? connect_to_read(store) : connect_to_write(store);
}

bt_status bt_store_open(const char *path, bt_store_mode mode, bt_store **out)
{
    *out = NULL;
    BT_FAIL_IF(!path || !path[0], BT_STATUS_INVALID_ARGUMENT, "the database needs a file name");
    bt_store *store = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &store));
    bt_status status = prepare(store, path, mode);
    if (status != BT_OK) {
        release(store);
        return status;
    }
    *out = store;
    return BT_OK;
}

void bt_store_reader_release(bt_store_reader *store)
{
    if (*store) {
        release(*store);
    }
}

bt_status bt_store_close(bt_store *store)
{
    if (!store) {
        return BT_OK;
    }
    bt_status status = bt_store_flush(store);
    release(store);
    return status;
}
