// kernels/kernels.h - what a kernel is: its operands, its row in the table, how one is chosen
//
// A kernel knows pointers, shapes, strides, a workspace and a stream; never a tensor. It neither
// allocates nor synchronises, and holds no state. kernels.inl has a row per kernel; among the rows
// that serve a call the last one wins, so a faster special case goes below the general one.
//
// Invariants
//   1. Deterministic: the same operands on the same device give the same bits, whatever the number
//      of threads or the load. Reductions have a fixed order; there are no float atomics.
//   2. NaN and infinity propagate as IEEE arithmetic says.
//   3. Outputs do not alias inputs except where an argument's comment allows it.
//   4. Every element count and index is 64 bits wide; a size of zero is legal and does nothing
//      (a reduction over nothing gives zero).
//   5. Sums are taken in float for f32 and bf16 (CPU: double where a line says so), double for f64.
#ifndef BT_KERNELS_KERNELS_H
#define BT_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/status.h"
#include "framework/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BT_MAX_RANK 8

// X(enumerator, name, type of its operands)
#define BT_KERNEL_OP_LIST(X)                                                                       \
    X(FILL, "fill", bt_fill_args)                                                                  \
    X(COPY, "copy", bt_copy_args)                                                                  \
    X(UNARY, "unary", bt_unary_args)                                                               \
    X(UNARY_BACKWARD, "unary_backward", bt_unary_backward_args)                                    \
    X(SCALE, "scale", bt_scale_args)                                                               \
    X(BINARY, "binary", bt_binary_args)                                                            \
    X(REDUCE_SUM, "reduce_sum", bt_reduce_sum_args)                                                \
    X(SUM_PARTS, "sum_parts", bt_sum_parts_args)                                                   \
    X(SOFTMAX, "softmax", bt_softmax_args)                                                         \
    X(SOFTMAX_BACKWARD, "softmax_backward", bt_softmax_backward_args)                              \
    X(LAYERNORM, "layernorm", bt_layernorm_args)                                                   \
    X(LAYERNORM_BACKWARD, "layernorm_backward", bt_layernorm_backward_args)                        \
    X(EMBEDDING, "embedding", bt_embedding_args)                                                   \
    X(EMBEDDING_BACKWARD, "embedding_backward", bt_embedding_backward_args)                        \
    X(ATTENTION, "attention", bt_attention_args)                                                   \
    X(ATTENTION_BACKWARD, "attention_backward", bt_attention_backward_args)                        \
    X(CROSS_ENTROPY, "cross_entropy", bt_cross_entropy_args)                                       \
    X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", bt_cross_entropy_backward_args)            \
    X(CROSS_ENTROPY_MEAN, "cross_entropy_mean", bt_cross_entropy_mean_args)                        \
    X(CROSS_ENTROPY_GRAD, "cross_entropy_grad", bt_cross_entropy_grad_args)                        \
    X(LINEAR_EXPS, "linear_exps", bt_linear_exps_args)                                             \
    X(SHARD_IDS, "shard_ids", bt_shard_ids_args)                                                   \
    X(SHARD_TARGETS, "shard_targets", bt_shard_targets_args)                                       \
    X(DROPOUT, "dropout", bt_dropout_args)                                                         \
    X(GEMM, "gemm", bt_gemm_args)                                                                  \
    X(GEMM_GROUPED, "gemm_grouped", bt_gemm_grouped_args)                                          \
    X(GEMM_PIECES, "gemm_pieces", bt_gemm_pieces_args)                                             \
    X(GRAD_NORM, "grad_norm", bt_grad_norm_args)                                                   \
    X(SUM_SQUARES, "sum_squares", bt_sum_squares_args)                                             \
    X(CLIP_SCALE, "clip_scale", bt_clip_scale_args)                                                \
    X(ADAMW, "adamw", bt_adamw_args)                                                               \
    X(COUNT_NONFINITE, "count_nonfinite", bt_count_nonfinite_args)

