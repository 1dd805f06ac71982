// framework/ops/expression.h - chains of recorded ops, for differentiable gradients
//
// Each function is the op of that name in ops.h; its result is borrowed and lives until
// bt_expression_finish. After a failure all of them return NULL and do nothing, so the caller
// checks only the end. Passing NULL as an operand without a failure is a bug of the caller.
#ifndef BT_OPS_EXPRESSION_H
#define BT_OPS_EXPRESSION_H

#include "framework/ops/ops.h"

enum { BT_EXPRESSION_MOST = 40 };

typedef struct bt_expression {
    bt_context *context;                 // borrowed
    bt_status status;                    // first failure
    bt_tensor *made[BT_EXPRESSION_MOST]; // retained
    int count;
} bt_expression;

bt_tensor *bt_expression_unary(bt_expression *e, bt_unary function, double alpha, bt_tensor *x);
bt_tensor *bt_expression_binary(bt_expression *e, bt_binary function, bt_tensor *a, bt_tensor *b);
bt_tensor *bt_expression_dropout(bt_expression *e, bt_tensor *x, double rate, uint64_t seed,
                                 uint64_t stream);
bt_tensor *bt_expression_matmul(bt_expression *e, bt_tensor *a, bool trans_a, bt_tensor *b,
                                bool trans_b);
bt_tensor *bt_expression_reshape(bt_expression *e, bt_tensor *x, bt_shape shape);
bt_tensor *bt_expression_permute(bt_expression *e, bt_tensor *x, const int *axes);
bt_tensor *bt_expression_expand(bt_expression *e, bt_tensor *x, bt_shape shape);
// x itself if it has that type, or is contiguous.
bt_tensor *bt_expression_cast(bt_expression *e, bt_tensor *x, bt_dtype dtype);
bt_tensor *bt_expression_contiguous(bt_expression *e, bt_tensor *x);
// 1 - x.
bt_tensor *bt_expression_complement(bt_expression *e, bt_tensor *x);
// Sum, mean over the last axis, which becomes size 1.
bt_tensor *bt_expression_sum_last(bt_expression *e, bt_tensor *x);
bt_tensor *bt_expression_mean_last(bt_expression *e, bt_tensor *x);
// x summed over the axes along which a tensor of `shape` was broadcast to x's shape.
bt_tensor *bt_expression_sum_to(bt_expression *e, bt_tensor *x, const bt_shape *shape);
// Takes ownership of a tensor that was made elsewhere.
bt_tensor *bt_expression_take(bt_expression *e, bt_status status, bt_tensor *made);

// Sets input i's gradient, if it is needed: contiguous, of the input's type.
void bt_expression_give(bt_expression *e, bt_op_backward *call, int i, bt_tensor *gradient);
// Releases the intermediate tensors; returns the status.
BT_CHECKED bt_status bt_expression_finish(bt_expression *e);

#endif
