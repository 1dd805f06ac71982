// framework/memory/pool.c - caching allocator: segments, blocks, best fit
//
// A segment is one allocation of device memory and belongs to one heap; a heap is the memory of one
// stream and one size class. Small requests (up to 1 MiB) share segments of 2 MiB in steps of 256
// bytes; larger ones get segments of multiples of 2 MiB, at least 16 MiB, in steps of 64 KiB. The
// classes never mix, so a long-lived small block cannot pin a large segment.
//
//                 split if at least one step remains
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
//   4. A block's size is a function of the request: no block keeps slack of an earlier owner.
//   5. A FREE block is in the bin of its size in its segment's heap; a LIVE one is in the map.
//   6. bt_pool_alloc allocates all host memory that it needs before it changes anything;
//      bt_pool_free allocates none, so it cannot fail.
// Does not defragment: live blocks never move. A stream must outlive its blocks and its cached
// memory, or be retired (bt_pool_retire_stream).
#include "framework/memory/pool.h"

#include <assert.h>
#include <stdio.h>

#include "framework/base/mem.h"
#include "framework/memory/pool_internal.h"

enum { REPORT_ROWS = 8 };

static const size_t SMALL_SEGMENT = (size_t)2 << 20;
static const size_t LARGE_SEGMENT = (size_t)16 << 20; // smallest large segment
static const size_t SEGMENT_STEP = (size_t)2 << 20;

// ---- bins --------------------------------------------------------------------------------------

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

// Ensures that there are records for `missing` blocks and a segment. An allocation may need two
// blocks, those that a new segment is split into.
static bt_status reserve_records(bt_pool *pool, size_t missing)
{
    void *fresh = NULL;
    for (pool_block *it = pool->spare; it && missing > 0; it = it->bin_next) {
        --missing;
    }
    for (; missing > 0; --missing) {
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

// Removes a segment from every list and frees its memory. Its blocks become spare records.
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
        "%s: requested %s (%zu bytes) for \"%s\"; limit %s, allocated %s, reserved %s (%s); "
        "largest live blocks:\n%s",
        pool->device->backend->name, bt_pool_bytes_text(size_bytes, asked), size_bytes, tag,
        pool->limit_bytes ? bt_pool_bytes_text(pool->limit_bytes, limit) : "none",
        bt_pool_bytes_text(pool->stats.allocated_bytes, allocated),
        bt_pool_bytes_text(pool->stats.reserved_bytes, reserved), kept_reason,
        bt_str_text(&largest));
    bt_str_release(&largest);
    return status;
}

// Splits a free block, which is in no bin, at size_bytes; the rest becomes a free block.
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

// Merges the right neighbor, which is in no bin, into the left one.
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
    ++stats->live_blocks;
}

// Allocates part of a free block, which is in no bin; the rest stays free. Needs a reserved record,
// and capacity in the map.
static void make_live(bt_pool *pool, pool_block *taken, size_t size_bytes, size_t requested_bytes,
                      const char *tag)
{
    split(pool, taken, size_bytes);
    taken->live = true;
    taken->tag = tag;
    taken->requested_bytes = requested_bytes;
    bt_address_map_insert(&pool->live, address_of(taken), taken);
    count_allocation(&pool->stats, taken);
}

