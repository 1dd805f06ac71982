// framework/dist/host_tensors.h - tensors in page-locked host memory, next to a device
//
// For the whole training state, of which a device has only a part. The device copies to and from
// this memory at the speed of its link, and its kernels can read and write it. On a CPU device it
// is ordinary memory.
//
// Work of the device is asynchronous: code of the host that reads these tensors waits for the
// stream or event of the copies first.
#ifndef BT_DIST_HOST_TENSORS_H
#define BT_DIST_HOST_TENSORS_H

#include "framework/tensor/tensor.h"

typedef struct bt_host_tensors {
    bt_device *device; // borrowed: it has allocated the block
    void *block;       // owned by the device; NULL: not created
    bt_tensor **items; // owned [count], retained
    int64_t count;
} bt_host_tensors;

// Zeroed tensors of one type.
// Shapes  shapes [count]
// context  of the device, which outlives the tensors; `name` is borrowed
// Owns    *out: the caller, until bt_host_tensors_destroy, also when this fails
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_host_tensors_create(bt_context *context, bt_dtype dtype,
                                            const bt_shape *shapes, int64_t count, const char *name,
                                            bt_host_tensors *out);
// Safe on a zeroed struct. The device must have no work left on this memory.
void bt_host_tensors_destroy(bt_host_tensors *tensors);

// Copies `count` elements between a contiguous tensor of the host and one of the device, on the
// context's stream.
BT_CHECKED bt_status bt_host_tensor_copy(bt_context *context, bt_tensor *host, int64_t host_at,
                                         bt_tensor *device, int64_t device_at, int64_t count,
                                         bool to_host);

#endif
