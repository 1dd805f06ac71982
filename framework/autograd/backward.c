// framework/autograd/backward.c - visits the nodes of the tape from newest to oldest
#include "framework/autograd/node.h"
#include "framework/ops/anomaly.h"
#include "framework/ops/weight_grads.h"

static bt_tensor **slot_of(bt_edge *edge)
{
    return edge->leaf ? &edge->leaf->grad : &edge->node->dout[edge->output];
}

// Replaces the tensor by a copy of the edge's type. After a failure it is one of the two.
static bt_status replace_by_copy(bt_context *context, const bt_edge *edge, bt_tensor **tensor)
{
    bt_tensor *copy = NULL;
    BT_TRY(bt_tensor_create(context, edge->spec.dtype, edge->spec.shape, "gradient", &copy));
    bt_status status = bt_tensor_copy(context, *tensor, copy);
    bt_tensor_release(*tensor);
    *tensor = copy;
    return status;
}

// An op that accumulates in place needs a sum with a single reference. A leaf's gradient has one;
// an activation's is copied if it is referenced elsewhere. So the bits do not depend on references.
static bt_status make_private(bt_context *context, const bt_edge *edge, bt_tensor **slot)
{
    return edge->leaf || bt_tensor_is_exclusive(*slot) ? BT_OK
                                                       : replace_by_copy(context, edge, slot);
}

static bt_status add_to_slot(bt_context *context, const bt_edge *edge, bt_tensor **slot,
                             bt_tensor *grad)
{
    bt_tensor *sum = NULL;
    if (edge->leaf || bt_tensor_is_exclusive(*slot)) {
        sum = bt_tensor_retain(*slot);
    } else {
        BT_TRY(bt_tensor_create(context, edge->spec.dtype, edge->spec.shape, "gradient", &sum));
    }
    bt_binary_args args = {.function = BT_BINARY_ADD,
                           .rank = 1,
                           .shape = {bt_tensor_count(grad)},
                           .a = bt_tensor_data(*slot),
                           .a_stride = {1},
                           .b = bt_tensor_data(grad),
                           .b_stride = {1},
                           .y = bt_tensor_data(sum),
                           .dtype = grad->dtype};
    if (context->trace_hook.accumulate) {
        context->trace_hook.accumulate(context->trace_hook.self, sum, grad);
    }
    bt_tensor_touch(sum);
    bt_status status = bt_context_launch(context, BT_KERNEL_BINARY, grad->dtype, &args);
    bt_tensor_release(*slot);
    *slot = sum;
    return status;
}

// Makes the leaf's home its gradient: `grad`, copied unless the op wrote it there.
static bt_status settle(bt_context *context, bt_tensor *leaf, bt_tensor *grad)
{
    if (grad != leaf->home) {
        BT_TRY(bt_tensors_fetch(context, &leaf->home, 1));
        BT_TRY(bt_tensor_copy(context, grad, leaf->home));
    }
    leaf->grad = bt_tensor_retain(leaf->home);
    return BT_OK;
}

// Stores din->tensor as the gradient, or adds it to the existing one.
static bt_status deliver(bt_context *context, bt_node *node, int i, bt_grad *din)
{
    bt_edge *edge = &node->in[i];
    bt_tensor **slot = slot_of(edge);
    if (!din->tensor) {
        return bt_error(BT_STATUS_INTERNAL, "no gradient for input %d", i);
    }
    if (din->accumulate) { // it is *slot
        return BT_OK;
    }
    if (edge->leaf && edge->leaf->home && !*slot) {
        return settle(context, edge->leaf, din->tensor);
    }
    if (din->tensor->dtype != edge->spec.dtype) { // the op does not write the leaf's type
        BT_TRY(replace_by_copy(context, edge, &din->tensor));
    }
    if (*slot) {
        return add_to_slot(context, edge, slot, din->tensor);
    }
    if (edge->leaf && !bt_tensor_is_exclusive(din->tensor)) {
        // A leaf's gradient has its own storage: later passes add to it in place.
        BT_TRY(replace_by_copy(context, edge, &din->tensor));
    }
    *slot = din->tensor;
    din->tensor = NULL;
    return BT_OK;
}

static bt_status check_finite(bt_context *context, const bt_node *node, int i,
                              const bt_tensor *grad)
{
    int64_t nonfinite = 0;
    const bt_tensor *leaf = node->in[i].leaf;
    char where[BT_RANGES_TEXT_BYTES];
    bt_str attributes = {0};
    BT_TRY(bt_anomaly_count(context, grad, &nonfinite));
    if (nonfinite == 0) {
        return BT_OK;
    }
    bt_anomaly_attributes(node->op, node->attrs, &attributes);
    bt_status status = bt_error(
        BT_STATUS_CORRUPT_DATA,
        "backward of %s produced the first non-finite gradient: %lld of %lld, of input %d (%s)"
        "%s%s%s%s",
        node->op->name, (long long)nonfinite, (long long)bt_tensor_count(grad), i,
        node->op->in_role[i], leaf ? " " : "", leaf ? leaf->name : "",
        bt_anomaly_where(context, where), bt_str_text(&attributes));
    bt_str_release(&attributes);
    return status;
}

