// framework/compiler/fuse.c - joins calls into groups while that reduces the cost
//
// A unit is a group or an ungrouped call. For each edge of the graph, in order, the two units are
// merged if they form a group (bt_fused_of_nodes), no path leads from one to the other through a
// third, and the group costs less than its parts. Elementwise units that read the same value are
// then tried in the same way.
#include "framework/compiler/fuse.h"

#include <inttypes.h>
#include <string.h>

#include "framework/compiler/fuse_build.h"
#include "framework/compiler/product.h"

static const int64_t LAUNCH_BYTES = 1 << 20;

typedef struct fuser {
    const bt_dag *graph;
    bt_fuse_options options;
    bt_fusion_plan *plan;
    int *unit;       // owned [node_count]: number of the node's unit, that of its first node
    int *joined;     // owned [node_count]: nodes of the unit being tried
    bool *reached;   // owned [node_count]: units
    bt_fused *trial; // owned
} fuser;

static int64_t node_bytes(const bt_dag *graph, const bt_dag_node *node)
{
    static char somewhere;
    int64_t bytes = 0;
    bt_kernel_operand fields[BT_KERNEL_OPERANDS_MOST];
    (void)graph;
    for (int i = 0; i < node->operand_count; ++i) { // scratch copies; args may be redirected
        *bt_kernel_operand_slot(node->op, node->args, node->operands[i].field) = &somewhere;
    }
    (void)bt_kernel_operands_of(node->op, node->args, fields);
    for (int i = 0; i < node->operand_count; ++i) {
        const bt_kernel_operand *x = &fields[node->operands[i].field];
        bytes += (x->reads + x->writes) * x->count * (int64_t)bt_dtype_size(x->dtype);
        *bt_kernel_operand_slot(node->op, node->args, node->operands[i].field) = NULL;
    }
    return bytes;
}

// Nodes of two units in ascending order.
static int join(fuser *f, int a, int b)
{
    int count = 0;
    for (int i = 0; i < f->graph->node_count; ++i) {
        if (f->unit[i] == a || f->unit[i] == b) {
            f->joined[count++] = i;
        }
    }
    return count;
}

// Does a path lead from unit a to unit b through a third one?
static bool is_around(fuser *f, int a, int b)
{
    const bt_dag *g = f->graph;
    memset(f->reached, 0, (size_t)g->node_count * sizeof *f->reached);
    f->reached[a] = true;
    int first = a; // of the reached units' nodes; their readers come later
    for (bool more = true; more;) {
        more = false;
        for (int i = first + 1; i < g->node_count; ++i) {
            const bt_dag_node *node = &g->nodes[i];
            for (int k = 0; k < node->operand_count; ++k) {
                const int value = node->operands[k].value;
                const int producer = value >= 0 ? g->values[value].producer : -1;
                if (producer < 0 || !f->reached[f->unit[producer]]) {
                    continue;
                }
                const int from = f->unit[producer], to = f->unit[i];
                if (to == b && from != a) {
                    return true;
                }
                if (to != a && to != b && !f->reached[to]) {
                    f->reached[to] = true;
                    first = to < first ? to : first;
                    more = true;
                }
            }
        }
    }
    return false;
}

static void decide(fuser *f, int a, int b, const char *what)
{
    bt_str_format(&f->plan->decisions, "%s of node %d and %s of node %d: %s\n",
                  bt_kernel_op_name(f->graph->nodes[a].op), a,
                  bt_kernel_op_name(f->graph->nodes[b].op), b, what);
}

static int64_t parts_bytes(const fuser *f, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; ++i) {
        bytes += node_bytes(f->graph, &f->graph->nodes[f->joined[i]]);
    }
    return bytes;
}

int64_t bt_fuse_launch_bytes(const bt_fuse_options *options)
{
    return options->launch_bytes ? options->launch_bytes : LAUNCH_BYTES;
}

