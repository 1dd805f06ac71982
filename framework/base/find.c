// framework/base/find.c - the row of a table that has a given text
#include "framework/base/find.h"

#include <string.h>

int64_t bt_find(const void *rows, int64_t count, size_t row_bytes, size_t text_offset,
                const char *word)
{
    const char *at = rows;
    for (int64_t i = 0; word && i < count; i++, at += row_bytes) {
        const char *text = NULL;
        memcpy(&text, at + text_offset, sizeof text);
        if (strcmp(text, word) == 0) {
            return i;
        }
    }
    return -1;
}
