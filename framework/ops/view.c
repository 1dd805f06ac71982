// framework/ops/view.c - cast and contiguous copies, and the views: reshape, permute, narrow,
// expand
//
// A view's backward applies the inverse to the gradient; gradients stay contiguous, so permute
// copies.
#include "framework/ops/view.h"

// ---- cast, contiguous ---------------------------------------------------------------------------

static const bt_attr_field cast_fields[] = {BT_ATTR(bt_cast_attrs, dtype, DTYPE)};
const bt_op_attrs bt_attrs_cast = BT_OP_ATTRS(bt_cast_attrs, cast_fields);

bt_status bt_op_cast_infer(bt_op_call *call)
{
    call->out_spec[0] = (bt_op_spec){BT_ATTRS(call, cast)->dtype, call->in[0]->shape};
    return BT_OK;
}

bt_status bt_op_cast_forward(bt_context *context, bt_op_call *call)
{
    return bt_tensor_copy(context, call->in[0], call->out[0]);
}

bt_status bt_op_cast_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    return bt_tensor_copy(context, call->dout[0], dx);
}

bt_status bt_cast(bt_context *context, bt_tensor *x, bt_dtype dtype, bt_tensor **out)
{
    const bt_cast_attrs attrs = {dtype};
    return bt_op_apply(context, BT_OP_CAST, &attrs, &x, 1, out);
}

bt_status bt_op_contiguous_infer(bt_op_call *call)
{
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

bt_status bt_op_contiguous_forward(bt_context *context, bt_op_call *call)
{
    return bt_tensor_copy(context, call->in[0], call->out[0]);
}

bt_status bt_op_contiguous_backward(bt_context *context, bt_op_backward *call)
{
    (void)context;
    bt_grad_pass(call, 0, 0);
    return BT_OK;
}

bt_status bt_contiguous(bt_context *context, bt_tensor *x, bt_tensor **out)
{
    return bt_op_apply(context, BT_OP_CONTIGUOUS, NULL, &x, 1, out);
}

// ---- reshape ------------------------------------------------------------------------------------

static const bt_attr_field view_fields[] = {BT_ATTR(bt_view_attrs, shape, SHAPE)};
const bt_op_attrs bt_attrs_view = BT_OP_ATTRS(bt_view_attrs, view_fields);

bt_status bt_op_reshape_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    const bt_shape *shape = &BT_ATTRS(call, view)->shape;
    BT_TRY(bt_tensor_expect(x, x->dtype, "input 0"));
    BT_TRY(bt_shape_check(shape, "result"));
    if (bt_shape_count(shape) != bt_tensor_count(x)) {
        char from[BT_SHAPE_TEXT_BYTES];
        char to[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "shape %s does not have the elements of %s",
                        bt_shape_text(shape, to), bt_shape_text(&x->shape, from));
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, *shape};
    return BT_OK;
}

bt_status bt_op_reshape_forward(bt_context *context, bt_op_call *call)
{
    (void)context;
    int64_t stride[BT_MAX_RANK];
    bt_shape_strides(&BT_ATTRS(call, view)->shape, stride);
    return bt_tensor_view(call->in[0], BT_ATTRS(call, view)->shape, stride, 0, &call->out[0]);
}

bt_status bt_op_reshape_backward(bt_context *context, bt_op_backward *call)
{
    (void)context;
    int64_t stride[BT_MAX_RANK];
    bt_shape_strides(&call->in_spec[0].shape, stride);
    return bt_tensor_view(call->dout[0], call->in_spec[0].shape, stride, 0, &call->din[0].tensor);
}

bt_status bt_reshape(bt_context *context, bt_tensor *x, bt_shape shape, bt_tensor **out)
{
    const bt_view_attrs attrs = {shape};
    return bt_op_apply(context, BT_OP_RESHAPE, &attrs, &x, 1, out);
}

// ---- permute ------------------------------------------------------------------------------------

static const bt_attr_field permute_fields[] = {BT_ATTR(bt_permute_attrs, axis, INT)};
const bt_op_attrs bt_attrs_permute = BT_OP_ATTRS(bt_permute_attrs, permute_fields);

bt_status bt_op_permute_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    unsigned seen = 0;
    bt_shape shape = {.rank = x->shape.rank};
    for (int i = 0; i < shape.rank; ++i) {
        int axis = BT_ATTRS(call, permute)->axis[i];
        if (axis < 0 || axis >= shape.rank || (seen >> axis & 1U)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "axis %d at place %d: the axes must be a permutation of 0 to %d", axis,
                            i, shape.rank - 1);
        }
        seen |= 1U << axis;
        shape.size[i] = x->shape.size[axis];
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, shape};
    return BT_OK;
}

bt_status bt_op_permute_forward(bt_context *context, bt_op_call *call)
{
    (void)context;
    bt_tensor *x = call->in[0];
    int64_t stride[BT_MAX_RANK];
    for (int i = 0; i < x->shape.rank; ++i) {
        stride[i] = x->stride[BT_ATTRS(call, permute)->axis[i]];
    }
    return bt_tensor_view(x, call->out_spec[0].shape, stride, 0, &call->out[0]);
}

bt_status bt_op_permute_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *view = NULL;
    bt_tensor *dx = NULL;
    int64_t stride[BT_MAX_RANK];
    for (int i = 0; i < dy->shape.rank; ++i) {
        stride[BT_ATTRS(call, permute)->axis[i]] = dy->stride[i];
    }
    BT_TRY(bt_grad_target(context, call, 0, &dx));
    BT_TRY(bt_tensor_view(dy, call->in_spec[0].shape, stride, 0, &view));
    bt_status status = bt_tensor_copy(context, view, dx);
    bt_tensor_release(view);
    return status;
}

