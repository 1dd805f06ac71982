// framework/compiler/epilogue.c - additions after products become epilogues of the products
#include "framework/compiler/epilogue.h"

#include <string.h>

enum { GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_BIAS };
enum { BINARY_A, BINARY_B, BINARY_Y };

static const bt_dag_operand *operand(const bt_dag_node *node, int field)
{
    for (int i = 0; i < node->operand_count; ++i) {
        if (node->operands[i].field == field) {
            return &node->operands[i];
        }
    }
    return NULL;
}

static bool makes_whole(const bt_dag_operand *x)
{
    return x && x->result >= 0 && x->value < 0 && x->offset_bytes == 0;
}

static bool is_dense(const bt_binary_args *sum, const int64_t *stride)
{
    int64_t step = 1;
    for (int i = sum->rank - 1; i >= 0; step *= sum->shape[i--]) {
        if (sum->shape[i] > 1 && stride[i] != step) {
            return false;
        }
    }
    return true;
}

// One value per column of n.
static bool is_bias(const bt_binary_args *sum, const int64_t *stride, int64_t n)
{
    const int last = sum->rank - 1;
    for (int i = 0; i < last; ++i) {
        if (sum->shape[i] > 1 && stride[i] != 0) {
            return false;
        }
    }
    return last >= 0 && sum->shape[last] == n && stride[last] == 1;
}

// Can the product still take an addend?
static bool is_plain(const bt_dag *graph, const bt_dag_node *node, const int *uses)
{
    const bt_gemm_args *args = node->args;
    const bt_dag_operand *d = node->op == BT_KERNEL_GEMM ? operand(node, GEMM_D) : NULL;
    return makes_whole(d) && uses[d->result] == 1 && args->beta == 0 && args->batch == 1 &&
           args->ldd == args->n && node->list == 0 && !operand(node, GEMM_C) &&
           (args->epilogue == BT_EPILOGUE_NONE || args->epilogue == BT_EPILOGUE_BIAS) &&
           node->operand_count == (args->epilogue == BT_EPILOGUE_BIAS ? 4 : 3) &&
           bt_dag_value_count(&graph->values[d->result]) == args->m * args->n;
}

// Replaces the addition by the product with that addend.
static bool join(const bt_dag *graph, const bt_dag_node *product, const bt_dag_node *sum, int side,
                 bt_gemm_args *args, bt_dag_node *out)
{
    const bt_binary_args *add = sum->args;
    const bt_dag_operand *y = operand(sum, BINARY_Y);
    const bt_dag_operand *other = operand(sum, side == BINARY_A ? BINARY_B : BINARY_A);
    const bt_dag_operand *made = operand(sum, side);
    const int64_t *own = side == BINARY_A ? add->a_stride : add->b_stride;
    const int64_t *stride = side == BINARY_A ? add->b_stride : add->a_stride;
    *args = *(const bt_gemm_args *)product->args;
    *out = *product;
    out->args = args;
    out->phase = sum->phase;
    if (add->function != BT_BINARY_ADD || !makes_whole(y) || made->offset_bytes != 0 ||
        add->dtype != args->d_dtype || !is_dense(add, own) ||
        bt_dag_value_count(&graph->values[y->result]) != args->m * args->n) {
        return false;
    }
    bt_dag_operand addend = *other;
    if (is_dense(add, stride)) {
        addend.field = GEMM_C;
        args->beta = 1;
        args->ldc = args->n;
    } else if (is_bias(add, stride, args->n) && args->epilogue == BT_EPILOGUE_NONE &&
               add->dtype == args->ab_dtype) {
        addend.field = GEMM_BIAS;
        args->epilogue = BT_EPILOGUE_BIAS;
    } else {
        return false;
    }
    for (int i = 0; i < out->operand_count; ++i) {
        if (out->operands[i].field == GEMM_D) {
            out->operands[i].result = y->result;
        }
    }
    int at = out->operand_count++; // fields ascend
    for (; at > 0 && out->operands[at - 1].field > addend.field; --at) {
        out->operands[at] = out->operands[at - 1];
    }
    out->operands[at] = addend;
    return true;
}

// Node `at`, an addition, is merged with the product of one of its operands; *gone: that product.
static bt_status absorb(bt_dag *graph, int at, const int *uses, int *gone)
{
    bt_dag_node *sum = &graph->nodes[at];
    *gone = -1;
    for (int side = BINARY_A; side <= BINARY_B && sum->op == BT_KERNEL_BINARY; ++side) {
        const int value = operand(sum, side)->value;
        const int producer = graph->values[value].producer;
        bt_gemm_args args;
        bt_dag_node joined;
        void *own = NULL;
        if (producer < 0 || !is_plain(graph, &graph->nodes[producer], uses) ||
            !join(graph, &graph->nodes[producer], sum, side, &args, &joined)) {
            continue;
        }
        BT_TRY(bt_mem_alloc(1, sizeof args, &own));
        memcpy(own, &args, sizeof args);
        bt_mem_free(sum->args);
        *sum = joined;
        sum->args = own;
        graph->values[value].producer = BT_DAG_REMOVED;
        *gone = producer;
        return BT_OK;
    }
    return BT_OK;
}

static void remove_node(bt_dag *graph, int at)
{
    bt_mem_free(graph->nodes[at].args);
    memmove(graph->nodes + at, graph->nodes + at + 1,
            (size_t)(graph->node_count - at - 1) * sizeof *graph->nodes);
    graph->node_count -= 1;
    for (int i = at; i < graph->node_count; ++i) {
        const bt_dag_node *node = &graph->nodes[i];
        for (int k = 0; k < node->operand_count; ++k) {
            if (node->operands[k].result >= 0) {
                graph->values[node->operands[k].result].producer = i;
            }
        }
    }
}

bt_status bt_dag_absorb_sums(bt_dag *graph, int *absorbed)
{
    void *block = NULL;
    bt_status status = BT_OK;
    *absorbed = 0;
    BT_TRY(bt_mem_alloc((size_t)graph->value_count + 1, sizeof(int), &block));
    bt_dag_uses(graph, block);
    for (int i = 0; i < graph->node_count && status == BT_OK; ++i) {
        int gone = -1;
        status = absorb(graph, i, block, &gone);
        if (gone >= 0) {
            remove_node(graph, gone);
            *absorbed += 1;
            i -= 2; // the merged product may absorb another addition
            i = i < -1 ? -1 : i;
        }
    }
    bt_mem_free(block);
    return status;
}
