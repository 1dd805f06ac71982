// framework/dist/data_parallel_sums.c - flat tensors, the tree of shards, waits for the group's
// stream
#include "framework/dist/data_parallel_impl.h"

bt_status bt_flat_view(bt_tensor *flat, int64_t first, int64_t count, bt_tensor **out)
{
    const int64_t stride[] = {1};
    return bt_tensor_view(flat, BT_SHAPE(count), stride, first, out);
}

bt_status bt_flat_copy(bt_context *context, const bt_tensor *from, int64_t from_at, bt_tensor *to,
                       int64_t to_at, int64_t count)
{
    const size_t size = bt_dtype_size(from->dtype);
    bt_tensor_touch(to);
    return context->device->backend->copy(
        context->device, (char *)bt_tensor_data(to) + (size_t)to_at * size,
        (const char *)bt_tensor_data(from) + (size_t)from_at * size, (size_t)count * size,
        BT_COPY_DEVICE_TO_DEVICE, context->stream);
}

bt_status bt_flat_sum(bt_context *context, const float *a, const float *b, float *y, int64_t count)
{
    const bt_binary_args args = {.function = BT_BINARY_ADD,
                                 .rank = 1,
                                 .shape = {count},
                                 .a = a,
                                 .a_stride = {1},
                                 .b = b,
                                 .b_stride = {1},
                                 .y = y,
                                 .dtype = BT_F32};
    return bt_context_launch(context, BT_KERNEL_BINARY, BT_F32, &args);
}

bt_status bt_flat_add(bt_context *context, bt_tensor *to, int64_t to_at, const bt_tensor *from,
                      int64_t from_at, int64_t count)
{
    float *sum = (float *)bt_tensor_data(to) + to_at;
    bt_tensor_touch(to);
    return bt_flat_sum(context, sum, (const float *)bt_tensor_data(from) + from_at, sum, count);
}

bool bt_data_parallel_sends_each(const bt_data_parallel *p)
{
    return p->sharded && p->options.sharding == BT_SHARDING_ZERO2;
}

int bt_data_parallel_level_of(const bt_data_parallel *p, int64_t shard)
{
    return bt_data_parallel_sends_each(p) ? 0 : __builtin_popcountll((unsigned long long)shard);
}

int bt_data_parallel_level(const bt_data_parallel *p)
{
    return bt_data_parallel_level_of(p, p->index / p->shard_batches);
}

bt_status bt_data_parallel_fold(bt_data_parallel *p, bt_tensor **grads, int64_t count)
{
    const int64_t shard = p->index / p->shard_batches;
    const int level = bt_data_parallel_level_of(p, shard);
    const int closed =
        bt_data_parallel_sends_each(p) ? 0 : __builtin_ctzll((unsigned long long)shard + 1);
    for (int i = 0; i < closed; ++i) {
        BT_TRY(bt_flat_add(p->context, grads[level - i - 1], 0, grads[level - i], 0, count));
    }
    return BT_OK;
}

bt_status bt_communication_await(bt_context *context, bt_event event)
{
    bt_range_push(context, BT_COMMUNICATION);
    const bt_status status =
        context->device->backend->event_wait(context->device, event, context->stream);
    bt_range_pop(context);
    return status;
}

bt_status bt_data_parallel_join(bt_data_parallel *p)
{
    bt_device *device = p->context->device;
    BT_TRY(device->backend->event_record(device, p->reduced, p->stream));
    return bt_communication_await(p->context, p->reduced);
}
