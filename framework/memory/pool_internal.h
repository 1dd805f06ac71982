// framework/memory/pool_internal.h - segments, blocks and heaps; internal to this folder
#ifndef BT_MEMORY_POOL_INTERNAL_H
#define BT_MEMORY_POOL_INTERNAL_H

#include <stdbool.h>

#include "framework/memory/address_map.h"
#include "framework/memory/pool.h"
#include "framework/memory/steps.h"

enum { BIN_COUNT = 57 }; // bin b holds sizes of [2^b, 2^(b+1)) small steps; sizes are 64 bits

static const size_t SMALL_LIMIT = (size_t)1 << 20; // largest small request
static const size_t SMALL_STEP = 256;
static const size_t LARGE_STEP = (size_t)64 << 10;

typedef struct pool_block {
    struct pool_segment *segment; // unowned
    size_t offset_bytes, size_bytes;
    size_t requested_bytes; // LIVE only
    const char *tag;        // LIVE only; borrowed
    bool live;
    bt_step_birth birth;                      // LIVE: its place in a recorded step, if allocated in
                                              // one
    struct pool_block *before, *after;        // neighbours in the segment
    struct pool_block *bin_before, *bin_next; // FREE: its bin. bin_next also links spare records
} pool_block;

typedef struct pool_segment {
    struct pool_heap *heap; // unowned
    char *base;             // device memory, owned
    size_t size_bytes;
    uint64_t serial;   // number of the segment, ascending: breaks ties
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

// "1.5 MiB"; returns text.
const char *bt_pool_bytes_text(uint64_t bytes, char text[32]);

static inline size_t round_up(size_t size, size_t step) { return (size + step - 1) / step * step; }

static inline char *address_of(const pool_block *block)
{
    return block->segment->base + block->offset_bytes;
}

static inline int bin_of(size_t size_bytes)
{
    return 63 - __builtin_clzll(size_bytes / SMALL_STEP);
}

#endif
