// framework/checkpoint/safetensors.c - reads a header; every field is untrusted until checked
#include "framework/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/json.h"

static const struct {
    bt_dtype dtype;
    const char *name;
} types[] = {{BT_F64, "F64"}, {BT_F32, "F32"}, {BT_BF16, "BF16"}, {BT_F16, "F16"},  {BT_I64, "I64"},
             {BT_I32, "I32"}, {BT_U16, "U16"}, {BT_U8, "U8"},     {BT_BOOL, "BOOL"}};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *bt_safetensors_dtype_name(bt_dtype dtype)
{
    for (int i = 0; i < TYPE_COUNT; ++i) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return "?";
}

bool bt_safetensors_dtype_parse(const char *name, bt_dtype *dtype)
{
    for (int i = 0; i < TYPE_COUNT; ++i) {
        if (strcmp(types[i].name, name) == 0) {
            *dtype = types[i].dtype;
            return true;
        }
    }
    return false;
}

bool bt_safetensors_bytes(bt_dtype dtype, const bt_shape *shape, uint64_t *size_bytes)
{
    uint64_t bytes = bt_dtype_size(dtype);
    for (int i = 0; i < shape->rank; ++i) {
        if (shape->size[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape->size[i], &bytes)) {
            return false;
        }
    }
    *size_bytes = bytes;
    return bytes <= INT64_MAX;
}

static bt_status read_shape(const char *path, const cJSON *item, bt_safetensors_entry *entry)
{
    int64_t rank = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : -1;
    if (rank < 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: tensor %s: shape is not an array", path,
                        entry->name);
    }
    if (rank > BT_MAX_RANK) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s: tensor %s has %lld dimensions, at most %d",
                        path, entry->name, (long long)rank, BT_MAX_RANK);
    }
    const cJSON *size = NULL;
    cJSON_ArrayForEach(size, item) {
        int64_t value = -1;
        if (!bt_json_i64(size, &value) || value < 0) {
            return bt_error(BT_STATUS_CORRUPT_DATA,
                            "%s: tensor %s: size %d of the shape is not a whole number of at "
                            "least 0 and at most 2^53",
                            path, entry->name, entry->shape.rank);
        }
        entry->shape.size[entry->shape.rank++] = value;
    }
    return BT_OK;
}

static bt_status read_offsets(const char *path, const cJSON *item, uint64_t head_bytes,
                              uint64_t data_bytes, bt_safetensors_entry *entry)
{
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t expected = 0;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 ||
        !bt_json_u64(item->child, &begin) || !bt_json_u64(item->child->next, &end)) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: tensor %s: data_offsets is not a pair of whole numbers", path,
                        entry->name);
    }
    if (begin > end || end > data_bytes) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: tensor %s: data_offsets [%llu, %llu] exceed the %llu bytes of data",
                        path, entry->name, (unsigned long long)begin, (unsigned long long)end,
                        (unsigned long long)data_bytes);
    }
    char text[BT_SHAPE_TEXT_BYTES];
    if (!bt_safetensors_bytes(entry->dtype, &entry->shape, &expected) || end - begin != expected) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: tensor %s: %llu bytes at byte %llu do not match %s of shape %s", path,
                        entry->name, (unsigned long long)(end - begin),
                        (unsigned long long)(head_bytes + begin), bt_dtype_name(entry->dtype),
                        bt_shape_text(&entry->shape, text));
    }
    entry->offset_bytes = head_bytes + begin;
    entry->size_bytes = expected;
    return BT_OK;
}

static bt_status read_entry(const char *path, const cJSON *item, const bt_safetensors *file,
                            bt_safetensors_entry *entry)
{
    size_t length = strlen(item->string);
    if (length == 0 || length > BT_SAFETENSORS_NAME_LIMIT) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: a tensor's name of %zu bytes, allowed 1 to %d",
                        path, length, BT_SAFETENSORS_NAME_LIMIT);
    }
    BT_TRY(bt_mem_strdup(item->string, &entry->name));
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    if (!cJSON_IsObject(item) || !cJSON_IsString(dtype) || !shape || !offsets ||
        cJSON_GetArraySize(item) != 3) {
        return bt_error(
            BT_STATUS_CORRUPT_DATA,
            "%s: tensor %s must have the keys dtype, shape and data_offsets, and no others", path,
            entry->name);
    }
    if (!bt_safetensors_dtype_parse(dtype->valuestring, &entry->dtype)) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s: tensor %s has the type \"%.20s\"", path,
                        entry->name, dtype->valuestring);
    }
    BT_TRY(read_shape(path, shape, entry));
    return read_offsets(path, offsets, file->head_bytes, file->file_bytes - file->head_bytes,
                        entry);
}

static bt_status check_metadata(const char *path, const cJSON *metadata)
{
    const cJSON *item = NULL;
    bool fine = cJSON_IsObject(metadata);
    cJSON_ArrayForEach(item, metadata) {
        fine = fine && cJSON_IsString(item);
    }
    return fine ? BT_OK
                : bt_error(BT_STATUS_CORRUPT_DATA, "%s: __metadata__ is not an object of texts",
                           path);
}

