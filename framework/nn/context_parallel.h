// framework/nn/context_parallel.h - what a model needs to know where ranks share its sequences
//
// A sequence of T tokens is cut into 2 P pieces of equal length for P ranks; each rank has two of
// them, in order (ops/ring.h). Its ids, targets and positions are those of its tokens; all other
// layers work on them as on any tokens.
#ifndef BT_NN_CONTEXT_PARALLEL_H
#define BT_NN_CONTEXT_PARALLEL_H

#include "framework/ops/ops.h"
#include "framework/ops/ring.h"

// P = R U: U ranks in a row share heads during attention (Ulysses), and R such groups are a ring.
// Each of a ring's pieces is cut into U pieces.
typedef struct bt_nn_context {
    const bt_ring *ring;    // borrowed: the ranks at this one's place of their U; NULL: R is 1
    struct bt_group *heads; // borrowed: the U ranks; NULL: U is 1
} bt_nn_context;

// The ranks that share a sequence; 1 for NULL.
int bt_nn_context_size(const bt_nn_context *sharing);
// Where the rank's piece 0 or 1 of a sequence begins; each has tokens / (2 size) tokens, which
// divides evenly. One rank has two halves.
int64_t bt_nn_context_first(const bt_nn_context *sharing, int64_t tokens, int piece);
// Causal attention of a block over the ranks: a bt_nn_attention (layers.h), self is a
// bt_nn_context. Shapes  qkv [B, T / size, 3 C], *y [B, T / size, C]
BT_CHECKED bt_status bt_nn_context_attention(bt_context *context, const void *self, bt_tensor *qkv,
                                             int64_t heads, bt_tensor **y);
// The places of the rank's tokens in a sequence. Shapes  *positions [1, tokens / size] i32
// Owns    *positions: the caller
BT_CHECKED bt_status bt_nn_context_positions(bt_context *context, const bt_nn_context *sharing,
                                             int64_t tokens, bt_tensor **positions);
// The rank's tokens of whole rows. Shapes  whole [rows, tokens], own [rows, tokens / size]
void bt_nn_context_own(const bt_nn_context *sharing, const int32_t *whole, int64_t rows,
                       int64_t tokens, int32_t *own);

#endif
