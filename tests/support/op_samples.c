// tests/support/op_samples.c - test cases of every row of the op table
#include "tests/support/op_samples.h"

#include <assert.h>
#include <string.h>

#include "framework/autograd/recompute.h"
#include "framework/ops/collective.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/layernorm.h"
#include "framework/ops/linear.h"
#include "framework/ops/loss.h"
#include "framework/ops/reduce.h"
#include "framework/ops/ring_job.h"
#include "framework/ops/view.h"

static void set_attrs(op_sample *out, const void *attrs, size_t size_bytes)
{
    assert(size_bytes <= sizeof out->attrs);
    memcpy(out->attrs, attrs, size_bytes);
}

// ATTRS(out, layernorm, {1e-5}): after the rest of the sample.
#define ATTRS(out, name, ...)                                                                      \
    set_attrs(out, &(const bt_##name##_attrs)__VA_ARGS__, sizeof(bt_##name##_attrs))

// A single input with values up to `limit` of either sign.
static op_sample one(bt_shape shape, double limit)
{
    return (op_sample){.in_count = 1,
                       .in = {{BT_F64, shape}},
                       .present = {true},
                       .low = {-limit},
                       .high = {limit}};
}

typedef struct attention_sample {
    int64_t batch, q_tokens, kv_tokens, head_dim; // kv_tokens 0: packed operands
    int32_t starts[5];
    int64_t documents;
    bt_attention_options options;
} attention_sample;

static bool sample_attention(int variant, op_sample *out)
{
    static const attention_sample samples[] = {
        {2, 7, 0, 4, {0}, 0, {.heads = 2, .causal = true}},
        {2, 7, 0, 4, {0}, 0, {.heads = 2}},
        {2, 1, 0, 4, {0}, 0, {.heads = 2, .causal = true}},
        {1, 5, 0, 33, {0}, 0, {.heads = 1, .causal = true}},
        {2, 6, 0, 3, {0}, 0, {.heads = 4, .kv_heads = 2, .causal = true}},
        {1, 8, 0, 4, {0}, 0, {.heads = 2, .causal = true, .window = 3}},
        {1, 8, 0, 4, {0}, 0, {.heads = 2, .window = 2}},
        {1, 8, 0, 4, {0}, 0, {.heads = 2, .causal = true, .dropout = 0.4, .seed = 7, .stream = 3}},
        {1, 9, 0, 4, {0, 3, 3, 8, 9}, 4, {.heads = 2, .causal = true}},
        {1, 9, 0, 4, {0, 5, 9}, 2, {.heads = 2, .kv_heads = 1, .window = 3, .dropout = 0.2}},
        {2, 3, 7, 4, {0}, 0, {.heads = 2, .causal = true, .q_first = 4}},
        {1, 6, 4, 5, {0}, 0, {.heads = 4, .kv_heads = 2, .causal = true, .q_first = -2}},
        {1, 9, 9, 4, {0, 4, 9}, 2, {.heads = 2, .kv_heads = 1, .causal = true, .window = 2}},
        {1, 4, 9, 4, {0}, 0, {.heads = 2, .q_first = 3, .window = 3, .dropout = 0.3, .seed = 1}},
    };
    const int count = (int)(sizeof samples / sizeof samples[0]);
    const attention_sample *s = &samples[variant < count ? variant : 0];
    const int64_t heads = s->options.heads;
    const int64_t kv_heads = s->options.kv_heads ? s->options.kv_heads : heads;
    const int64_t q_heads = s->kv_tokens ? heads : heads + 2 * kv_heads;
    *out = (op_sample){.in_count = 4,
                       .in = {{BT_F64, BT_SHAPE(s->batch, s->q_tokens, q_heads * s->head_dim)},
                              {BT_F64, BT_SHAPE(s->batch, s->kv_tokens, kv_heads * s->head_dim)},
                              {BT_F64, BT_SHAPE(s->batch, s->kv_tokens, kv_heads * s->head_dim)},
                              {BT_I32, BT_SHAPE(s->documents + 1)}},
                       .present = {true, s->kv_tokens > 0, s->kv_tokens > 0, s->documents > 0},
                       .low = {-1, -1, -1},
                       .high = {1, 1, 1},
                       .integers = {[3] = s->starts}};
    set_attrs(out, &s->options, sizeof s->options);
    return variant < count;
}

static bool sample_collective(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(2, 3, 4), 2);
    ATTRS(out, collective, {.axis = variant});
    return variant < 3;
}

static bool sample_unary(int variant, op_sample *out)
{
    if (variant >= BT_UNARY_COUNT) {
        return false;
    }
    bt_unary function = (bt_unary)variant;
    bool positive = function == BT_UNARY_LOG || function == BT_UNARY_SQRT;
    *out = (op_sample){.in_count = 1,
                       .in = {{BT_F64, BT_SHAPE(3, 7)}},
                       .present = {true},
                       .low = {positive ? 0.5 : -3.0},
                       .high = {3.0}};
    ATTRS(out, unary, {function, 1.5});
    return true;
}

static bool sample_binary(int variant, op_sample *out)
{
    static const bt_shape shapes[][2] = {
        {{2, {3, 5}}, {2, {3, 5}}}, {{2, {3, 5}}, {1, {5}}},    {{2, {3, 1}}, {2, {1, 5}}},
        {{3, {2, 3, 4}}, {0, {0}}}, {{1, {1}}, {3, {2, 1, 3}}},
    };
    int shape_count = (int)(sizeof shapes / sizeof shapes[0]);
    if (variant >= shape_count * BT_BINARY_COUNT) {
        return false;
    }
    const bt_shape *pair = shapes[variant % shape_count];
    *out = (op_sample){.in_count = 2,
                       .in = {{BT_F64, pair[0]}, {BT_F64, pair[1]}},
                       .present = {true, true},
                       .low = {-2.0, 0.5},
                       .high = {2.0, 2.0}};
    ATTRS(out, binary, {(bt_binary)(variant / shape_count)});
    return true;
}

static bool sample_dropout(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(5, 13), 2);
    ATTRS(out, dropout, {variant == 0 ? 0.3 : 0.0, 42, 7});
    return variant < 2;
}

