// harness/text/table.c - the cells of a table; table_forms.c writes them
#include "harness/text/table.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/escape.h"

enum { KEPT_CELL = 1, KEPT_NOTE = 2 }; // control bytes that represent '|' and '~'

// ---- cells -------------------------------------------------------------------------------------

static void add(bt_table *table)
{
    if (table->bytes.status == BT_OK) {
        table->bytes.status = BT_MEM_GROW(table->count + 1, &table->capacity, &table->cells);
    }
    if (table->bytes.status == BT_OK) {
        table->cells[table->count++] = (bt_table_cell){0};
    }
}

static size_t begin(bt_table *table)
{
    bt_str_append_bytes(&table->bytes, "", 1); // ends the previous part
    return table->bytes.length_bytes;
}

bt_str *bt_table_part(bt_table *table, bt_cell_part part)
{
    if (table->count > 0) {
        table->cells[table->count - 1].parts[part] = begin(table);
    }
    return &table->bytes;
}

static void append_kept(bt_str *out, const char *text)
{
    for (; *text; text++) {
        const char kept = *text == '|' ? KEPT_CELL : *text == '~' ? KEPT_NOTE : *text;
        bt_str_append_bytes(out, &kept, 1);
    }
}

static void add_part(bt_table *table, bt_cell_part part, const char *text, size_t length)
{
    bt_str *bytes = bt_table_part(table, part);
    for (const char *at = text; at < text + length; at++) {
        const char plain = *at == KEPT_CELL ? '|' : *at == KEPT_NOTE ? '~' : *at;
        bt_str_append_bytes(bytes, &plain, 1);
    }
}

static void add_cells(bt_table *table, const char *format, va_list arguments)
{
    BT_SCOPED(bt_str) line = {0};
    bt_escape_format(&line, append_kept, format, arguments);
    const char *at = bt_str_text(&line);
    for (bool more = true; more; at++) {
        const size_t text = strcspn(at, "|~"), whole = strcspn(at, "|");
        add(table);
        add_part(table, BT_CELL_TEXT, at, text);
        if (text < whole) {
            add_part(table, BT_CELL_NOTE, at + text + 1, whole - text - 1);
        }
        more = at[whole] != '\0';
        at += whole;
    }
    table->bytes.status = line.status != BT_OK ? line.status : table->bytes.status;
}

void bt_table_cells(bt_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_cells(table, format, arguments);
    va_end(arguments);
}

void bt_table_heads(bt_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_cells(table, format, arguments);
    va_end(arguments);
    while (table->bytes.status == BT_OK && table->columns < table->count &&
           table->columns < BT_TABLE_COLUMNS) {
        size_t *parts = table->cells[table->columns].parts;
        const char mark = table->bytes.text[parts[BT_CELL_TEXT]];
        table->right[table->columns] = mark == '>';
        table->folds[table->columns] = mark == '<';
        parts[BT_CELL_TEXT] += mark == '>' || mark == '<';
        table->noted[table->columns++] = parts[BT_CELL_NOTE] != 0;
    }
}

void bt_table_fit(bt_table *table, int width, const char *least)
{
    table->width = width;
    while (*least && table->bytes.status == BT_OK) {
        const size_t length = strcspn(least, "|");
        for (int c = 0; c < table->columns; c++) {
            const char *head = table->bytes.text + table->cells[c].parts[BT_CELL_TEXT];
            if (strlen(head) == length && strncmp(head, least, length) == 0) {
                table->least[table->least_count++] = c;
            }
        }
        least += length + (least[length] == '|');
    }
}

void bt_table_number(bt_table *table, bt_unit unit, double value)
{
    bt_table_interval(table, unit, value, (double)NAN, (double)NAN);
}

void bt_table_interval(bt_table *table, bt_unit unit, double value, double low, double high)
{
    bt_text number, interval;
    bt_format_interval(unit, value, low, high, &number, &interval);
    bt_table_cells(table, interval.text[0] ? "%s~%s" : "%s", number.text, interval.text);
    if (table->count > 0) {
        table->cells[table->count - 1].value = isnan(value) ? -1.0 : value;
        table->cells[table->count - 1].number = true;
    }
}

void bt_table_release(bt_table *table)
{
    bt_str_release(&table->bytes);
    bt_mem_free(table->cells);
    *table = (bt_table){0};
}
