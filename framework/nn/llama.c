// framework/nn/llama.c - implements llama.h with ops
#include "framework/nn/llama.h"

#include <math.h>
#include <stdio.h>

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/ops/expression.h"

// ---- parameters ---------------------------------------------------------------------------------

static bt_status check(const bt_llama_config *config)
{
    const struct {
        const char *name;
        int64_t value, divisor;
    } sizes[] = {{"layers", config->layers, 1},
                 {"kv_heads", config->kv_heads, 1},
                 {"heads", config->heads, config->kv_heads},
                 {"width", config->width, config->heads > 0 ? 2 * config->heads : 1},
                 {"hidden", config->hidden, 1},
                 {"vocab", config->vocab, 1},
                 {"context", config->context, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        if (sizes[i].value < 1 || sizes[i].value % sizes[i].divisor != 0) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "model.%s is %lld, allowed from 1 and divisible by %lld", sizes[i].name,
                            (long long)sizes[i].value, (long long)sizes[i].divisor);
        }
    }
    return BT_OK;
}

static bt_status add(bt_params *params, int64_t layer, const char *name, bt_shape shape,
                     double mean, double deviation, bt_tensor **value)
{
    bt_str path = {0};
    if (layer >= 0) {
        bt_str_format(&path, "model.layers.%lld.", (long long)layer);
    }
    bt_str_append(&path, name);
    bt_status status = bt_str_status(&path);
    if (status == BT_OK) {
        status = bt_params_add(params, bt_str_text(&path),
                               shape.rank == 1 ? BT_PARAM_MASTER : BT_PARAM_COMPUTE, shape, mean,
                               deviation, value);
    }
    bt_str_release(&path);
    return status;
}

static bt_status add_block(bt_params *params, const bt_llama_config *c, int64_t i,
                           bt_llama_block *block)
{
    const int64_t dim = c->width / c->heads, kv = c->kv_heads * dim;
    const double deviation = 0.02, into = deviation / sqrt(2.0 * (double)c->layers);
    const struct {
        const char *name;
        bt_shape shape;
        double mean, deviation;
        bt_tensor **value;
    } rows[] = {
        {"input_layernorm.weight", BT_SHAPE(c->width), 1, 0, &block->attention_norm},
        {"self_attn.q_proj.weight", BT_SHAPE(c->width, c->width), 0, deviation, &block->q},
        {"self_attn.k_proj.weight", BT_SHAPE(kv, c->width), 0, deviation, &block->k},
        {"self_attn.v_proj.weight", BT_SHAPE(kv, c->width), 0, deviation, &block->v},
        {"self_attn.o_proj.weight", BT_SHAPE(c->width, c->width), 0, into, &block->o},
        {"post_attention_layernorm.weight", BT_SHAPE(c->width), 1, 0, &block->mlp_norm},
        {"mlp.gate_proj.weight", BT_SHAPE(c->hidden, c->width), 0, deviation, &block->gate},
        {"mlp.up_proj.weight", BT_SHAPE(c->hidden, c->width), 0, deviation, &block->up},
        {"mlp.down_proj.weight", BT_SHAPE(c->width, c->hidden), 0, into, &block->down},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; ++k) {
        BT_TRY(add(params, i, rows[k].name, rows[k].shape, rows[k].mean, rows[k].deviation,
                   rows[k].value));
    }
    return BT_OK;
}

// A constant of the activations' type from doubles, converted on the host: GPUs have no f64
// kernels.
static bt_status make_constant(bt_params *params, bt_shape shape, const char *name,
                               const double *values, bt_tensor **out)
{
    const int64_t count = bt_shape_count(&shape);
    void *narrow = NULL;
    BT_TRY(bt_tensor_create(params->context, params->compute, shape, name, out));
    if (params->compute == BT_F64) {
        return bt_tensor_write(params->context, *out, values);
    }
    BT_TRY(bt_mem_alloc((size_t)count, bt_dtype_size(params->compute), &narrow));
    for (int64_t i = 0; i < count; ++i) {
        if (params->compute == BT_F32) {
            ((float *)narrow)[i] = (float)values[i];
        } else {
            ((uint16_t *)narrow)[i] = bt_f32_to_bf16((float)values[i]);
        }
    }
    bt_status status = bt_tensor_write(params->context, *out, narrow);
    status = status ? status : bt_context_synchronize(params->context); // narrow ends here
    bt_mem_free(narrow);
    return status;
}

