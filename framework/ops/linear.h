// framework/ops/linear.h - parts of a linear layer, for the ops that contain one
//
// y = x w^T + bias. Inputs are given by their index in the op's call.
// Shapes  x [.., in], w [out, in], bias [out], y and dy [.., out]
#ifndef BT_OPS_LINEAR_H
#define BT_OPS_LINEAR_H

#include "framework/ops/ops.h"

typedef struct bt_linear_attrs {
    bt_activation activation;
} bt_linear_attrs;

typedef struct bt_matmul_attrs {
    bool trans_a, trans_b;
} bt_matmul_attrs;

// The product of all sizes but the last, which may be 0: a product over no elements is written,
// too.
int64_t bt_linear_rows(const bt_tensor *x);

// Checks weight and bias (which may be missing) against an x of `shape` and of input x's type; sets
// `shape` to y's. Error messages name inputs `x` and `weight`.
BT_CHECKED bt_status bt_linear_infer(const bt_op_call *call, int x, int weight, int bias,
                                     bt_shape *shape);
// Checks that the residual, if there is one, has y's shape.
BT_CHECKED bt_status bt_linear_infer_residual(const bt_op_call *call, int x, int residual,
                                              const bt_shape *shape);

// The call that computes y; bias may be NULL.
bt_gemm_args bt_linear_args(const bt_context *context, const bt_tensor *x, const bt_tensor *w,
                            const bt_tensor *bias, const bt_tensor *y);
// The call that computes dx = dy w.
bt_gemm_args bt_linear_dx_args(const bt_context *context, const bt_tensor *dy, const bt_tensor *w,
                               const bt_tensor *dx);
// The call that computes dw = dy^T x.
bt_gemm_args bt_linear_dw_args(const bt_context *context, const bt_tensor *dy, const bt_tensor *x,
                               const bt_tensor *dw);
// The type of a loss over logits of `dtype`, and of its sums: f32, f64 for f64.
static inline bt_dtype bt_loss_dtype(bt_dtype dtype) { return dtype == BT_F64 ? BT_F64 : BT_F32; }

// The gradients of inputs x; weight: dy^T x, immediate or deferred (ops/weight_grads.h); bias: the
// column sums of dy, in the same product if that is immediate and both are needed.
BT_CHECKED bt_status bt_linear_dx(bt_context *context, bt_op_backward *call, int x,
                                  const bt_tensor *dy, const bt_tensor *w);
BT_CHECKED bt_status bt_linear_dw(bt_context *context, bt_op_backward *call, int weight,
                                  bt_tensor *dy, bt_tensor *x);
BT_CHECKED bt_status bt_linear_dbias(bt_context *context, bt_op_backward *call, int bias,
                                     const bt_tensor *dy);
BT_CHECKED bt_status bt_linear_dw_dbias(bt_context *context, bt_op_backward *call, int weight,
                                        int bias, bt_tensor *dy, bt_tensor *x);
// Whether bt_linear_dw_dbias would compute both in one product; the weight's gradient then has
// memory.
BT_CHECKED bt_status bt_linear_dw_takes_dbias(bt_context *context, bt_op_backward *call, int weight,
                                              const bt_tensor *dy, const bt_tensor *x, bool *out);

#endif