typedef enum bt_kernel_op {
#define BT_KERNEL_OP_ENUM(name, text, args) BT_KERNEL_##name,
    BT_KERNEL_OP_LIST(BT_KERNEL_OP_ENUM)
#undef BT_KERNEL_OP_ENUM
        BT_KERNEL_OP_COUNT
} bt_kernel_op;

const char *bt_kernel_op_name(bt_kernel_op op);

// ---- operands, a struct per op; all pointers are device memory unless said otherwise -----------

// y[i] = value
typedef struct bt_fill_args {
    void *y; // [count]
    int64_t count;
    bt_dtype dtype;
    double value;
} bt_fill_args;

// y = x with conversion, any strides (elements, may be 0 for x). f32 -> bf16 rounds to nearest
// even. Serves contiguous(), cast, transpose and expand. y's elements must be distinct.
typedef struct bt_copy_args {
    int rank; // 0..BT_MAX_RANK
    int64_t shape[BT_MAX_RANK];
    const void *x;
    int64_t x_stride[BT_MAX_RANK];
    bt_dtype x_dtype;
    void *y;
    int64_t y_stride[BT_MAX_RANK];
    bt_dtype y_dtype;
} bt_copy_args;

// X(enumerator, name). GELU is the tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#define BT_UNARY_LIST(X)                                                                           \
    X(GELU, "gelu")                                                                                \
    X(RELU, "relu")                                                                                \
    X(SILU, "silu")                                                                                \
    X(TANH, "tanh")                                                                                \
    X(SIGMOID, "sigmoid")                                                                          \
    X(EXP, "exp")                                                                                  \
    X(LOG, "log")                                                                                  \
    X(SQRT, "sqrt")                                                                                \
    X(NEGATE, "negate")                                                                            \
    X(SQUARE, "square")                                                                            \
    X(SCALE, "scale") /* alpha x */                                                                \
    X(SHIFT, "shift") /* x + alpha */

typedef enum bt_unary {
#define BT_UNARY_ENUM(name, text) BT_UNARY_##name,
    BT_UNARY_LIST(BT_UNARY_ENUM)
#undef BT_UNARY_ENUM
        BT_UNARY_COUNT
} bt_unary;

const char *bt_unary_name(bt_unary function);

// y = f(x); y may be x.
typedef struct bt_unary_args {
    bt_unary function;
    double alpha;  // SCALE and SHIFT only
    const void *x; // [count]
    void *y;       // [count]
    int64_t count;
    bt_dtype dtype;
    bool as_epilogue; // GELU: the bits that BT_EPILOGUE_BIAS_GELU makes of x, its aux
} bt_unary_args;

// dx = dy f'(x), or dx += that; dx may be dy when it does not accumulate. x is f's input; of
// NEGATE, SCALE and SHIFT, whose slope is a constant, any readable memory of its size, such as dy.
typedef struct bt_unary_backward_args {
    bt_unary function;
    double alpha;
    const void *x;  // [count]
    const void *dy; // [count]
    void *dx;       // [count]
    int64_t count;
    bt_dtype dtype;
    bool accumulate;
} bt_unary_backward_args;

// y[i] = factor[i / group] x[i], or y += that; factors are in device memory. y may be x; in place,
// a single factor of 1 reads neither.
typedef struct bt_scale_args {
    const void *x;      // [count]
    const void *factor; // [1], with a group [count / group]; f32 (f64 at f64)
    void *y;            // [count]
    int64_t count;
    bool accumulate; // y is not x then
    bt_dtype dtype;  // of x and y
    int64_t group;   // elements that share a factor, a divisor of count; 0: all of them
} bt_scale_args;

#define BT_BINARY_LIST(X)                                                                          \
    X(ADD, "add")                                                                                  \
    X(SUB, "sub")                                                                                  \
    X(MUL, "mul")                                                                                  \
    X(DIV, "div")

typedef enum bt_binary {
#define BT_BINARY_ENUM(name, text) BT_BINARY_##name,
    BT_BINARY_LIST(BT_BINARY_ENUM)
#undef BT_BINARY_ENUM
        BT_BINARY_COUNT
} bt_binary;

const char *bt_binary_name(bt_binary function);

