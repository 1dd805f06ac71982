// framework/ops/feed_forward_chunks.c - an MLP over the rows of all ranks, chunk by chunk
//
// saved  as feed_forward, of x this rank's rows
#include "framework/ops/collective.h"
#include "framework/ops/feed_forward.h"
#include "framework/ops/linear.h"
#include "framework/ops/row_products.h"

enum { X = BT_FEED_X, W = BT_FEED_W, RESIDUAL = BT_FEED_C + 1 };

static bt_gemm_args hidden_args(const bt_context *context, const bt_row_product *of,
                                bt_tensor *rows, bt_tensor *aux, bt_tensor *result)
{
    return bt_feed_forward_hidden_args(context, rows, of->matrix, of->bias, aux, result);
}

static bt_gemm_args dpre_args(const bt_context *context, const bt_row_product *of, bt_tensor *rows,
                              bt_tensor *aux, bt_tensor *result)
{
    return bt_feed_forward_dpre_args(context, rows, of->matrix, aux, result);
}

bt_status bt_op_feed_forward_chunks_infer(bt_op_call *call)
{
    bt_shape shape = call->in[X]->shape;
    BT_TRY(bt_rows_expect(call, X, 1));
    BT_TRY(bt_linear_infer(call, X, W, BT_FEED_B, &shape));
    BT_TRY(bt_linear_infer(call, W, BT_FEED_V, BT_FEED_C, &shape));
    BT_TRY(bt_linear_infer_residual(call, X, RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_feed_forward_chunks_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *x = call->in[X], *w = call->in[W], *pre = NULL, *hidden = NULL;
    bt_gathered rows = {0};
    const bt_op_spec part = {x->dtype, x->shape};
    const bt_row_product first = {hidden_args, w, call->in[BT_FEED_B], 0};
    const bt_row_product second = bt_row_product_forward(call->in[BT_FEED_V], call->in[BT_FEED_C]);
    const bt_shape shape =
        BT_SHAPE(x->shape.size[0] * bt_row_chunks_ranks(chunks), w->shape.size[0]);
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, x->dtype, shape, "pre-activation", &pre), done);
    BT_TRY_GOTO(bt_tensor_create(context, x->dtype, shape, "activation", &hidden), done);
    BT_TRY_GOTO(bt_rows_reserve(context, chunks, &part, &call->out_spec[0]), done);
    BT_TRY_GOTO(
        bt_rows_gather(context, chunks, BT_ROWS_INPUT, &first, x, pre, hidden, false, &rows), done);
    BT_TRY_GOTO(bt_rows_gathered_multiply(context, &rows, &first, pre, hidden), done);
    BT_TRY_GOTO(bt_rows_send(context, chunks, &second, hidden, call->out[0]), done);
    BT_TRY_GOTO(bt_row_chunks_sum(chunks, context, call->in[RESIDUAL], call->out[0]), done);
    if (call->recording) {
        bt_feed_forward_save(call, context->recompute, pre, hidden);
    }
done:
    bt_tensor_release(pre);
    bt_tensor_release(hidden);
    return bt_rows_release(context, &rows, status);
}

// One backward: all rows of dy and x, whose own rows are there once step 0 is awaited (those of x
// only if w wants a gradient), values of the hidden layer and its gradient.
typedef struct feed_back {
    bt_gathered dy, x;
    bt_tensor *pre, *hidden, *dpre;
    bool wants_inner; // x, w or b
} feed_back;

static bt_row_product hidden_of(const bt_op_backward *call)
{
    return (bt_row_product){hidden_args, call->saved[W], call->saved[BT_FEED_B], 0};
}

static bt_row_product dpre_of(const bt_op_backward *call)
{
    return (bt_row_product){dpre_args, call->saved[BT_FEED_V], NULL, 0};
}

