// framework/ops/anomaly.h - anomaly mode: naming the op that made the first NaN or infinity
//
// While context->anomaly is set, each op's outputs are checked after its forward, and each gradient
// after its backward (autograd/tape.c). Slow: every check waits for the device.
#ifndef BT_OPS_ANOMALY_H
#define BT_OPS_ANOMALY_H

#include "framework/ops/op.h"

// Counts the non-finite values of a contiguous floating-point tensor; 0 for any other tensor.
BT_CHECKED bt_status bt_anomaly_count(bt_context *context, const bt_tensor *tensor,
                                      int64_t *nonfinite);
// Errors  CORRUPT_DATA: "forward of gelu made the first value that is not finite: 3 of 64 in output
//         0, [2, 32] f32, in step/forward/block/mlp/gelu", the attributes of the call, and which
//         inputs were not finite before
BT_CHECKED bt_status bt_anomaly_check_outputs(bt_context *context, const bt_op_call *call);
// " in step/backward/gelu": the context's current ranges; "" without ranges. Returns text.
const char *bt_anomaly_where(const bt_context *context, char text[BT_RANGES_TEXT_BYTES]);
// Appends "; attributes: function log, alpha 0" of a call's attributes; nothing if the op has none.
void bt_anomaly_attributes(const bt_op *op, const void *attrs, bt_str *out);

#endif
