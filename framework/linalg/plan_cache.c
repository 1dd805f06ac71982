// framework/linalg/plan_cache.c - measured choices, stored in a file between runs
#include "framework/linalg/plan_cache.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"

enum { FORMAT = 1 };

struct bt_plan_cache {
    bt_str path, build, device; // path "": no file
    cJSON *plans;               // owned: an object, by key
    bt_str warning;
};

static bt_status no_memory(void)
{
    return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for measured plans");
}

static const char *text_at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool read_choice(const cJSON *item, bt_planned *out)
{
    const cJSON *time = cJSON_GetObjectItemCaseSensitive(item, "time_ns");
    out->kernel = text_at(item, "kernel");
    out->plan = text_at(item, "plan");
    if (!cJSON_IsNumber(time) || !(time->valuedouble >= 0) || !(time->valuedouble < 1e18)) {
        return false;
    }
    out->time_ns = (int64_t)time->valuedouble;
    return out->kernel && out->plan;
}

// The reason why a file cannot be used; NULL: it can.
static const char *complaint(const bt_plan_cache *cache, const cJSON *root)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    const cJSON *plans = cJSON_GetObjectItemCaseSensitive(root, "plans");
    const char *build = text_at(root, "build"), *device = text_at(root, "device");
    bt_planned choice;
    if (!cJSON_IsNumber(format) || format->valueint != FORMAT || !build || !device ||
        !cJSON_IsObject(plans)) {
        return "is damaged";
    }
    for (const cJSON *item = plans->child; item; item = item->next) {
        if (!read_choice(item, &choice)) {
            return "is damaged";
        }
    }
    return strcmp(build, bt_str_text(&cache->build)) != 0     ? "was written by another build"
           : strcmp(device, bt_str_text(&cache->device)) != 0 ? "was measured on another device"
                                                              : NULL;
}

// Copies the file's choices whose keys have none in memory.
static bt_status take_over(bt_plan_cache *cache, cJSON *root)
{
    cJSON *theirs = cJSON_GetObjectItemCaseSensitive(root, "plans");
    for (cJSON *item = theirs->child; item;) {
        cJSON *next = item->next;
        if (!cJSON_HasObjectItem(cache->plans, item->string)) {
            cJSON *mine = cJSON_Duplicate(item, true);
            if (!mine || !cJSON_AddItemToObject(cache->plans, item->string, mine)) {
                cJSON_Delete(mine);
                return no_memory();
            }
        }
        item = next;
    }
    return BT_OK;
}

static void warn(bt_plan_cache *cache, const char *what)
{
    bt_str_clear(&cache->warning);
    bt_str_format(&cache->warning, "%s %s", bt_str_text(&cache->path), what);
}

// Reads the file. Errors  OUT_OF_MEMORY
static bt_status read_file(bt_plan_cache *cache)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    const char *path = bt_str_text(&cache->path);
    if (!*path || !bt_file_exists(path)) {
        return BT_OK;
    }
    if (bt_file_read(path, &bytes, &size_bytes) != BT_OK) {
        warn(cache, "cannot be read: products will be measured again");
        bt_error_clear();
        return BT_OK;
    }
    cJSON *root = cJSON_ParseWithOpts(bytes, NULL, true);
    const char *wrong = root ? complaint(cache, root) : "is damaged";
    bt_status status = BT_OK;
    if (wrong) {
        warn(cache, wrong);
        bt_str_append(&cache->warning, ": products will be measured again");
    } else {
        status = take_over(cache, root);
    }
    cJSON_Delete(root);
    bt_mem_free(bytes);
    return status;
}

bt_status bt_plan_cache_open(const char *path, const char *build, const char *device,
                             bt_plan_cache **out)
{
    void *block = NULL;
    *out = NULL;
    BT_TRY(bt_mem_alloc(1, sizeof(bt_plan_cache), &block));
    bt_plan_cache *cache = block;
    bt_str_append(&cache->path, path ? path : "");
    bt_str_append(&cache->build, build);
    bt_str_append(&cache->device, device);
    cache->plans = cJSON_CreateObject();
    bool whole = bt_str_status(&cache->path) == BT_OK && bt_str_status(&cache->build) == BT_OK &&
                 bt_str_status(&cache->device) == BT_OK && cache->plans;
    bt_status status = whole ? read_file(cache) : no_memory();
    if (status != BT_OK) {
        bt_plan_cache_close(cache);
        return status;
    }
    *out = cache;
    return BT_OK;
}

void bt_plan_cache_close(bt_plan_cache *cache)
{
    if (cache) {
        bt_str_release(&cache->path);
        bt_str_release(&cache->build);
        bt_str_release(&cache->device);
        bt_str_release(&cache->warning);
        cJSON_Delete(cache->plans);
        bt_mem_free(cache);
    }
}

bool bt_plan_cache_find(const bt_plan_cache *cache, const char *key, bt_planned *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(cache->plans, key);
    return item && read_choice(item, out);
}

static bt_status write_file(bt_plan_cache *cache)
{
    cJSON *root = cJSON_CreateObject();
    char *text = NULL;
    // The document borrows the plans and returns them.
    if (root && cJSON_AddNumberToObject(root, "format", FORMAT) &&
        cJSON_AddStringToObject(root, "build", bt_str_text(&cache->build)) &&
        cJSON_AddStringToObject(root, "device", bt_str_text(&cache->device)) &&
        cJSON_AddItemReferenceToObject(root, "plans", cache->plans)) {
        text = cJSON_Print(root);
    }
    cJSON_Delete(root);
    if (!text) {
        return no_memory();
    }
    if (bt_file_write(bt_str_text(&cache->path), text, strlen(text)) != BT_OK) {
        bt_str_clear(&cache->warning);
        bt_str_format(&cache->warning, "measured plans were not saved: %s", bt_error_message());
        bt_error_clear();
    }
    cJSON_free(text);
    return BT_OK;
}

bt_status bt_plan_cache_add(bt_plan_cache *cache, const char *key, const bt_planned *choice)
{
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddStringToObject(item, "kernel", choice->kernel) ||
        !cJSON_AddStringToObject(item, "plan", choice->plan) ||
        !cJSON_AddNumberToObject(item, "time_ns", (double)choice->time_ns)) {
        cJSON_Delete(item);
        return no_memory();
    }
    cJSON_DeleteItemFromObjectCaseSensitive(cache->plans, key);
    if (!cJSON_AddItemToObject(cache->plans, key, item)) {
        cJSON_Delete(item);
        return no_memory();
    }
    if (cache->path.length_bytes == 0) {
        return BT_OK;
    }
    BT_TRY(read_file(cache));
    return write_file(cache);
}

const char *bt_plan_cache_warning(const bt_plan_cache *cache)
{
    return bt_str_text(&cache->warning);
}