// Begins to gather dy and, where it is used, x. Makes room for what products compute from them: the
// gradient of the hidden layer, and its values where they are remade.
static bt_status gather(bt_context *context, bt_op_backward *call, feed_back *f)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *dy = call->dout[0];
    const bool remakes = bt_feed_forward_remakes(call), wants_x = call->din[W].wanted || remakes;
    const bt_row_product dpre = dpre_of(call), hidden = hidden_of(call);
    const bt_tensor *w = call->saved[W], *v = call->saved[BT_FEED_V];
    const bt_shape shape =
        BT_SHAPE(dy->shape.size[0] * bt_row_chunks_ranks(chunks), v         ? v->shape.size[1]
                                                                  : remakes ? w->shape.size[0]
                                                                            : 0);
    if (remakes) {
        BT_TRY(bt_tensor_create(context, dy->dtype, shape, "pre-activation", &f->pre));
        BT_TRY(bt_tensor_create(context, dy->dtype, shape, "activation", &f->hidden));
    }
    bt_tensor *pre = remakes ? f->pre : call->saved[BT_FEED_PRE];
    BT_TRY(f->wants_inner ? bt_tensor_create(context, dy->dtype, shape, "gradient", &f->dpre)
                          : BT_OK);
    BT_TRY(bt_rows_gather(context, chunks, BT_ROWS_GRADIENT, f->dpre ? &dpre : NULL, dy, pre,
                          f->dpre, true, &f->dy));
    return wants_x ? bt_rows_gather(context, chunks, BT_ROWS_INPUT, remakes ? &hidden : NULL,
                                    call->saved[X], f->pre, f->hidden, call->din[W].wanted, &f->x)
                   : BT_OK;
}

// The hidden layer with the forward's bits, where it is remade; its gradient, as dy arrives; and
// the gradients of v and c.
static bt_status outer_backward(bt_context *context, bt_op_backward *call, feed_back *f)
{
    const bt_row_product dpre = dpre_of(call), hidden = hidden_of(call);
    BT_TRY(bt_feed_forward_remakes(call)
               ? bt_rows_gathered_multiply(context, &f->x, &hidden, f->pre, f->hidden)
               : bt_feed_forward_restore(context, call, &f->pre, &f->hidden));
    BT_TRY(f->dpre ? bt_rows_gathered_multiply(context, &f->dy, &dpre, f->pre, f->dpre)
                   : bt_rows_await_others(context, &f->dy));
    BT_TRY(bt_row_chunks_await(f->dy.chunks, context, BT_ROWS_GRADIENT, 0));
    return bt_rows_weight_backward(context, call, BT_FEED_V, f->dy.whole, f->hidden);
}

static bt_status inner_backward(bt_context *context, bt_op_backward *call, feed_back *f)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    const bt_row_product of = bt_row_product_dx(call->saved[W], false);
    bt_tensor *dx = NULL;
    if (call->din[X].wanted) {
        BT_TRY(bt_grad_target(context, call, X, &dx));
        BT_TRY(bt_rows_send(context, chunks, &of, f->dpre, dx));
    }
    if (f->x.whole) {
        BT_TRY(bt_feed_forward_remakes(call) ? BT_OK : bt_rows_await_others(context, &f->x));
        BT_TRY(call->din[W].wanted ? bt_row_chunks_await(chunks, context, BT_ROWS_INPUT, 0)
                                   : BT_OK);
    }
    BT_TRY(bt_rows_weight_backward(context, call, W, f->dpre, f->x.whole));
    return dx ? bt_row_chunks_sum(chunks, context, NULL, dx) : BT_OK;
}

bt_status bt_op_feed_forward_chunks_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *dy = call->dout[0];
    const bt_op_spec part = {dy->dtype, dy->shape};
    feed_back f = {.wants_inner =
                       call->din[X].wanted || call->din[W].wanted || call->din[BT_FEED_B].wanted};
    bt_status status = BT_OK;
    BT_TRY(bt_rows_reserve(context, chunks, &part, &call->in_spec[X]));
    BT_TRY_GOTO(gather(context, call, &f), done);
    BT_TRY_GOTO(outer_backward(context, call, &f), done);
    BT_TENSOR_RELEASE(f.hidden);
    BT_TRY_GOTO(f.wants_inner ? inner_backward(context, call, &f) : BT_OK, done);
    if (call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
done:
    bt_tensor_release(f.pre);
    bt_tensor_release(f.hidden);
    bt_tensor_release(f.dpre);
    status = bt_rows_release(context, &f.dy, status);
    return bt_rows_release(context, &f.x, status);
}

bt_status bt_feed_forward_chunks(bt_context *context, bt_row_chunks *chunks, bt_tensor *x,
                                 bt_tensor *w, bt_tensor *b, bt_tensor *v, bt_tensor *c,
                                 bt_tensor *residual, bt_tensor **y)
{
    const bt_row_chunks_attrs attrs = {chunks};
    bt_tensor *in[] = {x, w, b, v, c, residual};
    return bt_op_apply(context, BT_OP_FEED_FORWARD_CHUNKS, &attrs, in, 6, y);
}
