// harness/report/tables.c - raw tables: the data behind the page
//
// A table of steps shows at most STILL_ROWS of them, evenly spaced, including the first and last;
// the page contains all of them as CSV, which the script copies or shows on demand. A report with
// more than CSV_STEPS steps in total keeps every n-th in the CSV and says so.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"

enum { STILL_ROWS = 60, CSV_STEPS = 12000, CSV_SAMPLES = 4000 };
_Static_assert((int)BT_TELEMETRY_COLUMNS < (int)BT_TABLE_COLUMNS, "a column each, and the sample");

static const double mib = 1048576.0;

static int64_t csv_stride(const report_set *set)
{
    int64_t total = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        total += set->cases[i].round->step_count;
    }
    return (total + CSV_STEPS - 1) / CSV_STEPS > 1 ? (total + CSV_STEPS - 1) / CSV_STEPS : 1;
}

static void add_step(const bt_store_step *step, bt_table *table)
{
    uint32_t bits;
    char bits_text[16];
    memcpy(&bits, &step->loss, sizeof bits);
    (void)snprintf(bits_text, sizeof bits_text, "%08x", bits);
    bt_table_cells(table, "%lld|%.9g|%s|%.4g|%.4g|%lld|%.6g|%.6g|%.1f|%.1f|%s",
                   (long long)step->step, (double)step->loss, bits_text, (double)step->grad_norm,
                   step->lr, (long long)step->tokens, (double)step->host_ns / 1e6,
                   (double)step->device_ns / 1e6, (double)step->peak_allocated_bytes / mib,
                   (double)step->resident_bytes / mib,
                   step->warmup     ? "warm-up"
                   : step->profiled ? "profiled"
                                    : "");
}

static void write_steps(const report_case *item, int64_t index, int64_t stride, bt_str *out)
{
    const bt_store_round *round = item->round;
    bt_table table = {.name = bt_textf("steps-%s", item->tag),
                      .row_id = bt_textf("c%lld-step-", (long long)index),
                      .shown = STILL_ROWS};
    int64_t count = round->step_count;
    if (count == 0) {
        return;
    }
    bt_table_heads(&table, ">step|>loss|>bits|>grad norm|>lr|>tokens|>host ms|>device ms|>peak MiB|"
                           ">resident MiB|kind");
    const int64_t rows = (count + stride - 1) / stride;
    for (int64_t i = 0; i < rows; i++) {
        add_step(&round->steps[rows > 1 ? i * (count - 1) / (rows - 1) : 0], &table);
    }
    bt_html_details("Steps of", item, "", &table, out);
}

static void write_evals(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->round;
    bt_table table = {.name = bt_textf("evals-%s", item->tag),
                      .row_id = bt_textf("c%lld-eval-", (long long)index)};
    if (round->eval_count == 0) {
        return;
    }
    bt_table_heads(&table, ">after steps|>loss|>tokens|>host ms");
    BT_EACH(const bt_store_eval, eval, round->evals, round->eval_count) {
        bt_table_cells(&table, "%lld|%.9g|%lld|%.3f", (long long)eval->step, eval->loss,
                       (long long)eval->tokens, (double)eval->host_ns / 1e6);
    }
    bt_html_details("Evaluations of", item, "", &table, out);
}

// Only if steps were launched in more than one way: on a device without graphs there is only one.
static void write_launches(const report_case *item, bt_str *out)
{
    const bt_store_round *round = item->round;
    bt_table table = {.name = bt_textf("launches-%s", item->tag)};
    if (round->launch_count < 2) {
        return;
    }
    bt_table_heads(&table, ">from step|way|meaning");
    BT_EACH(const bt_store_launch, launch, round->launches, round->launch_count) {
        bt_table_cells(&table, "%lld|%s|%s", (long long)launch->step, launch->way, launch->message);
    }
    bt_html_details("How steps were launched,", item, "", &table, out);
}

