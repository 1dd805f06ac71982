// harness/store/baseline.c - baselines by name, with their history
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/store/internal.h"

bt_status bt_store_baseline_add(bt_store *store, const bt_store_baseline *baseline)
{
    BT_FAIL_IF(!baseline->name || !*baseline->name || !baseline->reason || !*baseline->reason,
               BT_STATUS_INVALID_ARGUMENT, "a baseline needs a name and a reason");
    return bt_sql_run(store, SQL_BASELINE_ADD, "tttiit", baseline->name, baseline->machine,
                      baseline->reason, baseline->run, baseline->created_ns, baseline->document);
}

static bt_status take_baseline(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_baseline *out = item;
    out->id = sqlite3_column_int64(row, 0);
    BT_TRY(bt_reader_text(in, row, 1, &out->document));
    return bt_row_take(in, row, 2, BT_FIELDS_BASELINE, out);
}

bt_status bt_store_baseline_read(bt_store *store, const char *name, const char *machine,
                                 bt_arena *arena, bt_store_baseline *out, bool *found)
{
    bt_reader in = {store, arena};
    memset(out, 0, sizeof *out);
    bt_cursor rows = bt_sql_rows(store, SQL_BASELINE, "tt", name, machine);
    *found = bt_cursor_next(&rows);
    if (*found) {
        rows.status = take_baseline(&in, rows.row, out);
    }
    return bt_cursor_end(&rows);
}

// Without the document.
static bt_status take_line(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_baseline *out = item;
    out->id = sqlite3_column_int64(row, 0);
    return bt_row_take(in, row, 1, BT_FIELDS_BASELINE, out);
}

static bt_status read_lines(bt_reader *in, const char *name, bt_store_baseline_list *out)
{
    BT_READER_ROWS(in, SQL_BASELINES, take_line, out->rows, out->count, "t", name);
    return BT_OK;
}

bt_status bt_store_baseline_list_read(bt_store *store, const char *name,
                                      bt_store_baseline_list *out)
{
    memset(out, 0, sizeof *out);
    bt_reader in = {store, &out->arena};
    bt_status status = read_lines(&in, name, out);
    if (status != BT_OK) {
        bt_store_baseline_list_release(out);
    }
    return status;
}
