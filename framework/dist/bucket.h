// framework/dist/bucket.h - layout of a parameter list in flat buckets
//
// Plain data: the bucket and the offset of each parameter. Gradients, weights and optimizer state
// of a bucket have the same layout.
//
// Invariants
//   1. Buckets are in the order in which their gradients become complete, assumed to be the reverse
//      of the list. A bucket's values are of one type.
//   2. Slots start at multiples of BT_SQUARES_BLOCK, and a rank's part of a bucket is a multiple of
//      such blocks: a partial sum of the norm never spans two ranks.
//   3. Partial parameters (bt_param) have buckets of their own, after all others.
//   4. Which parameters share a bucket depends only on the list and the bucket size, not on the
//      ranks.
#ifndef BT_DIST_BUCKET_H
#define BT_DIST_BUCKET_H

#include "framework/nn/param.h"

typedef struct bt_bucket_slot {
    int64_t param; // index in the list
    int64_t bucket;
    int64_t offset, count; // elements
} bt_bucket_slot;

typedef struct bt_bucket {
    bt_dtype dtype;            // of the values
    int64_t first, slot_count; // its slots, in ascending order of offset
    int64_t count;             // elements with padding: ranks * part
    int64_t part;              // elements of each rank
    bool partial;              // gradients are summed over tensor parallel ranks first
} bt_bucket;

typedef struct bt_buckets {
    bt_bucket *items;      // owned [count]
    bt_bucket_slot *slots; // owned [slot_count], bucket by bucket
    int64_t count, slot_count;
    int ranks;
} bt_buckets;

// first: the parameter whose gradient is complete before all others; it is alone in the first
// bucket; -1: none. size_bytes: limit of a bucket's f32 gradients; a larger parameter has its own
// bucket.
// Owns    *out: the caller, until bt_buckets_release
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_buckets_make(const bt_params *params, int ranks, int64_t first,
                                     int64_t size_bytes, bt_buckets *out);
void bt_buckets_release(bt_buckets *buckets);

// The part of a slot that belongs to a rank: *offset is in the parameter, *at in the rank's part of
// the bucket. Returns its number of elements.
int64_t bt_bucket_slot_part(const bt_buckets *buckets, const bt_bucket_slot *slot, int rank,
                            int64_t *offset, int64_t *at);

#endif
