// harness/report/kernels.c - kernel cases as tables for a terminal: a table per operation,
// direction, type and cache mode, a row per shape, a column per system. The rate is a bandwidth,
// with its fraction of a copy's, or FLOP/s for compute-bound cases
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"

enum { SYSTEMS_MAX = 4 };

// The systems of a group, in the order of their first rounds, the one that others are compared with
// first.
static int systems_of(const report_set *set, const char *group, const char *systems[SYSTEMS_MAX])
{
    int found = 0;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const char *system = item->round->what.system;
        if (strcmp(item->kernel.group, group) == 0 && found < SYSTEMS_MAX &&
            BT_FIND_WORD(systems, found, system) < 0) {
            systems[found++] = system;
        }
    }
    bt_ratios_base_first(systems, found);
    return found;
}

static void value_cell(const bt_metric_value *value, bt_unit unit, bt_table *table)
{
    if (value->count > 0) {
        bt_table_number(table, unit, value->value);
    } else {
        bt_table_cells(table, "%s", "");
    }
}

// A time relative to that of the first system, with '?' if their intervals are wide.
static void ratio_cell(const bt_metric_value *time, const bt_metric_value *first, bool *wide,
                       bt_table *table)
{
    if (time->count == 0 || first->count == 0) {
        bt_table_cells(table, "%s", "");
        return;
    }
    const bool uncertain = bt_ratio_is_wide(bt_ratio_range(time, first));
    *wide = *wide || uncertain;
    bt_table_cells(table, "%s%s", uncertain ? "? " : "",
                   bt_format_ratio(time->value / first->value).text);
}

// A case on each system; *wide is set if a ratio has a wide interval.
static void print_case(const report_set *set, const report_case *item, const char *const *systems,
                       int system_count, bool launches, bool *wide, bt_table *table)
{
    static const bt_metric_value unknown[BT_METRIC_COUNT] = {0};
    const report_case *first = bt_report_counterpart(set, item, item->run, systems[0]);
    const bt_metric_value *metrics = first ? first->summary.metrics : unknown;
    bt_table_cells(table, "%s", item->kernel.shape);
    for (int s = 0; s < system_count; ++s) {
        const report_case *other = bt_report_counterpart(set, item, item->run, systems[s]);
        const bt_metric_value *time =
            other ? &other->summary.metrics[BT_METRIC_TIME] : &unknown[BT_METRIC_TIME];
        if (time->count > 0) {
            bt_table_interval(table, BT_UNIT_NS, time->value, fmax(0, time->low), time->high);
        } else {
            bt_table_cells(table, "%s", other ? bt_run_status_name(other->round->status) : "-");
        }
        if (s > 0) {
            ratio_cell(time, &metrics[BT_METRIC_TIME], wide, table);
        }
    }
    const bt_metric_value *rated =
        first ? metrics : item->summary.metrics; // a ceiling is only ours
    const bool computes = bt_report_flops_dominate(
        rated[BT_METRIC_COMPUTE].count > 0 ? rated[BT_METRIC_COMPUTE].value : (double)NAN,
        rated[BT_METRIC_BANDWIDTH].value);
    if (computes) {
        value_cell(&rated[BT_METRIC_COMPUTE], BT_UNIT_FLOP_PER_S, table);
        bt_table_cells(table, "%s", "");
    } else {
        value_cell(&rated[BT_METRIC_BANDWIDTH], BT_UNIT_BYTES_PER_S, table);
        value_cell(&rated[BT_METRIC_COPY_SHARE], BT_UNIT_SHARE, table);
    }
    if (launches) {
        value_cell(&metrics[BT_METRIC_LAUNCH_TIME], BT_UNIT_NS, table);
    }
    const bt_store_round *round = item->round;
    bt_table_cells(table, "%s", round->kernel_count > 0 ? round->kernels[0].kernel : "");
}

static bool has_launches(const report_set *set, const char *group, const char *system)
{
    bool found = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        found = found || (strcmp(item->kernel.group, group) == 0 &&
                          strcmp(item->round->what.system, system) == 0 &&
                          item->summary.metrics[BT_METRIC_LAUNCH_TIME].count > 0);
    }
    return found;
}

// Whether no earlier case of the set is the same one on another system.
static bool is_first(const report_set *set, const report_case *item)
{
    bool first = true;
    for (const report_case *other = set->cases; other < item && first; other++) {
        first = strcmp(other->round->what.name, item->round->what.name) != 0;
    }
    return first;
}

