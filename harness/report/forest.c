// harness/report/forest.c - ratios with their intervals on one logarithmic axis around 1
//
// A table with the plot as a column, so that what is drawn can be read, sorted, copied and linked
// to. Rows of an operation are a separate table body, whose first row shows all of them as marks on
// the axis; if there are many rows the script collapses the bodies, except those with a notable
// verdict.
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "harness/report/axis.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"

enum { OPEN_UP_TO = 24 };

// ---- the axis ----------------------------------------------------------------------------------

static void write_grid(const ratio_axis *on, bt_str *out)
{
    bt_str_append(out, " style=\"--grid:");
    for (int i = 0; i < on->tick_count; i++) {
        bt_str_format(out,
                      "%slinear-gradient(var(--rule),var(--rule)) %.2f%% 0/1px 100%% no-repeat",
                      i ? "," : "", bt_axis_place(on, on->ticks[i]));
    }
    bt_str_format(out, "%s;--one:%.2f%%\"", on->tick_count ? "" : "none", bt_axis_place(on, 1.0));
}

static void write_axis_head(const ratio_list *list, const ratio_axis *on, bt_str *out)
{
    bt_str_format(out,
                  "<th class=axis-head><span class=ends><span>\xe2\x86\x90 %s</span><span>%s "
                  "\xe2\x86\x92</span></span><span class=ticks aria-hidden=true>",
                  bt_ratios_less(list), bt_ratios_more(list));
    for (int i = 0; i < on->tick_count; i++) {
        double at = bt_axis_place(on, on->ticks[i]);
        if (at > 2.0 && at < 98.0) { // room for its text
            bt_str_format(out, "<i style=\"left:%.2f%%\">%.4g</i>", at, on->ticks[i]);
        }
    }
    bt_str_append(out, "</span></th>");
}

// ---- rows --------------------------------------------------------------------------------------

static void write_span(const ratio_axis *on, const char *kind, double low, double high, bt_str *out)
{
    if (isfinite(low) && isfinite(high)) {
        double left = bt_axis_place(on, low);
        bt_str_format(out, "<i class=\"%s\" style=\"left:%.2f%%;width:%.2f%%\"></i>", kind, left,
                      bt_axis_place(on, high) - left);
    }
}

static void write_plot(const ratio_row *row, const ratio_axis *on, bt_str *out)
{
    bt_str_append(out, "<td class=plot-cell><span class=axis aria-hidden=true>");
    write_span(on, "zone", row->band_low, row->band_high, out);
    write_span(on, "span", row->low, row->high, out);
    if (isfinite(row->mark)) {
        bt_str_format(out, "<i class=paper style=\"left:%.2f%%\"></i>",
                      bt_axis_place(on, row->mark));
    }
    bt_str_format(out, "<i class=dot style=\"left:%.2f%%\"></i></span>",
                  bt_axis_place(on, row->ratio));
}

static bool has_marks(const ratio_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (isfinite(list->rows[i].mark)) {
            return true;
        }
    }
    return false;
}

static bool has_words(const ratio_list *list)
{
    return (list->count > 0 && list->rows[0].verdict[0]) ||
           (list->rest_count > 0 && list->rest[0].verdict[0]);
}

static void write_link(const ratio_list *list, const ratio_row *row, bt_str *out)
{
    bt_str_append(out, "<a href=\"#");
    bt_html_anchor(out, list->id, row->name, row->metric);
    bt_str_append(out, "\">");
    bt_html_name(out, row->name);
    bt_html(out, row->metric[0] ? "</a> <span class=muted>%s</span>" : "</a>%s", row->metric);
    if (row->deviations[0] && isfinite(row->ratio)) { // as in the section
        bt_html(out, " <a href=\"#deviations-%s\" title=\"%s\">*</a>", list->id, row->deviations);
    }
    if (row->title[0]) {
        bt_html(out, "<small class=muted>%s%s</small>", row->title,
                row->repeated ? "; another claim is about the same measurement" : "");
    }
}

static void write_name(const ratio_list *list, const ratio_row *row, bt_str *out)
{
    bt_str_append(out, "<tr id=\"");
    bt_html_anchor(out, list->id, row->name, row->metric);
    bt_str_append(out, "\"><th scope=row>");
    write_link(list, row, out);
    if (row->noisy > 0) {
        bt_str_format(out,
                      " <span class=noise title=\"rounds with a noise label\">\xe2\x96\xb3 %lld "
                      "noisy</span>",
                      (long long)row->noisy);
    }
    bt_str_append(out, row->wide ? " <span class=noise>\xe2\x96\xb3 wide</span>" : "");
    if (row->reason[0] && bt_mark_of(row->verdict)->weight > 0) { // for a good one the row shows it
        bt_html(out, "<small class=muted>%s</small>", row->reason);
    }
    bt_str_append(out, "</th>");
}

