// framework/optim/adamw.c - the state of AdamW and one step of it
#include "framework/optim/adamw.h"

#include "framework/base/mem.h"

static bt_status make_state(bt_adamw *optimizer, int64_t i)
{
    bt_context *context = optimizer->params->context;
    const bt_tensor *master = optimizer->params->items[i].master;
    BT_TRY(bt_tensor_zeros(context, master->dtype, master->shape, "adamw m", &optimizer->m[i]));
    return bt_tensor_zeros(context, master->dtype, master->shape, "adamw v", &optimizer->v[i]);
}

bt_status bt_adamw_init(bt_params *params, const bt_adamw_config *config, bt_adamw *optimizer)
{
    const size_t count = (size_t)params->count;
    bt_status status = BT_OK;
    void *block = NULL;
    *optimizer = (bt_adamw){.config = *config, .params = params, .count = params->count};
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(bt_tensor *), &block), fail);
    optimizer->m = block;
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof(bt_tensor *), &block), fail);
    optimizer->v = block;
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof *optimizer->items, &block), fail);
    optimizer->items = block;
    BT_TRY_GOTO(bt_mem_alloc(count, sizeof *optimizer->norm_items, &block), fail);
    optimizer->norm_items = block;
    for (int64_t i = 0; i < optimizer->count; ++i) {
        BT_TRY_GOTO(make_state(optimizer, i), fail);
    }
    BT_TRY_GOTO(bt_tensor_zeros(params->context, params->master, BT_SHAPE(1), "gradient norm",
                                &optimizer->norm),
                fail);
    BT_TRY_GOTO(bt_tensor_zeros(params->context, params->master, BT_SHAPE(1), "gradient scale",
                                &optimizer->scale),
                fail);
    return BT_OK;
fail:
    bt_adamw_release(optimizer);
    return status;
}

void bt_adamw_release(bt_adamw *optimizer)
{
    for (int64_t i = 0; i < optimizer->count; ++i) {
        bt_tensor_release(optimizer->m ? optimizer->m[i] : NULL);
        bt_tensor_release(optimizer->v ? optimizer->v[i] : NULL);
    }
    bt_mem_free(optimizer->m);
    bt_mem_free(optimizer->v);
    bt_mem_free(optimizer->items);
    bt_mem_free(optimizer->norm_items);
    bt_tensor_release(optimizer->norm);
    bt_tensor_release(optimizer->scale);
    *optimizer = (bt_adamw){0};
}

static bt_status check_list(const bt_adamw *optimizer)
{
    const bt_params *params = optimizer->params;
    if (params->count != optimizer->count) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the list has %lld parameters, the optimizer %lld%s%s: call bt_adamw_init "
                        "after the last parameter is added",
                        (long long)params->count, (long long)optimizer->count,
                        params->count > optimizer->count ? "; the first that it lacks is " : "",
                        params->count > optimizer->count ? params->items[optimizer->count].name
                                                         : "");
    }
    return BT_OK;
}

static bt_status fill_items(bt_adamw *optimizer)
{
    for (int64_t i = 0; i < optimizer->count; ++i) {
        const bt_param *param = &optimizer->params->items[i];
        bt_tensor *grad = param->value->grad;
        if (!grad) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "parameter %s has no gradient",
                            param->name);
        }
        int64_t count = bt_tensor_count(param->master);
        bool copied = param->value != param->master;
        optimizer->norm_items[i] = (bt_grad_norm_item){bt_tensor_data(grad), count};
        optimizer->items[i] = (bt_adamw_item){
            .param = bt_tensor_data(param->master),
            .copy = copied ? bt_tensor_data(param->value) : NULL,
            .grad = bt_tensor_data(grad),
            .m = bt_tensor_data(optimizer->m[i]),
            .v = bt_tensor_data(optimizer->v[i]),
            .count = count,
            .decay = param->master->shape.rank >= 2 ? optimizer->config.weight_decay : 0};
        bt_tensor_touch(param->master);
        bt_tensor_touch(param->value);
    }
    return BT_OK;
}

bt_status bt_adamw_measure(bt_context *context, bt_adamw *optimizer, double grad_scale)
{
    BT_TRY(check_list(optimizer));
    BT_TRY(fill_items(optimizer));
    bt_grad_norm_args norm = {.items = optimizer->norm_items,
                              .item_count = optimizer->count,
                              .grad_scale = grad_scale,
                              .max_norm = optimizer->config.clip,
                              .norm = bt_tensor_data(optimizer->norm),
                              .scale = bt_tensor_data(optimizer->scale),
                              .dtype = optimizer->params->master};
    return bt_context_launch(context, BT_KERNEL_GRAD_NORM, norm.dtype, &norm);
}

bt_status bt_adamw_update(bt_context *context, bt_adamw *optimizer, double lr)
{
    const bt_adamw_config *config = &optimizer->config;
    bt_adamw_args update = {.items = optimizer->items,
                            .item_count = optimizer->count,
                            .lr = lr,
                            .beta1 = config->beta1,
                            .beta2 = config->beta2,
                            .epsilon = config->epsilon,
                            .step = ++optimizer->step,
                            .scale = bt_tensor_data(optimizer->scale),
                            .dtype = optimizer->params->master};
    BT_TRY(bt_context_launch(context, BT_KERNEL_ADAMW, update.dtype, &update));
    bt_params_clear_grads(optimizer->params);
    return BT_OK;
}

void bt_adamw_skip(bt_adamw *optimizer)
{
    ++optimizer->step;
    bt_params_clear_grads(optimizer->params);
}

bt_status bt_adamw_step(bt_context *context, bt_adamw *optimizer, double lr, double grad_scale)
{
    BT_TRY(bt_adamw_measure(context, optimizer, grad_scale));
    return bt_adamw_update(context, optimizer, lr);
}
