// framework/compiler/half_turn.c - products by a constant that swaps halves, as views
//
// M [dim, dim] has one entry of 1 or -1 a row: row i in column i + h modulo dim, h = dim / 2, and
// the entries of each half of the rows are equal. With x seen as [rows, 2, h], x M^T is x with the
// middle axis reversed, times the entry of each half; x M likewise with the entries of the other
// half.
#include "framework/compiler/half_turn.h"

#include <math.h>
#include <string.h>

#include "framework/tensor/tensor.h"

enum { GEMM_A, GEMM_B, GEMM_C, GEMM_D };
enum { BINARY_A, BINARY_B, BINARY_Y };
enum { DIM_MOST = 1024 };

// ---- finding ------------------------------------------------------------------------------------

static double element(const void *values, bt_dtype dtype, int64_t i)
{
    return dtype == BT_F32 ? (double)((const float *)values)[i]
                           : (double)bt_bf16_to_f32(((const uint16_t *)values)[i]);
}

static bool turns_halves(const void *values, bt_dtype dtype, int64_t dim)
{
    const int64_t half = dim / 2;
    for (int64_t i = 0; i < dim; ++i) {
        const double entry =
            element(values, dtype, (i < half ? 0 : half) * dim + (i < half ? half : 0));
        for (int64_t k = 0; k < dim; ++k) {
            const double expected = k == (i + half) % dim ? entry : 0;
            if (fabs(entry) != 1 || element(values, dtype, i * dim + k) != expected) {
                return false;
            }
        }
    }
    return true;
}

static bool may_turn(const bt_dag *graph, int value, const bt_tensor *source)
{
    const bt_shape *shape = source ? &source->shape : NULL;
    return shape && !source->requires_grad && shape->rank == 2 &&
           (source->dtype == BT_F32 || source->dtype == BT_BF16) && source->offset == 0 &&
           shape->size[0] == shape->size[1] && shape->size[0] % 2 == 0 && shape->size[0] > 0 &&
           shape->size[0] <= DIM_MOST && bt_tensor_is_contiguous(source) &&
           graph->values[value].dtype == source->dtype &&
           bt_dag_value_count(&graph->values[value]) == shape->size[0] * shape->size[0];
}

static bt_status look_at(const bt_dag_capture *capture, const bt_tensor *source, int64_t *dim)
{
    void *values = NULL;
    BT_TRY(bt_mem_alloc((size_t)bt_tensor_count(source), bt_dtype_size(source->dtype), &values));
    bt_status status = bt_tensor_read(capture->context, source, values);
    if (status == BT_OK && turns_halves(values, source->dtype, source->shape.size[0])) {
        *dim = source->shape.size[0];
    }
    bt_mem_free(values);
    return status;
}

bt_status bt_dag_find_half_turns(const bt_dag_capture *capture, const bt_dag *graph,
                                 int64_t **turns)
{
    void *block = NULL;
    bt_status status = BT_OK;
    *turns = NULL;
    BT_TRY(bt_mem_alloc((size_t)graph->value_count + 1, sizeof **turns, &block));
    int64_t *found = block;
    for (int i = 0; i < graph->value_count && status == BT_OK; ++i) {
        const bt_tensor *source = bt_dag_capture_source(capture, i);
        if (may_turn(graph, i, source)) {
            status = look_at(capture, source, &found[i]);
        }
    }
    if (status) {
        bt_mem_free(block);
        return status;
    }
    *turns = found;
    return BT_OK;
}

// ---- rewriting ----------------------------------------------------------------------------------

typedef struct work {
    bt_dag *graph;
    bt_dag_node *old; // owned [old_count]
    int old_count;
    int *uses;            // owned [value_count of the beginning]
    const int64_t *turns; // [turn_count]
    int turn_count;
    int changed;
} work;

static const bt_dag_operand *operand(const bt_dag_node *node, int field)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].field == field) {
            return &node->operands[i];
        }
    }
    return NULL;
}

// A plain product of dense rows by one of the matrices, optionally plus dense rows.
static bool is_half_turn(const work *w, const bt_dag_node *node)
{
    const bt_gemm_args *args = node->args;
    const bt_dag_operand *b = node->op == BT_KERNEL_GEMM ? operand(node, GEMM_B) : NULL;
    const bt_dag_operand *d = b ? operand(node, GEMM_D) : NULL;
    const bt_dag_operand *c = b ? operand(node, GEMM_C) : NULL;
    const int64_t dim = b && b->value < w->turn_count ? w->turns[b->value] : 0;
    return dim > 0 && d && d->value < 0 && d->offset_bytes == 0 && !args->trans_a &&
           node->operand_count == (c ? 4 : 3) && args->beta == (c ? 1 : 0) && args->alpha == 1 &&
           args->epilogue == BT_EPILOGUE_NONE && args->batch == 1 && args->n == dim &&
           args->k == dim && args->lda == dim && args->ldb == dim && args->ldd == dim &&
           (!c || args->ldc == dim) && args->ab_dtype == args->d_dtype && b->offset_bytes == 0;
}

