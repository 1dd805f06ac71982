// framework/train/feed.c - reads one step ahead, and copies once per step
#include "framework/train/feed.h"

#include "framework/base/checked.h"
#include "framework/base/mem.h"

static int64_t elements(const bt_feed *feed) { return 2 * feed->batch * feed->tokens; }

static bt_status make_views(bt_feed *feed)
{
    const int64_t stride[] = {feed->tokens, 1}, half = elements(feed) / 2;
    const bt_shape shape = BT_SHAPE(feed->batch, feed->tokens);
    void *batches = NULL;
    BT_TRY(bt_mem_alloc((size_t)feed->count, sizeof *feed->batches, &batches));
    feed->batches = batches;
    for (int64_t i = 0; i < feed->count; ++i) {
        bt_feed_batch *each = &feed->batches[i];
        int32_t *place = (int32_t *)bt_tensor_data(feed->all) + i * elements(feed);
        BT_TRY(bt_tensor_over(feed->context, BT_I32, BT_SHAPE(2, feed->batch, feed->tokens), place,
                              "token batch", &each->both));
        BT_TRY(bt_tensor_view(each->both, shape, stride, 0, &each->ids));
        BT_TRY(bt_tensor_view(each->both, shape, stride, half, &each->targets));
    }
    return BT_OK;
}

static bt_status allocate(bt_feed *feed)
{
    bt_device *device = feed->context->device;
    void *pinned = NULL;
    BT_TRY(bt_tensor_create(feed->context, BT_I32,
                            BT_SHAPE(feed->count, 2, feed->batch, feed->tokens), "token batches",
                            &feed->all));
    BT_TRY(make_views(feed));
    BT_TRY(device->backend->pinned_alloc(device, bt_tensor_bytes(feed->all), &pinned));
    feed->pinned = pinned;
    if (feed->sharing) {
        void *whole = NULL;
        BT_TRY(bt_mem_alloc((size_t)(elements(feed) * bt_nn_context_size(feed->sharing)),
                            sizeof *feed->whole, &whole));
        feed->whole = whole;
    }
    BT_TRY(device->backend->event_create(device, &feed->copied));
    return device->backend->event_record(device, feed->copied, feed->context->stream);
}

bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t count, int64_t batch,
                       int64_t tokens, const bt_nn_context *sharing, int64_t limit, bt_feed *feed)
{
    const int ranks = bt_nn_context_size(sharing);
    int64_t of_batch = 0, of_step = 0;
    *feed = (bt_feed){0};
    if (count < 1 || batch < 1 || tokens < 1 || !bt_checked_count(batch, tokens, &of_batch) ||
        !bt_checked_count(count, 2 * of_batch, &of_step)) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "%lld batches of %lld x %lld tokens; allowed: from 1, at most 2^56 in total",
            (long long)count, (long long)batch, (long long)tokens);
    }
    if (ranks > 1 && tokens % (2 * ranks) != 0) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "sequences of %lld tokens cannot be split by %d ranks: expected a multiple of %d",
            (long long)tokens, ranks, 2 * ranks);
    }
    *feed = (bt_feed){.context = context,
                      .loader = loader,
                      .count = count,
                      .batch = batch,
                      .tokens = tokens / ranks,
                      .sharing = ranks > 1 ? sharing : NULL,
                      .limit = limit};
    const bt_status status = allocate(feed);
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
    if (feed->copied) {
        // A fault here has been or will be reported elsewhere.
        (void)!device->backend->event_synchronize(device, feed->copied);
        device->backend->event_destroy(device, feed->copied);
    }
    if (feed->pinned) {
        device->backend->pinned_free(device, feed->pinned);
    }
    for (int64_t i = 0; feed->batches && i < feed->count; ++i) {
        bt_tensor_release(feed->batches[i].ids);
        bt_tensor_release(feed->batches[i].targets);
        bt_tensor_release(feed->batches[i].both);
    }
    bt_mem_free(feed->batches);
    bt_mem_free(feed->whole);
    bt_tensor_release(feed->all);
    *feed = (bt_feed){0};
    bt_error_quiet_end();
}

// One batch: ids, then targets.
static bt_status read_batch(bt_feed *feed, int32_t *ids)
{
    const int64_t whole = elements(feed) / 2 * bt_nn_context_size(feed->sharing);
    if (!feed->sharing) {
        return bt_loader_next(feed->loader, ids, ids + whole);
    }
    BT_TRY(bt_loader_next(feed->loader, feed->whole, feed->whole + whole));
    bt_nn_context_own(feed->sharing, feed->whole, 2 * feed->batch, whole / feed->batch, ids);
    return BT_OK;
}

bt_status bt_feed_ahead(bt_feed *feed)
{
    bt_device *device = feed->context->device;
    if (feed->staged || feed->taken == feed->limit) {
        return BT_OK;
    }
    BT_TRY(device->backend->event_synchronize(device, feed->copied));
    feed->from = bt_loader_cursor_get(feed->loader);
    for (int64_t i = 0; i < feed->count; ++i) {
        BT_TRY(read_batch(feed, feed->pinned + i * elements(feed)));
    }
    feed->staged = true;
    return BT_OK;
}

bt_status bt_feed_seek(bt_feed *feed, bt_loader_cursor cursor, int64_t limit)
{
    BT_TRY(bt_loader_cursor_set(feed->loader, cursor));
    feed->staged = false;
    feed->limit = feed->taken + limit;
    return BT_OK;
}

bt_loader_cursor bt_feed_cursor(const bt_feed *feed)
{
    return feed->staged ? feed->from : bt_loader_cursor_get(feed->loader);
}

bt_status bt_feed_next(bt_feed *feed)
{
    bt_device *device = feed->context->device;
    if (feed->taken == feed->limit) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "step %lld does not exist; there are %lld steps",
                        (long long)feed->taken + 1, (long long)feed->limit);
    }
    BT_TRY(bt_feed_ahead(feed));
    BT_TRY(device->backend->copy(device, bt_tensor_data(feed->all), feed->pinned,
                                 bt_tensor_bytes(feed->all), BT_COPY_HOST_TO_DEVICE,
                                 feed->context->stream));
    for (int64_t i = 0; i < feed->count; ++i) {
        bt_tensor_touch(feed->batches[i].both);
    }
    feed->staged = false;
    ++feed->taken;
    return device->backend->event_record(device, feed->copied, feed->context->stream);
}

const int32_t *bt_feed_ids(const bt_feed *feed, int64_t i)
{
    return feed->pinned + i * elements(feed);
}
