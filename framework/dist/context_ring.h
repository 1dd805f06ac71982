// framework/dist/context_ring.h - context parallelism: a process group as an op's ring (ops/ring.h)
//
// Keys and values of each rank travel to all others, and the gradients of theirs come back. How
// they travel decides on no bit:
//   all_gather     one collective brings all blocks
//   point_to_point a block goes from neighbour to neighbour, one rank further a step
//   all_to_all     in step s a rank exchanges blocks with the ranks at distance s (pairwise)
// Gradients go straight to the rank whose keys they are of.
//
// Where the group's device has streams, blocks travel on a stream of the ring's own beside the
// computation; the next block is on its way while one is used. Memory: 3 P blocks, of the group's
// own where it has such memory, so that nothing is copied twice.
#ifndef BT_DIST_CONTEXT_RING_H
#define BT_DIST_CONTEXT_RING_H

#include "framework/dist/group.h"
#include "framework/ops/ring.h"

// X(enumerator, name)
#define BT_ROTATION_LIST(X)                                                                        \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(POINT_TO_POINT, "point_to_point")                                                            \
    X(ALL_TO_ALL, "all_to_all")

typedef enum bt_rotation {
#define BT_ROTATION_ENUM(name, text) BT_ROTATION_##name,
    BT_ROTATION_LIST(BT_ROTATION_ENUM)
#undef BT_ROTATION_ENUM
        BT_ROTATION_COUNT
} bt_rotation;

const char *bt_rotation_name(bt_rotation rotation);
bool bt_rotation_parse(const char *name, bt_rotation *rotation);

typedef struct bt_context_ring bt_context_ring;

// A ring of the group's ranks, which all make one.
// Owns    *out: the caller, bt_context_ring_destroy; the group is borrowed and outlives it
// Errors  INVALID_ARGUMENT (rotation), OUT_OF_MEMORY
BT_CHECKED bt_status bt_context_ring_create(bt_group *group, bt_rotation rotation,
                                            bt_context_ring **out);
// NULL is allowed. Waits for the ring's stream.
void bt_context_ring_destroy(bt_context_ring *ring);
// What an op takes; lives as long as the ring.
const bt_ring *bt_context_ring_of(const bt_context_ring *ring);
// Device memory that blocks take so far.
uint64_t bt_context_ring_bytes(const bt_context_ring *ring);

#endif
