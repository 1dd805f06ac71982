// framework/compiler/rematerialize.c - copies of elementwise calls for the readers of their results
#include "framework/compiler/rematerialize.h"

#include <string.h>

enum { CLOSURE_MOST = 16 }; // limit on calls that recompute one value

typedef struct work {
    bt_dag *graph;
    bt_dag_node *old; // owned [old_count]: the original nodes; appended to the graph one by one
    int old_count;
    int value_count; // original counts
    int *maker;      // owned [value_count]: the old node that makes a value, -1: none
    int *uses;       // owned [value_count]
    int *copy;       // owned [value_count]: its copy for the backward, -1: none
    int *own;        // owned [value_count]: its copy for one reader
    bool *kept;      // owned [value_count]: in memory anyway, and recomputing costs no less
    int64_t least_bytes;
    int copied;
} work;

// The calls to be copied for one value, in the order of the graph.
typedef struct closure {
    int nodes[CLOSURE_MOST], node_count;
    int64_t root_bytes; // bytes that these read from other calls
    bool fits;
} closure;

// ---- queries ------------------------------------------------------------------------------------

static const bt_dag_operand *result_of(const bt_dag_node *node)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0) {
            return &node->operands[i];
        }
    }
    return NULL;
}

static bool is_elementwise(const bt_dag_node *node)
{
    return node->op == BT_KERNEL_UNARY || node->op == BT_KERNEL_BINARY ||
           node->op == BT_KERNEL_COPY;
}

// An elementwise call that makes its whole result and adds to nothing.
static bool is_cheap(const work *w, const bt_dag_node *node)
{
    const bt_dag_operand *y = result_of(node);
    int64_t count = 0, step = 1;
    if (!is_elementwise(node) || !y || y->value >= 0 || y->offset_bytes != 0) {
        return false;
    }
    if (node->op == BT_KERNEL_UNARY) {
        const bt_unary_args *args = node->args;
        count = args->as_epilogue ? -1 : args->count;
    } else if (node->op == BT_KERNEL_BINARY) {
        const bt_binary_args *args = node->args;
        count = 1;
        for (int i = 0; i < args->rank; ++i) {
            count *= args->shape[i];
        }
    } else {
        const bt_copy_args *args = node->args;
        for (int i = args->rank - 1; i >= 0; step *= args->shape[i--]) {
            if (args->shape[i] > 1 && args->y_stride[i] != step) {
                return false;
            }
        }
        count = step;
    }
    return count == bt_dag_value_count(&w->graph->values[y->result]);
}

// The call to be copied for a value; -1: the value is read as it is.
static int copied_call(const work *w, int value, bool forward_only)
{
    const int at = value >= 0 ? w->maker[value] : -1;
    return at >= 0 && !w->kept[value] && w->graph->values[value].size_bytes >= w->least_bytes &&
                   (!forward_only || w->old[at].phase == BT_DAG_FORWARD) && is_cheap(w, &w->old[at])
               ? at
               : -1;
}

// Adds the call and its predecessors. Shared operands are counted once.
static void close_over(const work *w, int at, bool forward_only, closure *c)
{
    for (int i = 0; i < c->node_count; ++i) {
        if (c->nodes[i] == at) {
            return;
        }
    }
    const bt_dag_node *node = &w->old[at];
    for (int i = 0; i < node->operand_count && c->fits; ++i) {
        const int value = node->operands[i].value;
        const int before = copied_call(w, value, forward_only);
        if (before >= 0) {
            close_over(w, before, forward_only, c);
        }
    }
    c->fits = c->fits && c->node_count < CLOSURE_MOST;
    if (c->fits) {
        c->nodes[c->node_count++] = at;
    }
}

static bool is_inside(const work *w, const closure *c, int value)
{
    for (int i = 0; i < c->node_count; ++i) {
        if (w->maker[value] == c->nodes[i]) {
            return true;
        }
    }
    return false;
}

static void count_roots(const work *w, closure *c)
{
    int seen[CLOSURE_MOST * 3];
    int count = 0;
    for (int i = 0; i < c->node_count; ++i) {
        const bt_dag_node *node = &w->old[c->nodes[i]];
        for (int k = 0; k < node->operand_count; ++k) {
            const int value = node->operands[k].value;
            bool known = value < 0 || is_inside(w, c, value);
            for (int n = 0; n < count && !known; ++n) {
                known = seen[n] == value;
            }
            if (!known) {
                seen[count++] = value;
                c->root_bytes += w->graph->values[value].size_bytes;
            }
        }
    }
}

