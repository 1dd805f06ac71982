// framework/nn/layers.c - linear layer, layer normalization
#include "framework/nn/layers.h"

#include "framework/base/str.h"

// Adds the parameter `prefix`.`name`.
static bt_status add(bt_params *params, const char *prefix, const char *name, bt_param_kind kind,
                     bt_shape shape, double mean, double deviation, bt_tensor **value)
{
    bt_str path = {0};
    bt_str_format(&path, "%s.%s", prefix, name);
    bt_status status = bt_str_status(&path);
    if (status == BT_OK) {
        status = bt_params_add(params, bt_str_text(&path), kind, shape, mean, deviation, value);
    }
    bt_str_release(&path);
    return status;
}

bt_status bt_nn_linear_init(bt_params *params, const char *prefix, int64_t in, int64_t out,
                            bool bias, double deviation, bt_nn_linear *layer)
{
    *layer = (bt_nn_linear){0};
    BT_TRY(add(params, prefix, "weight", BT_PARAM_COMPUTE, BT_SHAPE(out, in), 0, deviation,
               &layer->weight));
    return bias ? add(params, prefix, "bias", BT_PARAM_COMPUTE, BT_SHAPE(out), 0, 0, &layer->bias)
                : BT_OK;
}

bt_status bt_nn_linear_forward(bt_context *context, const bt_nn_linear *layer, bt_tensor *x,
                               bt_tensor *residual, bt_activation activation, bt_tensor **y)
{
    return bt_linear(context, x, layer->weight, layer->bias, residual, activation, y);
}

bt_status bt_nn_layernorm_init(bt_params *params, const char *prefix, int64_t width,
                               bt_nn_layernorm *layer)
{
    *layer = (bt_nn_layernorm){.epsilon = 1e-5};
    BT_TRY(add(params, prefix, "weight", BT_PARAM_MASTER, BT_SHAPE(width), 1, 0, &layer->weight));
    return add(params, prefix, "bias", BT_PARAM_MASTER, BT_SHAPE(width), 0, 0, &layer->bias);
}

bt_status bt_nn_layernorm_forward(bt_context *context, const bt_nn_layernorm *layer, bt_tensor *x,
                                  bt_tensor **y)
{
    return bt_layernorm(context, x, layer->weight, layer->bias, layer->epsilon, y);
}
