// framework/autograd/tape.c - recording and walking the tape
#include "framework/autograd/tape.h"

#include <stdatomic.h>

#include "framework/autograd/weight_grads.h"
#include "framework/base/mem.h"

// Where an input came from: a leaf, or an output of an earlier node; neither: a constant.
typedef struct bt_edge {
    bt_tensor *leaf;      // retained
    struct bt_node *node; // borrowed, same tape
    int output;
    bt_op_spec spec; // of the gradient
    bt_dtype dtype;  // of the input
} bt_edge;

typedef struct bt_node {
    struct bt_node *previous; // recorded before this one
    const bt_op *op;
    bt_op_attrs attrs;
    bt_edge in[BT_OP_MAX_INPUTS];
    bt_tensor *saved[BT_OP_MAX_SAVED]; // retained
    uint64_t saved_version[BT_OP_MAX_SAVED];
    bt_tensor *dout[BT_OP_MAX_OUTPUTS]; // retained; sum so far
    bt_grad_hook hook[BT_OP_MAX_OUTPUTS];
    bt_captures captures; // owned; of a recomputed op
} bt_node;

struct bt_tape {
    bt_arena arena; // of the nodes
    bt_node *newest;
    uint64_t generation;   // unique in the process, new after each reset
    bt_captures *captures; // borrowed; of the recomputed op whose body is recorded here, or NULL
};

static atomic_ullong generations;

bt_status bt_tape_create(bt_tape **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_tape), &block));
    *out = block;
    (*out)->generation = ++generations;
    return BT_OK;
}

bt_status bt_tape_create_within(bt_captures *captures, bt_tape **out)
{
    BT_TRY(bt_tape_create(out));
    (*out)->captures = captures;
    return BT_OK;
}

static void spend(bt_node *node)
{
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        BT_TENSOR_RELEASE(node->saved[i]);
    }
    for (int i = 0; i < BT_OP_MAX_INPUTS; ++i) {
        BT_TENSOR_RELEASE(node->in[i].leaf);
    }
    for (int i = 0; i < BT_OP_MAX_OUTPUTS; ++i) {
        BT_TENSOR_RELEASE(node->dout[i]);
    }
    bt_captures_release(&node->captures);
}

void bt_tape_reset(bt_tape *tape)
{
    for (bt_node *node = tape->newest; node; node = node->previous) {
        spend(node);
    }
    bt_arena_reset(&tape->arena);
    tape->newest = NULL;
    tape->generation = ++generations;
}

void bt_tape_destroy(bt_tape *tape)
{
    if (tape) {
        bt_tape_reset(tape);
        bt_arena_release(&tape->arena);
        bt_mem_free(tape);
    }
}

bool bt_tape_made(const bt_tape *tape, const bt_tensor *x)
{
    return tape && x->producer && x->producer_generation == tape->generation;
}

// What an op on the tape may use: its tensors, leaves and constants, and what the recomputed op
// around it captured, which is on an older tape that lives.
static bt_status check_producer(const bt_tape *tape, const bt_tensor *x)
{
    const bool captured = tape && tape->captures && bt_captures_have(tape->captures, x);
    if (!x->producer || bt_tape_made(tape, x) || captured) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "\"%s\" was made on a tape that has been reset since, or is not the context's; "
                    "bt_detach makes a constant of it",
                    x->name);
}

static bt_status check_producers(const bt_tape *tape, const bt_op_call *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        BT_TRY(call->in[i] ? check_producer(tape, call->in[i]) : BT_OK);
    }
    for (int64_t i = 0; i < call->captures.count; ++i) {
        BT_TRY(check_producer(tape, call->captures.items[i].tensor));
    }
    return BT_OK;
}

