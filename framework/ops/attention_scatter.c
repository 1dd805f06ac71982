// framework/ops/attention_scatter.c - attention and its projection, whose sum over the ranks is
// exchanged beside the attention of other sequences
//
// The sequences are in chunks, as the rows. Forward: attention and projection of each other rank's
// sequences, whose terms leave in pieces, then of the own ones. Backward: of the own sequences
// first, while the gradients of the others' arrive. Each sequence's attention is a call's own work,
// so no result depends on the order; kernels may sum in another order for fewer sequences.
//
// saved  qkv, attention y and log-sum-exp (for qkv's gradient; y for w's), w (for qkv's)
#include "framework/ops/attention_call.h"
#include "framework/ops/collective.h"
#include "framework/ops/linear.h"
#include "framework/ops/row_products.h"

static const bt_attr_field attention_scatter_fields[] = {
    // The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
    BT_ATTR(bt_attention_scatter_attrs, chunks, POINTER),
    BT_ATTR(bt_attention_scatter_attrs, heads, I64),
    BT_ATTR(bt_attention_scatter_attrs, causal, BOOL)};
const bt_op_attrs bt_attrs_attention_scatter =
    BT_OP_ATTRS(bt_attention_scatter_attrs, attention_scatter_fields);

enum { QKV, W, BIAS, RESIDUAL };
enum { SAVED_QKV, SAVED_W, SAVED_Y, SAVED_LSE };

static bt_attention_options options_of(const bt_attention_scatter_attrs *attrs)
{
    return (bt_attention_options){.heads = attrs->heads, .causal = attrs->causal};
}

bt_status bt_op_attention_scatter_infer(bt_op_call *call)
{
    const bt_attention_scatter_attrs *attrs = BT_ATTRS(call, attention_scatter);
    const int ranks = bt_row_chunks_ranks(attrs->chunks);
    const bt_shape *qkv = &call->in[QKV]->shape;
    char text[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_op_expect_float(call, QKV));
    if (attrs->heads < 1 || attrs->heads > INT64_MAX / 3 || qkv->rank != 3 ||
        qkv->size[0] % ranks != 0 || qkv->size[2] % (3 * attrs->heads) != 0) {
        return bt_error(
            BT_STATUS_INVALID_ARGUMENT,
            "qkv of shape %s with %lld heads; expected [B, T, 3 * heads * head size], B "
            "a multiple of %d",
            bt_shape_text(qkv, text), (long long)attrs->heads, ranks);
    }
    bt_shape shape = BT_SHAPE(qkv->size[0] / ranks * qkv->size[1], qkv->size[2] / 3);
    BT_TRY(bt_linear_infer(call, QKV, W, BIAS, &shape));
    BT_TRY(bt_linear_infer_residual(call, QKV, RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[QKV]->dtype, shape};
    return BT_OK;
}

// ---- the attention of a rank's sequences --------------------------------------------------------

typedef struct sequences {
    bt_tensor *qkv, *y, *lse; // of all ranks
    bt_attention_options with;
    int ranks;
} sequences;

static void release_parts(bt_tensor **parts, int count)
{
    for (int i = 0; i < count; ++i) {
        bt_tensor_release(parts[i]);
    }
}

static bt_status attend(bt_context *context, const sequences *of, int rank)
{
    bt_tensor *parts[3] = {NULL};
    bt_status status = bt_rows_of(of->qkv, of->ranks, rank, &parts[0]);
    status = status ? status : bt_rows_of(of->y, of->ranks, rank, &parts[1]);
    status = status ? status : bt_rows_of(of->lse, of->ranks, rank, &parts[2]);
    if (status == BT_OK) {
        bt_tensor *const in[] = {parts[0], NULL, NULL, NULL};
        bt_range_push(context, "attention"); // apart from the op's products
        status = bt_attention_call(context, &of->with, in, parts[1], parts[2]);
        bt_range_pop(context);
    }
    release_parts(parts, 3);
    return status;
}

// dqkv of a rank's sequences; dy [B / ranks, T, C].
static bt_status attend_backward(bt_context *context, const sequences *of, int rank, bt_tensor *dy,
                                 bt_tensor *dqkv)
{
    bt_tensor *parts[4] = {NULL};
    bt_status status = bt_rows_of(of->qkv, of->ranks, rank, &parts[0]);
    status = status ? status : bt_rows_of(of->y, of->ranks, rank, &parts[1]);
    status = status ? status : bt_rows_of(of->lse, of->ranks, rank, &parts[2]);
    status = status ? status : bt_rows_of(dqkv, of->ranks, rank, &parts[3]);
    if (status == BT_OK) {
        bt_tensor *const in[] = {parts[0], NULL, NULL, NULL};
        bt_tensor *const grad[] = {parts[3], NULL, NULL};
        bt_range_push(context, "attention");
        status = bt_attention_call_backward(context, &of->with, in, parts[1], parts[2], dy, grad);
        bt_range_pop(context);
    }
    release_parts(parts, 4);
    return status;
}

// ---- the op -------------------------------------------------------------------------------------

bt_status bt_op_attention_scatter_forward(bt_context *context, bt_op_call *call)
{
    const bt_attention_scatter_attrs *attrs = BT_ATTRS(call, attention_scatter);
    bt_row_chunks *chunks = attrs->chunks;
    bt_tensor *qkv = call->in[QKV], *w = call->in[W];
    const bt_shape *shape = &qkv->shape;
    const bt_row_product product = bt_row_product_forward(w, call->in[BIAS]);
    sequences of = {.qkv = qkv, .with = options_of(attrs), .ranks = bt_row_chunks_ranks(chunks)};
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, qkv->dtype,
                                 BT_SHAPE(shape->size[0], shape->size[1], shape->size[2] / 3),
                                 "attention", &of.y),
                done);
    BT_TRY_GOTO(bt_tensor_create(context, qkv->dtype == BT_F64 ? BT_F64 : BT_F32,
                                 BT_SHAPE(shape->size[0], attrs->heads, shape->size[1]),
                                 "log-sum-exp", &of.lse),
                done);
    BT_TRY_GOTO(bt_rows_reserve(context, chunks, &call->out_spec[0], NULL), done);
    for (int i = 1; i <= of.ranks; ++i) {
        const int step = i % of.ranks; // the own sequences last
        BT_TRY_GOTO(attend(context, &of, bt_row_chunks_rank(chunks, -step)), done);
        BT_TRY_GOTO(bt_rows_send_term(context, chunks, &product, of.y, step, call->out[0]), done);
    }
    BT_TRY_GOTO(bt_row_chunks_sum(chunks, context, call->in[RESIDUAL], call->out[0]), done);
    if (call->recording) {
        call->saved[SAVED_QKV] = qkv->requires_grad ? bt_tensor_retain(qkv) : NULL;
        call->saved[SAVED_W] = qkv->requires_grad ? bt_tensor_retain(w) : NULL;
        call->saved[SAVED_Y] =
            qkv->requires_grad || w->requires_grad ? bt_tensor_retain(of.y) : NULL;
        call->saved[SAVED_LSE] = qkv->requires_grad ? bt_tensor_retain(of.lse) : NULL;
    }
