// framework/ops/row_chunks.h - rows that ranks exchange in chunks, beside products of other chunks
//
// Each of t ranks has n rows of a matrix, a chunk. An all-gather delivers the chunks one after
// another, and the product of a chunk begins when it has arrived: the own one first, then those of
// ranks rank + 1, rank + 2, ... A reduce-scatter takes the terms of the t chunks as they are
// computed: each is stored into a slot for this rank in the memory of the rank that has the rows,
// while the next one is computed, the own one last. That rank adds its slots in the order of
// reduce_scatter, so no bit depends on the time of arrival.
//
//   gather begin       x -> whole (of all ranks)
//                      product of x
//   for step 1 .. t-1  await(step); product of rows of bt_row_chunks_rank(step)
//   await(0)           before a product of whole
//
//   for step 1 .. t-1, then 0   term(step): the product's destination; send(step)
//   sum                         the own rows, plus a residual
//
// In pieces (AsyncTP): one product takes the rows of all ranks, piece by piece as they arrive, or
// gives the terms that leave so (kernels.h, GEMM_PIECES). For this the owner allows pieces, the
// group has words (bt_group_words), and the kernel table a row for the product; else chunks are
// products of their own.
//
//   gather begin       x -> whole, in pieces
//                      product of whole, which reads x for the own rows
//   for step 1 .. t-1  await(step), before x or whole is used again
//
//   begin_pieces       product into bt_row_chunks_terms, the own rows last, or of the rows of
//                      one step into term(step)
//   send_pieces(step), ..., sum
//
// After the last reader of what was gathered or received: idle. The next exchange then needs no
// more than that, and the data, so the ranks meet before the data is there.
//
// Exchanges run on a stream of their own. In memory of the group (bt_group_memory) they need no
// copy, and with copy engines no SM (p2p.h). On the CPU an exchange is complete when it returns, so
// each is made when its chunk is awaited, and nothing overlaps.
//
// Invariants
//   1. Every rank makes the same exchanges in the same order.
//   2. Another rank writes into this rank's memory only when this rank's stream of exchanges has
//      reached that exchange, which follows the readers of the earlier contents (idle).
//   3. After await of all steps, and after sum, the context's stream has waited for every exchange
//      of that area, those that read x included. So the next use may overwrite both.
//
// The buffers of exchanges take 4 t times the memory of a rank's rows, in group memory if there is
// any. Gradients of weights and biases are products of all rows, so each sum has the same order as
// without chunks.
//
// bt_row_chunks NULL: one rank has all rows, and nothing is copied.
#ifndef BT_OPS_ROW_CHUNKS_H
#define BT_OPS_ROW_CHUNKS_H

#include "framework/tensor/tensor.h"

struct bt_group;

typedef struct bt_row_chunks bt_row_chunks;

// What is gathered: inputs, and gradients of outputs. An area holds one matrix at a time.
typedef enum bt_row_area { BT_ROWS_INPUT, BT_ROWS_GRADIENT, BT_ROWS_GATHERED } bt_row_area;

// Pieces of the rows of all ranks, and their words (bt_gemm_pieces_args).
typedef struct bt_row_pieces {
    int of_rank, own;        // pieces of each rank; the first of this rank's
    uint32_t *words, *count; // device memory; words NULL: there are no pieces
} bt_row_pieces;

// The device is that of the first context that uses it, which outlives it.
// Owns    the caller, until bt_row_chunks_destroy, before the group. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_row_chunks_create(struct bt_group *group, bt_row_chunks **out);
// Products with matrices of this shape may take rows in pieces, from the first use on. A rank sends
// pieces only if its own product takes them. So call this where the kernel table has the same rows
// for all ranks: they have matrices of this shape in the same products, and devices of one kind.
// Beyond 16 shapes it does nothing.
void bt_row_chunks_allow_pieces(bt_row_chunks *chunks, const bt_shape *matrix);
// Whether that was called with this shape.
bool bt_row_chunks_allows_pieces(const bt_row_chunks *chunks, const bt_shape *matrix);
// Waits for its stream. Safe on NULL.
void bt_row_chunks_destroy(bt_row_chunks *chunks);
// Device memory that it uses, the group's included.
uint64_t bt_row_chunks_bytes(const bt_row_chunks *chunks);

int bt_row_chunks_ranks(const bt_row_chunks *chunks);
// The rank at a distance, modulo the number of ranks; negative ones are allowed.
int bt_row_chunks_rank(const bt_row_chunks *chunks, int distance);

// Makes room for chunks of at most this size. Called once before each use, when nothing is
// exchanged; all ranks pass the same size.
BT_CHECKED bt_status bt_row_chunks_open(bt_row_chunks *chunks, bt_context *context,
                                        int64_t chunk_bytes);
// Where the rows of all ranks will be.
// Shapes  x [n, width], *whole [t n, width]: valid until the area's next use
// Owns    *whole: the caller
BT_CHECKED bt_status bt_row_chunks_whole(bt_row_chunks *chunks, bt_context *context,
                                         bt_row_area area, bt_tensor *x, bt_tensor **whole);
