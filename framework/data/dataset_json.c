// framework/data/dataset_json.c - the manifest as JSON
#include "framework/data/dataset_json.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"

static const char manifest_format[] = "blutrain-dataset-1";

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Every add returns false when memory ran out.
static bool add_digest(cJSON *object, const char *name, const bt_digest *digest)
{
    return digest->hex[0] ? cJSON_AddStringToObject(object, name, digest->hex) != NULL
                          : cJSON_AddNullToObject(object, name) != NULL;
}

static bool add_split(cJSON *root, const char *name, const bt_dataset_split *split)
{
    cJSON *object = cJSON_AddObjectToObject(root, name);
    bool fine = object && cJSON_AddNumberToObject(object, "tokens", (double)split->tokens) &&
                cJSON_AddNumberToObject(object, "documents", (double)split->documents);
    cJSON *shards = fine ? cJSON_AddArrayToObject(object, "shards") : NULL;
    fine = fine && shards;
    for (int64_t i = 0; fine && i < split->count; ++i) {
        const bt_dataset_shard *shard = &split->shards[i];
        cJSON *row = cJSON_CreateObject();
        fine = cJSON_AddItemToArray(shards, row) &&
               cJSON_AddStringToObject(row, "file", file_name(shard->path)) &&
               cJSON_AddNumberToObject(row, "tokens", (double)shard->tokens) &&
               cJSON_AddNumberToObject(row, "bytes", (double)shard->size_bytes) &&
               add_digest(row, "sha256", &shard->digest);
    }
    return fine;
}

static bool add_sources(cJSON *root, const bt_dataset *dataset)
{
    cJSON *sources = cJSON_AddArrayToObject(root, "sources");
    bool fine = sources != NULL;
    for (int64_t i = 0; fine && i < dataset->source_count; ++i) {
        const bt_dataset_source *source = &dataset->sources[i];
        cJSON *row = cJSON_CreateObject();
        fine = cJSON_AddItemToArray(sources, row) &&
               cJSON_AddStringToObject(row, "file", source->path) &&
               cJSON_AddNumberToObject(row, "bytes", (double)source->size_bytes) &&
               add_digest(row, "sha256", &source->digest);
    }
    return fine;
}

// SHA-256 over a line "file sha256" per shard; none if a shard's digest is unknown.
static bt_status digest_dataset(bt_dataset *dataset)
{
    bt_str lines = {0};
    bool known = true;
    const bt_dataset_split *splits[] = {&dataset->train, &dataset->val};
    for (int s = 0; s < 2; ++s) {
        for (int64_t i = 0; i < splits[s]->count; ++i) {
            const bt_dataset_shard *shard = &splits[s]->shards[i];
            known = known && shard->digest.hex[0];
            bt_str_format(&lines, "%s %s\n", file_name(shard->path), shard->digest.hex);
        }
    }
    bt_status status = bt_str_status(&lines);
    memset(&dataset->digest, 0, sizeof dataset->digest);
    if (status == BT_OK && known) {
        dataset->digest = bt_digest_bytes(bt_str_text(&lines), lines.length_bytes);
    }
    bt_str_release(&lines);
    return status;
}

bt_status bt_dataset_write(bt_dataset *dataset, const char *folder)
{
    BT_TRY(digest_dataset(dataset));
    cJSON *root = cJSON_CreateObject();
    bool fine = root && cJSON_AddStringToObject(root, "format", manifest_format) &&
                cJSON_AddStringToObject(root, "name", dataset->name) &&
                add_digest(root, "sha256", &dataset->digest) &&
                add_digest(root, "tokenizer_sha256", &dataset->tokenizer) &&
                cJSON_AddNumberToObject(root, "vocab", (double)dataset->vocab) &&
                add_split(root, "train", &dataset->train) &&
                add_split(root, "val", &dataset->val) && add_sources(root, dataset);
    char *text = fine ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    bt_str contents = {0};
    char *path = NULL;
    bt_status status =
        text ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "out of memory for a manifest");
    if (status == BT_OK) {
        bt_str_append(&contents, text);
        bt_str_append(&contents, "\n");
        status = bt_str_status(&contents);
    }
    status = status == BT_OK ? bt_path_join(folder, BT_DATASET_MANIFEST, &path) : status;
    if (status == BT_OK) {
        status = bt_file_write(path, bt_str_text(&contents), contents.length_bytes);
    }
    cJSON_free(text);
    bt_str_release(&contents);
    bt_mem_free(path);
    return status;
}

static bt_status bad(const char *path, const char *where, const char *expected)
{
    return bt_error(BT_STATUS_CORRUPT_DATA, "%s: expected %s to be %s", path, where, expected);
}

