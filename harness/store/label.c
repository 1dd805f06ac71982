// harness/store/label.c - names and notes of runs, and finding runs by name or order
#include "harness/store/internal.h"

bt_status bt_store_run_label(bt_store *store, int64_t run, const char *name, const char *note)
{
    BT_TRY(bt_sql_run(store, SQL_SESSION_LABEL, "TTi", name, note, run));
    return sqlite3_changes(store->db) == 1 ? BT_OK : bt_store_no_such_run(store, run);
}

bt_status bt_store_run_named(bt_store *store, const char *name, int64_t *run)
{
    return bt_sql_integer(store, SQL_RUN_NAMED, run, "t", name);
}

bt_status bt_store_run_back(bt_store *store, int64_t back, int64_t *run)
{
    return bt_sql_integer(store, SQL_RUN_BACK, run, "i", back);
}

bt_status bt_store_run_before(bt_store *store, int64_t run, int64_t *earlier)
{
    return bt_sql_integer(store, SQL_RUN_BEFORE, earlier, "i", run);
}

bt_status bt_store_run_names(bt_store *store, bt_str *out)
{
    return bt_reader_names(store, SQL_RUN_NAMES, out);
}
