// framework/train/feed.c - double-buffered copies of token batches
#include "framework/train/feed.h"

#include "framework/base/checked.h"

static bt_status init_slot(bt_feed *feed, bt_feed_slot *slot)
{
    bt_device *device = feed->context->device;
    const int64_t count = feed->batch * feed->tokens;
    int64_t stride[] = {feed->tokens, 1};
    void *pinned = NULL;
    BT_TRY(device->backend->pinned_alloc(device, (size_t)count * 2 * sizeof(int32_t), &pinned));
    slot->pinned = pinned;
    BT_TRY(bt_tensor_create(feed->context, BT_I32, BT_SHAPE(2, feed->batch, feed->tokens),
                            "token batch", &slot->both));
    BT_TRY(bt_tensor_view(slot->both, BT_SHAPE(feed->batch, feed->tokens), stride, 0, &slot->ids));
    BT_TRY(bt_tensor_view(slot->both, BT_SHAPE(feed->batch, feed->tokens), stride, count,
                          &slot->targets));
    BT_TRY(device->backend->event_create(device, &slot->landed));
    BT_TRY(device->backend->event_create(device, &slot->consumed));
    // The device block may be recycled: the first copy follows what its earlier users still do.
    return device->backend->event_record(device, slot->consumed, feed->context->stream);
}

bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t batch, int64_t tokens,
                       int64_t limit, bt_feed *feed)
{
    bt_device *device = context->device;
    int64_t count = 0;
    *feed = (bt_feed){0};
    if (batch < 1 || tokens < 1 || !bt_checked_count(batch, tokens, &count)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a batch of %lld x %lld tokens; allowed: from 1, at most 2^56 in all",
                        (long long)batch, (long long)tokens);
    }
    *feed = (bt_feed){
        .context = context, .loader = loader, .batch = batch, .tokens = tokens, .limit = limit};
    bt_status status = device->backend->stream_create(device, false, &feed->stream);
    for (int i = 0; i < 2 && status == BT_OK; ++i) {
        status = init_slot(feed, &feed->slots[i]);
    }
    if (status != BT_OK) {
        bt_feed_release(feed);
    }
    return status;
}

void bt_feed_release(bt_feed *feed)
{
    if (!feed->context) {
        return;
    }
    bt_device *device = feed->context->device;
    bt_error_quiet_begin();
    // Copies may be under way; a fault here has been or will be reported by somebody else.
    (void)!device->backend->stream_synchronize(device, feed->stream);
    for (int i = 0; i < 2; ++i) {
        bt_feed_slot *slot = &feed->slots[i];
        bt_tensor_release(slot->ids);
        bt_tensor_release(slot->targets);
        bt_tensor_release(slot->both);
        if (slot->pinned) {
            device->backend->pinned_free(device, slot->pinned);
        }
        if (slot->landed) {
            device->backend->event_destroy(device, slot->landed);
        }
        if (slot->consumed) {
            device->backend->event_destroy(device, slot->consumed);
        }
    }
    if (feed->stream) {
        (void)!bt_pool_retire_stream(feed->context->pool, feed->stream);
        device->backend->stream_destroy(device, feed->stream);
    }
    *feed = (bt_feed){0};
    bt_error_quiet_end();
}

// Reads the next batch from the loader and starts its copy.
static bt_status stage(bt_feed *feed)
{
    bt_device *device = feed->context->device;
    bt_feed_slot *slot = &feed->slots[feed->staged % 2];
    int64_t count = feed->batch * feed->tokens;
    if (slot->filled) {
        BT_TRY(device->backend->event_synchronize(device, slot->landed));
    }
    BT_TRY(device->backend->event_wait(device, slot->consumed, feed->stream));
    slot->from = bt_loader_cursor_get(feed->loader);
    BT_TRY(bt_loader_next(feed->loader, slot->pinned, slot->pinned + count));
    BT_TRY(device->backend->copy(device, bt_tensor_data(slot->both), slot->pinned,
                                 bt_tensor_bytes(slot->both), BT_COPY_HOST_TO_DEVICE,
                                 feed->stream));
    bt_tensor_touch(slot->both);
    ++feed->staged;
    slot->filled = true;
    return device->backend->event_record(device, slot->landed, feed->stream);
}

bt_status bt_feed_seek(bt_feed *feed, bt_loader_cursor cursor, int64_t limit)
{
    BT_TRY(bt_loader_cursor_set(feed->loader, cursor));
    feed->staged = feed->taken;
    feed->limit = feed->taken + limit;
    return BT_OK;
}

bt_loader_cursor bt_feed_cursor(const bt_feed *feed)
{
    return feed->staged > feed->taken ? feed->slots[feed->taken % 2].from
                                      : bt_loader_cursor_get(feed->loader);
}

bt_status bt_feed_next(bt_feed *feed, bt_tensor **ids, bt_tensor **targets)
{
    bt_device *device = feed->context->device;
    bt_feed_slot *slot = &feed->slots[feed->taken % 2];
    if (feed->taken == feed->limit) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "batch %lld is asked for, there are %lld",
                        (long long)feed->taken + 1, (long long)feed->limit);
    }
    if (feed->staged == feed->taken) {
        BT_TRY(stage(feed));
    }
    BT_TRY(device->backend->event_wait(device, slot->landed, feed->context->stream));
    *ids = slot->ids;
    *targets = slot->targets;
    return BT_OK;
}

const int32_t *bt_feed_ids(const bt_feed *feed) { return feed->slots[feed->taken % 2].pinned; }

bt_status bt_feed_done(bt_feed *feed)
{
    bt_device *device = feed->context->device;
    bt_feed_slot *slot = &feed->slots[feed->taken % 2];
    BT_TRY(device->backend->event_record(device, slot->consumed, feed->context->stream));
    ++feed->taken;
    return feed->taken < feed->limit ? stage(feed) : BT_OK;
}