// Bytes that a unit moves.
static int64_t unit_bytes(fuser *f, int unit)
{
    const char *why = NULL;
    const int count = join(f, unit, unit);
    if (count == 1) {
        return node_bytes(f->graph, &f->graph->nodes[unit]);
    }
    bt_fused_of_nodes(f->graph, &f->options, f->joined, count, f->trial, &why);
    return bt_fused_bytes(f->trial);
}

static bool costs_less(fuser *f, int a, int b, int count, bool siblings, int64_t *before)
{
    const int64_t after = bt_fused_bytes(f->trial), launch = bt_fuse_launch_bytes(&f->options);
    *before = parts_bytes(f, count);
    return siblings ? after < unit_bytes(f, a) + unit_bytes(f, b) + launch
                    : after < *before + (count - 1) * launch;
}

// Bytes moved by the forward and the backward if values are recomputed instead of stored between
// them.
static bool mixes_phases(const fuser *f, int count)
{
    bool forward = false, backward = false;
    for (int i = 0; i < count; ++i) {
        const bool first = f->graph->nodes[f->joined[i]].phase == BT_DAG_FORWARD;
        forward = forward || first;
        backward = backward || !first;
    }
    return f->options.rematerialize && forward && backward;
}

// Siblings read the same value and neither reads the other.
static void try_join(fuser *f, int producer, int consumer, bool siblings)
{
    const int a = f->unit[producer], b = f->unit[consumer];
    const char *why = NULL;
    int64_t before = 0;
    int count = join(f, a, b);
    bt_fused_of_nodes(f->graph, &f->options, f->joined, count, f->trial, &why);
    if (!why && mixes_phases(f, count)) {
        why = "one is of the forward, the other of the backward";
    }
    if (!why && siblings && f->trial->kind != BT_FUSED_ELEMENTWISE) {
        why = "they share an operand only, and one of them reduces";
    }
    if (!why && f->options.kinds && !(f->options.kinds >> f->trial->kind & 1U)) {
        why = "groups of this kind are not supported";
    }
    if (!why && f->options.refuses) {
        why = f->options.refuses(f->trial);
    }
    if (!why && (is_around(f, a, b) || is_around(f, b, a))) {
        why = "a path between them leads through another call";
    }
    if (why) {
        decide(f, producer, consumer, why);
        return;
    }
    const int64_t after = bt_fused_bytes(f->trial);
    const bt_fused_kind kind = f->trial->kind;
    if (!costs_less(f, a, b, count, siblings, &before)) {
        decide(f, producer, consumer, "one group would cost more than two");
        return;
    }
    count = join(f, a, b);
    for (int i = 0; i < count; ++i) {
        f->unit[f->joined[i]] = a < b ? a : b;
    }
    bt_str_format(&f->plan->decisions,
                  "%s of node %d joins node %d: %s group of %d calls moves %" PRId64
                  " bytes instead of %" PRId64 "\n",
                  bt_kernel_op_name(f->graph->nodes[consumer].op), consumer, producer,
                  bt_fused_kind_text(kind), count, after, before);
}

static int producer_of(const fuser *f, const bt_dag_operand *x)
{
    return x->value >= 0 ? f->graph->values[x->value].producer : -1;
}

// Groups a column sum with the calls that only it needs, before these join other groups.
static bool join_column(fuser *f, int sum, const int *uses)
{
    for (int i = 0; i <= sum; ++i) {
        const bt_dag_node *node = &f->graph->nodes[i];
        for (int k = 0; k < node->operand_count && f->unit[i] == f->unit[sum]; ++k) {
            const int producer = producer_of(f, &node->operands[k]);
            if (producer >= 0 && uses[node->operands[k].value] == 1 &&
                f->unit[producer] != f->unit[i]) {
                try_join(f, producer, i, false);
                if (f->unit[producer] == f->unit[sum]) {
                    return true; // calls before this one may follow
                }
            }
        }
    }
    return false;
}

