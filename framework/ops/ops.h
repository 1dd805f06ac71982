// framework/ops/ops.h - operations on tensors, recorded for backward while a tape is set
//
// All functions: the result is new and belongs to the caller (bt_tensor_release); operands are
// borrowed; on failure *out is NULL. Unless a line says otherwise operands are contiguous and of
// one floating-point type, which is the result's.
// Errors  INVALID_ARGUMENT (shapes, types; the message has both), UNSUPPORTED (no kernel),
//         OUT_OF_MEMORY (with the pool's report)
#ifndef BT_OPS_OPS_H
#define BT_OPS_OPS_H

#include "framework/ops/op.h"

struct bt_group; // dist/group.h
struct bt_ring;  // ring.h

typedef enum bt_activation { BT_ACTIVATION_NONE, BT_ACTIVATION_GELU } bt_activation;

// What bt_recompute runs: computes one output from its inputs with recorded ops. Called once
// without recording and again, recorded, in the backward: it must do the same both times.
typedef bt_status (*bt_recompute_body)(bt_context *context, const void *self, bt_tensor *const *in,
                                       int in_count, bt_tensor **out);

// The mask, as in kernels.h's bt_attention_shape, and dropout of probabilities.
typedef struct bt_attention_options {
    int64_t heads;    // of queries
    int64_t kv_heads; // of keys and values: each serves heads / kv_heads heads; 0: heads
    bool causal;
    int64_t window;  // 0: none
    int64_t q_first; // position of query 0 among the keys
    double dropout;  // rate, [0, 1)
    uint64_t seed, stream;
} bt_attention_options;

// Heads of tensors placed side by side, all distributed by the same groups: {3, {H, G, G}, G} for
// queries, keys and values of H and G heads.
enum { BT_HEAD_PARTS = 3 };
typedef struct bt_head_layout {
    int parts;
    int64_t heads[BT_HEAD_PARTS], groups; // each a multiple of groups
} bt_head_layout;

// ---- elementwise --------------------------------------------------------------------------------
BT_CHECKED bt_status bt_unary_op(bt_context *context, bt_unary function, double alpha, bt_tensor *x,
                                 bt_tensor **out);
BT_CHECKED bt_status bt_gelu(bt_context *context, bt_tensor *x, bt_tensor **out);
BT_CHECKED bt_status bt_relu(bt_context *context, bt_tensor *x, bt_tensor **out);
BT_CHECKED bt_status bt_scale(bt_context *context, bt_tensor *x, double alpha, bt_tensor **out);

// Operands of any strides; sizes of 1 (and missing leading axes) broadcast.
BT_CHECKED bt_status bt_binary_op(bt_context *context, bt_binary function, bt_tensor *a,
                                  bt_tensor *b, bt_tensor **out);
BT_CHECKED bt_status bt_add(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out);
BT_CHECKED bt_status bt_sub(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out);
BT_CHECKED bt_status bt_mul(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out);
BT_CHECKED bt_status bt_div(bt_context *context, bt_tensor *a, bt_tensor *b, bt_tensor **out);

// Zeroes each element with probability `rate` and scales the others by 1/(1-rate). The mask is a
// function of (seed, stream) alone.
BT_CHECKED bt_status bt_dropout(bt_context *context, bt_tensor *x, double rate, uint64_t seed,
                                uint64_t stream, bt_tensor **out);
// Any strides, any two types. The gradient flows between floating-point types only.
BT_CHECKED bt_status bt_cast(bt_context *context, bt_tensor *x, bt_dtype dtype, bt_tensor **out);
// A contiguous copy of a tensor of any strides.
BT_CHECKED bt_status bt_contiguous(bt_context *context, bt_tensor *x, bt_tensor **out);

