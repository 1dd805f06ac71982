// framework/nn/half_batches.h - a tensor-parallel block on two alternating halves of a batch
//
// The block runs the normalizations of both halves, then the products of each half, each followed
// by its sum on a separate stream, then the residuals. So the sum of one half overlaps the products
// of the other, in the backward too. Each half is computed as it would be alone: a parameter's
// gradient is that of the second half plus that of the first; for a tied table, the head's comes
// first.
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
// The same for scalars.
BT_CHECKED bt_status bt_nn_mean_of_halves(bt_context *context, bt_tensor *const x[BT_NN_HALVES],
                                          bt_tensor **mean);

#endif
