// framework/dist/bucket_gather.c - gathers a bucket's weights from the ranks that have its parts
#include "framework/dist/data_parallel_impl.h"

bt_status bt_bucket_gather(bt_bucket_memory *memory)
{
    bt_data_parallel *p = memory->owner;
    bt_device *device = p->context->device;
    BT_TRY(device->backend->event_record(device, p->produced, p->context->stream));
    BT_TRY(device->backend->event_wait(device, p->produced, p->stream));
    bt_range_push(p->context, BT_COMMUNICATION);
    const bt_status status = bt_all_gather(p->options.group, bt_tensor_data(memory->value_part),
                                           bt_tensor_data(memory->values),
                                           (int64_t)bt_tensor_bytes(memory->value_part), p->stream);
    bt_range_pop(p->context);
    BT_TRY(status);
    memory->gathering = true;
    return device->backend->event_record(device, memory->gathered, p->stream);
}

bt_status bt_bucket_await(bt_bucket_memory *memory)
{
    bt_context *context = memory->owner->context;
    if (!memory->gathering) {
        return BT_OK;
    }
    memory->gathering = false;
    return bt_communication_await(context, memory->gathered);
}
