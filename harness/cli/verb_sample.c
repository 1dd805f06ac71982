// harness/cli/verb_sample.c - sample: text from a model
#include <float.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "framework/eval/generate.h"
#include "harness/cli/weights.h"

static bt_status read_options(const bt_cli_arguments *arguments, bt_generate_options *out)
{
    int64_t seed = 0;
    *out = (bt_generate_options){0};
    BT_FAIL_IF(bt_cli_value(arguments, "greedy") &&
                   (bt_cli_value(arguments, "temperature") || bt_cli_value(arguments, "top-k")),
               BT_STATUS_INVALID_ARGUMENT,
               "--greedy does not sample: it cannot be combined with --temperature or --top-k");
    BT_TRY(bt_cli_number(arguments, "tokens", 1, 1000000, 100, &out->tokens));
    BT_TRY(bt_cli_number(arguments, "top-k", 0, 65536, 50, &out->top_k));
    BT_TRY(bt_cli_number(arguments, "seed", 0, INT64_MAX, 0, &seed));
    BT_TRY(bt_cli_real(arguments, "temperature", DBL_TRUE_MIN, 1000, 1,
                       "a number above 0, at most 1000; for the most likely token use --greedy",
                       &out->temperature));
    out->temperature = bt_cli_value(arguments, "greedy") ? 0 : out->temperature;
    out->seed = (uint64_t)seed;
    return BT_OK;
}

typedef struct printer {
    const bt_tokenizer *tokenizer; // borrowed
    const char *prompt;            // borrowed; NULL once it is printed
} printer;

// Prints a token's bytes as soon as they are known; a character may consist of several tokens. The
// prompt is printed before the first.
static bt_status print_token(void *self, uint16_t id)
{
    printer *to = self;
    BT_SCOPED(bt_str) text = {0};
    bt_str_append(&text, to->prompt ? to->prompt : "");
    to->prompt = NULL;
    BT_TRY(bt_tokenizer_decode(to->tokenizer, &id, 1, &text));
    BT_FAIL_IF((fwrite(bt_str_text(&text), 1, text.length_bytes, stdout) != text.length_bytes ||
                fflush(stdout) != 0),
               BT_STATUS_IO, "cannot write to standard output");
    return BT_OK;
}

static bt_status encode_prompt(const bt_tokenizer *tokenizer, const char *prompt, bt_tokens *tokens)
{
    bt_encoder *encoder = NULL;
    BT_TRY(bt_encoder_create(tokenizer, &encoder));
    bt_status status = bt_encoder_encode(encoder, prompt, strlen(prompt), tokens);
    bt_encoder_destroy(encoder);
    const bool no_text = status == BT_STATUS_CORRUPT_DATA; // an argument, not a file
    return bt_error_context(no_text ? BT_STATUS_INVALID_ARGUMENT : status, "--prompt");
}

bt_status bt_verb_sample(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    const char *given = bt_cli_value(arguments, "prompt");
    const char *prompt = given ? given : "";
    bt_generate_options options;
    BT_SCOPED(bt_cli_weights) weights = {0};
    BT_SCOPED(bt_tokens) tokens = {0};
    BT_TRY(read_options(arguments, &options));
    BT_TRY(bt_cli_weights_open(arguments, &weights));
    options.vocab = bt_tokenizer_vocab(weights.tokenizer);
    options.before = bt_tokenizer_end_of_text(weights.tokenizer);
    options.end = options.before;
    BT_TRY(encode_prompt(weights.tokenizer, prompt, &tokens));
    printer to = {weights.tokenizer, prompt};
    BT_TRY(bt_generate(&weights.session.context, &weights.model, &options, tokens.ids, tokens.count,
                       (bt_generate_listener){&to, print_token}));
    printf("%s\n", to.prompt ? to.prompt : ""); // the model may have ended the text at once
    return BT_OK;
}
