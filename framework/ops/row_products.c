// framework/ops/row_products.c - products of chunks of rows beside the exchange of other chunks
//
//   gather_linear        y = (x of all ranks) w^T + bias
//   linear_scatter       y = this rank's rows of the sum over the ranks of x w^T + bias, + residual
//   feed_forward_chunks  y = the same of gelu((x of all) w^T + b) v^T + c
//
// An input that has this rank's rows is gathered chunk by chunk, in the backward the gradient of an
// output that has them; a sum over the ranks leaves chunk by chunk (row_chunks.h). The gathered x
// is not saved but gathered again in the backward, beside the products of dx. Gradients of weights
// and biases are products of all rows, not of chunks, so each element is summed in the order of the
// whole product, and none is deferred: the gathered operands last until the op ends.
//
// Invariant  the exchanges of a call depend on its inputs' shapes and on which gradients are
// wanted, which are equal on all ranks.
#include "framework/linalg/gemm.h"
#include "framework/ops/collective.h"
#include "framework/ops/feed_forward.h"
#include "framework/ops/linear.h"
#include "framework/ops/row_chunks.h"

enum { X, W, BIAS, RESIDUAL, FEED_RESIDUAL = BT_FEED_C + 1 };

// The size of the pointer is wanted. NOLINTNEXTLINE(bugprone-sizeof-expression)
static const bt_attr_field row_chunks_fields[] = {BT_ATTR(bt_row_chunks_attrs, chunks, POINTER)};
const bt_op_attrs bt_attrs_row_chunks = BT_OP_ATTRS(bt_row_chunks_attrs, row_chunks_fields);

static bt_row_chunks *chunks_of(const void *attrs)
{
    return ((const bt_row_chunks_attrs *)attrs)->chunks;
}

static int64_t bytes_of(const bt_op_spec *spec)
{
    return bt_shape_count(&spec->shape) * (int64_t)bt_dtype_size(spec->dtype);
}

static bt_status reserve(bt_context *context, const void *attrs, const bt_op_spec *one,
                         const bt_op_spec *other)
{
    const int64_t a = one ? bytes_of(one) : 0, b = other ? bytes_of(other) : 0;
    return bt_row_chunks_open(chunks_of(attrs), context, a > b ? a : b);
}

// Rows of the chunk of a rank. Owns  *out: the caller
static bt_status rows_of(bt_tensor *x, int ranks, int rank, bt_tensor **out)
{
    int64_t stride[BT_MAX_RANK];
    bt_shape shape = x->shape;
    shape.size[0] /= ranks;
    bt_shape_strides(&shape, stride);
    return bt_tensor_view(x, shape, stride, rank * bt_shape_count(&shape), out);
}

// Waits for the rows of all other ranks.
static bt_status await_others(bt_context *context, bt_row_chunks *chunks, bt_row_area area)
{
    for (int step = 1; step < bt_row_chunks_ranks(chunks); ++step) {
        BT_TRY(bt_row_chunks_await(chunks, context, area, step));
    }
    return BT_OK;
}

// A product of one chunk: `rows` of it times a matrix, into `result`. aux: of an epilogue.
typedef struct product {
    bt_gemm_args (*args)(const bt_context *context, const struct product *of, bt_tensor *rows,
                         bt_tensor *aux, bt_tensor *result);
    bt_tensor *matrix, *bias;
    double beta;
} product;

static bt_gemm_args forward_args(const bt_context *context, const product *of, bt_tensor *rows,
                                 bt_tensor *aux, bt_tensor *result)
{
    (void)aux;
    return bt_linear_args(context, rows, of->matrix, of->bias, result);
}

static bt_gemm_args dx_args(const bt_context *context, const product *of, bt_tensor *rows,
                            bt_tensor *aux, bt_tensor *result)
{
    (void)aux;
    return bt_linear_dx_args(context, rows, of->matrix, result);
}

static bt_gemm_args hidden_args(const bt_context *context, const product *of, bt_tensor *rows,
                                bt_tensor *aux, bt_tensor *result)
{
    return bt_feed_forward_hidden_args(context, rows, of->matrix, of->bias, aux, result);
}

