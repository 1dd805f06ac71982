// framework/compiler/simplify_layout.c - rules about casts, copies and strides
#include <string.h>

#include "framework/compiler/simplify_parts.h"

// A copy that makes its whole result, in order.
static bool is_plain(bt_dag_node *node)
{
    const bt_copy_args *args = node->args;
    return bt_simplify_makes_whole(bt_simplify_operand(node, COPY_Y)) &&
           bt_simplify_is_contiguous(args->rank, args->shape, args->y_stride);
}

// One that also reads its whole operand in order.
static bool is_cast(const bt_simplify *w, bt_dag_node *node)
{
    const bt_copy_args *args = node->args;
    const bt_dag_operand *x = bt_simplify_operand(node, COPY_X);
    return is_plain(node) && x->offset_bytes == 0 &&
           bt_simplify_is_contiguous(args->rank, args->shape, args->x_stride) &&
           bt_simplify_count_of(w, x->value) == bt_simplify_product(args->rank, args->shape);
}

bool bt_rule_identity_copy(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_copy_args *args = node->args;
    return node->op == BT_KERNEL_COPY && args->x_dtype == args->y_dtype && is_cast(w, node) &&
           bt_simplify_redirect(w, bt_simplify_operand(node, COPY_Y)->result,
                                bt_simplify_operand(node, COPY_X)->value);
}

static bool holds_all_of(bt_dtype wide, bt_dtype narrow)
{
    return (wide == BT_F64 && (narrow == BT_F32 || narrow == BT_BF16)) ||
           (wide == BT_F32 && narrow == BT_BF16);
}

bool bt_rule_narrow_after_widen(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    const bt_copy_args *args = node->args;
    if (node->op != BT_KERNEL_COPY || !is_cast(w, node)) {
        return false;
    }
    bt_dag_node *first =
        bt_simplify_maker(w, bt_simplify_operand(node, COPY_X)->value, BT_KERNEL_COPY, COPY_Y);
    const bt_copy_args *before = first ? first->args : NULL;
    return before && is_cast(w, first) && before->x_dtype == args->y_dtype &&
           holds_all_of(before->y_dtype, before->x_dtype) &&
           bt_simplify_redirect(w, bt_simplify_operand(node, COPY_Y)->result,
                                bt_simplify_operand(first, COPY_X)->value);
}

