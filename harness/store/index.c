// harness/store/index.c - one value per case, system and round over all runs
#include "harness/store/internal.h"

static bt_status take_point(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_point *point = item;
    return bt_reader_scan(in, row, 0, "ittttrit", &point->run, &point->suite, &point->name,
                          &point->system, &point->kind, &point->value, &point->case_id,
                          &point->environment);
}

static bt_status read_points(bt_reader *in, void *out)
{
    bt_store_points *points = out;
    BT_READER_ROWS(in, SQL_POINTS, take_point, points->rows, points->count, "");
    return BT_OK;
}

bt_status bt_store_points_read(bt_store *store, bt_store_points *out)
{
    *out = (bt_store_points){0};
    return bt_read_at_once(store, read_points, out, sizeof *out, &out->arena);
}