static void write_scores(const report_case *item, int64_t index, bt_str *out)
{
    const bt_store_round *round = item->round;
    bt_table table = {.name = bt_textf("scores-%s", item->tag),
                      .row_id = bt_textf("c%lld-score-", (long long)index)};
    if (round->score_count == 0) {
        return;
    }
    bt_table_heads(&table, ">after steps|>normalised|>plain|>questions|>host ms");
    BT_EACH(const bt_store_score, score, round->scores, round->score_count) {
        const double questions = (double)score->questions;
        bt_table_cells(&table, "%lld|%.4f|%.4f|%lld|%.3f", (long long)score->step,
                       (double)score->normalised_correct / questions,
                       (double)score->correct / questions, (long long)score->questions,
                       (double)score->host_ns / 1e6);
    }
    bt_html_details("HellaSwag of", item, "", &table, out);
}

// The case, and the name of the metric, which links to its row.
static void add_name(const report_case *item, int64_t index, const char *tag, const char *title,
                     bt_table *table)
{
    bt_html_case(table, item);
    bt_html(bt_table_part(table, BT_CELL_ROW), " id=\"c%lld-%s\"", (long long)index, tag);
    bt_table_cells(table, "%s", tag);
    bt_html(bt_table_part(table, BT_CELL_MARKUP), "<a href=\"#c%lld-%s\" title=\"%s\">%s</a>",
            (long long)index, tag, title, tag);
}

// Every metric of every case, with the digests.
static void write_metrics(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"metrics"}};
    bt_table_heads(&table, "case|metric|>value~95 %% interval|>samples");
    for (int64_t i = 0; i < set->case_count; i++) {
        const report_case *item = &set->cases[i];
        for (int m = 0; m < BT_METRIC_COUNT; m++) {
            const bt_metric_value *value = &item->summary.metrics[m];
            const bt_metric_row *row = bt_metric_info((bt_metric)m);
            if (value->count > 0) {
                add_name(item, i, row->tag, row->description, &table);
                bt_table_interval(&table, row->unit, value->value, value->low, value->high);
                bt_table_cells(&table, "%lld", (long long)value->count);
            }
        }
        if (item->round->params_digest[0]) {
            add_name(item, i, "params_digest",
                     "of the training state after the last step; without state: before it, of the "
                     "parameters alone",
                     &table);
            bt_table_cells(&table, "%s|", item->round->params_digest);
        }
    }
    bt_html_details("Metrics of every case", NULL, "", &table, out);
}

// ---- rounds and telemetry -----------------------------------------------------------------------

static bt_metric main_metric(const report_case *item)
{
    return bt_report_is_kernel(item->round) ? BT_METRIC_TIME : BT_METRIC_TOKENS_PER_S;
}

static double seconds_of(const bt_store_round *round)
{
    return round->ended_ns > 0 ? (double)(round->ended_ns - round->started_ns) / 1e9 : (double)NAN;
}

static void add_round(const report_case *item, int64_t index, bt_table *table)
{
    const bt_store_round *round = item->rounds[index];
    const bt_metric metric = main_metric(item);
    bt_table_cells(table, "%lld|%lld|%s|%s|%lld|%s|%s|%s|%.6g|%s|%.2f", (long long)round->id,
                   (long long)item->run->id, round->what.name, round->what.system,
                   (long long)round->ordinal, bt_run_status_name(round->status), bt_noise_of(round),
                   bt_outputs_of(round), item->summaries[index].metrics[metric].value,
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

static void write_rounds(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"rounds"}, .row_id = {"round-"}, .shown = STILL_ROWS};
    const int64_t count = round_count(set);
    if (count <= set->case_count) {
        return; // one round per case: the metrics show it
    }
    bt_table_heads(&table, ">round|>run|case|system|>ordinal|status|noise|outputs|>value|unit|"
                           ">seconds");
    for (int64_t i = 0; i < set->case_count; i++) {
        for (int64_t r = 0; r < set->cases[i].round_count; r++) {
            add_round(&set->cases[i], r, &table);
        }
    }
    bt_html_details("Rounds", NULL, "", &table, out);
}

