// framework/ops/row_linear.c - linear layers whose inputs or outputs are gathered or summed by
// chunks
#include "framework/ops/collective.h"
#include "framework/ops/linear.h"
#include "framework/ops/row_products.h"

enum { X, W, BIAS, RESIDUAL };

// The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
static const bt_attr_field row_chunks_fields[] = {BT_ATTR(bt_row_chunks_attrs, chunks, POINTER)};
const bt_op_attrs bt_attrs_row_chunks = BT_OP_ATTRS(bt_row_chunks_attrs, row_chunks_fields);

// ---- gather_linear ------------------------------------------------------------------------------
// saved  this rank's rows x (for w's gradient), w (for x's)

bt_status bt_op_gather_linear_infer(bt_op_call *call)
{
    bt_shape shape = call->in[X]->shape;
    BT_TRY(bt_rows_expect(call, X, 1));
    BT_TRY(bt_linear_infer(call, X, W, BIAS, &shape));
    shape.size[0] *= bt_row_chunks_ranks(BT_ATTRS(call, row_chunks)->chunks);
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_gather_linear_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *x = call->in[X], *w = call->in[W];
    const bt_op_spec part = {x->dtype, x->shape};
    const bt_row_product of = bt_row_product_forward(w, call->in[BIAS]);
    bt_gathered rows;
    call->remake = context->recompute >= BT_RECOMPUTE_BLOCK;
    if (call->recording) {
        call->saved[X] = w->requires_grad ? bt_tensor_retain(x) : NULL;
        call->saved[W] = x->requires_grad ? bt_tensor_retain(w) : NULL;
    }
    BT_TRY(bt_rows_reserve(context, chunks, &part, NULL));
    bt_status status =
        bt_rows_gather(context, chunks, BT_ROWS_INPUT, &of, x, NULL, call->out[0], false, &rows);
    status = status ? status : bt_rows_gathered_multiply(context, &rows, &of, NULL, call->out[0]);
    return bt_rows_release(context, &rows, status);
}

// The terms of dx leave while the rows of x arrive and the weight's gradient is computed.
bt_status bt_op_gather_linear_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *dy = call->dout[0], *dx = NULL;
    const bt_row_product of = bt_row_product_dx(call->saved[W], false);
    bt_gathered rows = {0};
    bt_status status = BT_OK;
    BT_TRY(bt_rows_reserve(context, chunks, &call->in_spec[X], &call->din[X].spec));
    if (call->din[W].wanted) {
        BT_TRY_GOTO(bt_rows_gather(context, chunks, BT_ROWS_INPUT, NULL, call->saved[X], NULL, NULL,
                                   true, &rows),
                    done);
    }
    if (call->din[X].wanted) {
        BT_TRY_GOTO(bt_grad_target(context, call, X, &dx), done);
        BT_TRY_GOTO(bt_rows_send(context, chunks, &of, dy, dx), done);
    }
    if (rows.whole) {
        BT_TRY_GOTO(bt_rows_await_others(context, &rows), done);
        BT_TRY_GOTO(bt_row_chunks_await(chunks, context, BT_ROWS_INPUT, 0), done);
    }
    BT_TRY_GOTO(bt_rows_weight_backward(context, call, W, dy, rows.whole), done);
    status = dx ? bt_row_chunks_sum(chunks, context, NULL, dx) : BT_OK;
done:
    return bt_rows_release(context, &rows, status);
}

bt_status bt_gather_linear(bt_context *context, bt_row_chunks *chunks, bt_tensor *x, bt_tensor *w,
                           bt_tensor *bias, bt_tensor **y)
{
    const bt_row_chunks_attrs attrs = {chunks};
    bt_tensor *in[] = {x, w, bias};
    return bt_op_apply(context, BT_OP_GATHER_LINEAR, &attrs, in, 3, y);
}

// ---- linear_scatter -----------------------------------------------------------------------------
// saved  x (for w's gradient), w (for x's)

bt_status bt_op_linear_scatter_infer(bt_op_call *call)
{
    const int ranks = bt_row_chunks_ranks(BT_ATTRS(call, row_chunks)->chunks);
    bt_shape shape = call->in[X]->shape;
    BT_TRY(bt_rows_expect(call, X, ranks));
    BT_TRY(bt_linear_infer(call, X, W, BIAS, &shape));
    shape.size[0] /= ranks;
    BT_TRY(bt_linear_infer_residual(call, X, RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_linear_scatter_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *x = call->in[X], *w = call->in[W];
    const bt_row_product of = bt_row_product_forward(w, call->in[BIAS]);
    if (call->recording) {
        call->saved[X] = w->requires_grad ? bt_tensor_retain(x) : NULL;
        call->saved[W] = x->requires_grad ? bt_tensor_retain(w) : NULL;
    }
    BT_TRY(bt_rows_reserve(context, chunks, &call->out_spec[0], NULL));
    BT_TRY(bt_rows_send(context, chunks, &of, x, call->out[0]));
    return bt_row_chunks_sum(chunks, context, call->in[RESIDUAL], call->out[0]);
}

bt_status bt_op_linear_scatter_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = BT_ATTRS(call, row_chunks)->chunks;
    bt_tensor *dy = call->dout[0], *dx = NULL;
    const bt_op_spec part = {dy->dtype, dy->shape};
    const bt_row_product of = bt_row_product_dx(call->saved[W], call->din[X].accumulate);
    bt_gathered rows = {0};
    bt_status status = BT_OK;
    BT_TRY(bt_rows_reserve(context, chunks, &part, NULL));
    BT_TRY(call->din[X].wanted ? bt_grad_target(context, call, X, &dx) : BT_OK);
    BT_TRY_GOTO(bt_rows_gather(context, chunks, BT_ROWS_GRADIENT, dx ? &of : NULL, dy, NULL, dx,
                               true, &rows),
                done);
    BT_TRY_GOTO(dx ? bt_rows_gathered_multiply(context, &rows, &of, NULL, dx)
                   : bt_rows_await_others(context, &rows),
                done);
    BT_TRY_GOTO(bt_row_chunks_await(chunks, context, BT_ROWS_GRADIENT, 0), done);
    BT_TRY_GOTO(bt_rows_weight_backward(context, call, W, rows.whole, call->saved[X]), done);
    if (call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
done:
    return bt_rows_release(context, &rows, status);
}

bt_status bt_linear_scatter(bt_context *context, bt_row_chunks *chunks, bt_tensor *x, bt_tensor *w,
                            bt_tensor *bias, bt_tensor *residual, bt_tensor **y)
{
    const bt_row_chunks_attrs attrs = {chunks};
    bt_tensor *in[] = {x, w, bias, residual};
    return bt_op_apply(context, BT_OP_LINEAR_SCATTER, &attrs, in, 4, y);
}
