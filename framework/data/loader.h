// framework/data/loader.h - micro-batches of token sequences from a list of shards
//
// The shards are cut into sequences: sequence i of a shard is its tokens [i*T, i*T + T], one more
// than T, so that the target of every input is the token that follows it; sequences overlap in
// that one token and never cross a shard's end (the rest of a shard, under T + 1 tokens, is not
// used). An epoch is an order of all sequences: file order, or a permutation that is a function of
// (seed, epoch) alone; epochs follow each other without a gap, so that a batch may contain the end
// of one and the beginning of the next. A turn is `turn` calls and takes world * turn * B
// sequences, of which rank r has the r-th turn * B, in order.
//
// Invariants
//   1. The result of a call depends on options and cursor alone, not on earlier calls.
//   2. The n-th sequence of a run is a function of shards, T, shuffle, seed and n alone. It does
//      not depend on B, world or turn, in any epoch: 4 batches of 16 contain the sequences of one
//      of 64, and a turn of all ranks contains those of one rank alone.
//   3. No allocation after bt_loader_create.
#ifndef BT_DATA_LOADER_H
#define BT_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_loader_options {
    const char *const *shards; // [shard_count] paths, in order; borrowed during the call
    int64_t shard_count;
    int64_t micro_batch; // B, sequences per call and rank
    int64_t sequence;    // T, tokens per sequence
    int64_t vocab;       // token ids are below this
    int64_t rank, world; // 0 <= rank < world; world 0 is taken as 1
    int64_t turn;        // calls per turn; 0: 1
    bool shuffle;
    uint64_t seed; // of the shuffle
} bt_loader_options;

// Position of a run in the data; part of a checkpoint.
typedef struct bt_loader_cursor {
    int64_t epoch;
    int64_t position; // sequences of this epoch that all ranks together have taken in complete
                      // turns
    int64_t within;   // calls of the current turn
} bt_loader_cursor;

typedef struct bt_loader bt_loader;

// Owns    *loader: the caller, until bt_loader_destroy
// Errors  INVALID_ARGUMENT (options; too few tokens for one batch on every rank), IO and
//         CORRUPT_DATA (shards), OUT_OF_MEMORY
BT_CHECKED bt_status bt_loader_create(const bt_loader_options *options, bt_loader **loader);
// Fills the next micro-batch and advances the cursor.
// Shapes  inputs, targets [B, T]
// Errors  CORRUPT_DATA for a token beyond the vocabulary (shard, byte offset); the cursor is then
//         unchanged and the contents of inputs and targets are undefined
BT_CHECKED bt_status bt_loader_next(bt_loader *loader, int32_t *inputs, int32_t *targets);
bt_loader_cursor bt_loader_cursor_get(const bt_loader *loader);
// Errors  INVALID_ARGUMENT for a cursor that is impossible for these shards
BT_CHECKED bt_status bt_loader_cursor_set(bt_loader *loader, bt_loader_cursor cursor);
// Tokens in all shards, used or not.
int64_t bt_loader_tokens(const bt_loader *loader);
// Whole micro-batches per rank in one epoch, at least 1.
int64_t bt_loader_batches(const bt_loader *loader);
// NULL is allowed.
void bt_loader_destroy(bt_loader *loader);

#endif
