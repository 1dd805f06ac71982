// framework/ops/elementwise.c - unary functions, binary functions with broadcasting, dropout
#include "framework/ops/elementwise.h"

// ---- unary --------------------------------------------------------------------------------------

static const bt_attr_field unary_fields[] = {BT_ATTR(bt_unary_attrs, function, UNARY),
                                             BT_ATTR(bt_unary_attrs, alpha, REAL)};
const bt_op_attrs bt_attrs_unary = BT_OP_ATTRS(bt_unary_attrs, unary_fields);

bt_status bt_op_unary_infer(bt_op_call *call)
{
    BT_TRY(bt_op_expect_float(call, 0));
    if ((unsigned)BT_ATTRS(call, unary)->function >= BT_UNARY_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "function %d, allowed 0 to %d",
                        (int)BT_ATTRS(call, unary)->function, BT_UNARY_COUNT - 1);
    }
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

// The slope of the other functions is constant: their backward does not read x.
static bool slope_depends_on_x(bt_unary function)
{
    return function != BT_UNARY_NEGATE && function != BT_UNARY_SCALE && function != BT_UNARY_SHIFT;
}

bt_status bt_op_unary_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *x = call->in[0];
    bt_unary_args args = {.function = BT_ATTRS(call, unary)->function,
                          .alpha = BT_ATTRS(call, unary)->alpha,
                          .x = bt_tensor_data(x),
                          .y = bt_tensor_data(call->out[0]),
                          .count = bt_tensor_count(x),
                          .dtype = x->dtype};
    call->remake = args.function == BT_UNARY_GELU && context->recompute >= BT_RECOMPUTE_GELU_LN;
    if (call->recording && slope_depends_on_x(args.function)) {
        call->saved[0] = bt_tensor_retain(x);
    }
    return bt_context_launch(context, BT_KERNEL_UNARY, x->dtype, &args);
}

bt_status bt_op_unary_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *x = call->saved[0] ? call->saved[0] : dy; // the kernel's x must be readable
    bt_tensor *dx = NULL;
    bool accumulate = call->din[0].accumulate;
    BT_TRY(bt_grad_target_reusing(context, call, 0, 0, &dx));
    bt_unary_backward_args args = {.function = BT_ATTRS(call, unary)->function,
                                   .alpha = BT_ATTRS(call, unary)->alpha,
                                   .x = bt_tensor_data(x),
                                   .dy = bt_tensor_data(dy),
                                   .dx = bt_tensor_data(dx),
                                   .count = bt_tensor_count(dy),
                                   .dtype = dy->dtype,
                                   .accumulate = accumulate};
    return bt_context_launch(context, BT_KERNEL_UNARY_BACKWARD, dy->dtype, &args);
}

bt_status bt_unary_op(bt_context *context, bt_unary function, double alpha, bt_tensor *x,
                      bt_tensor **out)
{
    const bt_unary_attrs attrs = {function, alpha};
    return bt_op_apply(context, BT_OP_UNARY, &attrs, &x, 1, out);
}

bt_status bt_gelu(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    return bt_unary_op(context, BT_UNARY_GELU, 0, x, out);
}

bt_status bt_relu(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    return bt_unary_op(context, BT_UNARY_RELU, 0, x, out);
}

bt_status bt_scale(bt_context *context, bt_tensor *x, double alpha, bt_tensor **out)
{
    return bt_unary_op(context, BT_UNARY_SCALE, alpha, x, out);
}

// ---- binary -------------------------------------------------------------------------------------

static const bt_attr_field binary_fields[] = {BT_ATTR(bt_binary_attrs, function, BINARY)};
const bt_op_attrs bt_attrs_binary = BT_OP_ATTRS(bt_binary_attrs, binary_fields);

