// framework/nn/tensor_parallel.h - linear layers whose matrices the ranks of a group share
//
// A column-parallel layer has some of the outputs on each rank: its input is whole on all ranks
// (bt_group_replicate), its output is a part. A row-parallel layer has some of the inputs: its
// input is a part, and its outputs are summed over the ranks. Its bias is rank 0's alone, so it is
// added once; its residual is added behind the sum.
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
// y = sum over ranks of (x w^T + b) + residual. Shapes  x [.., count], y and residual [.., out]
BT_CHECKED bt_status bt_nn_row_forward(bt_context *context, bt_group *group,
                                       const bt_nn_linear *layer, bt_tensor *x, bt_tensor *residual,
                                       bt_tensor **y);
// GELU between a column-parallel and a row-parallel layer, without the activations of the rest.
// Shapes  x and residual [.., in], y [.., in]
BT_CHECKED bt_status bt_nn_feed_forward(bt_context *context, bt_group *group,
                                        const bt_nn_linear *column, const bt_nn_linear *row,
                                        bt_tensor *x, bt_tensor *residual, bt_tensor **y);
// Replaces *x by what each rank may use in its own way; as it is where there is no group.
BT_CHECKED bt_status bt_nn_enter(bt_context *context, bt_group *group, bt_tensor **x);

#endif
