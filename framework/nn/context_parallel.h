// framework/nn/context_parallel.h - context parallelism: ranks share the sequences of a model
//
// A sequence of T tokens is split into 2 P pieces of equal length for P ranks; each rank has two of
// them, in order (ops/ring.h). Its ids, targets and positions are those of its tokens; all layers
// except attention process them like any tokens.
#ifndef BT_NN_CONTEXT_PARALLEL_H
#define BT_NN_CONTEXT_PARALLEL_H

#include "framework/ops/ops.h"
#include "framework/ops/ring.h"

// P = R U: U consecutive ranks share heads during attention (Ulysses), and R such groups form a
// ring. Each of a ring's pieces is split into U pieces.
typedef struct bt_nn_context {
    const bt_ring *ring;    // borrowed: the ranks with this rank's index within their U; NULL: R is
                            // 1
    struct bt_group *heads; // borrowed: the U ranks; NULL: U is 1
} bt_nn_context;

// The number of ranks that share a sequence; 1 for NULL.
int bt_nn_context_size(const bt_nn_context *sharing);
// Begin of the rank's piece 0 or 1 of a sequence; each has tokens / (2 size) tokens, which must
// divide evenly. A single rank has two halves.
int64_t bt_nn_context_first(const bt_nn_context *sharing, int64_t tokens, int piece);
// Causal attention of a block across the ranks: a bt_nn_attention (layers.h), self is a
// bt_nn_context.
// Shapes  qkv [B, T / size, 3 C], *y [B, T / size, C]
BT_CHECKED bt_status bt_nn_context_attention(bt_context *context, const void *self, bt_tensor *qkv,
                                             int64_t heads, bt_tensor **y);
// The positions of the rank's tokens in a sequence. Shapes  *positions [1, tokens / size] i32
// Owns    *positions: the caller
BT_CHECKED bt_status bt_nn_context_positions(bt_context *context, const bt_nn_context *sharing,
                                             int64_t tokens, bt_tensor **positions);
// Copies the rank's tokens out of whole rows.
// Shapes  whole [rows, tokens], own [rows, tokens / size]
void bt_nn_context_own(const bt_nn_context *sharing, const int32_t *whole, int64_t rows,
                       int64_t tokens, int32_t *own);

#endif