static bt_status read_count(const char *path, const cJSON *object, const char *name, int64_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const double limit = 9007199254740992.0; // 2^53, up to which a JSON number is exact
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= -1 && item->valuedouble <= limit)) {
        return bad(path, name, "a whole number");
    }
    *value = (int64_t)item->valuedouble;
    return BT_OK;
}

static bt_status read_digest(const char *path, const cJSON *object, const char *name,
                             bt_digest *digest)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    memset(digest, 0, sizeof *digest);
    if (cJSON_IsNull(item)) {
        return BT_OK;
    }
    if (!cJSON_IsString(item) || strlen(item->valuestring) != 64 ||
        strspn(item->valuestring, "0123456789abcdef") != 64) {
        return bad(path, name, "64 hexadecimal digits or null");
    }
    memcpy(digest->hex, item->valuestring, sizeof digest->hex);
    return BT_OK;
}

static bt_status read_text(const char *path, const cJSON *object, const char *name,
                           const char **text)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item)) {
        return bad(path, name, "a text");
    }
    *text = item->valuestring;
    return BT_OK;
}

static bt_status read_split(bt_dataset *dataset, const char *path, const cJSON *root, bool val)
{
    bt_dataset_split *split = val ? &dataset->val : &dataset->train;
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, val ? "val" : "train");
    const cJSON *shards = cJSON_GetObjectItemCaseSensitive(object, "shards");
    if (!cJSON_IsArray(shards)) {
        return bad(path, val ? "val.shards" : "train.shards", "an array");
    }
    BT_TRY(read_count(path, object, "documents", &split->documents));
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, shards) {
        const char *file = NULL;
        int64_t tokens = 0;
        bt_digest digest;
        BT_TRY(read_text(path, row, "file", &file));
        BT_TRY(read_count(path, row, "tokens", &tokens));
        BT_TRY(read_digest(path, row, "sha256", &digest));
        if (strchr(file, '/') || tokens < 0) {
            return bad(path, "a shard", "a file name without '/' and tokens of at least 0");
        }
        BT_TRY(bt_dataset_add_shard(dataset, val, file, tokens, &digest));
    }
    return BT_OK;
}

static bt_status read_sources(bt_dataset *dataset, const char *path, const cJSON *root)
{
    const cJSON *sources = cJSON_GetObjectItemCaseSensitive(root, "sources");
    if (!cJSON_IsArray(sources)) {
        return bad(path, "sources", "an array");
    }
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)cJSON_GetArraySize(sources), sizeof *dataset->sources, &block));
    dataset->sources = block;
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, sources) {
        bt_dataset_source *source = &dataset->sources[dataset->source_count];
        const char *file = NULL;
        int64_t size = 0;
        BT_TRY(read_text(path, row, "file", &file));
        BT_TRY(read_count(path, row, "bytes", &size));
        BT_TRY(read_digest(path, row, "sha256", &source->digest));
        BT_TRY(bt_mem_strdup(file, &source->path));
        source->size_bytes = size > 0 ? (uint64_t)size : 0;
        ++dataset->source_count;
    }
    return BT_OK;
}

static bt_status read_root(bt_dataset *dataset, const char *path, const cJSON *root)
{
    const char *text = NULL;
    BT_TRY(read_text(path, root, "format", &text));
    if (strcmp(text, manifest_format) != 0) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: expected format %s, got %s", path,
                        manifest_format, text);
    }
    BT_TRY(read_text(path, root, "name", &text));
    BT_TRY(bt_mem_strdup(text, &dataset->name));
    BT_TRY(read_digest(path, root, "sha256", &dataset->digest));
    BT_TRY(read_digest(path, root, "tokenizer_sha256", &dataset->tokenizer));
    BT_TRY(read_count(path, root, "vocab", &dataset->vocab));
    BT_TRY(read_split(dataset, path, root, false));
    BT_TRY(read_split(dataset, path, root, true));
    return read_sources(dataset, path, root);
}

bt_status bt_dataset_read_json(bt_dataset *dataset, const char *path)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    BT_TRY(bt_file_read(path, &bytes, &size_bytes));
    const char *stop = NULL; // the text ends at the zero byte that bt_file_read adds
    cJSON *root = cJSON_ParseWithLengthOpts(bytes, size_bytes + 1, &stop, true);
    bt_status status = BT_OK;
    if (!root) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "%s: not JSON at byte %td", path,
                          stop ? stop - (const char *)bytes : 0);
    }
    status = status == BT_OK ? read_root(dataset, path, root) : status;
    cJSON_Delete(root);
    bt_mem_free(bytes);
    return status;
}
