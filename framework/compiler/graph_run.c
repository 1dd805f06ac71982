// framework/compiler/graph_run.c - running a graph: calls as eager execution would, groups as given
#include <string.h>

#include "framework/compiler/fuse.h"

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
    const bt_fusion_plan *plan; // NULL: no groups
    bt_fused_launch launch;
    void *self;
    void **memory; // [value_count]
    int *uses;     // owned [value_count], still to come
    bool *done;    // owned [node_count]
} run;

static bt_status make_new(const run *r, int value)
{
    return r->memory[value]
               ? BT_OK // another operand writes it too
               : bt_pool_alloc(r->context->pool, (size_t)r->graph->values[value].size_bytes,
                               r->context->stream, "graph", &r->memory[value]);
}

// Memory of a result: that of the base where nobody else reads that any more, else new, with a copy
// of the base where the call reads or keeps some of it.
static bt_status make_room(const run *r, const bt_dag_operand *x)
{
    bt_device *device = r->context->device;
    const bool fresh = r->memory[x->result] == NULL;
    if (fresh && x->value >= 0 && r->uses[x->value] == 1 &&
        r->graph->values[x->value].producer >= 0 && r->memory[x->value]) {
        r->memory[x->result] = r->memory[x->value];
        r->memory[x->value] = NULL;
        return BT_OK;
    }
    BT_TRY(make_new(r, x->result));
    return !fresh || x->value < 0
               ? BT_OK
               : device->backend->copy(device, r->memory[x->result], r->memory[x->value],
                                       (size_t)r->graph->values[x->value].size_bytes,
                                       BT_COPY_DEVICE_TO_DEVICE, r->context->stream);
}

static void drop(const run *r, int value)
{
    if (r->uses[value] == 0 && r->graph->values[value].producer >= 0 && r->memory[value]) {
        bt_pool_free(r->context->pool, r->memory[value]);
        r->memory[value] = NULL;
    }
}

// The node has run: what nobody needs any more is given back.
static void finish(const run *r, int at)
{
    const bt_dag_node *node = &r->graph->nodes[at];
    r->done[at] = true;
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].value >= 0) {
            r->uses[node->operands[i].value] -= 1;
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].value >= 0) {
            drop(r, node->operands[i].value);
        }
        if (node->operands[i].result >= 0) {
            drop(r, node->operands[i].result);
        }
    }
}

static bt_status check_input(const run *r, int value)
{
    return value < 0 || r->memory[value] || r->graph->values[value].size_bytes == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "input %d, \"%s\", has no memory", value,
                          r->graph->values[value].name);
}

static bt_status run_node(const run *r, int at)
{
    const bt_dag_node *node = &r->graph->nodes[at];
    void *args = NULL;
    for (int i = 0; i < node->operand_count; ++i) {
        BT_TRY(check_input(r, node->operands[i].value));
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
    finish(r, at);
    return status;
}

static bt_status run_group(const run *r, const bt_fusion *fusion)
{
    void *at[BT_FUSED_OPERANDS_MOST] = {NULL};
    const bt_fused *group = fusion->group;
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *x = &group->operands[i];
        BT_TRY(x->is_written ? make_new(r, x->value) : check_input(r, x->value));
        at[i] = (char *)r->memory[x->value] + x->offset_bytes;
    }
    bt_status status = r->launch(r->self, r->context, group, at);
    for (int i = 0; i < fusion->node_count; ++i) {
        finish(r, fusion->nodes[i]);
    }
    return status;
}

// Has all that the node reads from outside of its group been made?
static bool is_ready(const run *r, int at)
{
    const bt_dag_node *node = &r->graph->nodes[at];
    const int group = r->plan ? r->plan->unit_of[at] : -1;
    for (int i = 0; i < node->operand_count; ++i) {
        const int value = node->operands[i].value;
        const int producer = value >= 0 ? r->graph->values[value].producer : -1;
        const bool own = producer >= 0 && group >= 0 && r->plan->unit_of[producer] == group;
        if (producer >= 0 && !own && !r->done[producer]) {
            return false;
        }
    }
    return true;
}

static bool group_is_ready(const run *r, const bt_fusion *fusion)
{
    for (int i = 0; i < fusion->node_count; ++i) {
        if (!is_ready(r, fusion->nodes[i])) {
            return false;
        }
    }
    return true;
}

// Runs what is ready, in the graph's order; false where nothing was.
static bt_status run_ready(const run *r, bool *any)
{
    *any = false;
    for (int i = 0; i < r->graph->node_count; ++i) {
        const int group = r->plan ? r->plan->unit_of[i] : -1;
        const bt_fusion *fusion = group >= 0 ? &r->plan->groups[group] : NULL;
        if (r->done[i] || !(fusion ? group_is_ready(r, fusion) : is_ready(r, i))) {
            continue;
        }
        BT_TRY(bt_error_context(fusion ? run_group(r, fusion) : run_node(r, i), "node %d", i));
        *any = true;
    }
    return BT_OK;
}

bt_status bt_dag_run_fused(bt_context *context, const bt_dag *graph, const bt_fusion_plan *plan,
                           bt_fused_launch launch, void *self, void **memory)
{
    run r = {.context = context,
             .graph = graph,
             .plan = plan,
             .launch = launch,
             .self = self,
             .memory = memory};
    void *uses = NULL, *done = NULL;
    bt_status status = bt_mem_alloc((size_t)graph->value_count + 1, sizeof *r.uses, &uses);
    status = status ? status : bt_mem_alloc((size_t)graph->node_count + 1, sizeof *r.done, &done);
    r.uses = uses;
    r.done = done;
    if (status == BT_OK) {
        bt_dag_uses(graph, r.uses);
    }
    for (bool any = true; any && status == BT_OK;) {
        status = run_ready(&r, &any);
    }
    for (int i = 0; i < graph->node_count && status == BT_OK; ++i) {
        if (!r.done[i]) {
            status = bt_error(BT_STATUS_INTERNAL, "node %d waits for itself", i);
        }
    }
    for (int i = 0; i < graph->value_count && status != BT_OK && r.uses; ++i) {
        r.uses[i] = graph->values[i].is_output;
        drop(&r, i);
    }
    bt_mem_free(uses);
    bt_mem_free(done);
    return status;
}

bt_status bt_dag_run(bt_context *context, const bt_dag *graph, void **memory)
{
    return bt_dag_run_fused(context, graph, NULL, NULL, NULL, memory);
}
