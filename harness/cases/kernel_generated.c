// harness/cases/kernel_generated.c - a kernel case whose call runs as generated code
//
// The call becomes a graph of one node, and the graph one group (framework/compiler), whose code
// replaces the kernel of the table: it is checked and timed in the same way.
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/compiler/run.h"
#include "harness/cases/kernel.h"

struct bt_kernel_generated {
    bt_kernel row; // that run->kernel points to
    bt_code_cache cache;
    bt_compiled *code;
    bt_fused group;
    int field_of[BT_FUSED_OPERANDS_MOST]; // fields of the op's struct that point to operands
};

// The current case: a worker runs one at a time, and a row's launch function has no self argument.
static const bt_kernel_generated *active;

static bt_status launch(const bt_launch *to, const void *args)
{
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    void *at[BT_FUSED_OPERANDS_MOST];
    (void)bt_kernel_operands_of(active->row.op, args, fields);
    for (int i = 0; i < active->group.operand_count; ++i) {
        const void *pointer = fields[active->field_of[i]].pointer;
        memcpy(&at[i], &pointer, sizeof pointer); // args determine what is written
    }
    return bt_compiled_run(active->code, to->stream, active->group.shape[0], at, to->workspace);
}

static size_t workspace(const bt_device *device, const void *args)
{
    (void)device, (void)args;
    return (size_t)bt_compiled_workspace_bytes(active->code, active->group.shape[0]);
}

// A graph of the call: its operands are inputs, its results new values. values[field] is unchanged
// if the call does not use the field.
static bt_status make_graph(bt_kernel_op op, const void *args, bt_dag *graph, int *values)
{
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    bt_dag_binding bindings[BT_KERNEL_OPERANDS_MOST];
    int results[BT_KERNEL_OPERANDS_MOST], count = 0, place[BT_KERNEL_OPERANDS_MOST];
    const int all = bt_kernel_operands_of(op, args, fields);
    for (int i = 0; i < all; ++i) {
        if (fields[i].reads) {
            BT_TRY(
                bt_dag_input(graph, fields[i].dtype, fields[i].span, fields[i].name, &values[i]));
        }
        if (fields[i].reads || fields[i].writes) {
            bindings[count] = (bt_dag_binding){.field = fields[i].name, .value = values[i]};
            place[count++] = i;
        }
    }
    BT_TRY(bt_dag_call(graph, op, args, bindings, count, results));
    for (int k = 0; k < count; ++k) {
        if (results[k] >= 0) {
            values[place[k]] = results[k];
            BT_TRY(bt_dag_output(graph, results[k]));
        }
    }
    return BT_OK;
}

static bt_status make_group(const bt_dag *graph, bt_target_kind kind, bt_fused *group)
{
    const bt_fuse_options options = {.any_order = kind == BT_TARGET_CUDA, .products = true};
    const int node = 0;
    const char *why = NULL;
    bt_fused_of_nodes(graph, &options, &node, 1, group, &why);
    BT_FAIL_IF(why, BT_STATUS_UNSUPPORTED, "no code is generated for this call: %s", why);
    bt_fused_collapse(group);
    return BT_OK;
}

bt_status bt_kernel_generated_group(bt_kernel_op op, const void *args, bt_target_kind kind,
                                    bt_dag *graph, bt_fused *group, int *field_of)
{
    int values[BT_KERNEL_OPERANDS_MOST];
    *graph = (bt_dag){0};
    for (int f = 0; f < BT_KERNEL_OPERANDS_MOST; ++f) {
        values[f] = -1;
    }
    BT_TRY(make_graph(op, args, graph, values));
    BT_TRY(make_group(graph, kind, group));
    for (int i = 0; i < group->operand_count; ++i) {
        field_of[i] = 0;
        for (int f = 0; f < BT_KERNEL_OPERANDS_MOST; ++f) {
            field_of[i] = values[f] == group->operands[i].value ? f : field_of[i];
        }
    }
    return BT_OK;
}

bt_status bt_kernel_generated_make(const bt_device *device, bt_kernel_op op, bt_dtype dtype,
                                   const void *args, bt_kernel_generated **out)
{
    const bool cpu = device->backend->kind == BT_DEVICE_CPU;
    bt_kernel_generated *g = NULL;
    *out = NULL;
    BT_TRY(BT_MEM_ARRAY(1, &g));
    BT_SCOPED(bt_dag) graph = {0};
    bt_status status = bt_kernel_generated_group(op, args, cpu ? BT_TARGET_CPU : BT_TARGET_CUDA,
                                                 &graph, &g->group, g->field_of);
    status = status ? status : bt_code_cache_from_environment(&g->cache);
    status = status ? status : bt_compile_for(device, &g->group, &g->cache, &g->code);
    if (status) {
        bt_kernel_generated_release(g);
        return status;
    }
    g->row = (bt_kernel){.op = op,
                         .device = device->backend->kind,
                         .dtype = dtype,
                         .name = "generated",
                         .workspace = workspace,
                         .launch = launch};
    *out = g;
    return BT_OK;
}

const bt_kernel *bt_kernel_generated_row(const bt_kernel_generated *generated)
{
    active = generated;
    return &generated->row;
}

void bt_kernel_generated_release(bt_kernel_generated *generated)
{
    if (generated) {
        bt_compiled_release(generated->code);
        bt_code_cache_close(&generated->cache);
        active = active == generated ? NULL : active;
        bt_mem_free(generated);
    }
}
