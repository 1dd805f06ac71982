// harness/compare/print.c - a comparison as text and as JSON
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/compare/compare.h"
#include "harness/suite/utf8.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

static double ratio_of(const bt_metric_value *left, const bt_metric_value *right)
{
    return right->value / left->value; // a NaN on either side, or 0/0, stays NaN
}

// Whether the right side is better or worse: only if the intervals over rounds do not overlap. The
// samples of one round do not predict the next.
static const char *tendency(const bt_compare_pair *pair, bt_direction direction,
                            const bt_metric_value *left, const bt_metric_value *right)
{
    if (pair->left_side.count < 2 || pair->right_side.count < 2) {
        return "";
    }
    bool above = right->low > left->high, below = right->high < left->low;
    if (direction == BT_DIRECTION_NEITHER || (!above && !below)) {
        return "";
    }
    return above == (direction == BT_DIRECTION_HIGHER) ? "better" : "worse";
}

static void side_cell(bt_table *table, bt_unit unit, const bt_metric_value *value)
{
    const bool wide = value->low < value->high; // equal rounds need no interval
    bt_table_interval(table, unit, value->value, wide ? value->low : (double)NAN, value->high);
}

static bt_status print_metrics(const bt_comparison *both, const bt_compare_pair *pair, int columns,
                               bt_str *out)
{
    const long long left_id = (long long)both->left.id, right_id = (long long)both->right.id;
    bt_table table = {0};
    bt_table_heads(&table, "|>run %lld~|>run %lld~|>run %lld/run %lld|", left_id, right_id,
                   right_id, left_id);
    bt_table_fit(&table, columns, "");
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        const bt_metric_row *row = bt_metric_info((bt_metric)i);
        const bt_metric_value *left = &pair->left_summary.metrics[i];
        const bt_metric_value *right = &pair->right_summary.metrics[i];
        if (left->count == 0 && right->count == 0) {
            continue;
        }
        bt_table_cells(&table, "%s", row->tag);
        side_cell(&table, row->unit, left);
        side_cell(&table, row->unit, right);
        bt_table_cells(&table, "%s|%s", bt_format_ratio(ratio_of(left, right)).text,
                       tendency(pair, row->direction, left, right));
    }
    return bt_table_print(&table, 2, out);
}

static void print_curve(const bt_curve_difference *loss, bt_str *out)
{
    bt_str_append(out, "  loss curve            ");
    if (loss->shared == 0) {
        bt_str_append(out, "no steps in common\n");
    } else if (loss->bitwise_equal) {
        bt_str_format(out, "bitwise equal over %s\n", bt_format_items(loss->shared, "step").text);
    } else {
        bt_str_format(out,
                      "differs from step %lld on; max |difference| %.3g at step %lld, %s "
                      "compared\n",
                      (long long)loss->first_step, loss->max_difference, (long long)loss->max_step,
                      bt_format_items(loss->shared, "step").text);
    }
}

static void print_digests(const bt_compare_pair *pair, bt_str *out)
{
    const char *words = !pair->digests_known  ? "not comparable"
                        : pair->digests_equal ? "equal"
                                              : "different";
    bt_str_format(out, "  state digest          %s", words);
    if (pair->digests_known) {
        bt_str_format(out, "  %.14s %.14s", pair->left->params_digest, pair->right->params_digest);
    }
    bt_str_append(out, "\n");
}

// Labels of the two rounds, and clocks that differ too much for their speeds to be compared.
static void print_noise(const bt_compare_pair *pair, bt_str *out)
{
    const bt_compare_side *a = &pair->left_side, *b = &pair->right_side;
    const char *left = pair->left->label, *right = pair->right->label;
    if (a->count > 1 || b->count > 1) {
        bt_str_format(out, "  rounds                %lld, %lld disturbed / %lld, %lld disturbed\n",
                      (long long)a->count, (long long)a->noisy, (long long)b->count,
                      (long long)b->noisy);
    } else if (left[0] || right[0]) {
        bt_str_format(out, "  noise                 %s / %s\n", left[0] ? left : "quiet",
                      right[0] ? right : "quiet");
    }
    if (!pair->clocks_comparable) {
        bt_str_format(out, "  clocks                %s: speeds are not comparable\n", pair->clocks);
    }
}