// Element i < D / 2 of a head is rotated with element i + D / 2 by position base^(-2 i / D).
static void fill_rotation(const bt_llama_config *c, int64_t dim, double *cos_values,
                          double *sin_values, double *quarter)
{
    const int64_t half = dim / 2;
    const double base = c->rope_base > 0 ? c->rope_base : 10000;
    for (int64_t t = 0; t < c->context; ++t) {
        for (int64_t i = 0; i < dim; ++i) {
            const double angle = (double)t * pow(base, -2.0 * (double)(i % half) / (double)dim);
            cos_values[t * dim + i] = cos(angle);
            sin_values[t * dim + i] = sin(angle);
        }
    }
    for (int64_t i = 0; i < half; ++i) { // y = rotation of x by a quarter: (-second half, first
                                         // half)
        quarter[i * dim + i + half] = -1;
        quarter[(i + half) * dim + i] = 1;
    }
}

static bt_status make_rotation(bt_params *params, bt_llama *model)
{
    const bt_llama_config *c = &model->config;
    const int64_t dim = c->width / c->heads, count = c->context * dim;
    void *values = NULL;
    BT_TRY(bt_mem_alloc((size_t)(2 * count + dim * dim), sizeof(double), &values));
    double *cos_values = values, *sin_values = cos_values + count, *quarter = sin_values + count;
    const bt_shape table = BT_SHAPE(c->context, 1, dim);
    bt_status status = BT_OK;
    fill_rotation(c, dim, cos_values, sin_values, quarter);
    BT_TRY_GOTO(make_constant(params, table, "rope.cos", cos_values, &model->cos), done);
    BT_TRY_GOTO(make_constant(params, table, "rope.sin", sin_values, &model->sin), done);
    BT_TRY_GOTO(make_constant(params, BT_SHAPE(dim, dim), "rope.quarter", quarter, &model->quarter),
                done);
done:
    bt_mem_free(values);
    return status;
}

bt_status bt_llama_init(bt_params *params, const bt_llama_config *config, bt_llama *model)
{
    const bt_shape table = BT_SHAPE(config->vocab, config->width);
    void *blocks = NULL;
    *model = (bt_llama){.config = *config};
    BT_TRY(check(config));
    BT_TRY(bt_mem_alloc((size_t)config->layers, sizeof *model->blocks, &blocks));
    model->blocks = blocks;
    bt_status status = BT_OK;
    BT_TRY_GOTO(add(params, -1, "model.embed_tokens.weight", table, 0, 0.02, &model->embedding),
                fail);
    for (int64_t i = 0; i < config->layers; ++i) {
        BT_TRY_GOTO(add_block(params, config, i, &model->blocks[i]), fail);
    }
    BT_TRY_GOTO(add(params, -1, "model.norm.weight", BT_SHAPE(config->width), 1, 0, &model->norm),
                fail);
    BT_TRY_GOTO(add(params, -1, "lm_head.weight", table, 0, 0.02, &model->head), fail);
    BT_TRY_GOTO(make_rotation(params, model), fail);
    return BT_OK;
fail:
    bt_llama_release(model);
    return status;
}

void bt_llama_release(bt_llama *model)
{
    BT_MEM_FREE(model->blocks);
    BT_TENSOR_RELEASE(model->cos);
    BT_TENSOR_RELEASE(model->sin);
    BT_TENSOR_RELEASE(model->quarter);
}

// ---- forward ------------------------------------------------------------------------------------

static bt_tensor *linear(bt_expression *e, bt_tensor *x, bt_tensor *w, bt_tensor *residual)
{
    bt_tensor *y = NULL;
    if (e->status) {
        return NULL;
    }
    const bt_status status = bt_linear(e->context, x, w, NULL, residual, BT_ACTIVATION_NONE, &y);
    return bt_expression_take(e, status, y);
}

