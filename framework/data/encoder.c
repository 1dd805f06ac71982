// framework/data/encoder.c - text to token ids: split, look the piece up, merge it on a miss
//
// Most pieces of a text repeat, so each encoder caches the result of short pieces in a
// direct-mapped cache whose key is the bytes (two words and a length). A miss costs a merge; a
// collision replaces the older piece.
#include <string.h>

#include "framework/base/mem.h"
#include "framework/data/tokenizer_internal.h"
#include "framework/data/utf8.h"

enum {
    CACHE_BITS = 15,
    CACHE_PIECE_BYTES = 16, // longest piece that is cached
    CACHE_TOKENS = 7,       // most tokens of a cached piece
    JIT_STACK_START = 32 * 1024,
    JIT_STACK_LIMIT = 1024 * 1024,
};

typedef struct cached_piece {
    uint64_t low, high; // the piece's first and last bytes
    uint8_t size_bytes; // 0: empty slot
    uint8_t count;
    uint16_t ids[CACHE_TOKENS];
} cached_piece;

struct bt_encoder {
    const bt_tokenizer *tokenizer; // borrowed, outlives the encoder
    cached_piece *cache;           // [1 << CACHE_BITS], owned
    bt_bpe_scratch scratch;        // owned
    pcre2_match_data *match;       // owned
    pcre2_match_context *context;  // owned
    pcre2_jit_stack *stack;        // owned
};

bt_status bt_tokens_reserve(bt_tokens *tokens, int64_t more)
{
    if (more <= tokens->capacity - tokens->count) {
        return BT_OK;
    }
    int64_t needed = tokens->count + more;
    int64_t capacity = tokens->capacity + tokens->capacity / 2;
    capacity = capacity > needed ? capacity : needed;
    void *block = tokens->ids;
    BT_TRY(bt_mem_resize(&block, (size_t)capacity, sizeof *tokens->ids));
    tokens->ids = block;
    tokens->capacity = capacity;
    return BT_OK;
}

void bt_tokens_release(bt_tokens *tokens)
{
    bt_mem_free(tokens->ids);
    memset(tokens, 0, sizeof *tokens);
}

bt_status bt_encoder_create(const bt_tokenizer *tokenizer, bt_encoder **out)
{
    *out = NULL;
    void *block = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_encoder), &block));
    bt_encoder *encoder = block;
    encoder->tokenizer = tokenizer;
    bt_status status = bt_mem_alloc((size_t)1 << CACHE_BITS, sizeof *encoder->cache, &block);
    encoder->cache = block;
    encoder->match = pcre2_match_data_create(1, tokenizer->memory);
    encoder->context = pcre2_match_context_create(tokenizer->memory);
    encoder->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_LIMIT, tokenizer->memory);
    if (status != BT_OK || !encoder->match || !encoder->context || !encoder->stack) {
        bt_encoder_destroy(encoder);
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "tokenizer: out of memory for an encoder");
    }
    pcre2_jit_stack_assign(encoder->context, NULL, encoder->stack);
    *out = encoder;
    return BT_OK;
}

void bt_encoder_destroy(bt_encoder *encoder)
{
    if (!encoder) {
        return;
    }
    pcre2_jit_stack_free(encoder->stack);
    pcre2_match_context_free(encoder->context);
    pcre2_match_data_free(encoder->match);
    bt_bpe_scratch_release(&encoder->scratch);
    bt_mem_free(encoder->cache);
    bt_mem_free(encoder);
}

// The bytes of a piece as two words; with the length they identify it.
static void load_piece(const unsigned char *bytes, size_t size_bytes, uint64_t *low, uint64_t *high)
{
    *high = 0;
    if (size_bytes >= 8) {
        memcpy(low, bytes, 8);
        memcpy(high, bytes + size_bytes - 8, 8);
    } else if (size_bytes >= 4) {
        uint32_t first;
        uint32_t last;
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + size_bytes - 4, 4);
        *low = (uint64_t)last << 32 | first;
    } else {
        *low =
            (uint64_t)bytes[size_bytes - 1] << 16 | (uint64_t)bytes[size_bytes / 2] << 8 | bytes[0];
    }
}

