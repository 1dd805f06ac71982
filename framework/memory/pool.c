// framework/memory/pool.c - caching allocator: segments, blocks, best fit
//
// A segment is one piece of device memory and belongs to one heap; a heap is the memory of one
// stream and one size class. Small requests (up to 1 MiB) share segments of 2 MiB in steps of
// 256 bytes; larger ones get segments of 2 MiB multiples, 16 MiB at least, in steps of 64 KiB. The
// two never mix, so a long-lived small block cannot pin a large segment.
//
//                 split, if a step or more is left over
//       FREE  -------------------------------------------->  LIVE
//        ^     bt_pool_alloc: smallest that fits;              |
//        |     of equal ones the oldest segment, lowest offset |
//        |                                                     |
//        +-----------------------------------------------------+
//              bt_pool_free: merged with free neighbours
//
//       a segment that is one FREE block  --bt_pool_release_cached, or before OOM-->  device
//
// Invariants, beside those of pool.h
//   4. A block's size is a function of what was asked: no block carries slack of an earlier owner.
//   5. A FREE block is in the bin of its size in its segment's heap; a LIVE one is in the map.
//   6. bt_pool_alloc takes all host memory that it needs before it changes anything;
//      bt_pool_free takes none, so it cannot fail.
// Does not defragment: live blocks never move. Streams must outlive the blocks allocated on them.
#include "framework/memory/pool.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/memory/address_map.h"
#include "framework/memory/steps.h"

enum { BIN_COUNT = 57 }; // bin b holds sizes of [2^b, 2^(b+1)) small steps; sizes are 64 bits
enum { REPORT_ROWS = 8 };

static const size_t SMALL_STEP = 256;
static const size_t LARGE_STEP = (size_t)64 << 10;
static const size_t SMALL_LIMIT = (size_t)1 << 20; // largest small request
static const size_t SMALL_SEGMENT = (size_t)2 << 20;
static const size_t LARGE_SEGMENT = (size_t)16 << 20; // smallest large segment
static const size_t SEGMENT_STEP = (size_t)2 << 20;

typedef struct pool_block {
    struct pool_segment *segment; // unowned
    size_t offset_bytes, size_bytes;
    size_t requested_bytes; // LIVE only
    const char *tag;        // LIVE only; borrowed
    bool live;
    bt_step_birth birth;                      // LIVE: in a recorded step, if it was born in one
    struct pool_block *before, *after;        // neighbours in the segment
    struct pool_block *bin_before, *bin_next; // FREE: its bin. bin_next also links the spare ones
} pool_block;

typedef struct pool_segment {
    struct pool_heap *heap; // unowned
    char *base;             // device memory, owned
    size_t size_bytes;
    uint64_t serial;   // counts segments ever made: the order of ties
    pool_block *first; // owned, with all that follow it
    struct pool_segment *before, *next;
} pool_segment;

typedef struct pool_heap {
    bt_stream stream; // unowned
    bool large;
    pool_block *bins[BIN_COUNT];
    struct pool_heap *next; // owned
} pool_heap;

struct bt_pool {
    bt_device *device; // unowned
    uint64_t limit_bytes;
    pool_heap *heaps;              // owned
    pool_segment *oldest, *newest; // owned, in order of serial
    uint64_t next_serial;
    pool_block *spare;           // owned, unused block records
    pool_segment *spare_segment; // owned, unused, or NULL
    bt_address_map live;         // block address -> block
    int64_t fail_countdown;
    bt_steps steps; // repeated steps; their arena is one of our blocks
    bt_pool_stats stats;
};

static size_t round_up(size_t size, size_t step) { return (size + step - 1) / step * step; }

static char *address_of(const pool_block *block)
{
    return block->segment->base + block->offset_bytes;
}

// ---- bins --------------------------------------------------------------------------------------

static int bin_of(size_t size_bytes) { return 63 - __builtin_clzll(size_bytes / SMALL_STEP); }

static void bin_insert(pool_block *free_block)
{
    pool_block **bin = &free_block->segment->heap->bins[bin_of(free_block->size_bytes)];
    free_block->bin_before = NULL;
    free_block->bin_next = *bin;
    if (*bin) {
        (*bin)->bin_before = free_block;
    }
    *bin = free_block;
}

