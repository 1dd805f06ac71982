// harness/report/tables.c - raw tables: the data behind the page
//
// A table of steps shows at most STILL_ROWS of them, evenly spaced, including the first and last;
// the page contains all of them as CSV, which the script copies or shows on demand. A report with
// more than CSV_STEPS steps in total keeps every n-th in the CSV and says so.
#include <math.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"
#include "harness/stats/loss.h"

enum { STILL_ROWS = 60, CSV_STEPS = 12000, CSV_SAMPLES = 4000 };
_Static_assert((int)BT_TELEMETRY_COLUMNS < (int)BT_TABLE_COLUMNS, "a column each, and the sample");

static const double mib = 1048576.0;

// ---- tables of each case ------------------------------------------------------------------------

// Of steps, one in how many is kept.
static int64_t csv_stride(const report_set *set)
{
    int64_t total = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        total += set->cases[i].round->step_count;
    }
    return total > CSV_STEPS ? bt_div_up(total, CSV_STEPS) : 1;
}

// Adds one in `stride` of `count` records, evenly spaced, including the first and the last.
static void add_spaced(const bt_store_round *round, int64_t count, int64_t stride,
                       void (*add)(const bt_store_round *round, int64_t index, bt_table *table),
                       bt_table *table)
{
    const int64_t rows = bt_div_up(count, stride);
    for (int64_t i = 0; i < rows; i++) {
        add(round, rows > 1 ? i * (count - 1) / (rows - 1) : 0, table);
    }
}

static void add_step(const bt_store_round *round, int64_t index, bt_table *table)
{
    const bt_store_step *step = &round->steps[index];
    bt_table_cells(table, "%lld|%.9g|%s|%.4g|%.4g|%lld|%.6g|%.6g|%.1f|%.1f|%s",
                   (long long)step->step, (double)step->loss,
                   bt_textf("%08x", bt_loss_bits(step->loss)).text, (double)step->grad_norm,
                   step->lr, (long long)step->tokens, (double)step->host_ns / 1e6,
                   (double)step->device_ns / 1e6, (double)step->peak_allocated_bytes / mib,
                   (double)step->resident_bytes / mib,
                   step->warmup     ? "warm-up"
                   : step->profiled ? "profiled"
                                    : "");
}

static void fill_steps(const bt_store_round *round, int64_t stride, bt_table *table)
{
    bt_table_heads(table, ">step|>loss|>bits|>grad norm|>lr|>tokens|>host ms|>device ms|>peak MiB|"
                          ">resident MiB|kind");
    add_spaced(round, round->step_count, stride, add_step, table);
}

static void fill_evals(const bt_store_round *round, int64_t stride, bt_table *table)
{
    (void)stride;
    bt_table_heads(table, ">after steps|>loss|>tokens|>host ms");
    BT_EACH(const bt_store_eval, eval, round->evals, round->eval_count) {
        bt_table_cells(table, "%lld|%.9g|%lld|%.3f", (long long)eval->step, eval->loss,
                       (long long)eval->tokens, (double)eval->host_ns / 1e6);
    }
}

// Only if steps were launched in more than one way: on a device without graphs there is only one.
static void fill_launches(const bt_store_round *round, int64_t stride, bt_table *table)
{
    (void)stride;
    bt_table_heads(table, ">from step|way|meaning");
    const int64_t count = round->launch_count > 1 ? round->launch_count : 0;
    BT_EACH(const bt_store_launch, launch, round->launches, count) {
        bt_table_cells(table, "%lld|%s|%s", (long long)launch->step, launch->way, launch->message);
    }
}

static void fill_scores(const bt_store_round *round, int64_t stride, bt_table *table)
{
    (void)stride;
    bt_table_heads(table, ">after steps|>normalised|>plain|>questions|>host ms");
    BT_EACH(const bt_store_score, score, round->scores, round->score_count) {
        const double questions = (double)score->questions;
        bt_table_cells(table, "%lld|%.4f|%.4f|%lld|%.3f", (long long)score->step,
                       (double)score->normalised_correct / questions,
                       (double)score->correct / questions, (long long)score->questions,
                       (double)score->host_ns / 1e6);
    }
}

static void add_sample(const bt_store_round *round, int64_t index, bt_table *table)
{
    bt_table_cells(table, "%lld", (long long)index);
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        const double value = bt_telemetry_value(&round->telemetry[index], c);
        bt_table_cells(table, "%s", isfinite(value) ? bt_textf("%.6g", value).text : "");
    }
}

static void fill_samples(const bt_store_round *round, int64_t stride, bt_table *table)
{
    (void)stride;
    bt_table_heads(table, ">sample");
    for (int c = 0; c < BT_TELEMETRY_COLUMNS; c++) {
        const bt_telemetry_column *column = bt_telemetry_column_info(c);
        bt_table_heads(table, ">%s", column->name);
        bt_html(bt_table_part(table, BT_CELL_ATTRIBUTES), " title=\"%s\"", column->description);
    }
    const int64_t count = round->step_count > 0 ? round->telemetry_count : 0;
    add_spaced(round, count, 1 + count / CSV_SAMPLES, add_sample, table);
}

static bool has_samples(const report_case *item)
{
    return bt_report_has_steps(item) && item->round->telemetry_count > 0;
}