// y = a op b over a common shape; strides of 0 broadcast. y is contiguous and may be a or b where
// that operand is contiguous.
typedef struct bt_binary_args {
    bt_binary function;
    int rank;
    int64_t shape[BT_MAX_RANK];
    const void *a;
    int64_t a_stride[BT_MAX_RANK];
    const void *b;
    int64_t b_stride[BT_MAX_RANK];
    void *y;
    bt_dtype dtype; // of all three
} bt_binary_args;

// y[o,i] = scale * sum_r x[o,r,i], or += that. Sums f32 (f64 for f64).
typedef struct bt_reduce_sum_args {
    const void *x; // [outer, reduce, inner]
    void *y;       // [outer, inner]
    int64_t outer, reduce, inner;
    double scale;
    bool accumulate;
    bt_dtype dtype;   // of x
    bt_dtype y_dtype; // dtype, or f32 (bias gradients from bf16)
} bt_reduce_sum_args;

// A part of a sum: rows first .. first + rows - 1 of y. Element c of its row r of batch entry b is
// x[b * batch_stride + r * row_stride + c].
typedef struct bt_sum_parts_item {
    const void *x;                    // [batch, rows, width]; not read when rows is 0
    int64_t batch_stride, row_stride; // elements
    int64_t first, rows;
} bt_sum_parts_item;

// y[b,r,:] = sum of row r of the parts that hold it, in the order of the list, in f32 (f64 at f64),
// rounded once; 0 where no part holds the row. One part alone is taken over bit for bit, except for
// the payload of a NaN.
typedef struct bt_sum_parts_args {
    const bt_sum_parts_item *items; // host memory, [item_count], each inside of y's rows
    int64_t item_count;
    void *y;                              // [batch, rows, width]; no part's
    int64_t y_batch_stride, y_row_stride; // elements
    int64_t batch, rows, width;
    bt_dtype dtype; // of the parts and y
} bt_sum_parts_args;

// y[r,c] = exp(x[r,c] - max_r) / sum_c exp(x[r,c] - max_r); y may be x.
typedef struct bt_softmax_args {
    const void *x; // [rows, cols]
    void *y;
    int64_t rows, cols;
    bt_dtype dtype;
} bt_softmax_args;

// dx[r,c] = y[r,c] (dy[r,c] - sum_c dy[r,c] y[r,c]); dx may be dy.
typedef struct bt_softmax_backward_args {
    const void *y, *dy; // [rows, cols]
    void *dx;
    int64_t rows, cols;
    bt_dtype dtype;
} bt_softmax_backward_args;

// s = x + residual (s = x without one); y = (s - mean) * rstd * gamma + beta, per row.
// Variance in two passes over registers or by Welford: no cancellation. mean, rstd f32 (f64 at
// f64).
typedef struct bt_layernorm_args {
    const void *x;        // [rows, cols]
    const void *residual; // [rows, cols] or NULL
    void *sum;            // [rows, cols], NULL without residual; may be x or residual
    const void *gamma;    // [cols]
    const void *beta;     // [cols] or NULL
    void *y;              // [rows, cols]
    void *mean, *rstd;    // [rows]
    int64_t rows, cols;
    double epsilon;
    bt_dtype dtype;       // of x, residual, sum, y
    bt_dtype param_dtype; // of gamma and beta: dtype or f32
} bt_layernorm_args;

// dx = LN'(dy), or dx += that; dgamma, dbeta likewise under their own flag. dx may be dy when it
// does not accumulate. s is the forward's s.
typedef struct bt_layernorm_backward_args {
    const void *dy, *s;      // [rows, cols]
    const void *gamma;       // [cols]
    const void *mean, *rstd; // [rows]
    void *dx;                // [rows, cols]
    void *dgamma, *dbeta;    // [cols], grad_dtype; dbeta may be NULL
    int64_t rows, cols;
    bool accumulate;        // into dx
    bool accumulate_params; // into dgamma, dbeta
    bt_dtype dtype;         // of dy, s, dx
    bt_dtype param_dtype;   // of gamma
    bt_dtype grad_dtype;    // of dgamma and dbeta: f32, or f64 at f64
} bt_layernorm_backward_args;

