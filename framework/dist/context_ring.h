// framework/dist/context_ring.h - context parallelism: a process group as an op's ring (ops/ring.h)
//
// Each rank sends its keys and values to all others and receives their gradients. The rotation
// changes no bit of the result:
//   all_gather     one collective sends all blocks
//   point_to_point a block passes from neighbour to neighbour, one rank per step
//   all_to_all     in step s a rank exchanges blocks with the ranks at distance s (pairwise)
// Gradients go directly to the rank that owns the keys: they are sent to it, or each of two ranks
// whose devices are of one kind reads them from the other. ops/ring_attention.c has the order of
// their sum.
//
// On a device with streams, blocks are sent on a separate stream: the next block is in flight while
// one is used. Memory: 3 P blocks. In group memory, if there is any, blocks arrive without a copy,
// and copy engines (p2p.h) send them without an SM.
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

// Creates the ring of the group's ranks; collective.
// Owns    *out: the caller, bt_context_ring_destroy; the group is borrowed and outlives it
// Errors  INVALID_ARGUMENT (rotation), OUT_OF_MEMORY, those of bt_group_tell
BT_CHECKED bt_status bt_context_ring_create(bt_group *group, bt_rotation rotation,
                                            bt_context_ring **out);
// NULL is allowed. Waits for the ring's stream.
void bt_context_ring_destroy(bt_context_ring *ring);
// Device memory that it uses, the group's included; 0 for NULL.
uint64_t bt_context_ring_bytes(const bt_context_ring *ring);
// The interface for ops; lives as long as the ring.
const bt_ring *bt_context_ring_of(const bt_context_ring *ring);

#endif