static bt_status print_runs(const bt_comparison *both, int columns, bt_str *out)
{
    const bt_store_run *runs[] = {&both->left, &both->right};
    bt_table table = {0};
    bt_table_heads(&table, "||||<");
    bt_table_fit(&table, columns, "");
    for (int i = 0; i < 2; i++) {
        bt_table_cells(&table, "run %lld|%s|%s|%s|%s", (long long)runs[i]->id,
                       runs[i]->info.suite.name, runs[i]->info.suite.profile,
                       bt_run_status_name(runs[i]->status),
                       bt_format_date(runs[i]->started_ns).text);
    }
    return bt_table_print(&table, 0, out);
}

// Whole cases that only one plan has would fill the screen: only the JSON has them in full.
static void add_value(bt_table *table, const char *value)
{
    enum { SHOWN = 45 };
    size_t end = 0;
    for (size_t next = bt_utf8_length(value); end < SHOWN && value[end] && next > 0;
         next = bt_utf8_length(value + end)) {
        end += next;
    }
    char shown[SHOWN + 4]; // and the rest of a code point
    (void)snprintf(shown, sizeof shown, "%.*s", (int)end, value);
    bt_table_cells(table, "%s%s", shown, value[end] ? "..." : end ? "" : "-");
}

static bt_status print_items(const bt_comparison *both, int columns, bt_str *out)
{
    if (both->item_count == 0) {
        bt_str_append(out, "\nplan, build and environment are the same\n");
        return BT_OK;
    }
    bt_str_append(out, "\nwhat differs\n");
    bt_table table = {0};
    bt_table_heads(&table, "||<run %lld|<run %lld|", (long long)both->left.id,
                   (long long)both->right.id);
    bt_table_fit(&table, columns, "");
    BT_EACH(const bt_compare_item, item, both->items, both->item_count) {
        bool fact = strcmp(item->group, "environment") == 0;
        bt_table_cells(&table, "%s|%s", item->group, item->key);
        add_value(&table, item->left);
        add_value(&table, item->right);
        bt_table_cells(&table, "%s", fact ? bt_fact_level_name(item->level) : "");
    }
    return bt_table_print(&table, 2, out);
}

// The cases that one run has, of which the other has none, as "a, b, c on pytorch-eager".
static void print_alone(const bt_comparison *both, bool left, bt_str *out)
{
    const int64_t first = left ? 0 : both->alone_left_count;
    const int64_t end = left ? both->alone_left_count : both->alone_count;
    const bt_store_run *run = left ? &both->left : &both->right;
    if (first == end && both->pair_count > 0) {
        return;
    }
    bt_str_format(
        out, both->pair_count > 0 ? "\nonly in run %lld: " : "run %lld has: ", (long long)run->id);
    for (int64_t i = first; i < end; i++) {
        const bt_store_case *what = &both->alone[i]->what;
        const bool ours = strcmp(what->system, "blutrain") == 0;
        bt_str_format(out, "%s%s%s%s", i > first ? ", " : "", what->name, ours ? "" : " on ",
                      ours ? "" : what->system);
    }
    bt_str_append(out, first == end ? "no measured case\n" : "\n");
}

static void print_nothing_in_common(const bt_comparison *both, bt_str *out)
{
    bt_str_append(out, "\nthe runs have no case in common, so nothing is compared\n");
    print_alone(both, true, out);
    print_alone(both, false, out);
}

static bt_status print_all(const bt_comparison *both, int columns, bt_str *out)
{
    BT_TRY(print_runs(both, columns, out));
    if (both->pair_count == 0) { // a list of what differs would be that of two whole plans
        print_nothing_in_common(both, out);
        return bt_str_status(out);
    }
    BT_EACH(const bt_compare_pair, pair, both->pairs, both->pair_count) {
        bt_str_format(out, "\n%s, %s", pair->left->what.name, pair->left->what.system);
        if (strcmp(pair->left->what.system, pair->right->what.system) != 0) {
            bt_str_format(out, " against %s", pair->right->what.system);
        }
        bt_str_append(out, "\n");
        BT_TRY(print_metrics(both, pair, columns, out));
        print_noise(pair, out);
        if (!bt_summary_times_calls(&pair->left->what)) {
            print_curve(&pair->loss, out);
            print_digests(pair, out);
        }
    }
    print_alone(both, true, out);
    print_alone(both, false, out);
    BT_TRY(print_items(both, columns, out));
    if (both->hard_differs) {
        bt_str_append(out, "hard facts of the environments differ: speeds are not comparable\n");
    }
    return bt_str_status(out);
}

