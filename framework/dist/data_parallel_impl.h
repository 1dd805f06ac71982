// framework/dist/data_parallel_impl.h - what the files of data parallelism share
//
// data_parallel.c: homes, sums, reduction. sharded.c: parts of weights and optimizer state.
// sharded_state.c: whole state out of the parts and back. resident.c: ZERO3's weights that come and
// go. bucket_slots.c: sums over ranks whose memory the others map.
// lookup.c: the gradient of a tied table in two parts.
#ifndef BT_DIST_DATA_PARALLEL_IMPL_H
#define BT_DIST_DATA_PARALLEL_IMPL_H

#include "framework/dist/bucket.h"
#include "framework/dist/data_parallel.h"

enum {
    BT_LEVELS_MOST = 31,     // sums of shards under way: log2(shards of a rank) + 1
    BT_RESIDENT_BUCKETS = 4, // ZERO3: of weights; an op has parameters of at most as many
    BT_AHEAD_BUCKETS = 2,    // besides: gathered, and not read yet
    BT_WALKS = 2             // over the weights: a forward, a backward
};

// What a rank keeps of a bucket. Flat tensors are [count], parts [part].
typedef struct bt_bucket_memory {
    struct bt_data_parallel *owner;   // borrowed
    bt_tensor *grads[BT_LEVELS_MOST]; // retained; flat, f32; of each level
    bt_tensor *slots;                 // retained; f32 [ranks, part]; NULL: the group sums
    bt_event arrived;                 // owned; behind what the others send into slots
    bt_tensor *reduced;               // retained; ZERO: part, f32: this rank's gradients
    bt_tensor *values, *value_part;   // retained; ZERO: flat, and this rank's part
    bt_tensor *master_part;           // retained; ZERO: part, f32; value_part where f32
    int64_t pending;                  // gradients that are not complete
    int64_t used;                     // ZERO3: when an op last read it
    bt_event gathered;                // owned; ZERO: behind the weights' gather
    bool gathering;                   // nobody has waited for it yet
} bt_bucket_memory;

// ZERO3: the buckets that one walk over the weights gathers, in order, as the last walk did.
typedef struct bt_walk {
    int64_t *order; // owned [capacity]
    int64_t capacity, count;
    int64_t next; // of this walk; from `count` on it is not known
} bt_walk;

// A tied table's second gradient, that of the rows which were looked up (lookup.c).
typedef struct bt_lookup {
    int64_t param;                        // place in the list; it has bucket 0 alone
    int64_t rows, cols, most;             // of the table; ids of a step
    bt_tensor *homes[BT_LEVELS_MOST];     // retained f32 [rows, cols]; of each level
    bt_tensor *packed;                    // retained f32 [most, cols]: the rows that were looked up
    bt_tensor *packed_ids, *own_ids;      // retained i32 [most]: which; of this rank's part, there
    int32_t *ids;                         // owned [most]: likewise, ascending
    unsigned char *own_rows, *other_rows; // owned [rows / 8]: a bit of each row, of this rank
    int64_t count;                        // of `ids`, the rows of all ranks
    bool swapped;                         // the head's part of this micro-batch is complete
} bt_lookup;

struct bt_data_parallel {
    bt_context *context; // borrowed
    bt_params *params;   // borrowed
    bt_data_parallel_options options;
    int rank, ranks;
    bool sharded; // ZERO on more than one rank
    bt_buckets layout;
    bt_bucket_memory *buckets; // owned [layout.count]
    bt_tensor **homes;         // owned [levels * params->count], retained: views
    int levels;
    int64_t shard_batches;      // micro-batches of a shard
    int64_t index;              // of the micro-batch under way
    int64_t next;               // first bucket that was not finished in this micro-batch
    int64_t clock;              // ZERO3: reads so far
    bt_walk walks[BT_WALKS];    // ZERO3
    int walk;                   // ZERO3: which one it is
    int64_t late;               // ZERO3: gathers that began when an op asked for the weights
    int64_t under_way;          // ZERO2: the bucket whose gradients are being reduced; -1: none
    bt_stream stream;           // owned; collectives beside the backward
    bt_event produced, reduced; // owned
    char *window;               // the group's memory for buckets; NULL: they come from the pool
    int64_t window_bytes, window_used;
    bt_lookup *lookup;          // owned; NULL: gradients have one part
    bt_tensor *partials;        // retained f64; of the norm
    bt_tensor *tensor_partials; // retained f64 [ranks of tensor, partials]; NULL: one rank
    bt_tensor **whole[3];       // owned [params->count], retained; rank 0: masters, m, v
};

