// harness/text/table_forms.c - writes a table as text, as Markdown, and as HTML with its CSV
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/escape.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

enum { GAP = 2, FOLD_LEAST = 16 };

static const char *part_of(const bt_table *table, int64_t cell, bt_cell_part part)
{
    const size_t at = table->cells[cell].parts[part];
    return at > 0 ? table->bytes.text + at : "";
}

// A failure while the table was filled; its offsets are then invalid.
static bool failed(bt_table *table, bt_str *out)
{
    const bt_status status = table->bytes.status;
    if (out->status == BT_OK) {
        out->status = status;
    }
    if (status != BT_OK) {
        bt_table_release(table);
    }
    return status != BT_OK;
}

// ---- text --------------------------------------------------------------------------------------

static int width_of(const char *text) { return bt_wrap_width(text, strlen(text)); }

// `length` bytes of a text.
static void print_cell(bt_str *out, const char *text, size_t length, int width, bool right,
                       int *pending)
{
    int gap = width - bt_wrap_width(text, length);
    *pending += right ? gap : 0;
    if (length > 0) {
        bt_str_format(out, "%*s%.*s", *pending, "", (int)length, text);
        *pending = 0;
    }
    *pending += right ? 0 : gap;
    *pending += GAP;
}

static bool has_heads(const bt_table *table)
{
    bool any = false;
    for (int c = 0; c < table->columns; c++) {
        any = any || part_of(table, c, BT_CELL_TEXT)[0];
    }
    return any;
}

// How a table is printed: widths of texts and notes, omitted columns, and whether the first column
// or each cell has lines of its own.
typedef struct text_layout {
    int widths[BT_TABLE_COLUMNS][2];
    int least[BT_TABLE_COLUMNS]; // width down to which a column folds: its longest word, and 16
    bool omitted[BT_TABLE_COLUMNS];
    bool stacked, listed;
} text_layout;

// Longer words, such as digests, are cut.
static int longest_word(const char *text)
{
    enum { WORD_MAX = 24 };
    int longest = 0;
    for (const char *at = text; *at; at += strspn(at, " \n")) {
        const size_t length = strcspn(at, " \n");
        const int width = bt_wrap_width(at, length);
        longest = width > longest ? width : longest;
        at += length;
    }
    return longest < WORD_MAX ? longest : WORD_MAX;
}

static void measure(const bt_table *table, text_layout *layout)
{
    for (int64_t i = has_heads(table) ? 0 : table->columns; i < table->count; i++) {
        const int column = (int)(i % table->columns);
        for (int part = BT_CELL_TEXT; part <= BT_CELL_NOTE; part++) {
            const int width = width_of(part_of(table, i, (bt_cell_part)part));
            int *widest = &layout->widths[column][part];
            *widest = width > *widest ? width : *widest;
        }
        const int word = longest_word(part_of(table, i, BT_CELL_TEXT));
        layout->least[column] = word > layout->least[column] ? word : layout->least[column];
    }
    for (int c = 0; c < table->columns; c++) {
        layout->least[c] = layout->least[c] > FOLD_LEAST ? layout->least[c] : FOLD_LEAST;
    }
}

// Without what is empty at the end.
static int total_width(const bt_table *table, const text_layout *layout, int indent)
{
    int total = indent + (layout->stacked ? GAP : 0), gaps = 0;
    for (int c = layout->stacked; c < table->columns; c++) {
        for (int part = BT_CELL_TEXT; part <= BT_CELL_NOTE && !layout->omitted[c]; part++) {
            if (layout->widths[c][part] > 0) {
                total += gaps + layout->widths[c][part];
                gaps = 0;
            }
            gaps += part == BT_CELL_TEXT || table->noted[c] ? GAP : 0;
        }
    }
    return total;
}

// Makes the widest of the columns that fold narrower until the table fits; false if it does not.
static bool fold(const bt_table *table, int indent, text_layout *layout)
{
    while (total_width(table, layout, indent) > table->width) {
        int widest = -1;
        for (int c = layout->stacked; c < table->columns; c++) {
            const int width = layout->widths[c][BT_CELL_TEXT];
            if (table->folds[c] && !layout->omitted[c] && width > layout->least[c] &&
                (widest < 0 || width > layout->widths[widest][BT_CELL_TEXT])) {
                widest = c;
            }
        }
        if (widest < 0) {
            return false;
        }
        --layout->widths[widest][BT_CELL_TEXT];
    }
    return true;
}

static void fit(const bt_table *table, int indent, text_layout *layout)
{
    const text_layout measured = *layout;
    for (int left = 0; !fold(table, indent, layout); left++) {
        memcpy(layout->widths, measured.widths, sizeof layout->widths);
        if (left == table->least_count) {
            layout->stacked = true;
            layout->listed = !fold(table, indent, layout);
            return;
        }
        layout->omitted[table->least[left]] = true;
    }
}