// ---- reductions ---------------------------------------------------------------------------------
// Sum over one axis (negative: from the end), which is removed.
BT_CHECKED bt_status bt_sum(bt_context *context, bt_tensor *x, int axis, bt_tensor **out);
// Sum or mean over all elements; the result is a scalar (rank 0).
BT_CHECKED bt_status bt_sum_all(bt_context *context, bt_tensor *x, bt_tensor **out);
BT_CHECKED bt_status bt_mean_all(bt_context *context, bt_tensor *x, bt_tensor **out);
// Mean of (x - y)^2 over all elements.
BT_CHECKED bt_status bt_mean_squared_error(bt_context *context, bt_tensor *x, bt_tensor *y,
                                           bt_tensor **out);
// Over the last axis.
BT_CHECKED bt_status bt_softmax(bt_context *context, bt_tensor *x, bt_tensor **out);

// ---- views: share storage, copy nothing ---------------------------------------------------------
// x contiguous, same number of elements.
BT_CHECKED bt_status bt_reshape(bt_context *context, bt_tensor *x, bt_shape shape, bt_tensor **out);
// Result axis i is x's axis axes[i].
BT_CHECKED bt_status bt_permute(bt_context *context, bt_tensor *x, const int *axes,
                                bt_tensor **out);
BT_CHECKED bt_status bt_transpose(bt_context *context, bt_tensor *x, int axis, int with,
                                  bt_tensor **out);
// Elements start ... start + length - 1 of one axis.
BT_CHECKED bt_status bt_narrow(bt_context *context, bt_tensor *x, int axis, int64_t start,
                               int64_t length, bt_tensor **out);
// Sizes of 1 (and missing leading axes) become shape's, with stride 0.
BT_CHECKED bt_status bt_expand(bt_context *context, bt_tensor *x, bt_shape shape, bt_tensor **out);
// A view that requires no gradient.
BT_CHECKED bt_status bt_detach(bt_tensor *x, bt_tensor **out);

// ---- neural networks ----------------------------------------------------------------------------
// y = activation(x w^T + bias) + residual; residual only without activation.
// Shapes  x [..., in], w [out, in], bias [out] or NULL, residual and y [..., out] or NULL
BT_CHECKED bt_status bt_linear(bt_context *context, bt_tensor *x, bt_tensor *w, bt_tensor *bias,
                               bt_tensor *residual, bt_activation activation, bt_tensor **out);
// A transformer's MLP: y = gelu(x w^T + b) v^T + c + residual.
// Shapes  x [..., in], w [hidden, in], b [hidden] or NULL, v [out, hidden], c [out] or NULL,
//         residual and y [..., out], residual may be NULL
BT_CHECKED bt_status bt_feed_forward(bt_context *context, bt_tensor *x, bt_tensor *w, bt_tensor *b,
                                     bt_tensor *v, bt_tensor *c, bt_tensor *residual,
                                     bt_tensor **out);
// op(a) op(b) over the last two axes; leading axes are equal.
BT_CHECKED bt_status bt_matmul(bt_context *context, bt_tensor *a, bool trans_a, bt_tensor *b,
                               bool trans_b, bt_tensor **out);
// Over the last axis.
// Shapes  gamma, beta [cols]; beta may be NULL. Types: gamma and beta f32 or x's, both the same
BT_CHECKED bt_status bt_layernorm(bt_context *context, bt_tensor *x, bt_tensor *gamma,
                                  bt_tensor *beta, double epsilon, bt_tensor **out);
// sum = x + residual, out = layernorm(sum), in one pass.
BT_CHECKED bt_status bt_add_layernorm(bt_context *context, bt_tensor *x, bt_tensor *residual,
                                      bt_tensor *gamma, bt_tensor *beta, double epsilon,
                                      bt_tensor **out, bt_tensor **sum);
