// harness/report/tables.c - raw tables: what the page was computed from
//
// A table of steps shows at most STILL_ROWS of them, evenly spread, first and last among them; all
// of them are in the page as CSV, which the script copies or shows on demand. A report of more than
// CSV_STEPS steps in all keeps every n-th in the CSV and says so.
#include <string.h>

#include "harness/report/internal.h"

enum { STILL_ROWS = 60, CSV_STEPS = 12000 };

static const double mib = 1048576.0;

static int64_t csv_stride(const report_set *set)
{
    int64_t total = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        total += set->cases[i].round->step_count;
    }
    return (total + CSV_STEPS - 1) / CSV_STEPS > 1 ? (total + CSV_STEPS - 1) / CSV_STEPS : 1;
}

static const char *kind_of(const bt_store_step *step)
{
    return step->warmup ? "warm-up" : step->profiled ? "profiled" : "";
}

static void write_step(const bt_store_step *step, int64_t index, bt_str *out)
{
    uint32_t bits;
    long long number = (long long)step->step, at = (long long)index;
    memcpy(&bits, &step->loss, sizeof bits);
    bt_str_format(out,
                  "<tr id=\"c%lld-step-%lld\"><th scope=row class=n data-v=%lld><a "
                  "href=\"#c%lld-step-%lld\">%lld</a></th>",
                  at, number, number, at, number, number);
    bt_str_format(out,
                  "<td class=n>%.9g<td class=n>%08x<td class=n>%.4g<td class=n>%.3e<td "
                  "class=n>%lld<td class=n>%.3f<td class=n>%.3f<td class=n>%.1f<td class=n>%.1f"
                  "<td>%s\n",
                  (double)step->loss, bits, (double)step->grad_norm, step->lr,
                  (long long)step->tokens, (double)step->host_ns / 1e6,
                  (double)step->device_ns / 1e6, (double)step->peak_allocated_bytes / mib,
                  (double)step->resident_bytes / mib, kind_of(step));
}

