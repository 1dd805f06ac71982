// framework/ops/row_products.c - products of chunks of rows beside the exchange of other chunks
#include "framework/ops/row_products.h"

#include "framework/linalg/gemm.h"
#include "framework/ops/linear.h"

static int64_t bytes_of(const bt_op_spec *spec)
{
    return bt_shape_count(&spec->shape) * (int64_t)bt_dtype_size(spec->dtype);
}

bt_status bt_rows_reserve(bt_context *context, bt_row_chunks *chunks, const bt_op_spec *one,
                          const bt_op_spec *other)
{
    const int64_t a = one ? bytes_of(one) : 0, b = other ? bytes_of(other) : 0;
    return bt_row_chunks_open(chunks, context, a > b ? a : b);
}

bt_status bt_rows_of(bt_tensor *x, int ranks, int rank, bt_tensor **out)
{
    int64_t stride[BT_MAX_RANK];
    bt_shape shape = x->shape;
    shape.size[0] /= ranks;
    bt_shape_strides(&shape, stride);
    return bt_tensor_view(x, shape, stride, rank * bt_shape_count(&shape), out);
}

bt_status bt_rows_await_others(bt_context *context, const bt_gathered *rows)
{
    for (int step = 1; step < bt_row_chunks_ranks(rows->chunks); ++step) {
        BT_TRY(bt_row_chunks_await(rows->chunks, context, rows->area, step));
    }
    return BT_OK;
}

bt_status bt_rows_release(bt_context *context, bt_gathered *rows, bt_status status)
{
    if (rows->whole && status == BT_OK) {
        status = rows->in_pieces ? bt_rows_await_others(context, rows) : BT_OK;
        status = status ? status : bt_row_chunks_idle(rows->chunks, context);
    }
    BT_TENSOR_RELEASE(rows->whole);
    return status;
}

static bt_gemm_args forward_args(const bt_context *context, const bt_row_product *of,
                                 bt_tensor *rows, bt_tensor *aux, bt_tensor *result)
{
    (void)aux;
    return bt_linear_args(context, rows, of->matrix, of->bias, result);
}

static bt_gemm_args dx_args(const bt_context *context, const bt_row_product *of, bt_tensor *rows,
                            bt_tensor *aux, bt_tensor *result)
{
    (void)aux;
    return bt_linear_dx_args(context, rows, of->matrix, result);
}

bt_row_product bt_row_product_forward(bt_tensor *w, bt_tensor *bias)
{
    return (bt_row_product){forward_args, w, bias, 0};
}

bt_row_product bt_row_product_dx(bt_tensor *w, bool accumulate)
{
    return (bt_row_product){dx_args, w, NULL, accumulate ? 1 : 0};
}

bt_status bt_rows_multiply(bt_context *context, const bt_row_product *of, bt_tensor *rows,
                           bt_tensor *aux, bt_tensor *result)
{
    bt_gemm_args args = of->args(context, of, rows, aux, result);
    args.beta = of->beta;
    return bt_gemm(context, &args);
}

// The product of the rows of `rank` into its rows of the result; aux, which may be NULL, and the
// result have the rows of all ranks.
static bt_status multiply_chunk(bt_context *context, const bt_row_product *of, int ranks, int rank,
                                bt_tensor *rows, bt_tensor *aux, bt_tensor *result)
{
    bt_tensor *given = NULL, *to = NULL;
    bt_status status = aux ? bt_rows_of(aux, ranks, rank, &given) : BT_OK;
    status = status ? status : bt_rows_of(result, ranks, rank, &to);
    status = status ? status : bt_rows_multiply(context, of, rows, given, to);
    bt_tensor_release(given);
    bt_tensor_release(to);
    return status;
}

// ---- one product in pieces ----------------------------------------------------------------------