static bt_gemm_args dpre_args(const bt_context *context, const product *of, bt_tensor *rows,
                              bt_tensor *aux, bt_tensor *result)
{
    return bt_feed_forward_dpre_args(context, rows, of->matrix, aux, result);
}

static bt_status multiply(bt_context *context, const product *of, bt_tensor *rows, bt_tensor *aux,
                          bt_tensor *result)
{
    bt_gemm_args args = of->args(context, of, rows, aux, result);
    args.beta = of->beta;
    return bt_gemm(context, &args);
}

// The product of the rows of `rank` into its rows of the result; aux, which may be NULL, and the
// result have the rows of all ranks.
static bt_status multiply_chunk(bt_context *context, const product *of, int ranks, int rank,
                                bt_tensor *rows, bt_tensor *aux, bt_tensor *result)
{
    bt_tensor *given = NULL, *to = NULL;
    bt_status status = aux ? rows_of(aux, ranks, rank, &given) : BT_OK;
    status = status ? status : rows_of(result, ranks, rank, &to);
    status = status ? status : multiply(context, of, rows, given, to);
    bt_tensor_release(given);
    bt_tensor_release(to);
    return status;
}

// result = the product of the own rows and of those of other ranks, which arrive in `area`.
static bt_status gather_multiply(bt_context *context, bt_row_chunks *chunks, bt_row_area area,
                                 const product *of, bt_tensor *own, bt_tensor *whole,
                                 bt_tensor *aux, bt_tensor *result)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    BT_TRY(multiply_chunk(context, of, ranks, bt_row_chunks_rank(chunks, 0), own, aux, result));
    for (int step = 1; step < ranks; ++step) {
        const int rank = bt_row_chunks_rank(chunks, step);
        bt_tensor *rows = NULL;
        BT_TRY(bt_row_chunks_await(chunks, context, area, step));
        BT_TRY(rows_of(whole, ranks, rank, &rows));
        bt_status status = multiply_chunk(context, of, ranks, rank, rows, aux, result);
        bt_tensor_release(rows);
        BT_TRY(status);
    }
    return BT_OK;
}

// Computes this rank's terms of `sum` and sends those of other ranks; bt_row_chunks_sum follows.
static bt_status multiply_send(bt_context *context, bt_row_chunks *chunks, const product *of,
                               bt_tensor *whole, bt_tensor *sum)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    for (int i = 1; i <= ranks; ++i) {
        const int step = i % ranks; // the own rows last
        bt_tensor *rows = NULL, *term = NULL;
        bt_status status = rows_of(whole, ranks, bt_row_chunks_rank(chunks, -step), &rows);
        status = status ? status : bt_row_chunks_term(chunks, context, step, sum, &term);
        status = status ? status : multiply(context, of, rows, NULL, term);
        status = status ? status : bt_row_chunks_send(chunks, context, step);
        bt_tensor_release(rows);
        bt_tensor_release(term);
        BT_TRY(status);
    }
    return BT_OK;
}

// The gradients of a weight and its bias, at once.
static bt_status weight_backward(bt_context *context, bt_op_backward *call, int weight,
                                 bt_tensor *dy, bt_tensor *x)
{
    call->din[weight].leaf = NULL;
    return bt_linear_dw_dbias(context, call, weight, weight + 1, dy, x);
}

static bt_status expect_rows(const bt_op_call *call, int multiple)
{
    const bt_shape *shape = &call->in[X]->shape;
    char text[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_op_expect_float(call, X));
    return shape->rank == 2 && shape->size[0] % multiple == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "x of shape %s; expected [rows, width], rows a multiple of %d",
                          bt_shape_text(shape, text), multiple);
}

// ---- gather_linear ------------------------------------------------------------------------------
// saved  this rank's rows x (for w's gradient), w (for x's)