static void write_row(const ratio_list *list, const ratio_row *row, const ratio_axis *on,
                      bt_str *out)
{
    write_name(list, row, out);
    write_plot(row, on, out);
    bt_str_format(out,
                  "<td class=n data-v=\"%.9g\"><b>%s</b><td class=\"n muted\" data-v=\"%.9g\">%s",
                  row->ratio, bt_format_ratio(row->ratio).text, isfinite(row->low) ? row->low : -1,
                  bt_format_ratio_interval(row).text);
    if (has_marks(list)) {
        bt_str_format(out, "<td class=\"n mark\" data-v=\"%.9g\">%s",
                      isfinite(row->mark) ? row->mark : -1, bt_format_ratio(row->mark).text);
    }
    if (has_words(list)) {
        bt_str_append(out, "<td>");
        bt_mark_write(row->verdict, out);
    }
    bt_str_format(out, "<td class=n>%lld\n", (long long)row->rounds);
}

// ---- groups ------------------------------------------------------------------------------------

static bool is_worth_a_look(const ratio_list *list, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        if (list->rows[i].wide || bt_mark_of(list->rows[i].verdict)->weight > 1) {
            return true;
        }
    }
    return false;
}

// The row of a group: the number of each verdict, all ratios as marks, their mean.
static void write_group_head(const ratio_list *list, int64_t begin, int64_t end,
                             const ratio_axis *on, bt_str *out)
{
    const ratio_row *rows = &list->rows[begin];
    ratio_mean mean = bt_ratios_mean(rows, end - begin);
    bt_html(out,
            "<tr class=group-head><th scope=rowgroup><b>%s</b> <span "
            "class=muted>%lld</span></th><td class=plot-cell><span class=axis aria-hidden=true>",
            rows->group[0] ? rows->group : "cases", (long long)(end - begin));
    for (int64_t i = 0; i < end - begin; i++) {
        bt_str_format(out, "<i class=tick style=\"left:%.2f%%\"></i>",
                      bt_axis_place(on, rows[i].ratio));
    }
    bt_str_format(out,
                  "</span><td class=n title=\"geometric mean\"><b>%s</b><td class=\"n muted\">mean",
                  bt_format_ratio(mean.value).text);
    bt_str_append(out, has_marks(list) ? "<td>" : "");
    if (has_words(list)) {
        bt_str_append(out, "<td class=counts>");
        bt_marks_line(rows, end - begin, out);
    }
    bt_str_append(out, "<td>\n");
}

static void write_groups(const ratio_list *list, const ratio_axis *on, bt_str *out)
{
    bool many = list->count > OPEN_UP_TO;
    for (int64_t begin = 0; begin < list->count;) {
        int64_t end = bt_ratios_group_end(list, begin);
        bool whole = begin == 0 && end == list->count; // a single group: its head would add nothing
        bool folded = many && !whole && !is_worth_a_look(list, begin, end);
        bt_str_format(out, "<tbody%s%s>\n", whole ? "" : " data-group",
                      folded ? " class=folded" : "");
        if (!whole) {
            write_group_head(list, begin, end, on, out);
        }
        for (int64_t i = begin; i < end; i++) {
            write_row(list, &list->rows[i], on, out);
        }
        bt_str_append(out, "</tbody>\n");
        begin = end;
    }
}

// ---- lists -------------------------------------------------------------------------------------

// Judged rows without a ratio: grouped by reason, collapsed.
static void write_rest(const ratio_list *list, bt_str *out)
{
    bt_table table = {.name = bt_textf("rest-%s", list->id)};
    if (list->rest_count == 0) {
        return;
    }
    bt_str_format(out, "<details><summary>Without a ratio <span class=muted>%lld</span> ",
                  (long long)list->rest_count);
    bt_marks_line(list->rest, list->rest_count, out);
    bt_table_heads(&table, "%s|verdict|reason",
                   strcmp(list->kind, "replicate") == 0 ? "claim" : "case");
    BT_EACH(const ratio_row, row, list->rest, list->rest_count) {
        bt_table_cells(&table, "%s", row->name);
        bt_str *id = bt_table_part(&table, BT_CELL_ROW);
        bt_str_append(id, " id=\"");
        bt_html_anchor(id, list->id, row->name, row->metric);
        bt_str_append(id, "\"");
        write_link(list, row, bt_table_part(&table, BT_CELL_MARKUP));
        bt_mark_cell(row->verdict, &table);
        bt_table_cells(&table, "%s", row->reason);
        bt_str_append(bt_table_part(&table, BT_CELL_ATTRIBUTES), " class=long");
    }
    bt_str_append(out, "</summary>");
    bt_table_html(&table, out);
    bt_str_append(out, "</details>\n");
}

