// framework/ops/feed_forward.c - a transformer's MLP: y = gelu(x w^T + b) v^T + c + residual
//
// One op, so that the slope of GELU and the sums for b's gradient are epilogues of the product dy v
// in the backward: the hidden gradient is written once, and not read for them. If
// context->recompute says so, pre-activation and activation are recomputed instead of saved.
#include "framework/ops/feed_forward.h"

#include "framework/linalg/gemm.h"
#include "framework/ops/linear.h"

// inputs x [.., in], w [hidden, in], b [hidden], v [out, hidden], c [out], residual [.., out]
// saved  feed_forward.h; pre-activation and activation [.., hidden]
enum { X = BT_FEED_X, W = BT_FEED_W, B = BT_FEED_B, V = BT_FEED_V, C = BT_FEED_C, RESIDUAL };
enum {
    SAVED_X = X,
    SAVED_W = W,
    SAVED_B = B,
    SAVED_V = V,
    SAVED_PRE = BT_FEED_PRE,
    SAVED_HIDDEN = BT_FEED_HIDDEN
};

bt_status bt_op_feed_forward_infer(bt_op_call *call)
{
    bt_shape shape = call->in[X]->shape;
    BT_TRY(bt_op_expect_float(call, X));
    BT_TRY(bt_linear_infer(call, X, W, B, &shape));
    BT_TRY(bt_linear_infer(call, W, V, C, &shape));
    BT_TRY(bt_linear_infer_residual(call, X, RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

void bt_feed_forward_save(bt_op_call *call, bt_recompute_mode mode, bt_tensor *pre,
                          bt_tensor *hidden)
{
    bt_tensor *const *in = call->in;
    const bool wants_x = in[X]->requires_grad, wants_w = in[W]->requires_grad;
    const bool uses_pre = wants_x || wants_w || (in[B] && in[B]->requires_grad);
    const bool uses_hidden = in[V]->requires_grad;
    const bool remakes_both = mode >= BT_RECOMPUTE_BLOCK && (uses_pre || uses_hidden);
    const bool remakes_hidden = mode >= BT_RECOMPUTE_GELU_LN && uses_hidden;
    const bool kept[BT_OP_MAX_SAVED] = {
        [SAVED_X] = wants_w || remakes_both,
        [SAVED_W] = wants_x || remakes_both,
        [SAVED_B] = remakes_both,
        [SAVED_V] = uses_pre,
        [SAVED_PRE] = !remakes_both && (uses_pre || remakes_hidden),
        [SAVED_HIDDEN] = !remakes_hidden && uses_hidden,
    };
    bt_tensor *const all[BT_OP_MAX_SAVED] = {
        [SAVED_X] = in[X], [SAVED_W] = in[W], [SAVED_B] = in[B],
        [SAVED_V] = in[V], [SAVED_PRE] = pre, [SAVED_HIDDEN] = hidden,
    };
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        call->saved[i] = kept[i] ? bt_tensor_retain(all[i]) : NULL;
    }
}

bt_gemm_args bt_feed_forward_hidden_args(const bt_context *context, const bt_tensor *x,
                                         const bt_tensor *w, const bt_tensor *b,
                                         const bt_tensor *pre, const bt_tensor *hidden)
{
    bt_gemm_args args = bt_linear_args(context, x, w, b, hidden);
    args.epilogue = BT_EPILOGUE_BIAS_GELU;
    args.aux = bt_tensor_data(pre);
    return args;
}

bt_gemm_args bt_feed_forward_dpre_args(const bt_context *context, const bt_tensor *dy,
                                       const bt_tensor *v, const bt_tensor *pre,
                                       const bt_tensor *dpre)
{
    bt_gemm_args args = bt_linear_dx_args(context, dy, v, dpre);
    args.epilogue = BT_EPILOGUE_DGELU;
    args.aux = bt_tensor_data(pre);
    return args;
}

// pre = x w^T + b, hidden = gelu(pre); new tensors, which the caller releases, also when this
// fails.
static bt_status make_hidden(bt_context *context, const bt_tensor *x, const bt_tensor *w,
                             const bt_tensor *b, bt_tensor **pre, bt_tensor **hidden)
{
    bt_shape shape = x->shape;
    shape.size[shape.rank - 1] = w->shape.size[0];
    BT_TRY(bt_tensor_create(context, x->dtype, shape, "pre-activation", pre));
    BT_TRY(bt_tensor_create(context, x->dtype, shape, "activation", hidden));
    const bt_gemm_args args = bt_feed_forward_hidden_args(context, x, w, b, *pre, *hidden);
    return bt_gemm(context, &args);
}

static bt_status make_output(bt_context *context, bt_op_call *call, const bt_tensor *hidden)
{
    bt_gemm_args args = bt_linear_args(context, hidden, call->in[V], call->in[C], call->out[0]);
    if (call->in[RESIDUAL]) {
        args.c = bt_tensor_data(call->in[RESIDUAL]);
        args.beta = 1;
    }
    return bt_gemm(context, &args);
}

bt_status bt_op_feed_forward_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *pre = NULL, *hidden = NULL;
    bt_status status = make_hidden(context, call->in[X], call->in[W], call->in[B], &pre, &hidden);
    if (status == BT_OK) {
        status = make_output(context, call, hidden);
    }
    if (status == BT_OK && call->recording) {
        bt_feed_forward_save(call, context->recompute, pre, hidden);
    }
    bt_tensor_release(pre);
    bt_tensor_release(hidden);
    return status;
}

bool bt_feed_forward_remakes(const bt_op_backward *call)
{
    bt_tensor *const *saved = call->saved;
    return !saved[SAVED_PRE] && !saved[SAVED_HIDDEN] && saved[SAVED_X] && saved[SAVED_W];
}

bt_status bt_feed_forward_restore(bt_context *context, const bt_op_backward *call, bt_tensor **pre,
                                  bt_tensor **hidden)
{
    bt_tensor *const *saved = call->saved;
    *pre = bt_tensor_retain(saved[SAVED_PRE]);
    *hidden = bt_tensor_retain(saved[SAVED_HIDDEN]);
    if (bt_feed_forward_remakes(call)) {
        return make_hidden(context, saved[SAVED_X], saved[SAVED_W], saved[SAVED_B], pre, hidden);
    }
    if (!*pre || *hidden || !call->din[V].wanted) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, (*pre)->dtype, (*pre)->shape, "activation", hidden));
    const bt_unary_args gelu = {.function = BT_UNARY_GELU,
                                .x = bt_tensor_data(*pre),
                                .y = bt_tensor_data(*hidden),
                                .count = bt_tensor_count(*pre),
                                .dtype = (*pre)->dtype,
                                .as_epilogue = true};
    return bt_context_launch(context, BT_KERNEL_UNARY, gelu.dtype, &gelu);
}

