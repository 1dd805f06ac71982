// harness/store/queue.c - writes frequent rows in batches
//
// Invariants
//   1. Rows leave the queue only after the transaction that contains them is committed.
//   2. A row given when the last flush is QUEUE_AGE_NS old is flushed with it; so with slow steps
//      each row is written immediately, with fast ones a transaction has half a second of them.
//   3. Every other statement is run after a flush, so rows appear in the order in which they were
//      given. Statements of the flush itself do not flush again.
//   4. Strings of queued rows are in queue_text until the queue is empty.
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/idioms.h"
#include "harness/store/internal.h"

static bt_status write_all(bt_store *store)
{
    BT_EACH(const queue_row, row, store->queue, store->queue_count) {
        BT_TRY(bt_row_add(store, row->round, row->kind, &row->as));
    }
    return bt_round_recorded(store, store->queue[store->queue_count - 1].round);
}

bt_status bt_store_flush(bt_store *store)
{
    if (store->queue_count == 0 || store->is_flushing) {
        return BT_OK;
    }
    store->is_flushing = true;
    bt_status status = bt_sql_begin(store);
    BT_IF_OK(status, bt_sql_end(store, write_all(store)));
    store->is_flushing = false;
    // A rejected row (a step given twice) would be rejected again and again: the queue is dropped.
    if (status == BT_OK || status == BT_STATUS_INVALID_ARGUMENT) {
        store->queue_count = 0;
        bt_arena_reset(&store->queue_text);
        store->flushed_at_ns = bt_clock_ns();
    }
    return status;
}

bt_status bt_store_tick(bt_store *store)
{
    if (store->queue_count > 0 && bt_clock_ns() - store->flushed_at_ns >= QUEUE_AGE_NS) {
        return bt_store_flush(store);
    }
    return BT_OK;
}

// A record's strings are copied; a row enters the queue only when complete.
bt_status bt_store_record_add(bt_store *store, int64_t round, bt_fields_of kind, const void *record)
{
    BT_FAIL_IF(!store->queue, BT_STATUS_INVALID_ARGUMENT, "%s: opened for reading", store->path);
    if (store->queue_count == QUEUE_ROWS) {
        BT_TRY(bt_store_flush(store));
    }
    queue_row *row = &store->queue[store->queue_count];
    row->kind = kind;
    row->round = round;
    memcpy(&row->as, record, bt_fields_info(kind)->item_bytes);
    BT_TRY(bt_fields_keep(&store->queue_text, kind, &row->as));
    store->queue_count++;
    return store->queue_count == QUEUE_ROWS ? bt_store_flush(store) : bt_store_tick(store);
}

#define ADD(name, KIND)                                                                            \
    bt_status bt_store_##name##_add(bt_store *store, int64_t round, const bt_store_##name *name)   \
    {                                                                                              \
        return bt_store_record_add(store, round, BT_FIELDS_##KIND, name);                          \
    }
BT_STORE_SERIES_LIST(ADD)