// y[b,t,:] = table[ids[b,t],:] + position[t,:]
// The row of an id outside of [0, V) is NaN; `bad_row` (may be NULL) receives an i64 [1]: the first
// such row of the B T, or -1. bt_check_ids makes an error of it. The ids are copied for the
// backward. Shapes  ids [B, T] i32, table [V, C], position [P >= T, C] or NULL, y [B, T, C]
BT_CHECKED bt_status bt_embedding(bt_context *context, bt_tensor *ids, bt_tensor *table,
                                  bt_tensor *position, bt_tensor **out, bt_tensor **bad_row);
// For ids that bt_embedding or bt_cross_entropy has read: an error that names the first id outside
// of [0, vocab), and its position. Both call it if context->anomaly is set.
// Sync    waits for the stream
// Errors  INVALID_ARGUMENT
BT_CHECKED bt_status bt_check_ids(bt_context *context, bt_tensor *ids, int64_t vocab,
                                  bt_tensor *bad_row);
// Self-attention on packed queries, keys and values, scaled by 1/sqrt(C / heads).
// Shapes  qkv [B, T, 3 C], y [B, T, C]
BT_CHECKED bt_status bt_attention(bt_context *context, bt_tensor *qkv, int64_t heads, bool causal,
                                  bt_tensor **out);
// The same with options; dropout by (seed, stream), which the backward reuses.
// Shapes  q [B, Tq, heads D], k and v [B, Tk, kv_heads D], y [B, Tq, heads D]; or q packed
//         [B, T, (heads + 2 kv_heads) D] and k, v NULL. starts [documents + 1] i32 or NULL: first
//         token of each packed document, then the number of tokens; B is 1 and q_first 0 then
// Errors  INVALID_ARGUMENT; only the device reads starts: tokens outside of all documents attend to
//         nothing
BT_CHECKED bt_status bt_attend(bt_context *context, bt_tensor *q, bt_tensor *k, bt_tensor *v,
                               bt_tensor *starts, const bt_attention_options *options,
                               bt_tensor **out);
// The same for packed sequences of `tokens` tokens that are distributed over the ranks of a ring
// (ring.h); without dropout, q_first and documents. All ranks make the same call. The ring is
// borrowed until the backward. Shapes  qkv [B, Tr, (heads + 2 kv_heads) D], y [B, Tr, heads D], Tr
// tokens of this rank
// Errors  also UNSUPPORTED (dropout, q_first), and those of the ring's ranks
BT_CHECKED bt_status bt_ring_attention(bt_context *context, bt_tensor *qkv,
                                       const struct bt_ring *ring, int64_t tokens,
                                       const bt_attention_options *options, bt_tensor **out);
// Each rank of a group has T tokens of the same sequences, in two halves. share_heads gives each
// rank its part of the heads for all tokens, first halves of all ranks before second ones
// (Ulysses); share_tokens is the inverse. The group is borrowed until the backward. All ranks make
// the same call.
// Shapes  share_heads: x [B, T, all heads D], y [B, size T, own heads D]; share_tokens: the reverse
// Errors  also those of the group's ranks
// Source  Jacobs et al. 2023, arXiv:2309.14509
BT_CHECKED bt_status bt_share_heads(bt_context *context, struct bt_group *group, bt_tensor *x,
                                    const bt_head_layout *heads, bt_tensor **out);
BT_CHECKED bt_status bt_share_tokens(bt_context *context, struct bt_group *group, bt_tensor *x,
                                     const bt_head_layout *heads, bt_tensor **out);
// The heads of a part that a rank gets.
int64_t bt_head_count(const bt_head_layout *heads, int part, int size, int rank);
// Mean of -log softmax(logits)[target] over the rows whose target is not `ignore`. If in_place, the
// backward overwrites the logits with the gradient. `bad_row` (may be NULL) receives an i64 [1]:
// the first row whose target is outside of the vocabulary (the loss is NaN then), or -1.
// Shapes  logits [rows, vocab], targets [rows] i32, y scalar f32 (f64 at f64)
BT_CHECKED bt_status bt_cross_entropy(bt_context *context, bt_tensor *logits, bt_tensor *targets,
                                      int32_t ignore, bool in_place, bt_tensor **out,
                                      bt_tensor **bad_row);
