// framework/compiler/capture.c - from kernel launches and the trace to a graph
#include "framework/compiler/capture.h"

#include <stdio.h>
#include <string.h>

#include "framework/ops/op.h"

// ---- storages -----------------------------------------------------------------------------------

static bt_dag_storage *storage_at(const bt_dag_capture *c, const void *pointer)
{
    const char *at = pointer;
    for (int i = c->storage_count - 1; i >= 0; --i) {
        bt_dag_storage *s = &c->storages[i];
        if (at >= s->data && (at < s->data + s->size_bytes || at == s->data)) {
            return s;
        }
    }
    return NULL;
}

static bt_status grow(void **items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return BT_OK;
    }
    const int larger = count < 32 ? 64 : 2 * count;
    BT_TRY(bt_mem_resize(items, (size_t)larger, item_bytes));
    *capacity = larger;
    return BT_OK;
}

// The entry of a storage; NULL where it has none yet or another storage took its memory.
static bt_dag_storage *find(const bt_dag_capture *c, const bt_storage *storage)
{
    bt_dag_storage *s = storage_at(c, storage->data);
    return s && s->serial == storage->serial ? s : NULL;
}

static bt_status add_storage(bt_dag_capture *c, const bt_storage *storage, bt_dag_storage **out)
{
    void *items = c->storages;
    BT_TRY(grow(&items, c->storage_count, &c->storage_capacity, sizeof *c->storages));
    c->storages = items;
    *out = &c->storages[c->storage_count++];
    **out = (bt_dag_storage){.data = storage->data,
                             .size_bytes = (int64_t)storage->size_bytes,
                             .serial = storage->serial,
                             .version = storage->version,
                             .value = -1};
    return BT_OK;
}

static bt_status add_value(bt_dag_capture *c, bt_dag_storage *s, bt_dtype dtype, const char *name,
                           int *value)
{
    bt_dag_value made = {.dtype = dtype,
                         .size_bytes = s->size_bytes,
                         .producer = -1,
                         .base = s->value,
                         .serial = s->serial,
                         .version = s->version};
    (void)snprintf(made.name, sizeof made.name, "%s", name ? name : "");
    BT_TRY(bt_dag_value_append(&c->graph, &made, value));
    const int before = c->input_capacity;
    void *items = c->inputs;
    BT_TRY(grow(&items, *value, &c->input_capacity, sizeof *c->inputs));
    c->inputs = items;
    for (int i = before; i < c->input_capacity; ++i) {
        c->inputs[i] = (bt_dag_source){0};
    }
    return BT_OK;
}

// Replaces *memory by a copy that the capture owns; NULL stays NULL.
static bt_status keep_copy(bt_dag_capture *c, const bt_dag_storage *s, void **memory)
{
    bt_context *context = c->context;
    *memory = NULL;
    BT_TRY(bt_pool_alloc(context->pool, (size_t)s->size_bytes, context->stream, "capture", memory));
    return context->device->backend->copy(context->device, *memory, s->data, (size_t)s->size_bytes,
                                          BT_COPY_DEVICE_TO_DEVICE, context->stream);
}

static bt_status add_input(bt_dag_capture *c, bt_dag_storage *s, bt_dtype dtype, const char *name)
{
    int value = -1;
    s->value = -1; // memory that the host writes depends on no node
    BT_TRY(add_value(c, s, dtype, name, &value));
    s->value = value;
    c->inputs[value].memory = s->data;
    return c->keeps ? keep_copy(c, s, &c->inputs[value].memory) : BT_OK;
}

// ---- the trace ----------------------------------------------------------------------------------

static void note(bt_dag_capture *c, bt_status status)
{
    if (status && !c->status) {
        c->status = status;
        (void)snprintf(c->message, sizeof c->message, "%s", bt_error_message());
    }
}

// A gradient from before the capture, to which the backward adds. It is not retained: the tape adds
// in place only while it holds the sole reference.
static bt_status see_gradient(bt_dag_capture *c, const bt_tensor *x)
{
    bt_dag_storage *s = NULL;
    if (!x || find(c, x->storage)) {
        return BT_OK;
    }
    BT_TRY(add_storage(c, x->storage, &s));
    return add_input(c, s, x->dtype, x->name);
}

// A tensor that an op reads; not retained either.
static bt_status see(bt_dag_capture *c, bt_tensor *x)
{
    if (!x || find(c, x->storage)) {
        return BT_OK;
    }
    BT_TRY(see_gradient(c, x));
    const int value = find(c, x->storage)->value;
    return bt_tensor_view(x, x->shape, x->stride, x->offset, &c->inputs[value].tensor);
}

// A kernel would have filled it.
static bt_status add_zeros(bt_dag_capture *c, bt_dag_storage *s, const bt_tensor *tensor)
{
    bt_fill_args args = {.y = s->data,
                         .count = s->size_bytes / (int64_t)bt_dtype_size(tensor->dtype),
                         .dtype = tensor->dtype};
    bt_dag_node node = {.op = BT_KERNEL_FILL, .args = &args, .operand_count = 1, .phase = c->phase};
    node.operands[0] = (bt_dag_operand){.field = 0, .value = -1};
    (void)snprintf(node.origin, sizeof node.origin, "zeros");
    BT_TRY(add_value(c, s, tensor->dtype, tensor->name, &node.operands[0].result));
    s->value = node.operands[0].result;
    return bt_dag_node_append(&c->graph, &node);
}

