// framework/memory/pool_report.c - live memory by tag, and the check of the pool's invariants
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/memory/pool_internal.h"

const char *bt_pool_bytes_text(uint64_t bytes, char text[32])
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
        bt_str_format(out, "  %10s  %s (%llu block%s)\n", bt_pool_bytes_text(totals[i].bytes, text),
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

// Visits the blocks of a segment and adds live ones to `seen`.
static bt_status check_segment(const bt_pool *pool, const pool_segment *it, bt_pool_stats *seen)
{
    size_t end = 0;
    const pool_block *before = NULL;
    for (const pool_block *part = it->first; part; before = part, part = part->after) {
        // Blocks of a released arena may be small ones in a large segment.
        const size_t step = part->requested_bytes > SMALL_LIMIT ? LARGE_STEP : SMALL_STEP;
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
