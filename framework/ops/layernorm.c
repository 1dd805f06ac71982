// framework/ops/layernorm.c - layer normalization over the last axis, optionally after a residual
// sum
//
// layernorm      y = norm(x) gamma + beta
// add_layernorm  s = x + residual, y = norm(s) gamma + beta; outputs y and s
#include "framework/ops/layernorm.h"

static const bt_attr_field layernorm_fields[] = {BT_ATTR(bt_layernorm_attrs, epsilon, REAL)};
const bt_op_attrs bt_attrs_layernorm = BT_OP_ATTRS(bt_layernorm_attrs, layernorm_fields);

// Inputs. saved: s (x without a residual), gamma, mean, rstd.
enum { LAYERNORM_X, LAYERNORM_GAMMA, LAYERNORM_BETA, LAYERNORM_RESIDUAL };

static bt_dtype statistics_dtype(bt_dtype dtype) { return dtype == BT_F64 ? BT_F64 : BT_F32; }

static bt_status check_parameter(bt_op_call *call, int i)
{
    const bt_tensor *x = call->in[LAYERNORM_X];
    const bt_tensor *parameter = call->in[i];
    if (!parameter) {
        return BT_OK;
    }
    BT_TRY(bt_op_expect_float(call, i));
    if (parameter->shape.rank != 1 ||
        parameter->shape.size[0] != x->shape.size[x->shape.rank - 1] ||
        (parameter->dtype != x->dtype && parameter->dtype != statistics_dtype(x->dtype))) {
        return bt_op_mismatch(call, LAYERNORM_X, i);
    }
    return BT_OK;
}

bt_status bt_op_layernorm_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[LAYERNORM_X];
    BT_TRY(bt_op_expect_float(call, LAYERNORM_X));
    if (x->shape.rank < 1) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "of a scalar");
    }
    BT_TRY(check_parameter(call, LAYERNORM_GAMMA));
    BT_TRY(check_parameter(call, LAYERNORM_BETA));
    const bt_tensor *beta = call->in[LAYERNORM_BETA];
    if (beta && beta->dtype != call->in[LAYERNORM_GAMMA]->dtype) {
        return bt_op_mismatch(call, LAYERNORM_GAMMA, LAYERNORM_BETA);
    }
    call->out_spec[0] = (bt_op_spec){x->dtype, x->shape};
    return BT_OK;
}

static bt_status forward(bt_context *context, bt_op_call *call, const bt_tensor *residual,
                         bt_tensor *sum)
{
    bt_tensor *x = call->in[LAYERNORM_X];
    bt_tensor *gamma = call->in[LAYERNORM_GAMMA];
    bt_tensor *beta = call->in[LAYERNORM_BETA];
    int64_t cols = x->shape.size[x->shape.rank - 1];
    int64_t rows = cols ? bt_tensor_count(x) / cols : 0;
    bt_dtype statistics = statistics_dtype(x->dtype);
    BT_TRY(bt_tensor_create(context, statistics, BT_SHAPE(rows), "mean", &call->saved[2]));
    BT_TRY(bt_tensor_create(context, statistics, BT_SHAPE(rows), "rstd", &call->saved[3]));
    call->remake = context->recompute >= BT_RECOMPUTE_GELU_LN && !residual;
    call->saved[0] = bt_tensor_retain(residual ? sum : x);
    call->saved[1] = bt_tensor_retain(gamma);
    bt_layernorm_args args = {.x = bt_tensor_data(x),
                              .residual = residual ? bt_tensor_data(residual) : NULL,
                              .sum = residual ? bt_tensor_data(sum) : NULL,
                              .gamma = bt_tensor_data(gamma),
                              .beta = beta ? bt_tensor_data(beta) : NULL,
                              .y = bt_tensor_data(call->out[0]),
                              .mean = bt_tensor_data(call->saved[2]),
                              .rstd = bt_tensor_data(call->saved[3]),
                              .rows = rows,
                              .cols = cols,
                              .epsilon = BT_ATTRS(call, layernorm)->epsilon,
                              .dtype = x->dtype,
                              .param_dtype = gamma->dtype};
    return bt_context_launch(context, BT_KERNEL_LAYERNORM, x->dtype, &args);
}

bt_status bt_op_layernorm_forward(bt_context *context, bt_op_call *call)
{
    return forward(context, call, NULL, NULL);
}

// Where input i's gradient is written; scratch memory if it is not needed. *out is retained.
static bt_status target_or_scratch(bt_context *context, bt_op_backward *call, int i,
                                   bt_tensor **out)
{
    const bt_op_spec *spec = &call->din[i].spec;
    if (!call->din[i].wanted) {
        return bt_tensor_create(context, spec->dtype, spec->shape, "gradient", out);
    }
    BT_TRY(bt_grad_target(context, call, i, out));
    (void)bt_tensor_retain(*out);
    return BT_OK;
}

// The kernel adds to the gradients of both parameters or to none. If they differ (one is frozen, or
// is also used elsewhere), both are new, and the tape adds them.
static void accumulate_both_or_none(bt_op_backward *call)
{
    bt_grad *gamma = &call->din[LAYERNORM_GAMMA], *beta = &call->din[LAYERNORM_BETA];
    if (beta->wanted && gamma->accumulate != beta->accumulate) {
        bt_grad_decline(gamma);
        bt_grad_decline(beta);
    }
}

