// harness/text/table.h - a table: built once, written as text, Markdown or HTML
//
// First the heads, then cells row by row; a short last row is filled with empty cells. In a format
// '|' separates cells and '~' a cell from its note; both are plain characters in what %s inserts.
// A failed allocation sticks, and goes to the status of `out`. What writes a table releases it.
#ifndef BT_HARNESS_TEXT_TABLE_H
#define BT_HARNESS_TEXT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/str.h"
#include "harness/text/format.h"

enum { BT_TABLE_COLUMNS = 24 };

// Parts of a cell besides its text. Only HTML shows the last four.
typedef enum bt_cell_part {
    BT_CELL_TEXT,
    BT_CELL_NOTE,       // an interval, a remark: muted; a separate column if the head has one
    BT_CELL_LINK,       // target of the text's link
    BT_CELL_MARKUP,     // in place of text and note, not escaped
    BT_CELL_ATTRIBUTES, // of the cell's element: " title=x"
    BT_CELL_ROW,        // attributes of the row's element
    BT_CELL_PARTS
} bt_cell_part;

typedef struct bt_table_cell {
    size_t parts[BT_CELL_PARTS]; // offset of each in `bytes`; 0: none
    double value;                // sort key of a number
    bool number;                 // has a value
} bt_table_cell;

typedef struct bt_table {
    bt_text name;   // HTML: of the table, "" for none
    bt_text row_id; // HTML: a row's id is this and its first cell, which links to it; "": none
    int64_t shown;  // HTML: show at most this many rows, evenly spaced, and all as CSV; 0: all
    bt_str bytes;   // the texts, each with its terminator
    bt_table_cell *cells; // [count], the heads first
    int64_t count, capacity;
    int columns;
    bool right[BT_TABLE_COLUMNS]; // numbers
    bool folds[BT_TABLE_COLUMNS]; // texts that may continue on further lines
    bool noted[BT_TABLE_COLUMNS]; // the head has a note: in text and HTML it becomes the head of a
                                  // column
    int width;                    // text: columns of the terminal; 0: any number
    int least[BT_TABLE_COLUMNS];  // text: [least_count], omitted first if the table is wider
    int least_count;
} bt_table;

// "case|>time~95 %|verdict": '>' aligns to the right, for our own numbers, which are not escaped in
// Markdown; '<' marks a text that may continue on further lines, if a table is fitted. Further
// calls add columns. As text, a row of empty heads is omitted. Conversions are those of
// bt_escape_format.
void bt_table_heads(bt_table *table, const char *format, ...) BT_PRINTF(2, 3);
// The next cells.
void bt_table_cells(bt_table *table, const char *format, ...) BT_PRINTF(2, 3);
// The next cell: a value in its unit, with its interval as note if low and high are known; "-" if
// the value is unknown.
void bt_table_interval(bt_table *table, bt_unit unit, double value, double low, double high);
void bt_table_number(bt_table *table, bt_unit unit, double value);
// Begins a part of the last added cell: text appended until the next call for this table belongs to
// it.
bt_str *bt_table_part(bt_table *table, bt_cell_part part);

// As text, fits the table into `width` columns of a terminal (0: any number). First the columns
// marked with '<' are made narrower, down to 16 or their longest words. Then columns with the heads
// `least`, "kernel|rate", are omitted in this order as far as necessary. If that is not sufficient,
// the first column is printed on lines of its own, above the others; then each cell on a line,
// after its head. Call after the heads.
void bt_table_fit(bt_table *table, int width, const char *least);

// Aligned columns, each row indented by `indent` spaces, columns two spaces apart, no trailing
// spaces. Widths count code points.
BT_CHECKED bt_status bt_table_print(bt_table *table, int indent, bt_str *out);
void bt_table_markdown(bt_table *table, bt_str *out);
void bt_table_html(bt_table *table, bt_str *out);
void bt_table_release(bt_table *table);

#endif
