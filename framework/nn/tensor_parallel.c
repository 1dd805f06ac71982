#include "framework/nn/tensor_parallel.h"

#include "framework/base/str.h"
#include "framework/dist/mesh.h"

bt_param_part bt_nn_part(const bt_group *group, int axis, int64_t repeats, int64_t units,
                         int64_t unit)
{
    int64_t first = 0, count = units;
    if (group) {
        bt_mesh_part(units, group->size, group->rank, &first, &count);
    }
    return (bt_param_part){axis, repeats, first * unit, count * unit};
}

static bt_status add(bt_params *params, const char *prefix, const char *name, bt_shape whole,
                     const bt_param_part *part, double deviation, bt_tensor **value)
{
    bt_str path = {0};
    bt_str_format(&path, "%s.%s", prefix, name);
    bt_status status = bt_str_status(&path);
    if (status == BT_OK) {
        status = bt_params_add_part(params, bt_str_text(&path), BT_PARAM_COMPUTE, whole, part, 0,
                                    deviation, value);
    }
    bt_str_release(&path);
    return status;
}

bt_status bt_nn_column_init(bt_params *params, const char *prefix, int64_t in, int64_t out,
                            const bt_group *group, bt_param_part part, double deviation,
                            bt_nn_linear *layer)
{
    const bt_param_part *own = group ? &part : NULL;
    *layer = (bt_nn_linear){0};
    BT_TRY(add(params, prefix, "weight", BT_SHAPE(out, in), own, deviation, &layer->weight));
    return add(params, prefix, "bias", BT_SHAPE(out), own, 0, &layer->bias);
}

bt_status bt_nn_row_init(bt_params *params, const char *prefix, int64_t in, int64_t out,
                         const bt_group *group, bt_param_part part, double deviation,
                         bt_nn_linear *layer)
{
    const bt_param_part bias = {.repeats = 1, .count = group && group->rank > 0 ? 0 : out};
    *layer = (bt_nn_linear){0};
    BT_TRY(add(params, prefix, "weight", BT_SHAPE(out, in), group ? &part : NULL, deviation,
               &layer->weight));
    return add(params, prefix, "bias", BT_SHAPE(out), group ? &bias : NULL, 0, &layer->bias);
}

// *y = sum over ranks of partial + residual; releases partial.
static bt_status sum(bt_context *context, bt_group *group, bt_tensor *partial, bt_tensor *residual,
                     bt_tensor **y)
{
    bt_tensor *whole = NULL;
    bt_status status = bt_group_all_reduce(context, group, partial, true, residual ? &whole : y);
    bt_tensor_release(partial);
    if (status == BT_OK && residual) {
        status = bt_add(context, whole, residual, y);
    }
    bt_tensor_release(whole);
    return status;
}

bt_status bt_nn_row_forward(bt_context *context, bt_group *group, const bt_nn_linear *layer,
                            bt_tensor *x, bt_tensor *residual, bt_tensor **y)
{
    bt_tensor *partial = NULL;
    if (!group) {
        return bt_nn_linear_forward(context, layer, x, residual, BT_ACTIVATION_NONE, y);
    }
    BT_TRY(bt_nn_linear_forward(context, layer, x, NULL, BT_ACTIVATION_NONE, &partial));
    return sum(context, group, partial, residual, y);
}

bt_status bt_nn_feed_forward(bt_context *context, bt_group *group, const bt_nn_linear *column,
                             const bt_nn_linear *row, bt_tensor *x, bt_tensor *residual,
                             bt_tensor **y)
{
    bt_tensor *partial = NULL;
    if (!group) {
        return bt_feed_forward(context, x, column->weight, column->bias, row->weight, row->bias,
                               residual, y);
    }
    BT_TRY(bt_feed_forward(context, x, column->weight, column->bias, row->weight, row->bias, NULL,
                           &partial));
    return sum(context, group, partial, residual, y);
}

bt_status bt_nn_enter(bt_context *context, bt_group *group, bt_tensor **x)
{
    bt_tensor *shared = NULL;
    if (!group) {
        return BT_OK;
    }
    BT_TRY(bt_group_replicate(context, group, *x, &shared));
    bt_tensor_release(*x);
    *x = shared;
    return BT_OK;
}
