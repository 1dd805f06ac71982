// harness/report/caselist.c - the table of cases: a row each, with what was measured of it
#include <math.h>
#include <string.h>

#include "harness/report/internal.h"
#include "harness/report/marks.h"

enum { OPEN_UP_TO = 40 };

// A value, of a rate or a time with its interval; the table of metrics has the other intervals.
static void write_value(bt_str *out, bt_unit unit, const bt_metric_value *value)
{
    bt_text number, interval;
    bool wide = unit != BT_UNIT_NATS && unit != BT_UNIT_BYTES;
    bt_format_interval(unit, value->value, wide ? value->low : (double)NAN, value->high, &number,
                       &interval);
    bt_str_format(out, "<td class=n data-v=\"%.9g\">%s", isnan(value->value) ? -1.0 : value->value,
                  number.text);
    if (interval.text[0]) {
        bt_str_format(out, " <span class=muted>%s</span>", interval.text);
    }
}

static void write_row(const report_set *set, int64_t index, bt_str *out)
{
    const report_case *item = &set->cases[index];
    bt_str_format(out, "<tr id=\"c%lld-row\"><th scope=row>", (long long)index);
    bt_html_tag(out, item);
    bt_str_format(out, "<a href=\"#c%lld-row\">", (long long)index);
    bt_html_text(out, item->label);
    bt_str_append(out, "</a>");
    if (item->noisy > 0) {
        bt_str_format(out, " <span class=noise>\xe2\x96\xb3 %lld noisy</span>",
                      (long long)item->noisy);
    }
    if (item->round->message[0] && item->round->status != BT_RUN_PASSED) {
        bt_str_append(out, "<small class=muted>");
        bt_html_text(out, item->round->message);
        bt_str_append(out, "</small>");
    }
    bt_str_append(out, "</th><td>");
    bt_mark_write(bt_run_status_name(item->round->status), out);
    for (int c = 0; c < bt_report_column_count; c++) {
        const report_column *column = &bt_report_columns[c];
        if (bt_report_column_shown(set, column)) {
            write_value(out, bt_metric_info(column->metric)->unit,
                        &item->summary.metrics[column->metric]);
        }
    }
    bt_str_format(out, "<td class=n>%lld\n", (long long)item->round_count);
}

bt_status bt_page_cases(const report_set *set, bt_str *out)
{
    bool folded = set->case_count > OPEN_UP_TO;
    if (set->case_count < 2) {
        return BT_OK;
    }
    bt_str_append(out, "<section id=cases><h2>Cases</h2>\n");
    if (folded) {
        bt_str_format(out, "<details><summary>All cases <span class=muted>%lld</span></summary>\n",
                      (long long)set->case_count);
    }
    bt_str_append(out, "<div class=scroll><table data-name=cases><thead><tr><th>case<th>status");
    for (int c = 0; c < bt_report_column_count; c++) {
        if (bt_report_column_shown(set, &bt_report_columns[c])) {
            bt_str_format(out, "<th class=n>%s", bt_report_columns[c].title);
        }
    }
    bt_str_append(out, "<th class=n>rounds</thead><tbody>\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        write_row(set, i, out);
    }
    bt_str_format(out, "</tbody></table></div>\n%s</section>\n", folded ? "</details>\n" : "");
    return BT_OK;
}