static void make_free(bt_pool *pool, pool_block *freed)
{
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

// ---- releasing the arena -----------------------------------------------------------------------

// Turns a block of the arena, whose memory is free in `segment`, into a live block of the pool.
static void adopt(bt_pool *pool, const pool_segment *segment, const char *address,
                  const bt_step_block *was)
{
    const size_t offset = (size_t)(address - segment->base);
    pool_block *part = segment->first;
    while (part->offset_bytes + part->size_bytes <= offset) {
        part = part->after;
    }
    bin_remove(part);
    if (part->offset_bytes < offset) {
        split(pool, part, offset - part->offset_bytes);
        bin_insert(part);
        part = part->after;
        bin_remove(part);
    }
    make_live(pool, part, was->size_bytes, was->requested_bytes, was->tag);
}

// Live blocks of the arena keep their addresses and become blocks of the pool; the rest of the
// arena becomes free. False if there is no arena, or no host memory; nothing has changed then.
static bool dissolve_arena(bt_pool *pool)
{
    bt_steps *steps = &pool->steps;
    const size_t count = steps->live.count;
    pool_block *whole = bt_address_map_find(&pool->live, steps->arena);
    bt_error_quiet_begin();
    const bool can = whole && reserve_records(pool, 2 * count + 2) == BT_OK &&
                     bt_address_map_reserve(&pool->live, pool->live.count + count) == BT_OK;
    bt_error_quiet_end();
    if (!can) {
        return false;
    }
    const pool_segment *segment = whole->segment;
    (void)bt_address_map_remove(&pool->live, steps->arena);
    make_free(pool, whole);
    for (size_t i = 0; i < steps->live.capacity; ++i) {
        if (steps->live.slots[i].address) {
            adopt(pool, segment, steps->live.slots[i].address, steps->live.slots[i].value);
        }
    }
    bt_steps_lose_arena(steps);
    pool->stats.arena_bytes = 0;
    return true;
}

// ---- allocating and freeing --------------------------------------------------------------------

// A free block of at least size_bytes: cached, or from a new segment. Before it fails, it returns
// cached segments and tries a segment of exactly this size, then releases the arena.
static bt_status obtain(bt_pool *pool, pool_heap *heap, size_t size_bytes, bool aside,
                        pool_block **out)
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
    status = segment_create(pool, heap, size_bytes, out);
    if (status != BT_STATUS_OUT_OF_MEMORY || aside || !dissolve_arena(pool)) {
        return status;
    }
    BT_TRY(reserve_records(pool, 2));
    *out = find_best_fit(heap, size_bytes);
    if (*out) {
        return BT_OK;
    }
    BT_TRY(bt_pool_release_cached(pool));
    return segment_create(pool, heap, size_bytes, out);
}

static bt_status allocate(bt_pool *pool, size_t size_bytes, bt_stream stream, const char *tag,
                          bool aside, void **out)
{
    *out = NULL;
    tag = tag ? tag : "untagged";
    if (pool->fail_countdown > 0 && --pool->fail_countdown == 0) {
        return out_of_memory(pool, size_bytes, tag, "failure injected by a test");
    }
    if (size_bytes > SIZE_MAX / 2) {
        return out_of_memory(pool, size_bytes, tag, "more than the address space");
    }
    bool large = size_bytes > SMALL_LIMIT;
    size_t step = large ? LARGE_STEP : SMALL_STEP;
    size_t rounded = round_up(size_bytes ? size_bytes : 1, step);
    pool_heap *from = NULL;
    pool_block *taken = NULL;
    const bool planned = !stream && !aside;
    if (!planned) {
        bt_steps_outside(&pool->steps);
    }
    *out = planned ? bt_steps_take(&pool->steps, rounded, size_bytes, tag) : NULL;
    if (*out) {
        ++pool->stats.allocations;
        return BT_OK;
    }
    if (planned && bt_steps_abandoned(&pool->steps)) {
        (void)dissolve_arena(pool); // without host memory for it, it stays
    }
    BT_TRY(find_heap(pool, stream, large, &from));
    BT_TRY(reserve_records(pool, 2));
    BT_TRY(bt_address_map_reserve(&pool->live, pool->live.count + 1));
    bt_status status = obtain(pool, from, rounded, aside, &taken);
    if (status == BT_STATUS_OUT_OF_MEMORY) {
        return out_of_memory(pool, size_bytes, tag, bt_error_message());
    }
    BT_TRY(status);
    bin_remove(taken);
    make_live(pool, taken, rounded, size_bytes, tag);
    ++pool->stats.allocations;
    if (planned) {
        bt_steps_born(&pool->steps, rounded, &taken->birth);
    }
    *out = address_of(taken);
    return BT_OK;
}

bt_status bt_pool_alloc(bt_pool *pool, size_t size_bytes, bt_stream stream, const char *tag,
                        void **out)
{
    return allocate(pool, size_bytes, stream, tag, false, out);
}

bt_status bt_pool_alloc_aside(bt_pool *pool, size_t size_bytes, bt_stream stream, const char *tag,
                              void **out)
{
    return allocate(pool, size_bytes, stream, tag, true, out);
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
    make_free(pool, freed);
}