done:
    bt_tensor_release(of.y);
    bt_tensor_release(of.lse);
    return status;
}

// dqkv of the sequences of rank + step, from that rank's rows of dy.
static bt_status chunk_backward(bt_context *context, bt_row_chunks *chunks, const sequences *of,
                                const bt_row_product *product, int step, bt_tensor *rows,
                                bt_tensor *dqkv)
{
    bt_shape shape = of->y->shape;
    bt_tensor *dy = NULL;
    shape.size[0] /= of->ranks;
    BT_TRY(bt_tensor_create(context, rows->dtype, shape, "gradient of attention", &dy));
    bt_status status = bt_rows_multiply(context, product, rows, NULL, dy);
    if (status == BT_OK) {
        status = attend_backward(context, of, bt_row_chunks_rank(chunks, step), dy, dqkv);
    }
    bt_tensor_release(dy);
    return status;
}

static bt_status sequences_backward(bt_context *context, bt_op_backward *call,
                                    const bt_gathered *gathered)
{
    const bt_attention_scatter_attrs *attrs = BT_ATTRS(call, attention_scatter);
    bt_row_chunks *chunks = attrs->chunks;
    const sequences of = {.qkv = call->saved[SAVED_QKV],
                          .y = call->saved[SAVED_Y],
                          .lse = call->saved[SAVED_LSE],
                          .with = options_of(attrs),
                          .ranks = bt_row_chunks_ranks(chunks)};
    const bt_row_product product = bt_row_product_dx(call->saved[SAVED_W], false);
    bt_tensor *dqkv = NULL;
    BT_TRY(bt_grad_target(context, call, QKV, &dqkv));
    BT_TRY(chunk_backward(context, chunks, &of, &product, 0, call->dout[0], dqkv));
    for (int step = 1; step < of.ranks; ++step) {
        bt_tensor *rows = NULL;
        BT_TRY(bt_row_chunks_await(chunks, context, BT_ROWS_GRADIENT, step));
        BT_TRY(bt_rows_of(gathered->whole, of.ranks, bt_row_chunks_rank(chunks, step), &rows));
        bt_status status = chunk_backward(context, chunks, &of, &product, step, rows, dqkv);
        bt_tensor_release(rows);
        BT_TRY(status);
    }
    return BT_OK;
}

bt_status bt_op_attention_scatter_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, attention_scatter)->chunks;
    bt_tensor *dy = call->dout[0];
    const bt_op_spec part = {dy->dtype, dy->shape};
    bt_gathered rows = {0};
    bt_status status = BT_OK;
    BT_TRY(bt_rows_reserve(context, chunks, &part, NULL));
    BT_TRY_GOTO(
        bt_rows_gather(context, chunks, BT_ROWS_GRADIENT, NULL, dy, NULL, NULL, true, &rows), done);
    BT_TRY_GOTO(call->din[QKV].wanted ? sequences_backward(context, call, &rows)
                                      : bt_rows_await_others(context, &rows),
                done);
    BT_TRY_GOTO(bt_row_chunks_await(chunks, context, BT_ROWS_GRADIENT, 0), done);
    BT_TRY_GOTO(bt_rows_weight_backward(context, call, W, rows.whole, call->saved[SAVED_Y]), done);
    if (call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
done:
    return bt_rows_release(context, &rows, status);
}

bt_status bt_attention_scatter(bt_context *context, bt_row_chunks *chunks, bt_tensor *qkv,
                               int64_t heads, bool causal, bt_tensor *w, bt_tensor *bias,
                               bt_tensor *residual, bt_tensor **y)
{
    const bt_attention_scatter_attrs attrs = {chunks, heads, causal};
    bt_tensor *in[] = {qkv, w, bias, residual};
    return bt_op_apply(context, BT_OP_ATTENTION_SCATTER, &attrs, in, 4, y);
}
