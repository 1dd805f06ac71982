// framework/ops/linear.c - matrix products: linear layers, batched matmul
#include "framework/ops/linear.h"

#include "framework/linalg/gemm.h"
#include "framework/ops/weight_grads.h"

// ---- linear -------------------------------------------------------------------------------------
// inputs x [.., in], w [out, in], bias [out], residual [.., out]
// saved  x (for w's gradient), w (for x's), pre-activation [.., out] (GELU only)

static const bt_attr_field linear_fields[] = {BT_ATTR(bt_linear_attrs, activation, ACTIVATION)};
const bt_op_attrs bt_attrs_linear = BT_OP_ATTRS(bt_linear_attrs, linear_fields);

enum { LINEAR_X, LINEAR_W, LINEAR_BIAS, LINEAR_RESIDUAL };

static int64_t last_size(const bt_shape *shape) { return shape->size[shape->rank - 1]; }

int64_t bt_linear_rows(const bt_tensor *x)
{
    bt_shape leading = x->shape;
    leading.size[leading.rank - 1] = 1;
    return bt_shape_count(&leading);
}

bt_status bt_linear_infer(const bt_op_call *call, int x, int weight, int bias, bt_shape *shape)
{
    const bt_tensor *w = call->in[weight];
    BT_TRY(bt_op_expect_float(call, weight));
    if (w->dtype != call->in[x]->dtype || shape->rank < 1 || w->shape.rank != 2 ||
        last_size(shape) != w->shape.size[1]) {
        return bt_op_mismatch(call, x, weight);
    }
    shape->size[shape->rank - 1] = w->shape.size[0];
    if (call->in[bias]) {
        const bt_tensor *b = call->in[bias];
        BT_TRY(bt_op_expect_float(call, bias));
        if (b->dtype != w->dtype || b->shape.rank != 1 || b->shape.size[0] != w->shape.size[0]) {
            return bt_op_mismatch(call, weight, bias);
        }
    }
    return BT_OK;
}

bt_status bt_linear_infer_residual(const bt_op_call *call, int x, int residual,
                                   const bt_shape *shape)
{
    const bt_tensor *given = call->in[residual];
    if (given) {
        BT_TRY(bt_op_expect_float(call, residual));
        if (given->dtype != call->in[x]->dtype || !bt_shape_equal(&given->shape, shape)) {
            return bt_op_mismatch(call, x, residual);
        }
    }
    return BT_OK;
}

bt_gemm_args bt_linear_args(const bt_context *context, const bt_tensor *x, const bt_tensor *w,
                            const bt_tensor *bias, const bt_tensor *y)
{
    return (bt_gemm_args){.m = bt_linear_rows(x),
                          .n = w->shape.size[0],
                          .k = w->shape.size[1],
                          .trans_b = true,
                          .a = bt_tensor_data(x),
                          .b = bt_tensor_data(w),
                          .d = bt_tensor_data(y),
                          .lda = w->shape.size[1],
                          .ldb = w->shape.size[1],
                          .ldc = w->shape.size[0],
                          .ldd = w->shape.size[0],
                          .batch = 1,
                          .alpha = 1,
                          .epilogue = bias ? BT_EPILOGUE_BIAS : BT_EPILOGUE_NONE,
                          .bias = bias ? bt_tensor_data(bias) : NULL,
                          .ab_dtype = x->dtype,
                          .d_dtype = x->dtype,
                          .compute = context->compute};
}

bt_gemm_args bt_linear_dx_args(const bt_context *context, const bt_tensor *dy, const bt_tensor *w,
                               const bt_tensor *dx)
{
    return (bt_gemm_args){.m = bt_linear_rows(dy),
                          .n = w->shape.size[1],
                          .k = w->shape.size[0],
                          .a = bt_tensor_data(dy),
                          .b = bt_tensor_data(w),
                          .c = bt_tensor_data(dx),
                          .d = bt_tensor_data(dx),
                          .lda = w->shape.size[0],
                          .ldb = w->shape.size[1],
                          .ldc = w->shape.size[1],
                          .ldd = w->shape.size[1],
                          .batch = 1,
                          .alpha = 1,
                          .ab_dtype = dy->dtype,
                          .d_dtype = dx->dtype,
                          .compute = context->compute};
}

bt_status bt_linear_dx(bt_context *context, bt_op_backward *call, int x, const bt_tensor *dy,
                       const bt_tensor *w)
{
    bt_tensor *dx = NULL;
    bool accumulate = call->din[x].accumulate;
    BT_TRY(bt_grad_target(context, call, x, &dx));
    bt_gemm_args args = bt_linear_dx_args(context, dy, w, dx);
    args.beta = accumulate ? 1 : 0;
    return bt_gemm(context, &args);
}