static bt_status take_tensor(bt_dag_capture *c, const bt_tensor *tensor, bt_trace_contents what)
{
    bt_dag_storage *s = find(c, tensor->storage);
    if (!s) {
        BT_TRY(add_storage(c, tensor->storage, &s));
    }
    if (what == BT_TRACE_UNDEFINED) {
        return BT_OK;
    }
    if (what == BT_TRACE_ZEROS) {
        return add_zeros(c, s, tensor);
    }
    if (bt_tensor_bytes(tensor) != (size_t)s->size_bytes) {
        return bt_error(BT_STATUS_UNSUPPORTED, "capture: the host wrote a part of \"%s\"",
                        tensor->name);
    }
    return add_input(c, s, tensor->dtype, tensor->name);
}

static void on_tensor(void *self, const bt_tensor *tensor, bt_trace_contents what)
{
    bt_dag_capture *c = self;
    if (!c->status) {
        note(c, take_tensor(c, tensor, what));
    }
}

static void enter(bt_dag_capture *c, bt_dag_phase phase, const char *origin)
{
    c->phase = phase;
    (void)snprintf(c->origin, sizeof c->origin, "%s", origin);
}

static void on_forward(void *self, const bt_op_call *call)
{
    bt_dag_capture *c = self;
    // Recomputed values belong to the forward phase.
    enter(c, c->context->weight_grads ? BT_DAG_BACKWARD : BT_DAG_FORWARD, call->op->name);
    for (int i = 0; i < call->in_count && !c->status; ++i) {
        note(c, see(c, call->in[i]));
    }
}

static void on_backward(void *self, const bt_op_backward *call)
{
    bt_dag_capture *c = self;
    enter(c, BT_DAG_BACKWARD, call->op->name);
    for (int i = 0; i < BT_OP_MAX_SAVED && !c->status; ++i) {
        note(c, see(c, call->saved[i]));
    }
    for (int i = 0; i < BT_OP_MAX_OUTPUTS && !c->status; ++i) {
        note(c, see(c, call->dout[i]));
    }
    for (int i = 0; i < call->in_count && !c->status; ++i) {
        note(c, see_gradient(c, call->din[i].tensor));
    }
}

static void on_accumulate(void *self, const bt_tensor *sum, const bt_tensor *grad)
{
    bt_dag_capture *c = self;
    enter(c, BT_DAG_ACCUMULATE, "gradient");
    note(c, c->status ? BT_OK : see_gradient(c, sum));
    note(c, c->status ? BT_OK : see_gradient(c, grad));
}

// ---- launches -----------------------------------------------------------------------------------

static bt_status place(bt_dag_capture *c, const bt_kernel_operand *x, bt_dag_storage **s,
                       bt_dag_operand *out)
{
    const int64_t bytes = x->span * (int64_t)bt_dtype_size(x->dtype);
    *s = storage_at(c, x->pointer);
    if (!*s) {
        return bt_error(BT_STATUS_UNSUPPORTED, "operand \"%s\" is in no tensor's memory", x->name);
    }
    out->offset_bytes = (const char *)x->pointer - (*s)->data;
    if (out->offset_bytes + bytes > (*s)->size_bytes) {
        return bt_error(BT_STATUS_INTERNAL, "operand \"%s\" extends beyond its tensor's memory",
                        x->name);
    }
    return BT_OK;
}

// For example, the home of a gradient is first seen here.
static bt_status read_value(bt_dag_storage *s, const bt_kernel_operand *x, bt_dag_operand *out)
{
    const bool covers = !x->reads && x->count * (int64_t)bt_dtype_size(x->dtype) == s->size_bytes;
    out->value = covers ? -1 : s->value;
    if (x->reads && out->value < 0) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "operand \"%s\" reads memory that no captured call has written", x->name);
    }
    return BT_OK;
}

static bt_status write_value(bt_dag_capture *c, bt_dag_storage *s, const bt_kernel_operand *x,
                             bt_dag_node *node, int n, int64_t serial)
{
    for (int i = 0; i < n; ++i) { // another operand of the call wrote the same storage
        if (node->operands[i].result >= 0 &&
            c->graph.values[node->operands[i].result].serial == (uint64_t)serial) {
            node->operands[n].result = node->operands[i].result;
            return BT_OK;
        }
    }
    s->version += 1;
    BT_TRY(add_value(c, s, x->dtype, "", &node->operands[n].result));
    s->value = node->operands[n].result;
    return BT_OK;
}

