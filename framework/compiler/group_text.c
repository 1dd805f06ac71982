// framework/compiler/group_text.c - groups as text
#include "framework/compiler/group.h"

static void print_sizes(const char *name, const int64_t *sizes, int rank, bool any_first,
                        bt_str *out)
{
    bt_str_format(out, any_first ? " %s=*" : " %s", name);
    for (int i = any_first; i < rank; ++i) {
        bt_str_format(out, "%c%lld", i ? ',' : '=', (long long)sizes[i]);
    }
}

static void print_order(const bt_fused_order *order, bt_str *out)
{
    if (order->lanes) {
        bt_str_format(out, " lanes=%d block=%lld%s part=%s sum=%s", order->lanes,
                      (long long)order->block, order->tail ? " tail" : "",
                      bt_dtype_name(order->part), bt_dtype_name(order->sum));
    } else {
        bt_str_format(out, " order=any sum=%s", bt_dtype_name(order->sum));
    }
}

static void print_instruction(const bt_fused_instruction *x, int at, bt_str *out)
{
    const int uses[] = {x->a, x->b, x->c};
    bt_str_format(out, "  %%%d = %s %s", at, bt_fused_op_text(x->op), bt_dtype_name(x->dtype));
    for (int i = 0; i < 3 && i < bt_fused_op_uses(x->op); ++i) {
        bt_str_format(out, " %%%d", uses[i]);
    }
    if ((x->op == BT_FUSED_LOAD || x->op == BT_FUSED_STORE || x->op == BT_FUSED_STORE_ADD)) {
        bt_str_format(out, " operand=%d", x->operand);
    }
    if (x->op == BT_FUSED_CONST) {
        bt_str_format(out, " value=%a", x->value);
    } else if (x->op == BT_FUSED_UNARY || x->op == BT_FUSED_SLOPE) {
        bt_str_format(out, " function=%s alpha=%a", bt_unary_name(x->function), x->value);
    } else if (x->op == BT_FUSED_INDEX) {
        bt_str_format(out, " axis=%d", x->axis);
    } else if (x->op == BT_FUSED_KEEP) {
        bt_str_format(out, " rate=%a seed=%llu stream=%llu", x->dropout.rate,
                      (unsigned long long)x->dropout.seed, (unsigned long long)x->dropout.stream);
    } else if (bt_fused_op_reduces(x->op) || x->op == BT_FUSED_RESULT) {
        print_order(&x->order, out);
    }
    bt_str_format(out, " per=%s\n", bt_fused_extent_text(x->extent));
}

static void print_call(const bt_fused *g, bt_str *out)
{
    const bt_gemm_args *p = &g->product;
    const bt_attention_shape *s = &g->attention;
    if (g->kind == BT_FUSED_PRODUCT) {
        bt_str_format(out, "  product m=%lld n=%lld k=%lld batch=%lld trans=%d%d lda=%lld ldb=%lld",
                      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->batch,
                      p->trans_a, p->trans_b, (long long)p->lda, (long long)p->ldb);
        bt_str_format(
            out, " stride_a=%lld stride_b=%lld alpha=%a dtype=%s compute=%d operands=%d,%d\n",
            (long long)p->stride_a, (long long)p->stride_b, p->alpha, bt_dtype_name(p->ab_dtype),
            (int)p->compute, g->call_operand[0], g->call_operand[1]);
    } else if (g->kind == BT_FUSED_ATTENTION) {
        bt_str_format(out, "  attention batch=%lld heads=%lld,%lld tokens=%lld,%lld dim=%lld",
                      (long long)s->batch, (long long)s->heads, (long long)s->kv_heads,
                      (long long)s->q_tokens, (long long)s->kv_tokens, (long long)s->head_dim);
        bt_str_format(out, " scale=%a causal=%d window=%lld operands=%d,%d,%d\n", s->scale,
                      s->causal, (long long)s->window, g->call_operand[0], g->call_operand[1],
                      g->call_operand[2]);
    }
}

void bt_fused_print(const bt_fused *group, bt_str *out)
{
    bt_str_format(out, "group %s", bt_fused_kind_text(group->kind));
    print_sizes("shape", group->shape, group->rank, group->dynamic_rows, out);
    bt_str_append(out, group->dynamic_rows ? " dynamic\n" : "\n");
    for (int i = 0; i < group->operand_count; ++i) {
        const bt_fused_operand *x = &group->operands[i];
        bt_str_format(out, "  operand %d %s%s%s", i, bt_dtype_name(x->dtype),
                      x->is_read ? " read" : "", x->is_written ? " written" : "");
        print_sizes("stride", x->stride, group->rank, false, out);
        bt_str_append(out, "\n");
    }
    print_call(group, out);
    for (int i = 0; i < group->code_count; ++i) {
        print_instruction(&group->code[i], i, out);
    }
}
