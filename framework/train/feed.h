// framework/train/feed.h - the micro-batches of a step on the device, always at the same place
//
// The batches of one step lie in one block, so that work which was captured by address finds those
// of every step there. The host reads a step ahead into pinned memory while the device computes;
// one copy on the compute stream brings them when the step begins. What is read ahead is not yet
// trained on: the feed keeps the cursor from which it was read.
#ifndef BT_TRAIN_FEED_H
#define BT_TRAIN_FEED_H

#include "framework/data/loader.h"
#include "framework/nn/context_parallel.h"
#include "framework/tensor/tensor.h"

typedef struct bt_feed_batch {
    bt_tensor *both;          // retained [2, B, T], a storage of its own over a part of the feed's
    bt_tensor *ids, *targets; // retained views [B, T] of it
} bt_feed_batch;

typedef struct bt_feed {
    bt_context *context;          // borrowed
    bt_loader *loader;            // borrowed
    int64_t count;                // micro-batches of a step
    int64_t batch, tokens;        // of this rank
    const bt_nn_context *sharing; // borrowed: ranks that share sequences, or NULL
    int32_t *whole;               // owned [2, B, all tokens] where they do, else NULL
    int32_t *pinned;              // owned [count, 2, B, T]: inputs, then targets
    bt_tensor *all;               // retained, likewise, on the device
    bt_feed_batch *batches;       // owned [count]
    bt_event copied;              // owned: the copy of the pinned memory is done
    bt_loader_cursor from;        // the loader's before it read what lies in the pinned memory
    bool staged;                  // the next step lies there
    int64_t limit, taken;         // steps: how many will be asked for, how many were
} bt_feed;

// count   micro-batches of [batch, tokens] in a step
// sharing ranks of which each has a part of every sequence: its batches are [batch, T], T = tokens
// /
//         ranks, which must divide evenly by twice as many. Borrowed; NULL: none
// limit   how many steps there will be: none behind them is read
// Owns    *feed: the caller, until bt_feed_release
BT_CHECKED bt_status bt_feed_init(bt_context *context, bt_loader *loader, int64_t count,
                                  int64_t batch, int64_t tokens, const bt_nn_context *sharing,
                                  int64_t limit, bt_feed *feed);
void bt_feed_release(bt_feed *feed);
// Drops what was read ahead and goes on from a position of the loader, for `limit` steps more.
// Errors  INVALID_ARGUMENT for a cursor that cannot be one of the shards
BT_CHECKED bt_status bt_feed_seek(bt_feed *feed, bt_loader_cursor cursor, int64_t limit);
// Where the data stand behind the steps that were taken: the position of the next one.
bt_loader_cursor bt_feed_cursor(const bt_feed *feed);
// Puts the next step's micro-batches into feed->batches, in the order of the context's stream.
// Errors  INVALID_ARGUMENT behind the last one
BT_CHECKED bt_status bt_feed_next(bt_feed *feed);
// The ids of micro-batch i in host memory, until bt_feed_ahead. Shapes  [B, T]
const int32_t *bt_feed_ids(const bt_feed *feed, int64_t i);
// Reads the step behind it, if there is one. Call it when the device has work to do.
BT_CHECKED bt_status bt_feed_ahead(bt_feed *feed);

#endif