bt_status bt_tape_record(bt_tape *tape, bt_op_call *call)
{
    void *block = NULL;
    BT_TRY(check_producers(tape, call));
    BT_TRY(bt_arena_alloc(&tape->arena, sizeof(bt_node), &block));
    bt_node *node = block;
    node->op = call->op;
    node->attrs = call->attrs;
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
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        node->saved[i] = bt_tensor_retain(call->saved[i]);
        node->saved_version[i] = node->saved[i] ? node->saved[i]->storage->version : 0;
    }
    for (int i = 0; i < call->out_count; ++i) {
        if (bt_dtype_is_float(call->out_spec[i].dtype)) {
            call->out[i]->requires_grad = true;
            call->out[i]->producer = node;
            call->out[i]->producer_output = i;
            call->out[i]->producer_generation = tape->generation;
        }
    }
    node->previous = tape->newest;
    tape->newest = node;
    return BT_OK;
}

static bt_status check_version(const bt_node *node, const bt_tensor *saved, uint64_t version)
{
    if (saved && saved->storage->version != version) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: the tensor \"%s\", saved for backward, was written in place since "
                        "(version %llu, saved at %llu)",
                        node->op->name, saved->name, (unsigned long long)saved->storage->version,
                        (unsigned long long)version);
    }
    return BT_OK;
}

static bt_status check_saved(const bt_node *node)
{
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        BT_TRY(check_version(node, node->saved[i], node->saved_version[i]));
    }
    for (int64_t i = 0; i < node->captures.count; ++i) {
        const bt_capture *capture = &node->captures.items[i];
        BT_TRY(check_version(node, capture->tensor, capture->version));
    }
    return BT_OK;
}

static bt_tensor **slot_of(bt_edge *edge)
{
    return edge->leaf ? &edge->leaf->grad : &edge->node->dout[edge->output];
}

// Puts a copy of the edge's type in the tensor's place. A failure leaves one of the two there.
static bt_status replace_by_copy(bt_context *context, const bt_edge *edge, bt_tensor **tensor)
{
    bt_tensor *copy = NULL;
    BT_TRY(bt_tensor_create(context, edge->spec.dtype, edge->spec.shape, "gradient", &copy));
    bt_status status = bt_tensor_copy(context, *tensor, copy);
    bt_tensor_release(*tensor);
    *tensor = copy;
    return status;
}

// Where the op adds to what is there itself, the sum must be nobody else's: a leaf's gradient is,
// an activation's is copied when somebody holds it. So the bits do not depend on who holds what.
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
    bt_tensor_touch(sum);
    bt_status status = bt_context_launch(context, BT_KERNEL_BINARY, grad->dtype, &args);
    bt_tensor_release(*slot);
    *slot = sum;
    return status;
}

// Puts din->tensor where it belongs, or adds it to what is there.
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
    if (din->tensor->dtype != edge->spec.dtype) { // the op does not write the leaf's type
        BT_TRY(replace_by_copy(context, edge, &din->tensor));
    }
    if (*slot) {
        return add_to_slot(context, edge, slot, din->tensor);
    }
    if (edge->leaf && !bt_tensor_is_exclusive(din->tensor)) {
        // A leaf's gradient is its own: later passes add to it in place.
        BT_TRY(replace_by_copy(context, edge, &din->tensor));
    }
    *slot = din->tensor;
    din->tensor = NULL;
    return BT_OK;
}

