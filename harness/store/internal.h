// harness/store/internal.h - declarations shared by the files of this folder; private
#ifndef BT_HARNESS_STORE_INTERNAL_H
#define BT_HARNESS_STORE_INTERNAL_H

#include <sqlite3.h>
#include <stdarg.h>

#include "harness/record/fields.h"
#include "harness/store/store.h"

// Every statement of the store, prepared when first used: X(enumerator, SQL).
typedef enum store_statement {
#define X(name, text) SQL_##name,
#include "harness/store/statements.inl"
#undef X
    SQL_COUNT
} store_statement;

// Statements are numbered: those of the list above, then for each kind of record with its own table
// the insert and the select of an owner's rows, then the counts of the rows of each.
#define SQL_ADD_OF(kind)        ((int)SQL_COUNT + (int)(kind))
#define SQL_LIST_OF(kind)       (SQL_ADD_OF(BT_FIELDS_COUNT) + (int)(kind))
#define SQL_COUNT_OF(statement) (SQL_LIST_OF(BT_FIELDS_COUNT) + (int)(statement))
enum { SQL_STATEMENTS = SQL_COUNT_OF(SQL_LIST_OF(BT_FIELDS_COUNT)) };

typedef struct queue_row {
    bt_fields_of kind;
    int64_t round;
    union { // strings in the queue's arena
#define MEMBER(name, KIND) bt_store_##name name;
        BT_STORE_SERIES_LIST(MEMBER)
#undef MEMBER
    } as;
} queue_row;

enum { QUEUE_ROWS = 512, QUEUE_AGE_NS = 500000000 };

struct bt_store {
    sqlite3 *db;                              // owned
    char *path;                               // owned
    sqlite3_stmt *statements[SQL_STATEMENTS]; // owned, NULL until used
    int timeout_ms;
    queue_row *queue; // [QUEUE_ROWS], owned; NULL in a store opened for reading
    int queue_count;
    bool is_flushing;
    bt_status (*flush)(bt_store *store); // bt_store_flush; NULL in a store opened for reading
    bt_arena queue_text;
    int64_t flushed_at_ns; // monotonic
};

// ---- statements.c ------------------------------------------------------------------------------

// Appends the text of a statement.
void bt_sql_text(int which, bt_str *out);

// ---- seal.c ------------------------------------------------------------------------------------

// Sets the digest of a round over all of its rows. Within a transaction that changes them.
BT_CHECKED bt_status bt_seal_write(bt_store *store, int64_t round);
// The same for a round that has one: a row of it was replaced.
BT_CHECKED bt_status bt_seal_renew(bt_store *store, int64_t round);
// Errors  CORRUPT_DATA when the round has a digest and its rows another one
BT_CHECKED bt_status bt_seal_check(bt_store *store, int64_t round);

// ---- sql.c -------------------------------------------------------------------------------------

// Turns a result code of SQLite into status and message; `doing` completes "while ...", or is the
// statement, which is shown only where the error is ours.
bt_status bt_sql_error(const bt_store *store, int code, const char *doing);
// Runs statements that return no rows.
BT_CHECKED bt_status bt_sql_exec(bt_store *store, const char *text, const char *doing);

// Iterates over the rows of a statement:
//   bt_cursor rows = bt_sql_rows(store, SQL_RUN_NAMES, "");
//   while (bt_cursor_next(&rows)) { ... columns of rows.row ... }
//   BT_TRY(bt_cursor_end(&rows));
typedef struct bt_cursor {
    bt_store *store;
    sqlite3_stmt *row; // NULL: the statement could not be prepared
    bt_status status;  // result of bt_cursor_end; the reader of a row may set it, which ends the
                       // loop
} bt_cursor;

// Prepares the statement (once) and binds, after a flush of the queue. `format` has one letter per
// parameter: i int64_t, t const char * (NULL becomes ""), T const char * (NULL stays NULL), r
// double (NaN becomes NULL), b const void * and int64_t size.
bt_cursor bt_sql_rows(bt_store *store, int which, const char *format, ...);
bt_cursor bt_sql_rows_of(bt_store *store, int which, const char *format, va_list arguments);
// Advances to the next row: false at the end, or after a failure.
bool bt_cursor_next(bt_cursor *rows);
BT_CHECKED bt_status bt_cursor_end(bt_cursor *rows);

