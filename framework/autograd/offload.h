// framework/autograd/offload.h - keeps tensors for the backward in host memory
//
// A tensor is copied to pinned memory on a separate stream during the forward; its device memory is
// freed a few tensors later. In the backward it is fetched, and the tensors put before it are
// prefetched, since they are needed next. Host memory is kept for the next step.
//
// Invariants
//   1. The compute stream waits for a copy before the tensor's memory is reused, the copy stream
//      waits for the compute stream's writes; the host waits for neither.
//   2. A fetched tensor has the bits that were put; writing it in place in between is an error.
// The CPU backend copies too, so that the same code is tested there.
#ifndef BT_AUTOGRAD_OFFLOAD_H
#define BT_AUTOGRAD_OFFLOAD_H

#include "framework/tensor/tensor.h"

typedef struct bt_offload bt_offload;
typedef struct bt_offloaded bt_offloaded; // a tensor that was put

// For the context's device and stream; both outlive it. Owns  the caller
BT_CHECKED bt_status bt_offload_create(bt_context *context, bt_offload **out);
// All tensors must have been dropped. NULL is allowed. Sync  the copy stream
void bt_offload_destroy(bt_offload *offload);

// The tensor is contiguous and not empty. Putting it twice copies it once.
// Owns    the caller drops *out    Errors  OUT_OF_MEMORY (pinned), the device's
BT_CHECKED bt_status bt_offload_put(bt_offload *offload, bt_tensor *tensor, bt_offloaded **out);
// Owns    the caller releases *out
// Errors  INVALID_ARGUMENT (written in place since), OUT_OF_MEMORY (device)
BT_CHECKED bt_status bt_offload_get(bt_context *context, bt_offloaded *away, bt_tensor **out);
// NULL is allowed.
void bt_offload_drop(bt_offloaded *away);

#endif
