// framework/tensor/tensor.c - storage, views, host copies
#include "framework/tensor/tensor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"

static atomic_ullong storage_serial;

uint64_t bt_storage_next_serial(void) { return atomic_load(&storage_serial); }

int64_t bt_shape_count(const bt_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->rank; ++i) {
        count *= shape->size[i];
    }
    return count;
}

bool bt_shape_equal(const bt_shape *a, const bt_shape *b)
{
    return a->rank == b->rank && memcmp(a->size, b->size, (size_t)a->rank * sizeof a->size[0]) == 0;
}

const char *bt_shape_text(const bt_shape *shape, char text[BT_SHAPE_TEXT_BYTES])
{
    size_t used = 1;
    text[0] = '[';
    for (int i = 0; i < shape->rank && used < 40; ++i) {
        int wrote = snprintf(text + used, BT_SHAPE_TEXT_BYTES - 2 - used, i ? ", %lld" : "%lld",
                             (long long)shape->size[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    used = used > BT_SHAPE_TEXT_BYTES - 3 ? BT_SHAPE_TEXT_BYTES - 3 : used;
    text[used] = ']';
    text[used + 1] = '\0';
    return text;
}

bt_status bt_shape_check(const bt_shape *shape, const char *name)
{
    char text[BT_SHAPE_TEXT_BYTES];
    int64_t count = 1; // without axes of size 0, so that every product of sizes fits
    if (shape->rank < 0 || shape->rank > BT_MAX_RANK) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: rank %d, allowed 0 to %d", name,
                        shape->rank, BT_MAX_RANK);
    }
    for (int i = 0; i < shape->rank; ++i) {
        const int64_t size = shape->size[i] ? shape->size[i] : 1;
        if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > INT64_MAX / 8) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: impossible shape %s", name,
                            bt_shape_text(shape, text));
        }
    }
    return BT_OK;
}

void bt_shape_strides(const bt_shape *shape, int64_t *stride)
{
    int64_t step = 1;
    for (int i = shape->rank - 1; i >= 0; --i) {
        stride[i] = step;
        step *= shape->size[i];
    }
}

static void release_storage(bt_storage *storage)
{
    if (--storage->refs == 0) {
        bt_storage_give_up(storage);
        bt_mem_free(storage);
    }
}

static void trace(bt_context *context, const bt_tensor *tensor, bt_trace_contents contents)
{
    if (context->trace_hook.tensor) {
        context->trace_hook.tensor(context->trace_hook.self, tensor, contents);
    }
}

// data NULL: memory of the context's pool.
static bt_status make(bt_context *context, bt_dtype dtype, bt_shape shape, void *data,
                      const char *name, bt_tensor **out)
{
    *out = NULL;
    BT_TRY(bt_shape_check(&shape, name));
    void *tensor_block = NULL;
    void *storage_block = NULL;
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_mem_alloc(1, sizeof(bt_tensor), &tensor_block), fail);
    BT_TRY_GOTO(bt_mem_alloc(1, sizeof(bt_storage), &storage_block), fail);
    bt_storage *storage = storage_block;
    storage->size_bytes = (size_t)bt_shape_count(&shape) * bt_dtype_size(dtype);
    storage->data = data;
    if (!data) {
        BT_TRY_GOTO(bt_pool_alloc(context->pool, storage->size_bytes, context->stream, name,
                                  &storage->data),
                    fail);
        storage->pool = context->pool;
    }
    storage->refs = 1;
    storage->serial = atomic_fetch_add(&storage_serial, 1);
    bt_tensor *tensor = tensor_block;
    *tensor = (bt_tensor){.refs = 1,
                          .storage = storage,
                          .shape = shape,
                          .dtype = dtype,
                          .grad_dtype = dtype,
                          .name = name};
    bt_shape_strides(&shape, tensor->stride);
    *out = tensor;
    return BT_OK;
fail:
    bt_mem_free(tensor_block);
    bt_mem_free(storage_block);
    return status;
}

bt_status bt_tensor_create(bt_context *context, bt_dtype dtype, bt_shape shape, const char *name,
                           bt_tensor **out)
{
    BT_TRY(make(context, dtype, shape, NULL, name, out));
    trace(context, *out, BT_TRACE_UNDEFINED);
    return BT_OK;
}