// Whether the gradient of this input is deferred (weight_grads.h).
static bool waits(const bt_grad *din) { return din->leaf && din->leaf->grad_pending > 1; }

static bt_status tell(bt_context *context, const bt_node *node, int i, const bt_grad *din)
{
    const bt_op_value value = {.op = node->op->name,
                               .gradient = true,
                               .index = i,
                               .call = node,
                               .parameter = din->leaf ? din->leaf->name : NULL,
                               .tensor = din->tensor};
    return node->op->makes_outputs
               ? BT_OK
               : context->value_hook.made(context->value_hook.self, context, &value);
}

// Does another input of the node have the same gradient?
static bool shares_slot(bt_node *node, int input)
{
    for (int i = 0; i < node->op->in_count; ++i) {
        const bool wanted = node->in[i].leaf || node->in[i].node;
        if (i != input && wanted && slot_of(&node->in[i]) == slot_of(&node->in[input])) {
            return true;
        }
    }
    return false;
}

// The type in which the op writes input i's gradient.
static bt_dtype written_dtype(const bt_node *node, int i)
{
    const bt_edge *edge = &node->in[i];
    if (edge->dtype == BT_BF16 && (node->op->wide >> i & 1U)) {
        return BT_F32;
    }
    return node->op->flexible >> i & 1U ? edge->spec.dtype : edge->dtype;
}

// Where the op may write the gradient: the sum so far, to which it adds, or the leaf's home.
static bt_status lend_target(bt_context *context, bt_edge *edge, bt_grad *din)
{
    bt_tensor **slot = slot_of(edge);
    if (*slot) {
        BT_TRY(make_private(context, edge, slot));
        din->accumulate = true;
        din->tensor = bt_tensor_retain(*slot);
    } else if (edge->leaf && edge->leaf->home) {
        BT_TRY(bt_tensors_fetch(context, &edge->leaf->home, 1));
        din->tensor = bt_tensor_retain(edge->leaf->home);
    }
    return BT_OK;
}

// The gradients that the op must compute, and where it may add. If a tensor is several inputs, each
// input gets separate memory and deliver() adds: kernels must not write to one place twice.
static bt_status request_grads(bt_context *context, bt_node *node, bt_op_backward *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        bt_edge *edge = &node->in[i];
        bt_grad *din = &call->din[i];
        call->in_spec[i] = (bt_op_spec){edge->dtype, edge->spec.shape};
        din->spec = (bt_op_spec){written_dtype(node, i), edge->spec.shape};
        din->wanted = edge->leaf || edge->node;
        if (din->wanted && (node->op->accumulates >> i & 1U) &&
            din->spec.dtype == edge->spec.dtype && !shares_slot(node, i)) {
            BT_TRY(lend_target(context, edge, din));
        }
        if (edge->leaf && edge->leaf->grad_pending == 1 && !context->anomaly) {
            din->leaf = edge->leaf; // no other node reads or adds to its gradient in this backward
        }
    }
    return BT_OK;
}

static bt_status step_back(bt_context *context, bt_node *node)
{
    bt_op_backward call = {.op = node->op,
                           .attrs = node->attrs,
                           .in_count = node->op->in_count,
                           .captures = &node->captures};
    for (int i = 0; i < node->op->out_count; ++i) {
        call.dout[i] = node->dout[i];
    }
    bt_status status = bt_node_restore(context, node);
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        call.saved[i] = node->saved[i].tensor;
    }
    if (status == BT_OK) {
        status = bt_tensors_fetch(context, call.saved, BT_OP_MAX_SAVED);
    }
    if (status == BT_OK) {
        status = request_grads(context, node, &call);
    }
    if (status == BT_OK && context->trace_hook.backward) {
        context->trace_hook.backward(context->trace_hook.self, &call);
    }
    if (status == BT_OK) {
        status = node->op->backward(context, &call);
    }
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        if (!call.saved[i]) { // taken over, if it existed
            node->saved[i].tensor = NULL;
        }
    }
    for (int i = 0; i < call.in_count; ++i) {
        bt_grad *din = &call.din[i];
        if (status == BT_OK && din->wanted && context->anomaly && din->tensor) {
            status = check_finite(context, node, i, din->tensor);
        }
        if (status == BT_OK && din->wanted && context->value_hook.made && din->tensor &&
            !waits(din)) {
            status = tell(context, node, i, din);
        }
        if (status == BT_OK && din->wanted) {
            status = deliver(context, node, i, din);
        }
        bt_tensor_release(din->tensor);
    }
    return bt_error_context(status, "backward of %s", node->op->name);
}

