// framework/nn/param.c - creates, finds and digests parameters
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
    for (int64_t i = 0; i < params->spec_count; ++i) {
        bt_mem_free(params->specs[i].name);
    }
    bt_mem_free(params->items);
    bt_mem_free(params->specs);
    params->items = NULL;
    params->specs = NULL;
    params->count = params->capacity = params->spec_count = params->spec_capacity = 0;
}

// Views the axis as [before, repeats, block, inner]; the part has [first, first + count) of
// `block`.
typedef struct strips {
    int64_t before, repeats, block, inner;
} strips;

static strips strips_of(const bt_shape *whole, const bt_param_part *part)
{
    strips s = {.before = 1, .repeats = part->repeats, .inner = 1};
    for (int i = 0; i < whole->rank; ++i) {
        s.before *= i < part->axis ? whole->size[i] : 1;
        s.inner *= i > part->axis ? whole->size[i] : 1;
    }
    s.block = whole->size[part->axis] / part->repeats;
    return s;
}

int64_t bt_param_part_count(const bt_shape *whole, const bt_param_part *part)
{
    const strips s = strips_of(whole, part);
    return s.before * s.repeats * part->count * s.inner;
}

bt_status bt_param_part_copy(bt_context *context, const bt_shape *whole_shape,
                             const bt_param_part *part, bt_tensor *whole, bt_tensor *piece,
                             bool to_whole)
{
    const strips s = strips_of(whole_shape, part);
    const bt_shape shape = BT_SHAPE(s.before, s.repeats, part->count, s.inner);
    const int64_t apart[] = {s.repeats * s.block * s.inner, s.block * s.inner, s.inner, 1};
    int64_t dense[BT_MAX_RANK];
    bt_tensor *strip = NULL, *all = NULL;
    bt_status status = BT_OK;
    bt_shape_strides(&shape, dense);
    BT_TRY_GOTO(bt_tensor_view(whole, shape, apart, part->first * s.inner, &strip), done);
    BT_TRY_GOTO(bt_tensor_view(piece, shape, dense, 0, &all), done);
    status = bt_tensor_copy(context, to_whole ? all : strip, to_whole ? strip : all);
done:
    bt_tensor_release(strip);
    bt_tensor_release(all);
    return status;
}

// Samples in f32 on the host, so that every device and type starts from the same numbers.
static void draw(const bt_params *params, bt_shape whole, double mean, double deviation,
                 float *values)
{
    const int64_t count = bt_shape_count(&whole);
    const bt_rng rng = {params->seed, (uint64_t)params->spec_count};
    if (deviation > 0) {
        bt_rng_normal_fill(rng, values, count, mean, deviation);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)mean;
    }
}

// Moves the part to the beginning.
static void keep_part(const bt_shape *whole, const bt_param_part *part, float *values)
{
    const strips s = strips_of(whole, part);
    const int64_t run = part->count * s.inner;
    for (int64_t i = 0; i < s.before * s.repeats; ++i) {
        memmove(values + i * run, values + (i * s.block + part->first) * s.inner,
                (size_t)run * sizeof *values);
    }
}

static bt_status initialise(bt_params *params, const bt_param_spec *spec, bt_param *param,
                            double mean, double deviation)
{
    const int64_t count = bt_tensor_count(param->master);
    void *block = NULL;
    if (params->uninitialised) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)bt_shape_count(&spec->whole), sizeof(double), &block));
    float *values = block;
    draw(params, spec->whole, mean, deviation, values);
    if (spec->is_shared) {
        keep_part(&spec->whole, &spec->part, values);
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

// Grows the arrays by one.
static bt_status grow(void **items, size_t item_bytes, int64_t count, int64_t *capacity)
{
    if (count < *capacity) {
        return BT_OK;
    }
    const int64_t larger = *capacity ? 2 * *capacity : 32;
    BT_TRY(bt_mem_resize(items, (size_t)larger, item_bytes));
    *capacity = larger;
    return BT_OK;
}

static bt_status make_room(bt_params *params)
{
    void *items = params->items, *specs = params->specs;
    bt_status status = grow(&items, sizeof *params->items, params->count, &params->capacity);
    params->items = items;
    BT_TRY(status);
    status = grow(&specs, sizeof *params->specs, params->spec_count, &params->spec_capacity);
    params->specs = specs;
    return status;
}

static bt_status check_part(const bt_shape *whole, const bt_param_part *part)
{
    const bool has_axis = part->axis >= 0 && part->axis < whole->rank && part->repeats > 0 &&
                          whole->size[part->axis] % part->repeats == 0;
    const int64_t block = has_axis ? whole->size[part->axis] / part->repeats : -1;
    return part->first >= 0 && part->count >= 0 && part->first <= block - part->count
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "a part of %lld from %lld on in each of %lld blocks along axis %d is "
                          "outside of the parameter",
                          (long long)part->count, (long long)part->first, (long long)part->repeats,
                          part->axis);
}

static bt_status add_item(bt_params *params, bt_param_kind kind, bt_param_spec *spec, double mean,
                          double deviation)
{
    bt_param param = {0};
    bt_shape shape = spec->whole;
    if (spec->is_shared) {
        shape.size[spec->part.axis] = spec->part.repeats * spec->part.count;
    }
    bt_status status = make(params, spec->name, kind, shape, &param);
    status = status ? status : initialise(params, spec, &param, mean, deviation);
    if (status != BT_OK) {
        release_param(&param);
        return status;
    }
    spec->item = params->count;
    params->items[params->count++] = param;
    return BT_OK;
}

bt_status bt_params_add_part(bt_params *params, const char *name, bt_param_kind kind,
                             bt_shape whole, const bt_param_part *part, double mean,
                             double deviation, bt_tensor **value)
{
    *value = NULL;
    for (int64_t i = 0; i < params->spec_count; ++i) {
        if (strcmp(params->specs[i].name, name) == 0) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "the parameter \"%s\" exists already",
                            name);
        }
    }
    bt_param_spec spec = {.whole = whole, .is_shared = part != NULL, .item = -1};
    if (part) {
        spec.part = *part;
        BT_TRY(bt_error_context(check_part(&whole, part), "parameter %s", name));
    }
    BT_TRY(make_room(params));
    BT_TRY(bt_mem_strdup(name, &spec.name));
    bt_status status =
        part && part->count == 0 ? BT_OK : add_item(params, kind, &spec, mean, deviation);
    if (status != BT_OK) {
        status = bt_error_context(status, "parameter %s", name);
        bt_mem_free(spec.name);
        return status;
    }
    params->specs[params->spec_count++] = spec;
    *value = spec.item >= 0 ? params->items[spec.item].value : NULL;
    return BT_OK;
}

bt_status bt_params_add(bt_params *params, const char *name, bt_param_kind kind, bt_shape shape,
                        double mean, double deviation, bt_tensor **value)
{
    return bt_params_add_part(params, name, kind, shape, NULL, mean, deviation, value);
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
    for (int64_t i = 0; i < params->spec_count; ++i) {
        count += bt_shape_count(&params->specs[i].whole);
    }
    return count;
}

bt_status bt_param_write(bt_params *params, bt_param *param, const void *host)
{
    BT_TRY(bt_tensor_write(params->context, param->master, host));
    // The caller may free `host`: wait for the copy.
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
