// framework/ops/op.c - one call of an op, and what ops share
#include "framework/ops/op.h"

#include <stdio.h>

#include "framework/ops/anomaly.h"
#include "framework/ops/table.h"

const bt_op *bt_op_row(bt_op_id id) { return &bt_op_rows[id]; }

static bt_status check_inputs(const bt_op_call *call)
{
    const bt_op *op = call->op;
    if (call->in_count != op->in_count) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s takes %d inputs, got %d", op->name,
                        op->in_count, call->in_count);
    }
    for (int i = 0; i < call->in_count; ++i) {
        if (!call->in[i] && !(op->optional >> i & 1U)) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: input %d (%s) is missing", op->name, i,
                            op->in_role[i]);
        }
    }
    return BT_OK;
}

static bool any_requires_grad(const bt_op_call *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        if (call->in[i] && call->in[i]->requires_grad) {
            return true;
        }
    }
    return false;
}

static bt_status make_outputs(bt_context *context, bt_op_call *call)
{
    for (int i = 0; i < call->out_count && !call->op->makes_outputs; ++i) {
        BT_TRY(bt_tensor_create(context, call->out_spec[i].dtype, call->out_spec[i].shape,
                                call->op->name, &call->out[i]));
    }
    return BT_OK;
}

static const char *first_leaf(const bt_op_call *call)
{
    for (int i = 0; i < call->in_count; ++i) {
        if (call->in[i] && call->in[i]->requires_grad && !call->in[i]->producer) {
            return call->in[i]->name;
        }
    }
    return NULL;
}

bt_status bt_op_tell_outputs(bt_context *context, const bt_op_call *call)
{
    const char *parameter = first_leaf(call);
    for (int i = 0; i < call->out_count; ++i) {
        const bt_op_value value = {
            .op = call->op->name, .index = i, .parameter = parameter, .tensor = call->out[i]};
        BT_TRY(context->value_hook.made(context->value_hook.self, context, &value));
    }
    return BT_OK;
}

bt_status bt_op_run(bt_context *context, bt_op_call *call)
{
    BT_TRY(call->op->infer(call));
    BT_TRY(bt_tensors_fetch(context, call->in, call->in_count));
    BT_TRY(make_outputs(context, call));
    bt_range_push(context, call->op->name);
    if (context->trace_hook.forward) {
        context->trace_hook.forward(context->trace_hook.self, call);
    }
    bt_status status = call->op->forward(context, call);
    if (status == BT_OK && context->anomaly) {
        status = bt_anomaly_check_outputs(context, call);
    }
    if (status == BT_OK && context->value_hook.made && !call->op->makes_outputs) {
        status = bt_op_tell_outputs(context, call);
    }
    bt_range_pop(context);
    return status;
}

bt_status bt_op_apply(bt_context *context, bt_op_id id, const void *attrs, bt_tensor *const *in,
                      int in_count, bt_tensor **out)
{
    bt_op_call call = {.op = bt_op_row(id),
                       .attrs = attrs,
                       .in_count = in_count,
                       .out_count = bt_op_row(id)->out_count};
    for (int i = 0; i < in_count && i < BT_OP_MAX_INPUTS; ++i) {
        call.in[i] = in[i];
    }
    for (int i = 0; i < call.out_count; ++i) {
        out[i] = NULL;
    }
    BT_TRY(check_inputs(&call));
    if (context->captures) {
        BT_TRY(bt_captures_note(context->captures, call.in, call.in_count));
    }
    call.recording = context->tape && any_requires_grad(&call);
    bt_status status = bt_op_run(context, &call);
    if (status == BT_OK && call.recording) {
        const bt_recorder *recorder = (const void *)context->tape;
        status = recorder->record(context, &call);
    }
    // What was recorded is retained by the tape.
    bt_captures_release(&call.captures);
    for (int i = 0; i < BT_OP_MAX_SAVED; ++i) {
        bt_tensor_release(call.saved[i]);
    }
    for (int i = 0; i < call.out_count; ++i) {
        if (status == BT_OK) {
            out[i] = call.out[i];
        } else {
            bt_tensor_release(call.out[i]);
        }
    }
    return bt_error_context(status, "%s", call.op->name);
}

bt_status bt_grad_target(bt_context *context, bt_op_backward *call, int i, bt_tensor **out)
{
    bt_grad *grad = &call->din[i];
    if (!grad->tensor) {
        BT_TRY(bt_tensor_create(context, grad->spec.dtype, grad->spec.shape, call->op->name,
                                &grad->tensor));
    }
    *out = grad->tensor;
    bt_tensor_touch(*out);
    return BT_OK;
}

bt_status bt_grad_target_reusing(bt_context *context, bt_op_backward *call, int i, int from,
                                 bt_tensor **out)
{
    bt_grad *grad = &call->din[i];
    bt_tensor *dout = call->dout[from];
    if (!grad->tensor && dout->dtype == grad->spec.dtype && bt_tensor_is_exclusive(dout) &&
        bt_shape_equal(&dout->shape, &grad->spec.shape)) {
        bt_grad_pass(call, i, from);
    }
    return bt_grad_target(context, call, i, out);
}

void bt_grad_decline(bt_grad *grad)
{
    BT_TENSOR_RELEASE(grad->tensor);
    grad->accumulate = false;
}

void bt_grad_pass(bt_op_backward *call, int i, int from)
{
    call->din[i].tensor = bt_tensor_retain(call->dout[from]);
}

bt_status bt_op_mismatch(const bt_op_call *call, int a, int b)
{
    char first[BT_SHAPE_TEXT_BYTES];
    char second[BT_SHAPE_TEXT_BYTES];
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "input %d %s %s does not fit input %d %s %s", b,
                    bt_shape_text(&call->in[b]->shape, second), bt_dtype_name(call->in[b]->dtype),
                    a, bt_shape_text(&call->in[a]->shape, first),
                    bt_dtype_name(call->in[a]->dtype));
}

bt_status bt_op_expect_float(const bt_op_call *call, int i)
{
    char what[32];
    (void)snprintf(what, sizeof what, "input %d", i);
    BT_TRY(bt_tensor_expect(call->in[i], call->in[i]->dtype, what));
    if (!bt_dtype_is_float(call->in[i]->dtype)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s is of type %s, expected a float type", what,
                        bt_dtype_name(call->in[i]->dtype));
    }
    return BT_OK;
}
