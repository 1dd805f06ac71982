// framework/nn/tensor_parallel.h - tensor parallelism: linear layers whose matrices ranks share
//
// A column-parallel layer computes some of the outputs on each rank: its input is whole on all
// ranks (bt_group_replicate), its output is a part. A row-parallel layer uses some of the inputs on
// each rank: its input is a part, and its outputs are summed over the ranks. Only rank 0 has its
// bias, so that it is added once; its residual is added after the sum.
//
// With sequence_parallel the residual stream and the normalizations are sharded too: rank r of t
// has rows [r n, (r + 1) n) of the B T rows of a micro-batch, n = B T / t. An all-reduce becomes a
// reduce-scatter to the ranks that have the rows, and an all-gather precedes each column-parallel
// layer. The order of sums is the same, so the forward has the same bits either way.
// With chunks (ops/row_chunks.h) these exchanges run beside products and attention, chunk by chunk;
// the bits are the same where those of a row of a product do not depend on the number of rows, nor
// those of a sequence's attention on the number of sequences.
// With recompute gelu_ln or more the backward gathers the rows again instead of keeping them.
// The gradients of normalization parameters are those of this rank's rows; training sums them over
// the ranks (bt_param.partial). Source  Korthikanti et al. 2022, arXiv:2205.05198
//
// If the group is NULL, each function is the plain layer.
#ifndef BT_NN_TENSOR_PARALLEL_H
#define BT_NN_TENSOR_PARALLEL_H

#include "framework/dist/group.h"
#include "framework/nn/layers.h"

// Whether each of so many ranks gets a head.
// Errors  INVALID_ARGUMENT naming train.mesh.tensor and what is allowed
BT_CHECKED bt_status bt_nn_check_heads(int64_t heads, int ranks);
// This rank's part of `units` units of `unit` elements, balanced, in each of `repeats` blocks along
// an axis.
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
// y = x w^T + b of all rows; *x may be replaced by all rows. Shapes  *x [.., in], y [.., count];
// with sequence_parallel *x has this rank's rows
BT_CHECKED bt_status bt_nn_column_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                          const bt_nn_linear *layer, bt_tensor **x, bt_tensor **y);
// y = sum over ranks of (x w^T + b) + residual. Shapes  x [.., count], y and residual [.., out],
// with sequence_parallel this rank's rows
BT_CHECKED bt_status bt_nn_row_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                       const bt_nn_linear *layer, bt_tensor *x, bt_tensor *residual,
                                       bt_tensor **y);
// GELU MLP: a column-parallel and a row-parallel layer, with this rank's activations only; *x may
// be replaced by all rows. Shapes  *x as in bt_nn_column_forward, y and residual as above
BT_CHECKED bt_status bt_nn_feed_forward(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                        const bt_nn_linear *column, const bt_nn_linear *row,
                                        bt_tensor **x, bt_tensor *residual, bt_tensor **y);
// y = sum over ranks of *partial, + residual (may be NULL); with sequence_parallel this rank's rows
// of it, [rows, width], the same number on all ranks. Releases *partial.
// Errors  INVALID_ARGUMENT (the number of ranks does not divide the rows)
BT_CHECKED bt_status bt_nn_leave(bt_context *context, const bt_nn_tensor_ranks *ranks,
                                 bt_tensor **partial, bt_tensor *residual, bt_tensor **y);

#endif