static bt_status add_call(bt_dag_capture *c, bt_kernel_op op, const void *args, int list)
{
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST], used[BT_KERNEL_OPERANDS_MOST];
    bt_dag_storage *storages[BT_KERNEL_OPERANDS_MOST] = {NULL};
    bt_dag_node node = {.op = op, .phase = c->phase, .list = list};
    const size_t bytes = bt_kernel_operands_struct_bytes(op);
    const int count = bt_kernel_operands_of(op, args, fields);
    memcpy(node.origin, c->origin, sizeof node.origin);
    for (int i = 0; i < count; ++i) {
        if (fields[i].reads || fields[i].writes) {
            const int n = node.operand_count++;
            used[n] = fields[i];
            node.operands[n] = (bt_dag_operand){i, -1, -1, 0};
            BT_TRY(place(c, &used[n], &storages[n], &node.operands[n]));
            BT_TRY(read_value(storages[n], &used[n], &node.operands[n]));
        }
    }
    for (int n = 0; n < node.operand_count; ++n) {
        if (storages[n] && used[n].writes) {
            BT_TRY(write_value(c, storages[n], &used[n], &node, n, (int64_t)storages[n]->serial));
        }
    }
    BT_TRY(bt_mem_alloc(1, bytes, &node.args));
    memcpy(node.args, args, bytes);
    for (int i = 0; i < count; ++i) { // also pointers that the call does not touch
        *bt_kernel_operand_slot(op, node.args, i) = NULL;
    }
    bt_status status = bt_dag_node_append(&c->graph, &node);
    bt_mem_free(node.args);
    return status;
}

static bt_status add_launch(bt_dag_capture *c, bt_kernel_op op, const void *args)
{
    if (op == BT_KERNEL_GEMM_GROUPED) {
        const bt_gemm_grouped_args *group = args;
        enter(c, BT_DAG_BACKWARD, "weight_grads");
        c->lists += 1;
        for (int64_t i = 0; i < group->count; ++i) {
            BT_TRY(add_call(c, BT_KERNEL_GEMM, &group->products[i], c->lists));
        }
        return BT_OK;
    }
    return bt_kernel_operands_has_items(op)
               ? bt_error(BT_STATUS_UNSUPPORTED, "it takes a list of tensors")
               : add_call(c, op, args, 0);
}

static void on_launch(void *self, const bt_kernel *kernel, const bt_kernel_plan *plan,
                      const void *args)
{
    bt_dag_capture *c = self;
    (void)plan;
    if (!c->status) {
        note(c, bt_error_context(add_launch(c, kernel->op, args), "capture of %s, %s", kernel->name,
                                 c->origin));
    }
}

// ---- begin and end ------------------------------------------------------------------------------

bt_status bt_dag_capture_begin(bt_context *context, bool keeps_inputs, bt_dag_capture *capture)
{
    *capture = (bt_dag_capture){.context = context, .keeps = keeps_inputs};
    if (context->kernel_hook.launched || context->trace_hook.tensor) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "capture: the context already has a listener");
    }
    context->kernel_hook = (bt_kernel_hook){capture, on_launch};
    context->trace_hook =
        (bt_trace_hook){capture, on_tensor, on_forward, on_backward, on_accumulate};
    return BT_OK;
}

int bt_dag_capture_value(const bt_dag_capture *capture, const bt_tensor *tensor,
                         int64_t *offset_bytes)
{
    const bt_dag_storage *s = find(capture, tensor->storage);
    *offset_bytes = tensor->offset * (int64_t)bt_dtype_size(tensor->dtype);
    return s ? s->value : -1;
}

bt_status bt_dag_capture_output(bt_dag_capture *capture, const bt_tensor *tensor)
{
    int64_t offset_bytes = 0;
    const int value = bt_dag_capture_value(capture, tensor, &offset_bytes);
    if (value < 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "capture: no captured call wrote \"%s\"",
                        tensor->name);
    }
    return bt_dag_output(&capture->graph, value);
}

void *bt_dag_capture_input(const bt_dag_capture *capture, int value)
{
    return value >= 0 && value < capture->input_capacity ? capture->inputs[value].memory : NULL;
}

bt_tensor *bt_dag_capture_source(const bt_dag_capture *capture, int value)
{
    return value >= 0 && value < capture->input_capacity ? capture->inputs[value].tensor : NULL;
}

bt_status bt_dag_capture_end(bt_dag_capture *capture, bt_dag *graph)
{
    capture->context->kernel_hook = (bt_kernel_hook){0};
    capture->context->trace_hook = (bt_trace_hook){0};
    *graph = (bt_dag){0};
    if (capture->status) {
        return bt_error(capture->status, "%s", capture->message);
    }
    BT_TRY(bt_dag_check(&capture->graph));
    *graph = capture->graph;
    capture->graph = (bt_dag){0};
    return BT_OK;
}

void bt_dag_capture_release(bt_dag_capture *capture)
{
    for (int i = 0; i < capture->input_capacity; ++i) {
        if (capture->keeps && capture->inputs[i].memory) {
            bt_pool_free(capture->context->pool, capture->inputs[i].memory);
        }
        bt_tensor_release(capture->inputs[i].tensor);
    }
    bt_dag_release(&capture->graph);
    bt_mem_free(capture->storages);
    bt_mem_free(capture->inputs);
    *capture = (bt_dag_capture){0};
}
