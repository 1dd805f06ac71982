// framework/dist/bucket.h - where the parameters of a list lie in flat buckets
//
// Plain data: which bucket, and from which element of it on. Gradients, weights and optimizer state
// of a bucket are laid out alike, so that a range of elements is the same parameters in all.
//
// Invariants
//   1. Buckets are in the order in which their last gradient becomes complete, taken as the reverse
//      of the list's. A bucket's values are of one type.
//   2. Slots begin at multiples of BT_SQUARES_BLOCK, and a rank's part of a bucket is a number of
//      such blocks: a partial sum of the norm never spans two ranks.
//   3. Which parameters share a bucket depends on the list and the size alone, not on the ranks.
#ifndef BT_DIST_BUCKET_H
#define BT_DIST_BUCKET_H

#include "framework/nn/param.h"

typedef struct bt_bucket_slot {
    int64_t param; // place in the list
    int64_t bucket;
    int64_t offset, count; // elements
} bt_bucket_slot;

typedef struct bt_bucket {
    bt_dtype dtype;            // of the values
    int64_t first, slot_count; // its slots, in ascending order of offset
    int64_t count;             // elements with padding: ranks * part
    int64_t part;              // elements of each rank
} bt_bucket;

typedef struct bt_buckets {
    bt_bucket *items;      // owned [count]
    bt_bucket_slot *slots; // owned [slot_count], bucket by bucket
    int64_t count, slot_count;
    int ranks;
} bt_buckets;

// first: the parameter whose gradient is complete before all others', which has the first bucket
// alone; -1: none. size_bytes: of f32 gradients; a bucket is closed before it grows beyond. A
// larger parameter has a bucket of its own. Owns    *out: the caller, until bt_buckets_release
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_buckets_make(const bt_params *params, int ranks, int64_t first,
                                     int64_t size_bytes, bt_buckets *out);
void bt_buckets_release(bt_buckets *buckets);

// The part of a slot that a rank has: *offset is in the parameter, *at in the rank's part of the
// bucket. Returns its elements, 0: none.
int64_t bt_bucket_slot_part(const bt_buckets *buckets, const bt_bucket_slot *slot, int rank,
                            int64_t *offset, int64_t *at);

#endif
