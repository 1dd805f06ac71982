// framework/ops/broadcast.c - broadcasting: strides, and the sum of a gradient over broadcast axes
#include "framework/ops/reduce.h"

void bt_broadcast_strides(const bt_tensor *x, const bt_shape *shape, int64_t *stride)
{
    int lacking = shape->rank - x->shape.rank;
    for (int i = 0; i < shape->rank; ++i) {
        bool own = i >= lacking && x->shape.size[i - lacking] == shape->size[i];
        stride[i] = own ? x->stride[i - lacking] : 0;
    }
}

bt_status bt_reduce_sum_launch(bt_context *context, const bt_tensor *x, const bt_shape *shape,
                               int begin, int end, bt_tensor *y)
{
    bt_reduce_sum_args args = {.x = bt_tensor_data(x),
                               .y = bt_tensor_data(y),
                               .outer = 1,
                               .reduce = 1,
                               .inner = 1,
                               .scale = 1.0,
                               .dtype = x->dtype,
                               .y_dtype = y->dtype};
    for (int i = 0; i < shape->rank; ++i) {
        int64_t *part = i < begin ? &args.outer : i < end ? &args.reduce : &args.inner;
        *part *= shape->size[i];
    }
    return bt_context_launch(context, BT_KERNEL_REDUCE_SUM, x->dtype, &args);
}

// Was a tensor of `shape` broadcast along this axis of `larger`?
static bool is_broadcast(const bt_shape *shape, const bt_shape *larger, int axis)
{
    const int lacking = larger->rank - shape->rank;
    return axis < larger->rank &&
           (axis < lacking || shape->size[axis - lacking] != larger->size[axis]);
}

// Replaces *sum by its sum over adjacent axes, which become size 1. The result is of `dtype`.
static bt_status sum_axes(bt_context *context, int begin, int end, bt_dtype dtype, bt_tensor **sum)
{
    bt_shape smaller = (*sum)->shape;
    bt_tensor *next = NULL;
    for (int i = begin; i < end; ++i) {
        smaller.size[i] = 1;
    }
    BT_TRY(bt_tensor_create(context, dtype, smaller, "gradient", &next));
    bt_status status = bt_reduce_sum_launch(context, *sum, &(*sum)->shape, begin, end, next);
    bt_tensor_release(*sum);
    *sum = next;
    return status;
}

// Adjacent broadcast axes are summed in one call; finally the leading axes are removed.
bt_status bt_sum_to_shape(bt_context *context, bt_tensor *grad, const bt_op_spec *spec,
                          bt_tensor **out)
{
    const bt_shape *full = &grad->shape, *shape = &spec->shape;
    bt_tensor *sum = bt_tensor_retain(grad);
    bt_status status = BT_OK;
    int last = full->rank; // broadcast axis
    *out = NULL;
    while (last > 0 && !is_broadcast(shape, full, last - 1)) {
        --last;
    }
    for (int i = 0; i < last && status == BT_OK; ++i) {
        int end = i;
        while (is_broadcast(shape, full, end)) {
            ++end;
        }
        if (end > i) {
            const bool narrow = sum->dtype == BT_BF16 && spec->dtype == BT_BF16 && end == last;
            const bt_dtype wide = sum->dtype == BT_BF16 ? BT_F32 : sum->dtype;
            status = sum_axes(context, i, end, narrow ? BT_BF16 : wide, &sum);
            i = end;
        }
    }
    if (status == BT_OK && bt_shape_equal(&sum->shape, shape)) {
        *out = sum;
        return BT_OK;
    }
    if (status == BT_OK) {
        int64_t stride[BT_MAX_RANK];
        bt_shape_strides(shape, stride);
        status = bt_tensor_view(sum, *shape, stride, 0, out);
    }
    bt_tensor_release(sum);
    return status;
}
