// framework/dist/data_parallel.h - one training step by several ranks, each with a part of its data
//
// Around each backward: begin gives every leaf of the list its place in a bucket, the backward
// writes there, end has the rest reduced. In a step's last micro-batch a bucket is reduced as soon
// as its last gradient is complete (not with no_overlap). Then measure, and update, which brings
// the weights together again.
//
// Invariants
//   1. Every rank makes the same calls with the same options and the same list.
//   2. Nothing is sent before a step's last micro-batch, but under ZERO2.
//   3. With virtual shards the sums are a balanced binary tree over the shards of all ranks, in
//      each of which micro-batches are added in order. The bits are the same for any number of
//      ranks that divides the shards, any bucket size, DDP, ZERO1 and ZERO3, with and without
//      overlap. ZERO2 agrees where each rank has one micro-batch.
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
    int64_t shards;        // virtual shards of a step, a power of 2 that the ranks divide; 0: the
                           // ranks themselves
    int64_t micro_batches; // of a step and this rank, a multiple of its shards
    bool no_overlap;
    bt_tensor *tied;  // borrowed: a leaf that a head reads and whose rows ids look up, as in
                      // bt_model; NULL: none
    int64_t lookups;  // ids of a step on all ranks
    bt_group *tensor; // borrowed: ranks that have other parts of the parameters, over which the
                      // norm is taken, too; NULL: none
} bt_data_parallel_options;

// Takes over the leaves of the list: their homes and hooks, and with sharding their memory; ZERO
// leaves masters that are no values without memory, bt_data_parallel_state has them. The list is
// borrowed and does not grow any more.
// Owns    *out: the caller, until bt_data_parallel_destroy, before the list is released
// Errors  INVALID_ARGUMENT (shards, micro-batches), OUT_OF_MEMORY
BT_CHECKED bt_status bt_data_parallel_create(bt_params *params,
                                             const bt_data_parallel_options *options,
                                             bt_data_parallel **out);
// NULL is fine.
void bt_data_parallel_destroy(bt_data_parallel *parallel);
// An optimizer of what this rank updates: all of the list, or its slices.
BT_CHECKED bt_status bt_data_parallel_optimizer(bt_data_parallel *parallel,
                                                const bt_adamw_config *config, bt_adamw *optimizer);
// Whether weights are still gathered when the update's own stream is done: the next forward waits
// for each bucket as it reads it.
bool bt_data_parallel_runs_ahead(const bt_data_parallel *parallel);
// The context's stream goes on behind them.
BT_CHECKED bt_status bt_data_parallel_catch_up(bt_data_parallel *parallel);
// Of the group's memory, which is no part of the pool.
uint64_t bt_data_parallel_window_bytes(const bt_data_parallel *parallel);
// Whether this rank updates a part alone.
bool bt_data_parallel_is_sharded(const bt_data_parallel *parallel);

// The ids, host memory, of this rank's micro-batch `index`, before its backward begins.
// Shapes  ids [count], each a row of the tied leaf
void bt_data_parallel_ids(bt_data_parallel *parallel, int64_t index, const int32_t *ids,
                          int64_t count);
// Before the backward of this rank's micro-batch `index` of the step, and behind it.
// Errors  the group's; INVALID_ARGUMENT naming a parameter that got no gradient
BT_CHECKED bt_status bt_data_parallel_begin(bt_data_parallel *parallel, int64_t index);
BT_CHECKED bt_status bt_data_parallel_end(bt_data_parallel *parallel);
// Before a forward that no backward follows.
BT_CHECKED bt_status bt_data_parallel_forward(bt_data_parallel *parallel);
// Norm and scale of the gradients of all ranks, as bt_adamw_measure; then the update, and the
// weights of all ranks.
BT_CHECKED bt_status bt_data_parallel_measure(bt_data_parallel *parallel, bt_adamw *optimizer,
                                              double grad_scale);
BT_CHECKED bt_status bt_data_parallel_update(bt_data_parallel *parallel, bt_adamw *optimizer,
                                             double lr);

// ---- state that does not depend on the ranks ----------------------------------------------------
// With sharding, rank 0 has whole masters and moments of parameter i in these tensors from the
// first call of collect or open_state on; without, they are the parameter's and the optimizer's.
BT_CHECKED bt_status bt_data_parallel_open_state(bt_data_parallel *parallel);
void bt_data_parallel_state(const bt_data_parallel *parallel, const bt_adamw *optimizer, int64_t i,
                            bt_tensor **master, bt_tensor **m, bt_tensor **v);
// Brings the state of all ranks together on rank 0; of no effect without sharding.
BT_CHECKED bt_status bt_data_parallel_collect(bt_data_parallel *parallel,
                                              const bt_adamw *optimizer);
// Makes the weights that ops read from the masters that each rank updates; all ranks call it.
BT_CHECKED bt_status bt_data_parallel_refresh(bt_data_parallel *parallel);
// Gives every rank rank 0's state, and makes the weights that ops read from it.
BT_CHECKED bt_status bt_data_parallel_spread(bt_data_parallel *parallel, bt_adamw *optimizer);

#endif
