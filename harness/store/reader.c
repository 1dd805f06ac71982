// harness/store/reader.c - converts rows to structs; shared by all files that read
#include <math.h>
#include <string.h>

#include "harness/store/internal.h"

bt_status bt_reader_text(bt_reader *in, sqlite3_stmt *row, int column, const char **text)
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

bt_status bt_reader_scan(bt_reader *in, sqlite3_stmt *row, int column, const char *format, ...)
{
    bt_status status = BT_OK;
    va_list places;
    va_start(places, format);
    for (; *format && status == BT_OK; ++format, ++column) {
        switch (*format) {
        case 'i':
            *va_arg(places, int64_t *) = sqlite3_column_int64(row, column);
            break;
        case 'r':
            *va_arg(places, double *) = bt_reader_real(row, column);
            break;
        case 'b':
            *va_arg(places, bool *) = sqlite3_column_int(row, column) != 0;
            break;
        default:
            status = bt_reader_text(in, row, column, va_arg(places, const char **));
        }
    }
    va_end(places);
    return status;
}

bt_status bt_reader_names(bt_store *store, int which, bt_str *out)
{
    bt_cursor rows = bt_sql_rows(store, which, "");
    while (bt_cursor_next(&rows)) {
        const void *name = sqlite3_column_text(rows.row, 0);
        bt_str_format(out, "%s%s", out->length_bytes ? "|" : "", name ? (const char *)name : "");
    }
    BT_TRY(bt_cursor_end(&rows));
    return bt_str_status(out);
}

double bt_reader_real(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

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
