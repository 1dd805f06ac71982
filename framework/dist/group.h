// framework/dist/group.h - ranks that exchange data: one interface over several backends
//
// Every rank of a group calls the same collectives in the same order with the same sizes. Pointers
// are memory of the group's device. Collectives are given to a stream like kernels; on the CPU they
// are complete on return.
//
// Invariants
//   1. Results have the same bits on every rank and in every run: sums follow a fixed tree over the
//      ranks (README).
//   2. No call waits forever: it fails after an abort, the exit of a rank, different calls on
//      different ranks (compared by all but copy engines: p2p.h), or the timeout, and its message
//      names the rank.
//   3. A group that has failed stays failed: later calls return the first reason.
#ifndef BT_DIST_GROUP_H
#define BT_DIST_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/status.h"
#include "framework/device/device.h"

typedef enum bt_reduction { BT_REDUCE_SUM, BT_REDUCE_MAX, BT_REDUCE_COUNT } bt_reduction;

#define BT_GROUP_MAX_SIZE 1024

typedef struct bt_group {
    const struct bt_group_backend *backend; // unowned
    int rank, size;
    void *impl;        // owned by the backend
    bt_device *device; // unowned: outlives the group; memory of calls is on it, NULL: host memory
    struct bt_flight *flight; // borrowed; records the calls (flight.h); NULL: none
    uint64_t part;            // identifies a part on all ranks of the whole; 0: the whole
    uint64_t parts_made;      // number of parts made of this group
    int flight_part;          // index of a part in the flight recorder; 0: the whole
} bt_group;

// A step of an exchange: this rank sends the block of rank - hops, to rank + distance.
typedef struct bt_group_step {
    int distance;      // 1 .. size - 1, and hops at least 0: both equal on all ranks
    int hops;          // how many ranks have sent the block on
    bt_byte_rows data; // the block
    // The data may be read once this event has passed; NULL: when the stream is there. Ranks meet
    // before, so out must be free by then.
    bt_event after;
    // The block in parts, where bt_group_words has words for them; 0: whole. A part is sent once
    // its word of `produced`, which a kernel of this rank sets, is 1; then that is 0 again. When it
    // has arrived, its word of `arrived` in the receiver's memory is 1. NULL: not awaited, not
    // said.
    int parts; // of which the block is a multiple; without gaps
    uint32_t *produced, *arrived;
} bt_group_step;

// Rows without gaps in memory of the group on another rank, which become rows of this rank's device
// memory.
typedef struct bt_group_read {
    int rank;
    const void *from; // the place in this rank's memory at the same offset
    void *to;         // rows `pitch_bytes` apart, at least row_bytes
    int64_t rows, row_bytes, pitch_bytes;
} bt_group_read;