static bool sample_embedding(int variant, op_sample *out)
{
    *out = (op_sample){.in_count = 3,
                       .in = {{BT_I32, BT_SHAPE(3, 4)},
                              {BT_F64, BT_SHAPE(5, 3)},
                              {BT_F64, BT_SHAPE(variant == 2 ? 6 : 4, 3)}},
                       .present = {true, true, variant != 1},
                       .low = {0, -1, -1},
                       .high = {5, 1, 1}};
    return variant < 3;
}

static bool sample_feed_forward(int variant, op_sample *out)
{
    // Variants: plain, both biases, these and a residual.
    *out = (op_sample){.in_count = 6,
                       .in = {{BT_F64, BT_SHAPE(2, 3, 5)},
                              {BT_F64, BT_SHAPE(7, 5)},
                              {BT_F64, BT_SHAPE(7)},
                              {BT_F64, BT_SHAPE(4, 7)},
                              {BT_F64, BT_SHAPE(4)},
                              {BT_F64, BT_SHAPE(2, 3, 4)}},
                       .present = {true, true, variant >= 1, true, variant >= 1, variant == 2},
                       .low = {-1, -1, -1, -1, -1, -1},
                       .high = {1, 1, 1, 1, 1, 1}};
    return variant < 3;
}

// One rank. Variants: without a bias, with it.
static bool sample_gather_linear(int variant, op_sample *out)
{
    *out = (op_sample){
        .in_count = 3,
        .in = {{BT_F64, BT_SHAPE(6, 5)}, {BT_F64, BT_SHAPE(7, 5)}, {BT_F64, BT_SHAPE(7)}},
        .present = {true, true, variant == 1},
        .low = {-1, -1, -1},
        .high = {1, 1, 1}};
    ATTRS(out, row_chunks, {NULL});
    return variant < 2;
}

// The same, and a third one with a residual.
static bool sample_linear_scatter(int variant, op_sample *out)
{
    (void)sample_gather_linear(variant < 2 ? variant : 1, out);
    out->in_count = 4;
    out->in[3] = (bt_op_spec){BT_F64, BT_SHAPE(6, 7)};
    out->present[3] = variant == 2;
    out->low[3] = -1;
    out->high[3] = 1;
    return variant < 3;
}

static bool sample_feed_forward_chunks(int variant, op_sample *out)
{
    const bool given = sample_feed_forward(variant, out);
    out->in[0].shape = BT_SHAPE(6, 5);
    out->in[5].shape = BT_SHAPE(6, 4);
    ATTRS(out, row_chunks, {NULL});
    return given;
}