static void bin_remove(pool_block *free_block)
{
    if (free_block->bin_before) {
        free_block->bin_before->bin_next = free_block->bin_next;
    } else {
        free_block->segment->heap->bins[bin_of(free_block->size_bytes)] = free_block->bin_next;
    }
    if (free_block->bin_next) {
        free_block->bin_next->bin_before = free_block->bin_before;
    }
    free_block->bin_before = free_block->bin_next = NULL;
}

// The total order that makes best fit independent of the order within a bin.
static bool fits_better(const pool_block *left, const pool_block *right)
{
    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes < right->size_bytes;
    }
    if (left->segment != right->segment) {
        return left->segment->serial < right->segment->serial;
    }
    return left->offset_bytes < right->offset_bytes;
}

static pool_block *find_best_fit(const pool_heap *heap, size_t size_bytes)
{
    pool_block *best = NULL;
    for (int bin = bin_of(size_bytes); bin < BIN_COUNT && !best; ++bin) {
        for (pool_block *it = heap->bins[bin]; it; it = it->bin_next) {
            if (it->size_bytes >= size_bytes && (!best || fits_better(it, best))) {
                best = it;
            }
        }
    }
    return best;
}

// ---- records -----------------------------------------------------------------------------------

// Makes sure that an allocation finds the records it may need: a segment, and the two blocks that
// a new segment is split into.
static bt_status reserve_records(bt_pool *pool)
{
    void *fresh = NULL;
    int missing = 2;
    for (pool_block *it = pool->spare; it && missing > 0; it = it->bin_next) {
        --missing;
    }
    while (missing-- > 0) {
        BT_TRY(bt_mem_alloc(1, sizeof(pool_block), &fresh));
        ((pool_block *)fresh)->bin_next = pool->spare;
        pool->spare = fresh;
    }
    if (!pool->spare_segment) {
        BT_TRY(bt_mem_alloc(1, sizeof(pool_segment), &fresh));
        pool->spare_segment = fresh;
    }
    return BT_OK;
}

static pool_block *take_spare(bt_pool *pool)
{
    pool_block *taken = pool->spare;
    pool->spare = taken->bin_next;
    *taken = (pool_block){0};
    return taken;
}

static void give_spare(bt_pool *pool, pool_block *unused)
{
    *unused = (pool_block){.bin_next = pool->spare};
    pool->spare = unused;
}

static bt_status find_heap(bt_pool *pool, bt_stream stream, bool large, pool_heap **out)
{
    for (pool_heap *it = pool->heaps; it; it = it->next) {
        if (it->stream == stream && it->large == large) {
            *out = it;
            return BT_OK;
        }
    }
    void *fresh = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(pool_heap), &fresh));
    *out = fresh;
    (*out)->stream = stream;
    (*out)->large = large;
    (*out)->next = pool->heaps;
    pool->heaps = *out;
    return BT_OK;
}

// ---- segments ----------------------------------------------------------------------------------

static size_t segment_size(const pool_heap *heap, size_t size_bytes)
{
    if (!heap->large) {
        return SMALL_SEGMENT;
    }
    size_t rounded = round_up(size_bytes, SEGMENT_STEP);
    return rounded < LARGE_SEGMENT ? LARGE_SEGMENT : rounded;
}

// Gets `size_bytes` from the device as one free block. Needs the reserved records.
static bt_status segment_create(bt_pool *pool, pool_heap *heap, size_t size_bytes, pool_block **out)
{
    void *base = NULL;
    uint64_t room = pool->limit_bytes - pool->stats.reserved_bytes;
    *out = NULL;
    if (pool->limit_bytes && size_bytes > room) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "the limit is reached");
    }
    BT_TRY(pool->device->backend->memory_alloc(pool->device, size_bytes, &base));
    pool_segment *fresh = pool->spare_segment;
    pool->spare_segment = NULL;
    *fresh = (pool_segment){.heap = heap, .base = base, .size_bytes = size_bytes};
    fresh->serial = pool->next_serial++;
    fresh->before = pool->newest;
    if (pool->newest) {
        pool->newest->next = fresh;
    } else {
        pool->oldest = fresh;
    }
    pool->newest = fresh;
    fresh->first = take_spare(pool);
    fresh->first->segment = fresh;
    fresh->first->size_bytes = size_bytes;
    bin_insert(fresh->first);
    bt_pool_stats *stats = &pool->stats;
    stats->reserved_bytes += size_bytes;
    if (stats->peak_reserved_bytes < stats->reserved_bytes) {
        stats->peak_reserved_bytes = stats->reserved_bytes;
    }
    ++stats->segments;
    *out = fresh->first;
    return BT_OK;
}

