// framework/data/shard.c - reading and checking token shards
#include "framework/data/shard.h"

#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards are mapped as they are on disk");

enum { WORD_COUNT_AT = 8, MAX_VOCAB = UINT16_MAX + 1 };

static int32_t header_word(const void *bytes, size_t offset)
{
    int32_t word;
    memcpy(&word, (const char *)bytes + offset, sizeof word);
    return word;
}

bt_status bt_shard_parse(const char *name, const void *bytes, size_t size_bytes,
                         const uint16_t **tokens, int64_t *count)
{
    *tokens = NULL;
    *count = 0;
    if (size_bytes < BT_SHARD_HEADER_BYTES) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: truncated at byte %zu: a token shard begins with a header of %d bytes",
                        name, size_bytes, BT_SHARD_HEADER_BYTES);
    }
    int32_t magic = header_word(bytes, 0);
    if (magic != BT_SHARD_MAGIC) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: not a token shard: expected magic %d at byte 0, got %d", name,
                        BT_SHARD_MAGIC, magic);
    }
    int32_t version = header_word(bytes, 4);
    if (version != BT_SHARD_VERSION) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: expected shard version %d at byte 4, got %d",
                        name, BT_SHARD_VERSION, version);
    }
    int32_t header_count = header_word(bytes, WORD_COUNT_AT);
    if (header_count < 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: expected a token count of at least 0 at byte %d, got %d", name,
                        WORD_COUNT_AT, header_count);
    }
    uint64_t expected = BT_SHARD_HEADER_BYTES + 2 * (uint64_t)header_count;
    if (size_bytes != expected) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: %s: its header declares %d tokens (byte %d), so expected %llu bytes, "
                        "got %zu",
                        name, size_bytes < expected ? "truncated" : "too long", header_count,
                        WORD_COUNT_AT, (unsigned long long)expected, size_bytes);
    }
    *tokens = (const uint16_t *)((const char *)bytes + BT_SHARD_HEADER_BYTES);
    *count = header_count;
    return BT_OK;
}

bt_status bt_shard_open(const char *path, bt_shard *shard)
{
    memset(shard, 0, sizeof *shard);
    bt_status status = BT_OK;
    BT_TRY_GOTO(bt_mem_strdup(path, &shard->path), failed);
    BT_TRY_GOTO(bt_file_map(path, &shard->mapping, &shard->mapping_bytes), failed);
    BT_TRY_GOTO(
        bt_shard_parse(path, shard->mapping, shard->mapping_bytes, &shard->tokens, &shard->count),
        failed);
    return BT_OK;
failed:
    bt_shard_close(shard);
    return status;
}

void bt_shard_close(bt_shard *shard)
{
    bt_file_unmap(shard->mapping, shard->mapping_bytes);
    bt_mem_free(shard->path);
    memset(shard, 0, sizeof *shard);
}

bt_status bt_shard_token_error(const bt_shard *shard, int64_t index, int64_t vocab)
{
    return bt_error(
        BT_STATUS_CORRUPT_DATA,
        "%s: token id %u at byte %lld (token %lld) is outside of the vocabulary of %lld",
        shard->path, shard->tokens[index], (long long)(BT_SHARD_HEADER_BYTES + 2 * index),
        (long long)index, (long long)vocab);
}

bt_status bt_shard_scan(const bt_shard *shard, int64_t vocab)
{
    if (vocab >= MAX_VOCAB) {
        return BT_OK;
    }
    enum {
        CHUNK = 1 << 16
    }; // the maximum of a chunk vectorizes; only a chunk with a bad id is
       // searched
    for (int64_t start = 0; start < shard->count; start += CHUNK) {
        int64_t end = start + CHUNK < shard->count ? start + CHUNK : shard->count;
        uint16_t largest = 0;
        for (int64_t i = start; i < end; ++i) {
            largest = shard->tokens[i] > largest ? shard->tokens[i] : largest;
        }
        for (int64_t i = start; largest >= vocab && i < end; ++i) {
            if (shard->tokens[i] >= vocab) {
                return bt_shard_token_error(shard, i, vocab);
            }
        }
    }
    return BT_OK;
}
