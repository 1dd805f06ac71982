// harness/store/baseline.c - what runs are held against, by name, with its history
#include <string.h>

#include "harness/store/internal.h"

bt_status bt_store_baseline_add(bt_store *store, const bt_store_baseline *baseline)
{
    if (!baseline->name || !*baseline->name || !baseline->reason || !*baseline->reason) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a baseline needs a name and a reason");
    }
    BT_TRY(bt_store_flush(store));
    return bt_sql_run(store, SQL_BASELINE_ADD, "tttiit", baseline->name, baseline->machine,
                      baseline->reason, baseline->run, baseline->created_ns, baseline->document);
}

static bt_status take_baseline(bt_reader *in, sqlite3_stmt *row, bt_store_baseline *out)
{
    out->id = sqlite3_column_int64(row, 0);
    BT_TRY(bt_reader_text(in, row, 1, &out->document));
    return bt_row_take(in, row, 2, BT_FIELDS_BASELINE, out);
}

bt_status bt_store_baseline_read(bt_store *store, const char *name, const char *machine,
                                 bt_arena *arena, bt_store_baseline *out, bool *found)
{
    sqlite3_stmt *row = NULL;
    bt_reader in = {store, arena};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_bind(store, SQL_BASELINE, &row, "tt", name, machine));
    BT_TRY(bt_sql_next(store, row, found));
    if (!*found) {
        return BT_OK;
    }
    bt_status status = take_baseline(&in, row, out);
    sqlite3_reset(row);
    return status;
}

static bt_status read_lines(bt_reader *in, const char *name, bt_store_baseline_list *out)
{
    sqlite3_stmt *row = NULL;
    int64_t count = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, SQL_BASELINES_COUNT, &count, "t", name));
    bt_store_baseline *rows = NULL;
    BT_TRY(BT_ARENA_ARRAY(in->arena, count, &rows));
    out->rows = rows;
    BT_TRY(bt_sql_bind(in->store, SQL_BASELINES, &row, "t", name));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && out->count < count; out->count++) {
        bt_status status = take_baseline(in, row, &rows[out->count]);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        rows[out->count].document = NULL;
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

bt_status bt_store_baseline_list_read(bt_store *store, const char *name,
                                      bt_store_baseline_list *out)
{
    memset(out, 0, sizeof *out);
    bt_reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_lines(&in, name, out));
    if (status != BT_OK) {
        bt_store_baseline_list_release(out);
    }
    return status;
}

void bt_store_baseline_list_release(bt_store_baseline_list *list)
{
    bt_arena_release(&list->arena);
    memset(list, 0, sizeof *list);
}
