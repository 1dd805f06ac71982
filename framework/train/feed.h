// framework/train/feed.h - micro-batches on the device, one ahead
//
// Two slots of pinned host memory and device memory; copies run on a stream of their own. Two
// events a slot: landed (its copy is done: the compute stream may read, the host may refill the
// pinned half) and consumed (compute is done with it, or with what the memory held before the feed:
// the copy stream may overwrite).
#ifndef BT_TRAIN_FEED_H
#define BT_TRAIN_FEED_H

#include "framework/data/loader.h"
#include "framework/tensor/tensor.h"

typedef struct bt_feed_slot {
    int32_t *pinned;           // owned [2, B, T]: inputs, then targets
    bt_tensor *both;           // retained [2, B, T] on the device
    bt_tensor *ids, *targets;  // retained views [B, T]
    bt_event landed, consumed; // owned
} bt_feed_slot;

typedef struct bt_feed {
    bt_context *context; // borrowed
    bt_loader *loader;   // borrowed
    int64_t batch, tokens;
    bt_stream stream; // owned, for copies
    bt_feed_slot slots[2];
    int64_t staged, taken; // batches so far
} bt_feed;

// Owns    *feed: the caller, until bt_feed_release
BT_CHECKED bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t batch,
                                  int64_t tokens, bt_feed *feed);
void bt_feed_release(bt_feed *feed);
// Lends the next micro-batch until bt_feed_done, and starts the copy of the one behind it.
BT_CHECKED bt_status bt_feed_next(bt_feed *feed, bt_tensor **ids, bt_tensor **targets);
// The work that reads the lent batch has been given to the context's stream.
BT_CHECKED bt_status bt_feed_done(bt_feed *feed);

#endif
