// framework/base/str.h - a growing string: build text piece by piece, check once
//
// A failed append is sticky: later appends do nothing and bt_str_status() reports it. So a caller
// checks one status after many appends.
#ifndef BT_BASE_STR_H
#define BT_BASE_STR_H

#include <stddef.h>

#include "framework/base/status.h"

typedef struct bt_str {
    char *text;            // owned; NULL or zero-terminated
    size_t length_bytes;   // without the terminator
    size_t capacity_bytes; // of text
    bt_status status;      // first failure, BT_OK until then
} bt_str;

void bt_str_append(bt_str *string, const char *text);
void bt_str_append_bytes(bt_str *string, const void *bytes, size_t size_bytes);
void bt_str_format(bt_str *string, const char *format, ...) BT_PRINTF(2, 3);
// Empties the string and keeps its memory.
void bt_str_clear(bt_str *string);
void bt_str_release(bt_str *string);
// The text, "" when empty. Owned by the string, valid until the next append.
const char *bt_str_text(const bt_str *string);
BT_CHECKED bt_status bt_str_status(const bt_str *string);
// Moves the text to the caller (bt_mem_free) and leaves the string empty.
BT_CHECKED bt_status bt_str_take(bt_str *string, char **text);

#endif
