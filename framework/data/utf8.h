// framework/data/utf8.h - validates UTF-8 and converts Windows-1252 to it
#ifndef BT_DATA_UTF8_H
#define BT_DATA_UTF8_H

#include <stddef.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

// Length of the longest valid prefix: size_bytes if all is valid UTF-8 (no overlong forms, no
// surrogates, nothing above U+10FFFF), otherwise the offset of the first bad sequence.
size_t bt_utf8_valid_prefix(const void *bytes, size_t size_bytes);
// Appends Windows-1252 text (of which printable ISO 8859-1 is a part) as UTF-8.
// Errors  CORRUPT_DATA (byte offset of a byte that is undefined in Windows-1252)
BT_CHECKED bt_status bt_utf8_from_windows_1252(const void *bytes, size_t size_bytes, bt_str *text);

#endif