bt_status bt_op_gather_linear_infer(bt_op_call *call)
{
    bt_shape shape = call->in[X]->shape;
    BT_TRY(expect_rows(call, 1));
    BT_TRY(bt_linear_infer(call, X, W, BIAS, &shape));
    shape.size[0] *= bt_row_chunks_ranks(chunks_of(call->attrs));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_gather_linear_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *x = call->in[X], *w = call->in[W], *whole = NULL;
    const bt_op_spec part = {x->dtype, x->shape};
    const product of = {forward_args, w, call->in[BIAS], 0};
    call->remake = context->recompute >= BT_RECOMPUTE_BLOCK;
    if (call->recording) {
        call->saved[X] = w->requires_grad ? bt_tensor_retain(x) : NULL;
        call->saved[W] = x->requires_grad ? bt_tensor_retain(w) : NULL;
    }
    BT_TRY(reserve(context, call->attrs, &part, NULL));
    BT_TRY(bt_row_chunks_gather(chunks, context, BT_ROWS_INPUT, x, false, &whole));
    bt_status status =
        gather_multiply(context, chunks, BT_ROWS_INPUT, &of, x, whole, NULL, call->out[0]);
    bt_tensor_release(whole);
    return status;
}

// The terms of dx leave while the rows of x arrive and the weight's gradient is computed.
bt_status bt_op_gather_linear_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *dy = call->dout[0], *whole = NULL, *dx = NULL;
    const product of = {dx_args, call->saved[W], NULL, 0};
    bt_status status = BT_OK;
    BT_TRY(reserve(context, call->attrs, &call->in_spec[X], &call->din[X].spec));
    if (call->din[W].wanted) {
        BT_TRY(bt_row_chunks_gather(chunks, context, BT_ROWS_INPUT, call->saved[X], true, &whole));
    }
    if (call->din[X].wanted) {
        BT_TRY_GOTO(bt_grad_target(context, call, X, &dx), done);
        BT_TRY_GOTO(multiply_send(context, chunks, &of, dy, dx), done);
    }
    if (whole) {
        BT_TRY_GOTO(await_others(context, chunks, BT_ROWS_INPUT), done);
        BT_TRY_GOTO(bt_row_chunks_await(chunks, context, BT_ROWS_INPUT, 0), done);
    }
    BT_TRY_GOTO(weight_backward(context, call, W, dy, whole), done);
    status = dx ? bt_row_chunks_sum(chunks, context, NULL, dx) : BT_OK;
done:
    bt_tensor_release(whole);
    return status;
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
    const int ranks = bt_row_chunks_ranks(chunks_of(call->attrs));
    bt_shape shape = call->in[X]->shape;
    BT_TRY(expect_rows(call, ranks));
    BT_TRY(bt_linear_infer(call, X, W, BIAS, &shape));
    shape.size[0] /= ranks;
    BT_TRY(bt_linear_infer_residual(call, X, RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_linear_scatter_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *x = call->in[X], *w = call->in[W];
    const product of = {forward_args, w, call->in[BIAS], 0};
    if (call->recording) {
        call->saved[X] = w->requires_grad ? bt_tensor_retain(x) : NULL;
        call->saved[W] = x->requires_grad ? bt_tensor_retain(w) : NULL;
    }
    BT_TRY(reserve(context, call->attrs, &call->out_spec[0], NULL));
    BT_TRY(multiply_send(context, chunks, &of, x, call->out[0]));
    return bt_row_chunks_sum(chunks, context, call->in[RESIDUAL], call->out[0]);
}

bt_status bt_op_linear_scatter_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *dy = call->dout[0], *whole = NULL, *dx = NULL;
    const bt_op_spec part = {dy->dtype, dy->shape};
    const product of = {dx_args, call->saved[W], NULL, call->din[X].accumulate ? 1 : 0};
    bt_status status = BT_OK;
    BT_TRY(reserve(context, call->attrs, &part, NULL));
    BT_TRY(bt_row_chunks_gather(chunks, context, BT_ROWS_GRADIENT, dy, true, &whole));
    if (call->din[X].wanted) {
        BT_TRY_GOTO(bt_grad_target(context, call, X, &dx), done);
        BT_TRY_GOTO(gather_multiply(context, chunks, BT_ROWS_GRADIENT, &of, dy, whole, NULL, dx),
                    done);
    } else {
        BT_TRY_GOTO(await_others(context, chunks, BT_ROWS_GRADIENT), done);
    }
    BT_TRY_GOTO(bt_row_chunks_await(chunks, context, BT_ROWS_GRADIENT, 0), done);
    BT_TRY_GOTO(weight_backward(context, call, W, whole, call->saved[X]), done);
    if (call->din[RESIDUAL].wanted) {
        bt_grad_pass(call, RESIDUAL, 0);
    }
done:
    bt_tensor_release(whole);
    return status;
}

