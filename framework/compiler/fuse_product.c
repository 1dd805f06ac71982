// framework/compiler/fuse_product.c - products as instructions: a result, and what is added to it
//
// A product that BluBLAS computes (product.h) keeps its kernel's bits: its result is one
// instruction. A generated one is its sum over k, and then its own epilogue call by call.
#include "framework/compiler/fuse_build.h"
#include "framework/compiler/product.h"

enum { A, B, C, D, BIAS }; // fields in the order of operands.inl

// A builder that has failed makes nothing more; bt_fused_of_nodes says why.
static int call_operand(bt_fuse_build *b, const bt_dag_node *node, int field)
{
    const bt_dag_operand *x = bt_fuse_operand(node, field);
    const int64_t none[BT_MAX_RANK] = {0};
    for (int i = 0; i < b->made_count; ++i) {
        if (b->made[i].value == x->value) {
            bt_fuse_refuse(b, "the product reads all of it before the first result");
        }
    }
    const int operand = bt_fused_operand_add(&b->builder, b->graph->values[x->value].dtype, none);
    if (operand >= 0) {
        bt_fused_operand *made = &b->group->operands[operand];
        made->value = x->value;
        made->offset_bytes = x->offset_bytes;
        made->count = bt_dag_value_count(&b->graph->values[x->value]);
        made->is_read = true;
    }
    return operand;
}

static int result(bt_fuse_build *b, bt_dtype dtype, bt_fused_order order)
{
    const bt_fused_instruction made = {.op = BT_FUSED_RESULT,
                                       .dtype = dtype,
                                       .a = -1,
                                       .b = -1,
                                       .c = -1,
                                       .operand = -1,
                                       .order = order};
    return bt_fused_append(&b->builder, &made);
}

// (alpha A B + bias) + beta C, rounded to D's type at the end: what the kernels' epilogues add.
static int own_epilogue(bt_fuse_build *b, const bt_dag_node *node, bt_dtype dtype, int y)
{
    const bt_gemm_args *args = node->args;
    bt_fused_builder *to = &b->builder;
    if (args->alpha != 1) {
        y = bt_fused_binary(to, BT_FUSED_MUL, y, bt_fused_const(to, dtype, args->alpha));
    }
    if (args->epilogue == BT_EPILOGUE_BIAS) {
        y = bt_fused_binary(to, BT_FUSED_ADD, y,
                            bt_fuse_load(b, node, BIAS, BT_FUSE_FULL, 1, &args->n, (int64_t[]){1}));
    }
    if (args->beta != 0) {
        const int64_t shape[] = {args->batch * args->m, args->n}, stride[] = {args->ldc, 1};
        int c = bt_fuse_load(b, node, C, BT_FUSE_FULL, 2, shape, stride);
        if (args->beta != 1) {
            c = bt_fused_binary(to, BT_FUSED_MUL, c, bt_fused_const(to, dtype, args->beta));
        }
        y = bt_fused_binary(to, BT_FUSED_ADD, y, c);
    }
    return y;
}

// Why the product is not generated; NULL: it is.
static const char *stays(const bt_gemm_args *args)
{
    return !bt_product_is_generated(bt_product_classify(args)) ? "BluBLAS computes such products"
           : args->epilogue > BT_EPILOGUE_BIAS || args->dbias  ? "it has an epilogue of its own"
           : args->batch > 1 && args->beta != 0 && args->stride_c != args->m * args->ldc
               ? "its addend is not dense"
               : NULL;
}

static void generated(bt_fuse_build *b, const bt_dag_node *node)
{
    bt_gemm_args *made = &b->group->product;
    const bt_dtype dtype = made->d_dtype == BT_F64 ? BT_F64 : BT_F32;
    const bt_fused_order any = {.sum = dtype};
    const bt_fused_order ascending = {.lanes = 1, .part = dtype, .sum = dtype};
    const int sum = result(b, dtype, b->any_order ? any : ascending);
    bt_fuse_define(b, node, D, BT_FUSE_FULL, own_epilogue(b, node, dtype, sum));
    made->alpha = 1;
    made->beta = 0;
    made->epilogue = BT_EPILOGUE_NONE;
    made->d_dtype = dtype;
}

void bt_fuse_product(bt_fuse_build *b, const bt_dag_node *node)
{
    const bt_gemm_args *args = node->args;
    const bool plain = args->epilogue == BT_EPILOGUE_NONE && args->beta == 0 && !args->dbias &&
                       node->operand_count == 3;
    if (bt_fuse_operand(node, D)->value >= 0) {
        bt_fuse_refuse(b, "it writes a part of a storage");
    }
    if (b->products) {
        bt_fuse_refuse(b, stays(args));
    } else if (!plain) {
        bt_fuse_refuse(b, "it has an epilogue of its own");
    } else if (args->d_dtype != BT_F32 && args->d_dtype != BT_F64) {
        bt_fuse_refuse(b, "its result is rounded to bf16");
    }
    if (b->why) {
        return;
    }
    b->group->product = *args;
    b->group->product.stride_d = args->m * args->n;
    b->group->call_operand[0] = call_operand(b, node, A);
    b->group->call_operand[1] = call_operand(b, node, B);
    if (b->products) {
        generated(b, node);
    } else {
        bt_fuse_define(b, node, D, BT_FUSE_FULL, result(b, args->d_dtype, (bt_fused_order){0}));
    }
}