static int compare_offsets(const void *a, const void *b)
{
    const bt_safetensors_entry *x = a;
    const bt_safetensors_entry *y = b;
    if (x->offset_bytes != y->offset_bytes) {
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    }
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int compare_entry_names(const void *a, const void *b)
{
    return strcmp(((const bt_safetensors_entry *)a)->name, ((const bt_safetensors_entry *)b)->name);
}

static bt_status check_cover(const char *path, bt_safetensors *file)
{
    uint64_t at = file->head_bytes;
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, compare_offsets);
    for (int64_t i = 0; i < file->count; ++i) {
        const bt_safetensors_entry *entry = &file->entries[i];
        if (entry->offset_bytes != at) {
            return bt_error(
                BT_STATUS_CORRUPT_DATA,
                "%s: tensor %s begins at byte %llu, %s byte %llu, where the preceding tensor ends",
                path, entry->name, (unsigned long long)entry->offset_bytes,
                entry->offset_bytes < at ? "which overlaps" : "which leaves a gap to",
                (unsigned long long)at);
        }
        at += entry->size_bytes;
    }
    if (at != file->file_bytes) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: %llu bytes from byte %llu belong to no tensor",
                        path, (unsigned long long)(file->file_bytes - at), (unsigned long long)at);
    }
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, compare_entry_names);
    return BT_OK;
}

static bt_status read_entries(const char *path, const cJSON *root, bt_safetensors *out)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)cJSON_GetArraySize(root) + 1, sizeof *out->entries, &block));
    out->entries = block;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, root) {
        if (strcmp(item->string, "__metadata__") == 0) {
            BT_TRY(check_metadata(path, item));
            continue;
        }
        BT_TRY(read_entry(path, item, out, &out->entries[out->count++]));
    }
    return check_cover(path, out);
}

// The size of the header, from the first eight bytes.
static bt_status read_prefix(const char *path, const unsigned char *head, uint64_t file_bytes,
                             uint64_t *header_bytes)
{
    if (file_bytes < BT_SAFETENSORS_PREFIX_BYTES) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: %llu bytes are not a safetensors file", path,
                        (unsigned long long)file_bytes);
    }
    *header_bytes = 0;
    for (int i = BT_SAFETENSORS_PREFIX_BYTES - 1; i >= 0; --i) {
        *header_bytes = *header_bytes << 8 | head[i];
    }
    if (*header_bytes > BT_SAFETENSORS_HEADER_LIMIT) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: byte 0 declares a header of %llu bytes, at most %d are allowed", path,
                        (unsigned long long)*header_bytes, BT_SAFETENSORS_HEADER_LIMIT);
    }
    if (*header_bytes > file_bytes - BT_SAFETENSORS_PREFIX_BYTES) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: byte 0 declares a header of %llu bytes in a file of %llu", path,
                        (unsigned long long)*header_bytes, (unsigned long long)file_bytes);
    }
    return BT_OK;
}

bt_status bt_safetensors_parse(const char *path, const void *head, size_t head_bytes,
                               uint64_t file_bytes, bt_safetensors *out)
{
    uint64_t header_bytes = 0;
    const char *text = (const char *)head + BT_SAFETENSORS_PREFIX_BYTES;
    cJSON *root = NULL;
    *out = (bt_safetensors){0};
    BT_TRY(
        read_prefix(path, head, head_bytes < file_bytes ? head_bytes : file_bytes, &header_bytes));
    if (header_bytes == 0 || text[0] != '{') {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: no '{' at byte 8, where the header begins",
                        path);
    }
    out->head_bytes = BT_SAFETENSORS_PREFIX_BYTES + header_bytes;
    out->file_bytes = file_bytes;
    BT_TRY(bt_json_read(path, text, (size_t)header_bytes, BT_SAFETENSORS_PREFIX_BYTES, &root));
    bt_status status = read_entries(path, root, out);
    cJSON_Delete(root);
    return status;
}

bt_status bt_safetensors_read(const bt_file_ops *ops, int file, const char *path,
                              uint64_t file_bytes, bt_safetensors *out, char xxh3[33])
{
    unsigned char prefix[BT_SAFETENSORS_PREFIX_BYTES] = {0};
    uint64_t header_bytes = 0;
    void *head = NULL;
    *out = (bt_safetensors){0};
    if (file_bytes >= sizeof prefix) {
        BT_TRY(bt_io_read(ops, file, path, prefix, sizeof prefix, 0));
    }
    BT_TRY(read_prefix(path, prefix, file_bytes, &header_bytes));
    size_t head_bytes = sizeof prefix + (size_t)header_bytes;
    BT_TRY(bt_mem_alloc(head_bytes + 1, 1, &head));
    bt_status status = bt_io_read(ops, file, path, head, head_bytes, 0);
    if (status == BT_OK) {
        status = bt_safetensors_parse(path, head, head_bytes, file_bytes, out);
    }
    if (status == BT_OK && xxh3) {
        bt_xxh3_hex(head, head_bytes, xxh3);
    }
    bt_mem_free(head);
    return status;
}

void bt_safetensors_release(bt_safetensors *file)
{
    for (int64_t i = 0; i < file->count; ++i) {
        bt_mem_free(file->entries[i].name);
    }
    bt_mem_free(file->entries);
    *file = (bt_safetensors){0};
}

const bt_safetensors_entry *bt_safetensors_find(const bt_safetensors *file, const char *name)
{
    const bt_safetensors_entry key = {.name = (char *)(uintptr_t)name}; // only compared
    return file->count == 0 ? NULL
                            : bsearch(&key, file->entries, (size_t)file->count,
                                      sizeof *file->entries, compare_entry_names);
}
