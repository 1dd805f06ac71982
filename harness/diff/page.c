// harness/diff/page.c - the result of diff-run as a page: error by depth, by step, and every value
#include <math.h>
#include <stdio.h>

#include "framework/base/scoped.h"
#include "harness/diff/diff.h"
#include "harness/report/plot.h"
#include "harness/text/escape.h"
#include "harness/text/table.h"

enum { STEPS_DRAWN = BT_PLOT_LINES_MAX - 1, KINDS_DRAWN = 4 };

// ---- plots --------------------------------------------------------------------------------------

// Points of a plot, with capacity for every row.
static bt_status make_points(const bt_diff_result *result, bt_arena *arena, double **out)
{
    return BT_ARENA_ARRAY(arena, result->row_count + 1, out);
}

static bool has_depth(const bt_diff_row *row)
{
    return row->depth > 0 &&
           (row->kind == BT_TRAIN_VALUE_FORWARD || row->kind == BT_TRAIN_VALUE_BACKWARD);
}

// The largest difference of each depth of a step, and for the last step drawn its bound.
static bt_status add_depths(const bt_diff_result *result, const bt_diff_step *step, bool bounds,
                            bt_arena *arena, bt_plot_line *line)
{
    double *x = NULL, *y = NULL;
    BT_TRY(make_points(result, arena, &x));
    BT_TRY(make_points(result, arena, &y));
    for (int64_t i = step->first; i < step->first + step->count; ++i) {
        const bt_diff_row *row = &result->rows[i];
        const double depth = (double)row->depth;
        const double value = bounds ? row->bound : row->difference.l2_relative;
        if (!has_depth(row)) {
            continue;
        }
        if (line->count > 0 && x[line->count - 1] >= depth) {
            // A later micro-batch, or another input of the same call.
            for (int64_t k = line->count - 1; k >= 0 && x[k] >= depth; --k) {
                y[k] = x[k] > depth ? y[k] : fmax(y[k], value);
            }
            continue;
        }
        x[line->count] = depth;
        y[line->count++] = value;
    }
    line->x = x;
    line->y = y;
    return BT_OK;
}

static bt_status write_depths(const bt_diff_result *result, bt_arena *arena, bt_str *out)
{
    bt_plot_line lines[BT_PLOT_LINES_MAX] = {{0}};
    char labels[BT_PLOT_LINES_MAX][48];
    const int64_t drawn = result->step_count < STEPS_DRAWN ? result->step_count : STEPS_DRAWN;
    int64_t last = 0;
    for (int64_t i = 0; i < drawn; ++i) { // the first, the last, and others evenly spaced
        last = drawn > 1 ? i * (result->step_count - 1) / (drawn - 1) : 0;
        (void)snprintf(labels[i], sizeof labels[i], "step %lld",
                       (long long)result->steps[last].step);
        lines[i].label = labels[i];
        BT_TRY(add_depths(result, &result->steps[last], false, arena, &lines[i]));
    }
    (void)snprintf(labels[drawn], sizeof labels[drawn], "bound of step %lld",
                   (long long)result->steps[last].step);
    lines[drawn].label = labels[drawn];
    BT_TRY(add_depths(result, &result->steps[last], true, arena, &lines[drawn]));
    return bt_svg_plot("Relative L2 difference by depth: forward, then backward", "op", lines,
                       drawn + 1, out);
}

static bt_status write_steps(const bt_diff_result *result, bt_arena *arena, bt_str *out)
{
    static const struct {
        bt_train_value_kind kind;
        const char *label;
    } kinds[KINDS_DRAWN] = {{BT_TRAIN_VALUE_FORWARD, "activations"},
                            {BT_TRAIN_VALUE_BACKWARD, "gradients of activations"},
                            {BT_TRAIN_VALUE_GRADIENT, "gradients of parameters"},
                            {BT_TRAIN_VALUE_STATE, "parameters and moments"}};
    bt_plot_line lines[KINDS_DRAWN] = {{0}};
    for (int k = 0; k < KINDS_DRAWN; ++k) {
        double *x = NULL, *y = NULL;
        BT_TRY(make_points(result, arena, &x));
        BT_TRY(make_points(result, arena, &y));
        for (int64_t s = 0; s < result->step_count; ++s) {
            const bt_diff_step *step = &result->steps[s];
            x[s] = (double)step->step;
            for (int64_t i = step->first; i < step->first + step->count; ++i) {
                const bt_diff_row *row = &result->rows[i];
                y[s] = row->kind == kinds[k].kind ? fmax(y[s], row->difference.l2_relative) : y[s];
            }
        }
        lines[k] = (bt_plot_line){kinds[k].label, x, y, result->step_count};
    }
    return bt_svg_plot("Largest relative L2 difference by step", "step", lines, KINDS_DRAWN, out);
}

