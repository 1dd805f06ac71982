// framework/autograd/recorded.c - a backward whose gradients are recorded
//
// The nodes on the tape are visited from newest to oldest, as in backward.c, but each gradient is
// computed by recorded ops (the row's recorded()), which append nodes to the same tape. No node is
// spent, so that a later backward can differentiate the gradients.
#include "framework/autograd/node.h"
#include "framework/ops/ops.h"

typedef struct walk {
    bt_context *context;
    bt_tensor *const *of; // borrowed [count]
    int count;
    bt_tensor **out; // [count] retained; sums so far of those that are leaves
} walk;

// *sum += grad, as a new tensor.
static bt_status add_to(bt_context *context, bt_tensor **sum, bt_tensor *grad)
{
    bt_tensor *both = NULL;
    if (!*sum) {
        *sum = bt_tensor_retain(grad);
        return BT_OK;
    }
    BT_TRY(bt_add(context, *sum, grad, &both));
    bt_tensor_release(*sum);
    *sum = both;
    return BT_OK;
}

static bt_status deliver(walk *w, const bt_edge *edge, bt_tensor *grad)
{
    if (edge->node) {
        return add_to(w->context, &edge->node->dout[edge->output], grad);
    }
    for (int i = 0; i < w->count; ++i) {
        if (w->of[i] == edge->leaf) {
            BT_TRY(add_to(w->context, &w->out[i], grad));
        }
    }
    return BT_OK;
}

static bt_status step_back(walk *w, bt_node *node)
{
    bt_op_backward call = {.op = node->op, .attrs = node->attrs, .in_count = node->op->in_count};
    if (!node->op->recorded) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s is not twice differentiable", node->op->name);
    }
    BT_TRY(bt_node_restore(w->context, node));
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        call.saved[i] = node->saved[i].tensor;
    }
    for (int i = 0; i < node->op->out_count; ++i) {
        call.dout[i] = node->dout[i];
    }
    for (int i = 0; i < call.in_count; ++i) {
        const bt_edge *edge = &node->in[i];
        call.in_spec[i] = (bt_op_spec){edge->dtype, edge->spec.shape};
        call.din[i].spec = call.in_spec[i];
        call.din[i].wanted = edge->leaf || edge->node;
    }
    bt_status status = node->op->recorded(w->context, &call);
    for (int i = 0; i < call.in_count; ++i) {
        if (status == BT_OK && call.din[i].wanted) {
            status = deliver(w, &node->in[i], call.din[i].tensor);
        }
        bt_tensor_release(call.din[i].tensor);
    }
    return bt_error_context(status, "recorded backward of %s", node->op->name);
}

// The requested tensors that the node made now have their complete gradient.
static void take_outputs(walk *w, const bt_node *node)
{
    for (int i = 0; i < w->count; ++i) {
        if (w->of[i]->producer == node) {
            w->out[i] = bt_tensor_retain(node->dout[w->of[i]->producer_output]);
        }
    }
}

static bt_status walk_back(walk *w, bt_node *newest)
{
    bt_status status = BT_OK;
    for (bt_node *node = newest; node && status == BT_OK; node = node->previous) {
        take_outputs(w, node);
        if (node->dout[0] || node->dout[1]) {
            bt_range_push(w->context, node->op->name);
            status = step_back(w, node);
            bt_range_pop(w->context);
        }
    }
    for (bt_node *node = newest; node; node = node->previous) {
        BT_TENSOR_RELEASE(node->dout[0]);
        BT_TENSOR_RELEASE(node->dout[1]);
    }
    return status;
}

static bt_status check(const bt_tape *tape, const bt_tensor *root, bt_tensor *const *of, int count)
{
    if (!tape || !root->producer) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "gradients of \"%s\": it depends on no tensor that requires a gradient",
                        root->name);
    }
    BT_TRY(bt_tape_check_producer(tape, root));
    for (int i = 0; i < count; ++i) {
        BT_TRY(bt_tape_check_producer(tape, of[i]));
        if (!of[i]->requires_grad) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "\"%s\" is a constant: it has no gradient",
                            of[i]->name);
        }
    }
    return BT_OK;
}

bt_status bt_backward_recorded(bt_context *context, bt_tensor *root, bt_tensor *seed,
                               bt_tensor *const *of, int count, bt_tensor **out)
{
    bt_tape *tape = context->tape;
    walk w = {context, of, count, out};
    for (int i = 0; i < count; ++i) {
        out[i] = NULL;
    }
    BT_TRY(check(tape, root, of, count));
    bt_status status = bt_tape_plant_seed(context, root, seed);
    const bt_status walked = walk_back(&w, status == BT_OK ? tape->newest : NULL);
    status = status == BT_OK ? walked : status;
    for (int i = 0; i < count && status == BT_OK; ++i) {
        if (!out[i]) { // root does not depend on it
            status = bt_tensor_zeros(context, of[i]->dtype, of[i]->shape, "gradient", &out[i]);
        }
    }
    for (int i = 0; i < count && status != BT_OK; ++i) {
        BT_TENSOR_RELEASE(out[i]);
    }
    return status;
}
