// framework/data/bpe.h - byte-pair merging: the pair table, and merging a piece of text
//
// Internal to this folder; the tokenizer is the interface.
//
// A rank file lists tokens as byte strings. Two adjacent tokens are merged if their concatenation
// is a token, lowest rank first, leftmost first among equals. Exactly one pair can form a token
// (the last two parts left when its bytes are merged with the lower ranks), so the table holds one
// pair per token, and a lookup is one integer hash.
//
// Invariants
//   1. Token ids are below BT_BPE_NONE and a token's id is its rank.
//   2. Short and long merging give the same result; long costs n log n instead of n^2.
#ifndef BT_DATA_BPE_H
#define BT_DATA_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

enum { BT_BPE_NONE = 0xffff, BT_BPE_SHORT = 96 };

typedef struct bt_bpe {
    uint32_t *keys;         // [capacity], owned: left << 16 | right, UINT32_MAX where empty
    uint16_t *merged;       // [capacity], owned
    size_t capacity;        // power of two, over twice the pairs
    unsigned shift;         // 32 - log2(capacity)
    uint16_t byte_ids[256]; // token of each byte, BT_BPE_NONE where there is none
} bt_bpe;

// Working memory for merging long pieces; grows on demand. Initialize with zeros.
typedef struct bt_bpe_scratch {
    uint16_t *ids;      // [capacity], owned
    uint32_t *previous; // [capacity], owned
    uint32_t *next;     // [capacity], owned
    uint64_t *heap;     // [3 * capacity], owned
    size_t capacity;
} bt_bpe_scratch;

// An empty table for up to `pairs` pairs; byte_ids are all BT_BPE_NONE.
BT_CHECKED bt_status bt_bpe_init(bt_bpe *bpe, size_t pairs);
void bt_bpe_release(bt_bpe *bpe);
void bt_bpe_add(bt_bpe *bpe, uint16_t left, uint16_t right, uint16_t merged);

// The token that a pair forms, BT_BPE_NONE if none.
static inline uint16_t bt_bpe_find(const bt_bpe *bpe, uint16_t left, uint16_t right)
{
    uint32_t key = (uint32_t)left << 16 | right;
    size_t slot = (uint32_t)(key * 0x9e3779b1U) >> bpe->shift;
    while (bpe->keys[slot] != key) {
        if (bpe->keys[slot] == UINT32_MAX) {
            return BT_BPE_NONE;
        }
        slot = (slot + 1) & (bpe->capacity - 1);
    }
    return bpe->merged[slot];
}

// Merges a piece of 1 to BT_BPE_SHORT bytes; returns the number of tokens written to ids[size].
size_t bt_bpe_merge_short(const bt_bpe *bpe, const unsigned char *bytes, size_t size_bytes,
                          uint16_t *ids);
// The same for a piece of any length below 4 GiB.
// Errors  OUT_OF_MEMORY (scratch), INVALID_ARGUMENT (too long)
BT_CHECKED bt_status bt_bpe_merge_long(const bt_bpe *bpe, bt_bpe_scratch *scratch,
                                       const unsigned char *bytes, size_t size_bytes, uint16_t *ids,
                                       size_t *count);
void bt_bpe_scratch_release(bt_bpe_scratch *scratch);

#endif
