// harness/text/wrap.c - breaks text into lines of a terminal, at words
#include "harness/text/wrap.h"

#include <string.h>

#include "framework/base/scoped.h"

static bool begins_character(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

int bt_wrap_width(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        width += begins_character(text[i]);
    }
    return width;
}

size_t bt_wrap_line(const char *text, int columns, bool cuts, const char **rest)
{
    const size_t whole = strcspn(text, "\n");
    size_t end = 0;
    for (int used = 0; end < whole && (used < columns || !begins_character(text[end])); end++) {
        used += begins_character(text[end]);
    }
    if (end == whole) {
        *rest = text + whole + (text[whole] == '\n');
        return whole;
    }
    const size_t longest = end;
    while (end > 0 && text[end] != ' ') {
        end--;
    }
    while (end > 0 && text[end - 1] == ' ') {
        end--;
    }
    if (end == 0) {
        end = cuts ? longest : strcspn(text, " \n");
    }
    const char *next = text + end + strspn(text + end, " ");
    *rest = next + (*next == '\n');
    return end;
}

// Where the text of a line begins: after its label, if that is short, or after its indentation.
static size_t label_length(const char *line, size_t length, int columns)
{
    enum { WORD_MAX = 16 };
    const size_t margin = strspn(line, " ");
    for (size_t i = margin; i + 2 < length && i < (size_t)columns / 2; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ') {
            return i + strspn(line + i, " ");
        }
    }
    for (size_t i = margin; i + 2 < length && i < WORD_MAX; i++) {
        if (line[i] == ':' && line[i + 1] == ' ') {
            return i + 2;
        }
    }
    return margin;
}

// One line, without its newline. A word that is too long below the label begins further left.
static void append_line(const char *line, size_t length, int columns, size_t indent, bt_str *out)
{
    const int margin = bt_wrap_width(line, indent);
    const char *rest = line + indent, *end = line + length;
    if (columns <= 0 || bt_wrap_width(line, length) <= columns) {
        bt_str_append_bytes(out, line, length);
        return;
    }
    size_t label = indent;
    while (label > 0 && line[label - 1] == ' ') {
        label--;
    }
    bt_str_append_bytes(out, line, label);
    int gap = label > 0 && label < indent; // spaces that must stay between label and text
    for (int used = bt_wrap_width(line, label); rest < end; used = columns) {
        const char *from = rest;
        const size_t taken = bt_wrap_line(from, columns - margin, false, &rest);
        const int room = columns - bt_wrap_width(from, taken);
        const int at = room >= margin ? margin : room > 0 ? room : 0;
        const bool fits = used + gap <= at;
        bt_str_format(out, "%s%*s%.*s", fits ? "" : "\n", fits ? at - used : at, "", (int)taken,
                      from);
        gap = 0;
    }
}

void bt_wrap_text(const char *text, int columns, int indent, bt_str *out)
{
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        const size_t label = indent >= 0 && (size_t)indent <= length
                                 ? (size_t)indent
                                 : label_length(line, length, columns);
        append_line(line, length, columns, label, out);
        bt_str_append_bytes(out, line + length, line[length] == '\n');
        line += length + (line[length] == '\n');
    }
}

void bt_wrap_from(bt_str *out, size_t start, int columns)
{
    BT_SCOPED(bt_str) text = {0};
    if (columns <= 0 || out->status != BT_OK || out->length_bytes == start) {
        return;
    }
    bt_str_append(&text, out->text + start);
    out->length_bytes = start;
    bt_wrap_text(bt_str_text(&text), columns, BT_WRAP_LABEL, out);
    out->status = text.status != BT_OK ? text.status : out->status;
}