// A table of one group. Ratios are times relative to the first system's: more than 1 is slower.
static bt_status print_group(const report_set *set, const char *group, bool *wide, bt_str *out)
{
    const char *systems[SYSTEMS_MAX] = {""};
    const int system_count = systems_of(set, group, systems);
    const bool launches = has_launches(set, group, systems[0]);
    bt_table table = {0};
    bt_table_heads(&table, "|>%s~95 %%", systems[0]);
    for (int s = 1; s < system_count; ++s) {
        bt_table_heads(&table, ">%s~95 %%|>/%s", systems[s], systems[0]);
    }
    // The launch time is that of the host, if measured.
    bt_table_heads(&table, launches ? ">rate|>of copy|>launch|kernel" : ">rate|>of copy|kernel");
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        if (strcmp(item->kernel.group, group) == 0 && is_first(set, item)) {
            print_case(set, item, systems, system_count, launches, wide, &table);
        }
    }
    bt_str_format(out, "\n%s\n", group);
    return bt_table_print(&table, 2, out);
}

// Rounds that did not pass, with their messages, each reason of a system once.
static void print_reasons(const bt_store_run *run, bt_str *out)
{
    for (int64_t i = 0; i < run->round_count; ++i) {
        const bt_store_round *round = &run->rounds[i];
        bool said = round->status == BT_RUN_PASSED || round->superseded || !round->message[0] ||
                    !bt_report_is_kernel(round) || bt_report_is_command(round);
        for (int64_t j = 0; j < i && !said; ++j) {
            said = strcmp(run->rounds[j].message, round->message) == 0 &&
                   strcmp(run->rounds[j].what.system, round->what.system) == 0;
        }
        if (!said) {
            bt_str_format(out, "\n%s, %s  %s\n  message      %s\n", round->what.name,
                          round->what.system, bt_run_status_name(round->status), round->message);
        }
    }
}

// Explains why hot cases have no fraction, if there are any.
static void explain_shares(const report_set *set, bt_str *out)
{
    bool any = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        any = any || (strstr(item->kernel.group, "hot cache") && !item->kernel.ceiling &&
                      item->summary.metrics[BT_METRIC_BANDWIDTH].count > 0 &&
                      item->summary.metrics[BT_METRIC_COPY_SHARE].count == 0);
    }
    bt_str_append(out,
                  any ? "\nhot cases that move less than 256 MiB have no fraction \"of copy\": "
                        "their data stays in a cache, that of the copy does not\n"
                      : "");
}

// Explains why a time has no interval, if there is one.
static void explain_intervals(const report_set *set, bt_str *out)
{
    bool any = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const bt_metric_value *time = &item->summary.metrics[BT_METRIC_TIME];
        any = any || (*item->kernel.group && time->count > 0 && isnan(time->low));
    }
    bt_str_append(out,
                  any ? "\na time without a 95 % interval is the median of fewer than 6 rounds, "
                        "or has too few samples\n"
                      : "");
}

static void print_outputs(const bt_store_run *run, bt_str *out)
{
    bt_outputs outputs = {0};
    for (int64_t i = 0; i < run->round_count; ++i) {
        bt_outputs_note(&outputs, &run->rounds[i]);
    }
    if (outputs.count > 0) {
        bt_str_append(out, "\n");
        bt_outputs_write(&outputs, "", out);
    }
}

bt_status bt_report_kernel_tables(const report_set *set, bt_str *out)
{
    bool any = false, wide = false;
    for (int64_t i = 0; i < set->case_count; ++i) {
        const report_case *item = &set->cases[i];
        const char *group = item->kernel.group;
        if (!*group) {
            continue;
        }
        if (!any) {
            bt_str_format(out, "\n%s\n", item->round->shape.device);
        }
        any = true;
        if (BT_FIND(set->cases, i, kernel.group, group) < 0) {
            BT_TRY(print_group(set, group, &wide, out));
        }
    }
    explain_shares(set, out);
    explain_intervals(set, out);
    bt_str_append(out, wide
                           ? "\n?  the intervals of the two times allow ratios that differ by more "
                             "than 25 %: run more rounds\n"
                           : "");
    print_outputs(&set->runs[0], out);
    print_reasons(&set->runs[0], out);
    return BT_OK;
}
