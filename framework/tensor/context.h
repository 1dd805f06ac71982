// framework/tensor/context.h - where ops run: device, pool, stream, precision, tape
//
// Every op takes a context first. It is the caller's struct, made once per training thread and
// not shared between threads.
#ifndef BT_TENSOR_CONTEXT_H
#define BT_TENSOR_CONTEXT_H

#include "framework/base/ranges.h"
#include "framework/base/recompute.h"
#include "framework/device/device.h"
#include "framework/memory/pool.h"
#include "kernels/kernels.h"

typedef struct bt_context bt_context;

// Called for every kernel launch; for recorders. All members NULL: no listener.
typedef struct bt_kernel_hook {
    void *self; // borrowed
    // `plan`: how the call is to be computed, NULL: the row's default.
    void (*launched)(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                     const void *args);
} bt_kernel_hook;

// Called for every range; for profilers. Likewise.
typedef struct bt_range_hook {
    void *self; // borrowed
    void (*push)(void *self, const char *name);
    void (*pop)(void *self);
} bt_range_hook;

struct bt_tensor;

// A result of an op: an output of its forward, or the gradient of one of its inputs.
typedef struct bt_op_value {
    const char *op; // name of its row
    bool gradient;
    int index;        // of the output, or of the input
    const void *call; // gradient: the same for all inputs of one call
    // Of an output the first leaf that the call reads, of a gradient the leaf whose sum it is.
    const char *parameter;          // NULL: none
    const struct bt_tensor *tensor; // borrowed, contiguous
} bt_op_value;

// Called for every such value, after the op and before it is read; for recorders. Likewise. Views,
// whole recomputed bodies and deferred weight gradients are not reported.
typedef struct bt_value_hook {
    void *self; // borrowed
    bt_status (*made)(void *self, bt_context *context, const bt_op_value *value);
} bt_value_hook;

// The contents of a storage that the trace reports.
typedef enum bt_trace_contents {
    BT_TRACE_UNDEFINED,
    BT_TRACE_ZEROS,
    BT_TRACE_HOST // written by the host
} bt_trace_contents;

struct bt_op_call;
struct bt_op_backward;

// Called for the causes of kernel launches, before they are made; with kernel_hook, for recorders
// (framework/compiler/capture.h). Likewise; all or none of the functions.
typedef struct bt_trace_hook {
    void *self; // borrowed
    // A tensor's storage was created or filled without a kernel.
    void (*tensor)(void *self, const struct bt_tensor *tensor, bt_trace_contents contents);
    // An op runs forward, also during a backward (recomputation); an op's backward runs.
    void (*forward)(void *self, const struct bt_op_call *call);
    void (*backward)(void *self, const struct bt_op_backward *call);
    // The tape adds `grad` to `sum`.
    void (*accumulate)(void *self, const struct bt_tensor *sum, const struct bt_tensor *grad);
} bt_trace_hook;

struct bt_context {
    bt_device *device;                    // borrowed, outlives the context
    bt_pool *pool;                        // borrowed, likewise; of `device`
    bt_stream stream;                     // work goes here
    bt_compute compute;                   // precision of fp32 matrix products
    struct bt_tape *tape;                 // borrowed; records ops; NULL: nothing is recorded
    bt_recompute_mode recompute;          // what newly recorded ops keep
    struct bt_weight_grads *weight_grads; // borrowed; deferred weight gradients of the current
                                          // backward
    struct bt_captures *captures; // borrowed; captures of the recomputed body that runs forward, or
                                  // NULL
    bool anomaly;                 // name the op that made the first NaN (framework/ops/anomaly.h)
    bool dry;                     // no kernel is launched: hooks are called, memory is not computed
    bt_kernel_hook kernel_hook;
    bt_range_hook range_hook;
    bt_value_hook value_hook;
    bt_trace_hook trace_hook;
    bt_ranges *ranges; // borrowed; where open ranges are published for a watching thread, or NULL
    struct bt_gemm_tuner *tuner; // borrowed (linalg/tune.h); NULL: kernels of matrix products are
                                 // chosen by estimates
};

// Finds the row for the call, gives it its workspace and launches it.
// Errors  UNSUPPORTED, OUT_OF_MEMORY, or the launch's own; the message names the kernel
BT_CHECKED bt_status bt_context_launch(bt_context *context, bt_kernel_op op, bt_dtype dtype,
                                       const void *args);
// The same with a row chosen by the caller; `plan` as in the hook.
BT_CHECKED bt_status bt_context_launch_row(bt_context *context, const bt_kernel *kernel,
                                           const bt_kernel_plan *plan, const void *args);
// Waits for all work of the context's stream. Reports asynchronous faults.
BT_CHECKED bt_status bt_context_synchronize(bt_context *context);

// Named ranges nest: NVTX for an external profiler, the hook, and the context's ranges. `name` is a
// string constant.
void bt_range_push(bt_context *context, const char *name);
void bt_range_pop(bt_context *context);

#endif
