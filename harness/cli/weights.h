// harness/cli/weights.h - opens a device, a model on it, and a tokenizer
#ifndef BT_HARNESS_CLI_WEIGHTS_H
#define BT_HARNESS_CLI_WEIGHTS_H

#include "framework/autograd/session.h"
#include "framework/data/tokenizer.h"
#include "framework/eval/pretrained.h"
#include "harness/cli/cli.h"

typedef struct bt_cli_weights {
    bt_session session;
    bt_params params;
    bt_gpt2 model;
    bt_pretrained from;
    bt_tokenizer *tokenizer; // owned
} bt_cli_weights;

// Opens a model, with parameters of type `compute`, on a device; no tokenizer. --heads is read.
// Owns    *out, which must not be moved: the caller, bt_cli_weights_release, also when this fails
// Errors  INVALID_ARGUMENT, UNAVAILABLE (device), bt_pretrained_find's
BT_CHECKED bt_status bt_cli_model_open(const bt_cli_arguments *arguments, const char *path,
                                       const char *backend, int ordinal, bt_dtype compute,
                                       bt_cli_weights *out);
// Errors  INVALID_ARGUMENT: --from, the model, is missing
BT_CHECKED bt_status bt_cli_weights_check(const bt_cli_arguments *arguments);
// Opens what the options name, and describes it on standard error unless --quiet.
// Owns    as above
// Errors  INVALID_ARGUMENT (options), UNAVAILABLE (device, tokenizer), bt_pretrained_find's
BT_CHECKED bt_status bt_cli_weights_open(const bt_cli_arguments *arguments, bt_cli_weights *out);
void bt_cli_weights_release(bt_cli_weights *weights);

#endif