// y[r,:] = table[ids[r],:] + position[r % positions,:]. An id outside of [0, vocab) makes y[r,:]
// NaN and sets *bad_row to the smallest such row; vocab is at least 1 where there are rows.
typedef struct bt_embedding_args {
    const int32_t *ids;   // [rows]
    const void *table;    // [vocab, cols]
    const void *position; // [positions, cols] or NULL
    void *y;              // [rows, cols]
    int64_t rows, cols, vocab, positions;
    bt_dtype dtype;
    int32_t *good_ids; // [rows]: ids, and 0 for those outside; or NULL
    int64_t *bad_row;  // [1]: -1 when all ids are inside; or NULL
} bt_embedding_args;

// dtable[v,:] (+)= sum over rows r with ids[r] == v, ascending r; dposition[p,:] (+)= sum over rows
// with r % positions == p, ascending r.
typedef struct bt_embedding_backward_args {
    const int32_t *ids; // [rows], each in [0, vocab)
    const void *dy;     // [rows, cols]
    void *dtable;       // [vocab, cols], grad_dtype
    void *dposition;    // [positions, cols], grad_dtype, or NULL
    int64_t rows, cols, vocab, positions;
    bool accumulate;          // into dtable; when false rows never met become zero
    bool accumulate_position; // into dposition
    bt_dtype dtype;           // of dy
    bt_dtype grad_dtype;      // f32, or f64 at f64
} bt_embedding_backward_args;

// Where the [batch, token, head, dim] element of an attention operand is: base +
// batch * batch_stride + token * token_stride + head * head_stride + dim, in elements.
// Packed QKV [B, T, 3C]: token_stride 3C, head_stride D, bases at 0, C and 2C.
typedef struct bt_attention_view {
    void *base;
    int64_t batch_stride, token_stride, head_stride;
} bt_attention_view;

typedef enum bt_compute {
    BT_COMPUTE_NATIVE, // fp32: IEEE FFMA; f64; bf16 operands: tensor cores with fp32 sums
    BT_COMPUTE_TF32,   // fp32 storage, operands rounded to nearest tf32, fp32 sums
    BT_COMPUTE_COUNT
} bt_compute;

// Arguments common to attention forward and backward. kernels/attention.h defines which keys a
// query sees.
//   heads     query head h reads key/value head h / (heads / kv_heads)
//   q_first   query i stands at position q_first + i on the axis of keys (context parallelism,
//             decoding); may be negative
//   causal    keeps key j iff j <= q_first + i
//   window    keeps key j iff |q_first + i - j| < window; 0: all. With causal: the newest `window`
//             keys, the query's own included
//   starts    packs `documents` sequences into one: document n is tokens starts[n] .. starts[n + 1]
//             - 1, and a query sees keys of its own document only. starts[0] = 0, starts[documents]
//             = q_tokens = kv_tokens, batch = 1, q_first = 0; documents may be empty. Tokens
//             outside of all documents see nothing
//   dropout   the rate at which probabilities are dropped. Element
//             ((b * heads + h) * q_tokens + i) * kv_tokens + j is kept iff its number by (seed,
//             stream) is at least the rate, as in bt_dropout_args; kept ones count 1 / (1 - rate)
//             times. Both directions make the same mask
typedef struct bt_attention_shape {
    int64_t batch, heads, kv_heads; // heads % kv_heads == 0
    int64_t q_tokens, kv_tokens, head_dim;
    int64_t q_first;
    int64_t window;        // 0: none
    const int32_t *starts; // device memory, [documents + 1], or NULL
    int64_t documents;     // 0 without starts
    double scale;          // usually 1/sqrt(head_dim)
    bool causal;
    double dropout; // [0, 1); 0: none
    uint64_t seed, stream;
} bt_attention_shape;