// One line of a row; rest [columns]: what is left of its texts, afterwards without this line.
// Returns whether any is left.
static bool print_line(const bt_table *table, int64_t first, int indent, const text_layout *layout,
                       const char **rest, bool notes, bt_str *out)
{
    bool more = false;
    int pending = indent + (layout->stacked ? GAP : 0);
    for (int c = layout->stacked; c < table->columns && first + c < table->count; c++) {
        if (layout->omitted[c]) {
            continue;
        }
        const char *text = rest[c], *note = notes ? part_of(table, first + c, BT_CELL_NOTE) : "";
        const int width = layout->widths[c][BT_CELL_TEXT];
        const bool folds = table->width > 0 && table->folds[c];
        size_t length = folds ? bt_wrap_line(text, width, true, &rest[c]) : strlen(text);
        rest[c] = folds ? rest[c] : text + length;
        more = more || rest[c][0];
        print_cell(out, text, length, width, table->right[c], &pending);
        if (table->noted[c]) {
            print_cell(out, note, strlen(note), layout->widths[c][BT_CELL_NOTE], false, &pending);
        }
    }
    bt_str_append(out, "\n");
    return more;
}

static void print_row(const bt_table *table, int64_t first, int indent, const text_layout *layout,
                      bt_str *out)
{
    const char *rest[BT_TABLE_COLUMNS] = {NULL};
    for (int c = 0; c < table->columns && first + c < table->count; c++) {
        rest[c] = part_of(table, first + c, BT_CELL_TEXT);
    }
    if (layout->stacked && rest[0][0]) {
        bt_str_format(out, "%*s%s\n", indent, "", rest[0]);
    }
    for (bool notes = true; print_line(table, first, indent, layout, rest, notes, out);) {
        notes = false;
    }
}

// A line for each cell that is not empty: "head  text  note".
static void print_list(const bt_table *table, int64_t first, int indent, const text_layout *layout,
                       bt_str *out)
{
    int widest = 0;
    for (int c = 1; c < table->columns; c++) {
        const int width = layout->omitted[c] ? 0 : width_of(part_of(table, c, BT_CELL_TEXT));
        widest = width > widest ? width : widest;
    }
    for (int c = 0; c < table->columns && first + c < table->count; c++) {
        const char *head = part_of(table, c, BT_CELL_TEXT);
        const char *text = part_of(table, first + c, BT_CELL_TEXT);
        const char *note = part_of(table, first + c, BT_CELL_NOTE);
        const int heads = c > 0 ? widest : width_of(head);
        BT_SCOPED(bt_str) line = {0};
        if (!*text || layout->omitted[c]) {
            continue;
        }
        bt_str_format(&line, "%*s%s%*s", indent + (c > 0 ? GAP : 0), "", head,
                      heads - width_of(head) + (heads > 0 ? GAP : 0), "");
        const int begin = (int)line.length_bytes;
        bt_str_format(&line, "%s%s%s", text, table->noted[c] && *note ? "  " : "",
                      table->noted[c] ? note : "");
        for (size_t at = 0; at < line.length_bytes; at++) {
            // What follows a newline would look like another cell.
            line.text[at] = line.text[at] == '\n' ? ' ' : line.text[at];
        }
        bt_str_append(&line, "\n");
        bt_wrap_text(bt_str_text(&line), table->width, begin, out);
        out->status = out->status == BT_OK ? line.status : out->status;
    }
}

bt_status bt_table_print(bt_table *table, int indent, bt_str *out)
{
    text_layout layout = {0};
    if (failed(table, out)) {
        return out->status;
    }
    measure(table, &layout);
    if (table->width > 0) {
        fit(table, indent, &layout);
    }
    const bool heads = has_heads(table) && !layout.listed;
    for (int64_t i = heads ? 0 : table->columns; i < table->count; i += table->columns) {
        (layout.listed ? print_list : print_row)(table, i, indent, &layout, out);
    }
    bt_table_release(table);
    return bt_str_status(out);
}

// ---- Markdown ----------------------------------------------------------------------------------

static void markdown_cell(const bt_table *table, int64_t index, bt_str *out)
{
    const char *text = part_of(table, index, BT_CELL_TEXT);
    const char *note = part_of(table, index, BT_CELL_NOTE);
    const char *gap = *note ? " " : "";
    if (index < table->columns) { // the head's note is in the same cell
        note = gap = "";
    }
    if (table->right[index % table->columns]) {
        bt_str_format(out, " %s%s%s |", text, gap, note);
    } else {
        bt_markdown(out, " %s%s%s |", text, gap, note);
    }
}

void bt_table_markdown(bt_table *table, bt_str *out)
{
    if (failed(table, out)) {
        return;
    }
    for (int64_t i = 0; i < table->count; i++) {
        bt_str_append(out, i % table->columns == 0 ? "|" : "");
        markdown_cell(table, i, out);
        bt_str_append(out, (i + 1) % table->columns == 0 ? "\n" : "");
        for (int c = 0; i == table->columns - 1 && c < table->columns; c++) {
            bt_str_format(out, "%s%s", table->right[c] ? "|--:" : "|---",
                          c == table->columns - 1 ? "|\n" : "");
        }
    }
    bt_table_release(table);
}

