// harness/store/index.c - one value per case, system and round over all runs, for a page of them
#include "harness/store/internal.h"

static bt_status take_point(bt_reader *in, sqlite3_stmt *row, bt_store_point *point)
{
    const char **const texts[] = {&point->suite, &point->name, &point->system, &point->kind, NULL};
    BT_TRY(bt_reader_texts(in, row, 1, texts));
    point->run = sqlite3_column_int64(row, 0);
    point->value = sqlite3_column_double(row, 5);
    point->case_id = sqlite3_column_int64(row, 6);
    return bt_reader_text(in, row, 7, &point->environment);
}

static bt_status read_points(bt_reader *in, bt_store_points *out)
{
    sqlite3_stmt *row = NULL;
    int64_t count = 0;
    bool more = false;
    BT_TRY(bt_sql_integer(in->store, SQL_POINTS_COUNT, &count, ""));
    BT_TRY(BT_ARENA_ARRAY(in->arena, count, &out->rows));
    BT_TRY(bt_sql_bind(in->store, SQL_POINTS, &row, ""));
    BT_TRY(bt_sql_next(in->store, row, &more));
    for (; more && out->count < count; ++out->count) {
        bt_status status = take_point(in, row, &out->rows[out->count]);
        if (status != BT_OK) {
            sqlite3_reset(row);
            return status;
        }
        BT_TRY(bt_sql_next(in->store, row, &more));
    }
    sqlite3_reset(row);
    return BT_OK;
}

bt_status bt_store_points_read(bt_store *store, bt_store_points *out)
{
    *out = (bt_store_points){0};
    bt_reader in = {store, &out->arena};
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_run(store, SQL_BEGIN_READ, ""));
    bt_status status = bt_sql_end(store, read_points(&in, out));
    if (status != BT_OK) {
        bt_store_points_release(out);
    }
    return status;
}

void bt_store_points_release(bt_store_points *points)
{
    bt_arena_release(&points->arena);
    *points = (bt_store_points){0};
}
