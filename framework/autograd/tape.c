// framework/autograd/tape.c - records ops; backward.c visits the recorded nodes
#include <stdatomic.h>
#include <string.h>

#include "framework/autograd/node.h"

static atomic_ullong generations;

void bt_node_spend(bt_node *node)
{
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        bt_kept_release(&node->saved[i]);
    }
    for (int i = 0; i < BT_OP_MAX_INPUTS; ++i) {
        bt_kept_release(&node->inputs[i]);
        BT_TENSOR_RELEASE(node->in[i].leaf);
    }
    for (int i = 0; i < BT_OP_MAX_OUTPUTS; ++i) {
        BT_TENSOR_RELEASE(node->made[i]);
        BT_TENSOR_RELEASE(node->dout[i]);
    }
    bt_captures_release(&node->captures);
}

void bt_tape_reset(bt_tape *tape)
{
    for (bt_node *node = tape->newest; node; node = node->previous) {
        bt_node_spend(node);
    }
    bt_arena_reset(&tape->arena);
    tape->newest = NULL;
    tape->generation = ++generations;
}

void bt_tape_destroy(bt_tape *tape)
{
    if (tape) {
        bt_tape_reset(tape);
        bt_offload_destroy(tape->offload);
        bt_arena_release(&tape->arena);
        bt_mem_free(tape);
    }
}

bool bt_tape_made(const bt_tape *tape, const bt_tensor *x)
{
    return bt_tape_producer(tape, x) != NULL;
}

bt_status bt_tape_check_producer(const bt_tape *tape, const bt_tensor *x)
{
    const bool captured = tape && tape->captures && bt_captures_have(tape->captures, x);
    if (!x->producer || bt_tape_made(tape, x) || captured) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "\"%s\" was recorded on a tape that was reset, or on the tape of another "
                    "context; use bt_detach for a constant copy",
                    x->name);
}

static bt_status check_producers(const bt_tape *tape, const bt_op_call *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        BT_TRY(call->in[i] ? bt_tape_check_producer(tape, call->in[i]) : BT_OK);
    }
    for (int64_t i = 0; i < call->captures.count; ++i) {
        BT_TRY(bt_tape_check_producer(tape, call->captures.items[i].tensor));
    }
    return BT_OK;
}

// The call's tensors belong to the caller, who may release them before the backward.
static bt_status copy_attrs(bt_tape *tape, const bt_op_call *call, const void **out)
{
    const size_t size_bytes = call->op->attrs->size_bytes;
    void *copy = NULL;
    *out = NULL;
    if (size_bytes > 0) {
        BT_TRY(bt_arena_alloc(&tape->arena, size_bytes, &copy));
        memcpy(copy, call->attrs, size_bytes);
        *out = copy;
    }
    return BT_OK;
}

static bt_status record(bt_context *context, bt_op_call *call)
{
    bt_tape *tape = context->tape;
    void *block = NULL;
    BT_TRY(check_producers(tape, call));
    BT_TRY(bt_arena_alloc(&tape->arena, sizeof(bt_node), &block));
    bt_node *node = block;
    BT_TRY(copy_attrs(tape, call, &node->attrs));
    node->previous = tape->newest;
    tape->newest = node; // with what it keeps so far, also if the rest fails
    node->op = call->op;
    node->captures = call->captures;
    call->captures = (bt_captures){0};
    for (int i = 0; i < call->in_count; ++i) {
        bt_tensor *x = call->in[i];
        if (!x) {
            continue;
        }
        node->in[i].spec = (bt_op_spec){x->dtype, x->shape};
        node->in[i].dtype = x->dtype;
        if (x->requires_grad && x->producer) {
            node->in[i].node = x->producer;
            node->in[i].output = x->producer_output;
        } else if (x->requires_grad) {
            node->in[i].leaf = bt_tensor_retain(x);
            node->in[i].spec.dtype = x->grad_dtype;
        }
    }
    node->maker = call->remake;
    for (int i = 0; i < call->in_count && node->maker; ++i) {
        BT_TRY(bt_kept_set(context, call->in[i], &node->inputs[i]));
    }
    for (int i = 0; i < call->out_count; ++i) {
        node->out_version[i] = call->out[i]->storage->version;
        if (bt_dtype_is_float(call->out_spec[i].dtype)) {
            call->out[i]->requires_grad = true;
            call->out[i]->producer = node;
            call->out[i]->producer_output = i;
            call->out[i]->producer_generation = tape->generation;
        }
    }
    // After the outputs have their producer: a saved output is offloaded like other activations.
    for (int i = 0; i < BT_OP_MAX_SAVED && !node->maker; ++i) {
        BT_TRY(bt_kept_set(context, call->saved[i], &node->saved[i]));
    }
    return BT_OK;
}

bt_status bt_tape_create(bt_tape **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_tape), &block));
    *out = block;
    (*out)->recorder.record = record;
    (*out)->generation = ++generations;
    return BT_OK;
}

bt_status bt_tape_create_within(bt_captures *captures, bt_tape **out)
{
    BT_TRY(bt_tape_create(out));
    (*out)->captures = captures;
    return BT_OK;
}

bt_status bt_tensor_set_grad_hook(bt_context *context, bt_tensor *tensor, bt_grad_hook hook)
{
    if (!tensor->requires_grad) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "\"%s\" is a constant: it has no gradient",
                        tensor->name);
    }
    BT_TRY(bt_tape_check_producer(context->tape, tensor));
    if (tensor->producer) {
        tensor->producer->hook[tensor->producer_output] = hook;
    } else {
        tensor->grad_hook = hook;
    }
    return BT_OK;
}
