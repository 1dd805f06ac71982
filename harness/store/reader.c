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