static bt_status join_columns(fuser *f)
{
    void *uses = NULL;
    BT_TRY(bt_mem_alloc((size_t)f->graph->value_count + 1, sizeof(int), &uses));
    bt_dag_uses(f->graph, uses);
    for (int i = 0; i < f->graph->node_count; ++i) {
        const bt_dag_node *node = &f->graph->nodes[i];
        if (node->op == BT_KERNEL_REDUCE_SUM &&
            ((const bt_reduce_sum_args *)node->args)->inner > 1) {
            while (join_column(f, i, uses)) {
            }
        }
    }
    bt_mem_free(uses);
    return BT_OK;
}

static void join_all(fuser *f)
{
    const bt_dag *g = f->graph;
    for (int i = 0; i < g->node_count; ++i) {
        const bt_dag_node *node = &g->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            const int producer = producer_of(f, &node->operands[k]);
            if (producer >= 0 && f->unit[producer] != f->unit[i]) {
                try_join(f, producer, i, false);
            }
        }
    }
}

static bool is_elementwise(const bt_dag_node *node)
{
    bt_fused_kind kind = BT_FUSED_ROW;
    int rank = 0;
    int64_t shape[BT_MAX_RANK];
    return bt_fuse_space_of(node, &kind, &rank, shape) == NULL && kind == BT_FUSED_ELEMENTWISE;
}

static bool reads(const bt_dag_node *node, int value)
{
    for (int k = 0; k < node->operand_count; ++k) {
        if (node->operands[k].value == value) {
            return true;
        }
    }
    return false;
}

// Merges each elementwise call with the previous one that reads the same large value.
static void join_siblings(fuser *f)
{
    const bt_dag *g = f->graph;
    for (int value = 0; value < g->value_count; ++value) {
        int last = -1;
        const bool large = g->values[value].size_bytes >= bt_fuse_launch_bytes(&f->options);
        for (int i = 0; i < g->node_count && large; ++i) {
            if (!reads(&g->nodes[i], value) || !is_elementwise(&g->nodes[i])) {
                continue;
            }
            if (last >= 0 && f->unit[last] != f->unit[i]) {
                try_join(f, last, i, true);
            }
            last = i;
        }
    }
}

// ---- the plan -----------------------------------------------------------------------------------

static bt_status keep_group(fuser *f, int unit, int count)
{
    bt_fusion_plan *plan = f->plan;
    void *items = plan->groups, *nodes = NULL, *group = NULL;
    const char *why = NULL;
    BT_TRY(bt_mem_resize(&items, (size_t)plan->count + 1, sizeof *plan->groups));
    plan->groups = items;
    bt_fusion *made = &plan->groups[plan->count];
    *made = (bt_fusion){0};
    BT_TRY(bt_mem_alloc((size_t)count, sizeof *made->nodes, &nodes));
    made->nodes = nodes;
    plan->count += 1;
    BT_TRY(bt_mem_alloc(1, sizeof *made->group, &group));
    made->group = group;
    (void)join(f, unit, unit);
    memcpy(made->nodes, f->joined, (size_t)count * sizeof *made->nodes);
    made->node_count = count;
    bt_fused_of_nodes(f->graph, &f->options, made->nodes, count, made->group, &why);
    if (why) {
        return bt_error(BT_STATUS_INTERNAL, "a group of %d nodes: %s", count, why);
    }
    made->bytes_before = parts_bytes(f, count);
    made->bytes_after = bt_fused_bytes(made->group);
    if (made->group->kind < BT_FUSED_PRODUCT) {
        bt_fused_collapse(made->group);
    }
    made->group->number = plan->count - 1;
    made->group->dynamic_rows =
        f->options.dynamic_rows && made->group->kind < BT_FUSED_PRODUCT &&
        (made->group->rank > 1 || made->group->kind == BT_FUSED_ELEMENTWISE);
    return BT_OK;
}

// A tiny product is generated even where no call joins it.
static bool is_group_alone(fuser *f, int node)
{
    const bt_fuse_options *options = &f->options;
    const char *why = NULL;
    if (!options->products || f->graph->nodes[node].op != BT_KERNEL_GEMM ||
        bt_product_classify(f->graph->nodes[node].args) != BT_PRODUCT_TINY ||
        (options->kinds && !(options->kinds >> BT_FUSED_PRODUCT & 1U))) {
        return false;
    }
    bt_fused_of_nodes(f->graph, options, &node, 1, f->trial, &why);
    return !why && !(options->refuses && options->refuses(f->trial));
}

