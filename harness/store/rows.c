// harness/store/rows.c - converts records to table rows and back, by the table of their members
#include <string.h>

#include "harness/store/internal.h"

// ---- writing -----------------------------------------------------------------------------------

static int bind_field(sqlite3_stmt *statement, int *index, const bt_field *row, const void *place)
{
    const int at = (*index)++;
    uint32_t bits = 0;
    switch (row->type) {
    case BT_FIELD_INTEGER:
    case BT_FIELD_TIME:
    case BT_FIELD_SEED:
        return sqlite3_bind_int64(statement, at, *(const int64_t *)place);
    case BT_FIELD_REAL:
    case BT_FIELD_KNOWN:
    case BT_FIELD_REAL_LOSS:
        return sqlite3_bind_double(statement, at, *(const double *)place);
    case BT_FIELD_FLOAT:
        return sqlite3_bind_double(statement, at, (double)*(const float *)place);
    case BT_FIELD_LOSS:
        memcpy(&bits, place, sizeof bits);
        (void)sqlite3_bind_double(statement, at, (double)*(const float *)place);
        return sqlite3_bind_int64(statement, (*index)++, (int64_t)bits);
    case BT_FIELD_BOOL:
        return sqlite3_bind_int64(statement, at, *(const bool *)place);
    case BT_FIELD_STATUS:
        return sqlite3_bind_int64(statement, at, (int64_t) * (const bt_run_status *)place);
    case BT_FIELD_LEVEL:
        return sqlite3_bind_int64(statement, at, (int64_t) * (const bt_fact_level *)place);
    case BT_FIELD_TEXT: {
        const char *text = *(const char *const *)place;
        return sqlite3_bind_text(statement, at, text ? text : "", -1, SQLITE_TRANSIENT);
    }
    }
    return SQLITE_MISUSE;
}

bt_status bt_row_run(bt_store *store, int which, int64_t owner, bt_fields_of kind, const void *item)
{
    const bt_fields *fields = bt_fields_info(kind);
    bt_cursor rows = bt_sql_rows(store, which, "");
    int index = 1, code = SQLITE_OK;
    BT_TRY(rows.status);
    if (owner != NO_OWNER) {
        code = sqlite3_bind_int64(rows.row, index++, owner);
    }
    for (size_t i = 0; i < fields->count && code == SQLITE_OK; i++) {
        const bt_field *row = &fields->rows[i];
        if (row->column) {
            code = bind_field(rows.row, &index, row, (const char *)item + row->offset);
        }
    }
    if (code != SQLITE_OK) {
        return bt_sql_error(store, code, sqlite3_sql(rows.row));
    }
    (void)bt_cursor_next(&rows);
    return bt_cursor_end(&rows);
}

bt_status bt_row_add(bt_store *store, int64_t owner, bt_fields_of kind, const void *item)
{
    return bt_row_run(store, SQL_ADD_OF(kind), owner, kind, item);
}

// ---- reading -----------------------------------------------------------------------------------

bt_status bt_row_take(bt_reader *in, sqlite3_stmt *row, int column, bt_fields_of kind, void *item)
{
    const bt_fields *fields = bt_fields_info(kind);
    for (size_t i = 0; i < fields->count; i++) {
        const bt_field *field = &fields->rows[i];
        void *place = (char *)item + field->offset;
        uint32_t bits = 0;
        if (!field->column) {
            continue;
        }
        const int at = column++;
        const int64_t integer = sqlite3_column_int64(row, at);
        switch (field->type) {
        case BT_FIELD_INTEGER:
        case BT_FIELD_TIME:
        case BT_FIELD_SEED:
            memcpy(place, &integer, sizeof integer);
            break;
        case BT_FIELD_REAL:
        case BT_FIELD_KNOWN:
        case BT_FIELD_REAL_LOSS:
            *(double *)place = bt_reader_real(row, at);
            break;
        case BT_FIELD_FLOAT:
            *(float *)place = (float)bt_reader_real(row, at);
            break;
        case BT_FIELD_LOSS:
            bits = (uint32_t)sqlite3_column_int64(row, column++);
            memcpy(place, &bits, sizeof bits);
            break;
        case BT_FIELD_BOOL:
            *(bool *)place = integer != 0;
            break;
        case BT_FIELD_STATUS:
            *(bt_run_status *)place = bt_reader_status(row, at, true);
            break;
        case BT_FIELD_LEVEL:
            *(bt_fact_level *)place = integer >= 0 && integer < BT_FACT_LEVEL_COUNT
                                          ? (bt_fact_level)integer
                                          : BT_FACT_INFO;
            break;
        case BT_FIELD_TEXT:
            BT_TRY(bt_reader_text(in, row, at, place));
            break;
        }
    }
    return BT_OK;
}

bt_status bt_reader_rows(bt_reader *in, int listing, bt_reader_list *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bt_cursor counted = bt_sql_rows_of(in->store, SQL_COUNT_OF(listing), format, arguments);
    const int64_t found = bt_cursor_next(&counted) ? sqlite3_column_int64(counted.row, 0) : 0;
    bt_status status = bt_cursor_end(&counted);
    BT_IF_OK(status, bt_arena_alloc(in->arena, (size_t)found * out->item_bytes, &out->items));
    if (status == BT_OK) {
        bt_cursor rows = bt_sql_rows_of(in->store, listing, format, arguments);
        for (; out->count < found && bt_cursor_next(&rows); out->count++) {
            void *item = (char *)out->items + (size_t)out->count * out->item_bytes;
            rows.status = out->take ? out->take(in, rows.row, item)
                                    : bt_row_take(in, rows.row, 0, out->kind, item);
        }
        status = bt_cursor_end(&rows);
    }
    va_end(arguments);
    return status;
}
