// harness/text/paint.c - colours verdicts and states, draws fractions as bars, in terminal text
#include "harness/text/paint.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GREEN  "\033[32m"
#define RED    "\033[31m"
#define YELLOW "\033[33m"
#define FAINT  "\033[2m"
#define PLAIN  "\033[0m"

enum { BAR_CELLS = 20, BAR_GAP = 2 };

// Verdicts are in capitals and coloured everywhere. States are ordinary words: they are coloured in
// table cells, before two spaces or the end of the line.
static const struct {
    const char *word, *colour;
} words[] = {
    {"PASS", GREEN},
    {"SAME", GREEN},
    {"FASTER", GREEN},
    {"SMALLER", GREEN},
    {"REPLICATED", GREEN},
    {"HIGHER", GREEN},
    {"FAIL", RED},
    {"SLOWER", RED},
    {"LARGER", RED},
    {"LOWER", RED},
    {"WRONG", RED},
    {"INVALID", RED},
    {"DIFFERENT", RED},
    {"INCONCLUSIVE", YELLOW},
    {"ADVISORY", YELLOW},
    {"NOT-COMPARABLE", YELLOW},
    {"UNINFORMATIVE", YELLOW},
    {"passed", GREEN},
    {"failed", RED},
    {"invalid", YELLOW},
    {"interrupted", YELLOW},
    {"unavailable", YELLOW},
    {"running", YELLOW},
};

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '-' || c == '_'; }

static bool ends_a_cell(const char *at)
{
    return *at == '\0' || *at == '\n' || strncmp(at, "  ", 2) == 0;
}

// The index of the word at this position, -1 for none.
static int word_at(const char *text, const char *at)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        const size_t length = strlen(words[i].word);
        if (strncmp(at, words[i].word, length) == 0 && !in_word(at[length]) &&
            (at == text || !in_word(at[-1])) &&
            (isupper((unsigned char)*at) || ends_a_cell(at + length))) {
            return (int)i;
        }
    }
    return -1;
}

static void append_line(const char *text, const char *at, size_t length, bt_str *out)
{
    for (const char *end = at + length; at < end;) {
        const int word = word_at(text, at);
        if (word < 0) {
            bt_str_append_bytes(out, at++, 1);
            continue;
        }
        bt_str_format(out, "%s%s" PLAIN, words[word].colour, words[word].word);
        at += strlen(words[word].word);
    }
}

// The number before the '%' at this column, negative if there is none.
static double share_at(const char *line, size_t length, size_t column)
{
    size_t from = column;
    if (column == 0 || column >= length || line[column] != '%') {
        return -1;
    }
    while (from > 0 && (isdigit((unsigned char)line[from - 1]) || line[from - 1] == '.' ||
                        (line[from - 1] == ' ' && from == column))) {
        --from;
    }
    return strtod(line + from, NULL);
}

static void append_bar(double percent, bt_str *out)
{
    const int cells = percent > 100 ? BAR_CELLS : (int)(percent * BAR_CELLS / 100 + 0.5);
    bt_str_append(out, "  " FAINT);
    for (int i = 0; i < BAR_CELLS; ++i) {
        bt_str_append(out, i < cells ? "\xe2\x96\x88" : "\xe2\x96\x91");
    }
    bt_str_append(out, percent > 100 ? "+" PLAIN : PLAIN);
}

// Whether bars fit beside the table that begins at a line. Its cells are ASCII.
static bool have_room(const char *table, int columns)
{
    size_t longest = 0;
    for (const char *line = table; *line && *line != '\n';) {
        const size_t length = strcspn(line, "\n");
        longest = length > longest ? length : longest;
        line += length + (line[length] == '\n');
    }
    return columns == 0 || longest + BAR_GAP + BAR_CELLS + 1 <= (size_t)columns;
}

void bt_paint_text(const char *text, int columns, bt_str *out)
{
    static const char head[] = "of copy";
    size_t column = 0; // column of the '%' signs in the current table; 0: none, or no bars
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        const char *found = memmem(line, length, head, sizeof head - 1);
        if (length == 0) {
            column = 0;
        } else if (found) {
            column = have_room(line, columns) ? (size_t)(found - line) + sizeof head - 2 : 0;
        }
        append_line(text, line, length, out);
        const double percent = share_at(line, length, column);
        if (percent >= 0) {
            append_bar(percent, out);
        }
        bt_str_append(out, line[length] ? "\n" : "");
        line += length + (line[length] == '\n');
    }
}