// dx (+)= LN'(dy), and the parameters' gradients.
static bt_status backward(bt_context *context, bt_op_backward *call, bt_tensor *dx, bool accumulate)
{
    bt_tensor *s = call->saved[0];
    bt_tensor *gamma = call->saved[1];
    bt_tensor *dgamma = NULL;
    bt_tensor *dbeta = NULL;
    bt_status status = BT_OK;
    accumulate_both_or_none(call);
    BT_TRY_GOTO(target_or_scratch(context, call, LAYERNORM_GAMMA, &dgamma), done);
    if (call->din[LAYERNORM_BETA].wanted) {
        BT_TRY_GOTO(target_or_scratch(context, call, LAYERNORM_BETA, &dbeta), done);
    }
    int64_t cols = gamma->shape.size[0];
    bt_layernorm_backward_args args = {.dy = bt_tensor_data(call->dout[0]),
                                       .s = bt_tensor_data(s),
                                       .gamma = bt_tensor_data(gamma),
                                       .mean = bt_tensor_data(call->saved[2]),
                                       .rstd = bt_tensor_data(call->saved[3]),
                                       .dx = bt_tensor_data(dx),
                                       .dgamma = bt_tensor_data(dgamma),
                                       .dbeta = dbeta ? bt_tensor_data(dbeta) : NULL,
                                       .rows = cols ? bt_tensor_count(s) / cols : 0,
                                       .cols = cols,
                                       .accumulate = accumulate,
                                       .accumulate_params = call->din[LAYERNORM_GAMMA].accumulate,
                                       .dtype = s->dtype,
                                       .param_dtype = gamma->dtype,
                                       .grad_dtype = dgamma->dtype};
    BT_TRY_GOTO(bt_context_launch(context, BT_KERNEL_LAYERNORM_BACKWARD, s->dtype, &args), done);
done:
    bt_tensor_release(dgamma);
    bt_tensor_release(dbeta);
    return status;
}

bt_status bt_op_layernorm_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *dx = NULL;
    BT_TRY(target_or_scratch(context, call, LAYERNORM_X, &dx));
    bt_status status = backward(context, call, dx, call->din[LAYERNORM_X].accumulate);
    bt_tensor_release(dx);
    return status;
}

bt_status bt_layernorm(bt_context *context, bt_tensor *x, bt_tensor *gamma, bt_tensor *beta,
                       double epsilon, bt_tensor **out)
{
    const bt_layernorm_attrs attrs = {epsilon};
    bt_tensor *in[] = {x, gamma, beta};
    return bt_op_apply(context, BT_OP_LAYERNORM, &attrs, in, 3, out);
}

// ---- add_layernorm ------------------------------------------------------------------------------

bt_status bt_op_add_layernorm_infer(bt_op_call *call)
{
    const bt_tensor *x = call->in[LAYERNORM_X];
    const bt_tensor *residual = call->in[LAYERNORM_RESIDUAL];
    BT_TRY(bt_op_layernorm_infer(call));
    BT_TRY(bt_op_expect_float(call, LAYERNORM_RESIDUAL));
    if (residual->dtype != x->dtype || !bt_shape_equal(&residual->shape, &x->shape)) {
        return bt_op_mismatch(call, LAYERNORM_X, LAYERNORM_RESIDUAL);
    }
    call->out_spec[1] = call->out_spec[0];
    return BT_OK;
}

bt_status bt_op_add_layernorm_forward(bt_context *context, bt_op_call *call)
{
    return forward(context, call, call->in[LAYERNORM_RESIDUAL], call->out[1]);
}

// Only the sum was used: the parameters have no gradient from it.
static bt_status clear_param_grads(bt_context *context, bt_op_backward *call)
{
    static const int params[] = {LAYERNORM_GAMMA, LAYERNORM_BETA};
    for (int i = 0; i < 2; ++i) {
        const bt_grad *din = &call->din[params[i]];
        bt_tensor *target = NULL;
        if (din->wanted && !din->accumulate) {
            BT_TRY(bt_grad_target(context, call, params[i], &target));
            BT_TRY(bt_tensor_fill(context, target, 0));
        }
    }
    return BT_OK;
}

// LN'(dy), plus the gradient from s's other users. *out is retained.
static bt_status sum_grad(bt_context *context, bt_op_backward *call, bt_tensor **out)
{
    bt_tensor *other = call->dout[1];
    if (!call->dout[0]) {
        *out = bt_tensor_retain(other);
        return clear_param_grads(context, call);
    }
    bt_status status = BT_OK;
    if (other && bt_tensor_is_exclusive(other)) {
        *out = bt_tensor_retain(other);
        bt_tensor_touch(other);
    } else {
        const bt_tensor *s = call->saved[0];
        BT_TRY(bt_tensor_create(context, s->dtype, s->shape, "gradient", out));
        status = other ? bt_tensor_copy(context, other, *out) : BT_OK;
    }
    return status == BT_OK ? backward(context, call, *out, other != NULL) : status;
}

// The gradient of s goes to x and residual.
bt_status bt_op_add_layernorm_backward(bt_context *context, bt_op_backward *call)
{
    static const int sides[] = {LAYERNORM_X, LAYERNORM_RESIDUAL};
    bt_tensor *ds = NULL;
    bt_status status = sum_grad(context, call, &ds);
    for (int i = 0; i < 2 && status == BT_OK; ++i) {
        if (call->din[sides[i]].wanted) {
            call->din[sides[i]].tensor = bt_tensor_retain(ds);
        }
    }
    bt_tensor_release(ds);
    return status;
}

bt_status bt_add_layernorm(bt_context *context, bt_tensor *x, bt_tensor *residual, bt_tensor *gamma,
                           bt_tensor *beta, double epsilon, bt_tensor **out, bt_tensor **sum)
{
    const bt_layernorm_attrs attrs = {epsilon};
    bt_tensor *in[] = {x, gamma, beta, residual};
    bt_tensor *outputs[2];
    bt_status status = bt_op_apply(context, BT_OP_ADD_LAYERNORM, &attrs, in, 4, outputs);
    *out = outputs[0];
    *sum = outputs[1];
    return status;
}
