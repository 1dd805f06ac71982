// harness/text/paint.h - colours verdicts and states, draws fractions as bars, in terminal text
#ifndef BT_HARNESS_TEXT_PAINT_H
#define BT_HARNESS_TEXT_PAINT_H

#include "framework/base/str.h"

// Appends the text with verdicts (SLOWER) and states (passed, as a table cell) in colour, and with
// a bar after each row of a table that has a column "of copy", if it fits into `columns` of the
// terminal (0: any number). Nothing is removed: colour repeats the words.
void bt_paint_text(const char *text, int columns, bt_str *out);

#endif
