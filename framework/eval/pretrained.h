// framework/eval/pretrained.h - loads a model from a checkpoint or from GPT-2 weights in the layout
// of transformers
//
// A path names one of
//   step-00000100        a checkpoint
//   runs/7/checkpoints   a store: its newest checkpoint that verifies
//   gpt2                 a folder with model.safetensors and config.json
//   model.safetensors    such a file; config.json is expected in the same folder
// The shapes of tensors give layers, width, vocabulary and context. The number of heads comes from
// the checkpoint's values or config.json, or from the caller if neither has it.
#ifndef BT_EVAL_PRETRAINED_H
#define BT_EVAL_PRETRAINED_H

#include "framework/checkpoint/checkpoint.h"
#include "framework/nn/gpt2.h"

typedef struct bt_pretrained {
    bt_gpt2_config model;
    char path[BT_PATH_CAPACITY];  // of the checkpoint's folder, or of the file
    char store[BT_PATH_CAPACITY]; // the checkpoint's; "" for a file
    bt_checkpoint_info info;      // of the checkpoint; its step is -1 for a file
} bt_pretrained;

// Finds the model and reads its shape. heads 0: as the model specifies.
// Errors  IO (not found), CORRUPT_DATA, UNSUPPORTED, INVALID_ARGUMENT (not GPT-2, heads unknown or
//         different), OUT_OF_MEMORY
BT_CHECKED bt_status bt_pretrained_find(const char *path, int64_t heads, bt_pretrained *out);
// Splits a checkpoint's path into out->path, out->store and its step. Reads nothing.
// Errors  IO (not found), INVALID_ARGUMENT (not a checkpoint's name)
BT_CHECKED bt_status bt_pretrained_step(const char *path, bt_pretrained *out, int64_t *step);
// Loads the parameters of a bt_gpt2 of that shape, and their bf16 copies.
// Errors  as bt_checkpoint_load and bt_hugging_face_gpt2_import
BT_CHECKED bt_status bt_pretrained_load(bt_context *context, const bt_pretrained *pretrained,
                                        bt_params *params);
// Creates the parameters (masters f32) and the model, and loads them.
// Owns    *params and *model: the caller (bt_gpt2_release, then bt_params_release), also when this
//         fails
BT_CHECKED bt_status bt_pretrained_open(bt_context *context, const bt_pretrained *pretrained,
                                        bt_dtype compute, bt_params *params, bt_gpt2 *model);

// A list of the parameters' masters by name, as in checkpoints.
// Owns    *state: the caller, until bt_state_release, also when this fails
BT_CHECKED bt_status bt_pretrained_state(const bt_params *params, bt_state *state);

#endif
