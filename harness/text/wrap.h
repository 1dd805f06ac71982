// harness/text/wrap.h - breaks text into lines of a terminal, at words
#ifndef BT_HARNESS_TEXT_WRAP_H
#define BT_HARNESS_TEXT_WRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "framework/base/str.h"

// The number of code points in the first `length` bytes.
int bt_wrap_width(const char *text, size_t length);
// The number of bytes of the first line of `text` in `columns` code points, at least 1; *rest: what
// follows it, after spaces or a newline. A longer word is a line of its own; `cuts`: it is cut.
size_t bt_wrap_line(const char *text, int columns, bool cuts, const char **rest);
enum { BT_WRAP_LABEL = -1 };

// Appends a text. What follows on a line longer than `columns` (0: any length) continues on the
// next, indented by `indent`, or with BT_WRAP_LABEL below the text of the line's label, as in
// "note    TEXT" and "run: TEXT", otherwise by the line's own indentation.
void bt_wrap_text(const char *text, int columns, int indent, bt_str *out);
// Breaks what was appended to `out` from `start` on, with BT_WRAP_LABEL.
void bt_wrap_from(bt_str *out, size_t start, int columns);

#endif