// o = dropout(softmax(scale q k^T, over the keys that a query sees)) v, per batch and head; never
// stores q_tokens x kv_tokens. lse[b,h,i] = log sum exp of the scaled scores, before dropout, f32
// (f64 at f64). A query that sees no key has o = 0, lse = -inf and gradients of 0. One that sees
// only scores of -inf has lse = -inf and o = NaN.
// A NaN stays in its batch and head (of k or v: in the heads of that group), and on the CPU in its
// document. On CUDA it may also reach the tokens of other documents that share a tile with it, of
// up to 192 queries and 128 keys, since a masked probability of 0 times NaN is NaN.
//
// Partial results over disjoint sets of keys (o_n, lse_n) merge into the whole:
//   lse = log sum_n exp(lse_n)    o = sum_n exp(lse_n - lse) o_n, in f32, where exp(-inf) is 0 even
// if lse is -inf; NaN of a part stays, also where its share is 0. With `accumulate` o and lse hold
// the result over other keys, and become that over all: o is rounded once. A backward call over one
// of the sets that is given the merged o and lse (and d_o) yields the set's dk and dv, and its
// share of dq: the shares' sum is dq (`accumulate_dq`).
typedef struct bt_attention_args {
    bt_attention_view q, o; // [batch, q_tokens, heads, head_dim]
    bt_attention_view k, v; // [batch, kv_tokens, kv_heads, head_dim]
    void *lse;              // [batch, heads, q_tokens]
    bool accumulate;        // merges with the old o and lse
    bt_attention_shape shape;
    bt_compute compute;
    bt_dtype dtype;
} bt_attention_args;

// A backward call may want dq alone (dk and dv have a base of NULL), or dk and dv alone. Each
// needs delta[b,h,i] = sum of d_o o over head_dim, f32 (f64 at f64): a call writes it where `delta`
// is not NULL, and another call with the same o and d_o may be given it instead of computing it.
typedef struct bt_attention_backward_args {
    bt_attention_view q, o, d_o; // inputs, of q's shape
    bt_attention_view k, v;      // inputs, of k's shape
    const void *lse;             // [batch, heads, q_tokens]
    bt_attention_view dq;        // output, of q's shape
    bt_attention_view dk, dv;    // outputs, of k's shape: sums over a group's heads, ascending
    bool accumulate_dq;          // dq += instead; bf16 may round dq, then the sum
    bool accumulate_dkv;         // dk and dv likewise
    void *delta;                 // [batch, heads, q_tokens], or NULL
    bool delta_given;            // delta is an input
    bt_attention_shape shape;
    bt_compute compute;
    bt_dtype dtype;
} bt_attention_backward_args;

// loss[r] = lse[r] - logits[r, target[r]], 0 where target[r] == ignore; mean = sum loss / counted,
// inv_count = 1 / counted (both 0 when none is counted). A target outside [0, vocab) that is not
// `ignore` makes loss[r], hence the mean, NaN and sets *bad_row to the smallest such row.
typedef struct bt_cross_entropy_args {
    const void *logits;     // [rows, vocab], row stride logits_stride
    const int32_t *targets; // [rows]
    void *loss, *lse;       // [rows], f32 (f64 at f64)
    void *mean, *inv_count; // [1], likewise
    int64_t *bad_row;       // [1]: -1 when all targets are good
    int64_t rows, vocab, logits_stride;
    int32_t ignore; // usually -100
    bt_dtype dtype;
} bt_cross_entropy_args;

// dlogits[r,c] = (exp(logits[r,c] - lse[r]) - [c == target[r]]) * dmean[0] * inv_count[0], 0 for
// ignored rows. dlogits may be logits, and usually is.
typedef struct bt_cross_entropy_backward_args {
    const void *logits;
    const int32_t *targets;
    const void *lse, *inv_count, *dmean;
    void *dlogits;
    int64_t rows, vocab, logits_stride;
    int32_t ignore;
    bt_dtype dtype;
} bt_cross_entropy_backward_args;

// Values that loss and gradient of a chunk of rows need from all rows: inv_count = 1 / counted, 0
// when no row is counted; bad_row as in bt_cross_entropy_args; with `loss`, the mean of the losses.
typedef struct bt_cross_entropy_mean_args {
    const int32_t *targets; // [rows]
    const void *loss;       // [rows], 0 where ignored; NULL: no mean
    void *mean;             // [1]; NULL where loss is
    void *inv_count;        // [1]
    int64_t *bad_row;       // [1]
    int64_t rows, vocab;
    int32_t ignore;
    bt_dtype dtype; // of loss, mean and inv_count: f32, f64
} bt_cross_entropy_mean_args;

