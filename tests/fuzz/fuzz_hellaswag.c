// tests/fuzz/fuzz_hellaswag.c - any bytes as HellaSwag's questions, with a tokenizer of the 256
// bytes
//
// What is read has rows inside of the tokens, endings inside of the rows and labels of an ending;
// what is refused has a message, and nothing leaks.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "framework/base/mem.h"
#include "framework/eval/hellaswag.h"

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static bt_tokenizer *tokenizer;

static void demand(int holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    bt_str ranks = {0};
    for (int rank = 0; rank < 256; ++rank) {
        const unsigned char byte = (unsigned char)rank;
        char base64[8];
        demand(sodium_bin2base64(base64, sizeof base64, &byte, 1, sodium_base64_VARIANT_ORIGINAL) !=
               NULL);
        bt_str_format(&ranks, "%s %d\n", base64, rank);
    }
    demand(bt_tokenizer_parse("fuzz", bt_str_text(&ranks), ranks.length_bytes, &tokenizer) ==
           BT_OK);
    bt_str_release(&ranks);
    return 0;
}

static void check(const bt_hellaswag *questions)
{
    demand(questions->count > 0);
    for (int64_t i = 0; i < questions->count * BT_HELLASWAG_ENDINGS; ++i) {
        const bt_hellaswag_row *row = &questions->rows[i];
        demand(row->ending >= 1 && row->ending < row->count && row->count <= questions->longest);
        demand(row->start >= 0 && row->start + row->count <= questions->tokens.count);
        demand(questions->labels[i / BT_HELLASWAG_ENDINGS] >= 0 &&
               questions->labels[i / BT_HELLASWAG_ENDINGS] < BT_HELLASWAG_ENDINGS);
    }
    for (int64_t i = 0; i < questions->tokens.count; ++i) {
        demand(questions->tokens.ids[i] <= questions->highest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    const int64_t before = bt_mem_live_count();
    bt_hellaswag questions;
    bt_error_clear();
    if (bt_hellaswag_parse("input", (const char *)bytes, size_bytes, tokenizer, 0, &questions) ==
        BT_OK) {
        check(&questions);
    } else {
        demand(*bt_error_message());
    }
    bt_hellaswag_release(&questions);
    demand(bt_mem_live_count() == before);
    return 0;
}