// x / sqrt(mean(x^2) + epsilon) weight, over the last axis.
static bt_tensor *rms_norm(bt_expression *e, const bt_llama *model, bt_tensor *x, bt_tensor *weight)
{
    const double epsilon = model->config.epsilon > 0 ? model->config.epsilon : 1e-5;
    if (e->status || !x) {
        return NULL;
    }
    const bt_dtype dtype = x->dtype;
    bt_tensor *wide = bt_expression_cast(e, x, weight->dtype);
    bt_tensor *square = bt_expression_unary(e, BT_UNARY_SQUARE, 0, wide);
    bt_tensor *mean = bt_expression_mean_last(e, square);
    bt_tensor *shifted = bt_expression_unary(e, BT_UNARY_SHIFT, epsilon, mean);
    bt_tensor *root = bt_expression_unary(e, BT_UNARY_SQRT, 0, shifted);
    bt_tensor *normal = bt_expression_binary(e, BT_BINARY_DIV, wide, root);
    return bt_expression_cast(e, bt_expression_binary(e, BT_BINARY_MUL, normal, weight), dtype);
}

// The rows of a table for the positions of a sequence, [T, 1, D].
static bt_tensor *positions(bt_expression *e, bt_tensor *table, int64_t tokens)
{
    bt_tensor *rows = NULL;
    if (e->status) {
        return NULL;
    }
    const bt_status status = bt_narrow(e->context, table, 0, 0, tokens, &rows);
    return bt_expression_take(e, status, rows);
}

// Rotates the pairs of each head by their position. x [B, T, heads D]
static bt_tensor *rotate(bt_expression *e, const bt_llama *model, bt_tensor *x, int64_t heads)
{
    if (e->status || !x) {
        return NULL;
    }
    const int64_t batch = x->shape.size[0], tokens = x->shape.size[1];
    const int64_t dim = model->config.width / model->config.heads;
    bt_tensor *split = bt_expression_reshape(e, x, BT_SHAPE(batch, tokens, heads, dim));
    bt_tensor *turned = linear(e, split, model->quarter, NULL);
    bt_tensor *along =
        bt_expression_binary(e, BT_BINARY_MUL, split, positions(e, model->cos, tokens));
    bt_tensor *across =
        bt_expression_binary(e, BT_BINARY_MUL, turned, positions(e, model->sin, tokens));
    return bt_expression_reshape(e, bt_expression_binary(e, BT_BINARY_ADD, along, across),
                                 BT_SHAPE(batch, tokens, heads * dim));
}

static bt_tensor *attention(bt_expression *e, const bt_llama *model, const bt_llama_block *block,
                            bt_tensor *x)
{
    const bt_llama_config *c = &model->config;
    const bt_attention_options options = {
        .heads = c->heads, .kv_heads = c->kv_heads, .causal = true};
    bt_tensor *normed = rms_norm(e, model, x, block->attention_norm), *y = NULL;
    bt_tensor *q = rotate(e, model, linear(e, normed, block->q, NULL), c->heads);
    bt_tensor *k = rotate(e, model, linear(e, normed, block->k, NULL), c->kv_heads);
    bt_tensor *v = linear(e, normed, block->v, NULL);
    if (e->status) {
        return NULL;
    }
    const bt_status status = bt_attend(e->context, q, k, v, NULL, &options, &y);
    return linear(e, bt_expression_take(e, status, y), block->o, x);
}

static bt_tensor *gated_mlp(bt_expression *e, const bt_llama *model, const bt_llama_block *block,
                            bt_tensor *x)
{
    bt_tensor *normed = rms_norm(e, model, x, block->mlp_norm);
    bt_tensor *gate =
        bt_expression_unary(e, BT_UNARY_SILU, 0, linear(e, normed, block->gate, NULL));
    bt_tensor *up = linear(e, normed, block->up, NULL);
    return linear(e, bt_expression_binary(e, BT_BINARY_MUL, gate, up), block->down, x);
}

