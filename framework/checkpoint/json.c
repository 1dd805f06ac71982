// framework/checkpoint/json.c - see json.h
#include "framework/checkpoint/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/data/utf8.h"

static const double EXACT = 9007199254740992.0; // 2^53: above, doubles skip integers

void bt_json_append(bt_str *json, const char *text)
{
    bt_str_append(json, "\"");
    for (const char *at = text; *at;) {
        size_t plain = 0;
        while ((unsigned char)at[plain] >= 0x20 && at[plain] != '"' && at[plain] != '\\') {
            ++plain;
        }
        bt_str_append_bytes(json, at, plain);
        at += plain;
        if (*at) {
            bt_str_format(json, "\\u%04x", (unsigned)(unsigned char)*at);
            ++at;
        }
    }
    bt_str_append(json, "\"");
}

// Input that cJSON accepts or misreads: bytes that are not text, and \u0000 or \u with other than
// hexadecimal digits, which it reads as zero.
static bt_status check_text(const char *path, const char *text, size_t size_bytes,
                            uint64_t base_bytes)
{
    size_t valid = bt_utf8_valid_prefix(text, size_bytes);
    if (valid < size_bytes) {
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: byte %llu is not valid UTF-8", path,
                        (unsigned long long)(base_bytes + valid));
    }
    for (size_t i = 0; i < size_bytes; ++i) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') {
            return bt_error(BT_STATUS_CORRUPT_DATA, "%s: control byte 0x%02x at byte %llu", path,
                            byte, (unsigned long long)(base_bytes + i));
        }
        if (byte != '\\' || ++i >= size_bytes || text[i] != 'u') {
            continue;
        }
        char digits[5] = {0};
        memcpy(digits, text + i + 1, size_bytes - i - 1 < 4 ? size_bytes - i - 1 : 4);
        if (strspn(digits, "0123456789abcdefABCDEF") != 4 || strcmp(digits, "0000") == 0) {
            return bt_error(BT_STATUS_CORRUPT_DATA, "%s: bad escape \\u%s at byte %llu", path,
                            digits, (unsigned long long)(base_bytes + i - 1));
        }
    }
    return BT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bt_status check_keys(const char *path, const cJSON *object)
{
    int64_t count = cJSON_GetArraySize(object);
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)count + 1, sizeof(char *), &block));
    const char **keys = block;
    int64_t used = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, object) {
        keys[used++] = item->string;
    }
    qsort(keys, (size_t)used, sizeof *keys, compare_keys);
    bt_status status = BT_OK;
    for (int64_t i = 1; i < used && status == BT_OK; ++i) {
        if (strcmp(keys[i], keys[i - 1]) == 0) {
            status = bt_error(BT_STATUS_CORRUPT_DATA, "%s: the name \"%.100s\" occurs twice", path,
                              keys[i]);
        }
    }
    bt_mem_free(block);
    return status;
}

// cJSON limits the nesting depth.
static bt_status check_objects(const char *path, const cJSON *item)
{
    if (cJSON_IsObject(item)) {
        BT_TRY(check_keys(path, item));
    }
    const cJSON *child = NULL;
    cJSON_ArrayForEach(child, item) {
        if (child->child) {
            BT_TRY(check_objects(path, child));
        }
    }
    return BT_OK;
}

bt_status bt_json_read(const char *path, const char *text, size_t size_bytes, uint64_t base_bytes,
                       cJSON **root)
{
    *root = NULL;
    BT_TRY(check_text(path, text, size_bytes, base_bytes));
    const char *stop = NULL;
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, size_bytes, &stop, false);
    size_t at = stop ? (size_t)(stop - text) : 0;
    if (!parsed || !cJSON_IsObject(parsed)) {
        cJSON_Delete(parsed);
        return bt_error(BT_STATUS_CORRUPT_DATA, "%s: not a JSON object at byte %llu", path,
                        (unsigned long long)(base_bytes + (parsed ? 0 : at)));
    }
    bt_status status = BT_OK;
    size_t spaces = at;
    while (spaces < size_bytes && strchr(" \t\r\n", text[spaces])) {
        ++spaces;
    }
    if (spaces < size_bytes) {
        status = bt_error(BT_STATUS_CORRUPT_DATA, "%s: bytes after the JSON object at byte %llu",
                          path, (unsigned long long)(base_bytes + spaces));
    }
    status = status == BT_OK ? check_objects(path, parsed) : status;
    if (status != BT_OK) {
        cJSON_Delete(parsed);
        return status;
    }
    *root = parsed;
    return BT_OK;
}

bool bt_json_i64(const cJSON *item, int64_t *value)
{
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= EXACT) ||
        floor(item->valuedouble) != item->valuedouble) {
        return false;
    }
    *value = (int64_t)item->valuedouble;
    return true;
}

bool bt_json_u64(const cJSON *item, uint64_t *value)
{
    int64_t whole = 0;
    if (!bt_json_i64(item, &whole) || whole < 0) {
        return false;
    }
    *value = (uint64_t)whole;
    return true;
}
