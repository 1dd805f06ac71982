// framework/autograd/recompute.c - keeps only the inputs and runs the body again in the backward
//
// In the forward, the body runs without recording on constants that share the inputs' memory; other
// tensors that it uses are recorded as captures (ops/captures.h). In the backward, it runs again on
// a separate tape, on which the inputs are leaves. Gradients of captured tensors are added
// directly: to leaves, or to nodes of the enclosing tape, which are all older than this one.
#include "framework/autograd/recompute.h"

#include "framework/autograd/tape.h"

static const bt_attr_field recompute_fields[] = {BT_ATTR(bt_recompute_attrs, body, POINTER),
                                                 BT_ATTR(bt_recompute_attrs, self, POINTER),
                                                 BT_ATTR(bt_recompute_attrs, in_count, INT)};
const bt_op_attrs bt_attrs_recompute = BT_OP_ATTRS(bt_recompute_attrs, recompute_fields);

bt_status bt_op_recompute_infer(bt_op_call *call)
{
    // The output's shape is known after the body has run; forward() fills the spec.
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

static void release_all(bt_tensor **tensors, int count)
{
    for (int i = 0; i < count; ++i) {
        bt_tensor_release(tensors[i]);
    }
}

// Constants that share the memory of `from`; NULL entries stay NULL. All are retained.
static bt_status detach_all(bt_tensor *const *from, int count, bt_tensor **out)
{
    for (int i = 0; i < count; ++i) {
        BT_TRY(from[i] ? bt_detach(from[i], &out[i]) : BT_OK);
    }
    return BT_OK;
}

// Runs the body without recording it; if a tape is set, records what it captures.
static bt_status run_unrecorded(bt_context *context, bt_op_call *call, bt_tensor *const *in,
                                bt_tensor **out)
{
    struct bt_tape *tape = context->tape;
    bt_captures *around = context->captures;
    context->tape = NULL;
    if (tape) {
        call->captures.first_serial = bt_storage_next_serial();
        context->captures = &call->captures;
    }
    bt_status status = BT_ATTRS(call, recompute)
                           ->body(context, BT_ATTRS(call, recompute)->self, in,
                                  BT_ATTRS(call, recompute)->in_count, out);
    context->tape = tape;
    context->captures = around;
    return status;
}

bt_status bt_op_recompute_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *in[BT_OP_MAX_INPUTS] = {NULL};
    bt_tensor *made = NULL;
    bt_status status = detach_all(call->in, call->in_count, in);
    if (status == BT_OK) {
        status = run_unrecorded(context, call, in, &made);
    }
    if (status == BT_OK && !made) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT, "the body returned no tensor");
    }
    if (status == BT_OK) { // the body may return an input or a captured tensor
        status = bt_detach(made, &call->out[0]);
    }
    if (status == BT_OK) {
        call->out_spec[0] = (bt_op_spec){made->dtype, made->shape};
        call->recording =
            call->recording || (context->tape && bt_captures_require_grad(&call->captures));
    }
    bt_tensor_release(made);
    release_all(in, call->in_count);
    for (int i = 0; i < call->in_count && call->recording && status == BT_OK; ++i) {
        call->saved[i] = bt_tensor_retain(call->in[i]);
    }
    return status;
}

// The gradient of what the body makes now. If the body returns an input or a captured tensor, a
// view is inserted between it and the separate tape.
static bt_status rerun(bt_context *context, bt_op_backward *call, bt_tensor *const *in)
{
    static const int same_axes[BT_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    bt_tensor *made = NULL, *out = NULL;
    BT_TRY(BT_ATTRS(call, recompute)
               ->body(context, BT_ATTRS(call, recompute)->self, in,
                      BT_ATTRS(call, recompute)->in_count, &made));
    bt_status status = BT_OK;
    if (made->requires_grad) {
        status = bt_tape_made(context->tape, made) ? bt_backward(context, made, call->dout[0])
                                                   : bt_permute(context, made, same_axes, &out);
    }
    if (status == BT_OK && out) {
        status = bt_backward(context, out, call->dout[0]);
    }
    bt_tensor_release(out);
    bt_tensor_release(made);
    return status;
}

// Takes the inputs' gradients from the leaves; zero if the body did not use an input.
static bt_status take_grads(bt_context *context, bt_op_backward *call, bt_tensor *const *in)
{
    for (int i = 0; i < call->in_count; ++i) {
        bt_grad *din = &call->din[i];
        if (din->wanted && in[i]->grad) {
            din->tensor = bt_tensor_retain(in[i]->grad);
        } else if (din->wanted) {
            BT_TRY(bt_tensor_zeros(context, din->spec.dtype, din->spec.shape, "gradient",
                                   &din->tensor));
        }
    }
    return BT_OK;
}

bt_status bt_op_recompute_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *in[BT_OP_MAX_INPUTS] = {NULL};
    bt_tape *tape = NULL;
    bt_status status = detach_all(call->saved, call->in_count, in);
    for (int i = 0; i < call->in_count; ++i) {
        if (in[i]) {
            in[i]->requires_grad = call->din[i].wanted;
            in[i]->grad_dtype = call->din[i].spec.dtype;
        }
    }
    if (status == BT_OK) {
        status = bt_tape_create_within(call->captures, &tape);
    }
    if (status == BT_OK) {
        context->tape = tape;
        status = rerun(context, call, in);
        context->tape = NULL;
    }
    if (status == BT_OK) {
        status = take_grads(context, call, in);
    }
    release_all(in, call->in_count);
    bt_tape_destroy(tape);
    return status;
}

bt_status bt_recompute(bt_context *context, bt_recompute_body body, const void *self,
                       bt_tensor *const *in, int in_count, bt_tensor **out)
{
    bt_tensor *padded[BT_OP_MAX_INPUTS] = {NULL};
    const bt_recompute_attrs attrs = {body, self, in_count};
    *out = NULL;
    if (in_count < 1 || in_count > BT_OP_MAX_INPUTS) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "recompute: %d inputs, allowed 1 to %d",
                        in_count, (int)BT_OP_MAX_INPUTS);
    }
    for (int i = 0; i < in_count; ++i) {
        padded[i] = in[i];
    }
    return bt_op_apply(context, BT_OP_RECOMPUTE, &attrs, padded, BT_OP_MAX_INPUTS, out);
}
