// tests/harness/schema_check.c - JSON Schema, as much as is used
#include "tests/harness/schema_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static char complaint[512];

static bool fail(const char *path, const char *why)
{
    (void)snprintf(complaint, sizeof complaint, "%s: %s", path[0] ? path : "top", why);
    return false;
}

static bool has_type(const cJSON *value, const char *type)
{
    return (strcmp(type, "object") == 0 && cJSON_IsObject(value)) ||
           (strcmp(type, "array") == 0 && cJSON_IsArray(value)) ||
           (strcmp(type, "string") == 0 && cJSON_IsString(value)) ||
           (strcmp(type, "boolean") == 0 && cJSON_IsBool(value)) ||
           (strcmp(type, "null") == 0 && cJSON_IsNull(value)) ||
           (strcmp(type, "number") == 0 && cJSON_IsNumber(value)) ||
           (strcmp(type, "integer") == 0 && cJSON_IsNumber(value) &&
            floor(value->valuedouble) == value->valuedouble);
}

static bool is_one_of(const cJSON *list, const cJSON *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (cJSON_Compare(item, value, true)) {
            return true;
        }
    }
    return false;
}

static bool check_type(const cJSON *type, const cJSON *value)
{
    const cJSON *item;
    if (cJSON_IsString(type)) {
        return has_type(value, type->valuestring);
    }
    cJSON_ArrayForEach(item, type) {
        if (has_type(value, item->valuestring)) {
            return true;
        }
    }
    return false;
}

static bool check(const cJSON *root, const cJSON *schema, const cJSON *value, const char *path);

static bool check_members(const cJSON *root, const cJSON *schema, const cJSON *value,
                          const char *path)
{
    const cJSON *properties = cJSON_GetObjectItem(schema, "properties");
    const cJSON *others = cJSON_GetObjectItem(schema, "additionalProperties");
    const cJSON *item;
    char below[256];
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(schema, "required")) {
        if (!cJSON_GetObjectItemCaseSensitive(value, item->valuestring)) {
            (void)snprintf(below, sizeof below, "no '%s'", item->valuestring);
            return fail(path, below);
        }
    }
    cJSON_ArrayForEach(item, value) {
        const cJSON *row = cJSON_GetObjectItemCaseSensitive(properties, item->string);
        (void)snprintf(below, sizeof below, "%s.%s", path, item->string);
        if (!row && cJSON_IsFalse(others)) {
            return fail(below, "not a key of this object");
        }
        row = row ? row : others;
        if (row && cJSON_IsObject(row) && !check(root, row, item, below)) {
            return false;
        }
    }
    return true;
}

static bool check_items(const cJSON *root, const cJSON *schema, const cJSON *value,
                        const char *path)
{
    const cJSON *least = cJSON_GetObjectItem(schema, "minItems");
    const cJSON *most = cJSON_GetObjectItem(schema, "maxItems");
    const cJSON *items = cJSON_GetObjectItem(schema, "items");
    const cJSON *item;
    char below[256];
    int index = 0, size = cJSON_GetArraySize(value);
    if ((least && size < least->valueint) || (most && size > most->valueint)) {
        return fail(path, "too few items, or too many");
    }
    cJSON_ArrayForEach(item, value) {
        (void)snprintf(below, sizeof below, "%s[%d]", path, index++);
        if (items && !check(root, items, item, below)) {
            return false;
        }
    }
    return true;
}

static bool check_keywords(const cJSON *schema, const char *path)
{
    static const char known[] = "|$schema|$ref|$defs|title|description|type|const|enum|properties|"
                                "required|additionalProperties|items|minItems|maxItems|minimum|";
    const cJSON *item;
    cJSON_ArrayForEach(item, schema) {
        char name[64];
        (void)snprintf(name, sizeof name, "|%s|", item->string);
        if (!strstr(known, name)) {
            return fail(path, "the schema has a keyword that this checker does not know");
        }
    }
    return true;
}

static bool check(const cJSON *root, const cJSON *schema, const cJSON *value, const char *path)
{
    const cJSON *ref = cJSON_GetObjectItem(schema, "$ref");
    const cJSON *type = cJSON_GetObjectItem(schema, "type");
    const cJSON *constant = cJSON_GetObjectItem(schema, "const");
    const cJSON *choices = cJSON_GetObjectItem(schema, "enum");
    const cJSON *minimum = cJSON_GetObjectItem(schema, "minimum");
    if (!check_keywords(schema, path)) {
        return false;
    }
    if (ref) {
        const char *name = strrchr(ref->valuestring, '/') + 1;
        const cJSON *target = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "$defs"), name);
        return target ? check(root, target, value, path) : fail(path, "a $ref to nothing");
    }
    if (type && !check_type(type, value)) {
        return fail(path, "of another type");
    }
    if ((constant && !cJSON_Compare(constant, value, true)) ||
        (choices && !is_one_of(choices, value))) {
        return fail(path, "none of the values allowed");
    }
    if (minimum && !(value->valuedouble >= minimum->valuedouble)) {
        return fail(path, "below the minimum");
    }
    return (!cJSON_IsObject(value) || check_members(root, schema, value, path)) &&
           (!cJSON_IsArray(value) || check_items(root, schema, value, path));
}

const char *schema_check(const cJSON *schema, const cJSON *value)
{
    complaint[0] = '\0';
    return check(schema, schema, value, "") ? "" : complaint;
}
