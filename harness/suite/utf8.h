// harness/suite/utf8.h - validates UTF-8
#ifndef BT_HARNESS_SUITE_UTF8_H
#define BT_HARNESS_SUITE_UTF8_H

#include <stddef.h>

// Bytes of the code point at the start of zero-terminated `text`, 1 to 4; 0 if it is invalid: a
// stray or missing continuation, an overlong form, a surrogate, or beyond U+10FFFF.
size_t bt_utf8_length(const char *text);

#endif
