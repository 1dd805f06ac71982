// framework/ops/attention.c - self-attention on packed queries, keys and values
#include <math.h>

#include "framework/ops/ops.h"

// input qkv [B, T, 3C]; saved qkv, y, lse [B, H, T]

bt_status bt_op_attention_infer(bt_op_call *call)
{
    const bt_tensor *qkv = call->in[0];
    int64_t heads = call->attrs.attention.heads;
    BT_TRY(bt_op_expect_float(call, 0));
    if (qkv->shape.rank != 3 || heads < 1 || heads > INT64_MAX / 3 ||
        qkv->shape.size[2] % (3 * heads) != 0) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "qkv of shape %s with %lld heads; expected [B, T, 3 * heads * head size]",
                        bt_shape_text(&qkv->shape, text), (long long)heads);
    }
    call->out_spec[0] = (bt_op_spec){
        qkv->dtype, BT_SHAPE(qkv->shape.size[0], qkv->shape.size[1], qkv->shape.size[2] / 3)};
    return BT_OK;
}

// Operand `part` (of `parts`) of a packed tensor [B, T, parts * C].
static bt_attention_view packed(const bt_tensor *tensor, int part, int parts, int64_t head_dim)
{
    int64_t width = tensor->shape.size[2];
    int64_t tokens = tensor->shape.size[1];
    char *base = bt_tensor_data(tensor);
    return (bt_attention_view){.base = base + part * (width / parts) *
                                                  (int64_t)bt_dtype_size(tensor->dtype),
                               .batch_stride = tokens * width,
                               .token_stride = width,
                               .head_stride = head_dim};
}

static bt_attention_shape shape_of(const bt_tensor *qkv, int64_t heads, bool causal)
{
    const int64_t tokens = qkv->shape.size[1], head_dim = qkv->shape.size[2] / (3 * heads);
    return (bt_attention_shape){.batch = qkv->shape.size[0],
                                .heads = heads,
                                .kv_heads = heads,
                                .q_tokens = tokens,
                                .kv_tokens = tokens,
                                .head_dim = head_dim,
                                .scale = 1.0 / sqrt((double)head_dim),
                                .causal = causal};
}

bt_status bt_op_attention_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *qkv = call->in[0];
    int64_t heads = call->attrs.attention.heads;
    int64_t batch = qkv->shape.size[0];
    int64_t tokens = qkv->shape.size[1];
    int64_t head_dim = qkv->shape.size[2] / (3 * heads);
    BT_TRY(bt_tensor_create(context, qkv->dtype == BT_F64 ? BT_F64 : BT_F32,
                            BT_SHAPE(batch, heads, tokens), "log-sum-exp", &call->saved[2]));
    call->saved[0] = bt_tensor_retain(qkv);
    call->saved[1] = bt_tensor_retain(call->out[0]);
    bt_attention_args args = {.q = packed(qkv, 0, 3, head_dim),
                              .k = packed(qkv, 1, 3, head_dim),
                              .v = packed(qkv, 2, 3, head_dim),
                              .o = packed(call->out[0], 0, 1, head_dim),
                              .lse = bt_tensor_data(call->saved[2]),
                              .shape = shape_of(qkv, heads, call->attrs.attention.causal),
                              .compute = context->compute,
                              .dtype = qkv->dtype};
    return bt_context_launch(context, BT_KERNEL_ATTENTION, qkv->dtype, &args);
}

bt_status bt_op_attention_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *qkv = call->saved[0];
    int64_t heads = call->attrs->attention.heads;
    int64_t head_dim = qkv->shape.size[2] / (3 * heads);
    bt_tensor *dqkv = NULL;
    BT_TRY(bt_grad_target(context, call, 0, &dqkv));
    bt_attention_backward_args args = {.q = packed(qkv, 0, 3, head_dim),
                                       .k = packed(qkv, 1, 3, head_dim),
                                       .v = packed(qkv, 2, 3, head_dim),
                                       .o = packed(call->saved[1], 0, 1, head_dim),
                                       .d_o = packed(call->dout[0], 0, 1, head_dim),
                                       .lse = bt_tensor_data(call->saved[2]),
                                       .dq = packed(dqkv, 0, 3, head_dim),
                                       .dk = packed(dqkv, 1, 3, head_dim),
                                       .dv = packed(dqkv, 2, 3, head_dim),
                                       .shape = shape_of(qkv, heads, call->attrs->attention.causal),
                                       .compute = context->compute,
                                       .dtype = qkv->dtype};
    return bt_context_launch(context, BT_KERNEL_ATTENTION_BACKWARD, qkv->dtype, &args);
}

bool bt_op_attention_sample(int variant, bt_op_sample *out)
{
    static const int64_t tokens[] = {7, 7, 1};
    int64_t t = tokens[variant % 3];
    *out = (bt_op_sample){.in_count = 1,
                          .in = {{BT_F64, BT_SHAPE(2, t, 3 * 2 * 4)}},
                          .present = {true},
                          .low = {-1},
                          .high = {1},
                          .attrs.attention = {2, variant != 1}};
    return variant < 3;
}

bt_status bt_attention(bt_context *context, bt_tensor *qkv, int64_t heads, bool causal,
                       bt_tensor **out)
{
    bt_op_attrs attrs = {.attention = {heads, causal}};
    return bt_op_apply(context, BT_OP_ATTENTION, &attrs, &qkv, 1, out);
}
