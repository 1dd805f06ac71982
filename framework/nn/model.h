// framework/nn/model.h - the interface of models to training and the compiler: parameters and a
// loss
//
// A family of models is a row in model.c: its name, and the function that creates one from a
// configuration.
//
// A batch is a set of named tensors; a model uses those that it knows: language models use "ids"
// and "targets", both [B, T] i32, and with shared sequences "positions", [1, T] i32.
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
                                         // (context_parallel.h); NULL: none
    struct bt_group *tensor; // borrowed: ranks that share the model (gpt2.h); NULL: one rank has
                             // all
    bool sequence_parallel;  // sequence parallel: between the products each of these has part of
                             // the rows
    struct bt_aside
        *aside; // borrowed: overlap their sums with products of half-batches (gpt2.h), or NULL
    struct bt_row_chunks *chunks; // borrowed: overlap the exchange of rows with products (gpt2.h),
                                  // or NULL
} bt_model_config;

typedef struct bt_model {
    const char *family;     // "gpt2", "llama"
    const void *self;       // borrowed: the family's struct, which outlives this one
    void *owned;            // the same if bt_model_open created it, else NULL
    bt_params *params;      // borrowed: all that the loss depends on
    int64_t vocab, context; // as in the configuration
    bt_tensor *tied;        // borrowed: the leaf that embeds "ids" and is also read by the head,
                            // whose gradient comes first; NULL: none
    // The logits of the next tokens, [B * T, vocab]. Shapes  ids [B, T <= context] i32
    bt_status (*logits)(bt_context *context, const void *self, bt_tensor *ids, bt_tensor **logits);
    // The scalar to be minimized. Errors  INVALID_ARGUMENT (a tensor is missing, a shape)
    bt_status (*loss)(bt_context *context, const void *self, const bt_batch *batch,
                      bt_tensor **loss);
} bt_model;

// Creates a model from the configuration and adds its parameters to the list. Recomputation: as in
// bt_gpt2.
// Owns    the caller, bt_model_close, which does not release the parameters
// Errors  INVALID_ARGUMENT (an unknown family, a size, a recompute mode that the family lacks; as
//         bt_model_check), OUT_OF_MEMORY
BT_CHECKED bt_status bt_model_open(bt_params *params, const bt_model_config *config,
                                   bt_recompute_mode recompute, int64_t recompute_blocks,
                                   bt_model *out);
// Safe on a zeroed model.
void bt_model_close(bt_model *model);
// Whether a family of this name exists; NULL: gpt2.
bool bt_model_family_known(const char *name);
// Whether a model can be trained in this way: its matrices and sequences split over so many ranks,
// recomputing activations. bt_model_open checks it, too.
// Errors  INVALID_ARGUMENT naming the key of a suite and what is allowed, or an unknown family
BT_CHECKED bt_status bt_model_check(const bt_model_config *config, int tensor, int context,
                                    bt_recompute_mode recompute);

// The tensor of that name. Errors  INVALID_ARGUMENT: there is none; the message lists the names
BT_CHECKED bt_status bt_batch_find(const bt_batch *batch, const char *name, bt_tensor **tensor);
BT_CHECKED bt_status bt_model_loss(bt_context *context, const bt_model *model,
                                   const bt_batch *batch, bt_tensor **loss);

#endif
