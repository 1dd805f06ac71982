// framework/dist/region.h - memory that all ranks of one host map
//
// Contains a ring buffer for each ordered pair of ranks, the state of each rank, and the abort
// word. The launcher creates it; threads share one mapping, processes map the same file descriptor.
#ifndef BT_DIST_REGION_H
#define BT_DIST_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

enum { BT_REGION_REASON_BYTES = 448, BT_REGION_RING_BYTES = 1 << 18 };

typedef enum bt_member_state { BT_MEMBER_ABSENT, BT_MEMBER_JOINED, BT_MEMBER_LEFT } bt_member_state;

typedef struct bt_member {
    _Atomic int state; // bt_member_state
    _Atomic int pid;
} bt_member;

// Bytes of one direction: written by one rank, read by one rank.
typedef struct bt_ring {
    _Alignas(64) _Atomic uint64_t written; // bytes so far
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) unsigned char data[BT_REGION_RING_BYTES];
} bt_ring;

typedef struct bt_region_head {
    uint64_t magic;       // of this layout
    int32_t size;         // ranks
    _Atomic int users;    // mappings in use by threads of one process
    _Atomic int aborting; // 0 no, 1 the reason is being written, 2 the reason is valid
    int32_t abort_rank;
    char reason[BT_REGION_REASON_BYTES];
} bt_region_head;

typedef struct bt_region {
    bt_region_head *head; // mapped
    bt_member *members;   // [size], mapped
    bt_ring *rings;       // [size, size] from, to; mapped
    uint64_t size_bytes;
} bt_region;

// A region for `size` ranks, all absent. `fd`: a descriptor that other processes map (the caller's,
// to close), or NULL for threads.
// Errors  UNAVAILABLE: cannot allocate; names the size
BT_CHECKED bt_status bt_region_create(int size, int *fd, bt_region *region);
// Errors  INVALID_ARGUMENT when the descriptor is not such a region of `size` ranks
BT_CHECKED bt_status bt_region_attach(int fd, int size, bt_region *region);
void bt_region_detach(bt_region *region);
// Errors  INVALID_ARGUMENT when another thread or process has joined as this rank
BT_CHECKED bt_status bt_region_join(bt_region *region, int rank);
void bt_region_leave(bt_region *region, int rank);
// The first call wins. Any thread, any process.
void bt_region_abort(bt_region *region, int rank, const char *reason);
bool bt_region_aborted(const bt_region *region);

static inline bt_ring *bt_region_ring(const bt_region *region, int from, int to)
{
    return &region->rings[(int64_t)from * region->head->size + to];
}

#endif