static bt_status append(bt_dag *graph, const bt_dag_node *like, const bt_binary_args *args,
                        const bt_dag_operand *operands)
{
    bt_dag_node node = *like;
    bt_binary_args own = *args;
    node.op = BT_KERNEL_BINARY;
    node.args = &own;
    node.operand_count = 3;
    node.list = 0;
    memcpy(node.operands, operands, 3 * sizeof *operands);
    return bt_dag_node_append(graph, &node);
}

// If an elementwise call makes x and only the product reads it, that call reads the halves in
// reverse order itself. Then the product reads x contiguously and both fit one group.
static bool turn_producer(work *w, int value, int64_t dim)
{
    const int at = w->uses[value] == 1 ? w->graph->values[value].producer : -1;
    bt_dag_node *node = at >= 0 ? &w->graph->nodes[at] : NULL;
    bt_binary_args *args = node && node->op == BT_KERNEL_BINARY ? node->args : NULL;
    const int last = args ? args->rank - 1 : 0;
    if (!args || args->rank == 0 || args->rank == BT_MAX_RANK || args->shape[last] != dim ||
        operand(node, BINARY_Y)->offset_bytes != 0 || operand(node, BINARY_Y)->value >= 0) {
        return false;
    }
    int64_t *strides[] = {args->a_stride, args->b_stride};
    for (int k = 0; k < 2; ++k) {
        const int64_t step = strides[k][last], half = dim / 2 * step;
        node->operands[k].offset_bytes += half * (int64_t)bt_dtype_size(args->dtype);
        strides[k][last] = -half;
        strides[k][last + 1] = step;
    }
    args->shape[last] = 2;
    args->shape[last + 1] = dim / 2;
    args->rank += 1;
    return true;
}

static bt_status expand(work *w, const bt_dag_node *node)
{
    const bt_gemm_args *gemm = node->args;
    const bt_dag_operand *c = operand(node, GEMM_C), *d = operand(node, GEMM_D);
    const int64_t dim = gemm->n, half = dim / 2, size = (int64_t)bt_dtype_size(gemm->d_dtype);
    // Entries in row 0 (column half) and row half (column 0), in the order of the result's halves.
    const int64_t first = gemm->trans_b ? half : half * dim;
    const int64_t second = gemm->trans_b ? half * dim : half;
    bt_dag_operand x = *operand(node, GEMM_A), entry = *operand(node, GEMM_B);
    const bool turned = x.offset_bytes == 0 && turn_producer(w, x.value, dim);
    const bt_binary_args swap = {.function = BT_BINARY_MUL,
                                 .rank = 3,
                                 .shape = {gemm->m, 2, half},
                                 .a_stride = {dim, turned ? half : -half, 1},
                                 .b_stride = {0, second - first, 0},
                                 .dtype = gemm->d_dtype};
    int between = d->result;
    if (c) {
        bt_dag_value made = w->graph->values[d->result];
        made.is_output = false;
        made.base = -1;
        made.producer = -1;
        BT_TRY(bt_dag_value_append(w->graph, &made, &between));
    }
    x.field = BINARY_A;
    x.offset_bytes += turned ? 0 : half * size;
    entry.field = BINARY_B;
    entry.offset_bytes = first * size;
    const bt_dag_operand swapped[] = {x, entry, {BINARY_Y, -1, between, 0}};
    BT_TRY(append(w->graph, node, &swap, swapped));
    w->changed += 1;
    if (!c) {
        return BT_OK;
    }
    const bt_binary_args sum = {.function = BT_BINARY_ADD,
                                .rank = 1,
                                .shape = {gemm->m * dim},
                                .a_stride = {1},
                                .b_stride = {1},
                                .dtype = gemm->d_dtype};
    const bt_dag_operand summed[] = {{BINARY_A, between, -1, 0},
                                     {BINARY_B, c->value, -1, c->offset_bytes},
                                     {BINARY_Y, -1, d->result, 0}};
    return append(w->graph, node, &sum, summed);
}

static bt_status rewrite(work *w)
{
    for (int i = 0; i < w->old_count; ++i) {
        const bt_dag_node *node = &w->old[i];
        BT_TRY(is_half_turn(w, node) ? expand(w, node) : bt_dag_node_append(w->graph, node));
    }
    return BT_OK;
}

bt_status bt_dag_expand_half_turns(bt_dag *graph, const int64_t *turns, int turn_count,
                                   int *changed)
{
    work w = {.graph = graph,
              .old = graph->nodes,
              .old_count = graph->node_count,
              .turns = turns,
              .turn_count = turn_count};
    void *uses = NULL;
    *changed = 0;
    BT_TRY(bt_mem_alloc((size_t)graph->value_count + 1, sizeof *w.uses, &uses));
    w.uses = uses;
    bt_dag_uses(graph, w.uses);
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    const bt_status status = rewrite(&w);
    for (int i = 0; i < w.old_count; ++i) {
        bt_mem_free(w.old[i].args);
    }
    bt_mem_free(w.old);
    bt_mem_free(uses);
    *changed = w.changed;
    return status;
}