static void add_memory(const report_case *item, bt_table *table)
{
    BT_EACH(const bt_store_memory, memory, item->round->memory, item->round->memory_count) {
        const int64_t values[] = {memory->peak_allocated_bytes, memory->peak_reserved_bytes,
                                  memory->device_used_bytes, memory->peak_resident_bytes};
        bt_html_case(table, item);
        bt_table_cells(table, "%s", memory->phase);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const double value = values[v] > 0 ? (double)values[v] : (double)NAN;
            bt_table_number(table, BT_UNIT_BYTES, value);
        }
    }
}

static void write_memory(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"memory"}};
    bt_table_heads(&table, "case|phase|>peak allocated|>peak reserved|>used on the device|"
                           ">peak resident");
    for (int64_t i = 0; i < set->case_count; i++) {
        if (!bt_report_is_kernel(set->cases[i].round)) { // for a kernel case the metrics show it
            add_memory(&set->cases[i], &table);
        }
    }
    if (table.count > table.columns) {
        bt_html_details("Memory by phase", NULL, "", &table, out);
    }
    bt_table_release(&table);
}

static bool has_samples(const report_case *item)
{
    return item->round->telemetry_count > 0 && item->round->step_count > 0;
}

static void add_sample(const report_case *item, int64_t at, bt_table *table)
{
    bt_table_cells(table, "%lld", (long long)at);
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        const double value = bt_telemetry_value(&item->round->telemetry[at], c);
        bt_table_cells(table, "%s", isfinite(value) ? bt_textf("%.6g", value).text : "");
    }
}

static void write_samples(const report_case *item, int64_t index, bt_str *out)
{
    bt_table table = {.name = bt_textf("samples-%s", item->tag),
                      .row_id = bt_textf("c%lld-sample-", (long long)index),
                      .shown = STILL_ROWS};
    const int64_t count = item->round->telemetry_count, stride = 1 + count / CSV_SAMPLES;
    bt_table_heads(&table, ">sample");
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        const bt_telemetry_column *column = bt_telemetry_column_info(c);
        bt_table_heads(&table, ">%s", column->name);
        bt_html(bt_table_part(&table, BT_CELL_ATTRIBUTES), " title=\"%s\"", column->description);
    }
    for (int64_t i = 0; i < count; i += stride) {
        add_sample(item, i, &table);
    }
    bt_html_details("The machine during", item, "", &table, out);
}

static void write_all_samples(const report_set *set, bt_str *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        count += has_samples(&set->cases[i]);
    }
    bt_html_group_open(out, "The machine during the cases", count);
    for (int64_t i = 0; i < set->case_count; i++) {
        if (has_samples(&set->cases[i])) {
            write_samples(&set->cases[i], i, out);
        }
    }
    bt_html_group_close(out, count);
}

bt_status bt_page_tables(const report_set *set, bt_str *out)
{
    bt_str_append(out, "<section id=tables><h2>Raw tables</h2>\n");
    int64_t stride = csv_stride(set);
    if (stride > 1) {
        bt_str_format(out,
                      "<p class=muted>Of the steps, one in %lld is in this page; the database "
                      "has all.</p>\n",
                      (long long)stride);
    }
    write_metrics(set, out);
    write_rounds(set, out);
    write_memory(set, out);
    int64_t stepped = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        stepped += set->cases[i].round->step_count > 0;
    }
    bt_html_group_open(out, "Steps", stepped);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_steps(&set->cases[i], i, stride, out);
    }
    bt_html_group_close(out, stepped);
    bt_html_group_open(out, "Evaluations", stepped);
    for (int64_t i = 0; i < set->case_count; i++) {
        write_evals(&set->cases[i], i, out);
        write_launches(&set->cases[i], out);
        write_scores(&set->cases[i], i, out);
    }
    bt_html_group_close(out, stepped);
    write_all_samples(set, out);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}