bt_status bt_tensor_over(bt_context *context, bt_dtype dtype, bt_shape shape, void *data,
                         const char *name, bt_tensor **out)
{
    BT_TRY(make(context, dtype, shape, data, name, out));
    trace(context, *out, BT_TRACE_HOST);
    return BT_OK;
}

bt_status bt_tensor_zeros(bt_context *context, bt_dtype dtype, bt_shape shape, const char *name,
                          bt_tensor **out)
{
    BT_TRY(bt_tensor_create(context, dtype, shape, name, out));
    bt_device *device = context->device;
    bt_status status = device->backend->fill(device, bt_tensor_data(*out), 0, bt_tensor_bytes(*out),
                                             context->stream);
    if (status != BT_OK) {
        BT_TENSOR_RELEASE(*out);
        return status;
    }
    trace(context, *out, BT_TRACE_ZEROS);
    return BT_OK;
}

bt_tensor *bt_tensor_retain(bt_tensor *tensor)
{
    if (tensor) {
        ++tensor->refs;
    }
    return tensor;
}

void bt_tensor_release(bt_tensor *tensor)
{
    if (tensor && --tensor->refs == 0) {
        bt_tensor_release(tensor->grad);
        bt_tensor_release(tensor->home);
        release_storage(tensor->storage);
        bt_mem_free(tensor);
    }
}

int64_t bt_tensor_count(const bt_tensor *tensor) { return bt_shape_count(&tensor->shape); }

size_t bt_tensor_bytes(const bt_tensor *tensor)
{
    return (size_t)bt_tensor_count(tensor) * bt_dtype_size(tensor->dtype);
}

bool bt_tensor_is_contiguous(const bt_tensor *tensor)
{
    int64_t expected = 1;
    for (int i = tensor->shape.rank - 1; i >= 0; --i) {
        if (tensor->shape.size[i] != 1 && tensor->stride[i] != expected) {
            return false;
        }
        expected *= tensor->shape.size[i];
    }
    return true;
}

bool bt_tensor_is_exclusive(const bt_tensor *tensor)
{
    return tensor->refs == 1 && tensor->storage->refs == 1;
}

void *bt_tensor_data(const bt_tensor *tensor)
{
    return (char *)tensor->storage->data + tensor->offset * (int64_t)bt_dtype_size(tensor->dtype);
}

void bt_tensor_touch(bt_tensor *tensor) { ++tensor->storage->version; }

bt_status bt_tensor_expect(const bt_tensor *tensor, bt_dtype dtype, const char *what)
{
    if (!tensor) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is missing", what);
    }
    if (tensor->dtype != dtype) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is of type %s, expected %s", what,
                        bt_dtype_name(tensor->dtype), bt_dtype_name(dtype));
    }
    if (!bt_tensor_is_contiguous(tensor)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s is not contiguous; copy it with bt_contiguous", what);
    }
    return BT_OK;
}

// The lowest and the highest storage element of a view. False on overflow.
static bool view_extremes(const bt_shape *shape, const int64_t *stride, int64_t start, int64_t *low,
                          int64_t *high)
{
    *low = *high = start;
    for (int i = 0; i < shape->rank; ++i) {
        int64_t reach = 0, *end = stride[i] < 0 ? low : high;
        if (shape->size[i] > 1 && (__builtin_mul_overflow(shape->size[i] - 1, stride[i], &reach) ||
                                   __builtin_add_overflow(*end, reach, end))) {
            return false;
        }
    }
    return true;
}

bt_status bt_tensor_view(bt_tensor *base, bt_shape shape, const int64_t *stride, int64_t offset,
                         bt_tensor **out)
{
    *out = NULL;
    BT_TRY(bt_shape_check(&shape, base->name));
    const int64_t capacity = (int64_t)(base->storage->size_bytes / bt_dtype_size(base->dtype));
    int64_t start = 0, low = 0, high = 0;
    if (__builtin_add_overflow(base->offset, offset, &start) ||
        !view_extremes(&shape, stride, start, &low, &high)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "view of %s from element %lld extends beyond 2^63 elements", base->name,
                        (long long)offset);
    }
    // A view without elements may begin at the end of the storage.
    const bool empty = bt_shape_count(&shape) == 0;
    if (empty ? start < 0 || start > capacity : low < 0 || high >= capacity) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "view of %s covers elements %lld to %lld, more than its %lld elements",
                        base->name, (long long)low, (long long)high, (long long)capacity);
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_tensor), &block));
    bt_tensor *view = block;
    *view = (bt_tensor){.refs = 1,
                        .storage = base->storage,
                        .offset = start,
                        .shape = shape,
                        .dtype = base->dtype,
                        .grad_dtype = base->grad_dtype,
                        .name = base->name};
    for (int i = 0; i < shape.rank; ++i) {
        view->stride[i] = stride[i];
    }
    ++base->storage->refs;
    *out = view;
    return BT_OK;
}

