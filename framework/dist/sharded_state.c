// framework/dist/sharded_state.c - collects whole masters and moments in rank 0's host memory, and
// distributes them
//
// One bucket at a time, so that no device holds more than one bucket of state that its rank does
// not own. An asynchronous save collects on a stream of its own, beside the next step; that step's
// update waits for it.
#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"

enum { MASTER, FIRST_MOMENT, SECOND_MOMENT, KINDS };

// Buffers of a transfer: this rank's part of a bucket, and all parts.
typedef struct transfer {
    bt_tensor *part, *flat; // retained, f32
} transfer;

static bt_tensor *slice_tensor(const bt_adamw *optimizer, int64_t i, int kind)
{
    bt_tensor *const of[KINDS] = {optimizer->slices[i].master, optimizer->m[i], optimizer->v[i]};
    return of[kind];
}

static bt_tensor *whole_tensor(const bt_data_parallel *p, int64_t i, int kind)
{
    return p->whole.items ? p->whole.items[kind * p->params->count + i] : NULL;
}

// Copies between this rank's slices of bucket b and the buffer of its part.
static bt_status move_slices(bt_data_parallel *p, const bt_adamw *optimizer, int64_t b, int kind,
                             transfer *t, bool out)
{
    const bt_bucket *layout = &p->layout.items[b];
    int64_t next = 0;
    for (int64_t s = 0; s < p->layout.slot_count; ++s) {
        const bt_bucket_slot *slot = &p->layout.slots[s];
        int64_t offset = 0, at = 0;
        if (bt_bucket_slot_part(&p->layout, slot, p->rank, &offset, &at) == 0) {
            continue;
        }
        const int64_t i = next++; // slices are those of the slots that have a part, in order
        if (s < layout->first || s >= layout->first + layout->slot_count) {
            continue;
        }
        bt_tensor *own = slice_tensor(optimizer, i, kind);
        const int64_t count = optimizer->slices[i].count;
        BT_TRY(out ? bt_flat_copy(p->context, own, 0, t->part, at, count)
                   : bt_flat_copy(p->context, t->part, at, own, 0, count));
    }
    return BT_OK;
}

// Rank 0: copies between its whole tensors and the buffer of all parts.
static bt_status move_whole(bt_data_parallel *p, int64_t b, int kind, transfer *t, bool out)
{
    const bt_bucket *layout = &p->layout.items[b];
    for (int64_t s = 0; s < layout->slot_count && p->rank == 0; ++s) {
        const bt_bucket_slot *slot = &p->layout.slots[layout->first + s];
        BT_TRY(bt_host_tensor_copy(p->context, whole_tensor(p, slot->param, kind), 0, t->flat,
                                   slot->offset, slot->count, !out));
    }
    return BT_OK;
}

static bt_status collect_bucket(bt_data_parallel *p, const bt_adamw *optimizer, int64_t b, int kind,
                                transfer *t)
{
    BT_TRY(move_slices(p, optimizer, b, kind, t, true));
    BT_TRY(bt_all_gather(p->options.group, bt_tensor_data(t->part), bt_tensor_data(t->flat),
                         (int64_t)bt_tensor_bytes(t->part), p->context->stream));
    return move_whole(p, b, kind, t, false);
}

static bt_status spread_bucket(bt_data_parallel *p, const bt_adamw *optimizer, int64_t b, int kind,
                               transfer *t)
{
    const int64_t part = p->layout.items[b].part;
    BT_TRY(move_whole(p, b, kind, t, true));
    BT_TRY(bt_broadcast(p->options.group, bt_tensor_data(t->flat),
                        (int64_t)bt_tensor_bytes(t->flat), 0, p->context->stream));
    BT_TRY(bt_flat_copy(p->context, t->flat, p->rank * part, t->part, 0, part));
    return move_slices(p, optimizer, b, kind, t, false);
}

