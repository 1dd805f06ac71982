// framework/dist/sharded.c - weights in buckets, and the part of them that a rank updates
//
// ZERO1 and ZERO2 keep the flat weights. They are gathered after an update, overlapping the next
// forward: an op that reads a parameter waits for its bucket. ZERO3 keeps this rank's part
// (resident.c).
#include "framework/base/mem.h"
#include "framework/dist/data_parallel_impl.h"

static bool holds_weights(const bt_data_parallel *p)
{
    return p->options.sharding != BT_SHARDING_ZERO3;
}

// ---- gather of weights --------------------------------------------------------------------------

static bt_status await_weights(void *self, bt_context *context, bt_storage *storage)
{
    (void)context, (void)storage;
    return bt_bucket_await(self);
}

// Gathers in the order in which the forward reads: roughly the reverse of the buckets, except that
// a tied embedding, in the first bucket, is read first.
static bt_status gather_beside(bt_data_parallel *p)
{
    const int64_t count = p->layout.count;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t b = !p->lookup ? count - 1 - i : i > 0 ? count - i : 0;
        BT_TRY(bt_bucket_gather(&p->buckets[b]));
        bt_tensor_touch(p->buckets[b].values);
    }
    return p->options.no_overlap ? bt_data_parallel_join(p) : BT_OK;
}

// ---- opening ------------------------------------------------------------------------------------

// The masters of this rank's part, of parameters whose values are bf16.
static bt_status take_masters(bt_data_parallel *p, int64_t b)
{
    const bt_bucket *layout = &p->layout.items[b];
    bt_bucket_memory *memory = &p->buckets[b];
    if (layout->dtype == BT_F32) {
        memory->master_part = bt_tensor_retain(memory->value_part);
        return BT_OK;
    }
    BT_TRY(bt_tensor_zeros(p->context, BT_F32, BT_SHAPE(layout->part), "master weights",
                           &memory->master_part));
    for (int64_t s = 0; s < layout->slot_count; ++s) {
        const bt_bucket_slot *slot = &p->layout.slots[layout->first + s];
        bt_tensor *master = p->params->items[slot->param].master;
        int64_t offset = 0, at = 0;
        const int64_t count = bt_bucket_slot_part(&p->layout, slot, p->rank, &offset, &at);
        if (count > 0) {
            BT_TRY(bt_flat_copy(p->context, master, offset, memory->master_part, at, count));
        }
        bt_storage_give_up(master->storage);
    }
    return BT_OK;
}

static bt_status open_bucket(bt_data_parallel *p, int64_t b)
{
    const bt_bucket *layout = &p->layout.items[b];
    bt_bucket_memory *memory = &p->buckets[b];
    memory->owner = p;
    BT_TRY(holds_weights(p)
               ? bt_bucket_tensor(p, layout->dtype, layout->count, "weights", &memory->values)
               : bt_tensor_zeros(p->context, layout->dtype, BT_SHAPE(layout->count), "weights",
                                 &memory->values));
    for (int64_t s = 0; s < layout->slot_count; ++s) {
        const bt_bucket_slot *slot = &p->layout.slots[layout->first + s];
        BT_TRY(bt_tensor_move_into(p->context, p->params->items[slot->param].value, memory->values,
                                   slot->offset));
    }
    BT_TRY(p->context->device->backend->event_create(p->context->device, &memory->gathered));
    if (holds_weights(p)) {
        memory->values->storage->source = (bt_storage_source){memory, await_weights};
        BT_TRY(bt_flat_view(memory->values, p->rank * layout->part, layout->part,
                            &memory->value_part));
        return take_masters(p, b);
    }
    BT_TRY(bt_tensor_create(p->context, layout->dtype, BT_SHAPE(layout->part), "weights",
                            &memory->value_part));
    BT_TRY(bt_flat_copy(p->context, memory->values, p->rank * layout->part, memory->value_part, 0,
                        layout->part));
    memory->values->storage->source = (bt_storage_source){memory, bt_resident_fetch};
    bt_storage_give_up(memory->values->storage);
    return take_masters(p, b);
}