// loss[r] as in bt_cross_entropy_args;
// dlogits[r,c] = (exp(logits[r,c] - lse[r]) - [c == target[r]]) * inv_count[0], 0 for ignored rows.
// dlogits may be logits, and usually is; NULL: the loss alone.
typedef struct bt_cross_entropy_grad_args {
    const void *logits;     // [rows, vocab], row stride logits_stride
    const int32_t *targets; // [rows]
    const void *inv_count;  // [1], f32 (f64 at f64); not read without dlogits
    void *loss;             // [rows], likewise
    void *dlogits;          // [rows, vocab], row stride logits_stride; or NULL
    int64_t rows, vocab, logits_stride;
    int32_t ignore;
    bt_dtype dtype; // of logits and dlogits
} bt_cross_entropy_grad_args;

// Loss and gradient of a linear layer's logits, l[r,c] = sum over k of x[r,k] w[c,k], in a form
// that needs no pass over them. With t = target[r], and m = l[r,t], or the largest l[r,c] where the
// sum over c of exp(l[r,c] - l[r,t]) exceeds 2^64,
//   exps[r,c] = exp(l[r,c] - m), but exps[r,t] = - the sum of the others;
//   total = the sum of the others + exp(l[r,t] - m); scale[r] = inv_count[0] / total;
//   loss[r] = log(total) + m - l[r,t]; scaled_x[r,k] = scale[r] x[r,k]
// so that dlogits[r,c] = scale[r] exps[r,c], dx = scale (exps w) and dw = exps^T scaled_x.
// A row that is ignored has zeros, except that exps[r,c] is NaN where l[r,c] is NaN or +inf. In the
// other rows such a logit makes loss and scale NaN; without a finite l[r,t], also for a target
// outside of [0, vocab), all of the row's exps are NaN, too.
typedef struct bt_linear_exps_args {
    const void *x, *w;      // [rows, width], [vocab, width]
    const int32_t *targets; // [rows]
    const void *inv_count;  // [1], f32 (f64 at f64)
    void *exps, *scaled_x;  // [rows, vocab], [rows, width]
    void *scale, *loss;     // [rows], f32 (f64 at f64)
    int64_t rows, vocab, width;
    int32_t ignore;
    bt_dtype dtype; // of x, w, exps and scaled_x
} bt_linear_exps_args;

// Ids of a vocabulary of which this rank has the rows [first, first + rows). For an id among them
// own = id - first and mask = 1; for the others own = 0, and mask = 0, or NaN for an id outside of
// [0, vocab).
typedef struct bt_shard_ids_args {
    const int32_t *ids; // [count]
    int32_t *own;       // [count]
    void *mask;         // [count]
    int64_t count, first, rows, vocab;
    bt_dtype dtype; // of mask
} bt_shard_ids_args;

// Targets of a cross-entropy over that vocabulary, of which each rank has `each` rows, the last
// ones fewer.
//          a row of this rank   another rank's   outside of [0, vocab)   ignored
// own      target - first       -1               -1                      -1
// column   target - first       INT32_MAX        INT32_MAX               -1
// owner    target / each        target / each    INT32_MAX               -1
typedef struct bt_shard_targets_args {
    const int32_t *targets;        // [count]
    int32_t *own, *column, *owner; // [count]
    int64_t count, first, rows, vocab, each;
    int32_t ignore;
} bt_shard_targets_args;

// y[i] = x[i] / (1 - rate) where kept, else 0; kept iff uniform(seed, stream, i) >= rate, with
// bt_rng's word i % 4 of block i / 4. The backward is the same call on dy. y may be x.
typedef struct bt_dropout_args {
    const void *x;
    void *y;
    int64_t count;
    double rate; // [0, 1)
    uint64_t seed, stream;
    bool accumulate; // y += instead
    bt_dtype dtype;
} bt_dropout_args;

