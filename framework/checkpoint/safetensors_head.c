// framework/checkpoint/safetensors_head.c - computes a file's layout and writes its header
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/json.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/data/utf8.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bt_status check_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > BT_SAFETENSORS_NAME_LIMIT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a tensor's name of %zu bytes, allowed 1 to %d",
                        length, BT_SAFETENSORS_NAME_LIMIT);
    }
    if (bt_utf8_valid_prefix(name, length) != length) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "a tensor's name is not valid UTF-8 at byte %zu",
                        bt_utf8_valid_prefix(name, length));
    }
    return strcmp(name, "__metadata__") != 0
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "a tensor must not be named __metadata__");
}

bt_status bt_safetensors_check_names(const bt_safetensors_entry *entries, int64_t count)
{
    void *block = NULL;
    bt_status status = BT_OK;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(char *), &block));
    char **names = block;
    for (int64_t i = 0; i < count && status == BT_OK; ++i) {
        names[i] = entries[i].name;
        status = check_name(names[i]);
    }
    if (status == BT_OK) {
        qsort(names, (size_t)count, sizeof *names, compare_names);
    }
    for (int64_t i = 1; i < count && status == BT_OK; ++i) {
        if (strcmp(names[i], names[i - 1]) == 0) {
            status = bt_error(BT_STATUS_INVALID_ARGUMENT, "two tensors are named %s", names[i]);
        }
    }
    bt_mem_free(block);
    return status;
}

// Stable: equal element sizes keep their order. Each tensor's bytes are a multiple of its element
// size and of all following ones, so each tensor is aligned.
static bt_status sort_by_size(bt_safetensors_entry *entries, int64_t count)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof *entries, &block));
    bt_safetensors_entry *sorted = block;
    int64_t used = 0;
    for (size_t size_bytes = 8; size_bytes > 0; size_bytes /= 2) {
        for (int64_t i = 0; i < count; ++i) {
            if (bt_dtype_size(entries[i].dtype) == size_bytes) {
                sorted[used++] = entries[i];
            }
        }
    }
    memcpy(entries, sorted, (size_t)count * sizeof *entries);
    bt_mem_free(block);
    return BT_OK;
}

static void append_entry(bt_str *head, const bt_safetensors_entry *entry, uint64_t begin)
{
    bt_json_append(head, entry->name);
    bt_str_format(head, ":{\"dtype\":\"%s\",\"shape\":[", bt_safetensors_dtype_name(entry->dtype));
    for (int i = 0; i < entry->shape.rank; ++i) {
        bt_str_format(head, i ? ",%lld" : "%lld", (long long)entry->shape.size[i]);
    }
    bt_str_format(head, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                  (unsigned long long)(begin + entry->size_bytes));
}

static void append_metadata(bt_str *head, const char *const *metadata)
{
    bt_str_append(head, "\"__metadata__\":{");
    for (int i = 0; metadata[i]; i += 2) {
        bt_str_append(head, i ? "," : "");
        bt_json_append(head, metadata[i]);
        bt_str_append(head, ":");
        bt_json_append(head, metadata[i + 1]);
    }
    bt_str_append(head, "}");
}

// Pads the header and sets its size.
static bt_status finish(bt_str *head, uint64_t alignment)
{
    static const char spaces[] = "                                                                ";
    while (head->status == BT_OK && head->length_bytes % alignment != 0) {
        size_t missing = (size_t)(alignment - head->length_bytes % alignment);
        bt_str_append_bytes(head, spaces, missing < 64 ? missing : 64);
    }
    BT_TRY(bt_str_status(head));
    uint64_t header_bytes = head->length_bytes - BT_SAFETENSORS_PREFIX_BYTES;
    if (header_bytes > BT_SAFETENSORS_HEADER_LIMIT) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the names need a header of %llu bytes, at most %d are allowed",
                        (unsigned long long)header_bytes, BT_SAFETENSORS_HEADER_LIMIT);
    }
    for (int i = 0; i < BT_SAFETENSORS_PREFIX_BYTES; ++i) {
        head->text[i] = (char)(unsigned char)(header_bytes >> (8 * i) & 0xff);
    }
    return BT_OK;
}

bt_status bt_safetensors_head(bt_safetensors_entry *entries, int64_t count,
                              const char *const *metadata, uint64_t alignment, bt_str *head,
                              uint64_t *file_bytes)
{
    static const char prefix[BT_SAFETENSORS_PREFIX_BYTES] = {0};
    uint64_t at = 0;
    BT_TRY(bt_safetensors_check_names(entries, count));
    BT_TRY(sort_by_size(entries, count));
    bt_str_append_bytes(head, prefix, sizeof prefix);
    bt_str_append(head, "{");
    if (metadata) {
        append_metadata(head, metadata);
    }
    for (int64_t i = 0; i < count; ++i) {
        bt_safetensors_entry *entry = &entries[i];
        if (!bt_safetensors_bytes(entry->dtype, &entry->shape, &entry->size_bytes) ||
            entry->size_bytes > (uint64_t)1 << 53 || at + entry->size_bytes > (uint64_t)1 << 53) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "tensor %s ends above byte 2^53 of the file", entry->name);
        }
        bt_str_append(head, i || metadata ? "," : "");
        append_entry(head, entry, at);
        entry->offset_bytes = at;
        at += entry->size_bytes;
    }
    bt_str_append(head, "}");
    BT_TRY(finish(head, alignment));
    for (int64_t i = 0; i < count; ++i) {
        entries[i].offset_bytes += head->length_bytes;
    }
    *file_bytes = head->length_bytes + at;
    return BT_OK;
}
