// framework/ops/feed_forward.c - a transformer's MLP: y = gelu(x w^T + b) v^T + c + residual
//
// One op, so that the slope of GELU and the sums for b's gradient are endings of the product dy v
// in the backward: the hidden gradient is written once, and never read for them.
#include "framework/linalg/gemm.h"
#include "framework/ops/linear.h"
#include "framework/ops/ops.h"

// inputs x [.., in], w [hidden, in], b [hidden], v [out, hidden], c [out], residual [.., out]
// saved  x (for w's gradient), w (for x's), activation [.., hidden] (for v's); v and pre-activation
//        [.., hidden] (for those of x, w and b)
enum { X, W, B, V, C, RESIDUAL };
enum { SAVED_X, SAVED_W, SAVED_V, SAVED_PRE, SAVED_HIDDEN };

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

static void save(bt_op_call *call, bt_tensor *pre, bt_tensor *hidden)
{
    bt_tensor *const *in = call->in;
    const bool wants_x = in[X]->requires_grad, wants_w = in[W]->requires_grad;
    if (wants_x || wants_w || (in[B] && in[B]->requires_grad)) {
        call->saved[SAVED_V] = bt_tensor_retain(in[V]);
        call->saved[SAVED_PRE] = bt_tensor_retain(pre);
    }
    call->saved[SAVED_X] = wants_w ? bt_tensor_retain(in[X]) : NULL;
    call->saved[SAVED_W] = wants_x ? bt_tensor_retain(in[W]) : NULL;
    call->saved[SAVED_HIDDEN] = in[V]->requires_grad ? bt_tensor_retain(hidden) : NULL;
}

static bt_status launch(bt_context *context, bt_op_call *call, bt_tensor *pre, bt_tensor *hidden)
{
    bt_gemm_args args = bt_linear_args(context, call->in[X], call->in[W], call->in[B], hidden);
    args.epilogue = BT_EPILOGUE_BIAS_GELU;
    args.aux = bt_tensor_data(pre);
    BT_TRY(bt_gemm(context, &args));
    args = bt_linear_args(context, hidden, call->in[V], call->in[C], call->out[0]);
    if (call->in[RESIDUAL]) {
        args.c = bt_tensor_data(call->in[RESIDUAL]);
        args.beta = 1;
    }
    return bt_gemm(context, &args);
}

bt_status bt_op_feed_forward_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *pre = NULL, *hidden = NULL;
    bt_dtype dtype = call->in[X]->dtype;
    bt_shape shape = call->in[X]->shape;
    bt_status status = BT_OK;
    shape.size[shape.rank - 1] = call->in[W]->shape.size[0];
    BT_TRY_GOTO(bt_tensor_create(context, dtype, shape, "pre-activation", &pre), done);
    BT_TRY_GOTO(bt_tensor_create(context, dtype, shape, "activation", &hidden), done);
    BT_TRY_GOTO(launch(context, call, pre, hidden), done);
    if (call->recording) {
        save(call, pre, hidden);
    }
done:
    bt_tensor_release(pre);
    bt_tensor_release(hidden);
    return status;
}

// dpre = (dy v) gelu'(pre); the gradient of b, where it is wanted, is the sums of its columns.
static bt_status hidden_backward(bt_context *context, bt_op_backward *call, bt_tensor *dpre)
{
    bt_gemm_args args = bt_linear_dx_args(context, call->dout[0], call->saved[SAVED_V], dpre);
    args.epilogue = BT_EPILOGUE_DGELU;
    args.aux = bt_tensor_data(call->saved[SAVED_PRE]);
    if (call->din[B].wanted) {
        bt_tensor *db = NULL;
        args.dbias_accumulate = call->din[B].accumulate;
        BT_TRY(bt_grad_target(context, call, B, &db));
        args.dbias = bt_tensor_data(db);
        args.dbias_dtype = db->dtype;
    }
    return bt_gemm(context, &args);
}

bt_status bt_op_feed_forward_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *dpre = NULL;
    if (call->din[V].wanted) {
        BT_TRY(bt_linear_dw(context, call, V, dy, call->saved[SAVED_HIDDEN]));
    }
    if (call->din[C].wanted) {
        BT_TRY(bt_linear_dbias(context, call, C, dy));
    }
    if (call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
    if (!call->din[X].wanted && !call->din[W].wanted && !call->din[B].wanted) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, dy->dtype, call->saved[SAVED_PRE]->shape, "gradient", &dpre));
    bt_status status = hidden_backward(context, call, dpre);
    if (status == BT_OK && call->din[W].wanted) {
        status = bt_linear_dw(context, call, W, dpre, call->saved[SAVED_X]);
    }
    if (status == BT_OK && call->din[X].wanted) {
        status = bt_linear_dx(context, call, X, dpre, call->saved[SAVED_W]);
    }
    bt_tensor_release(dpre);
    return status;
}

bool bt_op_feed_forward_sample(int variant, bt_op_sample *out)
{
    // Variants: plain, both biases, these and a residual.
    *out = (bt_op_sample){.in_count = 6,
                          .in = {{BT_F64, BT_SHAPE(2, 3, 5)},
                                 {BT_F64, BT_SHAPE(7, 5)},
                                 {BT_F64, BT_SHAPE(7)},
                                 {BT_F64, BT_SHAPE(4, 7)},
                                 {BT_F64, BT_SHAPE(4)},
                                 {BT_F64, BT_SHAPE(2, 3, 4)}},
                          .present = {true, true, variant >= 1, true, variant >= 1, variant == 2},
                          .low = {-1, -1, -1, -1, -1, -1},
                          .high = {1, 1, 1, 1, 1, 1}};
    return variant < 3;
}

bt_status bt_feed_forward(bt_context *context, bt_tensor *x, bt_tensor *w, bt_tensor *b,
                          bt_tensor *v, bt_tensor *c, bt_tensor *residual, bt_tensor **out)
{
    bt_op_attrs attrs = {0};
    bt_tensor *in[] = {x, w, b, v, c, residual};
    return bt_op_apply(context, BT_OP_FEED_FORWARD, &attrs, in, 6, out);
}