// The product of the rows of all ranks. own: this rank's. Of gathered rows they come first, of
// terms last.
static bt_gemm_pieces_args pieces_args(const bt_context *context, const bt_row_product *of,
                                       const bt_row_pieces *pieces, int ranks, bt_tensor *whole,
                                       const void *own, bt_tensor *aux, bt_tensor *result)
{
    bt_gemm_pieces_args args = {.product = of->args(context, of, whole, aux, result),
                                .pieces = (int64_t)ranks * pieces->of_rank,
                                .first = pieces->own,
                                .own = own,
                                .own_first = pieces->own,
                                .own_count = pieces->of_rank,
                                .ready = pieces->words,
                                .count = pieces->count};
    args.product.beta = of->beta;
    return args;
}

static bt_gemm_pieces_args terms_args(const bt_context *context, const bt_row_product *of,
                                      const bt_row_pieces *pieces, int ranks, bt_tensor *whole,
                                      bt_tensor *terms)
{
    const int64_t bytes = (int64_t)bt_tensor_bytes(whole) / ranks;
    const char *own = (const char *)bt_tensor_data(whole) + pieces->own / pieces->of_rank * bytes;
    bt_gemm_pieces_args args = pieces_args(context, of, pieces, ranks, whole, own, NULL, terms);
    args.first = (pieces->own + pieces->of_rank) % args.pieces;
    args.ready = NULL;
    args.done = pieces->words;
    return args;
}

static bool has_row(const bt_context *context, const bt_gemm_pieces_args *args)
{
    return bt_kernel_lookup(context->device, BT_KERNEL_GEMM_PIECES, args->product.ab_dtype, args) !=
           NULL;
}

static bt_status launch(bt_context *context, const bt_gemm_pieces_args *args)
{
    return bt_context_launch(context, BT_KERNEL_GEMM_PIECES, args->product.ab_dtype, args);
}

bt_status bt_rows_gather(bt_context *context, bt_row_chunks *chunks, bt_row_area area,
                         const bt_row_product *of, bt_tensor *own, bt_tensor *aux,
                         bt_tensor *result, bool complete, bt_gathered *to)
{
    const bt_row_pieces pieces = bt_row_chunks_pieces(chunks, area);
    *to = (bt_gathered){.chunks = chunks, .area = area, .own = own};
    BT_TRY(bt_row_chunks_whole(chunks, context, area, own, &to->whole));
    if (of && pieces.words && bt_row_chunks_allows_pieces(chunks, &of->matrix->shape)) {
        const bt_gemm_pieces_args args =
            pieces_args(context, of, &pieces, bt_row_chunks_ranks(chunks), to->whole,
                        bt_tensor_data(own), aux, result);
        to->in_pieces = has_row(context, &args);
    }
    return bt_row_chunks_gather(chunks, context, area, own, complete,
                                to->in_pieces ? &pieces : NULL);
}

bt_status bt_rows_gathered_multiply(bt_context *context, const bt_gathered *rows,
                                    const bt_row_product *of, bt_tensor *aux, bt_tensor *result)
{
    const int ranks = bt_row_chunks_ranks(rows->chunks);
    if (rows->in_pieces) {
        const bt_row_pieces pieces = bt_row_chunks_pieces(rows->chunks, rows->area);
        const bt_gemm_pieces_args args = pieces_args(context, of, &pieces, ranks, rows->whole,
                                                     bt_tensor_data(rows->own), aux, result);
        return launch(context, &args);
    }
    BT_TRY(multiply_chunk(context, of, ranks, bt_row_chunks_rank(rows->chunks, 0), rows->own, aux,
                          result));
    for (int step = 1; step < ranks; ++step) {
        const int rank = bt_row_chunks_rank(rows->chunks, step);
        bt_tensor *part = NULL;
        BT_TRY(bt_row_chunks_await(rows->chunks, context, rows->area, step));
        BT_TRY(bt_rows_of(rows->whole, ranks, rank, &part));
        bt_status status = multiply_chunk(context, of, ranks, rank, part, aux, result);
        bt_tensor_release(part);
        BT_TRY(status);
    }
    return BT_OK;
}

