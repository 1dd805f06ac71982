// harness/text/table.c - aligned columns
#include "harness/text/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { GAP = 2, CELL_BYTES = 512 };

void bt_table_cell(bt_table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bt_str_append_bytes(&table->cells, text, strlen(text) + 1);
    table->count++;
}

void bt_table_row(bt_table *table, const char *const cells[])
{
    for (int i = 0; cells[i]; i++) {
        bt_table_cell(table, "%s", cells[i]);
    }
}

void bt_table_heads(bt_table *table, const char *heads)
{
    for (const char *end = heads; *end; heads = end + 1) {
        end = heads + strcspn(heads, "|");
        bt_table_cell(table, "%.*s", (int)(end - heads), heads);
    }
}

static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void print_cell(bt_str *out, const char *text, int width, bool right, int *pending)
{
    int gap = width - width_of(text);
    *pending += right ? gap : 0;
    if (text[0]) {
        bt_str_format(out, "%*s%s", *pending, "", text);
        *pending = 0;
    }
    *pending += right ? 0 : gap;
    *pending += GAP;
}

bt_status bt_table_print(bt_table *table, int indent, bt_str *out)
{
    int widths[BT_TABLE_COLUMNS] = {0};
    int columns = (int)strlen(table->align);
    const char *cell = bt_str_text(&table->cells);
    BT_TRY(bt_str_status(&table->cells));
    for (int i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        int width = width_of(cell), column = i % columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    cell = bt_str_text(&table->cells);
    int pending = indent;
    for (int i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        int column = i % columns;
        print_cell(out, cell, widths[column], table->align[column] == 'r', &pending);
        if (column == columns - 1 || i == table->count - 1) {
            bt_str_append(out, "\n");
            pending = indent;
        }
    }
    table->count = 0;
    bt_str_clear(&table->cells);
    return bt_str_status(out);
}

void bt_table_release(bt_table *table)
{
    bt_str_release(&table->cells);
    table->count = 0;
}
