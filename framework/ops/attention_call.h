// framework/ops/attention_call.h - a call of attention, for ops that contain one
#ifndef BT_OPS_ATTENTION_CALL_H
#define BT_OPS_ATTENTION_CALL_H

#include "framework/ops/ops.h"

// in [4]: q, k, v, starts, as bt_attend's. y, lse = attention.
// Shapes  y [B, Tq, H D], lse [B, H, Tq] of f32 (f64 for f64)
BT_CHECKED bt_status bt_attention_call(bt_context *context, const bt_attention_options *with,
                                       bt_tensor *const *in, bt_tensor *y, bt_tensor *lse);
// grad [3]: where the gradients of q, k and v are written; NULL where k and v are.
BT_CHECKED bt_status bt_attention_call_backward(bt_context *context,
                                                const bt_attention_options *with,
                                                bt_tensor *const *in, bt_tensor *y, bt_tensor *lse,
                                                bt_tensor *dy, bt_tensor *const *grad);

#endif
