// framework/ops/weight_grads.c - the queue of weight gradients
#include "framework/ops/weight_grads.h"

#include "framework/linalg/gemm.h"

enum { OPERAND_BYTES_MOST = 64 << 20 };

bool bt_weight_grads_wait(const bt_context *context, const bt_grad *grad, const bt_gemm_args *args)
{
    const bt_gemm_grouped_args alone = {args, 1};
    int64_t bytes = (args->m + args->n) * args->k * (int64_t)bt_dtype_size(args->ab_dtype);
    return grad->leaf && bytes <= OPERAND_BYTES_MOST &&
           bt_kernel_lookup(context->device, BT_KERNEL_GEMM_GROUPED, args->ab_dtype, &alone);
}

bt_status bt_weight_grads_add(bt_context *context, const bt_grad *grad, const bt_gemm_args *args,
                              bt_tensor *a, bt_tensor *b)
{
    bt_weight_grads *waiting = context->weight_grads;
    if (!bt_weight_grads_wait(context, grad, args)) {
        return bt_gemm(context, args);
    }
    waiting->products[waiting->count] = *args;
    waiting->operands[waiting->count][0] = bt_tensor_retain(a);
    waiting->operands[waiting->count][1] = bt_tensor_retain(b);
    waiting->leaves[waiting->count++] = bt_tensor_retain(grad->leaf);
    ++grad->leaf->grad_pending;
    return BT_OK;
}

bt_status bt_weight_grads_run(bt_context *context, int least, bt_status status)
{
    if (!context->weight_grads || context->weight_grads->count < least) {
        return status;
    }
    const bt_weight_grads due = *context->weight_grads; // a hook may begin another backward
    context->weight_grads->count = 0;
    if (status == BT_OK) {
        bt_range_push(context, "weight_grads");
        status = bt_error_context(bt_gemm_grouped(context, due.products, due.count),
                                  "weight gradients of \"%s\" to \"%s\"", due.leaves[0]->name,
                                  due.leaves[due.count - 1]->name);
        bt_range_pop(context);
    }
    for (int i = 0; i < due.count; ++i) {
        bt_tensor_release(due.operands[i][0]);
        bt_tensor_release(due.operands[i][1]);
    }
    for (int i = 0; i < due.count; ++i) {
        status = bt_leaf_fed(context, due.leaves[i], status);
        bt_tensor_release(due.leaves[i]);
    }
    return status;
}

bt_status bt_leaf_fed(bt_context *context, bt_tensor *leaf, bt_status status)
{
    bool complete = --leaf->grad_pending == 0;
    if (status != BT_OK || !leaf->grad) {
        return status;
    }
    if (complete) {
        return leaf->grad_hook.ready
                   ? leaf->grad_hook.ready(leaf->grad_hook.self, context, leaf->grad)
                   : BT_OK;
    }
    return leaf->grad_hook.part ? leaf->grad_hook.part(leaf->grad_hook.self, context, leaf) : BT_OK;
}
