// framework/data/tokenizer.h - GPT-2 byte-pair encoding
//
// A rank file (.tiktoken: a line per token, base64 and rank) endoftext|endoftext|>" in a text
// encodes as the characters that it is.
//
// Invariants
//   1. decode(encode(text)) == text, for any valid UTF-8.
//   2. Text may be split between a newline and a character that is not white space: encoding the
//      parts, each with access to the whole text, gives the same tokens.
//   3. A tokenizer is immutable after loading and thread-safe; an encoder is not.
//
// Cost    linear on ordinary text, n log n in the worst case (one endless word); no allocation per
//         word
// Source  Radford et al. 2019 (GPT-2), section 2.2
#ifndef BT_DATA_TOKENIZER_H
#define BT_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"
#include "framework/data/digest.h"

// SHA-256 of GPT-2's rank file, r50k_base.tiktoken.
#define BT_TOKENIZER_GPT2_DIGEST "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"

typedef struct bt_tokenizer bt_tokenizer;
typedef struct bt_encoder bt_encoder;

// A growing list of token ids.
typedef struct bt_tokens {
    uint16_t *ids; // [capacity], owned: bt_tokens_release
    int64_t count, capacity;
} bt_tokens;

// Loads a rank file. Its SHA-256 must be GPT-2's unless any_digest is true.
// Owns    *tokenizer: the caller, until bt_tokenizer_destroy
// Errors  IO, CORRUPT_DATA (another digest; a bad line, by number), OUT_OF_MEMORY
BT_CHECKED bt_status bt_tokenizer_load(const char *path, bool any_digest, bt_tokenizer **tokenizer);
// The same from memory; `name` is used in messages.
BT_CHECKED bt_status bt_tokenizer_parse(const char *name, const void *bytes, size_t size_bytes,
                                        bt_tokenizer **tokenizer);
void bt_tokenizer_destroy(bt_tokenizer *tokenizer);
// Ranks plus one: 50257 for GPT-2.
int64_t bt_tokenizer_vocab(const bt_tokenizer *tokenizer);
// The end-of-text id, which begins every document: 50256 for GPT-2.
uint16_t bt_tokenizer_end_of_text(const bt_tokenizer *tokenizer);
// Bytes of a token; id < bt_tokenizer_vocab.
size_t bt_tokenizer_token_bytes(const bt_tokenizer *tokenizer, uint16_t id);
// Digest of the rank file.
const char *bt_tokenizer_digest(const bt_tokenizer *tokenizer);
// Appends the bytes of token ids to `text`; end-of-text becomes "<|endoftext|>".
// Errors  INVALID_ARGUMENT (an id beyond the vocabulary, by index), OUT_OF_MEMORY
BT_CHECKED bt_status bt_tokenizer_decode(const bt_tokenizer *tokenizer, const uint16_t *ids,
                                         int64_t count, bt_str *text);

// Working memory for encoding. The tokenizer must outlive it.
// Owns    *encoder: the caller, until bt_encoder_destroy
BT_CHECKED bt_status bt_encoder_create(const bt_tokenizer *tokenizer, bt_encoder **encoder);
void bt_encoder_destroy(bt_encoder *encoder);
// Appends the tokens of text[size_bytes] to `tokens`. On failure tokens->count is as before.
// Errors  CORRUPT_DATA (invalid UTF-8, by byte offset), OUT_OF_MEMORY
BT_CHECKED bt_status bt_encoder_encode(bt_encoder *encoder, const char *text, size_t size_bytes,
                                       bt_tokens *tokens);
// Appends the tokens of text[begin, end), where both are split positions (invariant 2) or ends of
// the text; text[begin, size_bytes) must be readable, but only text[begin, end] plus one character
// is used. Offsets in messages count from the start of the text.
BT_CHECKED bt_status bt_encoder_encode_part(bt_encoder *encoder, const char *text,
                                            size_t size_bytes, size_t begin, size_t end,
                                            bt_tokens *tokens);
// The first split position at or after `from`, size_bytes if there is none.
size_t bt_encoder_next_cut(const char *text, size_t size_bytes, size_t from);

// Reserves capacity for `more` further ids.
BT_CHECKED bt_status bt_tokens_reserve(bt_tokens *tokens, int64_t more);
void bt_tokens_release(bt_tokens *tokens);

#endif