bt_status bt_linear_scatter(bt_context *context, bt_row_chunks *chunks, bt_tensor *x, bt_tensor *w,
                            bt_tensor *bias, bt_tensor *residual, bt_tensor **y)
{
    const bt_row_chunks_attrs attrs = {chunks};
    bt_tensor *in[] = {x, w, bias, residual};
    return bt_op_apply(context, BT_OP_LINEAR_SCATTER, &attrs, in, 4, y);
}

// ---- feed_forward_chunks ------------------------------------------------------------------------
// saved  as feed_forward, of x this rank's rows

bt_status bt_op_feed_forward_chunks_infer(bt_op_call *call)
{
    bt_shape shape = call->in[X]->shape;
    BT_TRY(expect_rows(call, 1));
    BT_TRY(bt_linear_infer(call, X, W, BT_FEED_B, &shape));
    BT_TRY(bt_linear_infer(call, W, BT_FEED_V, BT_FEED_C, &shape));
    BT_TRY(bt_linear_infer_residual(call, X, FEED_RESIDUAL, &shape));
    call->out_spec[0] = (bt_op_spec){call->in[X]->dtype, shape};
    return BT_OK;
}

bt_status bt_op_feed_forward_chunks_forward(bt_context *context, bt_op_call *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *x = call->in[X], *w = call->in[W], *whole = NULL, *pre = NULL, *hidden = NULL;
    const bt_op_spec part = {x->dtype, x->shape};
    const product first = {hidden_args, w, call->in[BT_FEED_B], 0};
    const product second = {forward_args, call->in[BT_FEED_V], call->in[BT_FEED_C], 0};
    const bt_shape shape =
        BT_SHAPE(x->shape.size[0] * bt_row_chunks_ranks(chunks), w->shape.size[0]);
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_tensor_create(context, x->dtype, shape, "pre-activation", &pre), done);
    BT_TRY_GOTO(bt_tensor_create(context, x->dtype, shape, "activation", &hidden), done);
    BT_TRY_GOTO(reserve(context, call->attrs, &part, &call->out_spec[0]), done);
    BT_TRY_GOTO(bt_row_chunks_gather(chunks, context, BT_ROWS_INPUT, x, false, &whole), done);
    BT_TRY_GOTO(gather_multiply(context, chunks, BT_ROWS_INPUT, &first, x, whole, pre, hidden),
                done);
    BT_TRY_GOTO(multiply_send(context, chunks, &second, hidden, call->out[0]), done);
    BT_TRY_GOTO(bt_row_chunks_sum(chunks, context, call->in[FEED_RESIDUAL], call->out[0]), done);
    if (call->recording) {
        bt_feed_forward_save(call, context->recompute, pre, hidden);
    }
done:
    bt_tensor_release(whole);
    bt_tensor_release(pre);
    bt_tensor_release(hidden);
    return status;
}

// One backward: all rows of dy and x, whose own rows are complete once step 0 is awaited, values of
// the hidden layer and its gradient.
typedef struct feed_back {
    bt_tensor *dy, *x, *pre, *hidden, *dpre;
    bool wants_inner; // x, w or b
} feed_back;

// The hidden layer as the forward had it, bits included: remade from chunks where it is not saved.
static bt_status restore(bt_context *context, bt_op_backward *call, feed_back *f)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *const *saved = call->saved;
    const product of = {hidden_args, saved[W], saved[BT_FEED_B], 0};
    if (!bt_feed_forward_remakes(call)) {
        return bt_feed_forward_restore(context, call, &f->pre, &f->hidden);
    }
    const bt_shape shape = BT_SHAPE(f->x->shape.size[0], saved[W]->shape.size[0]);
    BT_TRY(bt_tensor_create(context, f->x->dtype, shape, "pre-activation", &f->pre));
    BT_TRY(bt_tensor_create(context, f->x->dtype, shape, "activation", &f->hidden));
    return gather_multiply(context, chunks, BT_ROWS_INPUT, &of, saved[X], f->x, f->pre, f->hidden);
}