// dpre = (dy v) gelu'(pre); with the gradient of b, the sums of its columns, if `sums`.
static bt_status hidden_backward(bt_context *context, bt_op_backward *call, const bt_tensor *pre,
                                 bt_tensor *dpre, bool sums)
{
    bt_gemm_args args =
        bt_feed_forward_dpre_args(context, call->dout[0], call->saved[SAVED_V], pre, dpre);
    if (sums) {
        bt_tensor *db = NULL;
        args.dbias_accumulate = call->din[B].accumulate;
        BT_TRY(bt_grad_target(context, call, B, &db));
        args.dbias = bt_tensor_data(db);
        args.dbias_dtype = db->dtype;
    }
    return bt_gemm(context, &args);
}

// The gradients of x, w and b. If w's is computed now, b's is computed in the same product.
static bt_status inner_backward(bt_context *context, bt_op_backward *call, const bt_tensor *pre)
{
    bt_tensor *dpre = NULL, *x = call->saved[SAVED_X];
    const bool wants_b = call->din[B].wanted;
    bool with_w = false;
    if (!call->din[X].wanted && !call->din[W].wanted && !wants_b) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, pre->dtype, pre->shape, "gradient", &dpre));
    bt_status status =
        wants_b ? bt_linear_dw_takes_dbias(context, call, W, dpre, x, &with_w) : BT_OK;
    if (status == BT_OK) {
        status = hidden_backward(context, call, pre, dpre, wants_b && !with_w);
    }
    if (status == BT_OK && call->din[W].wanted) {
        status = with_w ? bt_linear_dw_dbias(context, call, W, B, dpre, x)
                        : bt_linear_dw(context, call, W, dpre, x);
    }
    if (status == BT_OK && call->din[X].wanted) {
        status = bt_linear_dx(context, call, X, dpre, call->saved[SAVED_W]);
    }
    bt_tensor_release(dpre);
    return status;
}

bt_status bt_op_feed_forward_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dy = call->dout[0], *pre = NULL, *hidden = NULL;
    bt_status status = bt_feed_forward_restore(context, call, &pre, &hidden);
    if (status == BT_OK) {
        status = bt_linear_dw_dbias(context, call, V, C, dy, hidden);
    }
    BT_TENSOR_RELEASE(hidden);
    if (status == BT_OK && call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
    if (status == BT_OK) {
        status = inner_backward(context, call, pre);
    }
    bt_tensor_release(pre);
    return status;
}

bt_status bt_feed_forward(bt_context *context, bt_tensor *x, bt_tensor *w, bt_tensor *b,
                          bt_tensor *v, bt_tensor *c, bt_tensor *residual, bt_tensor **out)
{
    bt_tensor *in[] = {x, w, b, v, c, residual};
    return bt_op_apply(context, BT_OP_FEED_FORWARD, NULL, in, 6, out);
}
