// framework/autograd/tape.h - reverse-mode automatic differentiation
//
// While context->tape is set, every op whose input requires a gradient is recorded as a node.
// bt_backward visits the nodes from newest to oldest, which is a topological order because a node
// can only use what was made before it.
//
// Invariants
//   1. A node retains what it saved and the leaves it feeds, nothing else: an activation lives only
//      as long as a node's backward needs it.
//   2. A node is spent when its backward has run: its saved tensors are released immediately.
//   3. A gradient is summed in the order of the visits, so its bits are reproducible.
//   4. A saved tensor that was written in place since is an error naming the op and the tensor.
#ifndef BT_AUTOGRAD_TAPE_H
#define BT_AUTOGRAD_TAPE_H

#include "framework/ops/op.h"

typedef struct bt_tape bt_tape;

BT_CHECKED bt_status bt_tape_create(bt_tape **out);
// A tape for the body of a recomputed op; gradients of captured tensors go to the enclosing tape.
// Owns    the caller; `captures` is borrowed and outlives the tape
BT_CHECKED bt_status bt_tape_create_within(bt_captures *captures, bt_tape **out);
void bt_tape_destroy(bt_tape *tape);
// Removes all nodes. Tensors made on the tape keep their values; passing one to an op that is
// recorded later, to bt_backward or to bt_tensor_set_grad_hook is an error (bt_detach makes a
// constant of it).
void bt_tape_reset(bt_tape *tape);

// True if an op that is currently on the tape made x.
bool bt_tape_made(const bt_tape *tape, const bt_tensor *x);

// Sets the hook of a leaf (permanently), or of a tensor made on the tape (for its one backward). A
// leaf's hook runs as soon as the last node that feeds it is done, not at the end of the backward;
// once per backward, also if recomputed bodies feed the leaf.
// Errors  INVALID_ARGUMENT for a constant, and for a tensor made on another tape than the
//         context's or before that was reset
BT_CHECKED bt_status bt_tensor_set_grad_hook(bt_context *context, bt_tensor *tensor,
                                             bt_grad_hook hook);

// Adds d(sum of root * seed)/d(leaf) to leaf->grad for every leaf that requires a gradient. seed
// NULL: ones. Spends the nodes it visits and resets the tape.
// Shapes  seed as root
// Errors  INVALID_ARGUMENT (root does not depend on a leaf; a stale saved tensor), and the ops'
BT_CHECKED bt_status bt_backward(bt_context *context, bt_tensor *root, bt_tensor *seed);

// Gradients that can be differentiated again: out[i] becomes d(sum of root * seed)/d(of[i]), of
// of[i]'s type, made by ops on the tape; of[] may be leaves and tensors made on the tape. It spends
// no node, adds to no leaf's gradient and runs no hook.
// Shapes  seed as root; NULL: ones
// Owns    the caller owns out[0 .. count - 1]; NULL after a failure
// Errors  UNSUPPORTED, naming the op that is not twice differentiable; INVALID_ARGUMENT as
//         bt_backward, and for an of[i] that is a constant; the ops'
BT_CHECKED bt_status bt_backward_recorded(bt_context *context, bt_tensor *root, bt_tensor *seed,
                                          bt_tensor *const *of, int count, bt_tensor **out);

#endif
