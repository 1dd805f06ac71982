// framework/ops/weight_grads.h - weight gradients that wait for others, to be one launch
//
// The weight gradients of a transformer block are products that fill a large GPU badly one by one.
// During a backward they wait in a queue until there are as many as a block has, and are then
// computed by one bt_gemm_grouped; the others go to bt_gemm at once.
//
// Invariants
//   1. A product waits only where a row of gemm_grouped serves it by itself, and its operands take
//      at most 64 MiB: what waits keeps little alive.
//   2. It waits only where its node is the last that feeds the leaf: nothing adds to the gradient
//      meanwhile. The leaf counts it as one more node (grad_pending), so its hook comes after it.
//   3. Operands are retained, so ops that reuse unreferenced memory do not overwrite them.
//   4. All have run before the backward ends, another one begins inside of it, or an op overwrites
//      what it saved.
//   5. Groups follow from the order of the walk alone, also where hooks are set: bits repeat.
#ifndef BT_OPS_WEIGHT_GRADS_H
#define BT_OPS_WEIGHT_GRADS_H

#include "framework/ops/op.h"

enum {
    BT_WEIGHT_GRADS_GROUP = 4, // of a block: qkv, projection, two of the MLP
    BT_WEIGHT_GRADS_MOST = BT_WEIGHT_GRADS_GROUP - 1 + BT_OP_MAX_INPUTS // a node adds one an input
};

typedef struct bt_weight_grads {
    bt_gemm_args products[BT_WEIGHT_GRADS_MOST];
    bt_tensor *operands[BT_WEIGHT_GRADS_MOST][2], *leaves[BT_WEIGHT_GRADS_MOST]; // retained
    int count;
} bt_weight_grads;

// Whether bt_weight_grads_add would let the product wait, with sums (dbias) or without: the rows of
// gemm_grouped have none.
bool bt_weight_grads_wait(const bt_context *context, const bt_grad *grad, const bt_gemm_args *args);
// The product `args` of tensors a and b, whose d is `grad`'s tensor: now or later. `grad` is of an
// input in its row's accumulates mask, so that nothing but the product writes there.
// Errors  as bt_gemm; of one that waits, bt_weight_grads_run's
BT_CHECKED bt_status bt_weight_grads_add(bt_context *context, const bt_grad *grad,
                                         const bt_gemm_args *args, bt_tensor *a, bt_tensor *b);
// Where `least` (1 or more) or more wait, computes all, lets go of their operands and runs the
// hooks of leaves that wait for nothing else. Drops them when `status` is an error, and returns
// that. Errors  as bt_gemm_grouped, and the hooks'; the message names the leaves
BT_CHECKED bt_status bt_weight_grads_run(bt_context *context, int least, bt_status status);

// One of those that feed the leaf is done (or was skipped): runs the hook behind the last, unless
// `status` is an error. Returns status, or the hook's.
BT_CHECKED bt_status bt_leaf_fed(bt_context *context, bt_tensor *leaf, bt_status status);

#endif
