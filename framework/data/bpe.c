// framework/data/bpe.c - pair table and merging
#include "framework/data/bpe.h"

#include <string.h>

#include "framework/base/mem.h"

bt_status bt_bpe_init(bt_bpe *bpe, size_t pairs)
{
    memset(bpe, 0, sizeof *bpe);
    memset(bpe->byte_ids, 0xff, sizeof bpe->byte_ids);
    bpe->capacity = 2;
    bpe->shift = 31;
    while (bpe->capacity <= 2 * pairs) {
        bpe->capacity *= 2;
        --bpe->shift;
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc(bpe->capacity, sizeof *bpe->keys, &block));
    bpe->keys = block;
    memset(bpe->keys, 0xff, bpe->capacity * sizeof *bpe->keys);
    bt_status status = bt_mem_alloc(bpe->capacity, sizeof *bpe->merged, &block);
    bpe->merged = block;
    if (status != BT_OK) {
        bt_bpe_release(bpe);
    }
    return status;
}

void bt_bpe_release(bt_bpe *bpe)
{
    bt_mem_free(bpe->keys);
    bt_mem_free(bpe->merged);
    memset(bpe, 0, sizeof *bpe);
}

void bt_bpe_add(bt_bpe *bpe, uint16_t left, uint16_t right, uint16_t merged)
{
    uint32_t key = (uint32_t)left << 16 | right;
    size_t slot = (uint32_t)(key * 0x9e3779b1U) >> bpe->shift;
    while (bpe->keys[slot] != UINT32_MAX) {
        slot = (slot + 1) & (bpe->capacity - 1);
    }
    bpe->keys[slot] = key;
    bpe->merged[slot] = merged;
}

size_t bt_bpe_merge_short(const bt_bpe *bpe, const unsigned char *bytes, size_t size_bytes,
                          uint16_t *ids)
{
    uint16_t ranks[BT_BPE_SHORT]; // ranks[i]: of the pair (i, i + 1)
    size_t count = size_bytes;
    for (size_t i = 0; i < count; ++i) {
        ids[i] = bpe->byte_ids[bytes[i]];
    }
    for (size_t i = 0; i + 1 < count; ++i) {
        ranks[i] = bt_bpe_find(bpe, ids[i], ids[i + 1]);
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; ++i) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == BT_BPE_NONE) {
            break;
        }
        ids[best] = ranks[best];
        --count;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (count - best) * sizeof *ranks);
        if (best > 0) {
            ranks[best - 1] = bt_bpe_find(bpe, ids[best - 1], ids[best]);
        }
        if (best + 1 < count) {
            ranks[best] = bt_bpe_find(bpe, ids[best], ids[best + 1]);
        }
    }
    return count;
}

// A binary heap of rank << 32 | position: the lowest rank first, the leftmost among equals.
static void heap_push(uint64_t *heap, size_t *size, uint64_t value)
{
    size_t at = (*size)++;
    while (at > 0 && heap[(at - 1) / 2] > value) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = value;
}

static uint64_t heap_pop(uint64_t *heap, size_t *size)
{
    uint64_t top = heap[0];
    uint64_t value = heap[--*size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *size) {
            break;
        }
        child += child + 1 < *size && heap[child + 1] < heap[child];
        if (heap[child] >= value) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
    return top;
}

static bt_status scratch_reserve(bt_bpe_scratch *scratch, size_t capacity)
{
    if (capacity <= scratch->capacity) {
        return BT_OK;
    }
    const struct {
        void **block;
        size_t size_bytes;
    } parts[] = {
        {(void **)&scratch->ids, sizeof *scratch->ids},
        {(void **)&scratch->previous, sizeof *scratch->previous},
        {(void **)&scratch->next, sizeof *scratch->next},
        {(void **)&scratch->heap, 3 * sizeof *scratch->heap},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        BT_TRY(bt_mem_resize(parts[i].block, capacity, parts[i].size_bytes));
    }
    scratch->capacity = capacity;
    return BT_OK;
}

void bt_bpe_scratch_release(bt_bpe_scratch *scratch)
{
    bt_mem_free(scratch->ids);
    bt_mem_free(scratch->previous);
    bt_mem_free(scratch->next);
    bt_mem_free(scratch->heap);
    memset(scratch, 0, sizeof *scratch);
}

static const uint32_t NOWHERE = UINT32_MAX;

static void push_pair(const bt_bpe *bpe, bt_bpe_scratch *scratch, size_t *heap_size, uint32_t at)
{
    uint32_t right = scratch->next[at];
    uint16_t rank =
        right == NOWHERE ? BT_BPE_NONE : bt_bpe_find(bpe, scratch->ids[at], scratch->ids[right]);
    if (rank != BT_BPE_NONE) {
        heap_push(scratch->heap, heap_size, (uint64_t)rank << 32 | at);
    }
}

// Parts are a linked list over byte positions; a part that was merged into its left neighbour has
// the id BT_BPE_NONE. A heap entry is stale if the pair at its position no longer has its rank.
bt_status bt_bpe_merge_long(const bt_bpe *bpe, bt_bpe_scratch *scratch, const unsigned char *bytes,
                            size_t size_bytes, uint16_t *ids, size_t *count)
{
    *count = 0;
    if (size_bytes >= NOWHERE) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "tokenizer: a word of %zu bytes, allowed: below 4 GiB", size_bytes);
    }
    BT_TRY(scratch_reserve(scratch, size_bytes));
    uint32_t size = (uint32_t)size_bytes;
    size_t heap_size = 0;
    for (uint32_t i = 0; i < size; ++i) {
        scratch->ids[i] = bpe->byte_ids[bytes[i]];
        scratch->previous[i] = i > 0 ? i - 1 : NOWHERE;
        scratch->next[i] = i + 1 < size ? i + 1 : NOWHERE;
    }
    for (uint32_t i = 0; i < size; ++i) {
        push_pair(bpe, scratch, &heap_size, i);
    }
    while (heap_size > 0) {
        uint64_t top = heap_pop(scratch->heap, &heap_size);
        uint32_t at = (uint32_t)top;
        uint16_t rank = (uint16_t)(top >> 32);
        uint32_t right = scratch->next[at];
        if (scratch->ids[at] == BT_BPE_NONE || right == NOWHERE ||
            bt_bpe_find(bpe, scratch->ids[at], scratch->ids[right]) != rank) {
            continue;
        }
        scratch->ids[at] = rank;
        scratch->ids[right] = BT_BPE_NONE;
        scratch->next[at] = scratch->next[right];
        if (scratch->next[at] != NOWHERE) {
            scratch->previous[scratch->next[at]] = at;
        }
        push_pair(bpe, scratch, &heap_size, at);
        if (scratch->previous[at] != NOWHERE) {
            push_pair(bpe, scratch, &heap_size, scratch->previous[at]);
        }
    }
    for (uint32_t at = 0; at != NOWHERE; at = scratch->next[at]) {
        ids[(*count)++] = scratch->ids[at];
    }
    return BT_OK;
}
