// tests/fuzz/fuzz_tokenizer.c - any bytes as text, and as a rank file
//
// The first byte chooses. As text: what decodes from the tokens must be the text, parts must encode
// as the whole, both ways of merging must agree. As ranks: appended to a sound file's 256 bytes and
// loaded, or refused with a message.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "framework/base/mem.h"
#include "framework/data/bpe.h"
#include "framework/data/tokenizer.h"
#include "framework/data/utf8.h"

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static bt_str byte_ranks; // the lines of the 256 bytes
static bt_tokenizer *tokenizer;
static bt_encoder *encoder;

static void demand(int holds)
{
    if (!holds) {
        abort();
    }
}

static void add_rank(bt_str *text, const char *token, size_t size_bytes, int rank)
{
    char base64[64];
    demand(sodium_bin2base64(base64, sizeof base64, (const unsigned char *)token, size_bytes,
                             sodium_base64_VARIANT_ORIGINAL) != NULL);
    bt_str_format(text, "%s %d\n", base64, rank);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    static const char *const merges[] = {"aa",  "he",   " t", "in", " the",     "\xc3\xa9", "aaaa",
                                         "ing", "\n\n", "ab", "  ", "aaaaaaaa", "hehe",     "ba"};
    bt_str text = {0};
    for (int byte = 0; byte < 256; ++byte) {
        char token = (char)byte;
        add_rank(&byte_ranks, &token, 1, byte);
    }
    bt_str_append(&text, bt_str_text(&byte_ranks));
    for (int i = 0; i < (int)(sizeof merges / sizeof *merges); ++i) {
        add_rank(&text, merges[i], strlen(merges[i]), 256 + i);
    }
    demand(bt_tokenizer_parse("fuzz", bt_str_text(&text), text.length_bytes, &tokenizer) == BT_OK);
    demand(bt_encoder_create(tokenizer, &encoder) == BT_OK);
    bt_str_release(&text);
    return 0;
}

static void check_text(const char *text, size_t size_bytes)
{
    bt_tokens whole = {0};
    bt_tokens parts = {0};
    bt_str back = {0};
    if (bt_encoder_encode(encoder, text, size_bytes, &whole) != BT_OK) {
        demand(bt_utf8_valid_prefix(text, size_bytes) < size_bytes && *bt_error_message());
        bt_tokens_release(&whole);
        return;
    }
    demand(bt_tokenizer_decode(tokenizer, whole.ids, whole.count, &back) == BT_OK);
    demand(back.length_bytes == size_bytes);
    demand(memcmp(bt_str_text(&back), text, size_bytes) == 0);
    for (size_t begin = 0; begin < size_bytes;) {
        size_t end = bt_encoder_next_cut(text, size_bytes, begin + 1);
        demand(end > begin);
        demand(bt_encoder_encode_part(encoder, text, size_bytes, begin, end, &parts) == BT_OK);
        begin = end;
    }
    demand(parts.count == whole.count);
    for (int64_t i = 0; i < whole.count; ++i) {
        demand(parts.ids[i] == whole.ids[i]);
    }
    bt_str_release(&back);
    bt_tokens_release(&whole);
    bt_tokens_release(&parts);
}

static void check_merging(const unsigned char *bytes, size_t size_bytes)
{
    // Its table: every byte a token, pairs of a few letters merge, deeper ones too.
    static bt_bpe bpe;
    if (!bpe.keys) {
        demand(bt_bpe_init(&bpe, 64) == BT_OK);
        for (unsigned byte = 0; byte < 256; ++byte) {
            bpe.byte_ids[byte] = (uint16_t)(byte % 4); // four letters, so that much merges
        }
        for (unsigned pair = 0; pair < 64; ++pair) {
            bt_bpe_add(&bpe, (uint16_t)(pair % 8), (uint16_t)(pair / 8), (uint16_t)(4 + pair % 50));
        }
    }
    uint16_t quick[BT_BPE_SHORT];
    uint16_t slow[BT_BPE_SHORT];
    size_t count = 0;
    bt_bpe_scratch scratch = {0};
    size_bytes = size_bytes < BT_BPE_SHORT ? size_bytes : BT_BPE_SHORT;
    if (size_bytes > 0) {
        size_t expected = bt_bpe_merge_short(&bpe, bytes, size_bytes, quick);
        demand(bt_bpe_merge_long(&bpe, &scratch, bytes, size_bytes, slow, &count) == BT_OK);
        demand(count == expected && memcmp(quick, slow, count * sizeof *slow) == 0);
    }
    bt_bpe_scratch_release(&scratch);
}

static void check_ranks(const char *bytes, size_t size_bytes)
{
    bt_str text = {0};
    bt_tokenizer *other = NULL;
    bt_str_append(&text, bt_str_text(&byte_ranks));
    bt_str_append_bytes(&text, bytes, size_bytes);
    if (bt_tokenizer_parse("fuzz", bt_str_text(&text), text.length_bytes, &other) == BT_OK) {
        demand(bt_tokenizer_vocab(other) >= 257);
        bt_tokenizer_destroy(other);
    } else {
        demand(*bt_error_message());
    }
    bt_str_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes == 0) {
        return 0;
    }
    int64_t before = bt_mem_live_count();
    if (bytes[0] == 'R') {
        check_ranks((const char *)bytes + 1, size_bytes - 1);
        demand(bt_mem_live_count() == before);
    } else {
        // The encoder's scratch memory may grow and stay: no count here.
        check_text((const char *)bytes + 1, size_bytes - 1);
        int64_t after = bt_mem_live_count();
        demand(after <= before + 4);
        check_merging(bytes + 1, size_bytes - 1);
    }
    return 0;
}
