// framework/ops/attention.c - attention on packed or separate queries, keys and values
#include <math.h>

#include "framework/ops/attention_call.h"
#include "kernels/attention.h"

typedef bt_attention_options bt_attention_attrs;
static const bt_attr_field attention_fields[] = {
    BT_ATTR(bt_attention_attrs, heads, I64),   BT_ATTR(bt_attention_attrs, kv_heads, I64),
    BT_ATTR(bt_attention_attrs, causal, BOOL), BT_ATTR(bt_attention_attrs, window, I64),
    BT_ATTR(bt_attention_attrs, q_first, I64), BT_ATTR(bt_attention_attrs, dropout, REAL),
    BT_ATTR(bt_attention_attrs, seed, U64),    BT_ATTR(bt_attention_attrs, stream, U64)};
const bt_op_attrs bt_attrs_attention = BT_OP_ATTRS(bt_attention_attrs, attention_fields);

// inputs q [B, Tq, H D], k and v [B, Tk, G D] - or q [B, T, (H + 2 G) D] alone, all three side by
// side - and starts [documents + 1]; H is heads, G kv_heads
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_STARTS };
enum { SAVED_Y = ATTENTION_STARTS + 1, SAVED_LSE }; // after the inputs; lse [B, H, Tq]

// The operands of a call, from its inputs or what was saved of them.
static bt_attention_shape shape_of(const bt_attention_options *with, bt_tensor *const *in)
{
    const bt_tensor *q = in[ATTENTION_Q], *k = in[ATTENTION_K], *starts = in[ATTENTION_STARTS];
    const int64_t kv_heads = with->kv_heads ? with->kv_heads : with->heads;
    const int64_t head_dim = q->shape.size[2] / (k ? with->heads : with->heads + 2 * kv_heads);
    return (bt_attention_shape){.batch = q->shape.size[0],
                                .heads = with->heads,
                                .kv_heads = kv_heads,
                                .q_tokens = q->shape.size[1],
                                .kv_tokens = (k ? k : q)->shape.size[1],
                                .head_dim = head_dim,
                                .q_first = with->q_first,
                                .window = with->window,
                                .starts = starts ? bt_tensor_data(starts) : NULL,
                                .documents = starts ? starts->shape.size[0] - 1 : 0,
                                .scale = 1.0 / sqrt((double)head_dim),
                                .causal = with->causal,
                                .dropout = with->dropout,
                                .seed = with->seed,
                                .stream = with->stream};
}

static bt_status expect_starts(const bt_op_call *call)
{
    const bt_tensor *starts = call->in[ATTENTION_STARTS];
    BT_TRY(bt_tensor_expect(starts, BT_I32, "input 3"));
    return starts->shape.rank == 1 && starts->shape.size[0] >= 2
               ? BT_OK
               : bt_op_mismatch(call, ATTENTION_STARTS, ATTENTION_Q);
}

static bt_status expect_separate(const bt_op_call *call, int64_t heads, int64_t kv_heads)
{
    const bt_tensor *q = call->in[ATTENTION_Q];
    for (int i = ATTENTION_K; i <= ATTENTION_V; ++i) {
        const bt_tensor *x = call->in[i], *other = call->in[ATTENTION_K];
        if (!x || x->dtype != q->dtype || x->shape.rank != 3 ||
            x->shape.size[0] != q->shape.size[0] || x->shape.size[1] != other->shape.size[1] ||
            x->shape.size[2] != q->shape.size[2] / heads * kv_heads) {
            return x ? bt_op_mismatch(call, i, ATTENTION_Q)
                     : bt_error(BT_STATUS_INVALID_ARGUMENT, "attention with keys, without values");
        }
        BT_TRY(bt_op_expect_float(call, i));
    }
    return BT_OK;
}

bt_status bt_op_attention_infer(bt_op_call *call)
{
    const bt_tensor *q = call->in[ATTENTION_Q];
    const bt_attention_options *with = BT_ATTRS(call, attention);
    const int64_t heads = with->heads, kv_heads = with->kv_heads ? with->kv_heads : heads;
    const bool separate = call->in[ATTENTION_K] || call->in[ATTENTION_V];
    BT_TRY(bt_op_expect_float(call, ATTENTION_Q));
    if (heads < 1 || kv_heads < 1 || heads > INT64_MAX / 3 || kv_heads > heads ||
        heads % kv_heads != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "attention of %lld heads with %lld of keys; expected at least 1 of each "
                        "and a multiple",
                        (long long)heads, (long long)kv_heads);
    }
    const int64_t parts = separate ? heads : heads + 2 * kv_heads;
    if (q->shape.rank != 3 || q->shape.size[2] % parts != 0) {
        char text[BT_SHAPE_TEXT_BYTES];
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s of shape %s with %lld heads; expected [B, T, %lld * head size]",
                        separate ? "q" : "qkv", bt_shape_text(&q->shape, text), (long long)heads,
                        (long long)parts);
    }
    if (separate) {
        BT_TRY(expect_separate(call, heads, kv_heads));
    }
    if (call->in[ATTENTION_STARTS]) {
        BT_TRY(expect_starts(call));
    }
    const bt_attention_shape shape = shape_of(with, call->in);
    if (!bt_attention_valid(&shape)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "attention with window %lld, first query %lld, dropout %g, %lld documents: "
                        "the window is at least 0, dropout in [0, 1); documents need a batch of 1, "
                        "as many queries as keys and a first query of 0",
                        (long long)with->window, (long long)with->q_first, with->dropout,
                        (long long)shape.documents);
    }
    call->out_spec[0] =
        (bt_op_spec){q->dtype, BT_SHAPE(shape.batch, shape.q_tokens, heads * shape.head_dim)};
    return BT_OK;
}

