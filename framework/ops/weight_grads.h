// framework/ops/weight_grads.h - defers weight gradients, to compute several in one launch
//
// The weight gradients of a transformer block are products that do not fill a large GPU
// individually. During a backward they are queued until there are as many as a block has, and are
// then computed by one bt_gemm_grouped; other products go to bt_gemm immediately.
//
// Invariants
//   1. A product is deferred only if a row of gemm_grouped serves it alone, and its operands take
//      at most 64 MiB: so the queue retains little memory.
//   2. It is deferred only if its node is the last that feeds the leaf: nothing adds to the
//      gradient in between. The leaf counts it as one more node (grad_pending), so its hook runs
//      after it.
//   3. Operands are retained, so ops that reuse unreferenced memory do not overwrite them.
//   4. All have run before the backward ends, another one begins inside of it, or an op overwrites
//      what it saved.
//   5. Groups depend on the order of visits alone, also with hooks: bits are reproducible.
#ifndef BT_OPS_WEIGHT_GRADS_H
#define BT_OPS_WEIGHT_GRADS_H

#include "framework/ops/op.h"

enum {
    BT_WEIGHT_GRADS_GROUP = 4, // of a block: qkv, projection, two of the MLP
    BT_WEIGHT_GRADS_MOST = BT_WEIGHT_GRADS_GROUP - 1 + BT_OP_MAX_INPUTS // a node adds one per input
};

typedef struct bt_weight_grads {
    bt_gemm_args products[BT_WEIGHT_GRADS_MOST];
    bt_tensor *operands[BT_WEIGHT_GRADS_MOST][2], *leaves[BT_WEIGHT_GRADS_MOST]; // retained
    int count;
} bt_weight_grads;

// Whether bt_weight_grads_add would defer the product, with column sums (dbias) or without: the
// rows of gemm_grouped have none.
bool bt_weight_grads_wait(const bt_context *context, const bt_grad *grad, const bt_gemm_args *args);
// Computes or defers the product `args` of tensors a and b, whose d is `grad`'s tensor. `grad`
// belongs to an input in its row's accumulates mask, so that only the product writes there.
// Errors  as bt_gemm; if deferred, as bt_weight_grads_run
BT_CHECKED bt_status bt_weight_grads_add(bt_context *context, const bt_grad *grad,
                                         const bt_gemm_args *args, bt_tensor *a, bt_tensor *b);
// If at least `least` (1 or more) are deferred, computes all, releases their operands and runs the
// hooks of leaves that are complete. If `status` is an error, drops them and returns it. Errors  as
// bt_gemm_grouped, and the hooks'; the message names the leaves
BT_CHECKED bt_status bt_weight_grads_run(bt_context *context, int least, bt_status status);

// One of the nodes that feed the leaf is done (or was skipped): runs the hook after the last one,
// unless `status` is an error. Returns status, or the hook's.
BT_CHECKED bt_status bt_leaf_fed(bt_context *context, bt_tensor *leaf, bt_status status);

#endif
