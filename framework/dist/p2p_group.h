// framework/dist/p2p_group.h - what the files of the p2p backend share; nobody else includes it
#ifndef BT_DIST_P2P_GROUP_H
#define BT_DIST_P2P_GROUP_H

#include "framework/dist/device_group.h"
#include "framework/dist/mailbox.h"
#include "framework/dist/p2p.h"

enum { BT_P2P_REGIONS_MAX = 16, BT_P2P_PIECES = 2 };

// Memory that all ranks map: of[r] is rank r's, own included.
typedef struct bt_p2p_region {
    bt_window of[BT_P2P_RANKS_MAX];
} bt_p2p_region;

// Calls that use the same flags: each waits for the one before it, on whatever stream that was.
typedef struct bt_p2p_order {
    bt_event done; // owned; behind the last call
    bt_stream last;
    bool begun;
} bt_p2p_order;

typedef struct bt_p2p_group {
    bt_device_group base;
    bt_p2p_options options;
    bt_mailbox mailbox;
    uint64_t mailboxes[BT_P2P_RANKS_MAX];
    bt_p2p_region regions[BT_P2P_REGIONS_MAX]; // the first holds flags, slots and staging
    int region_count;
    bt_p2p_view view;
    void *state; // of the device, owned
    bt_p2p_order kernels, engine_calls;
    // Copies of the engines, in pieces that take turns in two halves of the staging memory.
    bt_stream pull, push, rescue;
    bt_event begun, pushed, pulled[BT_P2P_PIECES], folded[BT_P2P_PIECES];
} bt_p2p_group;

// ---- p2p_region.c ------------------------------------------------------------------------------

// Makes memory of each rank and maps the others'; on failure on all ranks nothing is left.
BT_CHECKED bt_status bt_p2p_region_create(bt_p2p_group *group, int64_t size_bytes);
void bt_p2p_region_destroy(bt_p2p_group *group, bt_p2p_region *region);
// Where [data, data + size_bytes) lies in memory of the group; NULL: elsewhere.
const bt_p2p_region *bt_p2p_region_find(const bt_p2p_group *group, const void *data,
                                        int64_t size_bytes);
// What is `data` here, at rank `peer`.
static inline char *bt_p2p_region_at(const bt_p2p_group *group, const bt_p2p_region *region,
                                     const void *data, int peer)
{
    int64_t offset = (const char *)data - (const char *)region->of[group->base.group.rank].base;
    return (char *)region->of[peer].base + offset;
}
static inline char *bt_p2p_staging(const bt_p2p_group *group, int peer)
{
    return (char *)group->regions[0].of[peer].base + BT_P2P_STAGING_OFFSET;
}

// ---- p2p_sum.c, p2p_move.c: of bt_group_backend -----------------------------------------------

bt_status bt_p2p_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream);
bt_status bt_p2p_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream);
bt_status bt_p2p_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
bt_status bt_p2p_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
bt_status bt_p2p_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream);
bt_status bt_p2p_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream);
bt_status bt_p2p_barrier(bt_group *group, bt_stream stream);

// A hash of a collective: what its ranks must agree on. `call` is a small number of the
// operation's.
uint32_t bt_p2p_call(int call, int64_t size, int dtype, int reduction, int root);
// Blocks of a kernel in which each rank moves so many bytes to or from another: equal on all ranks.
int32_t bt_p2p_blocks(int64_t size_bytes);
// Around a call: not in a captured graph, which has one stream order of its own.
BT_CHECKED bt_status bt_p2p_enter(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream);
BT_CHECKED bt_status bt_p2p_leave(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream);
bt_status bt_p2p_copy(bt_p2p_group *group, void *to, const void *from, int64_t size_bytes,
                      bt_stream stream);

#endif