// bt_cross_entropy of the logits x w^T, of which only chunk_rows rows exist at a time: with a tape,
// the gradients are computed together with the loss. chunk_rows 0: bt_linear_cross_entropy_rows;
// other chunk sizes change the order of dw's sum.
// Shapes  x [..., in], w [vocab, in], targets [rows] i32 or any shape of as many elements,
//         y scalar f32 (f64 at f64)
BT_CHECKED bt_status bt_linear_cross_entropy(bt_context *context, bt_tensor *x, bt_tensor *w,
                                             bt_tensor *targets, int32_t ignore, int64_t chunk_rows,
                                             bt_tensor **out, bt_tensor **bad_row);
// Rows of a chunk: as many as fit in 1.125 GiB of logits, in whole waves of dx's 128 x 256 tiles
// over the device's processors, so that chunks leave no processor idle that one product would use;
// whole tiles if a wave is too large; at least one tile.
int64_t bt_linear_cross_entropy_rows(const bt_device *device, int64_t vocab, int64_t width,
                                     bt_dtype dtype);

// ---- over a group of ranks ----------------------------------------------------------------------
// All ranks of the group call them in the same order, with equal shapes; NULL: one rank. The loss
// is the same on all ranks. collective.c lists the gradients.
// Errors  also those of framework/dist/group.h
//
// Sum over the ranks, which all of them use identically. in_place: x may be overwritten; it must
// not be read afterwards.
BT_CHECKED bt_status bt_group_all_reduce(bt_context *context, struct bt_group *group, bt_tensor *x,
                                         bool in_place, bt_tensor **out);
// x, which all ranks have and each uses differently: the gradient is summed over the ranks.
BT_CHECKED bt_status bt_group_replicate(bt_context *context, struct bt_group *group, bt_tensor *x,
                                        bt_tensor **out);
// The ranks' parts, concatenated along an axis.
BT_CHECKED bt_status bt_group_all_gather(bt_context *context, struct bt_group *group, bt_tensor *x,
                                         int axis, bt_tensor **out);
// This rank's part, along an axis, of the sum over the ranks.
BT_CHECKED bt_status bt_group_reduce_scatter(bt_context *context, struct bt_group *group,
                                             bt_tensor *x, int axis, bt_tensor **out);

// This rank's term of bt_embedding with a table whose rows are sharded over the ranks (shard.h):
// the rows of the ids that it has, zeros for the others. The caller sums over the ranks; one term
// is not zero.
// Shapes  ids [B, T] i32, table [rows of this rank, C], y [B, T, C]
BT_CHECKED bt_status bt_embedding_shard(bt_context *context, struct bt_group *group, bt_tensor *ids,
                                        bt_tensor *table, int64_t vocab, bt_tensor **out);
// bt_cross_entropy of logits whose columns are sharded in the same way; a target of another rank is
// not an error. All ranks get the mean, each the gradient of its columns.
// Shapes  logits [rows, columns of this rank], targets [rows] i32, y scalar
BT_CHECKED bt_status bt_cross_entropy_shard(bt_context *context, struct bt_group *group,
                                            bt_tensor *logits, int64_t vocab, bt_tensor *targets,
                                            int32_t ignore, bool in_place, bt_tensor **out);

// ---- memory for time ----------------------------------------------------------------------------
// *out = body(in), keeping only the inputs: the backward runs the body again, which must do the
// same both times. in_count 1 to 6. Other tensors that the body uses (captures: parameters, other
// activations, constants) get their gradients as usual, also if no input requires one; they must
// live until the backward. One that was written in place between forward and backward is an error
// that names it.
// Source  Chen et al. 2016, arXiv:1604.06174
BT_CHECKED bt_status bt_recompute(bt_context *context, bt_recompute_body body, const void *self,
                                  bt_tensor *const *in, int in_count, bt_tensor **out);

#endif
