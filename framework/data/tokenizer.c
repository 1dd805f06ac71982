// framework/data/tokenizer.c - loading a rank file, decoding
#include "framework/data/tokenizer.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/data/tokenizer_internal.h"

// White space as Unicode defines it. PCRE2's \s with UCP differs from it by U+180E.
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"                     \
    "\\x{202f}\\x{205f}\\x{3000}"

// GPT-2's pattern: contractions, words, numbers, other characters, white space (whose last
// character belongs to the word that follows).
static const char split_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                                    "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

static const char end_of_text[] = "<|endoftext|>";

enum { MAX_RANKS = BT_BPE_NONE - 1, MAX_TOKEN_BYTES = 1024 };

static void *pcre2_allocate(size_t size_bytes, void *self)
{
    (void)self;
    void *block = NULL;
    return bt_mem_alloc(size_bytes, 1, &block) == BT_OK ? block : NULL;
}

static void pcre2_release(void *block, void *self)
{
    (void)self;
    bt_mem_free(block);
}

static bt_status compile_split(bt_tokenizer *tokenizer)
{
    static const bt_status out_of_memory = BT_STATUS_OUT_OF_MEMORY;
    tokenizer->memory = pcre2_general_context_create(pcre2_allocate, pcre2_release, NULL);
    if (!tokenizer->memory) {
        return bt_error(out_of_memory, "tokenizer: out of memory for the split pattern");
    }
    pcre2_compile_context *context = pcre2_compile_context_create(tokenizer->memory);
    if (!context) {
        return bt_error(out_of_memory, "tokenizer: out of memory for the split pattern");
    }
    int code = 0;
    PCRE2_SIZE offset = 0;
    tokenizer->split =
        pcre2_compile((PCRE2_SPTR)split_pattern, sizeof split_pattern - 1,
                      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!tokenizer->split) {
        char reason[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return bt_error(code == PCRE2_ERROR_HEAP_FAILED ? out_of_memory : BT_STATUS_INTERNAL,
                        "tokenizer: split pattern, offset %zu: %s", offset, reason);
    }
    code = pcre2_jit_compile(tokenizer->split, PCRE2_JIT_COMPLETE);
    if (code == PCRE2_ERROR_NOMEMORY) {
        return bt_error(out_of_memory,
                        "tokenizer: out of memory for the split pattern's machine code");
    }
    return BT_OK; // a PCRE2 without JIT interprets: slower, same result
}

// Read position in a rank file.
typedef struct rank_file {
    const char *name;
    const char *text, *end;
    int64_t line; // 1-based
} rank_file;

static bt_status bad_line(const rank_file *file, const char *what)
{
    return bt_error(BT_STATUS_CORRUPT_DATA, "%s:%lld: %s", file->name, (long long)file->line, what);
}

// Reads "base64 rank\n" where the rank must be `expected`; appends the bytes to the tokenizer's.
static bt_status read_rank(rank_file *file, int64_t expected, unsigned char *bytes,
                           size_t *size_bytes)
{
    const char *newline = memchr(file->text, '\n', (size_t)(file->end - file->text));
    const char *line_end = newline ? newline : file->end;
    const char *space = memchr(file->text, ' ', (size_t)(line_end - file->text));
    if (!space) {
        return bad_line(file, "expected a token in base64, a space and its rank");
    }
    const char *stop = NULL;
    if (sodium_base642bin(bytes, MAX_TOKEN_BYTES, file->text, (size_t)(space - file->text), NULL,
                          size_bytes, &stop, sodium_base64_VARIANT_ORIGINAL) != 0 ||
        stop != space || *size_bytes == 0) {
        return bad_line(file, "the token is not base64 of 1 to 1024 bytes");
    }
    char rank[24];
    int length = snprintf(rank, sizeof rank, "%lld", (long long)expected);
    if (line_end - space - 1 != length || memcmp(space + 1, rank, (size_t)length) != 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s:%lld: expected rank %s, got \"%.*s\"",
                        file->name, (long long)file->line, rank,
                        (int)(line_end - space - 1 < 20 ? line_end - space - 1 : 20), space + 1);
    }
    file->text = newline ? newline + 1 : file->end;
    ++file->line;
    return BT_OK;
}

static int64_t count_lines(const char *text, const char *end)
{
    int64_t lines = 0;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : end;
        ++lines;
    }
    return lines;
}

static bt_status read_tokens(bt_tokenizer *tokenizer, rank_file *file, int64_t ranks)
{
    // A token has fewer bytes than its line, so the file's size is an upper bound.
    size_t room = (size_t)(file->end - file->text) + MAX_TOKEN_BYTES + sizeof end_of_text;
    void *block = NULL;
    BT_TRY(bt_mem_alloc(room, 1, &block));
    tokenizer->bytes = block;
    BT_TRY(bt_mem_alloc((size_t)ranks + 2, sizeof *tokenizer->offsets, &block));
    tokenizer->offsets = block;
    uint32_t used = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
        size_t size = 0;
        BT_TRY(read_rank(file, rank, tokenizer->bytes + used, &size));
        if (size == 1) {
            uint16_t *id = &tokenizer->bpe.byte_ids[tokenizer->bytes[used]];
            if (*id != BT_BPE_NONE) {
                return bt_error(BT_STATUS_CORRUPT_DATA, "%s:%lld: byte 0x%02x is rank %u already",
                                file->name, (long long)rank + 1, tokenizer->bytes[used], *id);
            }
            *id = (uint16_t)rank;
        }
        used += (uint32_t)size;
        tokenizer->offsets[rank + 1] = used;
    }
    memcpy(tokenizer->bytes + used, end_of_text, sizeof end_of_text - 1);
    tokenizer->offsets[ranks + 1] = used + (uint32_t)sizeof end_of_text - 1;
    tokenizer->vocab = ranks + 1;
    return BT_OK;
}