bt_status bt_permute(bt_context *context, bt_tensor *x, const int *axes, bt_tensor **out)
{
    bt_permute_attrs attrs = {{0}};
    for (int i = 0; i < x->shape.rank; ++i) {
        attrs.axis[i] = axes[i];
    }
    return bt_op_apply(context, BT_OP_PERMUTE, &attrs, &x, 1, out);
}

bt_status bt_transpose(bt_context *context, bt_tensor *x, int axis, int with, bt_tensor **out)
{
    int axes[BT_MAX_RANK];
    *out = NULL;
    if (axis < 0 || axis >= x->shape.rank || with < 0 || with >= x->shape.rank) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "transpose: axes %d and %d of %s", axis, with,
                        bt_shape_text(&x->shape, text));
    }
    for (int i = 0; i < x->shape.rank; ++i) {
        axes[i] = i == axis ? with : i == with ? axis : i;
    }
    return bt_permute(context, x, axes, out);
}

// ---- narrow -------------------------------------------------------------------------------------

static const bt_attr_field narrow_fields[] = {BT_ATTR(bt_narrow_attrs, axis, INT),
                                              BT_ATTR(bt_narrow_attrs, start, I64),
                                              BT_ATTR(bt_narrow_attrs, length, I64)};
const bt_op_attrs bt_attrs_narrow = BT_OP_ATTRS(bt_narrow_attrs, narrow_fields);

bt_status bt_op_narrow_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    int axis = BT_ATTRS(call, narrow)->axis;
    int64_t start = BT_ATTRS(call, narrow)->start;
    int64_t length = BT_ATTRS(call, narrow)->length;
    if (axis < 0 || axis >= x->shape.rank || start < 0 || length < 0 ||
        start > x->shape.size[axis] - length) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%lld elements from %lld of axis %d of %s",
                        (long long)length, (long long)start, axis, bt_shape_text(&x->shape, text));
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, x->shape};
    call->out_spec[0].shape.size[axis] = length;
    return BT_OK;
}

bt_status bt_op_narrow_forward(bt_context *context, bt_op_call *call)
{
    (void)context;
    bt_tensor *x = call->in[0];
    int64_t offset = BT_ATTRS(call, narrow)->start * x->stride[BT_ATTRS(call, narrow)->axis];
    return bt_tensor_view(x, call->out_spec[0].shape, x->stride, offset, &call->out[0]);
}

bt_status bt_op_narrow_backward(bt_context *context, bt_op_backward *call)
{
    bt_grad *din = &call->din[0];
    bt_tensor *slice = NULL;
    BT_TRY(bt_tensor_zeros(context, din->spec.dtype, din->spec.shape, "gradient", &din->tensor));
    int64_t offset =
        BT_ATTRS(call, narrow)->start * din->tensor->stride[BT_ATTRS(call, narrow)->axis];
    BT_TRY(bt_tensor_view(din->tensor, call->dout[0]->shape, din->tensor->stride, offset, &slice));
    bt_status status = bt_tensor_copy(context, call->dout[0], slice);
    bt_tensor_release(slice);
    return status;
}

bt_status bt_narrow(bt_context *context, bt_tensor *x, int axis, int64_t start, int64_t length,
                    bt_tensor **out)
{
    const bt_narrow_attrs attrs = {axis, start, length};
    return bt_op_apply(context, BT_OP_NARROW, &attrs, &x, 1, out);
}

// ---- expand -------------------------------------------------------------------------------------

bt_status bt_op_expand_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[0];
    const bt_shape *shape = &BT_ATTRS(call, view)->shape;
    int lacking = shape->rank - x->shape.rank;
    BT_TRY(bt_shape_check(shape, "result"));
    for (int i = 0; i < x->shape.rank; ++i) {
        if (lacking < 0 ||
            (x->shape.size[i] != 1 && x->shape.size[i] != shape->size[lacking + i])) {
            char from[BT_SHAPE_TEXT_BYTES];
            char to[BT_SHAPE_TEXT_BYTES];
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s cannot be expanded to %s",
                            bt_shape_text(&x->shape, from), bt_shape_text(shape, to));
        }
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, *shape};
    return BT_OK;
}

bt_status bt_op_expand_forward(bt_context *context, bt_op_call *call)
{
    (void)context;
    const bt_shape *shape = &BT_ATTRS(call, view)->shape;
    int64_t stride[BT_MAX_RANK];
    bt_broadcast_strides(call->in[0], shape, stride);
    return bt_tensor_view(call->in[0], *shape, stride, 0, &call->out[0]);
}

bt_status bt_op_expand_backward(bt_context *context, bt_op_backward *call)
{
    return bt_sum_to_shape(context, call->dout[0], &call->din[0].spec, &call->din[0].tensor);
}

bt_status bt_expand(bt_context *context, bt_tensor *x, bt_shape shape, bt_tensor **out)
{
    const bt_view_attrs attrs = {shape};
    return bt_op_apply(context, BT_OP_EXPAND, &attrs, &x, 1, out);
}

bt_status bt_detach(bt_tensor *x, bt_tensor **out)
{
    return bt_tensor_view(x, x->shape, x->stride, 0, out);
}
