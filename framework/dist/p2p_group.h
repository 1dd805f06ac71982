// framework/dist/p2p_group.h - private declarations of the p2p backend
#ifndef BT_DIST_P2P_GROUP_H
#define BT_DIST_P2P_GROUP_H

#include "framework/dist/device_group.h"
#include "framework/dist/mailbox.h"
#include "framework/dist/p2p.h"

enum { BT_P2P_REGIONS_MAX = 16, BT_P2P_PIECES = 2 };

// Memory that all ranks map: of[r] is rank r's, including this rank's own.
typedef struct bt_p2p_region {
    bt_window of[BT_P2P_RANKS_MAX];
} bt_p2p_region;

// Calls that use the same flags are serialized: each waits for the previous one, on any stream.
typedef struct bt_p2p_order {
    bt_event done; // owned; recorded after the last call
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
    bool words_taken[BT_P2P_WORDS]; // of the first region's
    uint32_t region_tries; // regions that were made or failed: in the tags of their descriptors
    bt_p2p_view view;
    void *state; // of the device, owned
    bt_p2p_order kernels, engine_calls;
    // Copy-engine transfers, in pieces that alternate between two halves of the staging memory.
    bt_stream pull, push, rescue;
    bt_event begun, pushed, pulled[BT_P2P_PIECES], folded[BT_P2P_PIECES];
} bt_p2p_group;

// ---- p2p_region.c ------------------------------------------------------------------------------

// Allocates memory on each rank and maps that of the others. On failure all ranks free everything.
BT_CHECKED bt_status bt_p2p_region_create(bt_p2p_group *group, int64_t size_bytes);
void bt_p2p_region_destroy(bt_p2p_group *group, bt_p2p_region *region);
// The region of group memory that contains [data, data + size_bytes); NULL: none.
const bt_p2p_region *bt_p2p_region_find(const bt_p2p_group *group, const void *data,
                                        int64_t size_bytes);
// The address in rank `peer`'s memory that corresponds to `data` in this rank's.
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
bt_status bt_p2p_all_gather_rows(bt_group *group, const bt_byte_rows *in, void *out,
                                 int64_t size_bytes, bt_stream stream);
bt_status bt_p2p_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
bt_status bt_p2p_all_to_others(bt_group *group, const void *in, void *out, int64_t size_bytes,
                               bt_stream stream);
bt_status bt_p2p_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream);
bt_status bt_p2p_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream);
bt_status bt_p2p_exchange_step(bt_group *group, const bt_group_step *step, void *out,
                               int64_t size_bytes, bt_stream stream);
bt_status bt_p2p_read_rows(bt_group *group, const bt_group_read *reads, int count,
                           bt_stream stream);
bt_status bt_p2p_barrier(bt_group *group, bt_stream stream);

// ---- p2p_call.c ---------------------------------------------------------------------------------
// A hash of a collective's arguments, which must be equal on all ranks. `call` identifies the
// operation.
uint32_t bt_p2p_call(int call, int64_t size, int dtype, int reduction, int root);
// Number of blocks for a kernel that moves size_bytes between each pair of ranks: equal on all
// ranks.
int32_t bt_p2p_blocks(int64_t size_bytes);
// Called before and after a call; no-ops during capture, where the graph fixes the order.
BT_CHECKED bt_status bt_p2p_enter(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream);
BT_CHECKED bt_status bt_p2p_leave(bt_p2p_group *group, bt_p2p_order *order, bt_stream stream);
// Around copies by copy engines: they begin when the streams of all ranks are there, and are over
// when those of all ranks have ended.
BT_CHECKED bt_status bt_p2p_copies_begin(bt_p2p_group *group, bt_stream stream);
BT_CHECKED bt_status bt_p2p_copies_end(bt_p2p_group *group, bt_stream stream);
bt_status bt_p2p_copy(bt_p2p_group *group, void *to, const void *from, int64_t size_bytes,
                      bt_stream stream);

#endif
