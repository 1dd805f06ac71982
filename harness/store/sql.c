// harness/store/sql.c - prepared statements, transactions, and messages for SQLite's result codes
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/scoped.h"
#include "harness/store/internal.h"

// The operating system's reason of the last failure to open, read or write; "" if it has none.
// SQLite's last attempt at a missing file is to read it: the reason is then why its folder does not
// take a new one.
static const char *system_reason(const bt_store *store)
{
    int number = store->db ? sqlite3_system_errno(store->db) : 0;
    if (number == ENOENT) {
        char folder[4096];
        const char *slash = strrchr(store->path, '/');
        const int before = slash ? (int)(slash - store->path) : 0;
        const int length = before > 0 ? before : 1;
        (void)snprintf(folder, sizeof folder, "%.*s", length, slash ? store->path : ".");
        number = access(folder, W_OK | X_OK) != 0 ? errno : number;
    }
    return number > 0 ? strerror(number) : "";
}

// The words for a statement of SQL, which begins with a capital word; other texts are words.
static const char *words_of(const char *doing)
{
    static const char *const reads[] = {"SELECT", "WITH", "PRAGMA"};
    if (*doing < 'A' || *doing > 'Z') {
        return doing;
    }
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        if (strncmp(doing, reads[i], strlen(reads[i])) == 0) {
            return "reading it";
        }
    }
    return "writing to it";
}

bt_status bt_sql_error(const bt_store *store, int code, const char *doing)
{
    const char *words = words_of(doing);
    const char *detail = store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "%s: database is locked by another process (waited %.1f s) while %s",
                        store->path, store->timeout_ms / 1e3, words);
    case SQLITE_NOMEM:
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "%s: out of memory while %s", store->path, words);
    case SQLITE_FULL:
        return bt_error(BT_STATUS_IO,
                        "%s: the disk is full, so the latest changes could not be written; free "
                        "space, then 'bt-bench run --resume NAME' finishes an interrupted run; "
                        "repeat other commands",
                        store->path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return bt_error(BT_STATUS_IO,
                        "%s: the database cannot be written: it or its folder is read-only; make "
                        "both writable, or choose another file with --db",
                        store->path);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: {
        const char *reason = system_reason(store);
        return bt_error(BT_STATUS_IO, "%s: %s%s%s%s while %s", store->path, detail,
                        *reason ? " (" : "", reason, *reason ? ")" : "", words);
    }
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "%s: the file is damaged or not a database (%s); move it away, or name "
                        "another file",
                        store->path, detail);
    case SQLITE_TOOBIG:
    case SQLITE_CONSTRAINT:
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: refused: %s while %s", store->path, detail,
                        doing);
    default:
        return bt_error(BT_STATUS_INTERNAL, "%s: %s (%d) while %s", store->path, detail, code,
                        doing);
    }
}

bt_status bt_sql_exec(bt_store *store, const char *text, const char *doing)
{
    int code = sqlite3_exec(store->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? BT_OK : bt_sql_error(store, code, doing);
}

// clang-tidy 14 does not follow va_copy. NOLINTBEGIN(clang-analyzer-valist.Uninitialized)
static int bind_one(sqlite3_stmt *statement, int index, char letter, va_list *arguments)
{
    switch (letter) {
    case 'i':
        return sqlite3_bind_int64(statement, index, va_arg(*arguments, int64_t));
    case 'r':
        return sqlite3_bind_double(statement, index, va_arg(*arguments, double));
    case 't': {
        const char *text = va_arg(*arguments, const char *);
        return sqlite3_bind_text(statement, index, text ? text : "", -1, SQLITE_TRANSIENT);
    }
    case 'T': { // NULL stays NULL
        const char *text = va_arg(*arguments, const char *);
        return text ? sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT)
                    : sqlite3_bind_null(statement, index);
    }
    case 'b': {
        const void *bytes = va_arg(*arguments, const void *);
        int64_t size_bytes = va_arg(*arguments, int64_t);
        return sqlite3_bind_blob64(statement, index, bytes, (sqlite3_uint64)size_bytes,
                                   SQLITE_TRANSIENT);
    }
    default:
        return SQLITE_MISUSE;
    }
}
// NOLINTEND(clang-analyzer-valist.Uninitialized)

static bt_status prepare(bt_store *store, int which)
{
    BT_SCOPED(bt_str) text = {0};
    bt_sql_text(which, &text);
    BT_TRY(bt_str_status(&text));
    int code = sqlite3_prepare_v3(store->db, bt_str_text(&text), -1, SQLITE_PREPARE_PERSISTENT,
                                  &store->statements[which], NULL);
    return code == SQLITE_OK ? BT_OK : bt_sql_error(store, code, bt_str_text(&text));
}

bt_cursor bt_sql_rows_of(bt_store *store, int which, const char *format, va_list arguments)
{
    bt_cursor rows = {.store = store, .status = store->flush ? store->flush(store) : BT_OK};
    int code = SQLITE_OK;
    va_list own;
    va_copy(own, arguments);
    if (rows.status == BT_OK && !store->statements[which]) {
        rows.status = prepare(store, which);
    }
    rows.row = store->statements[which];
    for (int i = 0; rows.status == BT_OK && code == SQLITE_OK && format[i]; i++) {
        code = bind_one(rows.row, i + 1, format[i], &own);
    }
    va_end(own);
    if (code != SQLITE_OK) {
        rows.status = bt_sql_error(store, code, sqlite3_sql(rows.row));
    }
    return rows;
}

bt_cursor bt_sql_rows(bt_store *store, int which, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_cursor rows = bt_sql_rows_of(store, which, format, arguments);
    va_end(arguments);
    return rows;
}

bool bt_cursor_next(bt_cursor *rows)
{
    int code = rows->status == BT_OK ? sqlite3_step(rows->row) : SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        rows->status = bt_sql_error(rows->store, code, sqlite3_sql(rows->row));
    }
    return code == SQLITE_ROW;
}

bt_status bt_cursor_end(bt_cursor *rows)
{
    sqlite3_reset(rows->row);
    return rows->status;
}

bt_status bt_sql_run(bt_store *store, int which, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_cursor rows = bt_sql_rows_of(store, which, format, arguments);
    va_end(arguments);
    (void)bt_cursor_next(&rows);
    return bt_cursor_end(&rows);
}

bt_status bt_sql_integer(bt_store *store, int which, int64_t *value, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_cursor rows = bt_sql_rows_of(store, which, format, arguments);
    va_end(arguments);
    if (bt_cursor_next(&rows)) {
        *value = sqlite3_column_int64(rows.row, 0);
    } else if (rows.status == BT_OK) {
        rows.status =
            bt_error(BT_STATUS_INTERNAL, "%s: no row from %s", store->path, sqlite3_sql(rows.row));
    }
    return bt_cursor_end(&rows);
}

bt_status bt_sql_begin(bt_store *store) { return bt_sql_run(store, SQL_BEGIN, ""); }

bt_status bt_sql_end(bt_store *store, bt_status status)
{
    BT_IF_OK(status, bt_sql_run(store, SQL_COMMIT, ""));
    if (status != BT_OK && !sqlite3_get_autocommit(store->db)) {
        // Keeps the first failure's message: a failing ROLLBACK adds no information.
        int code = sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        (void)code;
    }
    return status;
}
