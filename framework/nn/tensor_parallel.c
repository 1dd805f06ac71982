#include "framework/nn/tensor_parallel.h"

#include "framework/base/str.h"
#include "framework/dist/mesh.h"
#include "framework/ops/row_chunks.h"

bt_status bt_nn_check_heads(int64_t heads, int ranks)
{
    return ranks <= heads
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "train.mesh.tensor is %d, but train.model.heads is %lld, and each rank "
                          "needs a head; allowed: 1 to %lld",
                          ranks, (long long)heads, (long long)heads);
}

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

// Views [B, T, C] as rows; rows are unchanged.
static bt_status flatten(bt_context *context, bt_tensor **x)
{
    const bt_shape *shape = &(*x)->shape;
    const int64_t width = shape->size[shape->rank - 1];
    bt_tensor *view = NULL;
    if (shape->rank == 2) {
        return BT_OK;
    }
    BT_TRY(bt_reshape(context, *x, BT_SHAPE(bt_tensor_count(*x) / width, width), &view));
    bt_tensor_release(*x);
    *x = view;
    return BT_OK;
}

static bt_status sum_over(bt_context *context, const bt_nn_tensor_ranks *ranks, bt_tensor **partial,
                          bt_tensor **y)
{
    if (!ranks->sequence_parallel) {
        return bt_group_all_reduce(context, ranks->group, *partial, true, y);
    }
    BT_TRY(flatten(context, partial));
    return bt_group_reduce_scatter(context, ranks->group, *partial, 0, y);
}

bt_status bt_nn_leave(bt_context *context, const bt_nn_tensor_ranks *ranks, bt_tensor **partial,
                      bt_tensor *residual, bt_tensor **y)
{
    bt_tensor *whole = NULL;
    bt_status status = sum_over(context, ranks, partial, residual ? &whole : y);
    BT_TENSOR_RELEASE(*partial);
    if (status == BT_OK && residual) {
        status = bt_add(context, whole, residual, y);
        bt_tensor_release(whole);
    }
    return status;
}

// Replaces *x by all rows, for use by every rank.
static bt_status enter(bt_context *context, const bt_nn_tensor_ranks *ranks, bt_tensor **x)
{
    bt_tensor *shared = NULL;
    BT_TRY(ranks->sequence_parallel ? bt_group_all_gather(context, ranks->group, *x, 0, &shared)
                                    : bt_group_replicate(context, ranks->group, *x, &shared));
    bt_tensor_release(*x);
    *x = shared;
    return BT_OK;
}

bt_status bt_nn_column_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                               const bt_nn_linear *layer, bt_tensor **x, bt_tensor **y)
{
    if (ranks->chunks) {
        return bt_gather_linear(context, ranks->chunks, *x, layer->weight, layer->bias, y);
    }
    BT_TRY(ranks->group ? enter(context, ranks, x) : BT_OK);
    return bt_nn_linear_forward(context, layer, *x, NULL, BT_ACTIVATION_NONE, y);
}

static bt_status scatter(bt_context *context, const bt_nn_tensor_ranks *ranks,
                         const bt_nn_linear *layer, bt_tensor *x, bt_tensor *residual,
                         bt_tensor **y)
{
    bt_tensor *rows = bt_tensor_retain(x);
    bt_status status = flatten(context, &rows);
    if (status == BT_OK) {
        status = bt_linear_scatter(context, ranks->chunks, rows, layer->weight, layer->bias,
                                   residual, y);
    }
    bt_tensor_release(rows);
    return status;
}

bt_status bt_nn_row_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                            const bt_nn_linear *layer, bt_tensor *x, bt_tensor *residual,
                            bt_tensor **y)
{
    bt_tensor *partial = NULL;
    if (!ranks->group) {
        return bt_nn_linear_forward(context, layer, x, residual, BT_ACTIVATION_NONE, y);
    }
    if (ranks->chunks) {
        return scatter(context, ranks, layer, x, residual, y);
    }
    BT_TRY(bt_nn_linear_forward(context, layer, x, NULL, BT_ACTIVATION_NONE, &partial));
    return bt_nn_leave(context, ranks, &partial, residual, y);
}

bt_status bt_nn_feed_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                             const bt_nn_linear *column, const bt_nn_linear *row, bt_tensor **x,
                             bt_tensor *residual, bt_tensor **y)
{
    bt_tensor *partial = NULL;
    if (!ranks->group) {
        return bt_feed_forward(context, *x, column->weight, column->bias, row->weight, row->bias,
                               residual, y);
    }
    if (ranks->chunks) {
        return bt_feed_forward_chunks(context, ranks->chunks, *x, column->weight, column->bias,
                                      row->weight, row->bias, residual, y);
    }
    BT_TRY(enter(context, ranks, x));
    BT_TRY(bt_feed_forward(context, *x, column->weight, column->bias, row->weight, row->bias, NULL,
                           &partial));
    return bt_nn_leave(context, ranks, &partial, residual, y);
}