// One rank. Variants: plain, a bias, this and a residual with a causal mask.
static bool sample_attention_scatter(int variant, op_sample *out)
{
    *out = (op_sample){.in_count = 4,
                       .in = {{BT_F64, BT_SHAPE(2, 3, 12)},
                              {BT_F64, BT_SHAPE(5, 4)},
                              {BT_F64, BT_SHAPE(5)},
                              {BT_F64, BT_SHAPE(6, 5)}},
                       .present = {true, true, variant >= 1, variant == 2},
                       .low = {-1, -1, -1, -1},
                       .high = {1, 1, 1, 1}};
    ATTRS(out, attention_scatter, {NULL, 2, variant == 2});
    return variant < 3;
}

static bool sample_head_exchange(int variant, op_sample *out)
{
    static const bt_head_layout layouts[] = {{1, {2}, 2}, {3, {4, 2, 2}, 2}, {3, {1, 1, 1}, 1}};
    static const int64_t tokens[] = {4, 6, 3};
    static const int64_t heads[] = {2, 8, 3};
    const int i = variant < 3 ? variant : 0;
    *out = one(BT_SHAPE(2, tokens[i], 3 * heads[i]), 1);
    ATTRS(out, head_exchange, {.layout = layouts[i]});
    return variant < 3;
}

static bool sample_layernorm(int variant, op_sample *out)
{
    int64_t cols = variant == 1 ? 1 : 6;
    *out = (op_sample){
        .in_count = 3,
        .in = {{BT_F64, BT_SHAPE(2, 5, cols)}, {BT_F64, BT_SHAPE(cols)}, {BT_F64, BT_SHAPE(cols)}},
        .present = {true, true, variant != 2},
        .low = {-2, 0.5, -1},
        .high = {2, 1.5, 1}};
    ATTRS(out, layernorm, {1e-5});
    return variant < 3;
}

static bool sample_add_layernorm(int variant, op_sample *out)
{
    *out = (op_sample){.in_count = 4,
                       .in = {{BT_F64, BT_SHAPE(4, 6)},
                              {BT_F64, BT_SHAPE(6)},
                              {BT_F64, BT_SHAPE(6)},
                              {BT_F64, BT_SHAPE(4, 6)}},
                       .present = {true, true, true, true},
                       .low = {-2, 0.5, -1, -2},
                       .high = {2, 1.5, 1, 2}};
    ATTRS(out, layernorm, {1e-5});
    return variant < 1;
}

static bool sample_linear(int variant, op_sample *out)
{
    // Variants: plain, bias, bias + residual, bias + GELU, GELU without bias.
    *out = (op_sample){.in_count = 4,
                       .in = {{BT_F64, BT_SHAPE(2, 3, 5)},
                              {BT_F64, BT_SHAPE(4, 5)},
                              {BT_F64, BT_SHAPE(4)},
                              {BT_F64, BT_SHAPE(2, 3, 4)}},
                       .present = {true, true, variant >= 1 && variant <= 3, variant == 2},
                       .low = {-1, -1, -1, -1},
                       .high = {1, 1, 1, 1}};
    ATTRS(out, linear, {variant >= 3 ? BT_ACTIVATION_GELU : BT_ACTIVATION_NONE});
    return variant < 5;
}

static bool sample_matmul(int variant, op_sample *out)
{
    bool ta = variant & 1;
    bool tb = variant & 2;
    *out = (op_sample){.in_count = 2,
                       .in = {{BT_F64, ta ? BT_SHAPE(2, 5, 3) : BT_SHAPE(2, 3, 5)},
                              {BT_F64, tb ? BT_SHAPE(2, 4, 5) : BT_SHAPE(2, 5, 4)}},
                       .present = {true, true},
                       .low = {-1, -1},
                       .high = {1, 1}};
    ATTRS(out, matmul, {ta, tb});
    return variant < 4;
}

static bool sample_linear_cross_entropy(int variant, op_sample *out)
{
    static const struct {
        int32_t ignore;
        int64_t chunk_rows; // of 6
    } variants[] = {{-100, 0}, {2, 1}, {2, 4}, {-100, 3}};
    if (variant >= (int)(sizeof variants / sizeof variants[0])) {
        return false;
    }
    *out = (op_sample){
        .in_count = 3,
        .in = {{BT_F64, BT_SHAPE(2, 3, 4)}, {BT_F64, BT_SHAPE(5, 4)}, {BT_I32, BT_SHAPE(6)}},
        .present = {true, true, true},
        .low = {-1, -1, 0},
        .high = {1, 1, 5}};
    ATTRS(out, linear_cross_entropy, {variants[variant].ignore, variants[variant].chunk_rows});
    return true;
}