// The hidden layer; its gradient, chunk by chunk as dy arrives; and the gradients of v and c.
static bt_status outer_backward(bt_context *context, bt_op_backward *call, feed_back *f)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    const product of = {dpre_args, call->saved[BT_FEED_V], NULL, 0};
    BT_TRY(restore(context, call, f));
    if (f->wants_inner) {
        BT_TRY(bt_tensor_create(context, f->pre->dtype, f->pre->shape, "gradient", &f->dpre));
        BT_TRY(gather_multiply(context, chunks, BT_ROWS_GRADIENT, &of, call->dout[0], f->dy, f->pre,
                               f->dpre));
    } else {
        BT_TRY(await_others(context, chunks, BT_ROWS_GRADIENT));
    }
    BT_TRY(bt_row_chunks_await(chunks, context, BT_ROWS_GRADIENT, 0));
    return weight_backward(context, call, BT_FEED_V, f->dy, f->hidden);
}

static bt_status inner_backward(bt_context *context, bt_op_backward *call, feed_back *f)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    const product of = {dx_args, call->saved[W], NULL, 0};
    bt_tensor *dx = NULL;
    if (call->din[X].wanted) {
        BT_TRY(bt_grad_target(context, call, X, &dx));
        BT_TRY(multiply_send(context, chunks, &of, f->dpre, dx));
    }
    if (f->x) {
        BT_TRY(bt_feed_forward_remakes(call) ? BT_OK
                                             : await_others(context, chunks, BT_ROWS_INPUT));
        BT_TRY(bt_row_chunks_await(chunks, context, BT_ROWS_INPUT, 0));
    }
    BT_TRY(weight_backward(context, call, W, f->dpre, f->x));
    return dx ? bt_row_chunks_sum(chunks, context, NULL, dx) : BT_OK;
}

bt_status bt_op_feed_forward_chunks_backward(bt_context *context, bt_op_backward *call)
{
    bt_row_chunks *chunks = chunks_of(call->attrs);
    bt_tensor *dy = call->dout[0];
    const bt_op_spec part = {dy->dtype, dy->shape};
    feed_back f = {.wants_inner =
                       call->din[X].wanted || call->din[W].wanted || call->din[BT_FEED_B].wanted};
    bt_status status = BT_OK;
    BT_TRY(reserve(context, call->attrs, &part, &call->in_spec[X]));
    BT_TRY_GOTO(bt_row_chunks_gather(chunks, context, BT_ROWS_GRADIENT, dy, true, &f.dy), done);
    if (call->din[W].wanted || bt_feed_forward_remakes(call)) {
        BT_TRY_GOTO(
            bt_row_chunks_gather(chunks, context, BT_ROWS_INPUT, call->saved[X], true, &f.x), done);
    }
    BT_TRY_GOTO(outer_backward(context, call, &f), done);
    BT_TENSOR_RELEASE(f.hidden);
    BT_TRY_GOTO(f.wants_inner ? inner_backward(context, call, &f) : BT_OK, done);
    if (call->din[FEED_RESIDUAL].wanted) {
        bt_grad_pass(call, FEED_RESIDUAL, 0);
    }
done:
    bt_tensor_release(f.dy);
    bt_tensor_release(f.x);
    bt_tensor_release(f.pre);
    bt_tensor_release(f.hidden);
    bt_tensor_release(f.dpre);
    return status;
}

bt_status bt_feed_forward_chunks(bt_context *context, bt_row_chunks *chunks, bt_tensor *x,
                                 bt_tensor *w, bt_tensor *b, bt_tensor *v, bt_tensor *c,
                                 bt_tensor *residual, bt_tensor **y)
{
    const bt_row_chunks_attrs attrs = {chunks};
    bt_tensor *in[] = {x, w, b, v, c, residual};
    return bt_op_apply(context, BT_OP_FEED_FORWARD_CHUNKS, &attrs, in, 6, y);
}
