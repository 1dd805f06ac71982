// framework/ops/checkpoint.c - keep the inputs only, run the body again in the backward
//
// The nested backward has a tape of its own on which the inputs are leaves; gradients of parameters
// go to the parameters directly.
#include "framework/autograd/tape.h"
#include "framework/ops/ops.h"

bt_status bt_op_checkpoint_infer(bt_op_call *call)
{
    // The body knows the output's shape; forward() fills the spec.
    call->out_spec[0] = (bt_op_spec){call->in[0]->dtype, call->in[0]->shape};
    return BT_OK;
}

bt_status bt_op_checkpoint_forward(bt_context *context, bt_op_call *call)
{
    struct bt_tape *tape = context->tape;
    context->tape = NULL;
    bt_status status = call->attrs.checkpoint.body(context, call->attrs.checkpoint.self, call->in,
                                                   call->attrs.checkpoint.in_count, &call->out[0]);
    context->tape = tape;
    BT_TRY(status);
    call->out_spec[0] = (bt_op_spec){call->out[0]->dtype, call->out[0]->shape};
    for (int i = 0; i < call->in_count && call->recording; ++i) {
        call->saved[i] = bt_tensor_retain(call->in[i]);
    }
    return BT_OK;
}

static bt_status rerun(bt_context *context, bt_op_backward *call, bt_tensor *const *in)
{
    bt_tensor *out = NULL;
    bt_status status = call->attrs->checkpoint.body(context, call->attrs->checkpoint.self, in,
                                                    call->attrs->checkpoint.in_count, &out);
    if (status == BT_OK) {
        status = bt_backward(context, out, call->dout[0]);
    }
    bt_tensor_release(out);
    return status;
}

bt_status bt_op_checkpoint_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *in[BT_OP_MAX_INPUTS] = {NULL};
    bt_tape *tape = NULL;
    bt_status status = bt_tape_create(&tape);
    for (int i = 0; i < call->in_count && status == BT_OK; ++i) {
        if (call->saved[i]) {
            status = bt_detach(call->saved[i], &in[i]);
        }
        if (in[i]) {
            in[i]->requires_grad = call->din[i].wanted;
            in[i]->grad_dtype = call->in_spec[i].dtype;
        }
    }
    if (status == BT_OK) {
        context->tape = tape;
        status = rerun(context, call, in);
        context->tape = NULL;
    }
    for (int i = 0; i < call->in_count; ++i) {
        if (status == BT_OK && call->din[i].wanted) {
            call->din[i].tensor = bt_tensor_retain(in[i]->grad);
            status = in[i]->grad
                         ? BT_OK
                         : bt_tensor_zeros(context, call->in_spec[i].dtype, call->in_spec[i].shape,
                                           "gradient", &call->din[i].tensor);
        }
        bt_tensor_release(in[i]);
    }
    bt_tape_destroy(tape);
    return status;
}

// gelu(a) * softmax(b): for the tests, a body of several ops with two inputs.
static bt_status sample_body(bt_context *context, const void *self, bt_tensor *const *in,
                             int in_count, bt_tensor **out)
{
    bt_tensor *a = NULL;
    bt_tensor *b = NULL;
    (void)self, (void)in_count;
    *out = NULL;
    BT_TRY(bt_gelu(context, in[0], &a));
    bt_status status = bt_softmax(context, in[1], &b);
    if (status == BT_OK) {
        status = bt_mul(context, a, b, out);
    }
    bt_tensor_release(a);
    bt_tensor_release(b);
    return status;
}

bool bt_op_checkpoint_sample(int variant, bt_op_sample *out)
{
    *out = (bt_op_sample){.in_count = BT_OP_MAX_INPUTS,
                          .in = {{BT_F64, BT_SHAPE(3, 4)}, {BT_F64, BT_SHAPE(3, 4)}},
                          .present = {true, true},
                          .low = {-2, -2},
                          .high = {2, 2},
                          .attrs.checkpoint = {sample_body, NULL, 2}};
    return variant < 1;
}

bt_status bt_checkpoint(bt_context *context, bt_checkpoint_body body, const void *self,
                        bt_tensor *const *in, int in_count, bt_tensor **out)
{
    bt_tensor *padded[BT_OP_MAX_INPUTS] = {NULL};
    bt_op_attrs attrs = {.checkpoint = {body, self, in_count}};
    *out = NULL;
    if (in_count < 1 || in_count > BT_OP_MAX_INPUTS) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "checkpoint of %d inputs, allowed 1 to %d",
                        in_count, (int)BT_OP_MAX_INPUTS);
    }
    for (int i = 0; i < in_count; ++i) {
        padded[i] = in[i];
    }
    return bt_op_apply(context, BT_OP_CHECKPOINT, &attrs, padded, BT_OP_MAX_INPUTS, out);
}
