// framework/memory/pool.h - caching allocator for the memory of one device
//
// Blocks come from large segments of the device, are split on demand, merged with their free
// neighbours and kept for reuse. Stream-aware: a block freed on the stream that used it is at once
// reusable on that stream; another stream gets it only after bt_pool_release_cached. A block that
// another stream used is freed behind an event of that stream.
//
// Invariants (checked by bt_pool_check)
//   1. Blocks tile their segment without gap or overlap; two free neighbours are merged.
//   2. allocated <= reserved <= limit, in bytes, at all times.
//   3. The same sequence of calls gives the same offsets in the same segments: addresses depend
//      on nothing else.
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
    uint64_t requested_bytes;      // live, as asked for
    uint64_t allocated_bytes;      // live, after rounding
    uint64_t peak_allocated_bytes; // since the last bt_pool_reset_peak
    uint64_t reserved_bytes;       // held from the device
    uint64_t peak_reserved_bytes;
    uint64_t allocations; // calls that succeeded
    uint64_t segments;    // requests to the device
    uint64_t live_blocks;
    uint64_t arena_bytes; // of repeated steps; part of the allocated bytes, as one block
} bt_pool_stats;

// `device` is borrowed and must outlive the pool. limit_bytes bounds reserved memory; 0: no limit.
BT_CHECKED bt_status bt_pool_create(bt_device *device, uint64_t limit_bytes, bt_pool **out);
// Returns everything to the device. Blocks still live are an error of the caller: asserted.
void bt_pool_destroy(bt_pool *pool);

// `tag` names the block in out-of-memory reports; it is borrowed and must outlive the block.
// size_bytes 0 yields a valid block. Aligned to 256 bytes, contents undefined.
// Errors  OUT_OF_MEMORY with a report: asked, limit, in use, and the largest live blocks by tag
BT_CHECKED bt_status bt_pool_alloc(bt_pool *pool, size_t size_bytes, bt_stream stream,
                                   const char *tag, void **out);
// The same for memory that is needed once and can be done without: not part of a repeated step, and
// an arena stays.
BT_CHECKED bt_status bt_pool_alloc_aside(bt_pool *pool, size_t size_bytes, bt_stream stream,
                                         const char *tag, void **out);
void bt_pool_free(bt_pool *pool, void *block);
// The same for a block that another stream may still use until `event`, recorded there: the block's
// own stream waits for the event, so the next user of the memory is ordered behind that use.
// Errors  those of the wait; the block is free all the same
BT_CHECKED bt_status bt_pool_free_behind(bt_pool *pool, void *block, bt_event event);
// Call before a stream is destroyed. Waits for it; its memory then belongs to the default stream.
// Sync    the stream
// Errors  faults of the stream, whose memory is handed over all the same
BT_CHECKED bt_status bt_pool_retire_stream(bt_pool *pool, bt_stream stream);

// ---- a repeated step ----------------------------------------------------------------------------
// Between begin and end lies a step that is repeated (`step` tells apart up to BT_POOL_STEPS kinds
// of it, such as training and evaluation; steps do not nest). The first time the allocations of the
// default stream are recorded; from then on they are placed in one arena, shared by all kinds of
// step, without fragmentation and at the same addresses each time. A step that turns out otherwise
// is served by the pool as ever, which takes the arena apart for it, and recorded anew. The arena
// is also taken apart before an allocation fails. What outlives a step is never in it.
enum { BT_POOL_STEPS = 2 };
void bt_pool_step_begin(bt_pool *pool, int step);
// After a record: synchronises the device and gets the arena; when there is no memory for it, the
// pool goes on without.
void bt_pool_step_end(bt_pool *pool);
// Names the plan and the arena of a kind of step of which a replay was served by the arena alone:
// as long as the number is the same, so are all its addresses. 0: the step is not known so yet, or
// has blocks that the arena does not hold. Whoever repeats the step's device work by these
// addresses (a captured graph) neither begins nor ends it.
uint64_t bt_pool_step_frozen(const bt_pool *pool, int step);

// Gives free segments back to the device (synchronises it first).
BT_CHECKED bt_status bt_pool_release_cached(bt_pool *pool);
void bt_pool_stats_read(const bt_pool *pool, bt_pool_stats *out);
// Peaks restart from what is live now.
void bt_pool_reset_peak(bt_pool *pool);
// Makes the n-th bt_pool_alloc from now on (1 is the next) fail as if the device were full; 0: off.
void bt_pool_fail_at(bt_pool *pool, int64_t n);
// The largest live blocks by tag, at most `rows` of them, a line each.
void bt_pool_report(const bt_pool *pool, int rows, bt_str *out);
// Verifies the invariants. Errors  INTERNAL, naming the first that is broken
BT_CHECKED bt_status bt_pool_check(const bt_pool *pool);

#endif
