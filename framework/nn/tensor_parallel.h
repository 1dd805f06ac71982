// framework/nn/tensor_parallel.h - linear layers whose matrices the ranks of a group share
//
// A column-parallel layer has some of the outputs on each rank: its input is whole on all ranks
// (bt_group_replicate), its output is a part. A row-parallel layer has some of the inputs: its
// input is a part, and its outputs are summed over the ranks. Its bias is rank 0's alone, so it is
// added once; its residual is added behind the sum.
//
// With sequence_parallel the residual stream and the normalisations are dealt out, too: rank r of t
// has rows [r n, (r + 1) n) of the B T rows of a micro-batch, n = B T / t. What was summed for all
// ranks is summed for the rank that has the rows (reduce_scatter), and the rows of all ranks come
// together in front of a column-parallel layer (all_gather). Sums have the same order, so a forward
// has the same bits either way. Source  Korthikanti et al. 2022, arXiv:2205.05198
//
// With a group of NULL each is the plain layer.
#ifndef BT_NN_TENSOR_PARALLEL_H
#define BT_NN_TENSOR_PARALLEL_H

#include "framework/dist/group.h"
#include "framework/nn/layers.h"

// This rank's part of `units` of `unit` elements each, as even as can be, in each of `repeats`
// blocks along an axis.
bt_param_part bt_nn_part(const bt_group *group, int axis, int64_t repeats, int64_t units,
                         int64_t unit);
// part: of the outputs. Shapes  weight [repeats * count, in], bias [repeats * count]
BT_CHECKED bt_status bt_nn_column_init(bt_params *params, const char *prefix, int64_t in,
                                       int64_t out, const bt_group *group, bt_param_part part,
                                       double deviation, bt_nn_linear *layer);
// part: of the inputs. Shapes  weight [out, count], bias [out] on rank 0, else NULL
BT_CHECKED bt_status bt_nn_row_init(bt_params *params, const char *prefix, int64_t in, int64_t out,
                                    const bt_group *group, bt_param_part part, double deviation,
                                    bt_nn_linear *layer);
// y = sum over ranks of (x w^T + b) + residual. Shapes  x [.., count], y and residual [.., out],
// with sequence_parallel this rank's rows
BT_CHECKED bt_status bt_nn_row_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                       const bt_nn_linear *layer, bt_tensor *x, bt_tensor *residual,
                                       bt_tensor **y);
// GELU between a column-parallel and a row-parallel layer, without the activations of the rest.
// Shapes  x [.., in], y and residual as above
BT_CHECKED bt_status bt_nn_feed_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                        const bt_nn_linear *column, const bt_nn_linear *row,
                                        bt_tensor *x, bt_tensor *residual, bt_tensor **y);
// Normalisation of what a rank has between the products: the gradients of its parameters are summed
// over the ranks where each has other rows.
BT_CHECKED bt_status bt_nn_layernorm_over(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                          const bt_nn_layernorm *layer, bt_tensor *x,
                                          bt_tensor **y);
// Replaces *x by what each rank may use in its own way: all rows. As it is where there is no group.
BT_CHECKED bt_status bt_nn_enter(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                 bt_tensor **x);
// y = sum over ranks of *partial, + residual (may be NULL); with sequence_parallel this rank's
// rows of it, [rows, width], of which all ranks have equally many. Releases *partial.
// Errors  INVALID_ARGUMENT (rows that the ranks do not divide)
BT_CHECKED bt_status bt_nn_leave(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                 bt_tensor **partial, bt_tensor *residual, bt_tensor **y);

#endif