static void classify_products(fuser *f)
{
    for (int i = 0; i < f->graph->node_count && f->options.products; ++i) {
        if (f->graph->nodes[i].op == BT_KERNEL_GEMM) {
            bt_str_format(&f->plan->decisions, "product of node %d, ", i);
            bt_product_print(f->graph->nodes[i].args, &f->plan->decisions);
            bt_str_append(&f->plan->decisions, "\n");
        }
    }
}

static bt_status keep_groups(fuser *f)
{
    for (int i = 0; i < f->graph->node_count; ++i) {
        f->plan->unit_of[i] = -1;
    }
    for (int i = 0; i < f->graph->node_count; ++i) {
        if (f->unit[i] == i) {
            const int count = join(f, i, i);
            if (count > 1 || is_group_alone(f, i)) {
                BT_TRY(keep_group(f, i, count));
                for (int k = 0; k < count; ++k) {
                    f->plan->unit_of[f->joined[k]] = f->plan->count - 1;
                }
            }
        }
    }
    return bt_str_status(&f->plan->decisions);
}

bt_status bt_dag_fuse(const bt_dag *graph, const bt_fuse_options *options, bt_fusion_plan *plan)
{
    fuser f = {.graph = graph, .options = *options, .plan = plan};
    const size_t count = (size_t)graph->node_count + 1;
    void *unit = NULL, *joined = NULL, *reached = NULL, *trial = NULL, *of = NULL;
    *plan = (bt_fusion_plan){.node_count = graph->node_count};
    bt_status status = bt_mem_alloc(count, sizeof *f.unit, &unit);
    status = status ? status : bt_mem_alloc(count, sizeof *f.joined, &joined);
    status = status ? status : bt_mem_alloc(count, sizeof *f.reached, &reached);
    status = status ? status : bt_mem_alloc(1, sizeof *f.trial, &trial);
    status = status ? status : bt_mem_alloc(count, sizeof *plan->unit_of, &of);
    plan->unit_of = of;
    f.unit = unit, f.joined = joined, f.reached = reached, f.trial = trial;
    if (status == BT_OK) {
        for (int i = 0; i < graph->node_count; ++i) {
            f.unit[i] = i;
        }
        classify_products(&f);
        status = join_columns(&f);
        join_all(&f);
        join_siblings(&f);
        status = status ? status : keep_groups(&f);
    }
    bt_mem_free(unit);
    bt_mem_free(joined);
    bt_mem_free(reached);
    bt_mem_free(trial);
    return status;
}

void bt_fusion_dissolve(bt_fusion_plan *plan, int group)
{
    for (int i = 0; i < plan->node_count; ++i) {
        plan->unit_of[i] = plan->unit_of[i] == group ? -1 : plan->unit_of[i];
    }
}

void bt_fusion_plan_release(bt_fusion_plan *plan)
{
    for (int i = 0; i < plan->count; ++i) {
        bt_mem_free(plan->groups[i].group);
        bt_mem_free(plan->groups[i].nodes);
    }
    bt_mem_free(plan->groups);
    bt_mem_free(plan->unit_of);
    bt_str_release(&plan->decisions);
    *plan = (bt_fusion_plan){0};
}

void bt_fusion_plan_print(const bt_dag *graph, const bt_fusion_plan *plan, bt_str *out)
{
    for (int i = 0; i < plan->count; ++i) {
        const bt_fusion *x = &plan->groups[i];
        bt_str_format(out, "fusion %d bytes=%" PRId64 " before=%" PRId64 " nodes=", i,
                      x->bytes_after, x->bytes_before);
        for (int k = 0; k < x->node_count; ++k) {
            bt_str_format(out, "%s%d:%s", k ? "," : "", x->nodes[k],
                          bt_kernel_op_name(graph->nodes[x->nodes[k]].op));
        }
        bt_str_append(out, "\n");
        bt_fused_print(x->group, out);
    }
}
