// framework/compiler/graph_run.c - running a graph node by node, as eager execution would
#include <string.h>

#include "framework/compiler/graph.h"

void bt_dag_bind(const bt_dag *graph, const bt_dag_node *node, void *const *memory, void *args)
{
    (void)graph;
    memcpy(args, node->args, bt_kernel_operands_struct_bytes(node->op));
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        char *at = memory[x->result >= 0 ? x->result : x->value];
        *bt_kernel_operand_slot(node->op, args, x->field) = at + x->offset_bytes;
    }
}

typedef struct run {
    bt_context *context;
    const bt_dag *graph;
    void **memory; // [value_count]
    int *uses;     // [value_count], still to come
} run;

// Memory of a result: that of the base where nobody else reads that any more, else new, with a copy
// of the base where the call reads or keeps some of it.
static bt_status make_room(const run *r, const bt_dag_operand *x)
{
    const bt_dag_value *value = &r->graph->values[x->result];
    const bt_device *device = r->context->device;
    if (r->memory[x->result]) { // another operand of the node writes it too
        return BT_OK;
    }
    if (x->value >= 0 && r->uses[x->value] == 1 && r->graph->values[x->value].producer >= 0) {
        r->memory[x->result] = r->memory[x->value];
        r->memory[x->value] = NULL;
        return BT_OK;
    }
    BT_TRY(bt_pool_alloc(r->context->pool, (size_t)value->size_bytes, r->context->stream, "graph",
                         &r->memory[x->result]));
    return x->value < 0 ? BT_OK
                        : device->backend->copy(r->context->device, r->memory[x->result],
                                                r->memory[x->value], (size_t)value->size_bytes,
                                                BT_COPY_DEVICE_TO_DEVICE, r->context->stream);
}

static void drop(const run *r, int value)
{
    if (r->uses[value] == 0 && r->graph->values[value].producer >= 0 && r->memory[value]) {
        bt_pool_free(r->context->pool, r->memory[value]);
        r->memory[value] = NULL;
    }
}

static bt_status run_node(const run *r, const bt_dag_node *node)
{
    void *args = NULL;
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        if (x->value >= 0 && !r->memory[x->value] && r->graph->values[x->value].size_bytes > 0) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "input %d, \"%s\", has no memory", x->value,
                            r->graph->values[x->value].name);
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0) {
            BT_TRY(make_room(r, &node->operands[i]));
        }
    }
    BT_TRY(bt_mem_alloc(1, bt_kernel_operands_struct_bytes(node->op), &args));
    bt_dag_bind(r->graph, node, r->memory, args);
    bt_status status =
        bt_context_launch(r->context, node->op, bt_kernel_main_dtype(node->op, args), args);
    bt_mem_free(args);
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        if (x->value >= 0) {
            r->uses[x->value] -= 1;
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        if (x->value >= 0) {
            drop(r, x->value);
        }
        if (x->result >= 0) {
            drop(r, x->result);
        }
    }
    return status;
}

bt_status bt_dag_run(bt_context *context, const bt_dag *graph, void **memory)
{
    run r = {context, graph, memory, NULL};
    void *uses = NULL;
    bt_status status = bt_mem_alloc((size_t)graph->value_count, sizeof(int), &uses);
    r.uses = uses;
    if (status == BT_OK) {
        bt_dag_uses(graph, r.uses);
    }
    for (int i = 0; i < graph->node_count && status == BT_OK; ++i) {
        status = bt_error_context(run_node(&r, &graph->nodes[i]), "node %d", i);
    }
    for (int i = 0; i < graph->value_count && status != BT_OK && r.uses; ++i) {
        r.uses[i] = graph->values[i].is_output;
        drop(&r, i);
    }
    bt_mem_free(uses);
    return status;
}
