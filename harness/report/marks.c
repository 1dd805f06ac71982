// harness/report/marks.c - shapes and words of states and verdicts
#include "harness/report/marks.h"

#include <string.h>

#include "framework/base/find.h"
#include "harness/report/internal.h"

// In the order in which a summary lists them: worst first.
static const report_mark marks[] = {
    {"failed", "\xe2\x9c\x95", "bad", 3},
    {"SLOWER", "\xe2\x96\xb2", "bad", 3},
    {"LARGER", "\xe2\x96\xb2", "bad", 3},
    {"DIFFERENT", "\xe2\x9c\x95", "bad", 3},
    {"NOT REPLICATED", "\xe2\x9c\x95", "bad", 3},
    {"INVALID", "\xe2\x9c\x95", "bad", 3},
    {"WORSE", "\xe2\x96\xb2", "bad", 3},
    {"LOWER", "\xe2\x96\xbd", "bad", 3},
    {"FAIL", "\xe2\x9c\x95", "bad", 3},
    {"invalid", "\xe2\x96\xb3", "warn", 2},
    {"interrupted", "\xe2\x96\xa0", "warn", 2},
    {"INCONCLUSIVE", "?", "warn", 2},
    {"NOT-COMPARABLE", "\xe2\x89\xa0", "warn", 2},
    {"NOT COMPARABLE", "\xe2\x89\xa0", "warn", 2},
    {"ADVISORY", "i", "calm", 1},
    {"running", "\xe2\x97\x8f", "run", 1},
    {"unavailable", "\xe2\x88\x92", "calm", 1},
    {"UNINFORMATIVE", "~", "calm", 1},
    {"NOT TESTABLE HERE", "\xe2\x88\x92", "calm", 1},
    {"SAME", "=", "good", 0},
    {"REPLICATED", "\xe2\x9c\x93", "good", 0},
    {"FASTER", "\xe2\x96\xbc", "good", 0},
    {"SMALLER", "\xe2\x96\xbc", "good", 0},
    {"BETTER", "\xe2\x96\xbc", "good", 0},
    {"HIGHER", "\xe2\x96\xb3", "good", 0},
    {"EXCEEDED", "\xe2\x9c\x93\xe2\x9c\x93", "good", 0},
    {"PASS", "\xe2\x9c\x93", "good", 0},
    {"passed", "\xe2\x9c\x93", "good", 0},
};

enum { MARK_COUNT = (int)(sizeof marks / sizeof marks[0]) };

const report_mark *bt_mark_of(const char *word)
{
    static const report_mark unknown = {"", "\xc2\xb7", "calm", 1};
    const int64_t at = BT_FIND(marks, MARK_COUNT, word, word);
    return at < 0 ? &unknown : &marks[at];
}

void bt_mark_write(const char *word, bt_str *out)
{
    const report_mark *mark = bt_mark_of(word);
    bt_str_format(out, "<span class=\"status %s\"><i aria-hidden=true>%s</i> ", mark->tone,
                  mark->shape);
    bt_html(out, "%s</span>", word);
}

void bt_mark_cell(const char *word, bt_table *table)
{
    bt_table_cells(table, "%s", word);
    bt_mark_write(word, bt_table_part(table, BT_CELL_MARKUP));
}

void bt_mark_tile(const report_mark *mark, const char *list, long long count, bt_str *out)
{
    const bool linked = *list != '\0';
    bt_str_format(out,
                  "<li class=tile>%s%s%s<span class=\"status %s\"><i aria-hidden=true>%s</i> %lld "
                  "%s</span>%s</li>\n",
                  linked ? "<a href=\"#" : "", list, linked ? "\">" : "", mark->tone, mark->shape,
                  count, mark->word, linked ? "</a>" : "");
}

static long long count_of(const ratio_row *rows, int64_t count, const char *word)
{
    long long found = 0;
    for (int64_t i = 0; i < count; i++) {
        found += !rows[i].repeated && strcmp(rows[i].verdict, word) == 0;
    }
    return found;
}

static long long count_in(const ratio_list *list, const char *word)
{
    return count_of(list->rows, list->count, word) + count_of(list->rest, list->rest_count, word);
}

bool bt_marks_tiles(const ratio_list *list, bt_str *out)
{
    bool any = false;
    for (int m = 0; m < MARK_COUNT; m++) {
        const long long found = count_in(list, marks[m].word);
        any = any || found > 0;
        if (found > 0) {
            bt_mark_tile(&marks[m], list->id, found, out);
        }
    }
    return any;
}

void bt_marks_rows(const ratio_list *list, bt_table *table)
{
    for (int m = 0; m < MARK_COUNT; m++) {
        const long long found = count_in(list, marks[m].word);
        if (found > 0) {
            bt_table_cells(table, "%s %s|%lld", marks[m].shape, marks[m].word, found);
        }
    }
}

void bt_marks_line(const ratio_row *rows, int64_t count, bt_str *out)
{
    for (int m = 0; m < MARK_COUNT; m++) {
        long long found = count_of(rows, count, marks[m].word);
        if (found > 0) {
            bt_str_format(out,
                          "<span class=\"status %s\" title=\"%s\"><i aria-hidden=true>%s</i> "
                          "%lld<span class=unseen> %s</span></span> ",
                          marks[m].tone, marks[m].word, marks[m].shape, found, marks[m].word);
        }
    }
}
