// harness/report/rounds.c - every round, a row each: what decides is made of these
//
// A page with many shows the first STILL_ROWS and has all of them as CSV, which the script copies
// or shows on demand.
#include <math.h>
#include <string.h>

#include "harness/report/internal.h"
#include "harness/report/marks.h"
#include "harness/report/outputs.h"

enum { STILL_ROWS = 60 };

static const char *const heads =
    "round,run,case,system,ordinal,status,noise,outputs,value,unit,seconds";

static bt_metric main_metric(const report_case *item)
{
    return bt_report_is_kernel(item->round) ? BT_METRIC_TIME : BT_METRIC_TOKENS_PER_S;
}

static double seconds_of(const bt_store_round *round)
{
    return round->ended_ns > 0 ? (double)(round->ended_ns - round->started_ns) / 1e9 : (double)NAN;
}

static void write_row(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->rounds[index];
    long long id = (long long)round->id;
    bt_metric metric = main_metric(item);
    double value = item->summaries[index].metrics[metric].value;
    bt_html(out,
            "<tr id=\"round-%lld\"><th scope=row class=n><a href=\"#round-%lld\">%lld</a></th><td "
            "class=n>%lld<td>%s<td>%s",
            id, id, id, (long long)item->run->id, round->what.name, round->what.system);
    bt_str_format(out, "<td class=n>%lld<td>%s<td>", (long long)round->ordinal,
                  bt_run_status_name(round->status));
    bt_html_text(out, bt_noise_of(round));
    bt_str_format(out, "<td>%s", bt_outputs_of(round));
    bt_str_format(out, "<td class=n>%.6g<td>%s<td class=n>%.2f\n", value,
                  bt_unit_name(bt_metric_info(metric)->unit), seconds_of(round));
}

static int64_t round_count(const report_set *set)
{
    int64_t count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        count += set->cases[i].round_count;
    }
    return count;
}

void bt_page_rounds(const report_set *set, bt_str *out)
{
    int64_t count = round_count(set), shown = 0;
    if (count <= set->case_count) {
        return; // a round a case: the metrics say it
    }
    bt_str_format(out, "<details><summary>Rounds <span class=muted>%lld%s</span></summary>",
                  (long long)count, count > STILL_ROWS ? ", the first 60 shown" : "");
    bt_str_append(
        out, "<div class=scroll><table data-name=rounds data-csv=csv-rounds><thead><tr>"
             "<th class=n>round<th class=n>run<th>case<th>system<th class=n>ordinal"
             "<th>status<th>noise<th>outputs<th class=n>value<th>unit<th class=n>seconds</thead>"
             "<tbody>\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        for (int64_t r = 0; r < item->round_count && shown < STILL_ROWS; r++, shown++) {
            write_row(item, r, out);
        }
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

void bt_page_rounds_csv(const report_set *set, bt_str *out)
{
    if (round_count(set) <= set->case_count) {
        return;
    }
    bt_str_format(out, "<script type=\"text/csv\" id=\"csv-rounds\">\n%s\n", heads);
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        bt_metric metric = main_metric(item);
        for (int64_t r = 0; r < item->round_count; r++) {
            const bt_store_round *round = item->rounds[r];
            bt_str_format(out, "%lld,%lld,", (long long)round->id, (long long)item->run->id);
            bt_csv_text(out, round->what.name);
            bt_str_append(out, ",");
            bt_csv_text(out, round->what.system);
            bt_str_format(out, ",%lld,%s,", (long long)round->ordinal,
                          bt_run_status_name(round->status));
            bt_csv_text(out, bt_noise_of(round));
            bt_str_format(out, ",%s,%.6g,%s,%.2f\n", bt_outputs_of(round),
                          item->summaries[r].metrics[metric].value,
                          bt_unit_name(bt_metric_info(metric)->unit), seconds_of(round));
        }
    }
    bt_str_append(out, "</script>\n");
}
