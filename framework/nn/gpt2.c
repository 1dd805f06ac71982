// framework/nn/gpt2.c - GPT-2 built from layers.h
#include "framework/nn/gpt2.h"

#include <math.h>
#include <stdio.h>

#include "framework/base/mem.h"
#include "framework/dist/group.h"
#include "framework/nn/half_batches.h"
#include "framework/nn/tensor_parallel.h"
#include "framework/ops/shard.h"

bt_status bt_gpt2_check_ranks(int64_t heads, int64_t vocab, int ranks)
{
    int64_t first = 0;
    if (ranks == 1) {
        return BT_OK;
    }
    BT_TRY(bt_nn_check_heads(heads, ranks));
    if (bt_shard_rows(vocab, ranks, ranks - 1, &first) == 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh.tensor is %d, and train.model.vocab is %lld: with parts of "
                        "equal size the last rank would have no part",
                        ranks, (long long)vocab);
    }
    return BT_OK;
}

static bt_status check(const bt_gpt2_config *config)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"layers", config->layers},
                 {"heads", config->heads},
                 {"width", config->width},
                 {"vocab", config->vocab},
                 {"context", config->context}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        if (sizes[i].value < 1) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "model.%s is %lld, allowed from 1",
                            sizes[i].name, (long long)sizes[i].value);
        }
    }
    if (config->width % config->heads != 0) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "model.width %lld is not divisible by model.heads %lld",
                        (long long)config->width, (long long)config->heads);
    }
    return config->tensor ? bt_gpt2_check_ranks(config->heads, config->vocab, config->tensor->size)
                          : BT_OK;
}

// The rank's rows of the token embedding.
static bt_status add_tokens(bt_params *params, const bt_gpt2_config *config, double deviation,
                            bt_tensor **wte)
{
    const bt_group *group = config->tensor;
    bt_param_part rows = {.repeats = 1};
    if (group) {
        rows.count = bt_shard_rows(config->vocab, group->size, group->rank, &rows.first);
    }
    return bt_params_add_part(params, "wte.weight", BT_PARAM_COMPUTE,
                              BT_SHAPE(config->vocab, config->width), group ? &rows : NULL, 0,
                              deviation, wte);
}

// If ranks sum an embedding, the first one adds the positions.
static bt_status add_positions(bt_params *params, const bt_gpt2_config *config, double deviation,
                               bt_tensor **wpe)
{
    const bt_group *group = config->tensor;
    const bt_param_part rows = {.repeats = 1,
                                .count = group && group->rank > 0 ? 0 : config->context};
    return bt_params_add_part(params, "wpe.weight", BT_PARAM_COMPUTE,
                              BT_SHAPE(config->context, config->width), group ? &rows : NULL, 0,
                              deviation, wpe);
}

static bt_nn_tensor_ranks ranks_of(const bt_gpt2_config *config)
{
    return (bt_nn_tensor_ranks){config->tensor, config->sequence_parallel, config->aside,
                                config->chunks};
}

bt_status bt_gpt2_init(bt_params *params, const bt_gpt2_config *config, bt_gpt2 *model)
{
    const bt_nn_tensor_ranks ranks = ranks_of(config);
    const double deviation = 0.02;
    *model = (bt_gpt2){.config = *config};
    BT_TRY(check(config));
    void *blocks = NULL;
    BT_TRY(bt_mem_alloc((size_t)config->layers, sizeof *model->blocks, &blocks));
    model->blocks = blocks;
    bt_status status = BT_OK;
    BT_TRY_GOTO(add_tokens(params, config, deviation, &model->wte), fail);
    BT_TRY_GOTO(add_positions(params, config, deviation, &model->wpe), fail);
    for (int64_t i = 0; i < config->layers; ++i) {
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "h.%lld", (long long)i);
        BT_TRY_GOTO(bt_nn_block_init(params, prefix, config->width, config->heads, &ranks,
                                     deviation, deviation / sqrt(2.0 * (double)config->layers),
                                     &model->blocks[i]),
                    fail);
    }
    BT_TRY_GOTO(bt_nn_layernorm_init(params, "ln_f", config->width, &model->ln_f), fail);
    return BT_OK;
fail:
    bt_gpt2_release(model);
    return status;
}

void bt_gpt2_release(bt_gpt2 *model) { BT_MEM_FREE(model->blocks); }

static bool is_shared(const bt_gpt2 *model)
{
    return bt_nn_context_size(model->config.sharing) > 1;
}

static bt_status check_ids(const bt_gpt2 *model, const bt_tensor *ids)
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

// Replaces *x by `next` and releases the old tensor.
static void advance(bt_tensor **x, bt_tensor *next)
{
    bt_tensor_release(*x);
    *x = next;
}

// Sets what a block keeps for the backward; returns the previous mode.
static bt_recompute_mode keep_of(bt_context *context, const bt_gpt2 *model, int64_t i)
{
    const bt_recompute_mode around = context->recompute, mode = model->recompute;
    const bool cheaper =
        mode > BT_RECOMPUTE_NONE && model->recompute_blocks > 0 && i >= model->recompute_blocks;
    context->recompute = cheaper ? (bt_recompute_mode)(mode - 1) : mode;
    return around;
}

