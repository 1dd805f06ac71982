// framework/nn/model.c - families of models
#include "framework/nn/model.h"

#include <string.h>

#include "framework/base/mem.h"
#include "framework/dist/group.h"
#include "framework/nn/gpt2.h"
#include "framework/nn/llama.h"

typedef struct keeping {
    bt_recompute_mode mode;
    int64_t blocks;
} keeping;

// Any number of ranks can share sequences, if it divides their length.
static bt_status check_gpt2(const bt_model_config *c, int tensor, int context,
                            bt_recompute_mode recompute)
{
    (void)context, (void)recompute;
    return bt_gpt2_check_ranks(c->heads, c->vocab, tensor);
}

static bt_status open_gpt2(bt_params *params, const bt_model_config *c, keeping keeps, void *self,
                           bt_model *out)
{
    const bt_gpt2_config config = {.layers = c->layers,
                                   .heads = c->heads,
                                   .width = c->width,
                                   .vocab = c->vocab,
                                   .context = c->context,
                                   .sharing = c->sharing,
                                   .tensor = c->tensor,
                                   .sequence_parallel = c->sequence_parallel,
                                   .aside = c->aside,
                                   .chunks = c->chunks};
    bt_gpt2 *model = self;
    BT_TRY(bt_gpt2_init(params, &config, model));
    model->recompute = keeps.mode;
    model->recompute_blocks = keeps.blocks;
    *out = bt_gpt2_model(model, params);
    return BT_OK;
}

static void close_gpt2(void *self) { bt_gpt2_release(self); }

static bt_status check_llama(const bt_model_config *c, int tensor, int context,
                             bt_recompute_mode recompute)
{
    const bool splits_matrices = tensor > 1;
    (void)c;
    if (recompute != BT_RECOMPUTE_NONE) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.recompute is %s; models of family llama support only none",
                        bt_recompute_mode_name(recompute));
    }
    if (!splits_matrices && context <= 1) {
        return BT_OK;
    }
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "train.mesh.%s is %d, but %s of family llama cannot be split; allowed: 1",
                    splits_matrices ? "tensor" : "context", splits_matrices ? tensor : context,
                    splits_matrices ? "models" : "sequences");
}

static bt_status open_llama(bt_params *params, const bt_model_config *c, keeping keeps, void *self,
                            bt_model *out)
{
    (void)keeps;
    const bt_llama_config config = {.layers = c->layers,
                                    .heads = c->heads,
                                    .kv_heads = c->kv_heads ? c->kv_heads : c->heads,
                                    .width = c->width,
                                    .hidden = c->hidden,
                                    .vocab = c->vocab,
                                    .context = c->context};
    BT_TRY(bt_llama_init(params, &config, self));
    *out = bt_llama_model(self, params);
    return BT_OK;
}

static void close_llama(void *self) { bt_llama_release(self); }

static const struct family {
    const char *name;
    size_t self_bytes;
    bt_status (*check)(const bt_model_config *config, int tensor, int context,
                       bt_recompute_mode recompute);
    // The caller closes the zeroed struct also after a failure.
    bt_status (*open)(bt_params *params, const bt_model_config *config, keeping keeps, void *self,
                      bt_model *out);
    void (*close)(void *self);
} families[] = {{"gpt2", sizeof(bt_gpt2), check_gpt2, open_gpt2, close_gpt2},
                {"llama", sizeof(bt_llama), check_llama, open_llama, close_llama}};

static const struct family *find_family(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        if (!name || strcmp(families[i].name, name) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

bool bt_model_family_known(const char *name) { return find_family(name) != NULL; }

static bt_status unknown_family(const char *name)
{
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "model.family is \"%s\", allowed: gpt2, llama",
                    name);
}

bt_status bt_model_check(const bt_model_config *config, int tensor, int context,
                         bt_recompute_mode recompute)
{
    const struct family *family = find_family(config->family);
    return family ? family->check(config, tensor, context, recompute)
                  : unknown_family(config->family);
}

bt_status bt_model_open(bt_params *params, const bt_model_config *config,
                        bt_recompute_mode recompute, int64_t recompute_blocks, bt_model *out)
{
    const struct family *family = find_family(config->family);
    void *self = NULL;
    *out = (bt_model){0};
    if (!family) {
        return unknown_family(config->family);
    }
    BT_TRY(family->check(config, config->tensor ? config->tensor->size : 1,
                         bt_nn_context_size(config->sharing), recompute));
    BT_TRY(bt_mem_alloc(1, family->self_bytes, &self));
    bt_status status =
        family->open(params, config, (keeping){recompute, recompute_blocks}, self, out);
    if (status) {
        family->close(self);
        bt_mem_free(self);
        return status;
    }
    out->owned = self;
    return BT_OK;
}

void bt_model_close(bt_model *model)
{
    if (model->owned) {
        find_family(model->family)->close(model->owned);
        bt_mem_free(model->owned);
    }
    *model = (bt_model){0};
}

bt_status bt_model_loss(bt_context *context, const bt_model *model, const bt_batch *batch,
                        bt_tensor **loss)
{
    *loss = NULL;
    return bt_error_context(model->loss(context, model->self, batch, loss), "%s", model->family);
}
