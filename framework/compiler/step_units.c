// framework/compiler/step_units.c - describes what a compiled step runs, unit by unit
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "framework/compiler/program_parts.h"
#include "framework/compiler/step_parts.h"

static const char *word_of(const bt_dag_node *node)
{
    switch ((int)node->op) {
    case BT_KERNEL_UNARY:
        return bt_unary_name(((const bt_unary_args *)node->args)->function);
    case BT_KERNEL_BINARY:
        return bt_binary_name(((const bt_binary_args *)node->args)->function);
    default:
        return bt_kernel_op_name(node->op);
    }
}

// "square, reduce_sum, mul x2": consecutive repetitions are counted. Truncated to fit.
static void write_ops(const bt_dag *graph, const int *nodes, int count, char *out, size_t capacity)
{
    size_t length = 0;
    for (int i = 0, same = 1; i < count && length < capacity; i += same) {
        const char *word = word_of(&graph->nodes[nodes[i]]);
        char times[16] = "";
        for (same = 1; i + same < count; ++same) {
            if (strcmp(word_of(&graph->nodes[nodes[i + same]]), word) != 0) {
                break;
            }
        }
        if (same > 1) {
            (void)snprintf(times, sizeof times, " x%d", same);
        }
        const int part =
            snprintf(out + length, capacity - length, "%s%s%s", length ? ", " : "", word, times);
        length += part > 0 ? (size_t)part : 0;
    }
    if (length >= capacity) {
        memcpy(out + capacity - 4, "...", 4);
    }
}

static const char *direction_of(const bt_dag *graph, const int *nodes, int count)
{
    int forward = 0;
    for (int i = 0; i < count; ++i) {
        forward += graph->nodes[nodes[i]].phase == BT_DAG_FORWARD;
    }
    return forward == count ? "forward" : forward == 0 ? "backward" : "forward and backward";
}

// Equal groups have equal code.
static bt_status name_kernel(const bt_fused *group, char *out, size_t capacity)
{
    bt_str text = {0};
    bt_fused_print(group, &text);
    const bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        (void)snprintf(out, capacity, "%s-%08x", bt_fused_kind_text(group->kind),
                       (unsigned)XXH3_64bits(bt_str_text(&text), text.length_bytes));
    }
    bt_str_release(&text);
    return status;
}

static const bt_step_variant *variant_of(const bt_compiled_step *step, bool adds)
{
    const bt_step_variant *found = NULL;
    for (int i = 0; i < step->count; ++i) {
        const bt_step_variant *v = step->variants[i];
        found = v->program && v->adds == adds ? v : found;
    }
    return found;
}

int bt_compiled_step_units(const bt_compiled_step *step, bool adds)
{
    const bt_step_variant *v = variant_of(step, adds);
    return v ? v->program->unit_count : 0;
}

bt_status bt_compiled_step_unit(const bt_compiled_step *step, bool adds, int i,
                                bt_compiled_unit *out)
{
    const bt_step_variant *v = variant_of(step, adds);
    const bt_program_unit *unit = &v->program->units[i];
    memset(out, 0, sizeof *out);
    if (unit->fusion < 0) {
        out->direction = direction_of(&v->graph, &unit->node, 1);
        out->kind = "";
        out->calls = unit->count;
        return BT_OK;
    }
    const bt_fusion *fusion = &v->fusion.groups[unit->fusion];
    out->direction = direction_of(&v->graph, fusion->nodes, fusion->node_count);
    out->kind = bt_fused_kind_text(fusion->group->kind);
    out->calls = fusion->node_count;
    out->bytes_before = fusion->bytes_before;
    out->bytes_after = fusion->bytes_after;
    write_ops(&v->graph, fusion->nodes, fusion->node_count, out->ops, sizeof out->ops);
    return name_kernel(fusion->group, out->kernel, sizeof out->kernel);
}
