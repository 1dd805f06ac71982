// harness/record/keep.c - copies texts to an arena
#include "harness/record/keep.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bt_status bt_keep_part(bt_arena *arena, const char *text, size_t length, const char **out)
{
    void *copy = NULL;
    BT_TRY(bt_arena_alloc(arena, length + 1, &copy)); // zeroed
    memcpy(copy, text, length);
    *out = copy;
    return BT_OK;
}

bt_status bt_keep(bt_arena *arena, const char *text, const char **out)
{
    text = text ? text : "";
    return bt_keep_part(arena, text, strlen(text), out);
}

bt_status bt_keep_format(bt_arena *arena, const char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = NULL;
    BT_TRY(BT_ARENA_ARRAY(arena, length + 1, &text));
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    *out = text;
    return BT_OK;
}

bt_status bt_keep_str(bt_arena *arena, bt_str *string, const char **out)
{
    bt_status status = bt_str_status(string);
    BT_IF_OK(status, bt_keep_part(arena, bt_str_text(string), string->length_bytes, out));
    bt_str_release(string);
    return status;
}