// Reads both runs for the text or the JSON.
static bt_status compare(bt_store *store, int64_t left, int64_t right, bt_comparison *both,
                         bool *comparable)
{
    BT_TRY(bt_compare_runs(store, left, right, both));
    if (comparable) {
        *comparable = !both->hard_differs && both->pair_count > 0;
    }
    return BT_OK;
}

bt_status bt_compare_text(bt_store *store, int64_t left, int64_t right, int columns, bt_str *out,
                          bool *comparable)
{
    BT_SCOPED(bt_comparison) both = {0};
    size_t start = out->length_bytes;
    BT_TRY(compare(store, left, right, &both, comparable));
    BT_TRY(print_all(&both, columns, out));
    bt_wrap_from(out, start, columns);
    return bt_text_end(out, start);
}

static void json_side(bt_json_writer *json, const char *key, const bt_metric_value *value)
{
    BT_JSON_OBJECT(json, key, BT_OF(value, value), BT_OF(value, low), BT_OF(value, high),
                   BT_OF(value, count));
}

static void json_pair(bt_json_writer *json, const bt_compare_pair *pair)
{
    bt_json_writer_open(json, NULL, '{');
    BT_JSON(json, BT_OF(&pair->left->what, name), BT_KV("left_system", pair->left->what.system),
            BT_KV("right_system", pair->right->what.system));
    bt_json_writer_open(json, "metrics", '{');
    for (int i = 0; i < BT_METRIC_COUNT; i++) {
        const bt_metric_value *left = &pair->left_summary.metrics[i];
        const bt_metric_value *right = &pair->right_summary.metrics[i];
        if (left->count == 0 && right->count == 0) {
            continue;
        }
        bt_json_writer_open(json, bt_metric_info((bt_metric)i)->tag, '{');
        json_side(json, "left", left);
        json_side(json, "right", right);
        bt_json_writer_real(json, "ratio", ratio_of(left, right));
        bt_json_writer_close(json, '}');
    }
    bt_json_writer_close(json, '}');
    BT_JSON(json, BT_KV("left_rounds", pair->left_side.count),
            BT_KV("right_rounds", pair->right_side.count), BT_KV("left_label", pair->left->label),
            BT_KV("right_label", pair->right->label), BT_OF(pair, clocks_comparable));
    BT_JSON_OBJECT(json, "loss", BT_KV("shared_steps", pair->loss.shared),
                   BT_OF(&pair->loss, bitwise_equal), BT_OF(&pair->loss, first_step),
                   BT_OF(&pair->loss, max_difference), BT_OF(&pair->loss, max_step));
    if (pair->digests_known) {
        bt_json_writer_bool(json, "params_digest_equal", pair->digests_equal);
    } else {
        bt_json_writer_null(json, "params_digest_equal");
    }
    bt_json_writer_close(json, '}');
}

bt_status bt_compare_json(bt_store *store, int64_t left, int64_t right, bt_str *out,
                          bool *comparable)
{
    BT_SCOPED(bt_comparison) both = {0};
    bt_json_writer json = {.out = out, .indent = 2};
    BT_TRY(compare(store, left, right, &both, comparable));
    bt_json_writer_open(&json, NULL, '{');
    BT_JSON(&json, BT_KV("left", both.left.id), BT_KV("right", both.right.id),
            BT_FLAG("hard_facts_differ", both.hard_differs));
    BT_JSON_LIST(&json, "cases", i, both.pair_count) {
        json_pair(&json, &both.pairs[i]);
    }
    BT_JSON_LIST(&json, "alone", i, both.alone_count) {
        bt_json_writer_text(&json, NULL, both.alone[i]->what.name);
    }
    BT_JSON_LIST(&json, "left_only", i, both.alone_left_count) {
        bt_json_writer_text(&json, NULL, both.alone[i]->what.name);
    }
    BT_JSON_LIST(&json, "right_only", i, both.alone_count - both.alone_left_count) {
        bt_json_writer_text(&json, NULL, both.alone[both.alone_left_count + i]->what.name);
    }
    BT_JSON_LIST(&json, "differs", i, both.item_count) {
        BT_JSON_OBJECT(&json, NULL, BT_OF(&both.items[i], group), BT_OF(&both.items[i], key),
                       BT_OF(&both.items[i], left), BT_OF(&both.items[i], right),
                       BT_KV("level", bt_fact_level_name(both.items[i].level)));
    }
    return bt_json_writer_end(&json, '}');
}