// Does recomputing the value cost no more than storing and loading it?
static bool pays(const work *w, int value, bool forward_only, closure *c)
{
    const int at = copied_call(w, value, forward_only);
    *c = (closure){.fits = true};
    if (at < 0) {
        return false;
    }
    close_over(w, at, forward_only, c);
    count_roots(w, c);
    return c->fits && c->root_bytes <= 2 * w->graph->values[value].size_bytes;
}

// ---- readers ------------------------------------------------------------------------------------

static bool sums_columns(const bt_dag_node *node)
{
    const bt_reduce_sum_args *args = node->args;
    return node->op == BT_KERNEL_REDUCE_SUM && args->inner > 1 && args->outer == 1;
}

// Calls that `fuse` can join with elementwise ones.
static bool joins(const bt_dag_node *node)
{
    return is_elementwise(node) || node->op == BT_KERNEL_UNARY_BACKWARD ||
           (node->op == BT_KERNEL_REDUCE_SUM &&
            ((const bt_reduce_sum_args *)node->args)->inner == 1);
}

// ---- copying ------------------------------------------------------------------------------------

static bt_status copy_call(work *w, int at, bt_dag_phase phase, int *copy)
{
    bt_dag_node node = w->old[at];
    const bt_dag_operand *y = result_of(&node);
    const int value = y->result, number = (int)(y - node.operands);
    bt_dag_value made = w->graph->values[value];
    if (copy[value] >= 0) {
        return BT_OK;
    }
    made.base = -1;
    made.producer = -1;
    made.is_output = false;
    made.name[0] = '\0';
    made.again = 1 + value;
    BT_TRY(bt_dag_value_append(w->graph, &made, &copy[value]));
    for (int i = 0; i < node.operand_count; ++i) {
        const int read = node.operands[i].value;
        node.operands[i].value = read >= 0 && copy[read] >= 0 ? copy[read] : read;
    }
    node.operands[number].result = copy[value];
    node.phase = phase;
    w->copied += 1;
    return bt_dag_node_append(w->graph, &node);
}

static bt_status copy_closure(work *w, const closure *c, bt_dag_phase phase, int *copy)
{
    for (int i = 0; i < c->node_count; ++i) {
        BT_TRY(copy_call(w, c->nodes[i], phase, copy));
    }
    return BT_OK;
}

// The reader's operands after copying.
static bt_status redirect(work *w, bt_dag_node *reader)
{
    const bool columns = sums_columns(reader);
    const bool backward = reader->phase != BT_DAG_FORWARD && joins(reader);
    closure c;
    for (int i = 0; i < reader->operand_count; ++i) {
        bt_dag_operand *x = &reader->operands[i];
        const int value = x->value;
        if (value < 0 || x->result >= 0) {
            continue;
        }
        if (columns && w->uses[value] == 1 && pays(w, value, false, &c)) {
            memset(w->own, -1, (size_t)w->value_count * sizeof *w->own);
            BT_TRY(copy_closure(w, &c, reader->phase, w->own));
            x->value = w->own[value];
        } else if (backward && w->copy[value] >= 0) {
            x->value = w->copy[value];
        } else if (backward && pays(w, value, true, &c)) {
            BT_TRY(copy_closure(w, &c, reader->phase, w->copy));
            x->value = w->copy[value];
        }
    }
    return BT_OK;
}

// The old nodes keep their operands: copies refer to the original values.
static bt_status rebuild(work *w)
{
    for (int i = 0; i < w->old_count; ++i) {
        bt_dag_node node = w->old[i];
        BT_TRY(redirect(w, &node));
        BT_TRY(bt_dag_node_append(w->graph, &node));
    }
    return BT_OK;
}

// ---- removing unread calls ----------------------------------------------------------------------

static bool is_read(const bt_dag_node *node, const int *uses)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].result >= 0 && uses[node->operands[i].result] > 0) {
            return true;
        }
    }
    return false;
}