// Strides into the copy's source for a reader that reads the copy's result with strides `seen` over
// `shape`. False if an axis of the reader is not an axis of the copy.
static bool compose(const bt_copy_args *copy, int rank, const int64_t *shape, const int64_t *seen,
                    int64_t *through)
{
    bool taken[BT_MAX_RANK] = {false};
    for (int i = 0; i < rank; ++i) {
        bool found = seen[i] == 0 || shape[i] == 1;
        through[i] = 0;
        int64_t step = 1;
        for (int k = copy->rank - 1; k >= 0 && !found; --k) {
            if (copy->shape[k] > 1 && step == seen[i] && shape[i] <= copy->shape[k] && !taken[k]) {
                through[i] = copy->x_stride[k];
                taken[k] = found = true;
            }
            step *= copy->shape[k];
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

// The copy of the same type, read by nothing else, that makes the operand; NULL: none.
static bt_dag_node *copy_before(const bt_simplify *w, const bt_dag_operand *x)
{
    bt_dag_node *first = bt_simplify_maker(w, x->value, BT_KERNEL_COPY, COPY_Y);
    const bt_copy_args *args = first ? first->args : NULL;
    return args && args->x_dtype == args->y_dtype && is_plain(first) && x->offset_bytes == 0 &&
                   w->uses[x->value] == 1
               ? first
               : NULL;
}

static bool read_through(bt_simplify *w, bt_dag_operand *x, int rank, const int64_t *shape,
                         int64_t *stride)
{
    int64_t through[BT_MAX_RANK];
    bt_dag_node *first = copy_before(w, x);
    if (!first || !compose(first->args, rank, shape, stride, through)) {
        return false;
    }
    memcpy(stride, through, (size_t)rank * sizeof *stride);
    x->value = bt_simplify_operand(first, COPY_X)->value;
    x->offset_bytes = bt_simplify_operand(first, COPY_X)->offset_bytes;
    return true;
}

bool bt_rule_copy_of_copy(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_copy_args *args = node->args;
    return node->op == BT_KERNEL_COPY && read_through(w, bt_simplify_operand(node, COPY_X),
                                                      args->rank, args->shape, args->x_stride);
}

bool bt_rule_operand_layout(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_binary_args *args = node->args;
    return node->op == BT_KERNEL_BINARY && (read_through(w, bt_simplify_operand(node, BINARY_A),
                                                         args->rank, args->shape, args->a_stride) ||
                                            read_through(w, bt_simplify_operand(node, BINARY_B),
                                                         args->rank, args->shape, args->b_stride));
}

// y = f(copy(u)) becomes y = copy(f(u)); f is computed in u's type.
static bool swap_with_copy(bt_simplify *w, bt_dag_node *node, bt_dag_node *first)
{
    bt_unary_args unary = *(const bt_unary_args *)node->args;
    bt_copy_args copy = *(const bt_copy_args *)first->args;
    const bt_dag_operand x = *bt_simplify_operand(first, COPY_X);
    const int y = bt_simplify_operand(node, UNARY_Y)->result;
    bt_dag_value made = w->graph->values[x.value];
    int between = -1;
    made.base = -1;
    made.is_output = false;
    made.name[0] = '\0';
    made.producer = (int)(first - w->graph->nodes);
    unary.count = bt_dag_value_count(&made);
    unary.dtype = made.dtype;
    w->status = bt_dag_value_append(w->graph, &made, &between);
    if (w->status) {
        return false;
    }
    const bt_dag_operand before[] = {{UNARY_X, x.value, -1, 0}, {UNARY_Y, -1, between, 0}};
    const bt_dag_operand after[] = {{COPY_X, between, -1, 0}, {COPY_Y, -1, y, 0}};
    w->graph->values[bt_simplify_operand(first, COPY_Y)->result].producer = BT_DAG_REMOVED;
    return bt_simplify_become(w, first, BT_KERNEL_UNARY, &unary, before, 2) &&
           bt_simplify_become(w, node, BT_KERNEL_COPY, &copy, after, 2);
}

// The copy whose whole result is a function's operand, and which reads its source from the start.
static bt_dag_node *copy_of_all(const bt_simplify *w, bt_dag_node *node)
{
    if (node->op != BT_KERNEL_UNARY ||
        !bt_simplify_makes_whole(bt_simplify_operand(node, UNARY_Y))) {
        return NULL;
    }
    const bt_dag_operand *x = bt_simplify_operand(node, UNARY_X);
    bt_dag_node *first = bt_simplify_maker(w, x->value, BT_KERNEL_COPY, COPY_Y);
    return first && is_plain(first) && x->offset_bytes == 0 && w->uses[x->value] == 1 &&
                   bt_simplify_count_of(w, x->value) ==
                       ((const bt_unary_args *)node->args)->count &&
                   bt_simplify_operand(first, COPY_X)->offset_bytes == 0 &&
                   bt_simplify_operand(first, COPY_X)->value >= 0
               ? first
               : NULL;
}

bool bt_rule_function_before_broadcast(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_dag_node *first = copy_of_all(w, node);
    const bt_copy_args *copy = first ? first->args : NULL;
    return copy && copy->x_dtype == copy->y_dtype &&
           bt_simplify_count_of(w, bt_simplify_operand(first, COPY_X)->value) <
               bt_simplify_product(copy->rank, copy->shape) &&
           swap_with_copy(w, node, first);
}

bool bt_rule_function_before_widen(bt_simplify *w, int at)
{
    bt_dag_node *node = &w->graph->nodes[at];
    bt_dag_node *first = copy_of_all(w, node);
    const bt_copy_args *copy = first ? first->args : NULL;
    const bt_unary function = copy ? ((const bt_unary_args *)node->args)->function : BT_UNARY_GELU;
    return copy && holds_all_of(copy->y_dtype, copy->x_dtype) && is_cast(w, first) &&
           (function == BT_UNARY_NEGATE || function == BT_UNARY_RELU) &&
           swap_with_copy(w, node, first);
}
