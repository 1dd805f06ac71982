// framework/ops/recorded_elementwise.c - gradients of elementwise ops and views with recorded ops
#include "framework/ops/elementwise.h"
#include "framework/ops/expression.h"
#include "framework/ops/view.h"

// f'(x) of the functions whose slope is not constant; for RELU, without a gradient.
static bt_tensor *sigmoid_slope(bt_expression *e, bt_tensor *x)
{
    bt_tensor *s = bt_expression_unary(e, BT_UNARY_SIGMOID, 0, x);
    return bt_expression_binary(e, BT_BINARY_MUL, s, bt_expression_complement(e, s));
}

static bt_tensor *tanh_slope(bt_expression *e, bt_tensor *x)
{
    bt_tensor *t = bt_expression_unary(e, BT_UNARY_TANH, 0, x);
    return bt_expression_complement(e, bt_expression_unary(e, BT_UNARY_SQUARE, 0, t));
}

// d/dx of x sigmoid(u), where `inner_slope` is u'(x), NULL for 1: s + x s (1 - s) u'
static bt_tensor *gated_slope(bt_expression *e, bt_tensor *x, bt_tensor *u, bt_tensor *inner_slope)
{
    bt_tensor *s = bt_expression_unary(e, BT_UNARY_SIGMOID, 0, u);
    bt_tensor *rest = bt_expression_binary(e, BT_BINARY_MUL, x, bt_expression_complement(e, s));
    if (inner_slope) {
        rest = bt_expression_binary(e, BT_BINARY_MUL, rest, inner_slope);
    }
    return bt_expression_binary(e, BT_BINARY_MUL, s,
                                bt_expression_unary(e, BT_UNARY_SHIFT, 1, rest));
}

static bt_tensor *silu_slope(bt_expression *e, bt_tensor *x) { return gated_slope(e, x, x, NULL); }

// GELU's tanh form is x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).
static bt_tensor *gelu_slope(bt_expression *e, bt_tensor *x)
{
    const double a = 1.5957691216057308, b = 0.044715 * a;
    bt_tensor *square = bt_expression_unary(e, BT_UNARY_SQUARE, 0, x);
    bt_tensor *factor = bt_expression_unary(e, BT_UNARY_SHIFT, a,
                                            bt_expression_unary(e, BT_UNARY_SCALE, b, square));
    bt_tensor *slope = bt_expression_unary(e, BT_UNARY_SHIFT, a,
                                           bt_expression_unary(e, BT_UNARY_SCALE, 3 * b, square));
    return gated_slope(e, x, bt_expression_binary(e, BT_BINARY_MUL, x, factor), slope);
}

static bt_tensor *exp_slope(bt_expression *e, bt_tensor *x)
{
    return bt_expression_unary(e, BT_UNARY_EXP, 0, x);
}

static bt_tensor *square_slope(bt_expression *e, bt_tensor *x)
{
    return bt_expression_unary(e, BT_UNARY_SCALE, 2, x);
}

// 1 / f'(x)
static bt_tensor *log_divisor(bt_expression *e, bt_tensor *x)
{
    return e->status == BT_OK ? x : NULL;
}

static bt_tensor *sqrt_divisor(bt_expression *e, bt_tensor *x)
{
    return bt_expression_unary(e, BT_UNARY_SCALE, 2, bt_expression_unary(e, BT_UNARY_SQRT, 0, x));
}

// ReLU's slope is 0 or 1, constant except at 0.
static bt_tensor *relu_slope(bt_expression *e, bt_tensor *x)
{
    bt_tensor *slope = NULL;
    if (e->status != BT_OK) {
        return NULL;
    }
    bt_status status = bt_tensor_create(e->context, x->dtype, x->shape, "slope", &slope);
    if (status == BT_OK) {
        status = bt_tensor_fill(e->context, slope, 1);
    }
    if (status == BT_OK) {
        bt_unary_backward_args args = {.function = BT_UNARY_RELU,
                                       .x = bt_tensor_data(x),
                                       .dy = bt_tensor_data(slope),
                                       .dx = bt_tensor_data(slope),
                                       .count = bt_tensor_count(x),
                                       .dtype = x->dtype};
        status = bt_context_launch(e->context, BT_KERNEL_UNARY_BACKWARD, x->dtype, &args);
    }
    if (status != BT_OK) {
        BT_TENSOR_RELEASE(slope);
    }
    return bt_expression_take(e, status, slope);
}

typedef bt_tensor *(*slope_of)(bt_expression *e, bt_tensor *x);

