// harness/diff/print.c - what diff-run found, as text and as JSON
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/diff/diff.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

static const char *dtype_text(const bt_diff_row *row, char text[16])
{
    (void)snprintf(text, 16, row->dtype[0] == row->dtype[1] ? "%s" : "%s/%s",
                   bt_dtype_name(row->dtype[0]), bt_dtype_name(row->dtype[1]));
    return text;
}

static void write_bound(const bt_diff_result *result, bt_str *out)
{
    if (result->bound.rounding > 0) {
        bt_str_format(out,
                      "bound        %g * sqrt(depth) * (%.3g + drift): rounding of both sides and "
                      "of sums of %.0f\n",
                      result->bound.margin, result->bound.rounding, result->longest);
    } else {
        bt_str_append(out, "bound        0: both sides must give the same bits\n");
    }
}

// ---- text ---------------------------------------------------------------------------------------

static bt_status write_steps(const bt_diff_result *result, bt_str *out)
{
    bt_table table = {.align = "rrrrrrrr"};
    static const char *const heads[] = {"step",    "loss A", "loss B", "values",
                                        "missing", "over",   "drift",  "worst rel. L2"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; ++i) {
        bt_table_cell(&table, "%s", heads[i]);
    }
    for (int64_t i = 0; i < result->step_count; ++i) {
        const bt_diff_step *step = &result->steps[i];
        double worst = 0;
        for (int64_t r = step->first; r < step->first + step->count; ++r) {
            worst = fmax(worst, result->rows[r].difference.l2_relative);
        }
        bt_table_cell(&table, "%lld", (long long)step->step);
        bt_table_cell(&table, "%.7g", step->loss[0]);
        bt_table_cell(&table, "%.7g", step->loss[1]);
        bt_table_cell(&table, "%lld", (long long)step->count);
        bt_table_cell(&table, "%lld", (long long)step->missing);
        bt_table_cell(&table, "%lld", (long long)step->over);
        bt_table_cell(&table, "%.2e", step->drift);
        bt_table_cell(&table, "%.2e", worst);
    }
    bt_status status = bt_table_print(&table, 0, out);
    bt_table_release(&table);
    return status;
}

// The part of its bound that a difference takes; of a bound of 0: whether anything differs.
static double share_of(const bt_diff_row *row)
{
    return row->bound > 0 ? row->difference.l2_relative / row->bound
                          : (double)row->difference.differing;
}

static void write_worst(bt_table *table, const bt_diff_row *row, int64_t values, int64_t over)
{
    const bt_difference *d = &row->difference;
    char type[16];
    bt_table_cell(table, "%s", bt_train_value_name(row->kind));
    bt_table_cell(table, "%s", row->layer);
    bt_table_cell(table, "%lld", (long long)values);
    bt_table_cell(table, "%lld", (long long)over);
    bt_table_cell(table, "%s", row->name);
    bt_table_cell(table, "%s", dtype_text(row, type));
    bt_table_cell(table, "%.2e", d->l2);
    bt_table_cell(table, "%.2e", d->max);
    bt_table_cell(table, "%.2e", d->max_relative);
    bt_table_cell(table, "%.2e", d->l2_relative);
    bt_table_cell(table, "%.2e", row->bound);
}

static bool same_group(const bt_diff_row *a, const bt_diff_row *b)
{
    return a->kind == b->kind && strcmp(a->layer, b->layer) == 0;
}

// A line per layer and kind of value, in the order made: the worst of them against its bound.
static bt_status write_layers(const bt_diff_result *result, const bt_diff_step *step, bt_str *out)
{
    bt_table table = {.align = "llrrllrrrrr"};
    static const char *const heads[] = {"kind", "layer", "values",   "over",    "worst", "type",
                                        "L2",   "max",   "rel. max", "rel. L2", "bound"};
    const int64_t end = step->first + step->count;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; ++i) {
        bt_table_cell(&table, "%s", heads[i]);
    }
    for (int64_t i = step->first, next = i; i < end; i = next) {
        int64_t worst = i, over = 0;
        for (next = i; next < end && same_group(&result->rows[i], &result->rows[next]); ++next) {
            over += result->rows[next].over;
            worst = share_of(&result->rows[next]) > share_of(&result->rows[worst]) ? next : worst;
        }
        write_worst(&table, &result->rows[worst], next - i, over);
    }
    bt_status status = bt_table_print(&table, 0, out);
    bt_table_release(&table);
    return status;
}

static const bt_diff_step *step_of(const bt_diff_result *result, int64_t row)
{
    for (int64_t i = 0; i < result->step_count; ++i) {
        const bt_diff_step *step = &result->steps[i];
        if (row >= step->first && row < step->first + step->count) {
            return step;
        }
    }
    return &result->steps[result->step_count - 1];
}

