// framework/nn/param.c - making, finding and digesting parameters
#include "framework/nn/param.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"

void bt_params_init(bt_params *params, bt_context *context, bt_dtype master, bt_dtype compute,
                    uint64_t seed)
{
    *params = (bt_params){.context = context, .master = master, .compute = compute, .seed = seed};
}

static void release_param(bt_param *param)
{
    bt_tensor_release(param->value);
    bt_tensor_release(param->master);
    bt_mem_free(param->name);
}

void bt_params_release(bt_params *params)
{
    for (int64_t i = 0; i < params->count; ++i) {
        release_param(&params->items[i]);
    }
    bt_mem_free(params->items);
    params->items = NULL;
    params->count = params->capacity = 0;
}

// Draws in f32 on the host, so that every device and type starts from the same numbers.
static bt_status draw(bt_params *params, bt_param *param, double mean, double deviation)
{
    int64_t count = bt_tensor_count(param->master);
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(double), &block));
    float *values = block;
    bt_rng rng = {params->seed, (uint64_t)params->count};
    if (deviation > 0) {
        bt_rng_normal_fill(rng, values, count, mean, deviation);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            values[i] = (float)mean;
        }
    }
    if (params->master == BT_F64) {
        double *wide = block;
        for (int64_t i = count - 1; i >= 0; --i) { // in place, from the end
            wide[i] = (double)values[i];
        }
    }
    bt_status status = bt_param_write(params, param, block);
    bt_mem_free(block);
    return status;
}

static bt_status make(bt_params *params, const char *name, bt_param_kind kind, bt_shape shape,
                      bt_param *param)
{
    bt_context *context = params->context;
    BT_TRY(bt_mem_strdup(name, &param->name));
    BT_TRY(bt_tensor_create(context, params->master, shape, param->name, &param->master));
    if (kind == BT_PARAM_MASTER || params->compute == params->master) {
        param->value = bt_tensor_retain(param->master);
    } else {
        BT_TRY(bt_tensor_create(context, params->compute, shape, param->name, &param->value));
    }
    param->value->requires_grad = true;
    param->value->grad_dtype = params->master;
    return BT_OK;
}

bt_status bt_params_add(bt_params *params, const char *name, bt_param_kind kind, bt_shape shape,
                        double mean, double deviation, bt_tensor **value)
{
    *value = NULL;
    if (bt_params_find(params, name)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "there is a parameter \"%s\" already", name);
    }
    if (params->count == params->capacity) {
        int64_t capacity = params->capacity ? 2 * params->capacity : 32;
        void *items = params->items;
        BT_TRY(bt_mem_resize(&items, (size_t)capacity, sizeof *params->items));
        params->items = items;
        params->capacity = capacity;
    }
    bt_param param = {0};
    bt_status status = make(params, name, kind, shape, &param);
    if (status == BT_OK) {
        status = draw(params, &param, mean, deviation);
    }
    if (status != BT_OK) {
        release_param(&param);
        return bt_error_context(status, "parameter %s", name);
    }
    params->items[params->count++] = param;
    *value = param.value;
    return BT_OK;
}

bt_param *bt_params_find(const bt_params *params, const char *name)
{
    for (int64_t i = 0; i < params->count; ++i) {
        if (strcmp(params->items[i].name, name) == 0) {
            return &params->items[i];
        }
    }
    return NULL;
}

int64_t bt_params_element_count(const bt_params *params)
{
    int64_t count = 0;
    for (int64_t i = 0; i < params->count; ++i) {
        count += bt_tensor_count(params->items[i].master);
    }
    return count;
}

bt_status bt_param_write(bt_params *params, bt_param *param, const void *host)
{
    BT_TRY(bt_tensor_write(params->context, param->master, host));
    // `host` may go away: the copy must be over.
    BT_TRY(bt_context_synchronize(params->context));
    return param->value == param->master
               ? BT_OK
               : bt_tensor_copy(params->context, param->master, param->value);
}

void bt_params_clear_grads(bt_params *params)
{
    for (int64_t i = 0; i < params->count; ++i) {
        BT_TENSOR_RELEASE(params->items[i].value->grad);
    }
}

bt_status bt_params_digest(const bt_params *params, char digest[33])
{
    XXH3_state_t *state = XXH3_createState();
    bt_status status = state ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "digest state");
    if (state) {
        (void)XXH3_128bits_reset(state);
    }
    for (int64_t i = 0; i < params->count && status == BT_OK; ++i) {
        const bt_param *param = &params->items[i];
        const bt_shape *shape = &param->master->shape;
        size_t size_bytes = bt_tensor_bytes(param->master);
        void *host = NULL;
        status = bt_mem_alloc(size_bytes, 1, &host);
        if (status == BT_OK) {
            status = bt_tensor_read(params->context, param->master, host);
        }
        if (status == BT_OK) {
            (void)XXH3_128bits_update(state, param->name, strlen(param->name) + 1);
            (void)XXH3_128bits_update(state, shape->size, (size_t)shape->rank * sizeof(int64_t));
            (void)XXH3_128bits_update(state, host, size_bytes);
        }
        bt_mem_free(host);
    }
    if (status == BT_OK) {
        XXH128_hash_t hash = XXH3_128bits_digest(state);
        (void)snprintf(digest, 33, "%016llx%016llx", (unsigned long long)hash.high64,
                       (unsigned long long)hash.low64);
    }
    (void)XXH3_freeState(state);
    return status;
}