bt_status bt_op_unary_recorded(bt_context *context, bt_op_backward *call)
{
    static const slope_of factors[BT_UNARY_COUNT] = {
        [BT_UNARY_GELU] = gelu_slope,       [BT_UNARY_RELU] = relu_slope,
        [BT_UNARY_SILU] = silu_slope,       [BT_UNARY_TANH] = tanh_slope,
        [BT_UNARY_SIGMOID] = sigmoid_slope, [BT_UNARY_EXP] = exp_slope,
        [BT_UNARY_SQUARE] = square_slope};
    static const slope_of divisors[BT_UNARY_COUNT] = {
        [BT_UNARY_LOG] = log_divisor, [BT_UNARY_SQRT] = sqrt_divisor};
    const bt_unary function = BT_ATTRS(call, unary)->function;
    bt_expression e = {.context = context};
    bt_tensor *dx = call->dout[0], *x = call->saved[0];
    if (factors[function]) {
        dx = bt_expression_binary(&e, BT_BINARY_MUL, dx, factors[function](&e, x));
    } else if (divisors[function]) {
        dx = bt_expression_binary(&e, BT_BINARY_DIV, dx, divisors[function](&e, x));
    } else if (function != BT_UNARY_SHIFT) { // NEGATE and SCALE are linear
        dx = bt_expression_unary(&e, function, BT_ATTRS(call, unary)->alpha, dx);
    }
    bt_expression_give(&e, call, 0, dx);
    return bt_expression_finish(&e);
}

// d/da of a / b is dy / b, and d/db is -(dy / b) a / b.
static bt_tensor *binary_side(bt_expression *e, const bt_op_backward *call, int side)
{
    bt_tensor *dy = call->dout[0], *a = call->saved[0], *b = call->saved[1];
    switch (BT_ATTRS(call, binary)->function) {
    case BT_BINARY_ADD:
        return dy;
    case BT_BINARY_SUB:
        return side == 0 ? dy : bt_expression_unary(e, BT_UNARY_NEGATE, 0, dy);
    case BT_BINARY_MUL:
        return bt_expression_binary(e, BT_BINARY_MUL, dy, side == 0 ? b : a);
    case BT_BINARY_DIV:
        break;
    case BT_BINARY_COUNT:
        return NULL;
    }
    bt_tensor *part = bt_expression_binary(e, BT_BINARY_DIV, dy, b);
    if (side == 0) {
        return part;
    }
    part =
        bt_expression_binary(e, BT_BINARY_MUL, part, bt_expression_binary(e, BT_BINARY_DIV, a, b));
    return bt_expression_unary(e, BT_UNARY_NEGATE, 0, part);
}

bt_status bt_op_binary_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    for (int side = 0; side < 2; ++side) {
        if (call->din[side].wanted) {
            bt_tensor *full = binary_side(&e, call, side);
            bt_expression_give(&e, call, side,
                               bt_expression_sum_to(&e, full, &call->in_spec[side].shape));
        }
    }
    return bt_expression_finish(&e);
}

// The same mask is applied to the gradient.
bt_status bt_op_dropout_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_expression_give(&e, call, 0,
                       bt_expression_dropout(&e, call->dout[0], BT_ATTRS(call, dropout)->rate,
                                             BT_ATTRS(call, dropout)->seed,
                                             BT_ATTRS(call, dropout)->stream));
    return bt_expression_finish(&e);
}

bt_status bt_op_cast_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_expression_give(&e, call, 0, call->dout[0]);
    return bt_expression_finish(&e);
}

bt_status bt_op_contiguous_recorded(bt_context *context, bt_op_backward *call)
{
    return bt_op_cast_recorded(context, call);
}

bt_status bt_op_reshape_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_expression_give(&e, call, 0,
                       bt_expression_reshape(&e, call->dout[0], call->in_spec[0].shape));
    return bt_expression_finish(&e);
}

bt_status bt_op_permute_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    int back[BT_MAX_RANK] = {0};
    for (int i = 0; i < call->in_spec[0].shape.rank; ++i) {
        back[BT_ATTRS(call, permute)->axis[i]] = i;
    }
    bt_expression_give(&e, call, 0, bt_expression_permute(&e, call->dout[0], back));
    return bt_expression_finish(&e);
}

bt_status bt_op_expand_recorded(bt_context *context, bt_op_backward *call)
{
    bt_expression e = {.context = context};
    bt_expression_give(&e, call, 0,
                       bt_expression_sum_to(&e, call->dout[0], &call->in_spec[0].shape));
    return bt_expression_finish(&e);
}
