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

bt_status bt_rows_await_others(bt_context *context, bt_row_chunks *chunks, bt_row_area area)
{
    for (int step = 1; step < bt_row_chunks_ranks(chunks); ++step) {
        BT_TRY(bt_row_chunks_await(chunks, context, area, step));
    }
    return BT_OK;
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

bt_status bt_rows_gather(bt_context *context, bt_row_chunks *chunks, bt_row_area area,
                         const bt_row_product *of, bt_tensor *own, bt_tensor *whole, bt_tensor *aux,
                         bt_tensor *result)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    BT_TRY(multiply_chunk(context, of, ranks, bt_row_chunks_rank(chunks, 0), own, aux, result));
    for (int step = 1; step < ranks; ++step) {
        const int rank = bt_row_chunks_rank(chunks, step);
        bt_tensor *rows = NULL;
        BT_TRY(bt_row_chunks_await(chunks, context, area, step));
        BT_TRY(bt_rows_of(whole, ranks, rank, &rows));
        bt_status status = multiply_chunk(context, of, ranks, rank, rows, aux, result);
        bt_tensor_release(rows);
        BT_TRY(status);
    }
    return BT_OK;
}

bt_status bt_rows_send_term(bt_context *context, bt_row_chunks *chunks, const bt_row_product *of,
                            bt_tensor *whole, int step, bt_tensor *sum)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    bt_tensor *rows = NULL, *term = NULL;
    bt_status status = bt_rows_of(whole, ranks, bt_row_chunks_rank(chunks, -step), &rows);
    status = status ? status : bt_row_chunks_term(chunks, context, step, sum, &term);
    status = status ? status : bt_rows_multiply(context, of, rows, NULL, term);
    status = status ? status : bt_row_chunks_send(chunks, context, step);
    bt_tensor_release(rows);
    bt_tensor_release(term);
    return status;
}

bt_status bt_rows_send(bt_context *context, bt_row_chunks *chunks, const bt_row_product *of,
                       bt_tensor *whole, bt_tensor *sum)
{
    const int ranks = bt_row_chunks_ranks(chunks);
    for (int i = 1; i <= ranks; ++i) {
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