// Takes a segment out of every list and gives its memory back. All its blocks go to the spares.
static void segment_destroy(bt_pool *pool, pool_segment *old)
{
    while (old->first) {
        pool_block *next = old->first->after;
        if (!old->first->live) {
            bin_remove(old->first);
        }
        give_spare(pool, old->first);
        old->first = next;
    }
    *(old->before ? &old->before->next : &pool->oldest) = old->next;
    *(old->next ? &old->next->before : &pool->newest) = old->before;
    pool->stats.reserved_bytes -= old->size_bytes;
    pool->device->backend->memory_free(pool->device, old->base);
    bt_mem_free(old);
}

bt_status bt_pool_release_cached(bt_pool *pool)
{
    const bt_backend *backend = pool->device->backend;
    for (pool_segment *it = pool->oldest, *next; it; it = next) {
        next = it->next;
        if (!it->first->live && !it->first->after) {
            BT_TRY(backend->stream_synchronize(pool->device, it->heap->stream));
            segment_destroy(pool, it);
        }
    }
    return BT_OK;
}

// ---- allocation --------------------------------------------------------------------------------

static const char *bytes_text(uint64_t bytes, char text[32])
{
    if (bytes < 1 << 20) {
        (void)snprintf(text, 32, "%.1f KiB", (double)bytes / 1024);
    } else if (bytes < 1 << 30) {
        (void)snprintf(text, 32, "%.1f MiB", (double)bytes / (1 << 20));
    } else {
        (void)snprintf(text, 32, "%.2f GiB", (double)bytes / (1 << 30));
    }
    return text;
}

static bt_status out_of_memory(const bt_pool *pool, size_t size_bytes, const char *tag,
                               const char *reason)
{
    char asked[32], limit[32], allocated[32], reserved[32];
    char kept_reason[128];
    (void)snprintf(kept_reason, sizeof kept_reason, "%s", reason);
    bt_str largest = {0};
    bt_pool_report(pool, REPORT_ROWS, &largest);
    bt_status status = bt_error(
        BT_STATUS_OUT_OF_MEMORY,
        "%s: asked %s (%zu bytes) for \"%s\"; limit %s, allocated %s, reserved %s (%s); "
        "largest live blocks:\n%s",
        pool->device->backend->name, bytes_text(size_bytes, asked), size_bytes, tag,
        pool->limit_bytes ? bytes_text(pool->limit_bytes, limit) : "none",
        bytes_text(pool->stats.allocated_bytes, allocated),
        bytes_text(pool->stats.reserved_bytes, reserved), kept_reason, bt_str_text(&largest));
    bt_str_release(&largest);
    return status;
}

// A free block of at least size_bytes: cached, or from a new segment; before giving up, cached
// segments go back and a segment of just this size is tried.
static bt_status obtain(bt_pool *pool, pool_heap *heap, size_t size_bytes, pool_block **out)
{
    *out = find_best_fit(heap, size_bytes);
    if (*out) {
        return BT_OK;
    }
    bt_status status = segment_create(pool, heap, segment_size(heap, size_bytes), out);
    if (status != BT_STATUS_OUT_OF_MEMORY) {
        return status;
    }
    BT_TRY(bt_pool_release_cached(pool));
    return segment_create(pool, heap, size_bytes, out);
}

// Cuts a free block, which is in no bin, to size_bytes; the rest becomes a free block.
static void split(bt_pool *pool, pool_block *whole, size_t size_bytes)
{
    if (whole->size_bytes == size_bytes) {
        return;
    }
    pool_block *rest = take_spare(pool);
    rest->segment = whole->segment;
    rest->offset_bytes = whole->offset_bytes + size_bytes;
    rest->size_bytes = whole->size_bytes - size_bytes;
    rest->before = whole;
    rest->after = whole->after;
    if (rest->after) {
        rest->after->before = rest;
    }
    whole->after = rest;
    whole->size_bytes = size_bytes;
    bin_insert(rest);
}

