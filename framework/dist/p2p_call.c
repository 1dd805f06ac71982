// framework/dist/p2p_call.c - what all collectives over peer memory share
#include "framework/dist/p2p_group.h"

enum { LONG_BYTES = 8 << 20 };

uint32_t bt_p2p_call(int call, int64_t size, int dtype, int reduction, int root)
{
    const int64_t parts[] = {call, size, dtype, reduction, root};
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        hash = (hash ^ (uint64_t)parts[i]) * 1099511628211U;
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 16);
}

int32_t bt_p2p_blocks(int64_t size_bytes)
{
    int64_t blocks = size_bytes / 16384; // 16 saturate the links, except at the end of a transfer
    int64_t most = size_bytes >= LONG_BYTES ? 32 : 16;
    return blocks < 1 ? 1 : blocks > most ? (int32_t)most : (int32_t)blocks;
}

bt_status bt_p2p_enter(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream)
{
    bt_device *device = group->base.device;
    return order->begun && order->last != stream &&
                   !bt_device_group_is_capturing(&group->base, stream)
               ? device->backend->event_wait(device, order->done, stream)
               : BT_OK;
}

bt_status bt_p2p_leave(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream)
{
    bt_device *device = group->base.device;
    if (bt_device_group_is_capturing(&group->base, stream)) {
        return BT_OK;
    }
    order->begun = true;
    order->last = stream;
    return device->backend->event_record(device, order->done, stream);
}

bt_status bt_p2p_copies_begin(bt_p2p_group *group, bt_stream stream)
{
    BT_TRY(bt_p2p_enter(group, &group->engine_calls, stream));
    BT_TRY(bt_device_group_begin(&group->base, stream));
    return group->base.table->handshake(group->base.device, stream, &group->view, 0);
}

bt_status bt_p2p_copies_end(bt_p2p_group *group, bt_stream stream)
{
    BT_TRY(group->base.table->handshake(group->base.device, stream, &group->view, 1));
    BT_TRY(bt_device_group_end(&group->base, stream));
    return bt_p2p_leave(group, &group->engine_calls, stream);
}

bt_status bt_p2p_copy(bt_p2p_group *group, void *to, const void *from, int64_t size_bytes,
                      bt_stream stream)
{
    bt_device *device = group->base.device;
    return to == from || size_bytes == 0
               ? BT_OK
               : device->backend->copy(device, to, from, (size_t)size_bytes,
                                       BT_COPY_DEVICE_TO_DEVICE, stream);
}
