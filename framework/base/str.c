// framework/base/str.c - growing string over bt_mem
#include "framework/base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/mem.h"

static int reserve(bt_str *string, size_t more_bytes)
{
    if (string->status != BT_OK) {
        return 0;
    }
    if (more_bytes > SIZE_MAX / 4) {
        string->status =
            bt_error(BT_STATUS_OUT_OF_MEMORY, "extending a string by %zu bytes", more_bytes);
        return 0;
    }
    size_t needed = string->length_bytes + more_bytes + 1;
    if (needed <= string->capacity_bytes) {
        return 1;
    }
    size_t capacity = string->capacity_bytes * 2 > needed ? string->capacity_bytes * 2 : needed;
    capacity = capacity < 64 ? 64 : capacity;
    void *block = string->text;
    string->status = bt_mem_resize(&block, capacity, 1);
    if (string->status != BT_OK) {
        return 0;
    }
    string->text = block;
    string->capacity_bytes = capacity;
    return 1;
}

void bt_str_append_bytes(bt_str *string, const void *bytes, size_t size_bytes)
{
    if (reserve(string, size_bytes)) {
        if (size_bytes) {
            memcpy(string->text + string->length_bytes, bytes, size_bytes);
        }
        string->length_bytes += size_bytes;
        string->text[string->length_bytes] = '\0';
    }
}

void bt_str_append(bt_str *string, const char *text)
{
    bt_str_append_bytes(string, text, strlen(text));
}

void bt_str_format(bt_str *string, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list counting;
    va_copy(counting, arguments);
    int length = vsnprintf(NULL, 0, format, counting);
    va_end(counting);
    if (length > 0 && reserve(string, (size_t)length)) {
        (void)vsnprintf(string->text + string->length_bytes, (size_t)length + 1, format, arguments);
        string->length_bytes += (size_t)length;
    }
    va_end(arguments);
}

void bt_str_clear(bt_str *string)
{
    string->length_bytes = 0;
    string->status = BT_OK;
    if (string->text) {
        string->text[0] = '\0';
    }
}

void bt_str_release(bt_str *string)
{
    bt_mem_free(string->text);
    memset(string, 0, sizeof *string);
}

const char *bt_str_text(const bt_str *string) { return string->text ? string->text : ""; }

bt_status bt_str_status(const bt_str *string) { return string->status; }

bt_status bt_str_take(bt_str *string, char **text)
{
    *text = NULL;
    BT_TRY(bt_str_status(string));
    if (!string->text) {
        BT_TRY(bt_mem_strdup("", text));
        return BT_OK;
    }
    *text = string->text;
    memset(string, 0, sizeof *string);
    return BT_OK;
}
