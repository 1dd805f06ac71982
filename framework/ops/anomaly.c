// framework/ops/anomaly.c - counts non-finite values and reports where they are
#include "framework/ops/anomaly.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/str.h"

bt_status bt_anomaly_count(bt_context *context, const bt_tensor *tensor, int64_t *nonfinite)
{
    bt_tensor *result = NULL;
    *nonfinite = 0;
    if (!tensor || !bt_dtype_is_float(tensor->dtype) || !bt_tensor_is_contiguous(tensor)) {
        return BT_OK;
    }
    BT_TRY(bt_tensor_create(context, BT_I64, BT_SHAPE(1), "anomaly", &result));
    bt_count_nonfinite_args args = {.x = bt_tensor_data(tensor),
                                    .count = bt_tensor_count(tensor),
                                    .result = bt_tensor_data(result),
                                    .dtype = tensor->dtype};
    bt_status status = bt_context_launch(context, BT_KERNEL_COUNT_NONFINITE, tensor->dtype, &args);
    if (status == BT_OK) {
        status = bt_tensor_read(context, result, nonfinite);
    }
    bt_tensor_release(result);
    return status;
}

const char *bt_anomaly_where(const bt_context *context, char text[BT_RANGES_TEXT_BYTES])
{
    char path[BT_RANGES_TEXT_BYTES];
    text[0] = '\0';
    if (context->ranges && *bt_ranges_text(context->ranges, path)) {
        (void)snprintf(text, BT_RANGES_TEXT_BYTES, ", in %.*s", BT_RANGES_TEXT_BYTES - 6, path);
    }
    return text;
}

void bt_anomaly_attributes(const bt_op *op, const void *attrs, bt_str *out)
{
    if (op->attrs->field_count > 0) {
        bt_str_append(out, "; attributes: ");
        bt_op_attrs_print(op->attrs, attrs, out);
    }
}

// The inputs that were not finite before the op: for example a parameter spoilt by an update.
static bt_status name_inputs(bt_context *context, const bt_op_call *call, bt_str *out)
{
    for (int i = 0; i < call->in_count; ++i) {
        int64_t nonfinite = 0;
        BT_TRY(bt_anomaly_count(context, call->in[i], &nonfinite));
        if (nonfinite > 0) {
            bt_str_format(out, "; its input %d (%s) \"%s\" was already non-finite", i,
                          call->op->in_role[i], call->in[i]->name);
        }
    }
    return BT_OK;
}

bt_status bt_anomaly_check_outputs(bt_context *context, const bt_op_call *call)
{
    for (int i = 0; i < call->out_count; ++i) {
        int64_t nonfinite = 0;
        BT_TRY(bt_anomaly_count(context, call->out[i], &nonfinite));
        if (nonfinite == 0) {
            continue;
        }
        char shape[BT_SHAPE_TEXT_BYTES], where[BT_RANGES_TEXT_BYTES];
        bt_str more = {0};
        bt_anomaly_attributes(call->op, call->attrs, &more);
        bt_status status = name_inputs(context, call, &more);
        if (status == BT_OK) {
            status = bt_error(
                BT_STATUS_CORRUPT_DATA,
                "forward of %s produced the first non-finite value: %lld of %lld "
                "in output %d, %s %s%s%s",
                call->op->name, (long long)nonfinite, (long long)bt_tensor_count(call->out[i]), i,
                bt_shape_text(&call->out[i]->shape, shape), bt_dtype_name(call->out[i]->dtype),
                bt_anomaly_where(context, where), bt_str_text(&more));
        }
        bt_str_release(&more);
        return status;
    }
    return BT_OK;
}
