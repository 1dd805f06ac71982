// framework/data/tokenizer_internal.h - the struct shared by tokenizer.c and encoder.c
#ifndef BT_DATA_TOKENIZER_INTERNAL_H
#define BT_DATA_TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "framework/data/bpe.h"
#include "framework/data/tokenizer.h"

struct bt_tokenizer {
    bt_bpe bpe;
    uint32_t *offsets;             // [vocab + 1], owned: offset of each token's bytes
    unsigned char *bytes;          // owned: bytes of all tokens, end-of-text last
    int64_t vocab;                 // ranks + 1
    bt_digest digest;              // of the rank file
    pcre2_general_context *memory; // owned: PCRE2 allocates through bt_mem
    pcre2_code *split;             // owned
};

#endif
