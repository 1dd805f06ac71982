// framework/data/tokenizer_internal.h - what tokenizer.c fills and encoder.c reads
#ifndef BT_DATA_TOKENIZER_INTERNAL_H
#define BT_DATA_TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "framework/data/bpe.h"
#include "framework/data/tokenizer.h"

struct bt_tokenizer {
    bt_bpe bpe;
    uint32_t *offsets;             // [vocab + 1], owned: where a token's bytes start
    unsigned char *bytes;          // owned: of all tokens, end-of-text last
    int64_t vocab;                 // ranks + 1
    bt_digest digest;              // of the rank file
    pcre2_general_context *memory; // owned: PCRE2 allocates through bt_mem
    pcre2_code *split;             // owned
};

#endif