bt_status bt_sharded_create(bt_data_parallel *p)
{
    for (int64_t b = 0; b < p->layout.count; ++b) {
        BT_TRY(open_bucket(p, b));
    }
    return holds_weights(p) ? BT_OK : bt_resident_create(p);
}

void bt_sharded_release(bt_data_parallel *p)
{
    bt_resident_release(p);
    for (int64_t b = 0; p->buckets && b < p->layout.count; ++b) {
        bt_bucket_memory *memory = &p->buckets[b];
        if (memory->values) { // parameters may outlive this
            memory->values->storage->source = (bt_storage_source){0};
        }
        bt_tensor_release(memory->values);
        bt_tensor_release(memory->value_part);
        bt_tensor_release(memory->master_part);
        if (memory->gathered) {
            p->context->device->backend->event_destroy(p->context->device, memory->gathered);
        }
    }
    bt_host_tensors_destroy(&p->whole);
}

bt_status bt_sharded_gather(bt_data_parallel *p)
{
    return holds_weights(p) ? gather_beside(p) : bt_resident_drop(p);
}

// ---- the optimizer ------------------------------------------------------------------------------

// This rank's part of a slot, if it has one.
static bt_status make_slice(bt_data_parallel *p, const bt_bucket_slot *slot, bt_adamw_slice *slice)
{
    const bt_bucket_memory *memory = &p->buckets[slot->bucket];
    int64_t offset = 0, at = 0;
    const int64_t count = bt_bucket_slot_part(&p->layout, slot, p->rank, &offset, &at);
    *slice = (bt_adamw_slice){.param = slot->param, .offset = offset, .count = count};
    if (count == 0) {
        return BT_OK;
    }
    BT_TRY(bt_flat_view(memory->master_part, at, count, &slice->master));
    BT_TRY(bt_flat_view(memory->value_part, at, count, &slice->copy));
    return bt_flat_view(memory->reduced, at, count, &slice->grad);
}

static bt_status slice_all(bt_data_parallel *p, const bt_adamw_config *config, bt_adamw *optimizer)
{
    void *block = NULL;
    int64_t count = 0;
    BT_TRY(bt_mem_alloc((size_t)p->layout.slot_count, sizeof(bt_adamw_slice), &block));
    bt_adamw_slice *slices = block;
    bt_status status = BT_OK;
    for (int64_t i = 0; i < p->layout.slot_count && status == BT_OK; ++i) {
        status = make_slice(p, &p->layout.slots[i], &slices[count]);
        count += status != BT_OK || slices[count].count > 0;
    }
    if (status == BT_OK) {
        status = bt_adamw_init_slices(p->params, config, slices, count, optimizer);
    }
    for (int64_t i = 0; i < count; ++i) { // the optimizer retains them
        bt_tensor_release(slices[i].master);
        bt_tensor_release(slices[i].copy);
        bt_tensor_release(slices[i].grad);
    }
    bt_mem_free(block);
    return status;
}

// The largest number of partial sums of any rank: all ranks gather that many.
static bt_status make_partials(bt_data_parallel *p, int64_t count)
{
    bt_group *tensor = p->options.tensor;
    int64_t most = count;
    for (int rank = 0; tensor && rank < tensor->size; ++rank) {
        int64_t theirs = count;
        BT_TRY(bt_group_tell(tensor, &theirs, sizeof theirs, rank));
        most = theirs > most ? theirs : most;
    }
    if (tensor) {
        BT_TRY(bt_tensor_zeros(p->context, BT_F64, BT_SHAPE(tensor->size * most), "sums of squares",
                               &p->tensor_partials));
    }
    return bt_tensor_zeros(p->context, BT_F64, BT_SHAPE(most), "sums of squares", &p->partials);
}

bt_status bt_data_parallel_optimizer(bt_data_parallel *p, const bt_adamw_config *config,
                                     bt_adamw *optimizer)
{
    BT_TRY(p->sharded ? slice_all(p, config, optimizer)
                      : bt_adamw_init(p->params, config, optimizer));
    return make_partials(p, bt_adamw_partial_count(optimizer));
}
