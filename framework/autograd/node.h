// framework/autograd/node.h - the nodes of a tape; internal to this folder
//
// A node keeps tensors for its backward (bt_kept). A tensor that an older node of the same tape can
// recompute is not kept: the backward asks that node, its maker, which runs its op forward again
// from the inputs that it kept. Ops say which outputs can be recomputed (bt_op_call.remake) when
// context->recompute asks for less memory. With BLOCK_OFFLOAD kept activations are in host memory
// (offload.h).
//
// Invariants
//   1. A maker keeps its inputs and nothing that its forward saved, until remake.
//   2. Recomputed tensors have the same bits: ops are functions of their inputs.
//   3. They live until the maker is spent, which is after all nodes that use it.
#ifndef BT_AUTOGRAD_NODE_H
#define BT_AUTOGRAD_NODE_H

#include "framework/autograd/offload.h"
#include "framework/autograd/tape.h"
#include "framework/base/mem.h"

// The source of an input: a leaf, or an output of an earlier node; neither: a constant.
typedef struct bt_edge {
    bt_tensor *leaf;      // retained
    struct bt_node *node; // borrowed, same tape
    int output;
    bt_op_spec spec; // of the gradient
    bt_dtype dtype;  // of the input
} bt_edge;

typedef struct bt_kept {
    bt_tensor *tensor; // retained; NULL: nothing, or not recomputed yet
    uint64_t version;
    struct bt_node *maker; // borrowed, same tape; NULL: the tensor is kept from the start
    int output;
    bt_offloaded *away; // owned; in host memory instead; NULL: not offloaded
} bt_kept;

typedef struct bt_node {
    struct bt_node *previous; // recorded before this one
    const bt_op *op;
    const void *attrs; // owned by the arena; of the row's attrs
    bt_edge in[BT_OP_MAX_INPUTS];
    bt_kept saved[BT_OP_MAX_SAVED];
    bt_kept inputs[BT_OP_MAX_INPUTS];        // of a maker
    uint64_t out_version[BT_OP_MAX_OUTPUTS]; // of a maker, as forward left them
    bt_tensor *made[BT_OP_MAX_OUTPUTS];      // retained; of a maker, after it has run again
    bool maker, remade;
    bt_tensor *dout[BT_OP_MAX_OUTPUTS]; // retained; sum so far
    bt_grad_hook hook[BT_OP_MAX_OUTPUTS];
    bt_captures captures; // owned; of a recomputed op
} bt_node;

struct bt_tape {
    bt_recorder recorder; // must be first: the part of a tape that ops see
    bt_arena arena;       // of the nodes
    bt_node *newest;
    uint64_t generation;   // unique in the process, new after each reset
    bt_captures *captures; // borrowed; of the recomputed op whose body is recorded here, or NULL
    bt_offload *offload;   // owned; NULL until something is kept in host memory
};

// The node on the tape that makes the tensor; NULL: none.
static inline bt_node *bt_tape_producer(const bt_tape *tape, const bt_tensor *x)
{
    return tape && x->producer && x->producer_generation == tape->generation ? x->producer : NULL;
}

// ---- keep.c -------------------------------------------------------------------------------------
// Keeps the tensor (NULL: nothing), on the device or in host memory, or the node of the context's
// tape that can recompute it. Errors  as bt_offload_put; nothing is kept then
BT_CHECKED bt_status bt_kept_set(bt_context *context, bt_tensor *tensor, bt_kept *kept);
void bt_kept_release(bt_kept *kept);
// The value that the node saved, recomputed if necessary. Checks that it was not written since.
// Errors  INVALID_ARGUMENT naming op and tensor; the forward's
BT_CHECKED bt_status bt_node_restore(bt_context *context, bt_node *node);

// ---- tape.c -------------------------------------------------------------------------------------
// Whether an op on the tape may use the tensor: one of the tape, a leaf, a constant, or a tensor
// that the enclosing recomputed op captured, which is on an older tape.
BT_CHECKED bt_status bt_tape_check_producer(const bt_tape *tape, const bt_tensor *x);
// Releases all that the node keeps. May be called again.
void bt_node_spend(bt_node *node);

// Sets the gradient of root, which has a producer, to `seed` or ones.
BT_CHECKED bt_status bt_tape_plant_seed(bt_context *context, bt_tensor *root, bt_tensor *seed);

#endif
