// framework/ops/expression.c - chains of recorded ops
#include "framework/ops/expression.h"

bt_tensor *bt_expression_take(bt_expression *e, bt_status status, bt_tensor *made)
{
    if (status == BT_OK && e->count == BT_EXPRESSION_MOST) {
        bt_tensor_release(made);
        status = bt_error(BT_STATUS_INTERNAL, "an expression of more than %d ops",
                          (int)BT_EXPRESSION_MOST);
    }
    e->status = status;
    if (status != BT_OK) {
        return NULL;
    }
    e->made[e->count++] = made;
    return made;
}

bt_tensor *bt_expression_unary(bt_expression *e, bt_unary function, double alpha, bt_tensor *x)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_unary_op(e->context, function, alpha, x, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_binary(bt_expression *e, bt_binary function, bt_tensor *a, bt_tensor *b)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_binary_op(e->context, function, a, b, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_dropout(bt_expression *e, bt_tensor *x, double rate, uint64_t seed,
                                 uint64_t stream)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_dropout(e->context, x, rate, seed, stream, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_matmul(bt_expression *e, bt_tensor *a, bool trans_a, bt_tensor *b,
                                bool trans_b)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_matmul(e->context, a, trans_a, b, trans_b, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_reshape(bt_expression *e, bt_tensor *x, bt_shape shape)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_reshape(e->context, x, shape, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_permute(bt_expression *e, bt_tensor *x, const int *axes)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_permute(e->context, x, axes, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_expand(bt_expression *e, bt_tensor *x, bt_shape shape)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_expand(e->context, x, shape, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_cast(bt_expression *e, bt_tensor *x, bt_dtype dtype)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK || x->dtype == dtype) {
        return x;
    }
    bt_status status = bt_cast(e->context, x, dtype, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_contiguous(bt_expression *e, bt_tensor *x)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK || bt_tensor_is_contiguous(x)) {
        return x;
    }
    bt_status status = bt_contiguous(e->context, x, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_complement(bt_expression *e, bt_tensor *x)
{
    return bt_expression_unary(e, BT_UNARY_SHIFT, 1, bt_expression_unary(e, BT_UNARY_NEGATE, 0, x));
}

static bt_tensor *sum_axis(bt_expression *e, bt_tensor *x, int axis)
{
    bt_tensor *y = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_sum(e->context, x, axis, &y);
    return bt_expression_take(e, status, y);
}

bt_tensor *bt_expression_sum_last(bt_expression *e, bt_tensor *x)
{
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_shape shape = x->shape;
    shape.size[shape.rank - 1] = 1;
    return bt_expression_reshape(e, sum_axis(e, x, -1), shape);
}

bt_tensor *bt_expression_mean_last(bt_expression *e, bt_tensor *x)
{
    const double count = e->status == BT_OK ? (double)x->shape.size[x->shape.rank - 1] : 1;
    return bt_expression_unary(e, BT_UNARY_SCALE, 1 / count, bt_expression_sum_last(e, x));
}

bt_tensor *bt_expression_sum_to(bt_expression *e, bt_tensor *x, const bt_shape *shape)
{
    const int lacking = e->status == BT_OK ? x->shape.rank - shape->rank : 0;
    bool summed = false;
    for (int i = e->status == BT_OK ? x->shape.rank - 1 : -1; i >= 0 && e->status == BT_OK; --i) {
        if (i < lacking || shape->size[i - lacking] != x->shape.size[i]) {
            x = sum_axis(e, x, i);
            summed = true;
        }
    }
    return summed ? bt_expression_reshape(e, x, *shape) : x;
}

void bt_expression_give(bt_expression *e, bt_op_backward *call, int i, bt_tensor *gradient)
{
    if (!call->din[i].wanted) {
        return;
    }
    gradient = bt_expression_contiguous(e, bt_expression_cast(e, gradient, call->in_spec[i].dtype));
    if (e->status == BT_OK) {
        call->din[i].tensor = bt_tensor_retain(gradient);
    }
}

bt_status bt_expression_finish(bt_expression *e)
{
    for (int i = 0; i < e->count; ++i) {
        bt_tensor_release(e->made[i]);
    }
    e->count = 0;
    return e->status;
}
