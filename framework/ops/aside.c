// framework/ops/aside.c - a stream, and an event for each collective in flight
#include "framework/ops/aside.h"

#include "framework/base/mem.h"

struct bt_aside {
    bt_device *device;             // borrowed; NULL: no collective was begun yet
    bt_stream stream;              // owned
    bt_event produced;             // owned; the context's stream has written the data to be
                                   // exchanged
    bt_event done[BT_ASIDE_SLOTS]; // owned
};

bt_status bt_aside_create(bt_aside **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof **out, &block));
    *out = block;
    return BT_OK;
}

void bt_aside_destroy(bt_aside *aside)
{
    if (!aside) {
        return;
    }
    if (aside->device) {
        const bt_backend *backend = aside->device->backend;
        bt_error_quiet_begin();
        (void)!backend->stream_synchronize(aside->device, aside->stream); // its users were notified
        bt_error_quiet_end();
        for (int i = 0; i < BT_ASIDE_SLOTS; ++i) {
            if (aside->done[i]) {
                backend->event_destroy(aside->device, aside->done[i]);
            }
        }
        if (aside->produced) {
            backend->event_destroy(aside->device, aside->produced);
        }
        if (aside->stream) {
            backend->stream_destroy(aside->device, aside->stream);
        }
    }
    bt_mem_free(aside);
}

static bt_status open_queues(bt_aside *aside, bt_device *device)
{
    const bt_backend *backend = device->backend;
    aside->device = device;
    BT_TRY(backend->stream_create(device, true, &aside->stream));
    BT_TRY(backend->event_create(device, &aside->produced));
    for (int i = 0; i < BT_ASIDE_SLOTS; ++i) {
        BT_TRY(backend->event_create(device, &aside->done[i]));
    }
    return BT_OK;
}

bt_status bt_aside_begin(bt_aside *aside, bt_context *context, bt_stream *stream)
{
    if (!aside->device) {
        BT_TRY(open_queues(aside, context->device));
    }
    const bt_backend *backend = aside->device->backend;
    *stream = aside->stream;
    BT_TRY(backend->event_record(aside->device, aside->produced, context->stream));
    return backend->event_wait(aside->device, aside->produced, aside->stream);
}

bt_status bt_aside_end(bt_aside *aside, int slot)
{
    return aside->device->backend->event_record(aside->device, aside->done[slot], aside->stream);
}

bt_status bt_aside_await(bt_aside *aside, bt_context *context, int slot)
{
    return aside->device ? aside->device->backend->event_wait(aside->device, aside->done[slot],
                                                              context->stream)
                         : BT_OK;
}