// Replaces *x by the output of one part of the model.
static bt_status pass(bt_context *context, const bt_llama *model, const bt_llama_block *block,
                      bt_tensor *(*part)(bt_expression *, const bt_llama *, const bt_llama_block *,
                                         bt_tensor *),
                      bt_tensor **x)
{
    bt_expression e = {.context = context};
    bt_tensor *y = part(&e, model, block, *x);
    bt_tensor *kept = e.status ? NULL : bt_tensor_retain(y);
    bt_status status = bt_expression_finish(&e);
    bt_tensor_release(*x);
    *x = kept;
    return status;
}

static bt_tensor *last_norm(bt_expression *e, const bt_llama *model, const bt_llama_block *block,
                            bt_tensor *x)
{
    (void)block;
    return rms_norm(e, model, x, model->norm);
}

static bt_status check_ids(const bt_llama *model, const bt_tensor *ids)
{
    char text[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_tensor_expect(ids, BT_I32, "ids"));
    if (ids->shape.rank != 2 || ids->shape.size[1] > model->config.context) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "ids of shape %s; expected [batch, tokens] with at most %lld tokens",
                        bt_shape_text(&ids->shape, text), (long long)model->config.context);
    }
    return BT_OK;
}

// The last layer's input, [B, T, width].
static bt_status features(bt_context *context, const bt_llama *model, bt_tensor *ids, bt_tensor **x)
{
    *x = NULL;
    BT_TRY(check_ids(model, ids));
    bt_range_push(context, "embedding");
    bt_status status = bt_embedding(context, ids, model->embedding, NULL, x, NULL);
    bt_range_pop(context);
    for (int64_t i = 0; i < model->config.layers && status == BT_OK; ++i) {
        const bt_llama_block *block = &model->blocks[i];
        bt_range_push(context, "block");
        status = pass(context, model, block, attention, x);
        status = status ? status : pass(context, model, block, gated_mlp, x);
        bt_range_pop(context);
    }
    status = status ? status : pass(context, model, NULL, last_norm, x);
    if (status) {
        BT_TENSOR_RELEASE(*x);
    }
    return status;
}

bt_status bt_llama_forward(bt_context *context, const bt_llama *model, bt_tensor *ids,
                           bt_tensor **logits)
{
    bt_tensor *x = NULL, *rows = NULL;
    *logits = NULL;
    BT_TRY(features(context, model, ids, &x));
    bt_status status =
        bt_reshape(context, x, BT_SHAPE(bt_tensor_count(ids), model->config.width), &rows);
    bt_range_push(context, "head");
    if (status == BT_OK) {
        status = bt_linear(context, rows, model->head, NULL, NULL, BT_ACTIVATION_NONE, logits);
    }
    bt_range_pop(context);
    bt_tensor_release(rows);
    bt_tensor_release(x);
    return status;
}

bt_status bt_llama_loss(bt_context *context, const bt_llama *model, bt_tensor *ids,
                        bt_tensor *targets, bt_tensor **loss)
{
    bt_tensor *x = NULL;
    *loss = NULL;
    BT_TRY(features(context, model, ids, &x));
    bt_range_push(context, "head");
    bt_status status =
        bt_linear_cross_entropy(context, x, model->head, targets, -100, 0, loss, NULL);
    bt_range_pop(context);
    bt_tensor_release(x);
    return status;
}

static bt_status logits_of(bt_context *context, const void *self, bt_tensor *ids,
                           bt_tensor **logits)
{
    return bt_llama_forward(context, self, ids, logits);
}

static bt_status loss_of(bt_context *context, const void *self, const bt_batch *batch,
                         bt_tensor **loss)
{
    bt_tensor *ids = NULL, *targets = NULL;
    BT_TRY(bt_batch_find(batch, "ids", &ids));
    BT_TRY(bt_batch_find(batch, "targets", &targets));
    return bt_llama_loss(context, self, ids, targets, loss);
}

bt_model bt_llama_model(const bt_llama *model, bt_params *params)
{
    return (bt_model){.family = "llama",
                      .self = model,
                      .params = params,
                      .vocab = model->config.vocab,
                      .context = model->config.context,
                      .logits = logits_of,
                      .loss = loss_of};
}
