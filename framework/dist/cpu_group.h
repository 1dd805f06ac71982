// framework/dist/cpu_group.h - what the backends on the CPU share: messages over channels
//
// A message is a signature and bytes. A collective is one or more exchanges; in an exchange each
// rank sends at most one message to each other rank and receives at most one from each.
#ifndef BT_DIST_CPU_GROUP_H
#define BT_DIST_CPU_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "framework/dist/channel.h"
#include "framework/dist/group.h"
#include "framework/dist/region.h"

// X(enumerator, name)
#define BT_CALL_LIST(X)                                                                            \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(ALL_TO_ALL, "all_to_all")                                                                    \
    X(BROADCAST, "broadcast")                                                                      \
    X(SEND_RECV, "send_recv")                                                                      \
    X(BARRIER, "barrier")

typedef enum bt_call {
#define BT_CALL_ENUM(name, text) BT_CALL_##name,
    BT_CALL_LIST(BT_CALL_ENUM)
#undef BT_CALL_ENUM
        BT_CALL_COUNT
} bt_call;

// What a rank calls; equal on both sides of a message. Sent as it lies: ranks are of one build.
typedef struct bt_signature {
    uint64_t magic;
    uint64_t sequence; // messages of this direction of the channel before this one
    int64_t size;      // of the call: elements or bytes
    uint64_t part;     // which part of the group calls (bt_group_split), 0: the whole
    int32_t call;      // bt_call
    int32_t dtype;     // bt_dtype, or -1
    int32_t reduction; // bt_reduction, or -1
    int32_t root;      // or -1
} bt_signature;

// This rank's messages to and from one peer.
typedef struct bt_leg {
    const void *out;
    void *in;
    int64_t out_bytes, in_bytes; // -1: no message
    // progress, of the exchange
    bt_signature out_head, in_head;
    int64_t out_done, in_done; // bytes, signature included
} bt_leg;

typedef struct bt_peer {
    bt_channel channel;
    uint64_t sent, received; // messages
    int pidfd;               // -1: not open
} bt_peer;

// A part of a group has legs and scratch memory of its own; its messages go over the whole's
// channels, whose failure is the part's.
typedef struct bt_cpu_group {
    bt_group group;             // impl points here
    struct bt_cpu_group *whole; // borrowed, outlives it; NULL: no part
    int *members;               // owned [size]; of a part: ranks of the whole
    pthread_mutex_t lock;       // of the channels: monitors of parts on GPUs look at them, too
    bt_peer *peers;             // owned [size]
    bt_leg *legs;               // owned [size]
    const void **parts;         // owned [size]
    void *scratch;              // owned
    int64_t scratch_bytes;
    bt_region *region; // NULL: ranks share no memory; threads: shared, else owned
    bool shared_region;
    int64_t timeout_ns;
    _Atomic int aborting; // 0 none, 1 being written, 2 `abort_reason` is there
    char abort_reason[BT_REGION_REASON_BYTES + 64];
    bt_status failed; // first failure, BT_OK until then
    char failure[BT_REGION_REASON_BYTES + 64];
} bt_cpu_group;

// Of bt_group_backend.
bt_status bt_cpu_split(bt_group *group, int colour, int key, bt_group **out);

// A group without channels. Takes the region over on success.
BT_CHECKED bt_status bt_cpu_group_create(const bt_group_backend *backend, int rank, int size,
                                         int64_t timeout_ns, bt_cpu_group **out);
void bt_cpu_group_destroy(bt_group *group);
void bt_cpu_group_abort(bt_group *group, const char *reason);

BT_CHECKED bt_status bt_ring_channel(const bt_region *region, int rank, int peer,
                                     bt_channel *channel);
// Takes the connected socket over, also on failure.
BT_CHECKED bt_status bt_socket_channel(int socket, bt_channel *channel);

// Sends and receives the group's legs, all at once, whatever the order in which peers are ready.
BT_CHECKED bt_status bt_exchange(bt_cpu_group *group, const bt_signature *call);

#define BT_CPU_COLLECTIVES                                                                         \
    .all_reduce = bt_cpu_all_reduce, .reduce_scatter = bt_cpu_reduce_scatter,                      \
    .all_gather = bt_cpu_all_gather, .all_to_all = bt_cpu_all_to_all,                              \
    .broadcast = bt_cpu_broadcast, .send_recv = bt_cpu_send_recv, .barrier = bt_cpu_barrier,       \
    .split = bt_cpu_split, .check = bt_cpu_check, .abort = bt_cpu_group_abort,                     \
    .destroy = bt_cpu_group_destroy

bt_status bt_cpu_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream);
bt_status bt_cpu_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream);
bt_status bt_cpu_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
bt_status bt_cpu_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
bt_status bt_cpu_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream);
bt_status bt_cpu_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream);
bt_status bt_cpu_barrier(bt_group *group, bt_stream stream);
bt_status bt_cpu_check(bt_group *group);

#endif
