// harness/record/keep.h - copies texts to an arena
#ifndef BT_HARNESS_RECORD_KEEP_H
#define BT_HARNESS_RECORD_KEEP_H

#include "framework/base/mem.h"
#include "framework/base/str.h"

// A copy of a text; NULL becomes "".
BT_CHECKED bt_status bt_keep(bt_arena *arena, const char *text, const char **out);
// A copy of its first `length` bytes.
BT_CHECKED bt_status bt_keep_part(bt_arena *arena, const char *text, size_t length,
                                  const char **out);
// A text made as printf does.
BT_CHECKED bt_status bt_keep_format(bt_arena *arena, const char **out, const char *format, ...)
    BT_PRINTF(3, 4);
// A copy of a string, which is released in any case, also on failure.
BT_CHECKED bt_status bt_keep_str(bt_arena *arena, bt_str *string, const char **out);

#endif
