// framework/compiler/simplify_graph.c - what rules ask about a graph, and how they change it
#include <string.h>

#include "framework/compiler/simplify_parts.h"

// ---- queries ------------------------------------------------------------------------------------

bt_dag_operand *bt_simplify_operand(bt_dag_node *node, int field)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].field == field) {
            return &node->operands[i];
        }
    }
    return NULL;
}

bool bt_simplify_makes_whole(const bt_dag_operand *x)
{
    return x && x->result >= 0 && x->value < 0 && x->offset_bytes == 0;
}

int64_t bt_simplify_count_of(const bt_simplify *w, int value)
{
    return bt_dag_value_count(&w->graph->values[value]);
}

bt_dag_node *bt_simplify_maker(const bt_simplify *w, int value, bt_kernel_op op, int field)
{
    const int at = value >= 0 ? w->graph->values[value].producer : -1;
    bt_dag_node *node = at >= 0 && !w->gone[at] ? &w->graph->nodes[at] : NULL;
    const bt_dag_operand *y = node && node->op == op ? bt_simplify_operand(node, field) : NULL;
    return bt_simplify_makes_whole(y) && y->result == value ? node : NULL;
}

double bt_simplify_rounded(double value, bt_dtype dtype)
{
    return dtype == BT_F32 ? (double)(float)value : value;
}

bool bt_simplify_computes_in(bt_dtype dtype) { return dtype == BT_F32 || dtype == BT_F64; }

bool bt_simplify_is_contiguous(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
        if (shape[i] != 1 && stride[i] != step) {
            return false;
        }
        step *= shape[i];
    }
    return true;
}

int64_t bt_simplify_product(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) {
        count *= shape[i];
    }
    return count;
}

// ---- changing -----------------------------------------------------------------------------------

bool bt_simplify_redirect(bt_simplify *w, int from, int to)
{
    const bt_dag_value *a = &w->graph->values[from], *b = &w->graph->values[to];
    bool any = false;
    if (a->size_bytes != b->size_bytes || a->dtype != b->dtype) {
        return false;
    }
    for (int i = 0; i < w->graph->node_count; ++i) {
        bt_dag_node *node = &w->graph->nodes[i];
        for (int k = 0; k < node->operand_count && !w->gone[i]; ++k) {
            if (node->operands[k].value == from) {
                node->operands[k].value = to;
                any = true;
            }
        }
    }
    for (int i = 0; i < w->graph->value_count; ++i) {
        if (w->graph->values[i].base == from) {
            w->graph->values[i].base = to;
        }
    }
    return any;
}

bool bt_simplify_become(bt_simplify *w, bt_dag_node *node, bt_kernel_op op, const void *args,
                        const bt_dag_operand *operands, int count)
{
    void *own = NULL;
    const bt_status status = bt_mem_alloc(1, bt_kernel_operands_struct_bytes(op), &own);
    if (status) {
        w->status = status;
        return false;
    }
    memcpy(own, args, bt_kernel_operands_struct_bytes(op));
    bt_mem_free(node->args);
    node->args = own;
    node->op = op;
    node->operand_count = count;
    memcpy(node->operands, operands, (size_t)count * sizeof *operands);
    return true;
}