static void write_first(const bt_diff_result *result, bt_str *out)
{
    if (result->first_over < 0) {
        bt_str_append(out, "all values are within their bounds\n");
        return;
    }
    const bt_diff_row *row = &result->rows[result->first_over];
    const bt_difference *d = &row->difference;
    char where[64];
    bt_str_format(out,
                  "first over   %s, step %lld: relative L2 difference %.3g, bound %.3g; %lld of "
                  "%lld elements differ",
                  row->name, (long long)step_of(result, result->first_over)->step, d->l2_relative,
                  row->bound, (long long)d->differing, (long long)d->elements);
    if (d->first >= 0) {
        bt_str_format(out, ", the first is %s: %.9g in A, %.9g in B",
                      bt_element_text(&row->shape, d->first, where), d->first_a, d->first_b);
    }
    bt_str_append(out, "\n");
}

bt_status bt_diff_text(const bt_diff_side sides[2], const bt_diff_result *result, bt_str *out)
{
    bt_str_format(out, "A            %s\nB            %s\n", sides[0].label, sides[1].label);
    write_bound(result, out);
    bt_str_append(out, "\n");
    BT_TRY(write_steps(result, out));
    const bt_diff_step *shown = step_of(result, result->first_over >= 0 ? result->first_over : 0);
    bt_str_format(out, "\nstep %lld\n", (long long)shown->step);
    BT_TRY(write_layers(result, shown, out));
    bt_str_append(out, "\n");
    write_first(result, out);
    return bt_str_status(out);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void write_row(bt_json_writer *json, const bt_diff_row *row)
{
    const bt_difference *d = &row->difference;
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_text(json, "name", row->name);
    bt_json_writer_text(json, "kind", bt_train_value_name(row->kind));
    bt_json_writer_text(json, "layer", row->layer);
    bt_json_writer_text(json, "op", row->op);
    bt_json_writer_integer(json, "depth", row->depth);
    bt_json_writer_text(json, "dtype_a", bt_dtype_name(row->dtype[0]));
    bt_json_writer_text(json, "dtype_b", bt_dtype_name(row->dtype[1]));
    bt_json_writer_integer(json, "elements", d->elements);
    bt_json_writer_integer(json, "differing", d->differing);
    bt_json_writer_integer(json, "first_differing", d->first);
    bt_json_writer_integer(json, "worst", d->worst);
    bt_json_writer_real(json, "l2", d->l2);
    bt_json_writer_real(json, "l2_relative", d->l2_relative);
    bt_json_writer_real(json, "max", d->max);
    bt_json_writer_real(json, "max_relative", d->max_relative);
    bt_json_writer_real(json, "bound", row->bound);
    bt_json_writer_bool(json, "over", row->over);
    bt_json_writer_close(json, '}');
}

static void write_step(bt_json_writer *json, const bt_diff_result *result, const bt_diff_step *step)
{
    bt_json_writer_open(json, NULL, '{');
    bt_json_writer_integer(json, "step", step->step);
    bt_json_writer_real(json, "loss_a", step->loss[0]);
    bt_json_writer_real(json, "loss_b", step->loss[1]);
    bt_json_writer_real(json, "drift", step->drift);
    bt_json_writer_integer(json, "over", step->over);
    bt_json_writer_integer(json, "missing", step->missing);
    bt_json_writer_open(json, "values", '[');
    for (int64_t i = step->first; i < step->first + step->count; ++i) {
        write_row(json, &result->rows[i]);
    }
    bt_json_writer_close(json, ']');
    bt_json_writer_close(json, '}');
}

bt_status bt_diff_json(const bt_diff_side sides[2], const bt_diff_result *result, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "a", sides[0].label);
    bt_json_writer_text(&json, "b", sides[1].label);
    bt_json_writer_real(&json, "margin", result->bound.margin);
    bt_json_writer_real(&json, "rounding", result->bound.rounding);
    if (result->first_over >= 0) {
        bt_json_writer_open(&json, "first_over", '{');
        bt_json_writer_integer(&json, "step", step_of(result, result->first_over)->step);
        bt_json_writer_text(&json, "name", result->rows[result->first_over].name);
        bt_json_writer_close(&json, '}');
    } else {
        bt_json_writer_null(&json, "first_over");
    }
    bt_json_writer_open(&json, "steps", '[');
    for (int64_t i = 0; i < result->step_count; ++i) {
        write_step(&json, result, &result->steps[i]);
    }
    bt_json_writer_close(&json, ']');
    return bt_json_writer_end(&json, '}');
}
