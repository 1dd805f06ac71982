// framework/eval/generate.h - generates text from a model, token by token
//
// Invariants
//   1. The same build, device, weights, prompt and options give the same tokens.
//   2. The n-th random number is a function of seed and n alone.
//   3. A text may be longer than the model's context: of the prompt the last tokens are used, and
//      when the context is full, generation continues with its second half.
#ifndef BT_EVAL_GENERATE_H
#define BT_EVAL_GENERATE_H

#include "framework/nn/gpt2.h"

typedef struct bt_generate_options {
    int64_t tokens;     // maximum number of new tokens
    double temperature; // divides the logits; 0: the most probable token each time
    int64_t top_k;      // sample from this number of most probable tokens; 0: from all
    uint64_t seed;
    int64_t vocab;   // only token ids below this are sampled; 0: all of the model's
    int32_t end;     // this token ends the text and is not output; -1: none
    uint16_t before; // token that replaces an empty prompt
} bt_generate_options;

// Called for each new token. A status other than BT_OK ends generation with it.
typedef struct bt_generate_listener {
    void *self; // borrowed
    bt_status (*token)(void *self, uint16_t id);
} bt_generate_listener;

// Samples one token from `logits` [vocab]; `uniform` is in [0, 1). Equal logits: the
// lower id comes first. `order` [vocab] is scratch memory.
// Errors  INVALID_ARGUMENT if a logit is NaN or infinite
BT_CHECKED bt_status bt_generate_choose(const float *logits, int64_t vocab, double temperature,
                                        int64_t top_k, double uniform, int32_t *order, int32_t *id);
// Continues prompt [count]. The context must have no tape.
// Errors  INVALID_ARGUMENT (options; an id beyond the model's vocabulary; logits that are not
//         finite), OUT_OF_MEMORY, those of the listener
BT_CHECKED bt_status bt_generate(bt_context *context, const bt_gpt2 *model,
                                 const bt_generate_options *options, const uint16_t *prompt,
                                 int64_t count, bt_generate_listener listener);

#endif