// ---- the table ----------------------------------------------------------------------------------

static void add_row(const bt_diff_step *step, const bt_diff_row *row, bt_table *table)
{
    const bt_difference *d = &row->difference;
    bt_text ranks[2];
    for (int side = 0; side < 2; ++side) {
        ranks[side] = row->over && row->rank[side] >= 0
                          ? bt_textf(", rank %d of %c", row->rank[side], "AB"[side])
                          : bt_textf("%s", "");
    }
    bt_table_cells(table, "%lld|%s|%s|%s|%.3g|%.3g|%.3g|%.3g|%.3g|%lld of %lld|%s%s%s",
                   (long long)step->step, row->name, bt_dtype_name(row->dtype[0]),
                   bt_dtype_name(row->dtype[1]), d->l2, d->l2_relative, d->max, d->max_relative,
                   row->bound, (long long)d->differing, (long long)d->elements,
                   row->over ? "over" : "", ranks[0].text, ranks[1].text);
    if (row->over) {
        bt_str_append(bt_table_part(table, BT_CELL_ROW), " class=bad");
    }
}

static void write_table(const bt_diff_result *result, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, "step|value|type A|type B|L2|relative L2|max|relative max|bound|"
                           "differing|");
    BT_EACH(const bt_diff_step, step, result->steps, result->step_count) {
        for (int64_t i = step->first; i < step->first + step->count; ++i) {
            add_row(step, &result->rows[i], &table);
        }
    }
    bt_str_append(out, "<h2>Every value</h2>\n");
    bt_table_html(&table, out);
}

static void write_missing(const bt_diff_result *result, bt_str *out)
{
    bt_table table = {0};
    if (result->missing_count == 0) {
        return;
    }
    bt_table_heads(&table, "step|value|only in|reason");
    BT_EACH(const bt_diff_step, step, result->steps, result->step_count) {
        BT_EACH(const bt_diff_missing, row, &result->missing[step->missing_first], step->missing) {
            bt_table_cells(&table, "%lld|%s|%s|%s", (long long)step->step, row->name,
                           row->side ? "B" : "A", row->why);
        }
    }
    bt_str_append(out, "<h2>Values that were not compared</h2>\n");
    bt_table_html(&table, out);
}

static bt_status write_body(const bt_diff_side sides[2], const bt_diff_result *result,
                            bt_arena *arena, bt_str *out)
{
    BT_SCOPED(bt_str) summary = {0};
    bt_diff_summary(result, &summary);
    BT_TRY(bt_str_status(&summary));
    bt_html(out, "<h1>B compared with A</h1>\n<p>A: %s<br>B: %s</p>\n<p>Result: %s.",
            sides[0].label, sides[1].label, bt_str_text(&summary));
    if (result->first_over >= 0) {
        bt_html(out, " The first value over its bound is %s.",
                result->rows[result->first_over].name);
    }
    bt_str_append(out, "</p>\n");
    BT_TRY(write_depths(result, arena, out));
    BT_TRY(write_steps(result, arena, out));
    write_missing(result, out);
    write_table(result, out);
    return bt_str_status(out);
}

bt_status bt_diff_page(const bt_diff_side sides[2], const bt_diff_result *result, bt_str *out)
{
    BT_SCOPED(bt_arena) arena = {0};
    BT_SCOPED(bt_str) body = {0};
    BT_TRY(write_body(sides, result, &arena, &body));
    return bt_report_plain_page("bt-bench diff-run", bt_str_text(&body), out);
}
