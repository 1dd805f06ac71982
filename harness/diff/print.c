// harness/diff/print.c - the result of diff-run as text and JSON
//
// Text: the sides and the verdict, tables of steps and of layers, what their columns mean, numbers.
// In a narrow terminal the tables omit absolute differences first, then types, then kinds.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/diff/diff.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

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

static bt_text loss_text(const bt_diff_step *step, int side)
{
    return step->trains[side] ? bt_textf("%.7g", step->loss[side]) : bt_textf("-");
}

static bt_status write_steps(const bt_diff_result *result, int columns, bt_str *out)
{
    bt_table table = {0};
    bt_table_heads(&table, ">step|>loss A|>loss B|>values|>missing|>over|>drift|>worst rel. L2");
    bt_table_fit(&table, columns, "values|missing");
    BT_EACH(const bt_diff_step, step, result->steps, result->step_count) {
        double worst = 0;
        for (int64_t r = step->first; r < step->first + step->count; ++r) {
            worst = fmax(worst, result->rows[r].difference.l2_relative);
        }
        bt_table_cells(&table, "%lld|%s|%s|%lld|%lld|%lld|%.2e|%.2e", (long long)step->step,
                       loss_text(step, 0).text, loss_text(step, 1).text, (long long)step->count,
                       (long long)step->missing, (long long)step->over, step->drift, worst);
    }
    return bt_table_print(&table, 0, out);
}

// The difference as a fraction of its bound; if the bound is 0: whether anything differs.
static double share_of(const bt_diff_row *row)
{
    return row->bound > 0 ? row->difference.l2_relative / row->bound
                          : (double)row->difference.differing;
}

static void write_worst(bt_table *table, const bt_diff_row *row, int64_t values, int64_t over)
{
    const bt_difference *d = &row->difference;
    char type[16];
    bt_table_cells(table, "%s|%s|%lld|%lld|%s|%s|%.2e|%.2e|%.2e|%.2e|%.2e",
                   bt_train_value_name(row->kind), row->layer, (long long)values, (long long)over,
                   row->name, dtype_text(row, type), d->l2, d->max, d->max_relative, d->l2_relative,
                   row->bound);
}

static bool same_group(const bt_diff_row *a, const bt_diff_row *b)
{
    return a->kind == b->kind && strcmp(a->layer, b->layer) == 0;
}

// A line per layer and kind of value, in the order made: the worst of them relative to its bound.
static bt_status write_layers(const bt_diff_result *result, const bt_diff_step *step, int columns,
                              bt_str *out)
{
    bt_table table = {0};
    const int64_t end = step->first + step->count;
    bt_table_heads(&table,
                   "kind|layer|>values|>over|worst|type|>L2|>max|>rel. max|>rel. L2|>bound");
    // The name of the worst value begins with the kind.
    bt_table_fit(&table, columns, "L2|max|rel. max|type|values|kind");
    for (int64_t i = step->first, next; i < end; i = next) {
        int64_t worst = i, over = 0;
        for (next = i; next < end && same_group(&result->rows[i], &result->rows[next]); ++next) {
            over += result->rows[next].over;
            worst = share_of(&result->rows[next]) > share_of(&result->rows[worst]) ? next : worst;
        }
        write_worst(&table, &result->rows[worst], next - i, over);
    }
    return bt_table_print(&table, 0, out);
}

static int64_t over_of(const bt_diff_result *result)
{
    int64_t over = 0;
    BT_EACH(const bt_diff_step, step, result->steps, result->step_count) {
        over += step->over;
    }
    return over;
}

static const bt_diff_step *step_of(const bt_diff_result *result, int64_t row)
{
    BT_EACH(const bt_diff_step, step, result->steps, result->step_count) {
        if (row >= step->first && row < step->first + step->count) {
            return step;
        }
    }
    return &result->steps[result->step_count - 1];
}

// Missing values by side and reason, in the order found.
typedef struct missing_group {
    const bt_diff_missing *first; // borrowed
    int64_t count;
} missing_group;

enum { GROUPS_MAX = 16 };

static int group_missing(const bt_diff_result *result, missing_group groups[GROUPS_MAX])
{
    int count = 0;
    BT_EACH(const bt_diff_missing, row, result->missing, result->missing_count) {
        int at = 0;
        while (at < count &&
               (groups[at].first->side != row->side || groups[at].first->why != row->why)) {
            ++at;
        }
        if (at == count && count < GROUPS_MAX) {
            groups[count++] = (missing_group){.first = row};
        }
        groups[at < GROUPS_MAX ? at : GROUPS_MAX - 1].count += 1;
    }
    return count;
}

static bt_status write_missing(const bt_diff_result *result, int columns, bt_str *out)
{
    missing_group groups[GROUPS_MAX];
    const int count = group_missing(result, groups);
    bt_table table = {0};
    if (count == 0) {
        return BT_OK;
    }
    bt_table_heads(&table, ">not compared|only in|first|<reason");
    bt_table_fit(&table, columns, "");
    for (int i = 0; i < count; ++i) {
        const bt_diff_missing *first = groups[i].first;
        bt_table_cells(&table, "%lld|%s|%s|%s", (long long)groups[i].count, first->side ? "B" : "A",
                       first->name, first->why);
    }
    return bt_table_print(&table, 0, out);
}

