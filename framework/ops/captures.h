// framework/ops/captures.h - the tensors that a recomputed body uses besides its inputs
//
// While the body of bt_recompute runs forward, context->captures is a list to which bt_op_apply
// adds the inputs of the body's ops that the body did not make. The node of the recomputed op keeps
// the list, so that the tape knows before the backward which leaves the body will feed, and can
// check that captured tensors were not written since.
//
// Invariants
//   1. A tensor that requires a gradient is in the list once; of constants, each storage is.
//   2. A storage whose serial number is below first_serial was not made by the body.
#ifndef BT_OPS_CAPTURES_H
#define BT_OPS_CAPTURES_H

#include "framework/tensor/tensor.h"

typedef struct bt_capture {
    bt_tensor *tensor; // retained
    uint64_t version;  // version of its storage at the body's first use
} bt_capture;

typedef struct bt_captures {
    bt_capture *items; // owned [count]
    int64_t count, capacity;
    uint64_t first_serial;
    bool fed; // the leaves no longer count the node: the nodes of its body count
} bt_captures;

// Adds the inputs of an op (NULL if missing) that belong in the list.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_captures_note(bt_captures *captures, bt_tensor *const *in, int in_count);
bool bt_captures_have(const bt_captures *captures, const bt_tensor *tensor);
// True if one of them requires a gradient.
bool bt_captures_require_grad(const bt_captures *captures);
// Releases the tensors and the list. Safe on a zeroed list.
void bt_captures_release(bt_captures *captures);

#endif