bt_status bt_op_binary_infer(bt_op_call *call)
{
    const bt_tensor *a = call->in[0];
    const bt_tensor *b = call->in[1];
    if (a->dtype != b->dtype || !bt_dtype_is_float(a->dtype)) {
        return bt_op_mismatch(call, 0, 1);
    }
    if ((unsigned)BT_ATTRS(call, binary)->function >= BT_BINARY_COUNT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "function %d, allowed 0 to %d",
                        (int)BT_ATTRS(call, binary)->function, BT_BINARY_COUNT - 1);
    }
    const bt_tensor *longer = a->shape.rank >= b->shape.rank ? a : b;
    const bt_tensor *shorter = longer == a ? b : a;
    bt_shape shape = longer->shape;
    for (int i = 0; i < shorter->shape.rank; ++i) {
        int at = shape.rank - shorter->shape.rank + i;
        int64_t size = shorter->shape.size[i];
        if (size != shape.size[at] && size != 1 && shape.size[at] != 1) {
            return bt_op_mismatch(call, 0, 1);
        }
        shape.size[at] = shape.size[at] == 1 ? size : shape.size[at];
    }
    call->out_spec[0] = (bt_op_spec){a->dtype, shape};
    return BT_OK;
}

static bt_status launch_binary(bt_context *context, bt_binary function, const bt_tensor *a,
                               const bt_tensor *b, bt_tensor *y)
{
    bt_binary_args args = {.function = function,
                           .rank = y->shape.rank,
                           .a = bt_tensor_data(a),
                           .b = bt_tensor_data(b),
                           .y = bt_tensor_data(y),
                           .dtype = y->dtype};
    for (int i = 0; i < args.rank; ++i) {
        args.shape[i] = y->shape.size[i];
    }
    bt_broadcast_strides(a, &y->shape, args.a_stride);
    bt_broadcast_strides(b, &y->shape, args.b_stride);
    return bt_context_launch(context, BT_KERNEL_BINARY, y->dtype, &args);
}

// Of products and quotients: d/da reads b, d/db reads a, and for a quotient b as well.
bt_status bt_op_binary_forward(bt_context *context, bt_op_call *call)
{
    const bool divides = BT_ATTRS(call, binary)->function == BT_BINARY_DIV;
    if (call->recording && (divides || BT_ATTRS(call, binary)->function == BT_BINARY_MUL)) {
        const bool wants_a = call->in[0]->requires_grad, wants_b = call->in[1]->requires_grad;
        call->saved[0] = wants_b ? bt_tensor_retain(call->in[0]) : NULL;
        call->saved[1] = wants_a || divides ? bt_tensor_retain(call->in[1]) : NULL;
    }
    return launch_binary(context, BT_ATTRS(call, binary)->function, call->in[0], call->in[1],
                         call->out[0]);
}

// The gradient of operand `side` before it is summed to the operand's shape.
static bt_status binary_grad(bt_context *context, const bt_op_backward *call, int side,
                             bt_tensor **out)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *a = call->saved[0];
    bt_tensor *b = call->saved[1];
    bt_binary function = BT_ATTRS(call, binary)->function;
    if (function == BT_BINARY_ADD || (function == BT_BINARY_SUB && side == 0)) {
        *out = bt_tensor_retain(dy);
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, dy->dtype, dy->shape, "gradient", out));
    if (function == BT_BINARY_SUB) {
        bt_unary_args negate = {.function = BT_UNARY_NEGATE,
                                .x = bt_tensor_data(dy),
                                .y = bt_tensor_data(*out),
                                .count = bt_tensor_count(dy),
                                .dtype = dy->dtype};
        return bt_context_launch(context, BT_KERNEL_UNARY, dy->dtype, &negate);
    }
    if (function == BT_BINARY_MUL) {
        return launch_binary(context, BT_BINARY_MUL, dy, side == 0 ? b : a, *out);
    }
    BT_TRY(launch_binary(context, BT_BINARY_DIV, dy, b, *out)); // dy / b
    if (side == 1) {                                            // -(dy / b) * a / b
        BT_TRY(launch_binary(context, BT_BINARY_MUL, *out, a, *out));
        BT_TRY(launch_binary(context, BT_BINARY_DIV, *out, b, *out));
        bt_unary_args negate = {.function = BT_UNARY_NEGATE,
                                .x = bt_tensor_data(*out),
                                .y = bt_tensor_data(*out),
                                .count = bt_tensor_count(dy),
                                .dtype = dy->dtype};
        BT_TRY(bt_context_launch(context, BT_KERNEL_UNARY, dy->dtype, &negate));
    }
    return BT_OK;
}

