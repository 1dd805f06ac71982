// framework/tensor/tensor.h - typed, strided views over reference-counted storage
//
// Invariants
//   1. A tensor is a view: shape, strides and offset (in elements) into one storage. Views share
//      it; releasing the last one frees it.
//   2. storage->version counts in-place writes. Code that writes through a tensor calls
//      bt_tensor_touch; the tape compares versions of what it saved.
//   3. A tensor belongs to one thread at a time; counts are not atomic.
//   4. Contiguity is explicit: no function copies implicitly.
#ifndef BT_TENSOR_TENSOR_H
#define BT_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/status.h"
#include "framework/tensor/context.h"

struct bt_storage;

// Restores the contents of a storage whose memory was freed (bt_storage_give_up).
typedef struct bt_storage_source {
    void *self; // borrowed, outlives the storage
    // Called before each op that reads a tensor of the storage, even if its memory exists.
    // Allocates storage->data if it is NULL, by bt_storage_take_back, and fills it.
    bt_status (*fetch)(void *self, bt_context *context, struct bt_storage *storage);
} bt_storage_source;

typedef struct bt_storage {
    int64_t refs;
    bt_pool *pool; // borrowed; allocator of data; NULL: data is not owned
    void *data;    // owned if from a pool; NULL while the memory is freed
    size_t size_bytes;
    uint64_t version;
    uint64_t serial;          // unique in the process, ascending
    bt_storage_source source; // fetch NULL: memory is never freed early
} bt_storage;

typedef struct bt_shape {
    int rank; // 0..BT_MAX_RANK; 0 is a scalar
    int64_t size[BT_MAX_RANK];
} bt_shape;

struct bt_tensor;

// Called when a tensor's gradient is complete: exactly once per outermost backward that has nodes
// which feed the tensor, after all that write it. The gradient is borrowed and may be changed in
// place. Set with bt_tensor_set_grad_hook (framework/autograd/tape.h).
typedef struct bt_grad_hook {
    void *self; // borrowed
    bt_status (*ready)(void *self, bt_context *context, struct bt_tensor *grad);
    // Called, if set, after each node before the last that has added to a leaf's gradient: the hook
    // may take the gradient so far and give the leaf another home.
    bt_status (*part)(void *self, bt_context *context, struct bt_tensor *leaf);
} bt_grad_hook;

typedef struct bt_tensor {
    int64_t refs;
    bt_storage *storage; // retained
    int64_t offset;      // elements
    bt_shape shape;
    int64_t stride[BT_MAX_RANK]; // elements; 0 if expanded
    bt_dtype dtype;
    const char *name; // borrowed, for messages and memory reports
    // Autograd. A leaf that requires a gradient has no producer.
    bool requires_grad;
    bt_dtype grad_dtype;      // type in which a leaf accumulates its gradient
    struct bt_tensor *grad;   // retained; of a leaf, NULL until the first backward
    struct bt_tensor *home;   // retained; of a leaf: its gradient is written here and grad becomes
                              // this tensor; NULL: a new gradient is allocated
    struct bt_node *producer; // borrowed from the tape; NULL for leaves and constants
    int producer_output;
    uint64_t producer_generation; // serial of the tape, so that a spent producer is not followed
    bt_grad_hook grad_hook;       // of a leaf
    int64_t grad_pending;         // nodes of the current backward that still feed the leaf
} bt_tensor;

// BT_SHAPE(2, 3) is a bt_shape of rank 2; BT_SCALAR has rank 0.
#define BT_SHAPE(...)                                                                              \
    ((bt_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                .size = {__VA_ARGS__}})
#define BT_SCALAR ((bt_shape){.rank = 0})

// The serial number of the next storage.
uint64_t bt_storage_next_serial(void);

enum { BT_SHAPE_TEXT_BYTES = 64 };

int64_t bt_shape_count(const bt_shape *shape);
// Errors  INVALID_ARGUMENT unless the rank is 0 to BT_MAX_RANK, no size is negative and the product
//         of the sizes other than 0 is at most INT64_MAX / 8; the message begins with `name`
BT_CHECKED bt_status bt_shape_check(const bt_shape *shape, const char *name);
// The strides of a contiguous tensor. The shape must have passed bt_shape_check.
void bt_shape_strides(const bt_shape *shape, int64_t *stride);
bool bt_shape_equal(const bt_shape *a, const bt_shape *b);
// "[2, 3]" into text; returns text.
const char *bt_shape_text(const bt_shape *shape, char text[BT_SHAPE_TEXT_BYTES]);

