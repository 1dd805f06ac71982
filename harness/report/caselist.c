// harness/report/caselist.c - the table of cases, one row each
#include <math.h>

#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"

enum { FOLDABLE_ABOVE = 40 };

static void add_name(const report_case *item, int64_t index, bt_table *table)
{
    bt_table_cells(table, "%s", item->label);
    bt_str_format(bt_table_part(table, BT_CELL_ROW), " id=\"c%lld-row\"", (long long)index);
    bt_str *out = bt_table_part(table, BT_CELL_MARKUP);
    bt_html_tag(out, item);
    bt_str_format(out, "<a href=\"#c%lld-row\">", (long long)index);
    bt_html_name(out, item->label);
    bt_str_append(out, "</a>");
    if (item->recompute[0]) {
        bt_html(out, " <span class=muted>%s</span>", item->recompute);
    }
    if (item->noisy > 0) {
        bt_str_format(out, " <span class=noise>\xe2\x96\xb3 %lld noisy</span>",
                      (long long)item->noisy);
    }
    if (item->round->message[0] && item->round->status != BT_RUN_PASSED) {
        bt_html(out, "<small class=muted>%s</small>", item->round->message);
    }
}

static void add_row(const report_set *set, int64_t index, bt_table *table)
{
    const report_case *item = &set->cases[index];
    add_name(item, index, table);
    bt_mark_cell(bt_run_status_name(item->round->status), table);
    BT_EACH(const report_column, column, bt_report_columns, bt_report_column_count) {
        const bt_metric_value *value = &item->summary.metrics[column->metric];
        const bt_unit unit = bt_metric_info(column->metric)->unit;
        // Rates and times are shown with their interval; the table of metrics has those of the
        // others.
        const bool wide = unit == BT_UNIT_NS || unit == BT_UNIT_TOKENS_PER_S;
        if (column->of_kernels == bt_report_is_kernel(item->round) &&
            bt_report_column_shown(set, column)) {
            bt_table_interval(table, unit, value->value, wide ? value->low : (double)NAN,
                              value->high);
        }
    }
    bt_table_cells(table, "%lld", (long long)bt_report_counted(item));
}

// The cases of one kind: kernel cases, or the others.
static void write_list(const report_set *set, bool kernels, bt_str *out)
{
    int64_t count = 0;
    bool commands = kernels;
    for (int64_t i = 0; i < set->case_count; i++) {
        commands = commands && bt_report_is_command(set->cases[i].round);
        count += bt_report_is_kernel(set->cases[i].round) == kernels;
    }
    if (count == 0 || (count == 1 && set->case_count == 1)) {
        return; // shown in the head
    }
    const bool foldable = count > FOLDABLE_ABOVE; // open: a reader looks for the results first
    bt_str_format(out, "<section id=%s><h2>%s</h2>\n", kernels ? "kernel-cases" : "cases",
                  commands  ? "Commands"
                  : kernels ? "Kernel cases"
                            : "Cases");
    if (foldable) {
        bt_str_format(out,
                      "<details open><summary>All cases <span class=muted>%lld</span></summary>\n",
                      (long long)count);
    }
    bt_table table = {.name = bt_textf("%s", kernels ? "kernel-cases" : "cases")};
    bt_table_heads(&table, "case|status");
    BT_EACH(const report_column, column, bt_report_columns, bt_report_column_count) {
        if (column->of_kernels == kernels && bt_report_column_shown(set, column)) {
            bt_table_heads(&table, ">%s", column->title);
        }
    }
    bt_table_heads(&table, ">rounds");
    for (int64_t i = 0; i < set->case_count; i++) {
        if (bt_report_is_kernel(set->cases[i].round) == kernels) {
            add_row(set, i, &table);
        }
    }
    bt_table_html(&table, out);
    bt_str_format(out, "%s</section>\n", foldable ? "</details>\n" : "");
}

bt_status bt_page_cases(const report_set *set, bt_str *out)
{
    write_list(set, false, out);
    return BT_OK;
}

bt_status bt_page_kernel_cases(const report_set *set, bt_str *out)
{
    write_list(set, true, out);
    return BT_OK;
}