typedef enum bt_epilogue {
    BT_EPILOGUE_NONE,
    BT_EPILOGUE_BIAS,      // + bias[n]
    BT_EPILOGUE_BIAS_GELU, // aux = (alpha A B + bias), D = gelu(aux); bias may be NULL
    BT_EPILOGUE_DGELU,     // D = (alpha A B) * gelu'(aux)
    BT_EPILOGUE_COUNT
} bt_epilogue;

// D = epilogue(alpha op(A) op(B)) + beta C, row-major, per batch entry.
// op(A) is [m,k]: A is [m,k] with row stride lda, or [k,m] when trans_a. op(B) is [k,n] likewise.
// GELU is taken of aux as it is stored, and made again by UNARY with as_epilogue; in bf16 it may be
// good to 2^-10 only.
typedef struct bt_gemm_args {
    int64_t m, n, k;
    bool trans_a, trans_b;
    const void *a, *b;
    const void *c; // read when beta != 0; may be d
    void *d;
    int64_t lda, ldb, ldc, ldd;                     // row strides in elements
    int64_t batch;                                  // 1 for a single product
    int64_t stride_a, stride_b, stride_c, stride_d; // elements from one batch entry to the next
    double alpha, beta;
    bt_epilogue epilogue;
    const void *bias;  // [n], ab_dtype
    void *aux;         // [m,n], row stride ldd, d_dtype
    bt_dtype ab_dtype; // of a, b, bias
    bt_dtype d_dtype;  // of c, d, aux: ab_dtype, or f32 (weight gradients)
    bt_compute compute;
    void *dbias;           // [n], batch 1: the sums of D's columns as stored; NULL for none
    bt_dtype dbias_dtype;  // d_dtype, or f32
    bool dbias_accumulate; // +=
    bool dbias_of_a;       // dbias is [m], the sums over k of op(A), which is not rounded for them
} bt_gemm_args;

// Independent products in one call; shapes may differ. Outputs do not overlap each other or any
// input, so the kernel may compute the products in any order.
typedef struct bt_gemm_grouped_args {
    const bt_gemm_args *products; // host memory, [count]
    int64_t count;
} bt_gemm_grouped_args;

// One product, in pieces of its rows: other streams bring the rows of A while it runs, or take
// those of D. Pieces have m / pieces rows, and are computed in ascending order from `first`, modulo
// their number. D is the same as without pieces.
typedef struct bt_gemm_pieces_args {
    bt_gemm_args product; // batch 1, no dbias
    int64_t pieces, first;
    // Own pieces, for which nobody waits: of A they are at `own`, [own_count m / pieces, k] with
    // row stride lda, from the start.
    const void *own;
    int64_t own_first, own_count;
    // Device memory, [pieces] each, 0 or 1, of other pieces; NULL: none.
    uint32_t *ready; // a piece of A is read once its word is 1. At the end all words are 0
    uint32_t *done;  // a piece's word becomes 1 once its rows of D are written
    uint32_t *count; // [pieces + 1], 0 before and after
} bt_gemm_pieces_args;

// Norm of many tensors, summed in a fixed order, and the scale for clipping:
// norm = grad_scale * sqrt(sum), scale = grad_scale * min(1, max_norm / (norm + 1e-6));
// max_norm <= 0 does not clip. A norm that is not finite makes scale NaN.
typedef struct bt_grad_norm_item {
    const void *grad; // [count]
    int64_t count;
} bt_grad_norm_item;

typedef struct bt_grad_norm_args {
    const bt_grad_norm_item *items; // host memory, [item_count]
    int64_t item_count;
    double grad_scale, max_norm;
    void *norm, *scale; // [1], f32 (f64 at f64)
    bt_dtype dtype;     // of the gradients: f32, f64
} bt_grad_norm_args;

// The two steps of GRAD_NORM, for gradients sharded over ranks: one partial sum per
// BT_SQUARES_BLOCK elements of an item, then norm and scale from all partial sums. A partial sum
// depends only on its elements, the norm only on the partial sums and their order.
enum { BT_SQUARES_BLOCK = 16384 };

typedef struct bt_sum_squares_item {
    const void *x; // [count]
    int64_t count;
    double *partials; // [ceil(count / BT_SQUARES_BLOCK)], written
} bt_sum_squares_item;

