// framework/nn/layers.h - the layers that models are made of
//
// A layer is a struct of borrowed parameters; the list (param.h) owns them. *_init adds them to the
// list under `prefix`.weight, `prefix`.bias; *_forward runs the layer.
#ifndef BT_NN_LAYERS_H
#define BT_NN_LAYERS_H

#include "framework/nn/param.h"
#include "framework/ops/ops.h"

typedef struct bt_nn_linear {
    bt_tensor *weight; // [out, in]
    bt_tensor *bias;   // [out]; NULL if the layer has none
} bt_nn_linear;

// Weights from N(0, deviation^2), bias zero.
BT_CHECKED bt_status bt_nn_linear_init(bt_params *params, const char *prefix, int64_t in,
                                       int64_t out, bool bias, double deviation,
                                       bt_nn_linear *layer);
// y = activation(x w^T + b) + residual. Shapes  x [.., in], y and residual [.., out]
BT_CHECKED bt_status bt_nn_linear_forward(bt_context *context, const bt_nn_linear *layer,
                                          bt_tensor *x, bt_tensor *residual,
                                          bt_activation activation, bt_tensor **y);

typedef struct bt_nn_layernorm {
    bt_tensor *weight, *bias; // [width], initially ones and zeros
    double epsilon;           // 1e-5
} bt_nn_layernorm;

BT_CHECKED bt_status bt_nn_layernorm_init(bt_params *params, const char *prefix, int64_t width,
                                          bt_nn_layernorm *layer);
BT_CHECKED bt_status bt_nn_layernorm_forward(bt_context *context, const bt_nn_layernorm *layer,
                                             bt_tensor *x, bt_tensor **y);

// Ranks that share a block's matrices (tensor_parallel.h).
typedef struct bt_nn_tensor_ranks {
    struct bt_group *group; // borrowed; NULL: one rank has all
    bool sequence_parallel; // sequence parallel: outside of the products each rank has an equal
                            // part of the rows
    struct bt_aside *aside; // borrowed: overlap sums with products of half-batches
                            // (half_batches.h); NULL: on one stream. Not with sequence_parallel
    struct bt_row_chunks *chunks; // borrowed: overlap products and attention with the exchange of
                                  // rows (ops/row_chunks.h); NULL: one after the other. Only with
                                  // sequence_parallel
} bt_nn_tensor_ranks;

// Pre-norm transformer block, GPT-2's: x += proj(attention(ln_1 x)); x += mlp(ln_2 x), where mlp is
// width -> 4 width, GELU, -> width.
typedef struct bt_nn_block {
    bt_nn_layernorm ln_1, ln_2;
    bt_nn_linear attn_qkv, attn_proj, mlp_fc, mlp_proj;
    int64_t heads; // heads of this rank
    bt_nn_tensor_ranks ranks;
} bt_nn_block;

// The projections into the residual stream have a separate deviation. With ranks (NULL: one rank
// has all), each has some of the heads and part of the inner width.
// Errors  INVALID_ARGUMENT (width; more ranks than heads)
BT_CHECKED bt_status bt_nn_block_init(bt_params *params, const char *prefix, int64_t width,
                                      int64_t heads, const bt_nn_tensor_ranks *ranks,
                                      double deviation, double residual_deviation,
                                      bt_nn_block *block);
// Runs the block on sequences of `tokens` tokens; causal.
// Shapes  x, y [B, T, width]; with sequence_parallel [B T / ranks, width], this rank's rows of the
//         B T
BT_CHECKED bt_status bt_nn_block_forward(bt_context *context, const bt_nn_block *block,
                                         int64_t tokens, bt_tensor *x, bt_tensor **y);
// Attention between a block's two projections, over this rank's heads.
// Shapes  qkv [B, T, 3 C], *y [B, T, C], C the width of these heads
typedef bt_status (*bt_nn_attention)(bt_context *context, const void *self, bt_tensor *qkv,
                                     int64_t heads, bt_tensor **y);
// The same with the caller's attention; `self` is its first argument.
BT_CHECKED bt_status bt_nn_block_forward_with(bt_context *context, const bt_nn_block *block,
                                              bt_nn_attention attention, const void *self,
                                              int64_t tokens, bt_tensor *x, bt_tensor **y);

#endif