// A view of heads `first` and following of a tensor [B, T, heads of all operands * head_dim].
static bt_attention_view view_of(const bt_tensor *tensor, int64_t first, int64_t head_dim)
{
    const int64_t width = tensor->shape.size[2], tokens = tensor->shape.size[1];
    char *base = bt_tensor_data(tensor);
    return (bt_attention_view){.base =
                                   base + first * head_dim * (int64_t)bt_dtype_size(tensor->dtype),
                               .batch_stride = tokens * width,
                               .token_stride = width,
                               .head_stride = head_dim};
}

// Operand `i` of the inputs, or of tensors laid out like them.
static bt_attention_view operand(bt_tensor *const *in, int i, const bt_attention_shape *shape)
{
    const bool packed = !in[ATTENTION_K];
    const int64_t first = i == ATTENTION_Q ? 0 : shape->heads + (i - 1) * shape->kv_heads;
    return view_of(in[packed ? ATTENTION_Q : i], packed ? first : 0, shape->head_dim);
}

bt_status bt_attention_call(bt_context *context, const bt_attention_options *with,
                            bt_tensor *const *in, bt_tensor *y, bt_tensor *lse)
{
    const bt_attention_shape shape = shape_of(with, in);
    const bt_attention_args args = {.q = operand(in, ATTENTION_Q, &shape),
                                    .k = operand(in, ATTENTION_K, &shape),
                                    .v = operand(in, ATTENTION_V, &shape),
                                    .o = view_of(y, 0, shape.head_dim),
                                    .lse = bt_tensor_data(lse),
                                    .shape = shape,
                                    .compute = context->compute,
                                    .dtype = y->dtype};
    return bt_context_launch(context, BT_KERNEL_ATTENTION, args.dtype, &args);
}

bt_status bt_op_attention_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *q = call->in[ATTENTION_Q], *y = call->out[0], *lse = NULL;
    const bt_attention_options *with = BT_ATTRS(call, attention);
    BT_TRY(bt_tensor_create(context, q->dtype == BT_F64 ? BT_F64 : BT_F32,
                            BT_SHAPE(q->shape.size[0], with->heads, q->shape.size[1]),
                            "log-sum-exp", &lse));
    for (int i = 0; i <= ATTENTION_STARTS; ++i) {
        call->saved[i] = call->in[i] ? bt_tensor_retain(call->in[i]) : NULL;
    }
    call->saved[SAVED_Y] = bt_tensor_retain(y);
    call->saved[SAVED_LSE] = lse;
    return bt_attention_call(context, with, call->in, y, lse);
}

// The kernel writes all three gradients; unneeded ones go to scratch memory.
static bt_status gradients(bt_context *context, bt_op_backward *call, bt_tensor **out,
                           bt_tensor **scratch)
{
    for (int i = 0; i <= ATTENTION_V && call->saved[i]; ++i) {
        if (call->din[i].wanted) {
            BT_TRY(bt_grad_target(context, call, i, &out[i]));
        } else {
            BT_TRY(bt_tensor_create(context, call->saved[i]->dtype, call->saved[i]->shape,
                                    "unused gradient", &scratch[i]));
            out[i] = scratch[i];
        }
    }
    return BT_OK;
}

bt_status bt_attention_call_backward(bt_context *context, const bt_attention_options *with,
                                     bt_tensor *const *in, bt_tensor *y, bt_tensor *lse,
                                     bt_tensor *dy, bt_tensor *const *grad)
{
    const bt_attention_shape shape = shape_of(with, in);
    const bt_attention_backward_args args = {.q = operand(in, ATTENTION_Q, &shape),
                                             .k = operand(in, ATTENTION_K, &shape),
                                             .v = operand(in, ATTENTION_V, &shape),
                                             .o = view_of(y, 0, shape.head_dim),
                                             .d_o = view_of(dy, 0, shape.head_dim),
                                             .lse = bt_tensor_data(lse),
                                             .dq = operand(grad, ATTENTION_Q, &shape),
                                             .dk = operand(grad, ATTENTION_K, &shape),
                                             .dv = operand(grad, ATTENTION_V, &shape),
                                             .shape = shape,
                                             .compute = context->compute,
                                             .dtype = in[ATTENTION_Q]->dtype};
    return bt_context_launch(context, BT_KERNEL_ATTENTION_BACKWARD, args.dtype, &args);
}

bt_status bt_op_attention_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *grad[ATTENTION_V + 1] = {NULL}, *scratch[ATTENTION_V + 1] = {NULL};
    bt_status status = gradients(context, call, grad, scratch);
    if (status == BT_OK) {
        status = bt_attention_call_backward(context, BT_ATTRS(call, attention), call->saved,
                                            call->saved[SAVED_Y], call->saved[SAVED_LSE],
                                            call->dout[0], grad);
    }
    for (int i = 0; i <= ATTENTION_V; ++i) {
        bt_tensor_release(scratch[i]);
    }
    return status;
}

bt_status bt_attention(bt_context *context, bt_tensor *qkv, int64_t heads, bool causal,
                       bt_tensor **out)
{
    const bt_attention_options options = {.heads = heads, .causal = causal};
    return bt_attend(context, qkv, NULL, NULL, NULL, &options, out);
}

bt_status bt_attend(bt_context *context, bt_tensor *q, bt_tensor *k, bt_tensor *v,
                    bt_tensor *starts, const bt_attention_options *options, bt_tensor **out)
{
    bt_tensor *in[] = {q, k, v, starts};
    return bt_op_apply(context, BT_OP_ATTENTION, options, in, ATTENTION_STARTS + 1, out);
}
