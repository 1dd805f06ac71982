// framework/ops/recorded_rows.c - gradients of sums, norms and products with recorded ops
#include "framework/ops/expression.h"
#include "framework/ops/layernorm.h"
#include "framework/ops/linear.h"
#include "framework/ops/reduce.h"

bt_status bt_op_sum_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_shape shape = call->in_spec[0].shape;
    shape.size[BT_ATTRS(call, sum)->axis] = 1;
    bt_tensor *dx = bt_expression_reshape(&e, call->dout[0], shape);
    bt_expression_give(&e, call, 0, bt_expression_expand(&e, dx, call->in_spec[0].shape));
    return bt_expression_finish(&e);
}

// dx = y (dy - sum(dy y))
bt_status bt_op_softmax_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_tensor *dy = call->dout[0], *y = call->saved[0];
    bt_tensor *sum = bt_expression_sum_last(&e, bt_expression_binary(&e, BT_BINARY_MUL, dy, y));
    bt_expression_give(&e, call, 0,
                       bt_expression_binary(&e, BT_BINARY_MUL, y,
                                            bt_expression_binary(&e, BT_BINARY_SUB, dy, sum)));
    return bt_expression_finish(&e);
}

// The gradients of a norm of s = saved[0]: those of gamma and beta are given, that of s is
// returned. Mean and deviation are recomputed from s, since the saved ones are constants.
static bt_tensor *norm_backward(bt_expression *e, bt_op_backward *call)
{
    enum { GAMMA = 1, BETA = 2 };
    bt_tensor *s = call->saved[0], *dy = call->dout[0];
    bt_tensor *gamma = bt_expression_cast(e, call->saved[1], s->dtype);
    bt_tensor *centred = bt_expression_binary(e, BT_BINARY_SUB, s, bt_expression_mean_last(e, s));
    bt_tensor *variance =
        bt_expression_mean_last(e, bt_expression_unary(e, BT_UNARY_SQUARE, 0, centred));
    bt_tensor *deviation = bt_expression_unary(
        e, BT_UNARY_SQRT, 0,
        bt_expression_unary(e, BT_UNARY_SHIFT, BT_ATTRS(call, layernorm)->epsilon, variance));
    bt_tensor *normed = bt_expression_binary(e, BT_BINARY_DIV, centred, deviation);
    if (call->din[GAMMA].wanted) {
        bt_tensor *product = bt_expression_binary(e, BT_BINARY_MUL, dy, normed);
        bt_expression_give(e, call, GAMMA,
                           bt_expression_sum_to(e, product, &call->in_spec[GAMMA].shape));
    }
    if (call->din[BETA].wanted) {
        bt_expression_give(e, call, BETA, bt_expression_sum_to(e, dy, &call->in_spec[BETA].shape));
    }
    bt_tensor *dnormed = bt_expression_binary(e, BT_BINARY_MUL, dy, gamma);
    bt_tensor *along =
        bt_expression_mean_last(e, bt_expression_binary(e, BT_BINARY_MUL, dnormed, normed));
    bt_tensor *rest =
        bt_expression_binary(e, BT_BINARY_SUB, dnormed, bt_expression_mean_last(e, dnormed));
    rest = bt_expression_binary(e, BT_BINARY_SUB, rest,
                                bt_expression_binary(e, BT_BINARY_MUL, normed, along));
    return bt_expression_binary(e, BT_BINARY_DIV, rest, deviation);
}

bt_status bt_op_layernorm_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_expression_give(&e, call, 0, norm_backward(&e, call));
    return bt_expression_finish(&e);
}

// The gradient of the sum, from the norm and from the sum's other users, goes to both summands.
bt_status bt_op_add_layernorm_recorded(bt_context *context, bt_op_backward *call)
{
    static const int params[] = {1, 2}, sides[] = {0, 3};
    bt_expression e = {.context = context};
    bt_tensor *ds = call->dout[1];
    if (call->dout[0]) {
        bt_tensor *through = norm_backward(&e, call);
        ds = ds ? bt_expression_binary(&e, BT_BINARY_ADD, through, ds) : through;
    }
    for (int i = 0; i < 2; ++i) {
        bt_expression_give(&e, call, sides[i], ds);
        bt_grad *param = &call->din[params[i]]; // only the sum was used: it has no gradient from
                                                // the norm
        if (e.status == BT_OK && param->wanted && !call->dout[0]) {
            const bt_op_spec *spec = &call->in_spec[params[i]];
            e.status =
                bt_tensor_zeros(context, spec->dtype, spec->shape, "gradient", &param->tensor);
        }
    }
    return bt_expression_finish(&e);
}

static bt_shape flat_shape(const bt_tensor *x)
{
    return BT_SHAPE(bt_linear_rows(x), x->shape.size[x->shape.rank - 1]);
}

bt_status bt_op_linear_recorded(bt_context *context, bt_op_backward *call)
{
    enum { X, W, BIAS, RESIDUAL };
    if (BT_ATTRS(call, linear)->activation != BT_ACTIVATION_NONE) {
        return bt_error(BT_STATUS_UNSUPPORTED, "linear with GELU is not twice differentiable");
    }
    bt_expression e = {.context = context};
    bt_tensor *dy = bt_expression_reshape(&e, call->dout[0], flat_shape(call->dout[0]));
    if (call->din[X].wanted) {
        bt_tensor *dx = bt_expression_matmul(&e, dy, false, call->saved[1], false);
        bt_expression_give(&e, call, X, bt_expression_reshape(&e, dx, call->in_spec[X].shape));
    }
    if (call->din[W].wanted) {
        bt_tensor *x = call->saved[0];
        bt_tensor *flat = bt_expression_reshape(&e, x, flat_shape(x));
        bt_expression_give(&e, call, W, bt_expression_matmul(&e, dy, true, flat, false));
    }
    if (call->din[BIAS].wanted) {
        bt_expression_give(&e, call, BIAS,
                           bt_expression_sum_to(&e, dy, &call->in_spec[BIAS].shape));
    }
    bt_expression_give(&e, call, RESIDUAL, call->dout[0]);
    return bt_expression_finish(&e);
}

// As bt_op_matmul_backward.
bt_status bt_op_matmul_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_tensor *dy = call->dout[0], *a = call->saved[0], *b = call->saved[1];
    const bool ta = BT_ATTRS(call, matmul)->trans_a, tb = BT_ATTRS(call, matmul)->trans_b;
    if (call->din[0].wanted) {
        bt_expression_give(&e, call, 0,
                           ta ? bt_expression_matmul(&e, b, tb, dy, true)
                              : bt_expression_matmul(&e, dy, false, b, !tb));
    }
    if (call->din[1].wanted) {
        bt_expression_give(&e, call, 1,
                           tb ? bt_expression_matmul(&e, dy, true, a, ta)
                              : bt_expression_matmul(&e, a, !ta, dy, false));
    }
    return bt_expression_finish(&e);
}