// Appends the right neighbour, which is in no bin, to the left one.
static void merge(bt_pool *pool, pool_block *left, pool_block *right)
{
    left->size_bytes += right->size_bytes;
    left->after = right->after;
    if (left->after) {
        left->after->before = left;
    }
    give_spare(pool, right);
}

static void count_allocation(bt_pool_stats *stats, const pool_block *taken)
{
    stats->requested_bytes += taken->requested_bytes;
    stats->allocated_bytes += taken->size_bytes;
    if (stats->peak_allocated_bytes < stats->allocated_bytes) {
        stats->peak_allocated_bytes = stats->allocated_bytes;
    }
    ++stats->allocations;
    ++stats->live_blocks;
}

bt_status bt_pool_alloc(bt_pool *pool, size_t size_bytes, bt_stream stream, const char *tag,
                        void **out)
{
    *out = NULL;
    tag = tag ? tag : "untagged";
    if (pool->fail_countdown > 0 && --pool->fail_countdown == 0) {
        return out_of_memory(pool, size_bytes, tag, "failure injected by a test");
    }
    if (size_bytes > SIZE_MAX / 2) {
        return out_of_memory(pool, size_bytes, tag, "more than can be addressed");
    }
    bool large = size_bytes > SMALL_LIMIT;
    size_t step = large ? LARGE_STEP : SMALL_STEP;
    size_t rounded = round_up(size_bytes ? size_bytes : 1, step);
    pool_heap *from = NULL;
    pool_block *taken = NULL;
    *out = large && !stream ? bt_steps_take(&pool->steps, rounded) : NULL;
    if (*out) {
        ++pool->stats.allocations;
        return BT_OK;
    }
    BT_TRY(find_heap(pool, stream, large, &from));
    BT_TRY(reserve_records(pool));
    BT_TRY(bt_address_map_reserve(&pool->live, pool->live.count + 1));
    bt_status status = obtain(pool, from, rounded, &taken);
    if (status == BT_STATUS_OUT_OF_MEMORY) {
        return out_of_memory(pool, size_bytes, tag, bt_error_message());
    }
    BT_TRY(status);
    bin_remove(taken);
    split(pool, taken, rounded);
    taken->live = true;
    taken->tag = tag;
    taken->requested_bytes = size_bytes;
    bt_address_map_insert(&pool->live, address_of(taken), taken);
    count_allocation(&pool->stats, taken);
    if (large && !stream) {
        bt_steps_born(&pool->steps, rounded, &taken->birth);
    }
    *out = address_of(taken);
    return BT_OK;
}

void bt_pool_free(bt_pool *pool, void *address)
{
    if (!address || bt_steps_give(&pool->steps, address)) {
        return;
    }
    pool_block *freed = bt_address_map_remove(&pool->live, address);
    assert(freed && "bt_pool_free: not a live block of this pool");
    if (!freed) {
        return;
    }
    bt_steps_died(&pool->steps, &freed->birth);
    pool->stats.requested_bytes -= freed->requested_bytes;
    pool->stats.allocated_bytes -= freed->size_bytes;
    --pool->stats.live_blocks;
    freed->live = false;
    freed->tag = NULL;
    freed->requested_bytes = 0;
    if (freed->after && !freed->after->live) {
        bin_remove(freed->after);
        merge(pool, freed, freed->after);
    }
    if (freed->before && !freed->before->live) {
        pool_block *left = freed->before;
        bin_remove(left);
        merge(pool, left, freed);
        freed = left;
    }
    bin_insert(freed);
}

// ---- repeated steps ----------------------------------------------------------------------------

static void drop_arena(bt_pool *pool)
{
    char *arena = pool->steps.arena;
    pool->steps.arena = NULL;
    pool->stats.arena_bytes = 0;
    bt_pool_free(pool, arena);
}

void bt_pool_step_begin(bt_pool *pool, int step)
{
    if (bt_steps_begin(&pool->steps, step)) {
        drop_arena(pool); // the step that is recorded may use its memory
    }
}