static bt_status check_finite(bt_context *context, const bt_node *node, const bt_tensor *grad)
{
    bt_tensor *result = NULL;
    int64_t nonfinite = 0;
    BT_TRY(bt_tensor_create(context, BT_I64, BT_SHAPE(1), "anomaly", &result));
    bt_count_nonfinite_args args = {.x = bt_tensor_data(grad),
                                    .count = bt_tensor_count(grad),
                                    .result = bt_tensor_data(result),
                                    .dtype = grad->dtype};
    bt_status status = bt_context_launch(context, BT_KERNEL_COUNT_NONFINITE, grad->dtype, &args);
    if (status == BT_OK) {
        status = bt_tensor_read(context, result, &nonfinite);
    }
    bt_tensor_release(result);
    if (status == BT_OK && nonfinite) {
        status = bt_error(BT_STATUS_CORRUPT_DATA,
                          "backward of %s made the first gradient that is not finite: %lld of %lld",
                          node->op->name, (long long)nonfinite, (long long)args.count);
    }
    return status;
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

// What the op is asked for, and where it may add. Of a tensor that is several inputs, each input's
// gradient is memory of its own, which deliver() adds: kernels must not write to one place twice.
static bt_status request_grads(bt_context *context, bt_node *node, bt_op_backward *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        bt_edge *edge = &node->in[i];
        bt_grad *din = &call->din[i];
        call->in_spec[i] = (bt_op_spec){edge->dtype, edge->spec.shape};
        din->spec = (bt_op_spec){written_dtype(node, i), edge->spec.shape};
        din->wanted = edge->leaf || edge->node;
        if (din->wanted && *slot_of(edge) && (node->op->accumulates >> i & 1U) &&
            din->spec.dtype == edge->spec.dtype && !shares_slot(node, i)) {
            BT_TRY(make_private(context, edge, slot_of(edge)));
            din->accumulate = true;
            din->tensor = bt_tensor_retain(*slot_of(edge));
        }
        if (edge->leaf && edge->leaf->grad_pending == 1 && !context->anomaly) {
            din->leaf = edge->leaf; // nobody else reads its gradient or adds to it in this backward
        }
    }
    return BT_OK;
}

static bt_status step_back(bt_context *context, bt_node *node)
{
    bt_op_backward call = {.op = node->op,
                           .attrs = &node->attrs,
                           .in_count = node->op->in_count,
                           .saved = node->saved,
                           .captures = &node->captures};
    for (int i = 0; i < node->op->out_count; ++i) {
        call.dout[i] = node->dout[i];
    }
    bt_status status = check_saved(node);
    if (status == BT_OK) {
        status = request_grads(context, node, &call);
    }
    if (status == BT_OK) {
        status = node->op->backward(context, &call);
    }
    for (int i = 0; i < call.in_count; ++i) {
        bt_grad *din = &call.din[i];
        if (status == BT_OK && din->wanted && context->anomaly && din->tensor) {
            status = check_finite(context, node, din->tensor);
        }
        if (status == BT_OK && din->wanted) {
            status = deliver(context, node, i, din);
        }
        bt_tensor_release(din->tensor);
    }
    return bt_error_context(status, "backward of %s", node->op->name);
}

bt_status bt_tensor_set_grad_hook(bt_context *context, bt_tensor *tensor, bt_grad_hook hook)
{
    if (!tensor->requires_grad) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "\"%s\" is a constant: it has no gradient",
                        tensor->name);
    }
    BT_TRY(check_producer(context->tape, tensor));
    if (tensor->producer) {
        tensor->producer->hook[tensor->producer_output] = hook;
    } else {
        tensor->grad_hook = hook;
    }
    return BT_OK;
}

static bool is_leaf(const bt_tensor *x) { return x->requires_grad && !x->producer; }

// How many nodes feed each leaf, so that its hook can run behind the last of them.
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

// A recomputed op no longer counts as one that feeds its captured leaves: from then on those of its
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

// A hook may change the gradient in place, so it gets one that nobody else reads.
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

static bt_status plant_seed(bt_context *context, bt_tensor *root, bt_tensor *seed)
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
    BT_TRY(check_producer(tape, root));
    BT_TRY(bt_weight_grads_run(context, 1, BT_OK)); // of a backward around this one
    bt_weight_grads waiting = {.count = 0}, *around = context->weight_grads;
    bt_status status = plant_seed(context, root, seed);
    context->tape = NULL; // a backward is not itself recorded
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
        spend(node);
        status = bt_weight_grads_run(context, BT_WEIGHT_GRADS_GROUP, status);
    }
    status = bt_weight_grads_run(context, 1, status);
    context->tape = tape;
    context->weight_grads = around;
    bt_tape_reset(tape);
    return status;
}
