// framework/compiler/simplify.c - applying the rules of simplify.inl, and those about whole calls
//
// A rule inspects one call. It redirects the readers of its result to an existing value, or changes
// the call; dead_call then removes unread calls. Rules about functions and constants are in
// simplify_constant.c, about casts and layouts in simplify_layout.c.
#include <string.h>

#include "framework/compiler/simplify_parts.h"

// ---- calls --------------------------------------------------------------------------------------

static bool same_attributes(const bt_dag_node *a, const bt_dag_node *b)
{
    static const size_t bytes[] = {[BT_KERNEL_ATTRIBUTE_BOOL] = sizeof(bool),
                                   [BT_KERNEL_ATTRIBUTE_INT] = sizeof(int),
                                   [BT_KERNEL_ATTRIBUTE_I32] = sizeof(int32_t),
                                   [BT_KERNEL_ATTRIBUTE_I64] = sizeof(int64_t),
                                   [BT_KERNEL_ATTRIBUTE_U64] = sizeof(uint64_t),
                                   [BT_KERNEL_ATTRIBUTE_F64] = sizeof(double),
                                   [BT_KERNEL_ATTRIBUTE_AXES] = BT_MAX_RANK * sizeof(int64_t)};
    const bt_kernel_attribute *x = NULL;
    for (int i = 0; (x = bt_kernel_attribute_at(a->op, i)); ++i) {
        if (memcmp((const char *)a->args + x->offset, (const char *)b->args + x->offset,
                   bytes[x->type]) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_call(const bt_dag_node *a, const bt_dag_node *b)
{
    if (a->op != b->op || a->operand_count != b->operand_count) {
        return false;
    }
    for (int i = 0; i < a->operand_count; ++i) {
        const bt_dag_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->field != y->field || x->value != y->value || x->offset_bytes != y->offset_bytes ||
            (x->result < 0) != (y->result < 0)) {
            return false;
        }
    }
    return same_attributes(a, b);
}

bool bt_rule_common_call(bt_simplify *w, int at)
{
    const bt_dag_node *node = &w->graph->nodes[at];
    for (int i = 0; i < at; ++i) {
        const bt_dag_node *earlier = &w->graph->nodes[i];
        bool any = false;
        if (w->gone[i] || !same_call(earlier, node)) {
            continue;
        }
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                any = bt_simplify_redirect(w, node->operands[k].result,
                                           earlier->operands[k].result) ||
                      any;
            }
        }
        if (any) {
            return true;
        }
    }
    return false;
}

bool bt_rule_dead_call(bt_simplify *w, int at)
{
    const bt_dag_node *node = &w->graph->nodes[at];
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0 && w->uses[node->operands[i].result] > 0) {
            return false;
        }
    }
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0) {
            w->graph->values[node->operands[i].result].producer = BT_DAG_REMOVED;
        }
    }
    w->gone[at] = true;
    return true;
}

// ---- applying -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    bool (*apply)(bt_simplify *w, int at);
} rules[] = {
#define BT_DAG_RULE(name, text) {#name, bt_rule_##name},
#include "framework/compiler/simplify.inl"
#undef BT_DAG_RULE
};

const char *bt_dag_rule_name(bt_dag_rule_id rule) { return rules[rule].name; }

static bt_status count_uses(bt_simplify *w)
{
    void *uses = w->uses;
    BT_TRY(bt_mem_resize(&uses, (size_t)w->graph->value_count + 1, sizeof *w->uses));
    w->uses = uses;
    bt_dag_uses(w->graph, w->uses);
    for (int i = 0; i < w->graph->node_count; ++i) {
        const bt_dag_node *node = &w->graph->nodes[i];
        for (int k = 0; k < node->operand_count && w->gone[i]; ++k) {
            if (node->operands[k].value >= 0) {
                w->uses[node->operands[k].value] -= 1;
            }
        }
    }
    return BT_OK;
}

static bool apply_one(bt_simplify *w, int at, bt_dag_simplified *report)
{
    for (int rule = 0; rule < BT_DAG_RULE_COUNT; ++rule) {
        if (rules[rule].apply(w, at)) {
            report->applied[rule] += 1;
            return true;
        }
    }
    return false;
}

static void compact(bt_simplify *w)
{
    int kept = 0;
    for (int i = 0; i < w->graph->node_count; ++i) {
        bt_dag_node *node = &w->graph->nodes[i];
        if (w->gone[i]) {
            bt_mem_free(node->args);
            continue;
        }
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                w->graph->values[node->operands[k].result].producer = kept;
            }
        }
        w->graph->nodes[kept++] = *node;
    }
    w->graph->node_count = kept;
}

bt_status bt_dag_simplify(bt_dag *graph, bt_dag_simplified *report)
{
    bt_simplify w = {.graph = graph};
    void *gone = NULL;
    *report = (bt_dag_simplified){.nodes_before = graph->node_count};
    BT_TRY(bt_mem_alloc((size_t)graph->node_count + 1, sizeof *w.gone, &gone));
    w.gone = gone;
    w.status = count_uses(&w);
    for (bool changed = true; changed && w.status == BT_OK;) {
        changed = false;
        for (int at = graph->node_count - 1; at >= 0 && w.status == BT_OK; --at) {
            while (!w.gone[at] && w.status == BT_OK && apply_one(&w, at, report)) {
                changed = true;
                w.status = w.status ? w.status : count_uses(&w);
            }
        }
    }
    compact(&w);
    bt_mem_free(w.gone);
    bt_mem_free(w.uses);
    report->nodes_after = graph->node_count;
    return w.status;
}