// Contiguous, contents undefined.
// Owns    the caller holds one reference (bt_tensor_release). `name` is borrowed.
// Errors  OUT_OF_MEMORY; INVALID_ARGUMENT as bt_shape_check
BT_CHECKED bt_status bt_tensor_create(bt_context *context, bt_dtype dtype, bt_shape shape,
                                      const char *name, bt_tensor **out);
BT_CHECKED bt_status bt_tensor_zeros(bt_context *context, bt_dtype dtype, bt_shape shape,
                                     const char *name, bt_tensor **out);
// Contiguous, in device memory that the caller owns and that outlives the tensor.
BT_CHECKED bt_status bt_tensor_over(bt_context *context, bt_dtype dtype, bt_shape shape, void *data,
                                    const char *name, bt_tensor **out);
bt_tensor *bt_tensor_retain(bt_tensor *tensor);
// NULL is allowed.
void bt_tensor_release(bt_tensor *tensor);
// Releases the tensor and sets the variable to NULL.
#define BT_TENSOR_RELEASE(tensor)                                                                  \
    do {                                                                                           \
        bt_tensor_release(tensor);                                                                 \
        (tensor) = NULL;                                                                           \
    } while (0)

int64_t bt_tensor_count(const bt_tensor *tensor);
size_t bt_tensor_bytes(const bt_tensor *tensor);
bool bt_tensor_is_contiguous(const bt_tensor *tensor);
// True if this memory has one tensor with one reference.
bool bt_tensor_is_exclusive(const bt_tensor *tensor);
// The first element.
void *bt_tensor_data(const bt_tensor *tensor);
// Records that the storage was written in place.
void bt_tensor_touch(bt_tensor *tensor);
// BT_OK for a contiguous tensor of this type, else INVALID_ARGUMENT naming `what`.
BT_CHECKED bt_status bt_tensor_expect(const bt_tensor *tensor, bt_dtype dtype, const char *what);

// A view of base's storage without autograd; framework/ops has the recorded ones.
// Owns    the caller
// Errors  INVALID_ARGUMENT if the view exceeds the storage, or as bt_shape_check
BT_CHECKED bt_status bt_tensor_view(bt_tensor *base, bt_shape shape, const int64_t *stride,
                                    int64_t offset, bt_tensor **out);

// Moves the tensor and its contents into flat's storage, starting at element `offset`. Its storage
// must have no other users; it must be contiguous and have flat's type.
// Errors  INVALID_ARGUMENT otherwise, or if flat is too short
BT_CHECKED bt_status bt_tensor_move_into(bt_context *context, bt_tensor *tensor, bt_tensor *flat,
                                         int64_t offset);
// Returns the storage's memory to the pool. Its source restores the contents when an op reads a
// tensor of it; without a source it must not be read again.
void bt_storage_give_up(bt_storage *storage);
// Allocates memory for a storage that has none; contents undefined.
BT_CHECKED bt_status bt_storage_take_back(bt_context *context, bt_storage *storage,
                                          const char *name);
// Restores the contents of those whose memory was freed. NULLs are allowed.
BT_CHECKED bt_status bt_tensors_fetch(bt_context *context, bt_tensor *const *tensors, int count);

// Copies between host memory and a contiguous tensor. The write is asynchronous on a GPU if `host`
// is pinned; the read waits for the stream.
BT_CHECKED bt_status bt_tensor_write(bt_context *context, bt_tensor *tensor, const void *host);
BT_CHECKED bt_status bt_tensor_read(bt_context *context, const bt_tensor *tensor, void *host);

// y = x with conversion; any strides, same shape. Not recorded.
BT_CHECKED bt_status bt_tensor_copy(bt_context *context, const bt_tensor *x, bt_tensor *y);
BT_CHECKED bt_status bt_tensor_fill(bt_context *context, bt_tensor *tensor, double value);

#endif
