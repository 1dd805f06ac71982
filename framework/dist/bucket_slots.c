// framework/dist/bucket_slots.c - gradient reduction through memory that the ranks map
//
// During the backward, copy engines copy part r of a bucket into this rank's slot at rank r,
// without a kernel. After the backward rank r sums its own part and the slots in the tree's order.
// For DDP the sums are then copied to all ranks. The slots take 4 bytes a parameter on each rank.
//
// Invariants
//   1. Gradients, slots and gathered weights are in one block of the group's memory, at equal
//      offsets on all ranks.
//   2. Another rank writes a slot only after this rank's update of the previous step: it waits for
//      this rank's stream, whose work on a bucket follows that update.
#include "framework/dist/data_parallel_impl.h"

static bool gathers_weights(const bt_data_parallel *p)
{
    return p->sharded && p->options.sharding != BT_SHARDING_ZERO3;
}

bt_status bt_bucket_slots_open(bt_data_parallel *p)
{
    int64_t size_bytes = 0;
    void *block = NULL;
    // ZERO2 releases its gradients after each micro-batch.
    if (p->ranks == 1 || (p->ranks & (p->ranks - 1)) != 0 ||
        p->options.sharding == BT_SHARDING_ZERO2) {
        return BT_OK;
    }
    for (int64_t b = 0; b < p->layout.count; ++b) {
        const bt_bucket *bucket = &p->layout.items[b];
        const int64_t weights = gathers_weights(p) ? (int64_t)bt_dtype_size(bucket->dtype) : 0;
        size_bytes += bucket->count * (2 * (int64_t)sizeof(float) + weights);
    }
    BT_TRY(bt_group_memory(p->options.group, size_bytes, &block));
    p->window = block;
    p->window_bytes = block ? size_bytes : 0;
    return BT_OK;
}

uint64_t bt_data_parallel_window_bytes(const bt_data_parallel *p)
{
    return (uint64_t)p->window_bytes;
}

bt_status bt_bucket_tensor(bt_data_parallel *p, bt_dtype dtype, int64_t count, const char *name,
                           bt_tensor **out)
{
    if (!p->window) {
        return bt_tensor_zeros(p->context, dtype, BT_SHAPE(count), name, out);
    }
    void *data = p->window + p->window_used;
    p->window_used += count * (int64_t)bt_dtype_size(dtype);
    return bt_tensor_over(p->context, dtype, BT_SHAPE(count), data, name, out);
}

bt_status bt_bucket_slots_send(bt_data_parallel *p, int64_t b)
{
    const bt_bucket_memory *memory = &p->buckets[b];
    bt_device *device = p->context->device;
    BT_TRY(bt_all_to_others(p->options.group, bt_tensor_data(memory->grads[0]),
                            bt_tensor_data(memory->slots),
                            p->layout.items[b].part * (int64_t)sizeof(float), p->stream));
    return device->backend->event_record(device, memory->arrived, p->stream);
}

// The gradients of a rank for this rank's part: in its slot, this rank's own in the bucket.
static const float *term(const bt_data_parallel *p, int64_t b, int rank)
{
    const bt_bucket_memory *memory = &p->buckets[b];
    const bt_tensor *from = rank == p->rank ? memory->grads[0] : memory->slots;
    return (const float *)bt_tensor_data(from) + rank * p->layout.items[b].part;
}

// The first slot becomes the sum of all terms.
static bt_status sum_slots(bt_data_parallel *p, int64_t b)
{
    const int64_t part = p->layout.items[b].part;
    float *const sums = bt_tensor_data(p->buckets[b].slots);
    bt_tensor_touch(p->buckets[b].slots);
    for (int step = 1; step < p->ranks; step *= 2) {
        for (int slot = 0; slot < p->ranks; slot += 2 * step) {
            float *sum = sums + slot * part;
            const float *left = step > 1 ? sum : term(p, b, slot);
            const float *right = step > 1 ? sum + step * part : term(p, b, slot + step);
            BT_TRY(bt_flat_sum(p->context, left, right, sum, part));
        }
    }
    return BT_OK;
}

// The first buckets are summed while the last one is still being copied.
bt_status bt_bucket_slots_sum(bt_data_parallel *p)
{
    bt_device *device = p->context->device;
    const bt_backend *backend = device->backend;
    for (int64_t b = 0; b < p->layout.count; ++b) {
        const bt_bucket_memory *memory = &p->buckets[b];
        BT_TRY(bt_communication_await(p->context, memory->arrived));
        BT_TRY(sum_slots(p, b));
        if (p->sharded) {
            continue;
        }
        BT_TRY(backend->event_record(device, p->produced, p->context->stream));
        BT_TRY(backend->event_wait(device, p->produced, p->stream));
        BT_TRY(bt_all_gather(p->options.group, bt_tensor_data(memory->slots),
                             bt_tensor_data(memory->grads[0]),
                             p->layout.items[b].part * (int64_t)sizeof(float), p->stream));
    }
    return p->sharded ? BT_OK : bt_data_parallel_join(p);
}
