// framework/ops/reduce.c - sums over an axis, softmax
#include "framework/ops/reduce.h"

// ---- sum ----------------------------------------------------------------------------------------

static const bt_attr_field sum_fields[] = {BT_ATTR(bt_sum_attrs, axis, INT)};
const bt_op_attrs bt_attrs_sum = BT_OP_ATTRS(bt_sum_attrs, sum_fields);

bt_status bt_op_sum_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    int axis = BT_ATTRS(call, sum)->axis;
    BT_TRY(bt_op_expect_float(call, 0));
    if (axis < 0 || axis >= x->shape.rank) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "axis %d of a tensor of shape %s", axis,
                        bt_shape_text(&x->shape, text));
    }
    bt_shape shape = {.rank = x->shape.rank - 1};
    for (int i = 0; i < shape.rank; ++i) {
        shape.size[i] = x->shape.size[i < axis ? i : i + 1];
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, shape};
    return BT_OK;
}

bt_status bt_op_sum_forward(bt_context *context, bt_op_call *call)
{
    const int axis = BT_ATTRS(call, sum)->axis;
    return bt_reduce_sum_launch(context, call->in[0], &call->in[0]->shape, axis, axis + 1,
                                call->out[0]);
}

bt_status bt_op_sum_backward(bt_context *context, bt_op_backward *call)
{
    const bt_shape *shape = &call->din[0].spec.shape;
    bt_tensor *dy = call->dout[0];
    bt_tensor *expanded = NULL;
    bt_tensor *dx = NULL;
    int64_t stride[BT_MAX_RANK];
    int axis = BT_ATTRS(call, sum)->axis;
    for (int i = 0; i < shape->rank; ++i) {
        stride[i] = i == axis ? 0 : dy->stride[i < axis ? i : i - 1];
    }
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    BT_TRY(bt_tensor_view(dy, *shape, stride, 0, &expanded));
    bt_status status = bt_tensor_copy(context, expanded, dx);
    bt_tensor_release(expanded);
    return status;
}

bt_status bt_sum(bt_context *context, bt_tensor *x, int axis, bt_tensor **out)
{
    const bt_sum_attrs attrs = {axis < 0 ? axis + x->shape.rank : axis};
    return bt_op_apply(context, BT_OP_SUM, &attrs, &x, 1, out);
}

bt_status bt_sum_all(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    bt_tensor *flat = NULL;
    *out = NULL;
    BT_TRY(bt_reshape(context, x, BT_SHAPE(bt_tensor_count(x)), &flat));
    bt_status status = bt_sum(context, flat, 0, out);
    bt_tensor_release(flat);
    return status;
}

bt_status bt_mean_all(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    bt_tensor *sum = NULL;
    *out = NULL;
    BT_TRY(bt_sum_all(context, x, &sum));
    bt_status status = bt_scale(context, sum, 1.0 / (double)bt_tensor_count(x), out);
    bt_tensor_release(sum);
    return status;
}

bt_status bt_mean_squared_error(bt_context *context, bt_tensor *x, bt_tensor *y, bt_tensor **out)
{
    bt_tensor *difference = NULL;
    bt_tensor *square = NULL;
    *out = NULL;
    BT_TRY(bt_sub(context, x, y, &difference));
    bt_status status = bt_unary_op(context, BT_UNARY_SQUARE, 0, difference, &square);
    if (status == BT_OK) {
        status = bt_mean_all(context, square, out);
    }
    bt_tensor_release(difference);
    bt_tensor_release(square);
    return status;
}

// ---- softmax ------------------------------------------------------------------------------------

bt_status bt_op_softmax_infer(bt_op_call *call)
{
    BT_TRY(bt_op_expect_float(call, 0));
    if (call->in[0]->shape.rank < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "of a scalar");
    }
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

static int64_t last_size(const bt_tensor *x) { return x->shape.size[x->shape.rank - 1]; }

static int64_t row_count(const bt_tensor *x)
{
    return last_size(x) ? bt_tensor_count(x) / last_size(x) : 0;
}

bt_status bt_op_softmax_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *x = call->in[0];
    bt_softmax_args args = {.x = bt_tensor_data(x),
                            .y = bt_tensor_data(call->out[0]),
                            .rows = row_count(x),
                            .cols = last_size(x),
                            .dtype = x->dtype};
    if (call->recording) {
        call->saved[0] = bt_tensor_retain(call->out[0]);
    }
    return bt_context_launch(context, BT_KERNEL_SOFTMAX, x->dtype, &args);
}

bt_status bt_op_softmax_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *y = call->saved[0];
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target_reusing(context, call, 0, 0, &dx));
    bt_softmax_backward_args args = {.y = bt_tensor_data(y),
                                     .dy = bt_tensor_data(call->dout[0]),
                                     .dx = bt_tensor_data(dx),
                                     .rows = row_count(y),
                                     .cols = last_size(y),
                                     .dtype = y->dtype};
    return bt_context_launch(context, BT_KERNEL_SOFTMAX_BACKWARD, y->dtype, &args);
}

bt_status bt_softmax(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    return bt_op_apply(context, BT_OP_SOFTMAX, NULL, &x, 1, out);
}
