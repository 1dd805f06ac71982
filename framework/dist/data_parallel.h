// framework/dist/data_parallel.h - data-parallel training: gradient reduction and ZeRO sharding
//
// Per micro-batch: begin points every leaf's gradient into its bucket, the backward writes there,
// end reduces what is left. In a step's last micro-batch a bucket is reduced as soon as its last
// gradient is complete (not with no_overlap). Per step: measure, then update, which also gathers
// the weights.
//
// Invariants
//   1. Every rank makes the same calls with the same options and the same list.
//   2. Nothing is sent before a step's last micro-batch, except under ZERO2.
//   3. With virtual shards the sums are a balanced binary tree over the shards of all ranks; within
//      a shard, micro-batches are added in order. The bits are the same for any number of ranks
//      that divides the shards, any bucket size, DDP, ZERO1 and ZERO3, with and without overlap;
//      for ZERO2 only if each rank has one micro-batch.
//   4. Sharding has no effect on one rank.
#ifndef BT_DIST_DATA_PARALLEL_H
#define BT_DIST_DATA_PARALLEL_H

#include "framework/base/sharding.h"
#include "framework/dist/group.h"
#include "framework/optim/adamw.h"

typedef struct bt_data_parallel bt_data_parallel;

typedef struct bt_data_parallel_options {
    bt_group *group; // borrowed, outlives it; NULL: one rank
    bt_sharding sharding;
    double bucket_mb;      // MiB of f32 gradients; 0: 25
    int64_t shards;        // virtual shards of a step, a power of 2 and a multiple of the ranks;
                           // 0: one per rank
    int64_t micro_batches; // of a step and this rank, a multiple of its shards
    bool no_overlap;
    bt_tensor *tied;  // borrowed: the embedding that the head shares (bt_model); NULL: none
    int64_t lookups;  // ids of a step on all ranks
    bt_group *tensor; // borrowed: ranks with other parts of the parameters, included in the norm;
                      // NULL: none
} bt_data_parallel_options;

// Takes over the leaves of the list: their gradient memory and hooks, and with sharding their
// memory. With ZERO, masters that are not also the values have no memory of their own:
// bt_data_parallel_state returns them. The list is borrowed and must not grow.
// Owns    *out: the caller, until bt_data_parallel_destroy, before the list is released
// Errors  INVALID_ARGUMENT (shards, micro-batches), OUT_OF_MEMORY
BT_CHECKED bt_status bt_data_parallel_create(bt_params *params,
                                             const bt_data_parallel_options *options,
                                             bt_data_parallel **out);
// NULL is fine.
void bt_data_parallel_destroy(bt_data_parallel *parallel);
// Initializes an optimizer for the parameters that this rank updates: the list, or its slices.
BT_CHECKED bt_status bt_data_parallel_optimizer(bt_data_parallel *parallel,
                                                const bt_adamw_config *config, bt_adamw *optimizer);
// Whether the gather of weights may outlast the update on its own stream; the next forward waits
// for each bucket when it reads it.
bool bt_data_parallel_runs_ahead(const bt_data_parallel *parallel);
// Makes the context's stream wait for these gathers.
BT_CHECKED bt_status bt_data_parallel_catch_up(bt_data_parallel *parallel);
// Bytes of group memory in use, which is not part of the pool.
uint64_t bt_data_parallel_window_bytes(const bt_data_parallel *parallel);
// Whether this rank updates only a part of the parameters.
bool bt_data_parallel_is_sharded(const bt_data_parallel *parallel);

// Registers the ids (host memory) of this rank's micro-batch `index`, before its backward.
// Shapes  ids [count], each a row of the tied leaf
void bt_data_parallel_ids(bt_data_parallel *parallel, int64_t index, const int32_t *ids,
                          int64_t count);
// Called before and after the backward of this rank's micro-batch `index` of the step.
// Errors  the group's; INVALID_ARGUMENT naming a parameter that got no gradient
BT_CHECKED bt_status bt_data_parallel_begin(bt_data_parallel *parallel, int64_t index);
BT_CHECKED bt_status bt_data_parallel_end(bt_data_parallel *parallel);
// Called before a forward without a backward.
BT_CHECKED bt_status bt_data_parallel_forward(bt_data_parallel *parallel);
// Norm and scale of the gradients of all ranks, as bt_adamw_measure; then the update and the gather
// of the weights.
BT_CHECKED bt_status bt_data_parallel_measure(bt_data_parallel *parallel, bt_adamw *optimizer,
                                              double grad_scale);
BT_CHECKED bt_status bt_data_parallel_update(bt_data_parallel *parallel, bt_adamw *optimizer,
                                             double lr);

// ---- state that does not depend on the ranks ----------------------------------------------------
// With sharding, these are rank 0's tensors for the whole master and moments of parameter i, in
// page-locked host memory (host_tensors.h) that open_state allocates. Without, they are the
// parameter's and the optimizer's own tensors.
BT_CHECKED bt_status bt_data_parallel_open_state(bt_data_parallel *parallel);
void bt_data_parallel_state(const bt_data_parallel *parallel, const bt_adamw *optimizer, int64_t i,
                            bt_tensor **master, bt_tensor **m, bt_tensor **v);
// Collects the state of all ranks on rank 0, on the context's stream: the host waits before it
// reads the tensors. No effect without sharding.
BT_CHECKED bt_status bt_data_parallel_collect(bt_data_parallel *parallel,
                                              const bt_adamw *optimizer);
// Recomputes the weights that ops read from the masters that each rank updates; collective.
BT_CHECKED bt_status bt_data_parallel_refresh(bt_data_parallel *parallel);
// Distributes rank 0's state to all ranks and recomputes the weights that ops read.
BT_CHECKED bt_status bt_data_parallel_spread(bt_data_parallel *parallel, bt_adamw *optimizer);

#endif
