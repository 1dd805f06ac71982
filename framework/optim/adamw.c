// framework/optim/adamw.c - the state of AdamW and one step of it
#include "framework/optim/adamw.h"

#include <string.h>

#include "framework/base/mem.h"

static bt_status check_slice(const bt_params *params, const bt_adamw_slice *slice)
{
    const bool exists = slice->param >= 0 && slice->param < params->count;
    const int64_t room = exists ? bt_tensor_count(params->items[slice->param].master) : 0;
    if (!exists || slice->offset < 0 || slice->count < 0 || slice->offset > room - slice->count) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a slice of %lld elements from element %lld of parameter %lld, which has "
                        "%lld, of %lld parameters",
                        (long long)slice->count, (long long)slice->offset, (long long)slice->param,
                        (long long)room, (long long)params->count);
    }
    return BT_OK;
}

// The moments of a whole parameter have its shape, as checkpoints expect.
static bt_status make_state(bt_adamw *optimizer, int64_t i)
{
    bt_context *context = optimizer->params->context;
    const bt_adamw_slice *slice = &optimizer->slices[i];
    const bt_tensor *master = optimizer->params->items[slice->param].master;
    const bool whole = slice->count == bt_tensor_count(master);
    const bt_shape shape = whole ? master->shape : BT_SHAPE(slice->count);
    BT_TRY(bt_tensor_zeros(context, master->dtype, shape, "adamw m", &optimizer->m[i]));
    return bt_tensor_zeros(context, master->dtype, shape, "adamw v", &optimizer->v[i]);
}

static bt_status allocate(bt_adamw *optimizer)
{
    const size_t count = (size_t)optimizer->count;
    const struct {
        void *at;
        size_t size_bytes;
    } rows[] = {{&optimizer->slices, sizeof *optimizer->slices},
                {&optimizer->m, sizeof(bt_tensor *)},
                {&optimizer->v, sizeof(bt_tensor *)},
                {&optimizer->items, sizeof *optimizer->items},
                {&optimizer->norm_items, sizeof *optimizer->norm_items}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        void *block = NULL;
        BT_TRY(bt_mem_alloc(count, rows[i].size_bytes, &block));
        memcpy(rows[i].at, &block, sizeof block);
    }
    return BT_OK;
}

static bt_status fill_state(bt_adamw *optimizer, const bt_adamw_slice *slices)
{
    bt_params *params = optimizer->params;
    for (int64_t i = 0; i < optimizer->count; ++i) {
        if (slices) {
            BT_TRY(check_slice(params, &slices[i]));
        }
        optimizer->slices[i] =
            slices
                ? slices[i]
                : (bt_adamw_slice){.param = i, .count = bt_tensor_count(params->items[i].master)};
        (void)bt_tensor_retain(optimizer->slices[i].master);
        (void)bt_tensor_retain(optimizer->slices[i].copy);
        (void)bt_tensor_retain(optimizer->slices[i].grad);
        BT_TRY(make_state(optimizer, i));
    }
    BT_TRY(bt_tensor_zeros(params->context, params->master, BT_SHAPE(1), "gradient norm",
                           &optimizer->norm));
    return bt_tensor_zeros(params->context, params->master, BT_SHAPE(1), "gradient scale",
                           &optimizer->scale);
}

bt_status bt_adamw_init_slices(bt_params *params, const bt_adamw_config *config,
                               const bt_adamw_slice *slices, int64_t count, bt_adamw *optimizer)
{
    *optimizer = (bt_adamw){
        .config = *config, .params = params, .param_count = params->count, .count = count};
    bt_status status = allocate(optimizer);
    if (status == BT_OK) {
        status = fill_state(optimizer, slices);
    }
    if (status != BT_OK) {
        bt_adamw_release(optimizer);
    }
    return status;
}

bt_status bt_adamw_init(bt_params *params, const bt_adamw_config *config, bt_adamw *optimizer)
{
    return bt_adamw_init_slices(params, config, NULL, params->count, optimizer);
}

void bt_adamw_release(bt_adamw *optimizer)
{
    for (int64_t i = 0; i < optimizer->count; ++i) {
        if (optimizer->slices) {
            bt_tensor_release(optimizer->slices[i].master);
            bt_tensor_release(optimizer->slices[i].copy);
            bt_tensor_release(optimizer->slices[i].grad);
        }
        bt_tensor_release(optimizer->m ? optimizer->m[i] : NULL);
        bt_tensor_release(optimizer->v ? optimizer->v[i] : NULL);
    }
    bt_mem_free(optimizer->slices);
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
    const int64_t made_for = optimizer->param_count;
    if (params->count != made_for) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the list has %lld parameters, the optimizer %lld%s%s: call bt_adamw_init "
                        "after the last parameter is added",
                        (long long)params->count, (long long)made_for,
                        params->count > made_for ? "; the first missing one is " : "",
                        params->count > made_for ? params->items[made_for].name : "");
    }
    return BT_OK;
}

