// harness/report/index.c - one page over all runs: a table with filters, and the history of each
// case
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/marks.h"
#include "harness/report/report.h"

enum { SPARK_WIDTH = 160, SPARK_HEIGHT = 28, SPARK_EDGE = 3 };

typedef struct index_page {
    const char *folder; // of the page, "" for the working directory
    bt_store_run_list runs;
    bt_store_points points;
    double *values; // [points.count], scratch
} index_page;

static bool is_rate(const bt_store_point *point)
{
    const bt_store_case what = {.kind = point->kind};
    return !bt_summary_times_calls(&what);
}

// ---- runs --------------------------------------------------------------------------------------

// The words by which a row is filtered, as attributes of the row of the last added cell. run 0: the
// row is not a run.
static void set_row(int64_t run, const char *const *words, int count, const char *status,
                    const char *suite, bt_table *table)
{
    bt_str *out = bt_table_part(table, BT_CELL_ROW);
    if (run > 0) {
        bt_str_format(out, " id=run-%lld", (long long)run);
    }
    bt_str_append(out, " data-words=\"");
    for (int i = 0; i < count; ++i) {
        bt_html(out, "%s ", words[i]);
    }
    bt_html(out, "\" data-status=\"%s\" data-suite=\"%s\"", status, suite);
}

// A link to the run's own page, as seen from the index.
static void add_number(const index_page *page, const bt_store_run_row *row, bt_table *table)
{
    const size_t length = strlen(page->folder);
    const char *path = row->report;
    if (*path && strncmp(path, page->folder, length) == 0) {
        path += length;
    } else if (*path && *path != '/') {
        path = ""; // elsewhere, and its location is unknown
    }
    bt_table_cells(table, "%lld", (long long)row->id);
    if (*path) {
        bt_str_append(bt_table_part(table, BT_CELL_LINK), path);
    }
}

static void add_run(const index_page *page, const bt_store_run_row *row, bt_table *table)
{
    const char *status = bt_run_status_name(row->status);
    const char *words[] = {row->suite, row->profile, row->name, row->note, row->git_commit};
    add_number(page, row, table);
    set_row(row->id, words, 5, status, row->suite, table);
    bt_table_cells(table, "%s|%s~%s", row->name, row->suite, row->profile);
    bt_mark_cell(status, table);
    bt_table_cells(table, "%s", bt_format_date(row->started_ns).text);
    bt_html_number(table, row->ended_ns > 0, BT_UNIT_NS, (double)(row->ended_ns - row->started_ns));
    bt_table_cells(table, "%lld|%.10s%s|%s", (long long)row->round_count, row->git_commit,
                   row->modified ? "+" : "", row->note);
}

static void write_runs(const index_page *page, bt_str *out)
{
    bt_table table = {.name = {"runs"}};
    bt_table_heads(&table, ">run|name|suite|status|started|>time|>rounds|commit|note");
    for (int64_t i = 0; i < page->runs.count; ++i) {
        add_run(page, &page->runs.rows[i], &table);
    }
    bt_str_append(out, "<section id=runs><h2>Runs</h2>\n");
    bt_table_html(&table, out);
    bt_str_append(out, "</section>\n");
}

// ---- cases -------------------------------------------------------------------------------------

static bool same_series(const bt_store_point *a, const bt_store_point *b)
{
    return a->case_id == b->case_id && strcmp(a->system, b->system) == 0 &&
           strcmp(a->environment, b->environment) == 0;
}

// The medians of the runs among points [count], in the order of runs; returns their number.
static bt_status take_medians(const index_page *page, const bt_store_point *points, int64_t count,
                              int64_t *runs)
{
    *runs = 0;
    for (int64_t from = 0, to = 0; from < count; from = to) {
        bt_stats stats;
        for (to = from; to < count && points[to].run == points[from].run; ++to) {
            page->values[to] = points[to].value;
        }
        BT_TRY(bt_stats_of(page->values + from, to - from, &stats));
        page->values[(*runs)++] = stats.median; // after what was read already
    }
    return BT_OK;
}

static void write_spark(const double *values, int64_t count, const char *label, bt_str *out)
{
    double low = values[0], high = values[0];
    for (int64_t i = 1; i < count; ++i) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    const double span = high > low ? high - low : 1, wide = SPARK_WIDTH - 2 * SPARK_EDGE;
    double x = 0, y = 0;
    bt_html(out,
            "<svg class=spark width=%d height=%d viewBox=\"0 0 %d %d\" role=img "
            "aria-label=\"%s\"><polyline points=\"",
            SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, label);
    for (int64_t i = 0; i < count; ++i) {
        x = SPARK_EDGE + (count > 1 ? wide * (double)i / (double)(count - 1) : wide / 2);
        y = SPARK_EDGE +
            (SPARK_HEIGHT - 2 * SPARK_EDGE) * (high > low ? (high - values[i]) / span : 0.5);
        bt_str_format(out, "%s%.1f,%.1f", i ? " " : "", x, y);
    }
    bt_str_format(out, "\"/><circle cx=%.1f cy=%.1f r=2.5 /></svg>", x, y);
}

