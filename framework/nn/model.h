// framework/nn/model.h - what training and the compiler know of a model: parameters and a loss
//
// A family of models is a row in model.c: its name, and the function that makes one of a
// configuration.
//
// A batch is tensors with names; a model takes those that it knows: language models "ids" and
// "targets", [B, T] i32 both, and where ranks share sequences "positions", [1, T] i32.
#ifndef BT_NN_MODEL_H
#define BT_NN_MODEL_H

#include "framework/nn/param.h"

enum { BT_BATCH_TENSORS = 4 };

typedef struct bt_batch {
    int count;
    struct {
        const char *name;  // borrowed
        bt_tensor *tensor; // borrowed
    } items[BT_BATCH_TENSORS];
} bt_batch;

typedef struct bt_model_config {
    const char *family;                  // "gpt2", "llama"; NULL: gpt2
    int64_t layers, heads, width;        // width divisible by heads
    int64_t vocab, context;              // rows of the embedding, longest sequence
    int64_t kv_heads, hidden;            // of llama (llama.h), kv_heads 0: heads; 0 of others
    const struct bt_nn_context *sharing; // borrowed: ranks that share sequences
                                         // (context_parallel.h); NULL: there are none
    struct bt_group *tensor; // borrowed: ranks that share the model (gpt2.h); NULL: one has all
    bool sequence_parallel;  // which also have a part of the rows each between the products
    struct bt_aside
        *aside; // borrowed: their sums beside products of half-batches (gpt2.h), or NULL
} bt_model_config;

typedef struct bt_model {
    const char *family;     // "gpt2", "llama"
    const void *self;       // borrowed: the family's struct, which outlives this one
    void *owned;            // the same where bt_model_open made it, else NULL
    bt_params *params;      // borrowed, all that the loss depends on
    int64_t vocab, context; // as in the configuration
    bt_tensor *tied;        // borrowed: the leaf whose rows "ids" look up and that the head, whose
                            // gradient is the first one, reads too; NULL: none
    // What scores the next tokens, [B * T, vocab]. Shapes  ids [B, T <= context] i32
    bt_status (*logits)(bt_context *context, const void *self, bt_tensor *ids, bt_tensor **logits);
    // The scalar that is made smaller. Errors  INVALID_ARGUMENT (a tensor is missing, a shape)
    bt_status (*loss)(bt_context *context, const void *self, const bt_batch *batch,
                      bt_tensor **loss);
} bt_model;

// Makes a model of the configuration and adds its parameters to the list. What blocks keep for the
// backward: as in bt_gpt2.
// Owns    the caller, bt_model_close, which leaves the parameters alone
// Errors  INVALID_ARGUMENT (an unknown family, a size, a recompute mode that the family lacks),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_model_open(bt_params *params, const bt_model_config *config,
                                   bt_recompute_mode recompute, int64_t recompute_blocks,
                                   bt_model *out);
// Safe on a zeroed model.
void bt_model_close(bt_model *model);
// Whether there is a family of this name; NULL: gpt2.
bool bt_model_family_known(const char *name);

// The tensor of a name. Errors  INVALID_ARGUMENT: the batch has none, with the names that it has
BT_CHECKED bt_status bt_batch_find(const bt_batch *batch, const char *name, bt_tensor **tensor);
BT_CHECKED bt_status bt_model_loss(bt_context *context, const bt_model *model,
                                   const bt_batch *batch, bt_tensor **loss);

#endif
