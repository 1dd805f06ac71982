// framework/dist/data_parallel_impl.h - declarations shared by the files of data parallelism
//
// data_parallel.c: gradient memory, reduction. data_parallel_sums.c: sums over shards. sharded.c:
// sharded weights and optimizer state. sharded_state.c: collects and distributes the whole state.
// bucket_gather.c: gathers weights. resident.c: ZERO3's weights, gathered and released.
// bucket_slots.c: reduction through memory that the ranks map. lookup.c: the gradient of a tied
// embedding in two parts.
#ifndef BT_DIST_DATA_PARALLEL_IMPL_H
#define BT_DIST_DATA_PARALLEL_IMPL_H

#include "framework/dist/bucket.h"
#include "framework/dist/data_parallel.h"
#include "framework/dist/host_tensors.h"

enum {
    BT_LEVELS_MOST = 31,     // partial sums of shards: log2(shards of a rank) + 1
    BT_RESIDENT_BUCKETS = 4, // ZERO3: buckets of weights in use; an op reads at most this many
    BT_AHEAD_BUCKETS = 2,    // ZERO3: prefetched buckets, in addition
    BT_WALKS = 2             // passes over the weights: forward, backward
};

// A rank's memory for a bucket. Flat tensors are [count], parts [part].
typedef struct bt_bucket_memory {
    struct bt_data_parallel *owner;   // borrowed
    bt_tensor *grads[BT_LEVELS_MOST]; // retained; flat, f32; of each level
    bt_tensor *slots;                 // retained; f32 [ranks, part]; NULL: the group sums
    bt_event arrived;                 // owned; the other ranks' parts are in the slots
    bt_tensor *reduced;               // retained; ZERO: part, f32: this rank's gradients
    bt_tensor *values, *value_part;   // retained; ZERO: flat, and this rank's part
    bt_tensor *master_part;           // retained; ZERO: part, f32; value_part where f32
    int64_t pending;                  // gradients that are not complete
    int64_t used;                     // ZERO3: when an op last read it
    bt_event gathered;                // owned; ZERO: the weights are gathered
    bool gathering;                   // no stream has waited for it yet
} bt_bucket_memory;

// ZERO3: the order in which one pass over the weights gathers buckets, recorded in the last pass.
typedef struct bt_walk {
    int64_t *order; // owned [capacity]
    int64_t capacity, count;
    int64_t next; // of this pass; from `count` on the order is not known
} bt_walk;

// A tied embedding's second gradient, that of the rows which were looked up (lookup.c).
typedef struct bt_lookup {
    int64_t param;                        // index in the list; bucket 0 holds it alone
    bt_grad_hook bucket;                  // told when the head's part is complete
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
    int64_t index;              // of the current micro-batch
    int64_t next;               // first bucket that is not finished in this micro-batch
    int64_t clock;              // ZERO3: reads so far
    bt_walk walks[BT_WALKS];    // ZERO3
    int walk;                   // ZERO3: index of the current pass
    int64_t late;               // ZERO3: gathers that were not prefetched
    int64_t under_way;          // ZERO2: the bucket whose gradients are being reduced; -1: none
    bt_stream stream;           // owned; collectives that overlap the backward
    bt_event produced, reduced; // owned
    char *window;               // the group's memory for buckets; NULL: they come from the pool
    int64_t window_bytes, window_used;
    bt_lookup *lookup;          // owned; NULL: gradients have one part
    bt_tensor *partials;        // retained f64; of the norm
    bt_tensor *tensor_partials; // retained f64 [ranks of tensor, partials]; NULL: one rank
    bt_host_tensors whole;      // owned, f32 [3, params->count]; rank 0: masters, m, v
};

// ---- data_parallel_sums.c -----------------------------------------------------------------------
// Elements [first, first + count) of a flat tensor.
BT_CHECKED bt_status bt_flat_view(bt_tensor *flat, int64_t first, int64_t count, bt_tensor **out);
// Copies `count` elements between tensors of one type.
BT_CHECKED bt_status bt_flat_copy(bt_context *context, const bt_tensor *from, int64_t from_at,
                                  bt_tensor *to, int64_t to_at, int64_t count);
// y = a + b, `count` elements of device memory; y may be a or b.
BT_CHECKED bt_status bt_flat_sum(bt_context *context, const float *a, const float *b, float *y,
                                 int64_t count);
// to[to_at ..] += from[from_at ..], `count` elements of f32.
BT_CHECKED bt_status bt_flat_add(bt_context *context, bt_tensor *to, int64_t to_at,
                                 const bt_tensor *from, int64_t from_at, int64_t count);
