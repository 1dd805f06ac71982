// framework/autograd/offload.h - tensors that wait for the backward in host memory
//
// A tensor is copied to pinned memory on a stream of its own while the forward goes on; its device
// memory is given up a few tensors later. In the backward it comes back, and the ones that were put
// before it are fetched meanwhile, as they are needed next. Host memory is kept for the next step.
//
// Invariants
//   1. The compute stream waits for a copy before the tensor's memory is used again, the copy
//   stream
//      for what the compute stream wrote; the host waits for neither.
//   2. What comes back has the bits that were put: one written in place meanwhile is an error.
// The CPU backend copies as well: so the same code is tested there.
#ifndef BT_AUTOGRAD_OFFLOAD_H
#define BT_AUTOGRAD_OFFLOAD_H

#include "framework/tensor/tensor.h"

typedef struct bt_offload bt_offload;
typedef struct bt_offloaded bt_offloaded; // a tensor that was put

// For the context's device and stream; both outlive it. Owns  the caller
BT_CHECKED bt_status bt_offload_create(bt_context *context, bt_offload **out);
// All tensors must have been dropped. NULL is fine. Sync  the copy stream
void bt_offload_destroy(bt_offload *offload);

// The tensor is contiguous and not empty. The same one put twice is copied once.
// Owns    the caller drops *out    Errors  OUT_OF_MEMORY (pinned), the device's
BT_CHECKED bt_status bt_offload_put(bt_offload *offload, bt_tensor *tensor, bt_offloaded **out);
// Owns    the caller releases *out
// Errors  INVALID_ARGUMENT (written in place since), OUT_OF_MEMORY (device)
BT_CHECKED bt_status bt_offload_get(bt_context *context, bt_offloaded *away, bt_tensor **out);
// NULL is fine.
void bt_offload_drop(bt_offloaded *away);

#endif