// Elements [first, first + count) of a flat tensor.
BT_CHECKED bt_status bt_flat_view(bt_tensor *flat, int64_t first, int64_t count, bt_tensor **out);
// Copies `count` elements between tensors of one type.
BT_CHECKED bt_status bt_flat_copy(bt_context *context, const bt_tensor *from, int64_t from_at,
                                  bt_tensor *to, int64_t to_at, int64_t count);
// to[to_at ..] += from[from_at ..], `count` elements of f32.
BT_CHECKED bt_status bt_flat_add(bt_context *context, bt_tensor *to, int64_t to_at,
                                 const bt_tensor *from, int64_t from_at, int64_t count);
// The range of time in which a rank's computation stands still for other ranks: on a device from
// what was computed to what waits for it, on the CPU the collective itself.
#define BT_COMMUNICATION "communication"

// The context's stream goes on behind the event, which lies behind a collective.
BT_CHECKED bt_status bt_communication_await(bt_context *context, bt_event event);
// The context's stream goes on behind what was given to the group's.
BT_CHECKED bt_status bt_data_parallel_join(bt_data_parallel *parallel);

// The sums of shards that the one under way completes. Shapes  grads [levels], of `count` elements
BT_CHECKED bt_status bt_data_parallel_fold(bt_data_parallel *parallel, bt_tensor **grads,
                                           int64_t count);
// Where the gradients of the shard under way are written.
int bt_data_parallel_level(const bt_data_parallel *parallel);
// One gradient of the bucket is complete.
BT_CHECKED bt_status bt_data_parallel_complete(bt_data_parallel *parallel, int64_t bucket);

// ---- lookup.c -----------------------------------------------------------------------------------
// The parameter whose gradient has two parts; -1: none.
int64_t bt_lookup_param(const bt_params *params, const bt_data_parallel_options *options);
BT_CHECKED bt_status bt_lookup_create(bt_data_parallel *parallel, int64_t param);
void bt_lookup_release(bt_data_parallel *parallel);
// All of these do nothing without such a parameter. A micro-batch begins: its head's part is first.
BT_CHECKED bt_status bt_lookup_begin(bt_data_parallel *parallel);
// Behind a shard's last backward.
BT_CHECKED bt_status bt_lookup_fold(bt_data_parallel *parallel);
// Behind a step's last: sums the lookups' part over ranks beside other work, then adds it.
BT_CHECKED bt_status bt_lookup_send(bt_data_parallel *parallel);
BT_CHECKED bt_status bt_lookup_add(bt_data_parallel *parallel);

// ---- bucket_slots.c -----------------------------------------------------------------------------
// Memory of the group for the buckets, where it has such; all ranks call it.
BT_CHECKED bt_status bt_bucket_slots_open(bt_data_parallel *parallel);
// Zeros, in that memory or, where there is none, of the pool.
BT_CHECKED bt_status bt_bucket_tensor(bt_data_parallel *parallel, bt_dtype dtype, int64_t count,
                                      const char *name, bt_tensor **out);
// Sends the parts of a bucket to their ranks, beside other work.
BT_CHECKED bt_status bt_bucket_slots_send(bt_data_parallel *parallel, int64_t bucket);
// Sums what came, of all buckets; for DDP everywhere.
BT_CHECKED bt_status bt_bucket_slots_sum(bt_data_parallel *parallel);

// ---- resident.c ---------------------------------------------------------------------------------
BT_CHECKED bt_status bt_resident_create(bt_data_parallel *parallel);
void bt_resident_release(bt_data_parallel *parallel);
// A source of storages: the bucket's weights, gathered if they are not there.
BT_CHECKED bt_status bt_resident_fetch(void *memory, bt_context *context, bt_storage *storage);
// Another walk begins: 0 a forward, 1 a backward. `ahead`: no collective of another stream comes
// until an op reads a weight, so that gathers may begin.
BT_CHECKED bt_status bt_resident_walk(bt_data_parallel *parallel, int walk, bool ahead);
// What is there is out of date.
BT_CHECKED bt_status bt_resident_drop(bt_data_parallel *parallel);

// ---- sharded.c ----------------------------------------------------------------------------------
// Starts the gather of a bucket's weights behind what the context's stream does now.
BT_CHECKED bt_status bt_sharded_gather_bucket(bt_bucket_memory *memory);
// The context's stream goes on behind that gather.
BT_CHECKED bt_status bt_sharded_await(bt_bucket_memory *memory);
// Moves the weights into buckets, of which this rank keeps its part.
BT_CHECKED bt_status bt_sharded_create(bt_data_parallel *parallel);
// The weights behind an update of the parts.
BT_CHECKED bt_status bt_sharded_gather(bt_data_parallel *parallel);
void bt_sharded_release(bt_data_parallel *parallel);

#endif
