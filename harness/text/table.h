// harness/text/table.h - aligned columns of text
//
// Cells are given row by row; a short last row is filled with empty cells. Widths count code
// points. A failed allocation sticks and is reported by bt_table_print.
#ifndef BT_HARNESS_TEXT_TABLE_H
#define BT_HARNESS_TEXT_TABLE_H

#include "framework/base/str.h"

enum { BT_TABLE_COLUMNS = 16 };

typedef struct bt_table {
    const char *align; // borrowed; a letter per column: l or r; at most BT_TABLE_COLUMNS
    bt_str cells;      // each with its terminator
    int count;         // of cells
} bt_table;

void bt_table_cell(bt_table *table, const char *format, ...) BT_PRINTF(2, 3);
// Several cells, up to a NULL.
void bt_table_row(bt_table *table, const char *const cells[]);
// The cells of "run|suite|started".
void bt_table_heads(bt_table *table, const char *heads);

#define BT_TABLE_ROW(table, ...) bt_table_row(table, (const char *const[]){__VA_ARGS__, NULL})

// Appends the rows to `out`, each behind `indent` spaces, columns two spaces apart, no spaces at
// line ends; then empties the table.
BT_CHECKED bt_status bt_table_print(bt_table *table, int indent, bt_str *out);
void bt_table_release(bt_table *table);

#endif