// Name of the range in which a rank's computation waits for other ranks: on a device the wait of
// the context's stream, on the CPU the collective itself.
#define BT_COMMUNICATION "communication"

// Makes the context's stream wait for the event, which was recorded after a collective.
BT_CHECKED bt_status bt_communication_await(bt_context *context, bt_event event);
// Makes the context's stream wait for the work submitted to the group's stream.
BT_CHECKED bt_status bt_data_parallel_join(bt_data_parallel *parallel);

// Adds up the sums of shards that the current shard completes.
// Shapes  grads [levels], of `count` elements
BT_CHECKED bt_status bt_data_parallel_fold(bt_data_parallel *parallel, bt_tensor **grads,
                                           int64_t count);
// Level at which a shard's gradients are written, and that of the current shard.
int bt_data_parallel_level_of(const bt_data_parallel *parallel, int64_t shard);
int bt_data_parallel_level(const bt_data_parallel *parallel);
// ZERO2: each micro-batch is a shard, whose gradients are reduced at its end.
bool bt_data_parallel_sends_each(const bt_data_parallel *parallel);

// ---- bucket_gather.c ----------------------------------------------------------------------------
// Starts the gather of a bucket's weights after the work submitted to the context's stream so far.
BT_CHECKED bt_status bt_bucket_gather(bt_bucket_memory *memory);
// Makes the context's stream wait for that gather.
BT_CHECKED bt_status bt_bucket_await(bt_bucket_memory *memory);

// ---- lookup.c -----------------------------------------------------------------------------------
// The parameter whose gradient has two parts; -1: none.
int64_t bt_lookup_param(const bt_params *params, const bt_data_parallel_options *options);
BT_CHECKED bt_status bt_lookup_create(bt_data_parallel *parallel, int64_t param);
void bt_lookup_release(bt_data_parallel *parallel);
// All of these do nothing without such a parameter. Called at the start of a micro-batch, whose
// backward writes the head's part first.
BT_CHECKED bt_status bt_lookup_begin(bt_data_parallel *parallel);
// Called after a shard's last backward.
BT_CHECKED bt_status bt_lookup_fold(bt_data_parallel *parallel);
// Called after a step's last backward: send starts the sum of the lookups' part over the ranks, add
// adds it to the head's part.
BT_CHECKED bt_status bt_lookup_send(bt_data_parallel *parallel);
BT_CHECKED bt_status bt_lookup_add(bt_data_parallel *parallel);

// ---- bucket_slots.c -----------------------------------------------------------------------------
// Allocates group memory for the buckets, if the group supports it; collective.
BT_CHECKED bt_status bt_bucket_slots_open(bt_data_parallel *parallel);
// A zeroed tensor in that memory, else from the pool.
BT_CHECKED bt_status bt_bucket_tensor(bt_data_parallel *parallel, bt_dtype dtype, int64_t count,
                                      const char *name, bt_tensor **out);
// Starts copying the parts of a bucket to their ranks.
BT_CHECKED bt_status bt_bucket_slots_send(bt_data_parallel *parallel, int64_t bucket);
// Sums the received parts of all buckets; for DDP the sums are sent to all ranks.
BT_CHECKED bt_status bt_bucket_slots_sum(bt_data_parallel *parallel);

// ---- resident.c ---------------------------------------------------------------------------------
BT_CHECKED bt_status bt_resident_create(bt_data_parallel *parallel);
void bt_resident_release(bt_data_parallel *parallel);
// Storage callback: provides the bucket's weights, gathering them if necessary.
BT_CHECKED bt_status bt_resident_fetch(void *memory, bt_context *context, bt_storage *storage);
// Starts another pass: 0 a forward, 1 a backward. `ahead`: prefetching may start, because no
// collective of another stream comes before an op reads a weight.
BT_CHECKED bt_status bt_resident_walk(bt_data_parallel *parallel, int walk, bool ahead);
// Releases the gathered weights, which are out of date.
BT_CHECKED bt_status bt_resident_drop(bt_data_parallel *parallel);

// ---- sharded.c ----------------------------------------------------------------------------------
// Moves the weights into buckets, of which this rank keeps its part.
BT_CHECKED bt_status bt_sharded_create(bt_data_parallel *parallel);
// Gathers the weights after an update of the parts.
BT_CHECKED bt_status bt_sharded_gather(bt_data_parallel *parallel);
void bt_sharded_release(bt_data_parallel *parallel);

#endif