// "all 1042 compared values are within their bounds; 250 values were not compared", and what the
// bounds do not show.
void bt_diff_summary(const bt_diff_result *result, bt_str *out)
{
    const long long missing = (long long)result->missing_count;
    if (result->first_over >= 0) {
        bt_str_format(out, "%lld of %lld compared values are over their bounds",
                      (long long)over_of(result), (long long)result->row_count);
    } else {
        bt_str_format(out, "all %lld compared values are within their bounds",
                      (long long)result->row_count);
    }
    if (missing > 0) {
        bt_str_format(out, "; %lld were not compared, because only one side has them", missing);
    }
    if (result->wide > 0) {
        bt_str_format(out,
                      "; of %lld the bound is twice the learning rate per update, which does not "
                      "show another optimizer, because a side has no moments of them",
                      (long long)result->wide);
    }
}

static void write_first(const bt_diff_result *result, bt_str *out)
{
    if (result->first_over < 0) {
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
    for (int side = 0; side < 2; ++side) {
        if (row->rank[side] >= 0) {
            bt_str_format(out, "; the worst is of rank %d of %c", row->rank[side], "AB"[side]);
        }
    }
    if (d->first >= 0) {
        bt_str_format(out, ", the first is %s: %.9g in A, %.9g in B",
                      bt_element_text(&row->shape, d->first, where), d->first_a, d->first_b);
    }
    bt_str_append(out, "\n");
}

// At the top; at the end are the numbers.
static void write_verdict(const bt_diff_result *result, bt_str *out)
{
    if (result->first_over < 0) {
        bt_str_append(out, "verdict      within the bounds\n");
        return;
    }
    bt_str_format(out, "verdict      over the bounds, first in %s, step %lld\n",
                  result->rows[result->first_over].name,
                  (long long)step_of(result, result->first_over)->step);
}

static const char legend[] =
    "depth: ops before a value. drift: relative L2 difference of the parameters before the step. "
    "missing: values that only one side has. over: values above their bounds. worst: the value "
    "nearest to its bound, or furthest above it. Every value: -o FILE.html or --format json.\n\n";

bt_status bt_diff_text(const bt_diff_side sides[2], const bt_diff_result *result, int columns,
                       bt_str *out)
{
    const size_t start = out->length_bytes;
    bt_str_format(out, "A            %s\nB            %s\n", sides[0].label, sides[1].label);
    write_verdict(result, out);
    write_bound(result, out);
    bt_str_append(out, "\n");
    BT_TRY(write_steps(result, columns, out));
    const bt_diff_step *shown = step_of(result, result->first_over >= 0 ? result->first_over : 0);
    bt_str_format(out, "\nstep %lld\n", (long long)shown->step);
    BT_TRY(write_layers(result, shown, columns, out));
    bt_str_append(out, "\n");
    BT_TRY(write_missing(result, columns, out));
    bt_str_append(out, result->missing_count > 0 ? "\n" : "");
    bt_str_append(out, legend);
    write_first(result, out);
    bt_diff_summary(result, out);
    bt_str_append(out, "\n");
    bt_wrap_from(out, start, columns);
    return bt_str_status(out);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void write_row(bt_json_writer *json, const bt_diff_row *row)
{
    const bt_difference *d = &row->difference;
    BT_JSON_OBJECT(json, NULL, BT_OF(row, name), BT_KV("kind", bt_train_value_name(row->kind)),
                   BT_OF(row, layer), BT_OF(row, op), BT_OF(row, depth),
                   BT_KV("dtype_a", bt_dtype_name(row->dtype[0])),
                   BT_KV("dtype_b", bt_dtype_name(row->dtype[1])), BT_OF(d, elements),
                   BT_OF(d, differing), BT_KV("first_differing", d->first), BT_OF(d, worst),
                   BT_OF(d, l2), BT_OF(d, l2_relative), BT_OF(d, max), BT_OF(d, max_relative),
                   BT_OF(row, bound), BT_OF(row, over), BT_OF(row, wide),
                   BT_KV("rank_a", row->rank[0]), BT_KV("rank_b", row->rank[1]));
}

static void write_step(bt_json_writer *json, const bt_diff_result *result, const bt_diff_step *step)
{
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_OF(step, step), BT_KV("loss_a", step->loss[0]), BT_KV("loss_b", step->loss[1]),
            BT_OF(step, drift), BT_OF(step, over), BT_OF(step, missing));
    bt_json_writer_open(json, "values", '[');
    for (int64_t i = step->first; i < step->first + step->count; ++i) {
        write_row(json, &result->rows[i]);
    }
    bt_json_writer_close(json, ']');
    BT_JSON_LIST(json, "not_compared", i, step->missing) {
        const bt_diff_missing *row = &result->missing[step->missing_first + i];
        BT_JSON_OBJECT(json, NULL, BT_OF(row, name), BT_KV("only_in", row->side ? "b" : "a"),
                       BT_OF(row, why));
    }
    bt_json_writer_close(json, '}');
}

bt_status bt_diff_json(const bt_diff_side sides[2], const bt_diff_result *result, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 1};
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("a", sides[0].label), BT_KV("b", sides[1].label),
            BT_OF(&result->bound, margin), BT_OF(&result->bound, rounding),
            BT_KV("compared", result->row_count), BT_KV("not_compared", result->missing_count),
            BT_KV("wide_bounds", result->wide));
    if (result->first_over >= 0) {
        BT_JSON_OBJECT(&json, "first_over",
                       BT_KV("step", step_of(result, result->first_over)->step),
                       BT_OF(&result->rows[result->first_over], name));
    } else {
        bt_json_writer_null(&json, "first_over");
    }
    BT_JSON_LIST(&json, "steps", i, result->step_count) {
        write_step(&json, result, &result->steps[i]);
    }
    return bt_json_writer_end(&json, '}');
}