bt_gemm_args bt_linear_dw_args(const bt_context *context, const bt_tensor *dy, const bt_tensor *x,
                               const bt_tensor *dw)
{
    int64_t out = dw->shape.size[0];
    int64_t in = dw->shape.size[1];
    return (bt_gemm_args){.m = out,
                          .n = in,
                          .k = bt_linear_rows(x),
                          .trans_a = true,
                          .a = bt_tensor_data(dy),
                          .b = bt_tensor_data(x),
                          .c = bt_tensor_data(dw),
                          .d = bt_tensor_data(dw),
                          .lda = out,
                          .ldb = in,
                          .ldc = in,
                          .ldd = in,
                          .batch = 1,
                          .alpha = 1,
                          .ab_dtype = x->dtype,
                          .d_dtype = dw->dtype,
                          .compute = context->compute};
}

bt_status bt_linear_dw(bt_context *context, bt_op_backward *call, int weight, bt_tensor *dy,
                       bt_tensor *x)
{
    bt_tensor *dw = NULL;
    double beta = call->din[weight].accumulate ? 1 : 0;
    BT_TRY(bt_grad_target(context, call, weight, &dw));
    bt_gemm_args args = bt_linear_dw_args(context, dy, x, dw);
    args.beta = beta;
    return bt_weight_grads_add(context, &call->din[weight], &args, dy, x);
}

bt_status bt_linear_dbias(bt_context *context, bt_op_backward *call, int bias, const bt_tensor *dy)
{
    bt_tensor *dbias = NULL;
    bool accumulate = call->din[bias].accumulate;
    BT_TRY(bt_grad_target(context, call, bias, &dbias));
    bt_reduce_sum_args args = {.x = bt_tensor_data(dy),
                               .y = bt_tensor_data(dbias),
                               .outer = 1,
                               .reduce = bt_linear_rows(dy),
                               .inner = last_size(&dy->shape),
                               .scale = 1,
                               .accumulate = accumulate,
                               .dtype = dy->dtype,
                               .y_dtype = dbias->dtype};
    return bt_context_launch(context, BT_KERNEL_REDUCE_SUM, dy->dtype, &args);
}

bt_status bt_linear_dw_takes_dbias(bt_context *context, bt_op_backward *call, int weight,
                                   const bt_tensor *dy, const bt_tensor *x, bool *out)
{
    bt_tensor *dw = NULL;
    *out = false;
    if (call->din[weight].wanted) {
        BT_TRY(bt_grad_target(context, call, weight, &dw));
        const bt_gemm_args args = bt_linear_dw_args(context, dy, x, dw);
        *out = !bt_weight_grads_wait(context, &call->din[weight], &args);
    }
    return BT_OK;
}

bt_status bt_linear_dw_dbias(bt_context *context, bt_op_backward *call, int weight, int bias,
                             bt_tensor *dy, bt_tensor *x)
{
    bt_tensor *dw = NULL, *dbias = NULL;
    const double beta = call->din[weight].accumulate ? 1 : 0;
    const bool accumulate = call->din[bias].accumulate;
    bool together = false;
    if (call->din[bias].wanted) {
        BT_TRY(bt_linear_dw_takes_dbias(context, call, weight, dy, x, &together));
    }
    if (!together) {
        BT_TRY(call->din[weight].wanted ? bt_linear_dw(context, call, weight, dy, x) : BT_OK);
        return call->din[bias].wanted ? bt_linear_dbias(context, call, bias, dy) : BT_OK;
    }
    BT_TRY(bt_grad_target(context, call, weight, &dw));
    BT_TRY(bt_grad_target(context, call, bias, &dbias));
    bt_gemm_args args = bt_linear_dw_args(context, dy, x, dw);
    args.beta = beta;
    args.dbias = bt_tensor_data(dbias);
    args.dbias_dtype = dbias->dtype;
    args.dbias_accumulate = accumulate;
    args.dbias_of_a = true;
    return bt_gemm(context, &args);
}

