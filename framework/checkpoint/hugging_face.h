// framework/checkpoint/hugging_face.h - GPT-2 weights in the layout of the Python package
// transformers
//
// Its names are ours with the prefix "transformer."; its linear weights (Conv1D) are [in, out],
// ours are [out, in]. Published files omit the prefix and contain masks that are not weights; both
// are accepted.
#ifndef BT_CHECKPOINT_HUGGING_FACE_H
#define BT_CHECKPOINT_HUGGING_FACE_H

#include "framework/base/str.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/checkpoint/state.h"

// Whether a tensor of this name ("h.0.attn.c_attn.weight") is a parameter of GPT-2, and whether it
// is transposed in their layout.
bool bt_hugging_face_gpt2_row(const char *name, bool *transposed);

// Writes the GPT-2 parameters of a state, which are f32 in our layout, to a new file, atomically;
// other tensors are omitted.
// Sync    waits for the context's stream
// Errors  INVALID_ARGUMENT (no parameter, or one that is not f32), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_hugging_face_gpt2_export(bt_context *context, const bt_file_ops *ops,
                                                 const char *path, const bt_state *state);
// Reads a file of f32 or bf16 into the state's GPT-2 parameters. The file must hold exactly those;
// masks, and an lm_head.weight of the same bytes as wte.weight, are skipped.
// Errors  CORRUPT_DATA, UNSUPPORTED (another type), INVALID_ARGUMENT (names or shapes differ; then
//         nothing was written), IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_hugging_face_gpt2_import(bt_context *context, const bt_file_ops *ops,
                                                 const char *path, bt_state *state);

// Writes the config.json of such a file.
typedef struct bt_hugging_face_gpt2_config {
    int64_t layers, heads, width, vocab, context;
} bt_hugging_face_gpt2_config;

// Derives the model's shape from its tensors (names with or without the prefix); heads become 0.
// `path` is for messages.
// Errors  INVALID_ARGUMENT: not a GPT-2, or some of its parameters are missing
BT_CHECKED bt_status bt_hugging_face_gpt2_shape(const char *path, const bt_safetensors *tensors,
                                                bt_hugging_face_gpt2_config *config);
// Reads config.json: sets the fields that are 0 and compares the others.
// Errors  UNSUPPORTED (another activation, epsilon, scale or head than ours), INVALID_ARGUMENT
//         (differs from the tensors), CORRUPT_DATA, IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_hugging_face_gpt2_config_read(const bt_file_ops *ops, const char *path,
                                                      bt_hugging_face_gpt2_config *config);
void bt_hugging_face_gpt2_config_print(const bt_hugging_face_gpt2_config *config, bt_str *json);

#endif
