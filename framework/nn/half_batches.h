// framework/nn/half_batches.h - a tensor-parallel block on two halves of a batch in turn
//
// Of both halves come the normalisations, then the products, each followed by its sum on a stream
// of its own, then the residuals. So the sum of one half runs beside the products of the other, in
// the backward, too. Each half is computed as it would be alone: gradients of parameters are those
// of the second half, then those of the first one added; of a tied table first the head's.
// Source  Wang et al. 2024, arXiv:2409.15241 (Domino)
#ifndef BT_NN_HALF_BATCHES_H
#define BT_NN_HALF_BATCHES_H

#include "framework/nn/layers.h"

enum { BT_NN_HALVES = 2 };

// Views of the first and the second half of the sequences. Shapes  x [B, ..], half [B / 2, ..]
// Owns    the caller, also when this fails
BT_CHECKED bt_status bt_nn_halves(bt_tensor *x, bt_tensor *half[BT_NN_HALVES]);
// attention NULL: causal. Shapes  x[], y[] [B, T, width]
// Owns    y[]: the caller, also when this fails
BT_CHECKED bt_status bt_nn_block_forward_halves(bt_context *context, const bt_nn_block *block,
                                                bt_nn_attention attention, const void *self,
                                                bt_tensor *const x[BT_NN_HALVES],
                                                bt_tensor *y[BT_NN_HALVES]);
// Of scalars.
BT_CHECKED bt_status bt_nn_mean_of_halves(bt_context *context, bt_tensor *const x[BT_NN_HALVES],
                                          bt_tensor **mean);

#endif