static bt_status add_series(const index_page *page, const bt_store_point *points, int64_t count,
                            bt_table *table)
{
    int64_t runs = 0;
    BT_TRY(take_medians(page, points, count, &runs));
    const bt_unit unit = is_rate(points) ? BT_UNIT_TOKENS_PER_S : BT_UNIT_NS;
    const double *values = page->values, last = values[runs - 1];
    const char *words[] = {points->suite, points->name, points->system, points->kind};
    const bt_text label = bt_textf("%s, the last %s", bt_format_items(runs, "run").text,
                                   bt_format_value(unit, last).text);
    const double change = runs > 1 ? 100 * (last / values[runs - 2] - 1) : 0;
    bt_table_cells(table, "%s", points->name);
    set_row(0, words, 4, "", points->suite, table);
    bt_table_cells(table, "%s", points->system);
    bt_table_number(table, unit, last);
    bt_table_cells(table, "%s|", runs > 1 ? bt_textf("%+.1f %%", change).text : "");
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=plot-cell");
    write_spark(values, runs, label.text, bt_table_part(table, BT_CELL_MARKUP));
    const long long run = (long long)points[count - 1].run;
    bt_table_cells(table, "%lld|%lld", (long long)runs, run);
    bt_str_format(bt_table_part(table, BT_CELL_LINK), "#run-%lld", run);
    bt_table_cells(table, "%s", points->suite);
    return BT_OK;
}

static bt_status write_cases(const index_page *page, bt_str *out)
{
    const bt_store_point *points = page->points.rows;
    bt_table table = {.name = {"cases"}};
    bt_status status = BT_OK;
    if (page->points.count == 0) {
        return BT_OK;
    }
    bt_table_heads(&table, "case|system|>last|>change|runs, oldest to newest");
    bt_str_append(bt_table_part(&table, BT_CELL_ATTRIBUTES), " class=axis-head");
    bt_table_heads(&table, ">runs|>last run|suite");
    for (int64_t from = 0, to = 0; status == BT_OK && from < page->points.count; from = to) {
        for (to = from; to < page->points.count && same_series(&points[from], &points[to]); ++to) {
        }
        status = add_series(page, points + from, to - from, &table);
    }
    bt_str_append(
        out,
        "<section id=series><h2>Cases over runs</h2>\n<p class=muted>A point is a run: the median "
        "of its rounds, from the oldest to the newest. Training: tokens/s, higher is better; "
        "calls: time, lower is better. A line is one case with the same settings on machines with "
        "equal hard facts; 'bt-bench history CASE' shows where it changed.</p>\n");
    bt_table_html(&table, out);
    bt_str_append(out, "</section>\n");
    return status;
}

// ---- the head ----------------------------------------------------------------------------------

static void write_choice(const char *word, bt_str *out)
{
    bt_html(out, "<option value=\"%s\">%s", word, word);
}

static void write_suites(const index_page *page, bt_str *out)
{
    for (int64_t i = 0; i < page->runs.count; ++i) {
        bool known = false;
        for (int64_t j = 0; j < i && !known; ++j) {
            known = strcmp(page->runs.rows[i].suite, page->runs.rows[j].suite) == 0;
        }
        if (!known) {
            write_choice(page->runs.rows[i].suite, out);
        }
    }
}

static void write_head(const index_page *page, const char *database, bt_str *out)
{
    int64_t counts[BT_RUN_STATUS_COUNT] = {0};
    for (int64_t i = 0; i < page->runs.count; ++i) {
        ++counts[page->runs.rows[i].status];
    }
    bt_html(out, "<header><p class=eyebrow>bt-bench</p><h1>%s in %s</h1>\n<ul class=tiles>",
            bt_format_items(page->runs.count, "run").text, database);
    for (int i = 0; i < BT_RUN_STATUS_COUNT; ++i) {
        if (counts[i] > 0) {
            bt_mark_tile(bt_mark_of(bt_run_status_name((bt_run_status)i)), "", counts[i], out);
        }
    }
    bt_str_append(out, "</ul>\n<form class=filters hidden><label>Words <input type=search id=words>"
                       "</label> <label>Status <select id=status><option value=\"\">all");
    for (int i = 0; i < BT_RUN_STATUS_COUNT; ++i) {
        if (counts[i] > 0) {
            write_choice(bt_run_status_name((bt_run_status)i), out);
        }
    }
    bt_str_append(out, "</select></label> <label>Suite <select id=suite><option value=\"\">all");
    write_suites(page, out);
    bt_str_append(out,
                  "</select></label> <output class=muted id=shown></output></form></header>\n");
}

static bt_status write_page(const index_page *page, const char *database, bt_str *out)
{
    BT_SCOPED(bt_str) body = {0};
    write_head(page, database, &body);
    write_runs(page, &body);
    BT_TRY(write_cases(page, &body));
    BT_TRY(bt_str_status(&body));
    return bt_page_of_tables("bt-bench: all runs", bt_str_text(&body), out);
}

bt_status bt_report_index(bt_store *store, const char *folder, bt_str *out)
{
    index_page page = {.folder = folder};
    BT_SCOPED_MEM(double *) values = NULL;
    BT_TRY(bt_store_run_list_read(store, &page.runs));
    bt_status status = bt_store_points_read(store, &page.points);
    BT_IF_OK(status, BT_MEM_ARRAY(page.points.count, &values));
    page.values = values;
    BT_IF_OK(status, write_page(&page, bt_store_path(store), out));
    bt_store_points_release(&page.points);
    bt_store_run_list_release(&page.runs);
    return status;
}
