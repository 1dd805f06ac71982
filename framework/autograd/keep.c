// framework/autograd/keep.c - what a node keeps for its backward, and recomputing the rest
#include "framework/autograd/node.h"

static bt_status offload(bt_context *context, bt_tensor *tensor, bt_offloaded **away)
{
    bt_tape *tape = context->tape;
    if (!tape->offload) {
        BT_TRY(bt_offload_create(context, &tape->offload));
    }
    return bt_offload_put(tape->offload, tensor, away);
}

bt_status bt_kept_set(bt_context *context, bt_tensor *tensor, bt_kept *kept)
{
    bt_node *producer = tensor ? bt_tape_producer(context->tape, tensor) : NULL;
    *kept = (bt_kept){.version = tensor ? tensor->storage->version : 0};
    if (producer && producer->maker &&
        kept->version == producer->out_version[tensor->producer_output]) {
        kept->maker = producer;
        kept->output = tensor->producer_output;
        return BT_OK;
    }
    if (producer && context->recompute >= BT_RECOMPUTE_BLOCK_OFFLOAD &&
        bt_tensor_is_contiguous(tensor) && bt_tensor_count(tensor) > 0) {
        return offload(context, tensor, &kept->away);
    }
    kept->tensor = bt_tensor_retain(tensor);
    return BT_OK;
}

void bt_kept_release(bt_kept *kept)
{
    BT_TENSOR_RELEASE(kept->tensor);
    bt_offload_drop(kept->away);
    kept->away = NULL;
    kept->maker = NULL;
}

static bt_status check_version(const bt_node *node, const bt_tensor *saved, uint64_t version)
{
    if (saved && saved->storage->version != version) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: the tensor \"%s\", saved for backward, was written in place "
                        "afterwards (version %llu, saved at %llu)",
                        node->op->name, saved->name, (unsigned long long)saved->storage->version,
                        (unsigned long long)version);
    }
    return BT_OK;
}

static bt_status remake(bt_context *context, bt_node *node);

static bt_status restore(bt_context *context, const bt_node *node, bt_kept *kept)
{
    if (kept->maker && !kept->tensor) {
        BT_TRY(remake(context, kept->maker));
        kept->tensor = bt_tensor_retain(kept->maker->made[kept->output]);
        kept->version = kept->tensor->storage->version;
    }
    if (kept->away && !kept->tensor) {
        BT_TRY(bt_error_context(bt_offload_get(context, kept->away, &kept->tensor), "%s",
                                node->op->name));
        kept->version = kept->tensor->storage->version;
    }
    return check_version(node, kept->tensor, kept->version);
}

// The original call, rebuilt from the inputs that the node kept.
static bt_status run_again(bt_context *context, bt_node *node, bt_op_call *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        BT_TRY(restore(context, node, &node->inputs[i]));
        call->in[i] = node->inputs[i].tensor;
    }
    return bt_op_run(context, call);
}

// Runs the node's op forward again; afterwards its outputs and saved values exist. The outputs are
// part of the tape like the original ones: some users ask whether they need a gradient.
static bt_status remake(bt_context *context, bt_node *node)
{
    bt_op_call call = {.op = node->op,
                       .attrs = node->attrs,
                       .in_count = node->op->in_count,
                       .out_count = node->op->out_count,
                       .recording = true};
    if (!node->maker || node->remade) {
        return BT_OK;
    }
    bt_status status = run_again(context, node, &call);
    node->remade = status == BT_OK;
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        if (node->remade && call.saved[i]) {
            node->saved[i] = (bt_kept){.tensor = bt_tensor_retain(call.saved[i]),
                                       .version = call.saved[i]->storage->version};
        }
        bt_tensor_release(call.saved[i]);
    }
    for (int i = 0; i < call.out_count; ++i) {
        if (node->remade) {
            node->made[i] = call.out[i];
            node->made[i]->requires_grad = bt_dtype_is_float(call.out_spec[i].dtype);
            if (context->tape && node->made[i]->requires_grad) { // for a recorded backward
                node->made[i]->producer = node;
                node->made[i]->producer_output = i;
                node->made[i]->producer_generation = context->tape->generation;
            }
        } else {
            bt_tensor_release(call.out[i]);
        }
    }
    return bt_error_context(status, "%s, run again", node->op->name);
}

bt_status bt_node_restore(bt_context *context, bt_node *node)
{
    BT_TRY(remake(context, node));
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        BT_TRY(restore(context, node, &node->saved[i]));
    }
    for (int64_t i = 0; i < node->captures.count; ++i) {
        const bt_capture *capture = &node->captures.items[i];
        BT_TRY(check_version(node, capture->tensor, capture->version));
    }
    return BT_OK;
}