// Runs a statement without rows.
BT_CHECKED bt_status bt_sql_run(bt_store *store, int which, const char *format, ...);
// A statement of one row and one integer column.
BT_CHECKED bt_status bt_sql_integer(bt_store *store, int which, int64_t *value, const char *format,
                                    ...);
// Write transactions take the lock at their begin, so that they wait instead of deadlocking.
BT_CHECKED bt_status bt_sql_begin(bt_store *store);
// Commits if status is BT_OK, otherwise rolls back and keeps status and message.
BT_CHECKED bt_status bt_sql_end(bt_store *store, bt_status status);

// ---- schema.c ----------------------------------------------------------------------------------

// Migrates the database to this program's version; an empty file becomes an empty database.
// Errors  UNSUPPORTED (newer), UNAVAILABLE (not ours)
BT_CHECKED bt_status bt_store_migrate(bt_store *store);
// Whether the database is of an older version; read-only. Errors  as above
BT_CHECKED bt_status bt_store_check_version(bt_store *store, bool *outdated);
// The same with a given list: steps[i] has the statements, terminated by NULL, that make version i
// + 1 from version i. All or nothing.
BT_CHECKED bt_status bt_store_migrate_through(bt_store *store, const char *const *const *steps,
                                              int count);

// All migrations: [*count] lists of statements, each terminated by NULL.
const char *const *const *bt_store_migrations(int *count);

// ---- reader.c ----------------------------------------------------------------------------------

// State of a read: source of rows, and destination of copies.
typedef struct bt_reader {
    bt_store *store;
    bt_arena *arena;
} bt_reader;

// Text of a column, copied into the arena.
BT_CHECKED bt_status bt_reader_text(bt_reader *in, sqlite3_stmt *row, int column,
                                    const char **text);
// Values of consecutive columns. `format` has one letter per column: i int64_t *, t const char **,
// r double *, b bool *, as in bt_sql_rows.
BT_CHECKED bt_status bt_reader_scan(bt_reader *in, sqlite3_stmt *row, int column,
                                    const char *format, ...);
// Appends the texts of a statement without parameters, separated by '|'.
BT_CHECKED bt_status bt_reader_names(bt_store *store, int which, bt_str *out);
// A number of a column; NULL in the database is NaN.
double bt_reader_real(sqlite3_stmt *row, int column);

// The status of a run or a round, given whether the process of a run (number, start and boot in
// three columns) still exists: without it nothing is running.
bt_run_status bt_reader_status(sqlite3_stmt *row, int column, bool alive);
bool bt_reader_alive(sqlite3_stmt *row, int column);

// Fills the given item from a row.
typedef bt_status (*bt_reader_take)(bt_reader *in, sqlite3_stmt *row, void *item);

typedef struct bt_reader_list {
    bt_reader_take take; // NULL: each row is a record of `kind`
    bt_fields_of kind;
    size_t item_bytes;
    void *items; // in the reader's arena
    int64_t count;
} bt_reader_list;

// Reads all rows of a statement. The format is that of its parameters, as above.
BT_CHECKED bt_status bt_reader_rows(bt_reader *in, int listing, bt_reader_list *out,
                                    const char *format, ...);

// bt_reader_rows with `take` into a list and its count; the rest is the format and the parameters.
#define BT_READER_ROWS(in, listing, take, list, list_count, ...)                                   \
    BT_READER_LIST(in, listing, take, BT_FIELDS_COUNT, list, list_count, __VA_ARGS__)
// An owner's records, of a kind with its own table.
#define BT_READER_RECORDS(in, kind, owner, list, list_count)                                       \
    BT_READER_LIST(in, SQL_LIST_OF(kind), NULL, kind, list, list_count, "i", owner)
#define BT_READER_LIST(in, listing, take, kind, list, list_count, ...)                             \
    do {                                                                                           \
        bt_reader_list found_rows = {take, kind, sizeof *(list), NULL, 0};                         \
        BT_TRY(bt_reader_rows(in, listing, &found_rows, __VA_ARGS__));                             \
        (list) = found_rows.items;                                                                 \
        (list_count) = found_rows.count;                                                           \
    } while (0)