bt_status bt_tensor_move_into(bt_context *context, bt_tensor *tensor, bt_tensor *flat,
                              int64_t offset)
{
    bt_device *device = context->device;
    const int64_t count = bt_tensor_count(tensor), room = bt_tensor_count(flat);
    if (tensor->storage->refs != 1 || tensor->dtype != flat->dtype || offset < 0 ||
        offset > room - count || !bt_tensor_is_contiguous(tensor)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "\"%s\", %lld elements of %s, cannot become a view from element %lld of "
                        "\"%s\", %lld of %s",
                        tensor->name, (long long)count, bt_dtype_name(tensor->dtype),
                        (long long)offset, flat->name, (long long)room, bt_dtype_name(flat->dtype));
    }
    const int64_t at = flat->offset + offset;
    void *target = (char *)bt_tensor_data(flat) + offset * (int64_t)bt_dtype_size(flat->dtype);
    BT_TRY(device->backend->copy(device, target, bt_tensor_data(tensor), bt_tensor_bytes(tensor),
                                 BT_COPY_DEVICE_TO_DEVICE, context->stream));
    release_storage(tensor->storage);
    tensor->storage = flat->storage;
    tensor->offset = at;
    ++flat->storage->refs;
    bt_tensor_touch(flat);
    return BT_OK;
}

bt_status bt_tensor_write(bt_context *context, bt_tensor *tensor, const void *host)
{
    BT_TRY(bt_tensor_expect(tensor, tensor->dtype, "tensor to write"));
    bt_tensor_touch(tensor);
    BT_TRY(context->device->backend->copy(context->device, bt_tensor_data(tensor), host,
                                          bt_tensor_bytes(tensor), BT_COPY_HOST_TO_DEVICE,
                                          context->stream));
    trace(context, tensor, BT_TRACE_HOST);
    return BT_OK;
}

bt_status bt_tensor_read(bt_context *context, const bt_tensor *tensor, void *host)
{
    BT_TRY(bt_tensor_expect(tensor, tensor->dtype, "tensor to read"));
    BT_TRY(context->device->backend->copy(context->device, host, bt_tensor_data(tensor),
                                          bt_tensor_bytes(tensor), BT_COPY_DEVICE_TO_HOST,
                                          context->stream));
    return bt_context_synchronize(context);
}

bt_status bt_tensor_copy(bt_context *context, const bt_tensor *x, bt_tensor *y)
{
    char from[BT_SHAPE_TEXT_BYTES];
    char to[BT_SHAPE_TEXT_BYTES];
    if (!bt_shape_equal(&x->shape, &y->shape)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "copy from shape %s to shape %s",
                        bt_shape_text(&x->shape, from), bt_shape_text(&y->shape, to));
    }
    bt_copy_args args = {.rank = x->shape.rank,
                         .x = bt_tensor_data(x),
                         .x_dtype = x->dtype,
                         .y = bt_tensor_data(y),
                         .y_dtype = y->dtype};
    for (int i = 0; i < args.rank; ++i) {
        args.shape[i] = x->shape.size[i];
        args.x_stride[i] = x->stride[i];
        args.y_stride[i] = y->stride[i];
    }
    bt_tensor_touch(y);
    return bt_context_launch(context, BT_KERNEL_COPY, x->dtype, &args);
}

bt_status bt_tensor_fill(bt_context *context, bt_tensor *tensor, double value)
{
    BT_TRY(bt_tensor_expect(tensor, tensor->dtype, "tensor to fill"));
    bt_fill_args args = {.y = bt_tensor_data(tensor),
                         .count = bt_tensor_count(tensor),
                         .dtype = tensor->dtype,
                         .value = value};
    bt_tensor_touch(tensor);
    return bt_context_launch(context, BT_KERNEL_FILL, tensor->dtype, &args);
}