static const struct {
    const char *kind, *title, *note;
} titles[] = {
    {"ab", "Candidate compared with base",
     "Time of the candidate divided by that of the base, paired round by round; the pale band is "
     "the tolerance."},
    {"gate", "This run compared with the baseline",
     "Value of this run divided by that of the baseline; the pale band is the tolerance."},
    {"gate-ab", "Candidate compared with base, by the gate's policy",
     "The same rounds, judged by 'bt-bench gate'; the pale band is the tolerance of its policy."},
    {"replicate", "The paper's claims",
     "How many times better than the other system: faster, or with less memory. Filled: here, with "
     "its 95 % interval. Hollow diamond: the paper; the pale band is the claim's margin."},
    {"pairs", "Systems compared",
     "Time of the other divided by that of the first: geometric mean of the pairs of rounds with "
     "its 95 % interval. No verdict depends on it."},
    {"runs", "Runs compared",
     "Time divided by that of the same case in the first run: below 1 is faster. An interval has "
     "every ratio that the 95 % intervals of the two times allow; no verdict depends on it."},
};

static void write_title(const ratio_list *list, bt_str *out)
{
    // A gate of an 'ab' session has no baseline.
    const char *recorded = list->run ? list->run->schedule.kind : NULL;
    bool in_pairs = recorded && strcmp(recorded, "ab") == 0 && strcmp(list->kind, "gate") == 0;
    const char *kind = in_pairs ? "gate-ab" : list->kind;
    const int64_t at = BT_FIND(titles, BT_COUNT(titles), kind, kind);
    if (strcmp(list->kind, "pairs") == 0) {
        bt_html(out, "<h3 id=\"%s\">%s and %s", list->id, list->base, list->other);
    } else {
        bt_html(out, "<h3 id=\"%s\">%s", list->id, titles[at].title);
    }
    if (list->run) {
        bt_str_format(out, " <span class=muted>run %lld</span>", (long long)list->run->id);
    }
    bt_str_format(out, "</h3><p class=muted>%s</p>\n", titles[at].note);
}

static bt_status write_list(const report_set *set, const ratio_list *list, bt_str *out)
{
    write_title(list, out);
    if (list->count > 0) {
        bt_html_deviations_note(list, out);
        const bool claims = strcmp(list->kind, "replicate") == 0;
        const ratio_axis on = bt_axis_of(list);
        bt_str_format(out, "<table class=forest data-name=\"ratios-%s\"", list->id);
        write_grid(&on, out);
        bt_str_format(out, "><thead><tr><th>%s", claims ? "claim" : "case");
        write_axis_head(list, &on, out);
        bt_str_format(
            out, "<th class=n>ratio<th class=n>95 %% interval%s%s<th class=n>rounds</thead>\n",
            has_marks(list) ? "<th class=n>paper" : "", has_words(list) ? "<th>verdict" : "");
        write_groups(list, &on, out);
        bt_str_append(out, "</table>\n");
    }
    write_rest(list, out);
    return bt_html_deviations(set, list, out);
}

// If there are verdicts, lists without them are collapsed.
static bool is_judged(const report_set *set)
{
    const ratio_list *list = bt_report_main_list(set);
    return list && strcmp(list->kind, "pairs") != 0;
}

bt_status bt_page_forest(const report_set *set, bt_str *out)
{
    bool judged = is_judged(set);
    if (set->ratio_count == 0) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=ratios><h2>Ratios</h2>\n");
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        bool folded = judged && strcmp(list->kind, "pairs") == 0;
        if (folded) {
            bt_html(
                out,
                "<details><summary>All cases: %s and %s <span class=muted>%lld</span></summary>\n",
                list->base, list->other, (long long)(list->count + list->rest_count));
        }
        BT_TRY(write_list(set, list, out));
        bt_str_append(out, folded ? "</details>\n" : "");
    }
    bt_str_append(out, "</section>\n");
    return BT_OK;
}