static bool is_leaf(const bt_tensor *x) { return x->requires_grad && !x->producer; }

// Counts the nodes that feed each leaf, so that its hook can run after the last of them.
static void count_pending(const bt_tape *tape)
{
    for (const bt_node *node = tape->newest; node; node = node->previous) {
        for (int i = 0; i < node->op->in_count; ++i) {
            if (node->in[i].leaf) {
                ++node->in[i].leaf->grad_pending;
            }
        }
        for (int64_t i = 0; i < node->captures.count; ++i) {
            bt_tensor *captured = node->captures.items[i].tensor;
            captured->grad_pending += is_leaf(captured);
        }
    }
}

// A recomputed op no longer counts as feeding its captured leaves: from here on the nodes of its
// body do, or it is done.
static bt_status finish_captures(bt_context *context, bt_captures *captures, bt_status status)
{
    for (int64_t i = 0; captures && !captures->fed && i < captures->count; ++i) {
        if (is_leaf(captures->items[i].tensor)) {
            status = bt_leaf_fed(context, captures->items[i].tensor, status);
        }
    }
    if (captures) {
        captures->fed = true;
    }
    return status;
}

// The node is done (or was skipped).
static bt_status finish_leaves(bt_context *context, bt_node *node, bt_status status)
{
    for (int i = 0; i < node->op->in_count; ++i) {
        if (node->in[i].leaf) {
            status = bt_leaf_fed(context, node->in[i].leaf, status);
        }
    }
    return finish_captures(context, &node->captures, status);
}

// A hook may change the gradient in place, so the gradient must have no other reader.
static bt_status run_output_hooks(bt_context *context, bt_node *node)
{
    for (int i = 0; i < node->op->out_count; ++i) {
        bt_tensor **dout = &node->dout[i];
        if (*dout && node->hook[i].ready) {
            const bt_edge own = {.spec = {(*dout)->dtype, (*dout)->shape}};
            BT_TRY(make_private(context, &own, dout));
            BT_TRY(node->hook[i].ready(node->hook[i].self, context, *dout));
        }
    }
    return BT_OK;
}

bt_status bt_tape_plant_seed(bt_context *context, bt_tensor *root, bt_tensor *seed)
{
    bt_tensor **slot = &root->producer->dout[root->producer_output];
    if (seed) {
        BT_TRY(bt_tensor_expect(seed, root->dtype, "seed of backward"));
        if (!bt_shape_equal(&seed->shape, &root->shape)) {
            char a[BT_SHAPE_TEXT_BYTES];
            char b[BT_SHAPE_TEXT_BYTES];
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "seed of shape %s for a root of shape %s",
                            bt_shape_text(&seed->shape, a), bt_shape_text(&root->shape, b));
        }
        *slot = bt_tensor_retain(seed);
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, root->dtype, root->shape, "seed", slot));
    return bt_tensor_fill(context, *slot, 1.0);
}

bt_status bt_backward(bt_context *context, bt_tensor *root, bt_tensor *seed)
{
    bt_tape *tape = context->tape;
    if (!tape || !root->producer) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "backward from \"%s\": it depends on no tensor that requires a gradient",
                        root->name);
    }
    BT_TRY(bt_tape_check_producer(tape, root));
    BT_TRY(bt_weight_grads_run(context, 1, BT_OK)); // of an enclosing backward
    bt_weight_grads waiting = {.count = 0}, *around = context->weight_grads;
    bt_status status = bt_tape_plant_seed(context, root, seed);
    context->tape = NULL; // a backward is not recorded
    context->weight_grads = &waiting;
    count_pending(tape);
    status = finish_captures(context, tape->captures, status);
    for (bt_node *node = tape->newest; node; node = node->previous) {
        if (status == BT_OK && (node->dout[0] || node->dout[1])) {
            bt_range_push(context, node->op->name);
            status = run_output_hooks(context, node);
            status = status == BT_OK ? step_back(context, node) : status;
            bt_range_pop(context);
        }
        status = finish_leaves(context, node, status);
        bt_node_spend(node);
        status = bt_weight_grads_run(context, BT_WEIGHT_GRADS_GROUP, status);
    }
    status = bt_weight_grads_run(context, 1, status);
    context->tape = tape;
    context->weight_grads = around;
    bt_tape_reset(tape);
    return status;
}
