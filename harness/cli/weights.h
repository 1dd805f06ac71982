// harness/cli/weights.h - for sample and hellaswag: opens a device, a model on it, a tokenizer
#ifndef BT_HARNESS_CLI_WEIGHTS_H
#define BT_HARNESS_CLI_WEIGHTS_H

#include "framework/autograd/session.h"
#include "framework/data/tokenizer.h"
#include "framework/eval/pretrained.h"
#include "harness/cli/cli.h"

#define BT_CLI_WEIGHTS_OPTIONS                                                                     \
    {"from", 0, "PATH",                                                                            \
     "the model: a checkpoint, a folder of checkpoints, or GPT-2 as model.safetensors"},           \
        {"heads", 0, "N", "attention heads, if the model does not store their number"},            \
        {"device", 0, "NAME", "cpu, cuda or cuda:N (default: cuda if available)"},                 \
        {"precision", 0, "MODE", "fp32, tf32 or bf16 (default: fp32)"},                            \
    {                                                                                              \
        "ranks", 0, "FILE", "another tokenizer's rank file (default: GPT-2's)"                     \
    }

typedef struct bt_cli_weights {
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_pretrained from;
    bt_tokenizer *tokenizer; // owned
} bt_cli_weights;

// Opens what the options name, and describes it on standard error unless --quiet.
// Owns    *out, which must not be moved: the caller, bt_cli_weights_close, also when this fails
// Errors  INVALID_ARGUMENT (options), UNAVAILABLE (device, tokenizer), bt_pretrained_find's
BT_CHECKED bt_status bt_cli_weights_open(const bt_cli_arguments *arguments, bt_cli_weights *out);
void bt_cli_weights_close(bt_cli_weights *weights);

#endif