bt_status bt_op_binary_backward(bt_context *context, bt_op_backward *call)
{
    for (int side = 0; side < 2; ++side) {
        bt_grad *din = &call->din[side];
        if (!din->wanted) {
            continue;
        }
        bt_tensor *full = NULL;
        bt_status status = binary_grad(context, call, side, &full);
        if (status == BT_OK) {
            status = bt_sum_to_shape(context, full, &din->spec, &din->tensor);
        }
        bt_tensor_release(full);
        BT_TRY(status);
    }
    return BT_OK;
}

bt_status bt_binary_op(bt_context *context, bt_binary function, bt_tensor *a, bt_tensor *b,
                       bt_tensor **out)
{
    const bt_binary_attrs attrs = {function};
    bt_tensor *in[] = {a, b};
    return bt_op_apply(context, BT_OP_BINARY, &attrs, in, 2, out);
}

bt_status bt_add(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out)
{
    return bt_binary_op(context, BT_BINARY_ADD, a, b, out);
}

bt_status bt_sub(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out)
{
    return bt_binary_op(context, BT_BINARY_SUB, a, b, out);
}

bt_status bt_mul(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out)
{
    return bt_binary_op(context, BT_BINARY_MUL, a, b, out);
}

bt_status bt_div(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out)
{
    return bt_binary_op(context, BT_BINARY_DIV, a, b, out);
}

// ---- dropout ------------------------------------------------------------------------------------

static const bt_attr_field dropout_fields[] = {BT_ATTR(bt_dropout_attrs, rate, REAL),
                                               BT_ATTR(bt_dropout_attrs, seed, U64),
                                               BT_ATTR(bt_dropout_attrs, stream, U64)};
const bt_op_attrs bt_attrs_dropout = BT_OP_ATTRS(bt_dropout_attrs, dropout_fields);

bt_status bt_op_dropout_infer(bt_op_call *call)
{
    double rate = BT_ATTRS(call, dropout)->rate;
    BT_TRY(bt_op_expect_float(call, 0));
    if (!(rate >= 0 && rate < 1)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "rate %g, allowed 0 <= rate < 1", rate);
    }
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

static bt_status launch_dropout(bt_context *context, const bt_dropout_attrs *attrs,
                                const bt_tensor *x, bt_tensor *y, bool accumulate)
{
    bt_dropout_args args = {.x = bt_tensor_data(x),
                            .y = bt_tensor_data(y),
                            .count = bt_tensor_count(x),
                            .rate = attrs->rate,
                            .seed = attrs->seed,
                            .stream = attrs->stream,
                            .accumulate = accumulate,
                            .dtype = x->dtype};
    return bt_context_launch(context, BT_KERNEL_DROPOUT, x->dtype, &args);
}

bt_status bt_op_dropout_forward(bt_context *context, bt_op_call *call)
{
    return launch_dropout(context, call->attrs, call->in[0], call->out[0], false);
}

bt_status bt_op_dropout_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target_reusing(context, call, 0, 0, &dx));
    return launch_dropout(context, call->attrs, call->dout[0], dx, call->din[0].accumulate);
}

bt_status bt_dropout(bt_context *context, bt_tensor *x, double rate, uint64_t seed, uint64_t stream,
                     bt_tensor **out)
{
    const bt_dropout_attrs attrs = {rate, seed, stream};
    return bt_op_apply(context, BT_OP_DROPOUT, &attrs, &x, 1, out);
}
