// harness/report/marks.h - a shape and a word for every state and verdict, in addition to colour
#ifndef BT_HARNESS_REPORT_MARKS_H
#define BT_HARNESS_REPORT_MARKS_H

#include <stdbool.h>

#include "framework/base/str.h"
#include "harness/report/ratios.h"
#include "harness/text/table.h"

typedef struct report_mark {
    const char *word;  // "SLOWER", "passed"; as stored
    const char *shape; // one character, UTF-8
    const char *tone;  // class of the style sheet: good, bad, warn, calm
    int weight;        // 0 good, 1 neutral, 2 notable, 3 bad; worst first in a summary
} report_mark;

// The mark of a word; a default one for unknown words.
const report_mark *bt_mark_of(const char *word);
// Appends shape and word as HTML.
void bt_mark_write(const char *word, bt_str *out);
// The next cell of a table, with the same in HTML.
void bt_mark_cell(const char *word, bt_table *table);
// Appends a tile: a mark and how often it occurs; `list`: the id that it links to, "" for none.
void bt_mark_tile(const report_mark *mark, const char *list, long long count, bt_str *out);
// Appends a tile per verdict in the list, worst first. False if there are none.
bool bt_marks_tiles(const ratio_list *list, bt_str *out);
// Adds the same as rows: verdict, count.
void bt_marks_rows(const ratio_list *list, bt_table *table);
// Appends the same for some rows in a line, as shapes and numbers; the words are available as
// tooltips and to screen readers.
void bt_marks_line(const ratio_row *rows, int64_t count, bt_str *out);

#endif