// Gets an arena that is large enough for every plan. What was cached for the recorded step is given
// back first: the arena takes its place.
void bt_pool_step_end(bt_pool *pool)
{
    void *arena = NULL;
    size_t size_bytes = bt_steps_end(&pool->steps);
    if (size_bytes == 0) {
        return;
    }
    if (bt_pool_release_cached(pool) == BT_OK &&
        bt_pool_alloc(pool, size_bytes, NULL, "repeated steps", &arena) == BT_OK) {
        pool->steps.arena = arena;
        pool->stats.arena_bytes = size_bytes;
    } else {
        bt_error_clear(); // without an arena the pool serves the steps itself
    }
}

// ---- life and numbers --------------------------------------------------------------------------

bt_status bt_pool_create(bt_device *device, uint64_t limit_bytes, bt_pool **out)
{
    void *fresh = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_pool), &fresh));
    *out = fresh;
    (*out)->device = device;
    (*out)->limit_bytes = limit_bytes;
    return BT_OK;
}

void bt_pool_destroy(bt_pool *pool)
{
    if (!pool) {
        return;
    }
    drop_arena(pool);
    bt_steps_release(&pool->steps);
    assert(pool->stats.live_blocks == 0 && "bt_pool_destroy: blocks are still live");
    while (pool->oldest) {
        // A device that is broken cannot be waited for; its memory is given back all the same.
        (void)pool->device->backend->stream_synchronize(pool->device, pool->oldest->heap->stream);
        segment_destroy(pool, pool->oldest);
    }
    while (pool->heaps) {
        pool_heap *next = pool->heaps->next;
        bt_mem_free(pool->heaps);
        pool->heaps = next;
    }
    while (pool->spare) {
        pool_block *next = pool->spare->bin_next;
        bt_mem_free(pool->spare);
        pool->spare = next;
    }
    bt_address_map_release(&pool->live);
    bt_mem_free(pool->spare_segment);
    bt_mem_free(pool);
}

void bt_pool_stats_read(const bt_pool *pool, bt_pool_stats *out) { *out = pool->stats; }

void bt_pool_reset_peak(bt_pool *pool)
{
    pool->stats.peak_allocated_bytes = pool->stats.allocated_bytes;
    pool->stats.peak_reserved_bytes = pool->stats.reserved_bytes;
}

double bt_pool_fragmentation(const bt_pool *pool)
{
    uint64_t free_bytes = pool->stats.reserved_bytes - pool->stats.allocated_bytes;
    size_t largest = 0;
    for (const pool_segment *it = pool->oldest; it; it = it->next) {
        for (const pool_block *part = it->first; part; part = part->after) {
            if (!part->live && part->size_bytes > largest) {
                largest = part->size_bytes;
            }
        }
    }
    return free_bytes ? 1 - (double)largest / (double)free_bytes : 0;
}

void bt_pool_fail_at(bt_pool *pool, int64_t n) { pool->fail_countdown = n; }

// ---- report ------------------------------------------------------------------------------------

typedef struct tag_total {
    const char *tag;
    uint64_t bytes, blocks;
} tag_total;

static int by_tag(const void *left, const void *right)
{
    return strcmp(((const tag_total *)left)->tag, ((const tag_total *)right)->tag);
}

static int by_bytes(const void *left, const void *right)
{
    const tag_total *a = left, *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? 1 : -1;
    }
    return strcmp(a->tag, b->tag);
}

// One entry per tag, largest first. Returns how many.
static size_t total_by_tag(const bt_pool *pool, tag_total *totals)
{
    size_t count = 0, tags = 0;
    for (const pool_segment *it = pool->oldest; it; it = it->next) {
        for (const pool_block *part = it->first; part; part = part->after) {
            if (part->live) {
                totals[count++] = (tag_total){part->tag, part->size_bytes, 1};
            }
        }
    }
    qsort(totals, count, sizeof *totals, by_tag);
    for (size_t i = 0; i < count; ++i) {
        if (tags && strcmp(totals[tags - 1].tag, totals[i].tag) == 0) {
            totals[tags - 1].bytes += totals[i].bytes;
            ++totals[tags - 1].blocks;
        } else {
            totals[tags++] = totals[i];
        }
    }
    qsort(totals, tags, sizeof *totals, by_bytes);
    return tags;
}