// ---- HTML --------------------------------------------------------------------------------------

static void html_head(const bt_table *table, bool all, bt_str *out)
{
    bt_str_append(out, "<div class=scroll><table");
    if (table->name.text[0]) {
        bt_html(out, " data-name=\"%s\"", table->name.text);
    }
    if (!all) {
        bt_html(out, " data-csv=\"csv-%s\" data-rows=\"%s\"", table->name.text, table->row_id.text);
    }
    bt_str_append(out, "><thead><tr>");
    for (int c = 0; c < table->columns; c++) {
        const char *open = table->right[c] ? "<th class=n" : "<th";
        bt_str_format(out, "%s%s>", open, part_of(table, c, BT_CELL_ATTRIBUTES));
        bt_html(out, "%s", part_of(table, c, BT_CELL_TEXT));
        if (part_of(table, c, BT_CELL_NOTE)[0]) {
            bt_str_format(out, "%s>", open);
            bt_html(out, "%s", part_of(table, c, BT_CELL_NOTE));
        }
    }
    bt_str_append(out, "</thead><tbody>\n");
}

static void html_cell(const bt_table *table, int64_t index, bool linked, bt_str *out)
{
    const int c = (int)(index % table->columns);
    const bt_table_cell *cell = &table->cells[index];
    const char *number = table->right[c] ? " class=n" : "", *text = part_of(table, index, 0);
    bt_str_format(out, "%s%s%s", c == 0 ? "<th scope=row" : "<td", number,
                  part_of(table, index, BT_CELL_ATTRIBUTES));
    if (cell->number) {
        bt_str_format(out, " data-v=\"%.9g\"", cell->value);
    }
    bt_str_append(out, ">");
    if (cell->parts[BT_CELL_MARKUP]) {
        bt_str_append(out, part_of(table, index, BT_CELL_MARKUP));
    } else if (linked || cell->parts[BT_CELL_LINK]) {
        bt_html(out, "<a href=\"%s", linked ? "#" : part_of(table, index, BT_CELL_LINK));
        bt_html(out, "%s%s\">", linked ? table->row_id.text : "", linked ? text : "");
        (c == 0 ? bt_html_name : bt_html_text)(out, text);
        bt_str_append(out, "</a>");
    } else {
        (c == 0 ? bt_html_name : bt_html_text)(out, text);
    }
    const char *note = part_of(table, index, BT_CELL_NOTE);
    if (part_of(table, c, BT_CELL_NOTE)[0]) {
        bt_html(out, table->right[c] ? "<td class=n>%s" : "<td>%s", note);
    } else if (*note) {
        bt_html(out, " <span class=muted>%s</span>", note);
    }
    bt_str_append(out, c == 0 ? "</th>" : "");
}

static void html_row(const bt_table *table, int64_t row, bt_str *out)
{
    const int64_t first = row * table->columns;
    const char *attributes = "";
    for (int64_t i = first; i < first + table->columns; i++) {
        attributes = *attributes ? attributes : part_of(table, i, BT_CELL_ROW);
    }
    bt_str_format(out, "<tr%s", attributes);
    if (table->row_id.text[0]) {
        bt_html(out, " id=\"%s%s\"", table->row_id.text, part_of(table, first, BT_CELL_TEXT));
    }
    bt_str_append(out, ">");
    for (int64_t i = first; i < first + table->columns; i++) {
        html_cell(table, i, i == first && table->row_id.text[0], out);
    }
    bt_str_append(out, "\n");
}

// All rows, for the script of the page, which copies them and shows them on demand.
static void append_csv(const bt_table *table, bt_str *out)
{
    bt_html(out, "<script type=\"text/csv\" id=\"csv-%s\">\n", table->name.text);
    for (int64_t i = 0; i < table->count; i++) {
        const char *text = part_of(table, i, BT_CELL_TEXT);
        char *end = NULL;
        (void)strtod(text, &end);
        (*end ? bt_csv_text : bt_str_append)(out, text); // a number may begin with a sign
        bt_str_append(out, (i + 1) % table->columns == 0 ? "\n" : ",");
    }
    bt_str_append(out, "</script>\n");
}

void bt_table_html(bt_table *table, bt_str *out)
{
    if (failed(table, out)) {
        return;
    }
    const int64_t rows = table->count / table->columns - 1;
    const bool all = table->shown == 0 || rows <= table->shown;
    const int64_t shown = all ? rows : table->shown;
    html_head(table, all, out);
    for (int64_t i = 0; i < shown; i++) {
        html_row(table, 1 + (shown > 1 ? i * (rows - 1) / (shown - 1) : 0), out);
    }
    bt_str_append(out, "</tbody></table></div>\n");
    if (!all) {
        append_csv(table, out);
    }
    bt_table_release(table);
}