static bt_status run_block(bt_context *context, const bt_gpt2 *model, int64_t i, int64_t tokens,
                           bt_tensor *x, bt_tensor **y)
{
    const bt_nn_block *block = &model->blocks[i];
    const bt_recompute_mode around = keep_of(context, model, i);
    bt_status status = is_shared(model)
                           ? bt_nn_block_forward_with(context, block, bt_nn_context_attention,
                                                      model->config.sharing, tokens, x, y)
                           : bt_nn_block_forward(context, block, tokens, x, y);
    context->recompute = around;
    return status;
}

// *x + the position rows 0, 1, ..., or those given.
static bt_status place(bt_context *context, const bt_gpt2 *model, bt_tensor *positions,
                       bt_tensor **x)
{
    bt_tensor *rows = NULL, *sum = NULL;
    BT_TRY(positions ? bt_embedding(context, positions, model->wpe, NULL, &rows, NULL)
                     : bt_narrow(context, model->wpe, 0, 0, (*x)->shape.size[1], &rows));
    bt_status status = bt_add(context, *x, rows, &sum);
    bt_tensor_release(rows);
    BT_TRY(status);
    advance(x, sum);
    return BT_OK;
}

// Embeds tokens at their positions in the sequence, or at those given.
static bt_status embed(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                       bt_tensor *positions, bt_tensor **x)
{
    const bt_nn_tensor_ranks ranks = ranks_of(&model->config);
    bt_tensor *token = NULL;
    if (!ranks.group && !positions) {
        return bt_embedding(context, ids, model->wte, model->wpe, x, NULL);
    }
    BT_TRY(bt_embedding_shard(context, ranks.group, ids, model->wte, model->config.vocab, &token));
    bt_status status = model->wpe ? place(context, model, positions, &token) : BT_OK;
    if (status == BT_OK && ranks.group) {
        return bt_nn_leave(context, &ranks, &token, NULL, x);
    }
    *x = token;
    return status;
}

static bt_status body(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                      bt_tensor *positions, bt_tensor **x)
{
    bt_tensor *next = NULL;
    bt_range_push(context, "embedding");
    bt_status status = embed(context, model, ids, positions, x);
    bt_range_pop(context);
    for (int64_t i = 0; i < model->config.layers && status == BT_OK; ++i) {
        bt_range_push(context, "block");
        status = run_block(context, model, i, ids->shape.size[1], *x, &next);
        bt_range_pop(context);
        advance(x, next);
    }
    return status;
}

// Turns *x of the last block into the head's input, [rows, width].
static bt_status finish(bt_context *context, const bt_gpt2 *model, bt_tensor **x)
{
    const int64_t width = model->config.width, rows = bt_tensor_count(*x) / width;
    bt_tensor *next = NULL;
    BT_TRY(bt_nn_layernorm_forward(context, &model->ln_f, *x, &next));
    advance(x, next);
    BT_TRY(bt_reshape(context, *x, BT_SHAPE(rows, width), &next));
    advance(x, next);
    return BT_OK;
}

// The last layer's input, [rows, width]; with sequence_parallel this rank's rows.
static bt_status features(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                          bt_tensor *positions, bt_tensor **out)
{
    bt_tensor *x = NULL;
    *out = NULL;
    BT_TRY(check_ids(model, ids));
    bt_status status = body(context, model, ids, positions, &x);
    status = status ? status : finish(context, model, &x);
    if (status != BT_OK) {
        BT_TENSOR_RELEASE(x);
    }
    *out = x;
    return status;
}

bt_status bt_gpt2_forward(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                          bt_tensor **logits)
{
    bt_tensor *x = NULL;
    *logits = NULL;
    if (is_shared(model)) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "logits are not available if %d ranks split the sequences",
                        bt_nn_context_size(model->config.sharing));
    }
    if (model->config.tensor) {
        return bt_error(BT_STATUS_UNSUPPORTED,
                        "logits are not available if %d ranks split the vocabulary",
                        model->config.tensor->size);
    }
    BT_TRY(features(context, model, ids, NULL, &x));
    bt_range_push(context, "head");
    bt_status status = bt_linear(context, x, model->wte, NULL, NULL, BT_ACTIVATION_NONE, logits);
    bt_range_pop(context);
    bt_tensor_release(x);
    return status;
}

// The loss of a vocabulary-parallel head.
static bt_status shard_loss(bt_context *context, const bt_gpt2 *model, bt_tensor **x,
                            bt_tensor *targets, bt_tensor **loss)
{
    bt_group *group = model->config.tensor;
    bt_tensor *logits = NULL;
    const bt_nn_tensor_ranks ranks = ranks_of(&model->config);
    const bt_nn_linear head = {.weight = model->wte};
    BT_TRY(bt_nn_column_forward(context, &ranks, &head, x, &logits));
    bt_status status = bt_cross_entropy_shard(context, group, logits, model->config.vocab, targets,
                                              -100, true, loss);
    bt_tensor_release(logits);
    return status;
}