bt_status bt_pool_free_behind(bt_pool *pool, void *address, bt_event event)
{
    const pool_block *block = address ? bt_address_map_find(&pool->live, address) : NULL;
    // the arena belongs to the NULL stream
    const bt_stream own = block ? block->segment->heap->stream : NULL;
    bt_status status =
        address ? pool->device->backend->event_wait(pool->device, event, own) : BT_OK;
    bt_pool_free(pool, address);
    return status;
}

// ---- streams -----------------------------------------------------------------------------------

static void move_segments(bt_pool *pool, pool_heap *from, pool_heap *to)
{
    for (pool_segment *it = pool->oldest; it; it = it->next) {
        if (it->heap != from) {
            continue;
        }
        for (pool_block *part = it->first; part; part = part->after) {
            if (!part->live) {
                bin_remove(part);
            }
        }
        it->heap = to;
        for (pool_block *part = it->first; part; part = part->after) {
            if (!part->live) {
                bin_insert(part);
            }
        }
    }
}

// Moves a heap of an idle stream to the default stream. False if the heap no longer exists.
static bool hand_over(bt_pool *pool, pool_heap *old)
{
    pool_heap *heir = pool->heaps;
    while (heir && (heir->stream || heir->large != old->large)) {
        heir = heir->next;
    }
    if (!heir) {
        old->stream = NULL;
        return true;
    }
    move_segments(pool, old, heir);
    return false;
}

bt_status bt_pool_retire_stream(bt_pool *pool, bt_stream stream)
{
    bt_status status = BT_OK;
    bool waited = false;
    pool_heap **link = &pool->heaps;
    while (*link) {
        pool_heap *old = *link;
        const bool retired = stream && old->stream == stream;
        if (retired && !waited) {
            status = pool->device->backend->stream_synchronize(pool->device, stream);
            waited = true;
        }
        if (retired && !hand_over(pool, old)) {
            *link = old->next;
            bt_mem_free(old);
        } else {
            link = &old->next;
        }
    }
    return status;
}

// ---- repeated steps ----------------------------------------------------------------------------

static void drop_arena(bt_pool *pool)
{
    char *arena = pool->steps.arena;
    bt_steps_set_arena(&pool->steps, NULL);
    pool->stats.arena_bytes = 0;
    bt_pool_free(pool, arena);
}

void bt_pool_step_begin(bt_pool *pool, int step)
{
    if (bt_steps_begin(&pool->steps, step)) {
        drop_arena(pool); // the recorded step may use its memory
    }
}

// Allocates an arena that is large enough for every plan. Memory cached for the recorded step is
// freed first: the arena replaces it.
void bt_pool_step_end(bt_pool *pool)
{
    void *arena = NULL;
    size_t size_bytes = bt_steps_end(&pool->steps);
    if (size_bytes == 0) {
        return;
    }
    bt_error_quiet_begin(); // without an arena the pool serves the steps
    if (bt_pool_release_cached(pool) == BT_OK &&
        bt_pool_alloc(pool, size_bytes, NULL, "repeated steps", &arena) == BT_OK) {
        bt_steps_set_arena(&pool->steps, arena);
        pool->stats.arena_bytes = size_bytes;
    }
    bt_error_quiet_end();
}

uint64_t bt_pool_step_frozen(const bt_pool *pool, int step)
{
    return bt_steps_frozen(&pool->steps, step);
}

// ---- create, destroy, statistics ---------------------------------------------------------------

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
    bt_error_quiet_begin();
    drop_arena(pool);
    bt_steps_release(&pool->steps);
    assert(pool->stats.live_blocks == 0 && "bt_pool_destroy: blocks are still live");
    while (pool->oldest) {
        // A broken device cannot be waited for; its memory is freed anyway.
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
    bt_error_quiet_end();
}

void bt_pool_stats_read(const bt_pool *pool, bt_pool_stats *out) { *out = pool->stats; }

void bt_pool_reset_peak(bt_pool *pool)
{
    pool->stats.peak_allocated_bytes = pool->stats.allocated_bytes;
    pool->stats.peak_reserved_bytes = pool->stats.reserved_bytes;
}

void bt_pool_fail_at(bt_pool *pool, int64_t n) { pool->fail_countdown = n; }
