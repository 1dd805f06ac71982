// harness/text/paint.h - verdicts and states in colour, shares as bars: text for a terminal
#ifndef BT_HARNESS_TEXT_PAINT_H
#define BT_HARNESS_TEXT_PAINT_H

#include "framework/base/str.h"

// Appends the text with verdicts (SLOWER) and states (passed, where it is a cell of a table) in
// colour, and with a bar behind each row of a table that has a column "of copy". Nothing is
// removed: colour repeats what the words say.
void bt_paint_text(const char *text, bt_str *out);

#endif
