// framework/compiler/program_run.c - running a program
#include <stdalign.h>
#include <string.h>

#include "framework/compiler/program_parts.h"
#include "framework/linalg/gemm.h"

typedef struct run {
    const bt_program *program;
    bt_context *context;
    bt_fused_launch launch;
    void *self;
    void **memory; // [value_count], the caller's
    char **at;     // owned [place_count]
    bool *made;    // owned [place_count]: allocated by this run and not freed
} run;

static bt_status check_given(const run *r, int place)
{
    const int value = r->program->places[place].given;
    const bt_dag_value *v = &r->program->graph->values[value];
    return v->producer >= 0 || r->at[place] || v->size_bytes == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "input %d, \"%s\", has no memory", value,
                          v->name);
}

static bt_status act(run *r, const bt_program_action *x)
{
    bt_device *device = r->context->device;
    const int64_t bytes = r->program->places[x->a].size_bytes;
    void *made = NULL;
    switch (x->kind) {
    case BT_PROGRAM_MAKE:
        if (r->at[x->a]) {
            return BT_OK;
        }
        BT_TRY(bt_pool_alloc(r->context->pool, (size_t)bytes, r->context->stream, "graph", &made));
        r->at[x->a] = made;
        r->made[x->a] = true;
        return BT_OK;
    case BT_PROGRAM_COPY:
        return device->backend->copy(device, r->at[x->b], r->at[x->a], (size_t)bytes,
                                     BT_COPY_DEVICE_TO_DEVICE, r->context->stream);
    case BT_PROGRAM_DROP:
        bt_pool_free(r->context->pool, r->at[x->a]);
        r->at[x->a] = NULL;
        r->made[x->a] = false;
        return BT_OK;
    }
    return BT_OK;
}

static bt_status act_all(run *r, int from, int to)
{
    for (int i = from; i < to; ++i) {
        BT_TRY(act(r, &r->program->actions[i]));
    }
    return BT_OK;
}

// The call's struct with its pointers set.
static void bind(const run *r, const bt_dag_node *node, void *args)
{
    const bt_program *p = r->program;
    memcpy(args, node->args, bt_kernel_operands_struct_bytes(node->op));
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_dag_operand *x = &node->operands[i];
        char *at = r->at[p->place_of[x->result >= 0 ? x->result : x->value]];
        *bt_kernel_operand_slot(node->op, args, x->field) = at ? at + x->offset_bytes : NULL;
    }
}

static bt_status run_calls(const run *r, const bt_program_unit *u)
{
    const bt_dag_node *node = &r->program->graph->nodes[u->node];
    alignas(16) char args[BT_PROGRAM_ARGS_BYTES];
    bt_gemm_args products[BT_PROGRAM_PRODUCTS];
    if (node->op != BT_KERNEL_GEMM) {
        bind(r, node, args);
        return bt_context_launch(r->context, node->op, bt_kernel_main_dtype(node->op, args), args);
    }
    for (int i = 0; i < u->count; ++i) {
        bind(r, &node[i], &products[i]);
    }
    return u->count == 1 ? bt_gemm(r->context, products)
                         : bt_gemm_grouped(r->context, products, u->count);
}

static bt_status run_group(const run *r, const bt_fused *group)
{
    void *at[BT_FUSED_OPERANDS_MOST] = {NULL};
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *x = &group->operands[i];
        at[i] = r->at[r->program->place_of[x->value]] + x->offset_bytes;
    }
    return r->launch ? r->launch(r->self, r->context, group, at)
                     : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "the program has groups, but no launch function");
}

static bt_status run_unit(run *r, const bt_program_unit *u)
{
    const bt_program *p = r->program;
    const bt_fused *group = u->fusion >= 0 ? p->fusion->groups[u->fusion].group : NULL;
    BT_TRY(act_all(r, u->before, u->after));
    bt_range_push(r->context, group ? bt_fused_kind_text(group->kind)
                                    : bt_kernel_op_name(p->graph->nodes[u->node].op));
    bt_status status = group ? run_group(r, group) : run_calls(r, u);
    bt_range_pop(r->context);
    BT_TRY(bt_error_context(status, "node %d", u->node));
    return act_all(r, u->after, u->until);
}

static bt_status run_all(run *r)
{
    const bt_program *p = r->program;
    for (int i = 0; i < p->place_count; ++i) {
        if (p->places[i].given >= 0) {
            r->at[i] = r->memory[p->places[i].given];
            BT_TRY(check_given(r, i));
        }
    }
    for (int i = 0; i < p->unit_count; ++i) {
        BT_TRY(run_unit(r, &p->units[i]));
    }
    return act_all(r, p->ending, p->action_count);
}

bt_status bt_program_run(const bt_program *program, bt_context *context, bt_fused_launch launch,
                         void *self, void **memory)
{
    void *at = NULL, *made = NULL;
    const size_t count = (size_t)program->place_count + 1;
    bt_status status = bt_mem_alloc(count, sizeof(char *), &at);
    status = status ? status : bt_mem_alloc(count, sizeof(bool), &made);
    run r = {program, context, launch, self, memory, at, made};
    status = status ? status : run_all(&r);
    for (int i = 0; i < program->place_count && r.made; ++i) {
        const int given = program->places[i].given;
        if (r.made[i] && status == BT_OK && given >= 0) {
            memory[given] = r.at[i];
        } else if (r.made[i]) {
            bt_pool_free(context->pool, r.at[i]);
        }
    }
    bt_mem_free(at);
    bt_mem_free(made);
    return status;
}

bt_status bt_dag_run_fused(bt_context *context, const bt_dag *graph, const bt_fusion_plan *plan,
                           bt_fused_launch launch, void *self, void **memory)
{
    bt_program *program = NULL;
    BT_TRY(bt_program_create(graph, plan, NULL, &program));
    bt_status status = bt_program_run(program, context, launch, self, memory);
    bt_program_destroy(program);
    return status;
}

bt_status bt_dag_run(bt_context *context, const bt_dag *graph, void **memory)
{
    return bt_dag_run_fused(context, graph, NULL, NULL, NULL, memory);
}
