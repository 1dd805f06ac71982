// framework/checkpoint/manifest.c - the manifest as JSON, and its digest
#include "framework/checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/checkpoint/hash.h"
#include "framework/checkpoint/json.h"

// The JSON begins with the first text, 32 digits and the second text; the digits are the hash of
// the bytes that follow.
static const char opening[] = "{\"xxh3\":\"";
static const char behind[] = "\",\n";
enum { HASHED_FROM = sizeof opening - 1 + 32 + sizeof behind - 1 };

void bt_manifest_release(bt_manifest *manifest)
{
    for (int64_t i = 0; manifest->tensors && i < manifest->tensor_count; ++i) {
        bt_mem_free(manifest->tensors[i].name);
    }
    bt_mem_free(manifest->tensors);
    bt_mem_free(manifest->files);
    *manifest = (bt_manifest){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const bt_manifest_tensor *const *)a)->name,
                  (*(const bt_manifest_tensor *const *)b)->name);
}

// One line per tensor, by name: type, shape, hash.
static bt_status list_tensors(const bt_manifest *manifest, bt_str *text)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)manifest->tensor_count + 1, sizeof(void *), &block));
    const bt_manifest_tensor **sorted = block;
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        sorted[i] = &manifest->tensors[i];
    }
    qsort(sorted, (size_t)manifest->tensor_count, sizeof(void *), compare_names);
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        char shape[BT_SHAPE_TEXT_BYTES];
        bt_json_append(text, sorted[i]->name);
        bt_str_format(text, " %s %s %s\n", bt_dtype_name(sorted[i]->dtype),
                      bt_shape_text(&sorted[i]->shape, shape), sorted[i]->xxh3);
    }
    bt_mem_free(block);
    return bt_str_status(text);
}

bt_status bt_manifest_digest(const bt_manifest *manifest, bool values, char digest[33])
{
    bt_str text = {0};
    bt_status status = list_tensors(manifest, &text);
    if (status == BT_OK && values) {
        bt_state_values_print(&manifest->values, &text);
        status = bt_str_status(&text);
    }
    if (status == BT_OK) {
        bt_xxh3_hex(bt_str_text(&text), text.length_bytes, digest);
    }
    bt_str_release(&text);
    return status;
}

// ---- write --------------------------------------------------------------------------------------

static void print_files(const bt_manifest *manifest, bt_str *json)
{
    bt_str_append(json, "\"files\":[");
    for (int64_t i = 0; i < manifest->file_count; ++i) {
        const bt_manifest_file *file = &manifest->files[i];
        bt_str_format(json, "%s\n{\"file\":\"%s\",\"size_bytes\":%llu,\"head_xxh3\":\"%s\"}",
                      i ? "," : "", file->name, (unsigned long long)file->size_bytes,
                      file->head_xxh3);
    }
    bt_str_append(json, "],\n");
}

static void print_tensors(const bt_manifest *manifest, bt_str *json)
{
    bt_str_append(json, "\"tensors\":[");
    for (int64_t i = 0; i < manifest->tensor_count; ++i) {
        const bt_manifest_tensor *tensor = &manifest->tensors[i];
        bt_str_append(json, i ? ",\n{\"name\":" : "\n{\"name\":");
        bt_json_append(json, tensor->name);
        bt_str_format(json, ",\"dtype\":\"%s\",\"shape\":[", bt_dtype_name(tensor->dtype));
        for (int d = 0; d < tensor->shape.rank; ++d) {
            bt_str_format(json, d ? ",%lld" : "%lld", (long long)tensor->shape.size[d]);
        }
        bt_str_format(json,
                      "],\"file\":%lld,\"offset_bytes\":%llu,\"size_bytes\":%llu,\"xxh3\":\"%s\"}",
                      (long long)tensor->file, (unsigned long long)tensor->offset_bytes,
                      (unsigned long long)tensor->size_bytes, tensor->xxh3);
    }
    bt_str_append(json, "]}\n");
}

void bt_manifest_seal(bt_str *json)
{
    char hex[33];
    bt_xxh3_hex(json->text + HASHED_FROM, json->length_bytes - HASHED_FROM, hex);
    memcpy(json->text + sizeof opening - 1, hex, 32);
}

bt_status bt_manifest_print(const bt_manifest *manifest, bt_str *json)
{
    BT_TRY(bt_state_check_values(&manifest->values));
    bt_str_format(json, "%s%032d%s", opening, 0, behind);
    bt_str_append(json, "\"format\":\"" BT_MANIFEST_FORMAT "\",\n\"plan_hash\":");
    bt_json_append(json, manifest->plan_hash);
    bt_str_append(json, ",\n\"build\":");
    bt_json_append(json, manifest->build);
    bt_str_append(json, ",\n\"values\":{\n");
    bt_state_values_print(&manifest->values, json);
    bt_str_append(json, "},\n");
    print_files(manifest, json);
    print_tensors(manifest, json);
    BT_TRY(bt_str_status(json));
    bt_manifest_seal(json);
    return BT_OK;
}