static bt_status each_bucket(bt_data_parallel *p, const bt_adamw *optimizer, bool collects)
{
    bt_status status = BT_OK;
    for (int64_t b = 0; b < p->layout.count && status == BT_OK; ++b) {
        const bt_bucket *layout = &p->layout.items[b];
        transfer t = {0};
        BT_TRY_GOTO(bt_tensor_zeros(p->context, BT_F32, BT_SHAPE(layout->part), "state", &t.part),
                    next);
        BT_TRY_GOTO(bt_tensor_zeros(p->context, BT_F32, BT_SHAPE(layout->count), "state", &t.flat),
                    next);
        for (int kind = 0; kind < KINDS && status == BT_OK; ++kind) {
            status = collects ? collect_bucket(p, optimizer, b, kind, &t)
                              : spread_bucket(p, optimizer, b, kind, &t);
        }
    next:
        bt_tensor_release(t.part);
        bt_tensor_release(t.flat);
    }
    return status;
}

// Recomputes the values that ops read, from the masters of this rank's part or from all masters.
bt_status bt_data_parallel_refresh(bt_data_parallel *p)
{
    for (int64_t i = 0; i < p->params->count && !p->sharded; ++i) {
        const bt_param *param = &p->params->items[i];
        if (param->value != param->master) {
            BT_TRY(bt_tensor_copy(p->context, param->master, param->value));
        }
    }
    for (int64_t b = 0; b < p->layout.count && p->sharded; ++b) {
        const bt_bucket_memory *memory = &p->buckets[b];
        if (memory->value_part != memory->master_part) {
            BT_TRY(bt_tensor_copy(p->context, memory->master_part, memory->value_part));
        }
    }
    return p->sharded ? bt_sharded_gather(p) : BT_OK;
}

bt_status bt_data_parallel_open_state(bt_data_parallel *p)
{
    const int64_t count = KINDS * p->params->count;
    void *block = NULL;
    if (!p->sharded || p->rank != 0 || p->whole.items) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(bt_shape), &block));
    bt_shape *shapes = block;
    for (int64_t i = 0; i < count; ++i) {
        shapes[i] = p->params->items[i % p->params->count].master->shape;
    }
    const bt_status status =
        bt_host_tensors_create(p->context, BT_F32, shapes, count, "training state", &p->whole);
    bt_mem_free(block);
    return status;
}

void bt_data_parallel_state(const bt_data_parallel *p, const bt_adamw *optimizer, int64_t i,
                            bt_tensor **master, bt_tensor **m, bt_tensor **v)
{
    *master = p->sharded ? whole_tensor(p, i, MASTER) : p->params->items[i].master;
    *m = p->sharded ? whole_tensor(p, i, FIRST_MOMENT) : optimizer->m[i];
    *v = p->sharded ? whole_tensor(p, i, SECOND_MOMENT) : optimizer->v[i];
}

bt_status bt_data_parallel_collect(bt_data_parallel *p, const bt_adamw *optimizer)
{
    BT_TRY(bt_data_parallel_open_state(p));
    return p->sharded ? each_bucket(p, optimizer, true) : BT_OK;
}

bt_status bt_data_parallel_spread(bt_data_parallel *p, bt_adamw *optimizer)
{
    if (p->sharded) {
        BT_TRY(each_bucket(p, optimizer, false));
        return bt_data_parallel_refresh(p);
    }
    for (int64_t i = 0; i < p->params->count; ++i) {
        const bt_param *param = &p->params->items[i];
        bt_tensor *const all[KINDS] = {param->master, optimizer->m[i], optimizer->v[i]};
        for (int kind = 0; kind < KINDS && p->ranks > 1; ++kind) {
            BT_TRY(bt_broadcast(p->options.group, bt_tensor_data(all[kind]),
                                (int64_t)bt_tensor_bytes(all[kind]), 0, p->context->stream));
            bt_tensor_touch(all[kind]);
        }
    }
    return bt_data_parallel_refresh(p);
}