// ---- rows.c: records as rows -------------------------------------------------------------------

enum { NO_OWNER = -1 };
// Runs a statement with the owner, unless it is NO_OWNER, and the record's members as parameters.
BT_CHECKED bt_status bt_row_run(bt_store *store, int which, int64_t owner, bt_fields_of kind,
                                const void *item);
// Adds a row to the kind's own table. Within a transaction of the caller's.
BT_CHECKED bt_status bt_row_add(bt_store *store, int64_t owner, bt_fields_of kind,
                                const void *item);
// Fills a record from the columns of a row, from `column` on. Texts are in the reader's arena.
BT_CHECKED bt_status bt_row_take(bt_reader *in, sqlite3_stmt *row, int column, bt_fields_of kind,
                                 void *item);

// ---- record.c: rows within a transaction of the caller's -------------------------------

// Rows shared by runs, inserted if missing.
typedef struct session_parents {
    int64_t suite, build, env;
} session_parents;

BT_CHECKED bt_status bt_session_parents_add(bt_store *store, const bt_store_run_info *info,
                                            session_parents *out);
// The number of a build, inserted if missing.
BT_CHECKED bt_status bt_build_add(bt_store *store, const bt_store_build *build, int64_t *id);
BT_CHECKED bt_status bt_case_add(bt_store *store, const bt_store_case *what, int64_t *case_id);
// Notes the present time as the last at which rows of the round were written: if the process is
// killed, its run stopped then.
BT_CHECKED bt_status bt_round_recorded(bt_store *store, int64_t round);
BT_CHECKED bt_status bt_measurement_write(bt_store *store, int64_t round,
                                          const bt_store_measurement *measurement);

// ---- file.c, systems.c --------------------------------------------------------------

// All files of a run, by kind.
BT_CHECKED bt_status bt_store_files_read(bt_reader *in, bt_store_run *run);
// Within a transaction of the caller's.
BT_CHECKED bt_status bt_file_row_write(bt_store *store, int64_t run, const bt_store_file *file);
BT_CHECKED bt_status bt_schedule_rows_write(bt_store *store, int64_t run,
                                            const bt_store_schedule *schedule);
// ---- systems.c ---------------------------------------------------------------------------------

// The order of a run's rounds, and its systems.
BT_CHECKED bt_status bt_store_schedule_read(bt_reader *in, bt_store_run *run);

// ---- telemetry.c -------------------------------------------------------------------------------

// Within a transaction of the caller's.
BT_CHECKED bt_status bt_telemetry_row_write(bt_store *store, int64_t round, const char *label,
                                            const bt_store_telemetry *samples, int64_t count);
// Telemetry of a round whose id is set.
BT_CHECKED bt_status bt_store_telemetry_read(bt_reader *in, bt_store_round *round);

// ---- read.c ------------------------------------------------------------------------------------

// Reads `out` [size_bytes] in one transaction into its arena. On failure it is zeroed.
BT_CHECKED bt_status bt_read_at_once(bt_store *store, bt_status (*read)(bt_reader *in, void *out),
                                     void *out, size_t size_bytes, bt_arena *arena);
// Lists the existing runs in the message. Returns INVALID_ARGUMENT, or the error of reading them.
bt_status bt_store_no_such_run(bt_store *store, int64_t run);

// ---- process.c ---------------------------------------------------------------------------------

// Distinguishes a process from a later one with the same number.
typedef struct process_mark {
    int64_t pid;
    int64_t started; // clock ticks since boot, 0 if unknown
    char boot_id[40];
} process_mark;

void bt_process_mark_self(process_mark *mark);
bool bt_process_mark_alive(const process_mark *mark);

// ---- samples.c ---------------------------------------------------------------------------------

// samples [count] as a zstd frame of little-endian doubles.
// Owns    *blob: the caller (bt_mem_free)
BT_CHECKED bt_status bt_samples_pack(const double *samples, int64_t count, void **blob,
                                     int64_t *size_bytes);
// The reverse, into memory of the arena. Errors  UNAVAILABLE
BT_CHECKED bt_status bt_samples_unpack(const void *blob, int64_t size_bytes, int64_t count,
                                       bt_arena *arena, const double **samples);

#endif
