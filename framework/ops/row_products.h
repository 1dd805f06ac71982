// framework/ops/row_products.h - parts of the ops that exchange rows chunk by chunk
//
//   gather_linear        y = (x of all ranks) w^T + bias                       row_linear.c
//   linear_scatter       y = own rows of the sum over the ranks of x w^T + bias, + residual
//   feed_forward_chunks  y = the same of gelu((x of all) w^T + b) v^T + c feed_forward_chunks.c
//   attention_scatter    y = the same of attention(qkv) w^T + bias             attention_scatter.c
//
// An input that has this rank's rows is gathered chunk by chunk, in the backward the gradient of an
// output that has them; a sum over the ranks leaves chunk by chunk (row_chunks.h). The gathered x
// is not saved but gathered again in the backward, beside the products of dx. Gradients of weights
// and biases are products of all rows, not of chunks, so each element is summed in the order of the
// whole product, and none is deferred: the gathered operands last until the op ends.
//
// Invariant  the exchanges of a call depend on its inputs' rows and on which gradients are wanted,
// which are equal on all ranks; pieces also on the kernels for its matrices
// (bt_row_chunks_allow_pieces).
#ifndef BT_OPS_ROW_PRODUCTS_H
#define BT_OPS_ROW_PRODUCTS_H

#include "framework/ops/op.h"
#include "framework/ops/row_chunks.h"

// A product of one chunk: `rows` of it times a matrix, into `result`. aux: of an epilogue.
typedef struct bt_row_product {
    bt_gemm_args (*args)(const bt_context *context, const struct bt_row_product *of,
                         bt_tensor *rows, bt_tensor *aux, bt_tensor *result);
    bt_tensor *matrix, *bias;
    double beta;
} bt_row_product;

// rows w^T + bias; rows (of dy) w.
bt_row_product bt_row_product_forward(bt_tensor *w, bt_tensor *bias);
bt_row_product bt_row_product_dx(bt_tensor *w, bool accumulate);

// Checks that input x is a matrix of real numbers, its rows a multiple.
BT_CHECKED bt_status bt_rows_expect(const bt_op_call *call, int x, int multiple);
// Makes room for chunks of either kind; NULL: none.
BT_CHECKED bt_status bt_rows_reserve(bt_context *context, bt_row_chunks *chunks,
                                     const bt_op_spec *one, const bt_op_spec *other);
// The part of a rank along x's first dimension. Owns  *out: the caller
BT_CHECKED bt_status bt_rows_of(bt_tensor *x, int ranks, int rank, bt_tensor **out);
BT_CHECKED bt_status bt_rows_multiply(bt_context *context, const bt_row_product *of,
                                      bt_tensor *rows, bt_tensor *aux, bt_tensor *result);
// Rows of all ranks that are being gathered.
typedef struct bt_gathered {
    bt_row_chunks *chunks;
    bt_row_area area;
    bt_tensor *own, *whole; // borrowed; retained
    bool in_pieces;         // one product must take them
} bt_gathered;

// Begins to gather rows for a product into `result`, or, with `of` NULL, for other use; aux (or
// NULL) and result have the rows of all ranks. complete: see bt_row_chunks_gather.
// Owns    to->whole: the caller, also when this fails
BT_CHECKED bt_status bt_rows_gather(bt_context *context, bt_row_chunks *chunks, bt_row_area area,
                                    const bt_row_product *of, bt_tensor *own, bt_tensor *aux,
                                    bt_tensor *result, bool complete, bt_gathered *to);
// result = the product of the own rows, and of the others' as they arrive.
BT_CHECKED bt_status bt_rows_gathered_multiply(bt_context *context, const bt_gathered *rows,
                                               const bt_row_product *of, bt_tensor *aux,
                                               bt_tensor *result);
// Ends the use of the rows: releases the whole, and waits until those in pieces have left, too. The
// status is that of the op so far, or of this. Safe where nothing was gathered.
BT_CHECKED bt_status bt_rows_release(bt_context *context, bt_gathered *rows, bt_status status);
// Waits for the rows of all other ranks.
BT_CHECKED bt_status bt_rows_await_others(bt_context *context, const bt_gathered *rows);
// Computes this rank's terms of `sum` and sends those of other ranks; bt_row_chunks_sum follows.
BT_CHECKED bt_status bt_rows_send(bt_context *context, bt_row_chunks *chunks,
                                  const bt_row_product *of, bt_tensor *whole, bt_tensor *sum);
// One of these: of the rows of rank - step; that of another rank leaves in pieces if it can.
BT_CHECKED bt_status bt_rows_send_term(bt_context *context, bt_row_chunks *chunks,
                                       const bt_row_product *of, bt_tensor *whole, int step,
                                       bt_tensor *sum);
// The gradients of a weight and of the bias behind it, at once.
BT_CHECKED bt_status bt_rows_weight_backward(bt_context *context, bt_op_backward *call, int weight,
                                             bt_tensor *dy, bt_tensor *x);

#endif
