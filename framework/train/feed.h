// framework/train/feed.h - the micro-batches of a step, at fixed device addresses
//
// The batches of a step are in one block at a fixed address, so that a captured graph finds those
// of every step there. The host reads a step ahead into pinned memory while the device computes;
// one copy on the compute stream transfers them when the step begins. Data read ahead is not yet
// trained on: the feed keeps the cursor from before reading it.
#ifndef BT_TRAIN_FEED_H
#define BT_TRAIN_FEED_H

#include "framework/data/loader.h"
#include "framework/nn/context_parallel.h"
#include "framework/tensor/tensor.h"

typedef struct bt_feed_batch {
    bt_tensor *both;          // retained [2, B, T], a separate storage over a part of the feed's
    bt_tensor *ids, *targets; // retained views [B, T] of it
} bt_feed_batch;

typedef struct bt_feed {
    bt_context *context;          // borrowed
    bt_loader *loader;            // borrowed
    int64_t count;                // micro-batches of a step
    int64_t batch, tokens;        // of this rank
    const bt_nn_context *sharing; // borrowed: context parallel ranks, or NULL
    int32_t *whole;               // owned [2, B, all tokens] with context parallelism, else NULL
    int32_t *pinned;              // owned [count, 2, B, T]: inputs, then targets
    bt_tensor *all;               // retained, likewise, on the device
    bt_feed_batch *batches;       // owned [count]
    bt_event copied;              // owned event: the copy from pinned memory is complete
    bt_loader_cursor from;        // the loader's cursor before it read the contents of the pinned
                                  // memory
    bool staged;                  // the next step is there
    int64_t limit, taken;         // number of steps that will be requested, and that were
} bt_feed;

// count   micro-batches of [batch, tokens] in a step
// sharing context parallel ranks, each with a part of every sequence: its batches are [batch, T], T
// = tokens / ranks; twice the number of ranks must divide the tokens. Borrowed; NULL: none
// limit   number of steps; nothing is read after them
// Owns    *feed: the caller, until bt_feed_release
BT_CHECKED bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t count,
                                  int64_t batch, int64_t tokens, const bt_nn_context *sharing,
                                  int64_t limit, bt_feed *feed);
void bt_feed_release(bt_feed *feed);
// Discards the data read ahead and continues from another position, for `limit` more steps.
// Errors  INVALID_ARGUMENT for a cursor that is impossible for these shards
BT_CHECKED bt_status bt_feed_seek(bt_feed *feed, bt_loader_cursor cursor, int64_t limit);
// The data position after the steps taken so far: that of the next step.
bt_loader_cursor bt_feed_cursor(const bt_feed *feed);
// Copies the next step's micro-batches to feed->batches, on the context's stream.
// Errors  INVALID_ARGUMENT after the last step
BT_CHECKED bt_status bt_feed_next(bt_feed *feed);
// The ids of micro-batch i in host memory, until bt_feed_ahead. Shapes  [B, T]
const int32_t *bt_feed_ids(const bt_feed *feed, int64_t i);
// Reads the following step, if there is one. Call it while the device has work to do.
BT_CHECKED bt_status bt_feed_ahead(bt_feed *feed);

#endif
