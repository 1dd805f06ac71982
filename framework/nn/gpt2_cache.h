// framework/nn/gpt2_cache.h - GPT-2 token by token with a key-value cache
//
// A cache holds each block's packed queries, keys and values of the tokens so far, so that a
// further token costs one row of every product instead of the whole sequence.
//
// Invariant: the logits are those of bt_gpt2_forward over all tokens so far, up to the rounding of
// sums in another order.
#ifndef BT_NN_GPT2_CACHE_H
#define BT_NN_GPT2_CACHE_H

#include "framework/nn/gpt2.h"

typedef struct bt_gpt2_cache {
    const bt_gpt2 *model; // borrowed
    bt_tensor **qkv;      // owned [layers], each [context, 3 width]; rows below `used` are filled
    int64_t used;         // tokens so far, at most the model's context; set to 0 to clear
} bt_gpt2_cache;

// Owns    the caller, until bt_gpt2_cache_release, also when this fails
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gpt2_cache_init(bt_context *context, const bt_gpt2 *model,
                                        bt_gpt2_cache *cache);
void bt_gpt2_cache_release(bt_gpt2_cache *cache);
// Adds tokens (any number to an empty cache, else one) and computes the logits after the last of
// them. The context must have no tape.
// Shapes  ids [1, T] i32, logits [1, vocab]
// Owns    *logits: the caller
// Errors  INVALID_ARGUMENT (shape; more tokens than the model's context), OUT_OF_MEMORY
BT_CHECKED bt_status bt_gpt2_cache_extend(bt_context *context, bt_gpt2_cache *cache, bt_tensor *ids,
                                          bt_tensor **logits);

#endif