void bt_pool_report(const bt_pool *pool, int rows, bt_str *out)
{
    void *memory = NULL;
    if (pool->stats.live_blocks == 0) {
        bt_str_append(out, "  none\n");
        return;
    }
    if (bt_mem_alloc(pool->stats.live_blocks, sizeof(tag_total), &memory) != BT_OK) {
        bt_str_append(out, "  not listed: no host memory\n");
        return;
    }
    tag_total *totals = memory;
    size_t tags = total_by_tag(pool, totals);
    for (size_t i = 0; i < tags && i < (size_t)(rows > 0 ? rows : 0); ++i) {
        char text[32];
        bt_str_format(out, "  %10s  %s (%llu block%s)\n", bytes_text(totals[i].bytes, text),
                      totals[i].tag, (unsigned long long)totals[i].blocks,
                      totals[i].blocks == 1 ? "" : "s");
    }
    bt_mem_free(memory);
}

// ---- check -------------------------------------------------------------------------------------

static bool in_its_bin(const pool_block *free_block)
{
    const pool_block *it = free_block->segment->heap->bins[bin_of(free_block->size_bytes)];
    while (it && it != free_block) {
        it = it->bin_next;
    }
    return it == free_block;
}

// Walks the blocks of a segment and adds what is live to `seen`.
static bt_status check_segment(const bt_pool *pool, const pool_segment *it, bt_pool_stats *seen)
{
    size_t end = 0;
    const pool_block *before = NULL;
    for (const pool_block *part = it->first; part; before = part, part = part->after) {
        size_t step = it->heap->large ? LARGE_STEP : SMALL_STEP;
        if (part->offset_bytes != end || part->before != before || part->segment != it ||
            part->size_bytes == 0) {
            return bt_error(BT_STATUS_INTERNAL, "pool invariant 1: gap or overlap at %zu of %llu",
                            end, (unsigned long long)it->serial);
        }
        if (before && !before->live && !part->live) {
            return bt_error(BT_STATUS_INTERNAL, "pool invariant 1: free neighbours at %zu", end);
        }
        if (part->live &&
            part->size_bytes != round_up(part->requested_bytes ? part->requested_bytes : 1, step)) {
            return bt_error(BT_STATUS_INTERNAL, "pool invariant 4: %zu bytes hold %zu",
                            part->size_bytes, part->requested_bytes);
        }
        if (part->live ? bt_address_map_find(&pool->live, address_of(part)) != part
                       : !in_its_bin(part)) {
            return bt_error(BT_STATUS_INTERNAL, "pool invariant 5: block at %zu is not indexed",
                            end);
        }
        seen->live_blocks += part->live;
        seen->allocated_bytes += part->live ? part->size_bytes : 0;
        seen->requested_bytes += part->requested_bytes;
        end += part->size_bytes;
    }
    seen->reserved_bytes += it->size_bytes;
    return end == it->size_bytes
               ? BT_OK
               : bt_error(BT_STATUS_INTERNAL, "pool invariant 1: blocks end at %zu of %zu", end,
                          it->size_bytes);
}

bt_status bt_pool_check(const bt_pool *pool)
{
    const bt_pool_stats *stats = &pool->stats;
    bt_pool_stats seen = {0};
    for (const pool_segment *it = pool->oldest; it; it = it->next) {
        BT_TRY(check_segment(pool, it, &seen));
        if (it->next && it->next->serial <= it->serial) {
            return bt_error(BT_STATUS_INTERNAL, "pool invariant 3: segments out of order");
        }
    }
    if (seen.allocated_bytes != stats->allocated_bytes ||
        seen.reserved_bytes != stats->reserved_bytes || seen.live_blocks != stats->live_blocks ||
        seen.requested_bytes != stats->requested_bytes || pool->live.count != seen.live_blocks) {
        return bt_error(BT_STATUS_INTERNAL, "pool: statistics disagree with the blocks");
    }
    if (stats->allocated_bytes > stats->reserved_bytes ||
        (pool->limit_bytes && stats->reserved_bytes > pool->limit_bytes)) {
        return bt_error(BT_STATUS_INTERNAL, "pool invariant 2: allocated, reserved, limit");
    }
    return BT_OK;
}