// ---- read ---------------------------------------------------------------------------------------

static bt_status bad(const char *path, const char *what, int64_t index)
{
    return bt_error(BT_STATUS_CORRUPT_DATA, "%s: %s %lld is not written in the manifest's format",
                    path, what, (long long)index);
}

static bool copy_text(const cJSON *object, const char *key, char *text, size_t capacity)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= capacity) {
        return false;
    }
    memcpy(text, item->valuestring, strlen(item->valuestring) + 1);
    return true;
}

static bool copy_u64(const cJSON *object, const char *key, uint64_t *value)
{
    return bt_json_u64(cJSON_GetObjectItemCaseSensitive(object, key), value);
}

static bt_status parse_files(const char *path, const cJSON *root, bt_manifest *out)
{
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(root, "files");
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)cJSON_GetArraySize(files) + 1, sizeof *out->files, &block));
    out->files = block;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, files) {
        bt_manifest_file *file = &out->files[out->file_count];
        if (!copy_text(item, "file", file->name, sizeof file->name) || !file->name[0] ||
            file->name[0] == '.' || strchr(file->name, '/') ||
            !copy_u64(item, "size_bytes", &file->size_bytes) ||
            !copy_text(item, "head_xxh3", file->head_xxh3, sizeof file->head_xxh3)) {
            return bad(path, "file", out->file_count);
        }
        ++out->file_count;
    }
    return BT_OK;
}

static bool parse_shape(const cJSON *item, bt_shape *shape)
{
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > BT_MAX_RANK) {
        return false;
    }
    const cJSON *size = NULL;
    cJSON_ArrayForEach(size, item) {
        if (!bt_json_i64(size, &shape->size[shape->rank++])) {
            return false;
        }
    }
    return true;
}

static bt_status parse_tensor(const char *path, const cJSON *item, bt_manifest *out)
{
    bt_manifest_tensor *tensor = &out->tensors[out->tensor_count];
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
    uint64_t file = 0;
    uint64_t expected = 0;
    char dtype[16];
    if (!cJSON_IsString(name) || !copy_text(item, "dtype", dtype, sizeof dtype) ||
        !bt_dtype_parse(dtype, &tensor->dtype) ||
        !parse_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), &tensor->shape) ||
        !copy_u64(item, "file", &file) || file >= (uint64_t)out->file_count ||
        !copy_u64(item, "offset_bytes", &tensor->offset_bytes) ||
        !copy_u64(item, "size_bytes", &tensor->size_bytes) ||
        !bt_safetensors_bytes(tensor->dtype, &tensor->shape, &expected) ||
        expected != tensor->size_bytes ||
        !copy_text(item, "xxh3", tensor->xxh3, sizeof tensor->xxh3)) {
        return bad(path, "tensor", out->tensor_count);
    }
    BT_TRY(bt_mem_strdup(name->valuestring, &tensor->name));
    tensor->file = (int64_t)file;
    ++out->tensor_count;
    return BT_OK;
}

static bt_status parse_root(const char *path, const cJSON *root, bt_manifest *out)
{
    char format[64] = "";
    if (!copy_text(root, "format", format, sizeof format) ||
        strcmp(format, BT_MANIFEST_FORMAT) != 0) {
        return bt_error(BT_STATUS_UNSUPPORTED, "%s: expected format %s, got \"%s\"", path,
                        BT_MANIFEST_FORMAT, format);
    }
    if (!copy_text(root, "plan_hash", out->plan_hash, sizeof out->plan_hash) ||
        !copy_text(root, "build", out->build, sizeof out->build)) {
        return bad(path, "plan_hash or build,", 0);
    }
    BT_TRY(bt_state_values_parse(path, cJSON_GetObjectItemCaseSensitive(root, "values"),
                                 &out->values));
    BT_TRY(parse_files(path, root, out));
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(root, "tensors");
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)cJSON_GetArraySize(tensors) + 1, sizeof *out->tensors, &block));
    out->tensors = block;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, tensors) {
        BT_TRY(parse_tensor(path, item, out));
    }
    return BT_OK;
}

bt_status bt_manifest_parse(const char *path, const char *text, size_t size_bytes, bt_manifest *out)
{
    char hex[33];
    cJSON *root = NULL;
    *out = (bt_manifest){0};
    if (size_bytes < HASHED_FROM || memcmp(text, opening, sizeof opening - 1) != 0 ||
        memcmp(text + sizeof opening - 1 + 32, behind, sizeof behind - 1) != 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s does not begin with the header of a manifest",
                        path);
    }
    bt_xxh3_hex(text + HASHED_FROM, size_bytes - HASHED_FROM, hex);
    if (memcmp(text + sizeof opening - 1, hex, 32) != 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "%s: its contents have the XXH3-128 %s, its header states %.32s", path, hex,
                        text + sizeof opening - 1);
    }
    BT_TRY(bt_json_read(path, text, size_bytes, 0, &root));
    bt_status status = parse_root(path, root, out);
    cJSON_Delete(root);
    return status;
}
