#include "framework/dist/host_tensors.h"

#include <string.h>

#include "framework/base/mem.h"

enum { ALIGNMENT = 256 }; // bytes, of each tensor

static size_t padded_bytes(bt_dtype dtype, const bt_shape *shape)
{
    const size_t size_bytes = (size_t)bt_shape_count(shape) * bt_dtype_size(dtype);
    return (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bt_status bt_host_tensors_create(bt_context *context, bt_dtype dtype, const bt_shape *shapes,
                                 int64_t count, const char *name, bt_host_tensors *out)
{
    bt_device *device = context->device;
    size_t size_bytes = 0;
    void *items = NULL;
    *out = (bt_host_tensors){.device = device};
    for (int64_t i = 0; i < count; ++i) {
        size_bytes += padded_bytes(dtype, &shapes[i]);
    }
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(bt_tensor *), &items));
    out->items = items;
    out->count = count;
    BT_TRY(bt_error_context(device->backend->pinned_alloc(device, size_bytes, &out->block),
                            "%s in host memory", name));
    memset(out->block, 0, size_bytes); // touches the pages now, not in the first copy
    char *at = out->block;
    for (int64_t i = 0; i < count; ++i) {
        BT_TRY(bt_tensor_over(context, dtype, shapes[i], at, name, &out->items[i]));
        at += padded_bytes(dtype, &shapes[i]);
    }
    return BT_OK;
}

void bt_host_tensors_destroy(bt_host_tensors *tensors)
{
    for (int64_t i = 0; i < tensors->count; ++i) {
        bt_tensor_release(tensors->items[i]);
    }
    bt_mem_free(tensors->items);
    if (tensors->block) {
        tensors->device->backend->pinned_free(tensors->device, tensors->block);
    }
    *tensors = (bt_host_tensors){0};
}

bt_status bt_host_tensor_copy(bt_context *context, bt_tensor *host, int64_t host_at,
                              bt_tensor *device, int64_t device_at, int64_t count, bool to_host)
{
    const size_t size = bt_dtype_size(host->dtype);
    char *there = (char *)bt_tensor_data(host) + (size_t)host_at * size;
    char *here = (char *)bt_tensor_data(device) + (size_t)device_at * size;
    bt_tensor_touch(to_host ? host : device);
    return context->device->backend->copy(
        context->device, to_host ? there : here, to_host ? here : there, (size_t)count * size,
        to_host ? BT_COPY_DEVICE_TO_HOST : BT_COPY_HOST_TO_DEVICE, context->stream);
}
