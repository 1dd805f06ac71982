// framework/ops/cost.c - floating-point operations and bytes of a forward call
//
// Bytes count every operand once, the least that any implementation moves. Flops follow the
// field's customs: a multiply-add is two, attention is 4 B H T^2 D (half of it when causal).
#include "framework/ops/op.h"

static double spec_bytes(bt_dtype dtype, const bt_shape *shape)
{
    return (double)bt_shape_count(shape) * (double)bt_dtype_size(dtype);
}

static double operand_bytes(const bt_op_call *call)
{
    double bytes = 0;
    for (int i = 0; i < call->in_count; ++i) {
        bytes += call->in[i] ? spec_bytes(call->in[i]->dtype, &call->in[i]->shape) : 0;
    }
    for (int i = 0; i < call->out_count; ++i) {
        bytes += spec_bytes(call->out_spec[i].dtype, &call->out_spec[i].shape);
    }
    return bytes;
}

static void cost(const bt_op_call *call, double flops, bt_op_cost *out)
{
    out->flops = flops;
    out->bytes = operand_bytes(call);
}

void bt_cost_elementwise(const bt_op_call *call, bt_op_cost *out)
{
    cost(call, (double)bt_shape_count(&call->out_spec[0].shape), out);
}

void bt_cost_transcendental(const bt_op_call *call, bt_op_cost *out)
{
    cost(call, 10.0 * (double)bt_shape_count(&call->out_spec[0].shape), out);
}

void bt_cost_rows(const bt_op_call *call, bt_op_cost *out)
{
    cost(call, 5.0 * (double)bt_shape_count(&call->in[0]->shape), out);
}

void bt_cost_linear(const bt_op_call *call, bt_op_cost *out)
{
    const bt_shape *weight = &call->in[1]->shape;
    cost(call, 2.0 * (double)bt_shape_count(&call->in[0]->shape) * (double)weight->size[0], out);
}

void bt_cost_feed_forward(const bt_op_call *call, bt_op_cost *out)
{
    const bt_shape *x = &call->in[0]->shape, *y = &call->out_spec[0].shape;
    const double hidden = (double)call->in[1]->shape.size[0];
    cost(call, 2.0 * hidden * (double)(bt_shape_count(x) + bt_shape_count(y)), out);
}

void bt_cost_matmul(const bt_op_call *call, bt_op_cost *out)
{
    const bt_shape *a = &call->in[0]->shape;
    int64_t k = a->size[call->attrs.matmul.trans_a ? a->rank - 2 : a->rank - 1];
    cost(call, 2.0 * (double)bt_shape_count(&call->out_spec[0].shape) * (double)k, out);
}

void bt_cost_attention(const bt_op_call *call, bt_op_cost *out)
{
    const bt_shape *y = &call->out_spec[0].shape; // [B, T, C]
    double flops = 4.0 * (double)bt_shape_count(y) * (double)y->size[1];
    cost(call, call->attrs.attention.causal ? flops / 2 : flops, out);
}

void bt_cost_view(const bt_op_call *call, bt_op_cost *out)
{
    (void)call;
    *out = (bt_op_cost){0};
}