static bool sample_cross_entropy(int variant, op_sample *out)
{
    *out = (op_sample){.in_count = 2,
                       .in = {{BT_F64, BT_SHAPE(6, 5)}, {BT_I32, BT_SHAPE(6)}},
                       .present = {true, true},
                       .low = {-3, 0},
                       .high = {3, 5}};
    ATTRS(out, cross_entropy, {.ignore = variant == 0 ? -100 : 2});
    return variant < 2;
}

static bool sample_sum(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 5, 3), 2);
    ATTRS(out, sum, {variant});
    return variant < 3;
}

static bool sample_softmax(int variant, op_sample *out)
{
    *out = one(variant == 0 ? BT_SHAPE(4, 7) : BT_SHAPE(2, 3, 1), 3);
    return variant < 2;
}

static bool sample_ring_attention(int variant, op_sample *out)
{
    static const bt_ring alone = {.size = 1};
    static const struct {
        int64_t batch, tokens, head_dim;
        bt_attention_options options;
    } samples[] = {
        {2, 7, 4, {.heads = 2, .causal = true}},
        {1, 6, 3, {.heads = 4, .kv_heads = 2}},
        {2, 9, 4, {.heads = 2, .kv_heads = 1, .causal = true, .window = 3}},
        {1, 1, 4, {.heads = 1, .causal = true}},
    };
    const int count = (int)(sizeof samples / sizeof samples[0]), at = variant < count ? variant : 0;
    const bt_attention_options *with = &samples[at].options;
    const int64_t heads = with->heads + 2 * (with->kv_heads ? with->kv_heads : with->heads);
    *out = one(BT_SHAPE(samples[at].batch, samples[at].tokens, heads * samples[at].head_dim), 1);
    ATTRS(out, ring_attention, {.ring = &alone, .tokens = samples[at].tokens, .options = *with});
    return variant < count;
}

static bool sample_cast(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 3), 2);
    ATTRS(out, cast, {BT_F64});
    return variant < 1;
}

static bool sample_contiguous(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 3), 2);
    return variant < 1;
}

static bool sample_reshape(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 3), 2);
    ATTRS(out, view, {BT_SHAPE(2, 3, 2)});
    return variant < 1;
}

static bool sample_permute(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 3, 2), 2);
    ATTRS(out, permute, {{2, 0, 1}});
    return variant < 1;
}

static bool sample_narrow(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(4, 5, 2), 2);
    ATTRS(out, narrow, {1, 2, variant == 0 ? 3 : 1});
    return variant < 2;
}

static bool sample_expand(int variant, op_sample *out)
{
    *out = one(BT_SHAPE(3, 1), 2);
    ATTRS(out, view, {BT_SHAPE(2, 3, 4)});
    return variant < 1;
}

// gelu(a) * softmax(b): a body of several ops with two inputs.
static bt_status recomputed(bt_context *context, const void *self, bt_tensor *const *in,
                            int in_count, bt_tensor **out)
{
    bt_tensor *a = NULL;
    bt_tensor *b = NULL;
    (void)self, (void)in_count;
    *out = NULL;
    BT_TRY(bt_gelu(context, in[0], &a));
    bt_status status = bt_softmax(context, in[1], &b);
    if (status == BT_OK) {
        status = bt_mul(context, a, b, out);
    }
    bt_tensor_release(a);
    bt_tensor_release(b);
    return status;
}

static bool sample_recompute(int variant, op_sample *out)
{
    *out = (op_sample){.in_count = BT_OP_MAX_INPUTS,
                       .in = {{BT_F64, BT_SHAPE(3, 4)}, {BT_F64, BT_SHAPE(3, 4)}},
                       .present = {true, true},
                       .low = {-2, -2},
                       .high = {2, 2}};
    ATTRS(out, recompute, {recomputed, NULL, 2});
    return variant < 1;
}

#define sample_all_reduce     sample_collective
#define sample_replicate      sample_collective
#define sample_all_gather     sample_collective
#define sample_reduce_scatter sample_collective
#define sample_share_heads    sample_head_exchange
#define sample_share_tokens   sample_head_exchange

bool op_sample_of(bt_op_id id, int variant, op_sample *out)
{
    static bool (*const samples[])(int, op_sample *) = {
#define BT_OP(id, name, ...) [BT_OP_##id] = sample_##name,
#include "framework/ops/ops.inl"
#undef BT_OP
    };
    return samples[id](variant, out);
}
