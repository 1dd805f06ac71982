// framework/ops/shard.h - a table whose rows are sharded over the ranks of a group
//
// Rank r of t has rows [r k, (r + 1) k) of `vocab`, k = ceil(vocab / t); the last rank may have
// fewer.
#ifndef BT_OPS_SHARD_H
#define BT_OPS_SHARD_H

#include "framework/ops/op.h"

struct bt_group;

// Number of rows of a rank; *first: its first row. 0 if the ranks before have all.
int64_t bt_shard_rows(int64_t vocab, int ranks, int rank, int64_t *first);

enum { BT_SHARD_IGNORED = -1 }; // what bt_shard_targets_args gives ignored targets

// The forward of CROSS_ENTROPY on a shard of the logits. saved: logits, targets of this shard,
// log-sum-exp over the whole vocabulary, 1 / count.
BT_CHECKED bt_status bt_cross_entropy_shard_forward(bt_context *context, bt_op_call *call);

#endif
