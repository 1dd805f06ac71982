// framework/train/feed.h - micro-batches on the device, one ahead
//
// Two slots of pinned host memory and device memory; copies run on a stream of their own. Two
// events a slot: landed (its copy is done: the compute stream may read, the host may refill the
// pinned half) and consumed (compute is done with it, or with what the memory held before the feed:
// the copy stream may overwrite). What is read ahead is not yet trained on: each slot keeps the
// cursor from which it was read.
#ifndef BT_TRAIN_FEED_H
#define BT_TRAIN_FEED_H

#include "framework/data/loader.h"
#include "framework/tensor/tensor.h"

typedef struct bt_feed_slot {
    int32_t *pinned;           // owned [2, B, T]: inputs, then targets
    bt_tensor *both;           // retained [2, B, T] on the device
    bt_tensor *ids, *targets;  // retained views [B, T]
    bt_event landed, consumed; // owned
    bt_loader_cursor from;     // the loader's before it read this batch
    bool filled;               // landed was recorded: pinned may be under a copy
} bt_feed_slot;

typedef struct bt_feed {
    bt_context *context; // borrowed
    bt_loader *loader;   // borrowed
    int64_t batch, tokens;
    bt_stream stream; // owned, for copies
    bt_feed_slot slots[2];
    int64_t limit;         // batches that will be asked for: none behind them is read
    int64_t staged, taken; // batches so far
} bt_feed;

// limit   how many batches there will be
// Owns    *feed: the caller, until bt_feed_release
BT_CHECKED bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t batch,
                                  int64_t tokens, int64_t limit, bt_feed *feed);
void bt_feed_release(bt_feed *feed);
// Drops what was read ahead and goes on from a position of the loader, for `limit` batches more.
// No batch is lent. Errors  INVALID_ARGUMENT for a cursor that cannot be one of the shards
BT_CHECKED bt_status bt_feed_seek(bt_feed *feed, bt_loader_cursor cursor, int64_t limit);
// Where the data stand behind the batches that were taken: the position of the next one.
bt_loader_cursor bt_feed_cursor(const bt_feed *feed);
// Lends the next micro-batch until bt_feed_done, which starts the copy of the one behind it.
// Errors  INVALID_ARGUMENT behind the last one
BT_CHECKED bt_status bt_feed_next(bt_feed *feed, bt_tensor **ids, bt_tensor **targets);
// The ids of the lent batch in host memory. Shapes  [B, T]
const int32_t *bt_feed_ids(const bt_feed *feed);
// The work that reads the lent batch has been given to the context's stream.
BT_CHECKED bt_status bt_feed_done(bt_feed *feed);

#endif