bt_status bt_op_linear_infer(bt_op_call *call)
{
    bt_shape shape = call->in[LINEAR_X]->shape;
    BT_TRY(bt_op_expect_float(call, LINEAR_X));
    BT_TRY(bt_linear_infer(call, LINEAR_X, LINEAR_W, LINEAR_BIAS, &shape));
    BT_TRY(bt_linear_infer_residual(call, LINEAR_X, LINEAR_RESIDUAL, &shape));
    if (call->in[LINEAR_RESIDUAL] && BT_ATTRS(call, linear)->activation != BT_ACTIVATION_NONE) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "residual together with an activation");
    }
    call->out_spec[0] = (bt_op_spec){call->in[LINEAR_X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_linear_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *x = call->in[LINEAR_X];
    bt_tensor *w = call->in[LINEAR_W];
    bt_tensor *residual = call->in[LINEAR_RESIDUAL];
    bt_gemm_args args = bt_linear_args(context, x, w, call->in[LINEAR_BIAS], call->out[0]);
    call->remake = context->recompute >= BT_RECOMPUTE_BLOCK && !residual;
    if (residual) {
        args.c = bt_tensor_data(residual);
        args.beta = 1;
    }
    if (call->recording) {
        call->saved[0] = w->requires_grad ? bt_tensor_retain(x) : NULL;
        call->saved[1] = x->requires_grad ? bt_tensor_retain(w) : NULL;
    }
    if (BT_ATTRS(call, linear)->activation == BT_ACTIVATION_GELU) {
        bt_tensor *pre = NULL;
        BT_TRY(
            bt_tensor_create(context, x->dtype, call->out_spec[0].shape, "pre-activation", &pre));
        call->saved[2] = pre; // released with the call if nothing is recorded
        args.epilogue = BT_EPILOGUE_BIAS_GELU;
        args.aux = bt_tensor_data(pre);
    }
    return bt_gemm(context, &args);
}

// dy through the activation: a new tensor, or dy's memory; *out is retained.
static bt_status activation_backward(bt_context *context, bt_op_backward *call, bt_tensor **out)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *pre = call->saved[2];
    if (BT_ATTRS(call, linear)->activation == BT_ACTIVATION_NONE) {
        *out = bt_tensor_retain(dy);
        return BT_OK;
    }
    if (bt_tensor_is_exclusive(dy)) {
        *out = bt_tensor_retain(dy);
        bt_tensor_touch(dy);
    } else {
        BT_TRY(bt_tensor_create(context, dy->dtype, dy->shape, "gradient", out));
    }
    bt_unary_backward_args args = {.function = BT_UNARY_GELU,
                                   .x = bt_tensor_data(pre),
                                   .dy = bt_tensor_data(dy),
                                   .dx = bt_tensor_data(*out),
                                   .count = bt_tensor_count(dy),
                                   .dtype = dy->dtype};
    return bt_context_launch(context, BT_KERNEL_UNARY_BACKWARD, dy->dtype, &args);
}

bt_status bt_op_linear_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dpre = NULL;
    bt_status status = activation_backward(context, call, &dpre);
    if (status == BT_OK) {
        status = bt_linear_dw_dbias(context, call, LINEAR_W, LINEAR_BIAS, dpre, call->saved[0]);
    }
    if (status == BT_OK && call->din[LINEAR_X].wanted) {
        status = bt_linear_dx(context, call, LINEAR_X, dpre, call->saved[1]);
    }
    if (status == BT_OK && call->din[LINEAR_RESIDUAL].wanted) {
        bt_grad_pass(call, LINEAR_RESIDUAL, 0);
    }
    bt_tensor_release(dpre);
    return status;
}

bt_status bt_linear(bt_context *context, bt_tensor *x, bt_tensor *w, bt_tensor *bias,
                    bt_tensor *residual, bt_activation activation, bt_tensor **out)
{
    const bt_linear_attrs attrs = {activation};
    bt_tensor *in[] = {x, w, bias, residual};
    return bt_op_apply(context, BT_OP_LINEAR, &attrs, in, 4, out);
}

// ---- matmul -------------------------------------------------------------------------------------

static const bt_attr_field matmul_fields[] = {BT_ATTR(bt_matmul_attrs, trans_a, BOOL),
                                              BT_ATTR(bt_matmul_attrs, trans_b, BOOL)};
const bt_op_attrs bt_attrs_matmul = BT_OP_ATTRS(bt_matmul_attrs, matmul_fields);