static bt_status run_halves(bt_context *context, const bt_gpt2 *model, int64_t i, bt_tensor **x)
{
    bt_tensor *next[BT_NN_HALVES] = {NULL};
    const bt_recompute_mode around = keep_of(context, model, i);
    bt_status status = bt_nn_block_forward_halves(context, &model->blocks[i],
                                                  is_shared(model) ? bt_nn_context_attention : NULL,
                                                  model->config.sharing, x, next);
    context->recompute = around;
    advance(&x[0], next[0]);
    advance(&x[1], next[1]);
    return status;
}

// Mean of the losses of two halves of the sequences, which the blocks process alternately.
static bt_status loss_of_halves(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                                bt_tensor *positions, bt_tensor *targets, bt_tensor **loss)
{
    bt_tensor *id[BT_NN_HALVES] = {NULL}, *target[BT_NN_HALVES] = {NULL}, *x[BT_NN_HALVES] = {NULL};
    bt_tensor *part[BT_NN_HALVES] = {NULL};
    bt_status status = BT_OK;
    BT_TRY_GOTO(check_ids(model, ids), done);
    BT_TRY_GOTO(bt_nn_halves(ids, id), done);
    BT_TRY_GOTO(bt_nn_halves(targets, target), done);
    bt_range_push(context, "embedding");
    for (int half = 0; half < BT_NN_HALVES && status == BT_OK; ++half) {
        status = embed(context, model, id[half], positions, &x[half]);
    }
    bt_range_pop(context);
    for (int64_t i = 0; i < model->config.layers && status == BT_OK; ++i) {
        bt_range_push(context, "block");
        status = run_halves(context, model, i, x);
        bt_range_pop(context);
    }
    for (int half = 0; half < BT_NN_HALVES && status == BT_OK; ++half) {
        status = finish(context, model, &x[half]);
        bt_range_push(context, "head");
        status = status ? status : shard_loss(context, model, &x[half], target[half], &part[half]);
        bt_range_pop(context);
    }
    status = status ? status : bt_nn_mean_of_halves(context, part, loss);
done:
    for (int half = 0; half < BT_NN_HALVES; ++half) {
        bt_tensor_release(id[half]);
        bt_tensor_release(target[half]);
        bt_tensor_release(x[half]);
        bt_tensor_release(part[half]);
    }
    return status;
}

// positions NULL: 0, 1, ...
static bt_status loss_at(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                         bt_tensor *positions, bt_tensor *targets, bt_tensor **loss)
{
    bt_tensor *x = NULL;
    *loss = NULL;
    if (model->config.aside && ids->shape.size[0] % BT_NN_HALVES == 0) {
        return loss_of_halves(context, model, ids, positions, targets, loss);
    }
    BT_TRY(features(context, model, ids, positions, &x));
    bt_range_push(context, "head");
    bt_status status = model->config.tensor ? shard_loss(context, model, &x, targets, loss)
                                            : bt_linear_cross_entropy(context, x, model->wte,
                                                                      targets, -100, 0, loss, NULL);
    bt_range_pop(context);
    bt_tensor_release(x);
    return status;
}

bt_status bt_gpt2_loss(bt_context *context, const bt_gpt2 *model, bt_tensor *ids,
                       bt_tensor *targets, bt_tensor **loss)
{
    *loss = NULL;
    return is_shared(model) ? bt_error(BT_STATUS_UNSUPPORTED,
                                       "the loss of sequences that %d ranks split needs positions",
                                       bt_nn_context_size(model->config.sharing))
                            : loss_at(context, model, ids, NULL, targets, loss);
}

static bt_status loss_of(bt_context *context, const void *self, const bt_batch *batch,
                         bt_tensor **loss)
{
    const bt_gpt2 *model = self;
    bt_tensor *ids = NULL, *positions = NULL, *targets = NULL;
    BT_TRY(bt_batch_find(batch, "ids", &ids));
    BT_TRY(bt_batch_find(batch, "targets", &targets));
    BT_TRY(is_shared(model) ? bt_batch_find(batch, "positions", &positions) : BT_OK);
    return loss_at(context, model, ids, positions, targets, loss);
}

static bt_status logits_of(bt_context *context, const void *self, bt_tensor *ids,
                           bt_tensor **logits)
{
    return bt_gpt2_forward(context, self, ids, logits);
}

bt_model bt_gpt2_model(const bt_gpt2 *model, bt_params *params)
{
    return (bt_model){.family = "gpt2",
                      .self = model,
                      .params = params,
                      .vocab = model->config.vocab,
                      .context = model->config.context,
                      // not a table of embedding rows
                      .tied = model->config.tensor ? NULL : model->wte,
                      .logits = logits_of,
                      .loss = loss_of};
}
