// harness/store/queue.c - rows that come many a second, written together
//
// Invariants
//   1. Rows leave the queue only when the transaction that holds them has been committed.
//   2. A row given when the last flush is QUEUE_AGE_NS old is flushed with it; so at slow steps
//      each row is written at once, at fast ones a transaction holds half a second of them.
//   3. Strings of queued rows live in queue_text until the queue is empty.
#include <string.h>

#include "framework/base/clock.h"
#include "harness/store/internal.h"

bt_status bt_queue_row_write(bt_store *store, const queue_row *row)
{
    switch (row->kind) {
    case QUEUE_STEP: {
        const bt_store_step *step = &row->as.step;
        uint32_t bits;
        memcpy(&bits, &step->loss, sizeof bits);
        return bt_sql_run(store, SQL_STEP_ADD, "iirirriiiiiiiii", row->round, step->step,
                          (double)step->loss, (int64_t)bits, (double)step->grad_norm, step->lr,
                          step->tokens, step->host_ns, step->device_ns, step->allocated_bytes,
                          step->peak_allocated_bytes, step->reserved_bytes, step->resident_bytes,
                          (int64_t)step->warmup, (int64_t)step->profiled);
    }
    case QUEUE_EVAL: {
        const bt_store_eval *eval = &row->as.eval;
        return bt_sql_run(store, SQL_EVAL_ADD, "iirii", row->round, eval->step, eval->loss,
                          eval->tokens, eval->host_ns);
    }
    case QUEUE_RANGE: {
        const bt_store_range *range = &row->as.range;
        return bt_sql_run(store, SQL_RANGE_ADD, "iitiii", row->round, range->step, range->path,
                          range->count, range->device_ns, range->host_ns);
    }
    case QUEUE_KERNEL:
        return bt_sql_run(store, SQL_KERNEL_ADD, "itt", row->round, row->as.kernel.op,
                          row->as.kernel.kernel);
    case QUEUE_SCORE: {
        const bt_store_score *score = &row->as.score;
        return bt_sql_run(store, SQL_SCORE_ADD, "iiiiii", row->round, score->step, score->questions,
                          score->correct, score->normalised_correct, score->host_ns);
    }
    case QUEUE_FAULT: {
        const bt_store_fault *fault = &row->as.fault;
        return bt_sql_run(store, SQL_FAULT_ADD, "iittt", row->round, fault->step, fault->kind,
                          fault->action, fault->message);
    }
    case QUEUE_MEMORY: {
        const bt_store_memory *memory = &row->as.memory;
        return bt_sql_run(store, SQL_MEMORY_ADD, "itiiii", row->round, memory->phase,
                          memory->peak_allocated_bytes, memory->peak_reserved_bytes,
                          memory->device_used_bytes, memory->peak_resident_bytes);
    }
    }
    return bt_error(BT_STATUS_INTERNAL, "queue: row of kind %d", (int)row->kind);
}

static bt_status write_all(bt_store *store)
{
    for (int i = 0; i < store->queue_count; i++) {
        BT_TRY(bt_queue_row_write(store, &store->queue[i]));
    }
    return BT_OK;
}

bt_status bt_store_flush(bt_store *store)
{
    if (store->queue_count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_sql_begin(store));
    bt_status status = bt_sql_end(store, write_all(store));
    // A refused row (a step given twice) would be refused for ever: the queue is dropped.
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

// A place for one more row, flushing first when there is none.
static bt_status take_place(bt_store *store, queue_kind kind, int64_t round, queue_row **row)
{
    if (!store->queue) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: opened for reading", store->path);
    }
    if (store->queue_count == QUEUE_ROWS) {
        BT_TRY(bt_store_flush(store));
    }
    *row = &store->queue[store->queue_count];
    (*row)->kind = kind;
    (*row)->round = round;
    return BT_OK;
}

// The row filled in at the place taken is part of the queue from here on.
static bt_status admit(bt_store *store)
{
    store->queue_count++;
    return store->queue_count == QUEUE_ROWS ? bt_store_flush(store) : bt_store_tick(store);
}

static bt_status keep_text(bt_store *store, const char *text, const char **kept)
{
    size_t size_bytes = text ? strlen(text) + 1 : 1;
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(&store->queue_text, size_bytes, &copy));
    memcpy(copy, text ? text : "", size_bytes);
    *kept = copy;
    return BT_OK;
}

bt_status bt_store_step_add(bt_store *store, int64_t round, const bt_store_step *step)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_STEP, round, &row));
    row->as.step = *step;
    return admit(store);
}

bt_status bt_store_eval_add(bt_store *store, int64_t round, const bt_store_eval *eval)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_EVAL, round, &row));
    row->as.eval = *eval;
    return admit(store);
}

bt_status bt_store_range_add(bt_store *store, int64_t round, const bt_store_range *range)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_RANGE, round, &row));
    row->as.range = *range;
    BT_TRY(keep_text(store, range->path, &row->as.range.path));
    return admit(store);
}

bt_status bt_store_kernel_add(bt_store *store, int64_t round, const bt_store_kernel *kernel)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_KERNEL, round, &row));
    BT_TRY(keep_text(store, kernel->op, &row->as.kernel.op));
    BT_TRY(keep_text(store, kernel->kernel, &row->as.kernel.kernel));
    return admit(store);
}

bt_status bt_store_score_add(bt_store *store, int64_t round, const bt_store_score *score)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_SCORE, round, &row));
    row->as.score = *score;
    return admit(store);
}

bt_status bt_store_fault_add(bt_store *store, int64_t round, const bt_store_fault *fault)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_FAULT, round, &row));
    row->as.fault.step = fault->step;
    BT_TRY(keep_text(store, fault->kind, &row->as.fault.kind));
    BT_TRY(keep_text(store, fault->action, &row->as.fault.action));
    BT_TRY(keep_text(store, fault->message, &row->as.fault.message));
    return admit(store);
}

bt_status bt_store_memory_add(bt_store *store, int64_t round, const bt_store_memory *memory)
{
    queue_row *row = NULL;
    BT_TRY(take_place(store, QUEUE_MEMORY, round, &row));
    row->as.memory = *memory;
    BT_TRY(keep_text(store, memory->phase, &row->as.memory.phase));
    return admit(store);
}