// The memory of a slice: its tensor, or its part of the parameter's.
static void *at(bt_tensor *own, const bt_tensor *whole, const bt_adamw_slice *slice)
{
    return own ? bt_tensor_data(own)
               : (char *)bt_tensor_data(whole) +
                     slice->offset * (int64_t)bt_dtype_size(whole->dtype);
}

static bt_status fill_items(bt_adamw *optimizer)
{
    for (int64_t i = 0; i < optimizer->count; ++i) {
        const bt_adamw_slice *slice = &optimizer->slices[i];
        const bt_param *param = &optimizer->params->items[slice->param];
        const bt_tensor *grad = param->value->grad;
        if (!grad && !slice->grad) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "parameter %s has no gradient",
                            param->name);
        }
        const bool copied = param->value != param->master;
        optimizer->norm_items[i] = (bt_grad_norm_item){at(slice->grad, grad, slice), slice->count};
        optimizer->items[i] = (bt_adamw_item){
            .param = at(slice->master, param->master, slice),
            .copy = copied ? at(slice->copy, param->value, slice) : NULL,
            .grad = optimizer->norm_items[i].grad,
            .m = bt_tensor_data(optimizer->m[i]),
            .v = bt_tensor_data(optimizer->v[i]),
            .count = slice->count,
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

static int64_t blocks_of(int64_t count)
{
    return (count + BT_SQUARES_BLOCK - 1) / BT_SQUARES_BLOCK;
}

int64_t bt_adamw_partial_count(const bt_adamw *optimizer)
{
    int64_t count = 0;
    for (int64_t i = 0; i < optimizer->param_count; ++i) {
        count += blocks_of(bt_tensor_count(optimizer->params->items[i].master));
    }
    return count;
}

// Offset of each parameter's partial sums.
static bt_status place_partials(const bt_adamw *optimizer, int64_t **first)
{
    void *block = NULL;
    int64_t count = 0;
    BT_TRY(bt_mem_alloc((size_t)optimizer->param_count, sizeof **first, &block));
    *first = block;
    for (int64_t i = 0; i < optimizer->param_count; ++i) {
        (*first)[i] = count;
        count += blocks_of(bt_tensor_count(optimizer->params->items[i].master));
    }
    return BT_OK;
}

bt_status bt_adamw_squares(bt_context *context, bt_adamw *optimizer, bt_tensor *partials)
{
    int64_t *first = NULL;
    void *items = NULL;
    bt_status status = BT_OK;
    BT_TRY(check_list(optimizer));
    BT_TRY(bt_tensor_expect(partials, BT_F64, "partial sums"));
    BT_TRY(fill_items(optimizer));
    BT_TRY_GOTO(place_partials(optimizer, &first), done);
    BT_TRY_GOTO(bt_mem_alloc((size_t)optimizer->count, sizeof(bt_sum_squares_item), &items), done);
    bt_sum_squares_args args = {
        .items = items, .item_count = optimizer->count, .dtype = optimizer->params->master};
    for (int64_t i = 0; i < optimizer->count; ++i) {
        const bt_adamw_slice *slice = &optimizer->slices[i];
        ((bt_sum_squares_item *)items)[i] = (bt_sum_squares_item){
            optimizer->norm_items[i].grad,
            optimizer->params->items[slice->param].elsewhere ? 0 : slice->count,
            (double *)bt_tensor_data(partials) + first[slice->param] +
                slice->offset / BT_SQUARES_BLOCK};
    }
    bt_tensor_touch(partials);
    status = bt_context_launch(context, BT_KERNEL_SUM_SQUARES, args.dtype, &args);
done:
    bt_mem_free(first);
    bt_mem_free(items);
    return status;
}

bt_status bt_adamw_clip(bt_context *context, bt_adamw *optimizer, const bt_tensor *partials,
                        double grad_scale)
{
    const bt_clip_scale_args args = {.partials = bt_tensor_data(partials),
                                     .count = bt_tensor_count(partials),
                                     .grad_scale = grad_scale,
                                     .max_norm = optimizer->config.clip,
                                     .norm = bt_tensor_data(optimizer->norm),
                                     .scale = bt_tensor_data(optimizer->scale),
                                     .dtype = optimizer->params->master};
    return bt_context_launch(context, BT_KERNEL_CLIP_SCALE, args.dtype, &args);
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