// Finds the pair that forms each token: the two parts left after merging its bytes with all ranks
// below its own.
static bt_status build_pairs(bt_tokenizer *tokenizer, const char *name)
{
    bt_bpe_scratch scratch = {0};
    bt_status status = BT_OK;
    for (int64_t byte = 0; byte < 256 && status == BT_OK; ++byte) {
        if (tokenizer->bpe.byte_ids[byte] == BT_BPE_NONE) {
            status = bt_error(BT_STATUS_CORRUPT_DATA, "%s: no token for byte 0x%02x", name,
                              (unsigned)byte);
        }
    }
    for (int64_t rank = 0; rank < tokenizer->vocab - 1 && status == BT_OK; ++rank) {
        const unsigned char *bytes = tokenizer->bytes + tokenizer->offsets[rank];
        size_t size = tokenizer->offsets[rank + 1] - tokenizer->offsets[rank];
        uint16_t parts[MAX_TOKEN_BYTES];
        size_t count = 1;
        if (size > 1 && size <= BT_BPE_SHORT) {
            count = bt_bpe_merge_short(&tokenizer->bpe, bytes, size, parts);
        } else if (size > 1) {
            status = bt_bpe_merge_long(&tokenizer->bpe, &scratch, bytes, size, parts, &count);
        }
        if (status == BT_OK && size > 1 && count != 2) {
            status = bt_error(BT_STATUS_CORRUPT_DATA,
                              "%s:%lld: not a byte-pair encoding: the token consists of %zu tokens "
                              "of lower rank, expected 2",
                              name, (long long)rank + 1, count);
        }
        if (status == BT_OK && size > 1) {
            bt_bpe_add(&tokenizer->bpe, parts[0], parts[1], (uint16_t)rank);
        }
    }
    bt_bpe_scratch_release(&scratch);
    return status;
}

bt_status bt_tokenizer_parse(const char *name, const void *bytes, size_t size_bytes,
                             bt_tokenizer **out)
{
    *out = NULL;
    const char *text = size_bytes > 0 ? bytes : "";
    rank_file file = {.name = name, .text = text, .end = text + size_bytes, .line = 1};
    int64_t ranks = count_lines(file.text, file.end);
    if (ranks < 256 || ranks > MAX_RANKS) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: %lld ranks, allowed: 256 to %d", name,
                        (long long)ranks, MAX_RANKS);
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_tokenizer), &block));
    bt_tokenizer *tokenizer = block;
    tokenizer->digest = bt_digest_bytes(text, size_bytes);
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_bpe_init(&tokenizer->bpe, (size_t)ranks), failed);
    BT_TRY_GOTO(read_tokens(tokenizer, &file, ranks), failed);
    BT_TRY_GOTO(build_pairs(tokenizer, name), failed);
    BT_TRY_GOTO(compile_split(tokenizer), failed);
    *out = tokenizer;
    return BT_OK;
failed:
    bt_tokenizer_destroy(tokenizer);
    return status;
}

bt_status bt_tokenizer_load(const char *path, bool any_digest, bt_tokenizer **tokenizer)
{
    *tokenizer = NULL;
    void *bytes = NULL;
    size_t size_bytes = 0;
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    bt_digest digest = bt_digest_bytes(bytes, size_bytes);
    bt_status status = BT_OK;
    if (!any_digest && strcmp(digest.hex, BT_TOKENIZER_GPT2_DIGEST) != 0) {
        status = bt_error(BT_STATUS_CORRUPT_DATA,
                          "%s: not GPT-2's rank file: expected sha256 %s, got %s (%zu bytes)", path,
                          BT_TOKENIZER_GPT2_DIGEST, digest.hex, size_bytes);
    }
    if (status == BT_OK) {
        status = bt_tokenizer_parse(path, bytes, size_bytes, tokenizer);
    }
    bt_mem_free(bytes);
    return status;
}

void bt_tokenizer_destroy(bt_tokenizer *tokenizer)
{
    if (!tokenizer) {
        return;
    }
    pcre2_code_free(tokenizer->split);
    pcre2_general_context_free(tokenizer->memory);
    bt_bpe_release(&tokenizer->bpe);
    bt_mem_free(tokenizer->offsets);
    bt_mem_free(tokenizer->bytes);
    bt_mem_free(tokenizer);
}

int64_t bt_tokenizer_vocab(const bt_tokenizer *tokenizer) { return tokenizer->vocab; }

uint16_t bt_tokenizer_end_of_text(const bt_tokenizer *tokenizer)
{
    return (uint16_t)(tokenizer->vocab - 1);
}

size_t bt_tokenizer_token_bytes(const bt_tokenizer *tokenizer, uint16_t id)
{
    return tokenizer->offsets[id + 1] - tokenizer->offsets[id];
}

const char *bt_tokenizer_digest(const bt_tokenizer *tokenizer) { return tokenizer->digest.hex; }

bt_status bt_tokenizer_decode(const bt_tokenizer *tokenizer, const uint16_t *ids, int64_t count,
                              bt_str *text)
{
    for (int64_t i = 0; i < count; ++i) {
        if (ids[i] >= tokenizer->vocab) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "tokenizer: token id %u at index %lld, allowed: below %lld", ids[i],
                            (long long)i, (long long)tokenizer->vocab);
        }
        uint32_t start = tokenizer->offsets[ids[i]];
        bt_str_append_bytes(text, tokenizer->bytes + start, tokenizer->offsets[ids[i] + 1] - start);
    }
    return bt_str_status(text);
}
