// framework/nn/model.h - what training and the compiler know of a model: parameters and a loss
//
// A batch is tensors with names; a model takes those that it knows: language models "ids" and
// "targets", [B, T] i32 both.
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

typedef struct bt_model {
    const char *family; // "gpt2", "llama"
    const void *self;   // borrowed: the family's struct, which outlives this one
    bt_params *params;  // borrowed, all that the loss depends on
    // The scalar that is made smaller. Errors  INVALID_ARGUMENT (a tensor is missing, a shape)
    bt_status (*loss)(bt_context *context, const void *self, const bt_batch *batch,
                      bt_tensor **loss);
} bt_model;

// The tensor of a name. Errors  INVALID_ARGUMENT: the batch has none, with the names that it has
BT_CHECKED bt_status bt_batch_find(const bt_batch *batch, const char *name, bt_tensor **tensor);
BT_CHECKED bt_status bt_model_loss(bt_context *context, const bt_model *model,
                                   const bt_batch *batch, bt_tensor **loss);

#endif