// Begins to gather. x is sent from where it is: keep it until all steps are awaited, step 0 too if
// `complete`: then it is also copied to the own rows of the whole, which else are undefined. A
// product that waits for the pieces must follow if they have words.
BT_CHECKED bt_status bt_row_chunks_gather(bt_row_chunks *chunks, bt_context *context,
                                          bt_row_area area, bt_tensor *x, bool complete,
                                          const bt_row_pieces *pieces);
// The context's stream waits for the chunk of rank + step, 0 < step < t, in ascending order. Step
// 0: for the copy of the own rows of a complete matrix, at any time.
BT_CHECKED bt_status bt_row_chunks_await(bt_row_chunks *chunks, bt_context *context,
                                         bt_row_area area, int step);
// Where this rank's term of the rows of rank - step is to be written. `sum` gets the sum.
// Shapes  sum, *out [n, width]. Owns    *out: the caller
BT_CHECKED bt_status bt_row_chunks_term(bt_row_chunks *chunks, bt_context *context, int step,
                                        bt_tensor *sum, bt_tensor **out);
// That term has been submitted to the context's stream.
BT_CHECKED bt_status bt_row_chunks_send(bt_row_chunks *chunks, bt_context *context, int step);
// The pieces of gathered rows or, for GATHERED, of terms.
bt_row_pieces bt_row_chunks_pieces(const bt_row_chunks *chunks, bt_row_area area);
// Where the terms of all ranks' rows are to be written by one product.
// Shapes  sum [n, width], *out [t n, width]. Owns    *out: the caller
BT_CHECKED bt_status bt_row_chunks_terms(bt_row_chunks *chunks, bt_context *context, bt_tensor *sum,
                                         bt_tensor **out);
// A product that sets the words of the pieces of terms follows.
BT_CHECKED bt_status bt_row_chunks_begin_pieces(bt_row_chunks *chunks, bt_context *context);
// That product has been submitted to the context's stream: sends the term of the rows of rank -
// step, step > 0, as its words are set. Terms of one product in descending order of steps, in which
// it sets them.
BT_CHECKED bt_status bt_row_chunks_send_pieces(bt_row_chunks *chunks, bt_context *context,
                                               int step);
// No work that is submitted to the context's stream from now on reads an area, until its next use.
// After sum, this is so.
BT_CHECKED bt_status bt_row_chunks_idle(bt_row_chunks *chunks, bt_context *context);
// sum = the terms of all ranks, in rank order, + residual (or NULL), each rounded to the type.
BT_CHECKED bt_status bt_row_chunks_sum(bt_row_chunks *chunks, bt_context *context,
                                       bt_tensor *residual, bt_tensor *sum);

// ---- ops ----------------------------------------------------------------------------------------
// Inputs and results as bt_linear and bt_feed_forward in ops.h, of rank 2. All ranks have the same
// number of rows.

// y = (rows x of all ranks) w^T + bias. Shapes  x [n, in], w [out, in], bias [out], y [t n, out]
BT_CHECKED bt_status bt_gather_linear(bt_context *context, bt_row_chunks *chunks, bt_tensor *x,
                                      bt_tensor *w, bt_tensor *bias, bt_tensor **y);
// y = this rank's rows of the sum over the ranks of x w^T + bias, + residual (or NULL).
// Shapes  x [t n, in], w [out, in], bias [out], residual and y [n, out]
BT_CHECKED bt_status bt_linear_scatter(bt_context *context, bt_row_chunks *chunks, bt_tensor *x,
                                       bt_tensor *w, bt_tensor *bias, bt_tensor *residual,
                                       bt_tensor **y);
// y = this rank's rows of the sum over the ranks of gelu((rows x of all) w^T + b) v^T + c, +
// residual (or NULL).
// Shapes  x [n, in], w [hidden, in], b [hidden], v [out, hidden], c [out], residual and y [n, out]
BT_CHECKED bt_status bt_feed_forward_chunks(bt_context *context, bt_row_chunks *chunks,
                                            bt_tensor *x, bt_tensor *w, bt_tensor *b, bt_tensor *v,
                                            bt_tensor *c, bt_tensor *residual, bt_tensor **y);
// y = this rank's rows of the sum over the ranks of attention(qkv) w^T + bias, + residual (or
// NULL); qkv and attention as in bt_attention. The rows of a rank are whole sequences.
// Shapes  qkv [B, T, 3 C], w [out, C], bias [out], residual and y [B T / t, out]; B a multiple of t
BT_CHECKED bt_status bt_attention_scatter(bt_context *context, bt_row_chunks *chunks,
                                          bt_tensor *qkv, int64_t heads, bool causal, bt_tensor *w,
                                          bt_tensor *bias, bt_tensor *residual, bt_tensor **y);

#endif
