// harness/gate/describe.c - baselines as text and JSON
#include "harness/gate/describe.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/format.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"
#include "harness/text/wrap.h"

// Does a newer row of the same name and machine precede it?
static bool is_past(const bt_store_baseline_list *list, const bt_store_baseline *row)
{
    BT_EACH(const bt_store_baseline, newer, list->rows, row - list->rows) {
        if (strcmp(newer->name, row->name) == 0 && strcmp(newer->machine, row->machine) == 0) {
            return true;
        }
    }
    return false;
}

bt_status bt_baseline_list_text(const bt_store_baseline_list *list, bool all, int columns,
                                bt_str *out)
{
    size_t start = out->length_bytes;
    bt_table table = {0};
    if (list->count == 0) {
        bt_str_append(out, "no baselines; bt-bench baseline set NAME RUN --reason TEXT\n");
        return bt_str_status(out);
    }
    bt_table_heads(&table, "baseline|<machine|>run|set|<reason");
    bt_table_fit(&table, columns, "set|run");
    BT_EACH(const bt_store_baseline, row, list->rows, list->count) {
        if (!all && is_past(list, row)) {
            continue;
        }
        bt_table_cells(&table, "%s|%s|%s|%s|%s", row->name, row->machine,
                       row->run > 0 ? bt_textf("%" PRId64, row->run).text : "file",
                       bt_format_date(row->created_ns).text, row->reason);
    }
    BT_TRY(bt_table_print(&table, 0, out));
    return bt_text_end(out, start);
}

bt_status bt_baseline_list_json(const bt_store_baseline_list *list, bool all, bt_str *out)
{
    bt_json_writer json = {.out = out, .indent = 2};
    bt_json_writer_open(&json, NULL, '[');
    BT_EACH(const bt_store_baseline, row, list->rows, list->count) {
        bool past = is_past(list, row);
        if (!all && past) {
            continue;
        }
        BT_JSON_OBJECT(&json, NULL, BT_OF(row, name), BT_OF(row, machine), BT_OF(row, run),
                       BT_KV("set", bt_format_date(row->created_ns).text), BT_OF(row, reason),
                       BT_FLAG("current", !past));
    }
    return bt_json_writer_end(&json, ']');
}

// ---- one baseline -------------------------------------------------------------------------------

static bt_status metric_cell(const bt_gate_side *side, bt_gate_metric metric, bt_table *table)
{
    double median = 0;
    bt_metric of = bt_gate_metric_info(metric)->metric;
    BT_TRY(bt_gate_side_median(side, metric, &median));
    bt_table_cells(table, "%s",
                   isnan(median) ? "" : bt_format_value(bt_metric_info(of)->unit, median).text);
    return BT_OK;
}

// "1", or "1 + 3 permuted + 2 seeds" if further runs have some.
static bt_status curves_cell(const bt_gate_side *side, bt_table *table)
{
    int64_t permuted = side->data_count - side->own_count;
    int64_t seeds = side->curve_count - side->data_count;
    BT_SCOPED(bt_str) text = {0};
    if (side->own_count > 0) {
        bt_str_format(&text, "%" PRId64, side->own_count);
    }
    if (permuted > 0) {
        bt_str_format(&text, " + %" PRId64 " permuted", permuted);
    }
    if (seeds > 0) {
        bt_str_format(&text, " + %" PRId64 " seed%s", seeds, seeds > 1 ? "s" : "");
    }
    BT_TRY(bt_str_status(&text));
    bt_table_cells(table, "%s", bt_str_text(&text));
    return BT_OK;
}

static bt_status side_row(const bt_gate_side *side, bt_table *table)
{
    bt_table_cells(table, "%s|%s|%lld", side->name, side->system, (long long)side->round_count);
    BT_TRY(metric_cell(side, BT_GATE_TIME, table));
    BT_TRY(metric_cell(side, BT_GATE_STEP_TIME, table));
    BT_TRY(metric_cell(side, BT_GATE_TOKENS_PER_S, table));
    BT_TRY(metric_cell(side, BT_GATE_MEMORY, table));
    return curves_cell(side, table);
}

// The number of sessions with which speed can be judged, and their runs.
static void append_sessions(const bt_baseline *baseline, bt_str *out)
{
    bt_str_format(out, "  sessions  %" PRId64, bt_baseline_sessions(baseline));
    for (int64_t i = 0; i < baseline->session_count; ++i) {
        bt_str_format(out, "%s %" PRId64, i ? "," : ": run", baseline->sessions[i].run);
    }
    bt_str_append(out, "\n");
}

bt_status bt_baseline_text(const bt_baseline *baseline, int64_t run, int columns, bt_str *out)
{
    size_t start = out->length_bytes;
    BT_SCOPED(bt_table) table = {0};
    bt_str_format(out, "baseline %s of %s, %s\n", baseline->name, baseline->machine,
                  baseline->created);
    bt_str_format(out, "  reason  %s\n  suite   %s, profile %s, plan %.8s\n", baseline->reason,
                  baseline->suite, baseline->profile, baseline->plan_hash);
    bt_str_format(out, "  build   %.8s%s%s\n", baseline->build.digest,
                  *baseline->build.git_commit ? ", revision " : "", baseline->build.git_commit);
    if (run > 0) {
        bt_str_format(out, "  run     %" PRId64 "\n", run);
    }
    append_sessions(baseline, out);
    bt_str_append(out, "\n");
    bt_table_heads(&table, "case|system|>rounds|>time|>step time|>tokens/s|>memory|>loss curves");
    bt_table_fit(&table, columns, "loss curves|system|rounds");
    BT_EACH(const bt_gate_side, side, baseline->sides.items, baseline->sides.count) {
        BT_TRY(side_row(side, &table));
    }
    BT_TRY(bt_table_print(&table, 2, out));
    bt_str_append(out, "\n  hard facts\n");
    BT_EACH(const bt_store_fact, fact, baseline->env.facts, baseline->env.fact_count) {
        if (fact->level == BT_FACT_HARD) {
            bt_str_format(out, "    %s  %.100s\n", fact->key, fact->value);
        }
    }
    bt_wrap_from(out, start, columns);
    return bt_text_end(out, start);
}