// Appends the tokens of one piece; `tokens` has capacity for size_bytes of them.
static bt_status encode_piece(bt_encoder *encoder, const unsigned char *bytes, size_t size_bytes,
                              bt_tokens *tokens)
{
    const bt_bpe *bpe = &encoder->tokenizer->bpe;
    uint16_t *ids = tokens->ids + tokens->count;
    size_t count = 0;
    if (size_bytes > BT_BPE_SHORT) {
        BT_TRY(bt_bpe_merge_long(bpe, &encoder->scratch, bytes, size_bytes, ids, &count));
        tokens->count += (int64_t)count;
        return BT_OK;
    }
    if (size_bytes > CACHE_PIECE_BYTES) {
        tokens->count += (int64_t)bt_bpe_merge_short(bpe, bytes, size_bytes, ids);
        return BT_OK;
    }
    uint64_t low = 0;
    uint64_t high = 0;
    load_piece(bytes, size_bytes, &low, &high);
    uint64_t mixed = (low ^ size_bytes) * 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ mixed >> 29 ^ high) * 0xbf58476d1ce4e5b9U;
    cached_piece *slot = &encoder->cache[mixed >> (64 - CACHE_BITS)];
    if (slot->size_bytes == size_bytes && slot->low == low && slot->high == high) {
        for (size_t i = 0; i < slot->count; ++i) {
            ids[i] = slot->ids[i];
        }
        tokens->count += slot->count;
        return BT_OK;
    }
    count = bt_bpe_merge_short(bpe, bytes, size_bytes, ids);
    if (count <= CACHE_TOKENS) {
        slot->low = low;
        slot->high = high;
        slot->size_bytes = (uint8_t)size_bytes;
        slot->count = (uint8_t)count;
        memcpy(slot->ids, ids, count * sizeof *ids);
    }
    tokens->count += (int64_t)count;
    return BT_OK;
}

static bt_status split_failed(int code, size_t at)
{
    char reason[128] = "";
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
    return bt_error(code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_JIT_STACKLIMIT
                        ? BT_STATUS_OUT_OF_MEMORY
                        : BT_STATUS_INTERNAL,
                    "tokenizer: splitting at byte %zu: %s", at, reason);
}

// The end of PCRE2's input: the end of the part and the next character, which decides about
// trailing white space.
static size_t view_end(const char *text, size_t size_bytes, size_t end)
{
    size_t room = size_bytes - end < 4 ? size_bytes - end : 4;
    size_t length = 0;
    while (length < room && bt_utf8_valid_prefix(text + end, length + 1) != length + 1) {
        ++length;
    }
    return length < room ? end + length + 1 : end;
}

bt_status bt_encoder_encode_part(bt_encoder *encoder, const char *text, size_t size_bytes,
                                 size_t begin, size_t end, bt_tokens *tokens)
{
    size_t valid = bt_utf8_valid_prefix(text + begin, end - begin);
    if (valid != end - begin) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "invalid UTF-8 at byte %zu (0x%02x)", begin + valid,
                        (unsigned char)text[begin + valid]);
    }
    int64_t old_count = tokens->count;
    size_t view = view_end(text, size_bytes, end);
    const PCRE2_SIZE *piece = pcre2_get_ovector_pointer(encoder->match);
    for (size_t at = begin; at < end; at = piece[1]) {
        int code = pcre2_match(encoder->tokenizer->split, (PCRE2_SPTR)text, view, at,
                               PCRE2_NO_UTF_CHECK, encoder->match, encoder->context);
        bt_status status = code > 0 ? BT_OK : split_failed(code, at);
        if (status == BT_OK) {
            status = bt_tokens_reserve(tokens, (int64_t)(piece[1] - at));
        }
        if (status == BT_OK) {
            status = encode_piece(encoder, (const unsigned char *)text + at, piece[1] - at, tokens);
        }
        if (status != BT_OK) {
            tokens->count = old_count;
            return status;
        }
    }
    return BT_OK;
}

bt_status bt_encoder_encode(bt_encoder *encoder, const char *text, size_t size_bytes,
                            bt_tokens *tokens)
{
    return bt_encoder_encode_part(encoder, text, size_bytes, 0, size_bytes, tokens);
}

size_t bt_encoder_next_cut(const char *text, size_t size_bytes, size_t from)
{
    size_t at = from > 0 ? from - 1 : 0;
    while (at < size_bytes) {
        const char *newline = memchr(text + at, '\n', size_bytes - at);
        if (!newline) {
            break;
        }
        at = (size_t)(newline - text) + 1;
        unsigned char lead = at < size_bytes ? (unsigned char)text[at] : 0;
        // The lead bytes 0xc2 and 0xe1 to 0xe3 also begin white space.
        if ((lead > 0x20 && lead < 0x80) ||
            (lead > 0xc2 && lead != 0xe1 && lead != 0xe2 && lead != 0xe3)) {
            return at;
        }
    }
    return size_bytes;
}