static bt_status remove_unread(bt_dag *graph)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)graph->value_count + 1, sizeof(int), &block));
    int *uses = block, kept = graph->node_count;
    bt_dag_uses(graph, uses);
    for (int i = graph->node_count - 1; i >= 0; --i) { // those that stay move to the end
        bt_dag_node node = graph->nodes[i];
        const bool stays = is_read(&node, uses);
        for (int k = 0; k < node.operand_count; ++k) {
            if (!stays && node.operands[k].value >= 0) {
                uses[node.operands[k].value] -= 1;
            }
            if (!stays && node.operands[k].result >= 0) {
                graph->values[node.operands[k].result].producer = BT_DAG_REMOVED;
            }
        }
        if (stays) {
            graph->nodes[--kept] = node;
        } else {
            bt_mem_free(node.args);
        }
    }
    graph->node_count -= kept;
    if (graph->node_count > 0) {
        memmove(graph->nodes, graph->nodes + kept,
                (size_t)graph->node_count * sizeof *graph->nodes);
    }
    for (int i = 0; i < graph->node_count; ++i) {
        const bt_dag_node *node = &graph->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                graph->values[node->operands[k].result].producer = i;
            }
        }
    }
    bt_mem_free(block);
    return BT_OK;
}

static bt_status ints(int count, int **out)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(int), &block));
    memset(block, -1, ((size_t)count + 1) * sizeof(int));
    *out = block;
    return BT_OK;
}

// Outputs, and what calls read that join no group, are stored: recomputing them saves a load only.
static bt_status find_kept(work *w)
{
    void *block = NULL;
    closure c;
    BT_TRY(bt_mem_alloc((size_t)w->value_count + 1, 2 * sizeof *w->kept, &block));
    w->kept = block;
    bool *stored = w->kept + w->value_count;
    for (int i = 0; i < w->value_count; ++i) {
        stored[i] = w->graph->values[i].is_output;
    }
    for (int i = 0; i < w->old_count; ++i) {
        const bt_dag_node *node = &w->old[i];
        for (int k = 0; k < node->operand_count && !joins(node) && !sums_columns(node); ++k) {
            if (node->operands[k].value >= 0) {
                stored[node->operands[k].value] = true;
            }
        }
    }
    for (int i = 0; i < w->value_count; ++i) { // a call's operands before its results
        w->kept[i] =
            stored[i] && !(pays(w, i, false, &c) && c.root_bytes < w->graph->values[i].size_bytes);
    }
    return BT_OK;
}

static bt_status prepare(work *w)
{
    BT_TRY(ints(w->value_count, &w->maker));
    BT_TRY(ints(w->value_count, &w->uses));
    BT_TRY(ints(w->value_count, &w->copy));
    BT_TRY(ints(w->value_count, &w->own));
    bt_dag_uses(w->graph, w->uses);
    for (int i = 0; i < w->value_count; ++i) {
        w->maker[i] = w->graph->values[i].producer;
    }
    w->old = w->graph->nodes;
    w->old_count = w->graph->node_count;
    w->graph->nodes = NULL;
    w->graph->node_count = w->graph->node_capacity = 0;
    return find_kept(w);
}

bt_status bt_dag_rematerialize(bt_dag *graph, int64_t least_bytes, int *copied)
{
    work w = {.graph = graph, .value_count = graph->value_count, .least_bytes = least_bytes};
    bt_status status = prepare(&w);
    status = status ? status : rebuild(&w);
    status = status ? status : remove_unread(graph);
    for (int i = 0; i < w.old_count; ++i) {
        bt_mem_free(w.old[i].args);
    }
    bt_mem_free(w.old);
    bt_mem_free(w.maker);
    bt_mem_free(w.uses);
    bt_mem_free(w.copy);
    bt_mem_free(w.own);
    bt_mem_free(w.kept);
    *copied = w.copied;
    return status;
}

void bt_dag_rematerialize_print(const bt_dag *graph, bt_str *out)
{
    for (int i = 0; i < graph->value_count; ++i) {
        const bt_dag_value *value = &graph->values[i];
        if (!value->again || value->producer < 0) {
            continue;
        }
        const bt_dag_node *node = &graph->nodes[value->producer];
        const bool remains = graph->values[value->again - 1].producer != BT_DAG_REMOVED;
        bt_str_format(
            out, "%s of node %d recomputes value %d in the %s instead of %sloading %lld bytes\n",
            bt_kernel_op_name(node->op), value->producer, value->again - 1,
            bt_dag_phase_name(node->phase), remains ? "" : "storing and ",
            (long long)value->size_bytes);
    }
}