bt_status bt_op_matmul_infer(bt_op_call *call)
{
    const bt_tensor *a = call->in[0];
    const bt_tensor *b = call->in[1];
    bool ta = BT_ATTRS(call, matmul)->trans_a;
    bool tb = BT_ATTRS(call, matmul)->trans_b;
    BT_TRY(bt_op_expect_float(call, 0));
    BT_TRY(bt_op_expect_float(call, 1));
    int rank = a->shape.rank;
    if (a->dtype != b->dtype || rank < 2 || b->shape.rank != rank) {
        return bt_op_mismatch(call, 0, 1);
    }
    bt_shape shape = a->shape;
    for (int i = 0; i < rank - 2; ++i) {
        if (a->shape.size[i] != b->shape.size[i]) {
            return bt_op_mismatch(call, 0, 1);
        }
    }
    if (a->shape.size[ta ? rank - 2 : rank - 1] != b->shape.size[tb ? rank - 1 : rank - 2]) {
        return bt_op_mismatch(call, 0, 1);
    }
    shape.size[rank - 2] = a->shape.size[ta ? rank - 1 : rank - 2];
    shape.size[rank - 1] = b->shape.size[tb ? rank - 2 : rank - 1];
    call->out_spec[0] = (bt_op_spec){a->dtype, shape};
    return BT_OK;
}

// d = op(a) op(b), or d += that
static bt_status launch_matmul(bt_context *context, const bt_tensor *a, bool trans_a,
                               const bt_tensor *b, bool trans_b, bt_tensor *d, bool accumulate)
{
    int rank = d->shape.rank;
    const int64_t *sa = &a->shape.size[rank - 2];
    const int64_t *sb = &b->shape.size[rank - 2];
    const int64_t *sd = &d->shape.size[rank - 2];
    int64_t batch = sd[0] > 0 && sd[1] > 0 ? bt_tensor_count(d) / (sd[0] * sd[1]) : 0;
    bt_gemm_args args = {.m = sd[0],
                         .n = sd[1],
                         .k = trans_a ? sa[0] : sa[1],
                         .trans_a = trans_a,
                         .trans_b = trans_b,
                         .a = bt_tensor_data(a),
                         .b = bt_tensor_data(b),
                         .c = bt_tensor_data(d),
                         .d = bt_tensor_data(d),
                         .lda = sa[1],
                         .ldb = sb[1],
                         .ldc = sd[1],
                         .ldd = sd[1],
                         .batch = batch,
                         .stride_a = sa[0] * sa[1],
                         .stride_b = sb[0] * sb[1],
                         .stride_c = sd[0] * sd[1],
                         .stride_d = sd[0] * sd[1],
                         .alpha = 1,
                         .beta = accumulate ? 1 : 0,
                         .ab_dtype = a->dtype,
                         .d_dtype = d->dtype,
                         .compute = context->compute};
    return bt_gemm(context, &args);
}

bt_status bt_op_matmul_forward(bt_context *context, bt_op_call *call)
{
    if (call->recording) { // each is needed for the other's gradient
        call->saved[0] = call->in[1]->requires_grad ? bt_tensor_retain(call->in[0]) : NULL;
        call->saved[1] = call->in[0]->requires_grad ? bt_tensor_retain(call->in[1]) : NULL;
    }
    return launch_matmul(context, call->in[0], BT_ATTRS(call, matmul)->trans_a, call->in[1],
                         BT_ATTRS(call, matmul)->trans_b, call->out[0], false);
}

// d = op(a) op(b): d op(a) = dy op(b)^T and d op(b) = op(a)^T dy, transposed if op transposes.
bt_status bt_op_matmul_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dy = call->dout[0];
    bt_tensor *a = call->saved[0];
    bt_tensor *b = call->saved[1];
    bool ta = BT_ATTRS(call, matmul)->trans_a;
    bool tb = BT_ATTRS(call, matmul)->trans_b;
    bt_tensor *target = NULL;
    if (call->din[0].wanted) {
        bool accumulate = call->din[0].accumulate;
        BT_TRY(bt_grad_target(context, call, 0, &target));
        BT_TRY(ta ? launch_matmul(context, b, tb, dy, true, target, accumulate)
                  : launch_matmul(context, dy, false, b, !tb, target, accumulate));
    }
    if (call->din[1].wanted) {
        bool accumulate = call->din[1].accumulate;
        BT_TRY(bt_grad_target(context, call, 1, &target));
        BT_TRY(tb ? launch_matmul(context, dy, true, a, ta, target, accumulate)
                  : launch_matmul(context, a, !ta, dy, false, target, accumulate));
    }
    return BT_OK;
}

bt_status bt_matmul(bt_context *context, bt_tensor *a, bool trans_a, bt_tensor *b, bool trans_b,
                    bt_tensor **out)
{
    const bt_matmul_attrs attrs = {trans_a, trans_b};
    bt_tensor *in[] = {a, b};
    return bt_op_apply(context, BT_OP_MATMUL, &attrs, in, 2, out);
}
