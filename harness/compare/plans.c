// harness/compare/plans.c - compares two JSON texts, leaf by leaf
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/compare/items.h"
#include "harness/record/keep.h"
#include "harness/suite/json.h"

enum { PATH_BYTES = 512 };

bt_status bt_items_add(item_list *list, const char *group, const char *key, const char *left,
                       const char *right, bt_fact_level level)
{
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? list->capacity * 2 : 16;
        void *block = NULL;
        BT_TRY(bt_arena_alloc(list->arena, (size_t)capacity * sizeof *list->items, &block));
        if (list->count > 0) {
            memcpy(block, list->items, (size_t)list->count * sizeof *list->items);
        }
        list->items = block;
        list->capacity = capacity;
    }
    bt_compare_item item = {.level = level};
    BT_TRY(bt_keep(list->arena, group, &item.group));
    BT_TRY(bt_keep(list->arena, key, &item.key));
    BT_TRY(bt_keep(list->arena, left, &item.left));
    BT_TRY(bt_keep(list->arena, right, &item.right));
    list->items[list->count++] = item;
    return BT_OK;
}

// A value as text: strings without quotes, the rest as JSON; "" for none.
static bt_status value_text(bt_arena *arena, const cJSON *value, const char **out)
{
    *out = "";
    if (!value) {
        return BT_OK;
    }
    if (cJSON_IsString(value)) {
        return bt_keep(arena, value->valuestring, out);
    }
    char *text = cJSON_PrintUnformatted(value);
    BT_FAIL_IF(!text, BT_STATUS_OUT_OF_MEMORY, "printing a value of the plan");
    bt_status status = bt_keep(arena, text, out);
    cJSON_free(text);
    return status;
}

static bt_status compare_values(item_list *list, const char *path, const cJSON *left,
                                const cJSON *right);

static bt_status compare_objects(item_list *list, const char *path, const cJSON *left,
                                 const cJSON *right)
{
    char below[PATH_BYTES];
    const cJSON *child;
    const char *dot = path[0] ? "." : "";
    cJSON_ArrayForEach(child, left) {
        (void)snprintf(below, sizeof below, "%s%s%s", path, dot, child->string);
        BT_TRY(compare_values(list, below, child,
                              cJSON_GetObjectItemCaseSensitive(right, child->string)));
    }
    cJSON_ArrayForEach(child, right) {
        if (!cJSON_GetObjectItemCaseSensitive(left, child->string)) {
            (void)snprintf(below, sizeof below, "%s%s%s", path, dot, child->string);
            BT_TRY(compare_values(list, below, NULL, child));
        }
    }
    return BT_OK;
}

static bool all_have_names(const cJSON *array)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(bt_json_get(item, "name"))) {
            return false;
        }
    }
    return true;
}

static const cJSON *find_named(const cJSON *array, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array) {
        if (strcmp(bt_json_text_of(item, "name"), name) == 0) {
            return item;
        }
    }
    return NULL;
}

// Cases are the same if their names are, wherever they stand.
static bt_status compare_named(item_list *list, const char *path, const cJSON *left,
                               const cJSON *right)
{
    char below[PATH_BYTES];
    const cJSON *item;
    cJSON_ArrayForEach(item, left) {
        const char *name = bt_json_text_of(item, "name");
        (void)snprintf(below, sizeof below, "%s[%s]", path, name);
        BT_TRY(compare_values(list, below, item, find_named(right, name)));
    }
    cJSON_ArrayForEach(item, right) {
        const char *name = bt_json_text_of(item, "name");
        if (!find_named(left, name)) {
            (void)snprintf(below, sizeof below, "%s[%s]", path, name);
            BT_TRY(compare_values(list, below, NULL, item));
        }
    }
    return BT_OK;
}

static bt_status compare_arrays(item_list *list, const char *path, const cJSON *left,
                                const cJSON *right)
{
    if (all_have_names(left) && all_have_names(right)) {
        return compare_named(list, path, left, right);
    }
    char below[PATH_BYTES];
    const cJSON *a = left->child, *b = right->child;
    for (int i = 0; a || b; i++) {
        (void)snprintf(below, sizeof below, "%s[%d]", path, i);
        BT_TRY(compare_values(list, below, a, b));
        a = a ? a->next : NULL;
        b = b ? b->next : NULL;
    }
    return BT_OK;
}

static bt_status compare_values(item_list *list, const char *path, const cJSON *left,
                                const cJSON *right)
{
    const char *a = NULL, *b = NULL;
    if (left && right && cJSON_IsObject(left) && cJSON_IsObject(right)) {
        return compare_objects(list, path, left, right);
    }
    if (left && right && cJSON_IsArray(left) && cJSON_IsArray(right)) {
        return compare_arrays(list, path, left, right);
    }
    BT_TRY(value_text(list->arena, left, &a));
    BT_TRY(value_text(list->arena, right, &b));
    return strcmp(a, b) == 0 ? BT_OK : bt_items_add(list, "plan", path, a, b, BT_FACT_INFO);
}

bt_status bt_items_add_plans(item_list *list, const char *left, const char *right)
{
    bt_status status = BT_OK;
    if (strcmp(left, right) == 0) {
        return BT_OK;
    }
    BT_SCOPED(bt_json_doc) a = {0}, b = {0};
    status = bt_json_parse("plan", left, strlen(left), &a);
    BT_IF_OK(status, bt_json_parse("plan", right, strlen(right), &b));
    if (status == BT_OK) {
        status = compare_values(list, "", a.root, b.root);
    } else if (status == BT_STATUS_INVALID_ARGUMENT) {
        status = bt_items_add(list, "plan", "text", left, right, BT_FACT_INFO);
    }
    return status;
}