typedef struct bt_group_backend {
    const char *name; // "threads", "host", "mpi", "nccl", "p2p"
    bt_status (*all_reduce)(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                            bt_reduction reduction, bt_stream stream);
    bt_status (*reduce_scatter)(bt_group *group, const void *in, void *out, int64_t count,
                                bt_dtype dtype, bt_reduction reduction, bt_stream stream);
    bt_status (*all_gather)(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
    bt_status (*all_to_all)(bt_group *group, const void *in, void *out, int64_t size_bytes,
                            bt_stream stream);
    bt_status (*broadcast)(bt_group *group, void *data, int64_t size_bytes, int root,
                           bt_stream stream);
    bt_status (*send_recv)(bt_group *group, const void *out, int to, void *in, int from,
                           int64_t size_bytes, bt_stream stream);
    bt_status (*barrier)(bt_group *group, bt_stream stream);
    // NULL: all_gather of a packed copy does it.
    bt_status (*all_gather_rows)(bt_group *group, const bt_byte_rows *in, void *out,
                                 int64_t size_bytes, bt_stream stream);
    // NULL: all_to_all does it.
    bt_status (*all_to_others)(bt_group *group, const void *in, void *out, int64_t size_bytes,
                               bt_stream stream);
    // NULL: send_recv of a packed copy does it.
    bt_status (*exchange_step)(bt_group *group, const bt_group_step *step, void *out,
                               int64_t size_bytes, bt_stream stream);
    // NULL: no rank can read another one's memory.
    bt_status (*read_rows)(bt_group *group, const bt_group_read *reads, int count,
                           bt_stream stream);
    // NULL: calls take host memory, which bt_reduce_tree adds.
    bt_status (*fold)(bt_group *group, const void *const *in, const void *base, void *out,
                      int64_t count, bt_dtype dtype, bt_stream stream);
    bt_status (*check)(bt_group *group);
    void (*abort)(bt_group *group, const char *reason);
    void (*destroy)(bt_group *group);
    // Broadcast of host memory; NULL: `broadcast` takes host memory.
    bt_status (*tell)(bt_group *group, void *data, int64_t size_bytes, int root);
    // NULL: the backend has no memory that all ranks map.
    bt_status (*memory)(bt_group *group, int64_t size_bytes, void **out);
    // NULL: exchange_step takes no parts.
    uint32_t *(*words)(bt_group *group, int count);
    void (*words_free)(bt_group *group, const uint32_t *words, int count);
    bt_status (*split)(bt_group *group, int colour, int key, bt_group **out);
    bool on_gpu; // calls take GPU memory and are asynchronous
} bt_group_backend;

// data[i] = reduction over the ranks of data[i], in place.
// Types   f64, f32, bf16, i64, i32. NaN: a NaN of any rank gives NaN, for the maximum too
// Errors  of every call here: INVALID_ARGUMENT (size, type, rank), INTERRUPTED (an abort),
//         UNAVAILABLE (a rank ended or was silent for the timeout), INTERNAL (ranks called
//         different collectives; copy engines do not compare them: p2p.h)
BT_CHECKED bt_status bt_all_reduce(bt_group *group, void *data, int64_t count, bt_dtype dtype,
                                   bt_reduction reduction, bt_stream stream);
// out[i] = reduction over the ranks of in[rank * count + i].
// Shapes  in [size, count], out [count]; out may be this rank's part of in, else no overlap
BT_CHECKED bt_status bt_reduce_scatter(bt_group *group, const void *in, void *out, int64_t count,
                                       bt_dtype dtype, bt_reduction reduction, bt_stream stream);
// out[r] = in of rank r.
// Shapes  in [size_bytes], out [size, size_bytes]; in may be this rank's part of out
BT_CHECKED bt_status bt_all_gather(bt_group *group, const void *in, void *out, int64_t size_bytes,
                                   bt_stream stream);
// out[r] = the rows of rank r without gaps, at most size_bytes, equal on all ranks; what follows
// them, and this rank's part, are undefined.
// Shapes  out [size, size_bytes], no overlap with in
BT_CHECKED bt_status bt_all_gather_rows(bt_group *group, const bt_byte_rows *in, void *out,
                                        int64_t size_bytes, bt_stream stream);
// out[r] = in[rank] of rank r.
// Shapes  in, out [size, size_bytes], no overlap
BT_CHECKED bt_status bt_all_to_all(bt_group *group, const void *in, void *out, int64_t size_bytes,
                                   bt_stream stream);
// The same between different ranks: this rank's part of out is undefined, and not copied by
// backends that need not.
BT_CHECKED bt_status bt_all_to_others(bt_group *group, const void *in, void *out,
                                      int64_t size_bytes, bt_stream stream);
// data = data of rank `root`.
BT_CHECKED bt_status bt_broadcast(bt_group *group, void *data, int64_t size_bytes, int root,
                                  bt_stream stream);
// The same in host memory, whatever the group's device, without waiting for the device.
BT_CHECKED bt_status bt_group_tell(bt_group *group, void *data, int64_t size_bytes, int root);
// Point to point; the other rank calls the counterpart. send_recv does both directions at once, as
// in a ring; `to` and `from` may be the same rank, and both may be this rank.
BT_CHECKED bt_status bt_send(bt_group *group, const void *data, int64_t size_bytes, int to,
                             bt_stream stream);
BT_CHECKED bt_status bt_recv(bt_group *group, void *data, int64_t size_bytes, int from,
                             bt_stream stream);
BT_CHECKED bt_status bt_send_recv(bt_group *group, const void *out, int to, void *in, int from,
                                  int64_t size_bytes, bt_stream stream);
// One step of an exchange, which all ranks call: sends a block to rank + distance, and receives
// another from rank - distance. The block of rank r arrives in out[r]; what follows its rows there
// is undefined. out[rank - hops] is not written if the data is one block of size_bytes, else
// undefined. Ranks are modulo the size. All distances with 0 hops are an all_gather or, with other
// data in each step, an all_to_all. With distance 1 and hops 0, 1, ... each rank sends on what it
// received in the step before.
// Shapes  data: at most size_bytes; out [size, size_bytes], no overlap with the data, which without
//         gaps may be out[rank - hops]
BT_CHECKED bt_status bt_exchange_step(bt_group *group, const bt_group_step *step, void *out,
                                      int64_t size_bytes, bt_stream stream);
// The rank whose block `rank` sends in a step.
static inline int bt_group_step_block(const bt_group *group, const bt_group_step *step, int rank)
{
    return (rank - step->hops % group->size + group->size) % group->size;
}
// Copies rows from other ranks' memory by copy engines. All ranks call it, each with reads of its
// own or with none. A read gets what the owner's stream wrote before the owner's call. When a
// rank's stream has passed its call, no rank reads its memory any more. Errors  UNSUPPORTED if
// bt_group_reads is false
BT_CHECKED bt_status bt_read_rows(bt_group *group, const bt_group_read *reads, int count,
                                  bt_stream stream);
static inline bool bt_group_reads(const bt_group *group)
{
    return group->backend->read_rows != NULL;
}
// out[i] = sum of in[r][i] over the ranks r, whose terms are all in this rank's memory, plus
// base[i] if there is a base. The order of additions is that of reduce_scatter, the base last; the
// sum is rounded before it is added. No exchange: one rank may call it alone.
// Shapes  in [size] of [count], base [count] or NULL, out [count], which may be one of in, not base
BT_CHECKED bt_status bt_group_fold(bt_group *group, const void *const *in, const void *base,
                                   void *out, int64_t count, bt_dtype dtype, bt_stream stream);
// Returns when every rank has called it.
BT_CHECKED bt_status bt_barrier(bt_group *group, bt_stream stream);
// Zeroed memory of the group's device, on which collectives need no copies. Collective: all ranks
// pass the same size, and use operands at equal offsets. Freed with the group. *out is NULL if the
// backend has no such memory.
// Errors  OUT_OF_MEMORY, UNAVAILABLE, naming the rank; INVALID_ARGUMENT (more than 15 calls)
BT_CHECKED bt_status bt_group_memory(bt_group *group, int64_t size_bytes, void **out);
// Words of device memory through which streams and kernels of the ranks wait for each other, at
// equal places on all ranks, zero; after an abort they become 1 again and again, so nothing waits
// forever. All ranks take and free the same counts in the same order. NULL: there are none, or no
// more.
// Owns    the caller, until bt_group_words_free, when they are zero again; they end with the group
uint32_t *bt_group_words(bt_group *group, int count);
// Safe on NULL.
void bt_group_words_free(bt_group *group, const uint32_t *words, int count);
// The capacity of a buffer in such memory that has to grow from `capacity` to `needed`: at least
// twice as large, because outgrown memory is kept, and a group has few blocks of it.
static inline int64_t bt_group_memory_grown(int64_t capacity, int64_t needed)
{
    return needed > 2 * capacity ? needed : 2 * capacity;
}
// The group of the ranks that give the same colour, in the order of their keys, and of their ranks
// where keys are equal. All ranks call it. A colour below 0 is in no group: *out is NULL.
// A part uses the whole's channels and device, and fails with it: a message names ranks of the
// whole. Its calls are recorded in the whole's flight recorder, which must be set before. Parts may
// be used in any order that their ranks agree on. On GPUs a part has the whole's backend, and a
// size that this backend supports (p2p.h, nccl.h). Owns    *out: the caller, until
// bt_group_destroy, before the group
BT_CHECKED bt_status bt_group_split(bt_group *group, int colour, int key, bt_group **out);
// Tests for a failure without waiting: an abort, a rank that exited or left, on a GPU an error in a
// stream. A failure fails the group, like that of a collective.
BT_CHECKED bt_status bt_group_check(bt_group *group);
// Makes the calls of all ranks, waiting ones included, fail with this reason. May be called by any
// thread.
void bt_group_abort(bt_group *group, const char *reason);
// NULL is allowed. For other ranks this rank has left.
void bt_group_destroy(bt_group *group);

// Call site of this thread's collective, for flight recorders. Set by the macros below.
extern _Thread_local const char *bt_group_site;

#ifndef BT_GROUP_WITHOUT_SITES
#define BT_GROUP_LINE(line)     #line
#define BT_GROUP_SITE(line)     (bt_group_site = __FILE_NAME__ ":" BT_GROUP_LINE(line))
#define bt_all_reduce(...)      (BT_GROUP_SITE(__LINE__), bt_all_reduce(__VA_ARGS__))
#define bt_reduce_scatter(...)  (BT_GROUP_SITE(__LINE__), bt_reduce_scatter(__VA_ARGS__))
#define bt_all_gather(...)      (BT_GROUP_SITE(__LINE__), bt_all_gather(__VA_ARGS__))
#define bt_all_gather_rows(...) (BT_GROUP_SITE(__LINE__), bt_all_gather_rows(__VA_ARGS__))
#define bt_all_to_all(...)      (BT_GROUP_SITE(__LINE__), bt_all_to_all(__VA_ARGS__))
#define bt_all_to_others(...)   (BT_GROUP_SITE(__LINE__), bt_all_to_others(__VA_ARGS__))
#define bt_broadcast(...)       (BT_GROUP_SITE(__LINE__), bt_broadcast(__VA_ARGS__))
#define bt_group_tell(...)      (BT_GROUP_SITE(__LINE__), bt_group_tell(__VA_ARGS__))
#define bt_send(...)            (BT_GROUP_SITE(__LINE__), bt_send(__VA_ARGS__))
#define bt_recv(...)            (BT_GROUP_SITE(__LINE__), bt_recv(__VA_ARGS__))
#define bt_send_recv(...)       (BT_GROUP_SITE(__LINE__), bt_send_recv(__VA_ARGS__))
#define bt_exchange_step(...)   (BT_GROUP_SITE(__LINE__), bt_exchange_step(__VA_ARGS__))
#define bt_read_rows(...)       (BT_GROUP_SITE(__LINE__), bt_read_rows(__VA_ARGS__))
#define bt_barrier(...)         (BT_GROUP_SITE(__LINE__), bt_barrier(__VA_ARGS__))
#endif

#endif
