// harness/cases/chains.c - the chains: RMSNorm, SwiGLU, RoPE, softmax, cross-entropy and attention
// scores composed of ops
#include <math.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "harness/cases/chain.h"

// x / sqrt(mean(x^2) + epsilon) w, in w's type
static bt_tensor *rms_norm(bt_expression *e, bt_tensor *x, bt_tensor *w)
{
    if (e->status) {
        return NULL;
    }
    const bt_dtype dtype = x->dtype;
    bt_tensor *wide = bt_expression_cast(e, x, w->dtype);
    bt_tensor *square = bt_expression_unary(e, BT_UNARY_SQUARE, 0, wide);
    bt_tensor *mean = bt_expression_mean_last(e, square);
    bt_tensor *root = bt_expression_unary(e, BT_UNARY_SQRT, 0,
                                          bt_expression_unary(e, BT_UNARY_SHIFT, 1e-5, mean));
    bt_tensor *normal = bt_expression_binary(e, BT_BINARY_DIV, wide, root);
    return bt_expression_cast(e, bt_expression_binary(e, BT_BINARY_MUL, normal, w), dtype);
}

static void chain_rms_norm(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    out[0] = rms_norm(e, p->in[0], p->in[1]);
}

static void chain_residual_rms_norm(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    out[0] = bt_expression_binary(e, BT_BINARY_ADD, p->in[0], p->in[1]);
    out[1] = rms_norm(e, out[0], p->in[2]);
}

static void chain_swiglu(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    bt_tensor *gate = bt_expression_unary(e, BT_UNARY_SILU, 0, p->in[0]);
    out[0] = bt_expression_binary(e, BT_BINARY_MUL, gate, p->in[1]);
}

// Element i < D / 2 of a head is rotated with element i + D / 2.
static void chain_rope(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    const int64_t heads = p->shape->axes[1], dim = p->shape->axes[2];
    const bt_shape table = BT_SHAPE(p->rows, 1, dim);
    bt_tensor *x = bt_expression_reshape(e, p->in[0], BT_SHAPE(p->rows, heads, dim));
    bt_tensor *turned = NULL;
    if (!e->status) {
        const bt_status status =
            bt_linear(e->context, x, p->constant, NULL, NULL, BT_ACTIVATION_NONE, &turned);
        turned = bt_expression_take(e, status, turned);
    }
    bt_tensor *cos_rows = bt_expression_reshape(e, p->in[1], table);
    bt_tensor *sin_rows = bt_expression_reshape(e, p->in[2], table);
    bt_tensor *along = bt_expression_binary(e, BT_BINARY_MUL, x, cos_rows);
    bt_tensor *across = bt_expression_binary(e, BT_BINARY_MUL, turned, sin_rows);
    out[0] = bt_expression_binary(e, BT_BINARY_ADD, along, across);
}

static void chain_softmax(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    bt_tensor *power = bt_expression_unary(e, BT_UNARY_EXP, 0, p->in[0]);
    out[0] = bt_expression_binary(e, BT_BINARY_DIV, power, bt_expression_sum_last(e, power));
}

// Against class probabilities p: log(sum(exp(x))) - sum(p x) per row.
static void chain_cross_entropy(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    bt_tensor *power = bt_expression_unary(e, BT_UNARY_EXP, 0, p->in[0]);
    bt_tensor *log_sum = bt_expression_unary(e, BT_UNARY_LOG, 0, bt_expression_sum_last(e, power));
    bt_tensor *product = bt_expression_binary(e, BT_BINARY_MUL, p->in[0], p->in[1]);
    out[0] = bt_expression_binary(e, BT_BINARY_SUB, log_sum, bt_expression_sum_last(e, product));
}

// The scores of attention in windows: 30 tanh((q k^T / sqrt(dim) + bias) / 30), the bias by
// position.
static void chain_scores(bt_expression *e, const bt_chain_parts *p, bt_tensor **out)
{
    static const double cap = 30;
    const int64_t *axes = p->shape->axes;
    bt_tensor *q = bt_expression_reshape(e, p->in[0], BT_SHAPE(p->rows, axes[1], axes[3]));
    bt_tensor *k = bt_expression_reshape(e, p->in[1], BT_SHAPE(p->rows, axes[2], axes[3]));
    bt_tensor *bias = bt_expression_reshape(e, p->in[2], BT_SHAPE(axes[1], axes[2]));
    bt_tensor *product = bt_expression_matmul(e, q, false, k, true);
    bt_tensor *scaled = bt_expression_unary(e, BT_UNARY_SCALE, 1 / sqrt((double)axes[3]), product);
    bt_tensor *sum = bt_expression_binary(e, BT_BINARY_ADD, scaled, bias);
    bt_tensor *small = bt_expression_unary(e, BT_UNARY_TANH, 0,
                                           bt_expression_unary(e, BT_UNARY_SCALE, 1 / cap, sum));
    out[0] = bt_expression_unary(e, BT_UNARY_SCALE, cap, small);
}

bt_chain_body bt_chain_body_of(bt_kernel_case_op what)
{
    static const struct {
        bt_kernel_case_op what;
        bt_chain_body body;
    } rows[] = {{BT_KERNEL_CASE_chain_rms_norm, chain_rms_norm},
                {BT_KERNEL_CASE_chain_residual_rms_norm, chain_residual_rms_norm},
                {BT_KERNEL_CASE_chain_swiglu, chain_swiglu},
                {BT_KERNEL_CASE_chain_rope, chain_rope},
                {BT_KERNEL_CASE_chain_softmax, chain_softmax},
                {BT_KERNEL_CASE_chain_cross_entropy, chain_cross_entropy},
                {BT_KERNEL_CASE_chain_scores, chain_scores}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].what == what) {
            return rows[i].body;
        }
    }
    return NULL;
}

// The quarter turn of rotary positions: y = Q x is (-second half, first half).
bt_status bt_chain_constant(const bt_chain_args *args, int64_t *dim, double **values)
{
    *dim = 0;
    *values = NULL;
    if (args->body->what != BT_KERNEL_CASE_chain_rope) {
        return BT_OK;
    }
    const int64_t size = args->body->shape.axes[2], half = size / 2;
    BT_FAIL_IF(size % 2 != 0, BT_STATUS_INVALID_ARGUMENT,
               "a head of %lld elements: rotary positions rotate pairs, so the number must be even",
               (long long)size);
    BT_TRY(BT_MEM_ARRAY(size * size, values));
    *dim = size;
    for (int64_t i = 0; i < half; ++i) {
        (*values)[i * size + i + half] = -1;
        (*values)[(i + half) * size + i] = 1;
    }
    return BT_OK;
}