// A product whose terms leave in pieces; *done: there is a row for it.
static bt_status multiply_in_pieces(bt_context *context, bt_row_chunks *chunks,
                                    const bt_gemm_pieces_args *args, bool *done)
{
    *done = has_row(context, args);
    if (!*done) {
        return BT_OK;
    }
    BT_TRY(bt_row_chunks_begin_pieces(chunks, context));
    return launch(context, args);
}

// All terms by one product.
static bt_status send_in_pieces(bt_context *context, bt_row_chunks *chunks,
                                const bt_row_product *of, bt_tensor *whole, bt_tensor *sum,
                                bool *done)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    const bt_row_pieces pieces = bt_row_chunks_pieces(chunks, BT_ROWS_GATHERED);
    bt_tensor *terms = NULL;
    *done = false;
    if (!pieces.words) {
        return BT_OK;
    }
    BT_TRY(bt_row_chunks_terms(chunks, context, sum, &terms));
    const bt_gemm_pieces_args args = terms_args(context, of, &pieces, ranks, whole, terms);
    bt_status status = multiply_in_pieces(context, chunks, &args, done);
    for (int step = ranks - 1; step > 0 && *done && status == BT_OK; --step) {
        status = bt_row_chunks_send_pieces(chunks, context, step);
    }
    bt_tensor_release(terms);
    return status;
}

// The term of another rank.
static bt_status send_term_in_pieces(bt_context *context, bt_row_chunks *chunks,
                                     const bt_row_product *of, bt_tensor *rows, int step,
                                     bt_tensor *term, bool *done)
{
    const bt_row_pieces pieces = bt_row_chunks_pieces(chunks, BT_ROWS_GATHERED);
    *done = false;
    if (!pieces.words || step == 0) {
        return BT_OK;
    }
    bt_gemm_pieces_args args = {.product = of->args(context, of, rows, NULL, term),
                                .pieces = pieces.of_rank,
                                .done = pieces.words +
                                        bt_row_chunks_rank(chunks, -step) * pieces.of_rank,
                                .count = pieces.count};
    args.product.beta = of->beta;
    BT_TRY(multiply_in_pieces(context, chunks, &args, done));
    return *done ? bt_row_chunks_send_pieces(chunks, context, step) : BT_OK;
}

bt_status bt_rows_send_term(bt_context *context, bt_row_chunks *chunks, const bt_row_product *of,
                            bt_tensor *whole, int step, bt_tensor *sum)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    bt_tensor *rows = NULL, *term = NULL;
    bool done = false;
    bt_status status = bt_rows_of(whole, ranks, bt_row_chunks_rank(chunks, -step), &rows);
    status = status ? status : bt_row_chunks_term(chunks, context, step, sum, &term);
    status = status ? status : send_term_in_pieces(context, chunks, of, rows, step, term, &done);
    if (status == BT_OK && !done) {
        status = bt_rows_multiply(context, of, rows, NULL, term);
        status = status ? status : bt_row_chunks_send(chunks, context, step);
    }
    bt_tensor_release(rows);
    bt_tensor_release(term);
    return status;
}

bt_status bt_rows_send(bt_context *context, bt_row_chunks *chunks, const bt_row_product *of,
                       bt_tensor *whole, bt_tensor *sum)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    bool done = false;
    BT_TRY(send_in_pieces(context, chunks, of, whole, sum, &done));
    for (int i = 1; i <= ranks && !done; ++i) {
        BT_TRY(bt_rows_send_term(context, chunks, of, whole, i % ranks, sum));
    }
    return BT_OK;
}

bt_status bt_rows_weight_backward(bt_context *context, bt_op_backward *call, int weight,
                                  bt_tensor *dy, bt_tensor *x)
{
    call->din[weight].leaf = NULL;
    return bt_linear_dw_dbias(context, call, weight, weight + 1, dy, x);
}

bt_status bt_rows_expect(const bt_op_call *call, int x, int multiple)
{
    const bt_shape *shape = &call->in[x]->shape;
    char text[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_op_expect_float(call, x));
    return shape->rank == 2 && shape->size[0] % multiple == 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "x of shape %s; expected [rows, width], rows a multiple of %d",
                          bt_shape_text(shape, text), multiple);
}
