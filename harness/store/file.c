// harness/store/file.c - copies of the files that a run was made from
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/store/internal.h"

bt_status bt_file_row_write(bt_store *store, int64_t run, const bt_store_file *file)
{
    char digest[33];
    bt_record_digest(file->bytes, (size_t)file->size_bytes, digest);
    BT_TRY(bt_sql_run(store, SQL_CONTENT_ADD, "tb", digest, file->bytes, file->size_bytes));
    return bt_sql_run(store, SQL_FILE_SET, "ittt", run, file->kind, file->name, digest);
}

bt_status bt_store_file_set(bt_store *store, int64_t run, const bt_store_file *file)
{
    size_t length = file->kind ? strlen(file->kind) : 0;
    BT_FAIL_IF(length == 0 || length > 32 ||
                   strspn(file->kind, "abcdefghijklmnopqrstuvwxyz") != length,
               BT_STATUS_INVALID_ARGUMENT,
               "a file's kind must be a word of at most 32 lower-case letters, not \"%s\"",
               file->kind ? file->kind : "");
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, bt_file_row_write(store, run, file));
}

static bt_status take_file(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_file *file = item;
    const void *bytes = sqlite3_column_blob(row, 2);
    file->size_bytes = sqlite3_column_bytes(row, 2);
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(in->arena, (size_t)file->size_bytes + 1, &copy));
    if (bytes) {
        memcpy(copy, bytes, (size_t)file->size_bytes);
    }
    file->bytes = copy;
    return bt_row_take(in, row, 0, BT_FIELDS_FILE, file);
}

bt_status bt_store_files_read(bt_reader *in, bt_store_run *run)
{
    BT_READER_ROWS(in, SQL_FILES, take_file, run->files, run->file_count, "i", run->id);
    return BT_OK;
}
