// framework/ops/feed_forward.h - parts of feed_forward, for the op that computes it in chunks of
// rows
#ifndef BT_OPS_FEED_FORWARD_H
#define BT_OPS_FEED_FORWARD_H

#include "framework/ops/ops.h"

// Indices of inputs, and of saved values: x (for w's gradient), w (for x's), activation (for v's);
// v and pre-activation (for those of x, w and b). To recompute the activation: pre-activation; to
// recompute both: x, w and b.
enum {
    BT_FEED_X,
    BT_FEED_W,
    BT_FEED_B,
    BT_FEED_V,
    BT_FEED_C,
    BT_FEED_PRE = 4, // of saved values
    BT_FEED_HIDDEN
};

// Saves what the backward needs with this mode.
void bt_feed_forward_save(bt_op_call *call, bt_recompute_mode mode, bt_tensor *pre,
                          bt_tensor *hidden);
// Whether the backward recomputes pre-activation and activation from x.
bool bt_feed_forward_remakes(const bt_op_backward *call);
// The saved or recomputed pre-activation and activation, as far as they are used.
// Owns    *pre, *hidden: the caller, also when this fails
BT_CHECKED bt_status bt_feed_forward_restore(bt_context *context, const bt_op_backward *call,
                                             bt_tensor **pre, bt_tensor **hidden);
// The call that computes hidden = gelu(x w^T + b), and pre in front of it.
bt_gemm_args bt_feed_forward_hidden_args(const bt_context *context, const bt_tensor *x,
                                         const bt_tensor *w, const bt_tensor *b,
                                         const bt_tensor *pre, const bt_tensor *hidden);
// The call that computes dpre = (dy v) gelu'(pre).
bt_gemm_args bt_feed_forward_dpre_args(const bt_context *context, const bt_tensor *dy,
                                       const bt_tensor *v, const bt_tensor *pre,
                                       const bt_tensor *dpre);

#endif
