// harness/store/reader.c - rows into structs: what every file that reads shares
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

bt_status bt_reader_texts(bt_reader *in, sqlite3_stmt *row, int column, const char **const places[])
{
    for (int i = 0; places[i]; i++) {
        BT_TRY(bt_reader_text(in, row, column + i, places[i]));
    }
    return BT_OK;
}

double bt_reader_real(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

bt_status bt_reader_rows(bt_reader *in, store_statement counting, store_statement listing,
                         int64_t owner, size_t item_bytes, bt_reader_take take, bt_reader_list *out)
{
    sqlite3_stmt *row = NULL;
    void *block = NULL;
    int64_t found = 0, filled = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, counting, &found, "i", owner));
    BT_TRY(bt_arena_alloc(in->arena, (size_t)found * item_bytes, &block));
    BT_TRY(bt_sql_bind(in->store, listing, &row, "i", owner));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && filled < found; filled++) {
        bt_status status = take(in, row, (char *)block + (size_t)filled * item_bytes);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    out->items = block;
    out->count = filled;
    return BT_OK;
}
