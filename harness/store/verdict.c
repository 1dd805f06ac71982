// harness/store/verdict.c - what was decided about a run, and by which rule
#include "harness/store/internal.h"

bt_status bt_verdict_row_write(bt_store *store, int64_t run, const char *kind,
                               const bt_store_verdict *verdict)
{
    return bt_sql_run(store, SQL_VERDICT_ADD, "ittttrrritt", run, kind, verdict->subject,
                      verdict->metric, verdict->verdict, verdict->ratio, verdict->low,
                      verdict->high, verdict->rounds, verdict->reason, verdict->rule_json);
}

static bt_status add_verdicts(bt_store *store, int64_t run, const char *kind,
                              const bt_store_verdict *verdicts, int64_t count)
{
    int64_t found = 0;
    BT_TRY(bt_sql_integer(store, SQL_SESSION_COUNT, &found, "i", run));
    if (found != 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: no run %lld", store->path, (long long)run);
    }
    BT_TRY(bt_sql_run(store, SQL_VERDICTS_DROP, "it", run, kind));
    for (int64_t i = 0; i < count; i++) {
        BT_TRY(bt_verdict_row_write(store, run, kind, &verdicts[i]));
    }
    return BT_OK;
}

bt_status bt_store_verdicts_set(bt_store *store, int64_t run, const char *kind,
                                const bt_store_verdict *verdicts, int64_t count)
{
    BT_TRY(bt_store_flush(store));
    BT_TRY(bt_sql_begin(store));
    return bt_sql_end(store, add_verdicts(store, run, kind, verdicts, count));
}

static bt_status take_verdict(bt_reader *in, sqlite3_stmt *row, void *item)
{
    bt_store_verdict *verdict = item;
    const char **const texts[] = {&verdict->kind,
                                  &verdict->subject,
                                  &verdict->metric,
                                  &verdict->verdict,
                                  &verdict->reason,
                                  &verdict->rule_json,
                                  NULL};
    verdict->ratio = bt_reader_real(row, 6);
    verdict->low = bt_reader_real(row, 7);
    verdict->high = bt_reader_real(row, 8);
    verdict->rounds = sqlite3_column_int64(row, 9);
    return bt_reader_texts(in, row, 0, texts);
}

bt_status bt_store_verdicts_read(bt_reader *in, bt_store_run *run)
{
    BT_READER_ROWS(in, SQL_VERDICTS_COUNT, SQL_VERDICTS, run->id, take_verdict, run->verdicts,
                   run->verdict_count);
    return BT_OK;
}
