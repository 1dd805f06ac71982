// framework/ops/loss.c - cross-entropy of logits against integer targets
#include "framework/ops/loss.h"
#include "framework/dist/group.h"
#include "framework/ops/linear.h"
#include "framework/ops/shard.h"
#include "framework/ops/weight_grads.h"

static const bt_attr_field cross_entropy_fields[] = {
    BT_ATTR(bt_cross_entropy_attrs, ignore, I32), BT_ATTR(bt_cross_entropy_attrs, in_place, BOOL),
    // The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
    BT_ATTR(bt_cross_entropy_attrs, group, POINTER), BT_ATTR(bt_cross_entropy_attrs, vocab, I64)};
const bt_op_attrs bt_attrs_cross_entropy =
    BT_OP_ATTRS(bt_cross_entropy_attrs, cross_entropy_fields);

// inputs logits [rows, vocab], targets [rows]; outputs mean (scalar), bad_row [1]
// saved  logits, targets, lse [rows], inv_count [1]

bt_status bt_op_cross_entropy_infer(bt_op_call *call)
{
    const bt_tensor *logits = call->in[0];
    BT_TRY(bt_op_expect_float(call, 0));
    BT_TRY(bt_tensor_expect(call->in[1], BT_I32, "input 1"));
    if (logits->shape.rank != 2 || bt_tensor_count(call->in[1]) != logits->shape.size[0]) {
        return bt_op_mismatch(call, 0, 1);
    }
    const bt_group *group = BT_ATTRS(call, cross_entropy)->group;
    int64_t first = 0;
    if (group && logits->shape.size[1] != bt_shard_rows(BT_ATTRS(call, cross_entropy)->vocab,
                                                        group->size, group->rank, &first)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%lld columns of logits on rank %d of %d; expected its part of %lld",
                        (long long)logits->shape.size[1], group->rank, group->size,
                        (long long)BT_ATTRS(call, cross_entropy)->vocab);
    }
    call->out_spec[0] = (bt_op_spec){bt_loss_dtype(logits->dtype), BT_SCALAR};
    call->out_spec[1] = (bt_op_spec){BT_I64, BT_SHAPE(1)};
    return BT_OK;
}

bt_status bt_op_cross_entropy_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *logits = call->in[0];
    int64_t rows = logits->shape.size[0];
    bt_dtype dtype = bt_loss_dtype(logits->dtype);
    bt_tensor *loss = NULL;
    if (BT_ATTRS(call, cross_entropy)->group) {
        return bt_cross_entropy_shard_forward(context, call);
    }
    BT_TRY(bt_tensor_create(context, dtype, BT_SHAPE(rows), "loss rows", &loss));
    call->saved[0] = bt_tensor_retain(logits);
    call->saved[1] = bt_tensor_retain(call->in[1]);
    bt_status status =
        bt_tensor_create(context, dtype, BT_SHAPE(rows), "loss log-sum-exp", &call->saved[2]);
    if (status == BT_OK) {
        status = bt_tensor_create(context, dtype, BT_SHAPE(1), "loss count", &call->saved[3]);
    }
    if (status == BT_OK) {
        bt_cross_entropy_args args = {.logits = bt_tensor_data(logits),
                                      .targets = bt_tensor_data(call->in[1]),
                                      .loss = bt_tensor_data(loss),
                                      .lse = bt_tensor_data(call->saved[2]),
                                      .mean = bt_tensor_data(call->out[0]),
                                      .inv_count = bt_tensor_data(call->saved[3]),
                                      .bad_row = bt_tensor_data(call->out[1]),
                                      .rows = rows,
                                      .vocab = logits->shape.size[1],
                                      .logits_stride = logits->shape.size[1],
                                      .ignore = BT_ATTRS(call, cross_entropy)->ignore,
                                      .dtype = logits->dtype};
        status = bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY, logits->dtype, &args);
    }
    if (status == BT_OK && context->anomaly) {
        status = bt_check_ids(context, call->in[1], logits->shape.size[1], call->out[1]);
    }
    bt_tensor_release(loss);
    return status;
}

bt_status bt_op_cross_entropy_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *logits = call->saved[0];
    bt_tensor *dlogits = NULL;
    const bool is_shard = BT_ATTRS(call, cross_entropy)->group != NULL;
    if (BT_ATTRS(call, cross_entropy)->in_place) { // another product may still read the logits
        BT_TRY(bt_weight_grads_run(context, 1, BT_OK));
        call->din[0].tensor = bt_tensor_retain(logits);
    }
    BT_TRY(bt_grad_target(context, call, 0, &dlogits));
    bt_cross_entropy_backward_args args = {
        .logits = bt_tensor_data(logits),
        .targets = bt_tensor_data(call->saved[1]),
        .lse = bt_tensor_data(call->saved[2]),
        .inv_count = bt_tensor_data(call->saved[3]),
        .dmean = bt_tensor_data(call->dout[0]),
        .dlogits = bt_tensor_data(dlogits),
        .rows = logits->shape.size[0],
        .vocab = logits->shape.size[1],
        .logits_stride = logits->shape.size[1],
        .ignore = is_shard ? BT_SHARD_IGNORED : BT_ATTRS(call, cross_entropy)->ignore,
        .dtype = logits->dtype};
    return bt_context_launch(context, BT_KERNEL_CROSS_ENTROPY_BACKWARD, logits->dtype, &args);
}

bt_status bt_cross_entropy(bt_context *context, bt_tensor *logits, bt_tensor *targets,
                           int32_t ignore, bool in_place, bt_tensor **out, bt_tensor **bad_row)
{
    const bt_cross_entropy_attrs attrs = {.ignore = ignore, .in_place = in_place};
    bt_tensor *in[] = {logits, targets};
    bt_tensor *outputs[2];
    bt_status status = bt_op_apply(context, BT_OP_CROSS_ENTROPY, &attrs, in, 2, outputs);
    *out = outputs[0];
    if (bad_row) {
        *bad_row = outputs[1];
    } else {
        bt_tensor_release(outputs[1]);
    }
    return status;
}

bt_status bt_cross_entropy_shard(bt_context *context, struct bt_group *group, bt_tensor *logits,
                                 int64_t vocab, bt_tensor *targets, int32_t ignore, bool in_place,
                                 bt_tensor **out)
{
    const bt_cross_entropy_attrs attrs = {ignore, in_place, group, vocab};
    bt_tensor *in[] = {logits, targets};
    bt_tensor *outputs[2];
    if (!group || group->size == 1) {
        return bt_cross_entropy(context, logits, targets, ignore, in_place, out, NULL);
    }
    bt_status status = bt_op_apply(context, BT_OP_CROSS_ENTROPY, &attrs, in, 2, outputs);
    *out = outputs[0];
    bt_tensor_release(outputs[1]);
    return status;
}