typedef struct bt_sum_squares_args {
    const bt_sum_squares_item *items; // host memory, [item_count]
    int64_t item_count;
    bt_dtype dtype; // of x: f32, f64
} bt_sum_squares_args;

typedef struct bt_clip_scale_args {
    const double *partials; // [count]
    int64_t count;
    double grad_scale, max_norm; // as bt_grad_norm_args
    void *norm, *scale;          // [1], f32 (f64 at f64)
    bt_dtype dtype;
} bt_clip_scale_args;

// Decoupled weight decay (Loshchilov & Hutter 2017, arXiv:1711.05101), all tensors in one launch:
// g = grad * scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// param -= lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + epsilon) + decay param)
// and, where the item has one, copy = bf16(param). A NaN in *scale leaves everything unchanged.
typedef struct bt_adamw_item {
    void *param;      // [count] dtype: the master weights
    uint16_t *copy;   // [count] bf16, or NULL
    const void *grad; // [count] dtype
    void *m, *v;      // [count] dtype
    int64_t count;
    double decay;
} bt_adamw_item;

typedef struct bt_adamw_args {
    const bt_adamw_item *items; // host memory, [item_count]
    int64_t item_count;
    double lr, beta1, beta2, epsilon;
    int64_t step;      // t, 1 at the first
    const void *scale; // [1] dtype, device memory: from bt_grad_norm_args
    bt_dtype dtype;    // f32, f64
} bt_adamw_args;

// *result = number of elements that are NaN or infinite
typedef struct bt_count_nonfinite_args {
    const void *x;
    int64_t count;
    int64_t *result; // [1]
    bt_dtype dtype;
} bt_count_nonfinite_args;

// ---- the table ---------------------------------------------------------------------------------

typedef struct bt_launch {
    bt_device *device;
    bt_stream stream;
    void *workspace; // at least what the kernel's workspace() or the plan said, 256-byte aligned
    size_t workspace_bytes;
    int plan; // number of one of the row's plans for the call; 0: the row chooses
} bt_launch;

// One of a row's plans for a call (bt_backend.plans): tiles, splits.
typedef struct bt_kernel_plan {
    int number; // 0: the row's own choice
    size_t workspace_bytes;
    char name[40]; // "128x192x64 split 4"; "" where the row has one way
} bt_kernel_plan;

typedef struct bt_kernel {
    bt_kernel_op op;
    bt_device_kind device;
    bt_dtype dtype; // of the main operand; BT_DTYPE_COUNT serves every type
    int min_arch;   // compute capability x10; 0 on the CPU
    const char *name;
    // NULL accepts everything. Must not touch the operands' memory.
    bool (*accepts)(const bt_device *device, const void *args);
    // NULL needs none. Bytes.
    size_t (*workspace)(const bt_device *device, const void *args);
    bt_status (*launch)(const bt_launch *launch, const void *args);
} bt_kernel;

// Description of the calls that a row accepts: `accepts` is its column of kernels.inl as text.
const char *bt_kernel_accepts_text(const char *accepts);

// The rows that belong to a device's backend.
const bt_kernel *bt_kernel_table(const bt_device *device, int *count);
// Name of the row and of the call's plan, "gemm_bf16_sm90 128x192x64 split 4", as written to
// records. `plan` may be NULL, for the row's own choice.
void bt_kernel_label(const bt_device *device, const bt_kernel *kernel, const bt_kernel_plan *plan,
                     const void *args, char *text, size_t capacity);
// The last row that serves the call, or NULL without an error: for callers with a fallback.
const bt_kernel *bt_kernel_lookup(const bt_device *device, bt_kernel_op op, bt_dtype dtype,
                                  const void *args);
// The same for callers without a fallback.
// Errors  UNSUPPORTED, naming op, dtype, device and the rows that were refused
BT_CHECKED bt_status bt_kernel_find(const bt_device *device, bt_kernel_op op, bt_dtype dtype,
                                    const void *args, const bt_kernel **kernel);

#ifdef __cplusplus
}
#endif
#endif