// A table of each case that has rows in it.
typedef struct case_table {
    const char *title, *name; // "Steps of", "steps"
    const char *row;          // rows have ids with this word; NULL: none
    int64_t shown;            // see bt_table
    void (*fill)(const bt_store_round *round, int64_t stride, bt_table *table);
} case_table;

static const case_table step_tables[] = {{"Steps of", "steps", "step", STILL_ROWS, fill_steps}};
static const case_table eval_tables[] = {
    {"Evaluations of", "evals", "eval", 0, fill_evals},
    {"How steps were launched,", "launches", NULL, 0, fill_launches},
    {"HellaSwag of", "scores", "score", 0, fill_scores}};
static const case_table sample_tables[] = {
    {"The machine during", "samples", "sample", STILL_ROWS, fill_samples}};

// `has`: whether a case counts as one of the group.
static void write_case_tables(const report_set *set, const char *group,
                              bool (*has)(const report_case *item), const case_table *tables,
                              int64_t count, bt_str *out)
{
    const int64_t stride = csv_stride(set), cases = bt_report_count(set, has);
    bt_html_group_open(out, group, cases);
    for (int64_t i = 0; i < set->case_count; i++) {
        BT_EACH(const case_table, what, tables, count) {
            const report_case *item = &set->cases[i];
            bt_table table = {.name = bt_textf("%s-%s", what->name, item->tag),
                              .shown = what->shown};
            if (what->row) {
                table.row_id = bt_textf("c%lld-%s-", (long long)i, what->row);
            }
            what->fill(item->round, stride, &table);
            bt_html_rows(what->title, item, &table, out);
        }
    }
    bt_html_group_close(out, cases);
}

// ---- tables of all cases ------------------------------------------------------------------------

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

// A round whose process was killed has no end, and may have no value: their cells are empty.
static void add_round(const report_case *item, int64_t index, bt_table *table)
{
    const bt_store_round *round = item->rounds[index];
    const bt_metric metric =
        bt_report_is_kernel(item->round) ? BT_METRIC_TIME : BT_METRIC_TOKENS_PER_S;
    const double value = item->summaries[index].metrics[metric].value;
    const double seconds = (double)(round->ended_ns - round->started_ns) / 1e9;
    bt_table_cells(table, "%lld|%lld|%s|%s|%lld|%s|%s|%s|%s|%s|%s", (long long)round->id,
                   (long long)item->run->id, round->what.name, round->what.system,
                   (long long)round->ordinal, bt_run_status_name(round->status), bt_noise_of(round),
                   bt_outputs_of(round), isfinite(value) ? bt_textf("%.6g", value).text : "",
                   bt_unit_name(bt_metric_info(metric)->unit),
                   round->ended_ns > 0 ? bt_textf("%.2f", seconds).text : "");
}

// Nothing if there is one round per case: the metrics show it.
static void write_rounds(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"rounds"}, .row_id = {"round-"}, .shown = STILL_ROWS};
    bool several = false;
    bt_table_heads(&table, ">round|>run|case|system|>ordinal|status|noise|outputs|>value|unit|"
                           ">seconds");
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        several = several || item->round_count > 1;
        for (int64_t r = 0; r < item->round_count; r++) {
            add_round(item, r, &table);
        }
    }
    if (several) {
        bt_html_details("Rounds", NULL, "", &table, out);
    }
    bt_table_release(&table);
}

static void write_memory(const report_set *set, bt_str *out)
{
    bt_table table = {.name = {"memory"}};
    bt_table_heads(&table, "case|phase|>peak allocated|>peak reserved|>used on the device|"
                           ">peak resident");
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        // For a kernel case the metrics show it.
        const int64_t count = bt_report_is_kernel(item->round) ? 0 : item->round->memory_count;
        BT_EACH(const bt_store_memory, memory, item->round->memory, count) {
            const int64_t values[] = {memory->peak_allocated_bytes, memory->peak_reserved_bytes,
                                      memory->device_used_bytes, memory->peak_resident_bytes};
            bt_html_case(&table, item);
            bt_table_cells(&table, "%s", memory->phase);
            for (int64_t v = 0; v < BT_COUNT(values); v++) {
                const double value = values[v] > 0 ? (double)values[v] : (double)NAN;
                bt_table_number(&table, BT_UNIT_BYTES, value);
            }
        }
    }
    bt_html_rows("Memory by phase", NULL, &table, out);
}

bt_status bt_page_tables(const report_set *set, bt_str *out)
{
    const int64_t stride = csv_stride(set);
    bt_str_append(out, "<section id=tables><h2>Raw tables</h2>\n");
    if (stride > 1) {
        bt_str_format(out,
                      "<p class=muted>Of the steps, one in %lld is in this page; the database "
                      "has all.</p>\n",
                      (long long)stride);
    }
    write_metrics(set, out);
    write_rounds(set, out);
    write_memory(set, out);
    write_case_tables(set, "Steps", bt_report_has_steps, step_tables, BT_COUNT(step_tables), out);
    write_case_tables(set, "Evaluations", bt_report_has_steps, eval_tables, BT_COUNT(eval_tables),
                      out);
    write_case_tables(set, "The machine during the cases", has_samples, sample_tables,
                      BT_COUNT(sample_tables), out);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}
