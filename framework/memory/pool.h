// framework/memory/pool.h - caching allocator for the memory of one device
//
// Blocks come from large segments of the device, are split on demand, merged with their free
// neighbours and kept for reuse. Stream-aware: a block freed on the stream that used it is
// immediately reusable on that stream; another stream can get it only after bt_pool_release_cached.
// A block that another stream used is freed after an event of that stream.
//
// Invariants (checked by bt_pool_check)
//   1. Blocks tile their segment without gap or overlap; two free neighbours are merged.
//   2. allocated <= reserved <= limit, in bytes, at all times.
//   3. The same sequence of calls gives the same offsets in the same segments: addresses depend
//      only on the calls.
// Not thread-safe: one pool per training thread.
#ifndef BT_MEMORY_POOL_H
#define BT_MEMORY_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "framework/device/device.h"

typedef struct bt_pool bt_pool;

typedef struct bt_pool_stats {
    uint64_t requested_bytes;      // live, as requested
    uint64_t allocated_bytes;      // live, after rounding
    uint64_t peak_allocated_bytes; // since the last bt_pool_reset_peak
    uint64_t reserved_bytes;       // allocated from the device
    uint64_t peak_reserved_bytes;
    uint64_t allocations; // calls that succeeded
    uint64_t segments;    // requests to the device
    uint64_t live_blocks;
    uint64_t arena_bytes; // of repeated steps; part of the allocated bytes, as one block
} bt_pool_stats;

// `device` is borrowed and must outlive the pool. limit_bytes bounds reserved memory; 0: no limit.
BT_CHECKED bt_status bt_pool_create(bt_device *device, uint64_t limit_bytes, bt_pool **out);
// Frees all device memory. Blocks that are still live are a bug of the caller: asserted.
void bt_pool_destroy(bt_pool *pool);

// `tag` names the block in out-of-memory reports; it is borrowed and must outlive the block.
// size_bytes 0 yields a valid block. Aligned to 256 bytes, contents undefined.
// Errors  OUT_OF_MEMORY with a report: requested, limit, in use, and the largest live blocks by tag
BT_CHECKED bt_status bt_pool_alloc(bt_pool *pool, size_t size_bytes, bt_stream stream,
                                   const char *tag, void **out);
// The same for optional memory that is needed once: not part of a repeated step, and never releases
// an arena.
BT_CHECKED bt_status bt_pool_alloc_aside(bt_pool *pool, size_t size_bytes, bt_stream stream,
                                         const char *tag, void **out);
void bt_pool_free(bt_pool *pool, void *block);
// The same for a block that another stream may still use until `event`, recorded there: the block's
// own stream waits for the event, so the next use of the memory is ordered after that use.
// Errors  those of the wait; the block is freed anyway
BT_CHECKED bt_status bt_pool_free_behind(bt_pool *pool, void *block, bt_event event);
// Call before a stream is destroyed. Waits for it; its memory then belongs to the default stream.
// Sync    the stream
// Errors  faults of the stream; its memory is moved anyway
BT_CHECKED bt_status bt_pool_retire_stream(bt_pool *pool, bt_stream stream);

// ---- a repeated step ----------------------------------------------------------------------------
// Begin and end enclose a step that is repeated (`step` is one of up to BT_POOL_STEPS kinds, such
// as training and evaluation; steps do not nest). The first time, the allocations of the default
// stream are recorded; from then on they are placed in one arena, shared by all kinds of step,
// without fragmentation and at the same addresses each time. A step that deviates is served by the
// pool as usual, which releases the arena for it, and recorded again. The arena is also released
// before an allocation fails. Blocks that outlive a step are never in it.
enum { BT_POOL_STEPS = 2 };
void bt_pool_step_begin(bt_pool *pool, int step);
// After recording: synchronizes the device and allocates the arena; if there is no memory for it,
// the pool continues without.
void bt_pool_step_end(bt_pool *pool);
// Identifies the plan and the arena of a kind of step whose last replay was served entirely by the
// arena: while the number is the same, so are all its addresses. 0: no such replay yet, or some
// blocks are outside of the arena. Code that repeats the step's device work at these addresses (a
// captured graph) neither begins nor ends it.
uint64_t bt_pool_step_frozen(const bt_pool *pool, int step);

// Frees free segments (synchronizes the device first).
BT_CHECKED bt_status bt_pool_release_cached(bt_pool *pool);
void bt_pool_stats_read(const bt_pool *pool, bt_pool_stats *out);
// Sets the peaks to the currently live memory.
void bt_pool_reset_peak(bt_pool *pool);
// Makes the n-th bt_pool_alloc from now (1: the next) fail as if the device were full; 0: off.
void bt_pool_fail_at(bt_pool *pool, int64_t n);
// The largest live blocks by tag, at most `rows`, one line each.
void bt_pool_report(const bt_pool *pool, int rows, bt_str *out);
// Verifies the invariants. Errors  INTERNAL, naming the first that is broken
BT_CHECKED bt_status bt_pool_check(const bt_pool *pool);

#endif
