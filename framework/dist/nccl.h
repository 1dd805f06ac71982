// framework/dist/nccl.h - ranks with a GPU each, over NCCL
#ifndef BT_DIST_NCCL_H
#define BT_DIST_NCCL_H

#include "framework/dist/group.h"

typedef struct bt_nccl_options {
    int64_t timeout_ns; // of a call on the GPU, and of joining
    // false: sums follow the tree of reduce.h, as in every other backend: NCCL moves the parts, our
    // kernel sums them (2, 4 or 8 ranks). true: NCCL sums, which is faster. NCCL chooses the order
    // from size, type and topology; it repeats only with the same NCCL version, machine and number
    // of ranks.
    bool own_order;
} bt_nccl_options;

// Joins with all ranks of `control`, which it takes over on success. NVLS is not supported: the
// process must have been started with NCCL_NVLS_ENABLE=0.
// Memory   collectives take memory of the device; asynchronous on their stream
// Errors   UNAVAILABLE (no CUDA backend, no NCCL, NVLS not disabled, a rank that does not come),
//          UNSUPPORTED (the tree over another number of ranks), OUT_OF_MEMORY
BT_CHECKED bt_status bt_group_nccl_create(bt_group *control, bt_device *device,
                                          const bt_nccl_options *options, bt_group **out);

#endif