static void write_steps(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->round;
    int64_t count = round->step_count, shown = count < STILL_ROWS ? count : STILL_ROWS;
    if (count == 0) {
        return;
    }
    bt_str_append(out, "<details><summary>Steps of ");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out, " <span class=muted>%s steps", bt_format_count(count).text);
    if (shown < count) {
        bt_str_format(out, ", %lld of them shown", (long long)shown);
    }
    bt_str_format(out,
                  "</span></summary><div class=scroll><table data-name=\"steps-%s\" "
                  "data-csv=\"csv-%lld\"><thead><tr><th class=n>step<th class=n>loss<th class=n>"
                  "bits<th class=n>grad norm<th class=n>lr<th class=n>tokens<th class=n>host ms<th "
                  "class=n>device ms<th class=n>peak MiB<th class=n>resident MiB<th>kind</thead>"
                  "<tbody>\n",
                  item->tag, (long long)index);
    for (int64_t i = 0; i < shown; i++) {
        int64_t at = shown > 1 ? i * (count - 1) / (shown - 1) : 0;
        write_step(&round->steps[at], index, out);
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

static void write_evals(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->round;
    if (round->eval_count == 0) {
        return;
    }
    bt_str_append(out, "<details><summary>Evaluations of ");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  "</summary><div class=scroll><table data-name=\"evals-%s\"><thead><tr><th "
                  "class=n>after steps<th class=n>loss<th class=n>tokens<th class=n>host ms</thead>"
                  "<tbody>\n",
                  item->tag);
    for (int64_t i = 0; i < round->eval_count; i++) {
        const bt_store_eval *eval = &round->evals[i];
        bt_str_format(out,
                      "<tr id=\"c%lld-eval-%lld\"><th scope=row class=n>%lld</th><td class=n>%.9g"
                      "<td class=n>%lld<td class=n>%.3f\n",
                      (long long)index, (long long)eval->step, (long long)eval->step, eval->loss,
                      (long long)eval->tokens, (double)eval->host_ns / 1e6);
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

// Only where steps were launched in more than one way: a device without graphs says nothing.
static void write_launches(const report_case *item, bt_str *out)
{
    const bt_store_round *round = item->round;
    if (round->launch_count < 2) {
        return;
    }
    bt_str_append(out, "<details><summary>How steps were launched, ");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  "</summary><div class=scroll><table data-name=\"launches-%s\"><thead><tr><th "
                  "class=n>from step<th>way<th>meaning</thead><tbody>\n",
                  item->tag);
    for (int64_t i = 0; i < round->launch_count; i++) {
        const bt_store_launch *launch = &round->launches[i];
        bt_str_format(out, "<tr><th scope=row class=n>%lld<td>", (long long)launch->step);
        bt_html_text(out, launch->way);
        bt_str_append(out, "<td>");
        bt_html_text(out, launch->message);
        bt_str_append(out, "\n");
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

static void write_scores(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->round;
    if (round->score_count == 0) {
        return;
    }
    bt_str_append(out, "<details><summary>HellaSwag of ");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  "</summary><div class=scroll><table data-name=\"scores-%s\"><thead><tr><th "
                  "class=n>after steps<th class=n>normalised<th class=n>plain<th class=n>questions"
                  "<th class=n>host ms</thead><tbody>\n",
                  item->tag);
    for (int64_t i = 0; i < round->score_count; i++) {
        const bt_store_score *score = &round->scores[i];
        const double questions = (double)score->questions;
        bt_str_format(out,
                      "<tr id=\"c%lld-score-%lld\"><th scope=row class=n>%lld</th><td class=n>%.4f"
                      "<td class=n>%.4f<td class=n>%lld<td class=n>%.3f\n",
                      (long long)index, (long long)score->step, (long long)score->step,
                      (double)score->normalised_correct / questions,
                      (double)score->correct / questions, (long long)score->questions,
                      (double)score->host_ns / 1e6);
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

static void write_metric(const report_case *item, int64_t index, bt_metric metric, bt_str *out)
{
    const bt_metric_value *value = &item->summary.metrics[metric];
    const bt_metric_row *row = bt_metric_info(metric);
    bt_text number, interval;
    bt_format_interval(row->unit, value->value, value->low, value->high, &number, &interval);
    bt_str_format(out, "<tr id=\"c%lld-%s\"><th scope=row>", (long long)index, row->tag);
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_format(out,
                  "</th><td><a href=\"#c%lld-%s\" title=\"%s\">%s</a><td class=n data-v=\"%.17g\">"
                  "%s<td class=n>%s<td class=n>%lld\n",
                  (long long)index, row->tag, row->description, row->tag, value->value, number.text,
                  interval.text, (long long)value->count);
}

// Every metric of every case, with the digests.
static void write_metrics(const report_set *set, bt_str *out)
{
    bt_str_append(out, "<details><summary>Metrics of every case</summary><div class=scroll><table "
                       "data-name=metrics><thead><tr><th>case<th>metric<th class=n>value<th "
                       "class=n>95 % interval<th class=n>samples</thead><tbody>\n");
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        for (int m = 0; m < BT_METRIC_COUNT; m++) {
            if (item->summary.metrics[m].count > 0) {
                write_metric(item, i, (bt_metric)m, out);
            }
        }
        if (item->round->params_digest[0]) {
            bt_str_format(out, "<tr id=\"c%lld-params_digest\"><th scope=row>", (long long)i);
            bt_html_tag(out, item);
            bt_html(out,
                    "%s</th><td title=\"of the training state after the last step; without state: "
                    "before it, of the parameters alone\">params_digest<td "
                    "class=n><code>%s</code><td class=n><td class=n>\n",
                    item->label, item->round->params_digest);
        }
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

bt_status bt_page_tables(const report_set *set, bt_str *out)
{
    bt_str_append(out, "<section id=tables><h2>Raw tables</h2>\n");
    int64_t stride = csv_stride(set);
    if (stride > 1) {
        bt_str_format(out,
                      "<p class=muted>Of the steps, every %lldth is in this page; the database "
                      "has all.</p>\n",
                      (long long)stride);
    }
    write_metrics(set, out);
    bt_page_rounds(set, out);
    bt_page_memory(set, out);
    int64_t stepped = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        stepped += set->cases[i].round->step_count > 0;
    }
    bt_html_group_open(out, "Steps", stepped);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_steps(&set->cases[i], i, out);
    }
    bt_html_group_close(out, stepped);
    bt_html_group_open(out, "Evaluations", stepped);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_evals(&set->cases[i], i, out);
        write_launches(&set->cases[i], out);
        write_scores(&set->cases[i], i, out);
    }
    bt_html_group_close(out, stepped);
    bt_page_samples(set, out);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

bt_status bt_page_csv(const report_set *set, bt_str *out)
{
    int64_t stride = csv_stride(set);
    bt_page_rounds_csv(set, out);
    bt_page_samples_csv(set, out);
    for (int64_t i = 0; i < set->case_count; i++) {
        const bt_store_round *round = set->cases[i].round;
        if (round->step_count == 0) {
            continue;
        }
        bt_str_format(out,
                      "<script type=\"text/csv\" id=\"csv-%lld\">\n"
                      "step,loss,bits,grad norm,lr,tokens,host ms,device ms,peak MiB,resident MiB,"
                      "kind\n",
                      (long long)i);
        for (int64_t j = 0; j < round->step_count; j += stride) {
            const bt_store_step *step = &round->steps[j];
            uint32_t bits;
            memcpy(&bits, &step->loss, sizeof bits);
            bt_str_format(out, "%lld,%.9g,%08x,%.4g,%.4g,%lld,%.6g,%.6g,%.1f,%.1f,%s\n",
                          (long long)step->step, (double)step->loss, bits, (double)step->grad_norm,
                          step->lr, (long long)step->tokens, (double)step->host_ns / 1e6,
                          (double)step->device_ns / 1e6, (double)step->peak_allocated_bytes / mib,
                          (double)step->resident_bytes / mib, kind_of(step));
        }
        bt_str_append(out, "</script>\n");
    }
    return BT_OK;
}
