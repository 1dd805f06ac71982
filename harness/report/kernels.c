// harness/report/kernels.c - kernel cases as tables for a terminal: a table per operation,
// direction, type and cache mode, a row per shape and system. The rate is a bandwidth, with its
// fraction of a copy's, or FLOP/s for compute-bound cases
#include <math.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"

enum { SYSTEMS_MAX = 4, BASES_MAX = 16 };

// A table of one group.
typedef struct group_table {
    const report_set *set;
    const char *group;
    const char *systems[SYSTEMS_MAX]; // the one that others are compared with is the first
    int system_count;
    bool launches; // a time of the host was measured
    bool shares;   // of a copy's bandwidth, which is none of a collective's
    bool wide;     // a ratio of one round has a wide interval
    bt_table table;
} group_table;

// What the ratios of all tables need as explanation.
typedef struct ratio_notes {
    const char *bases[BASES_MAX]; // [base_count], each once: the systems that ratios refer to
    int base_count;
    bool wide; // a ratio of one round has a wide interval
} ratio_notes;

// The systems of a group, in the order of their first rounds, the base first.
static void find_systems(group_table *self)
{
    const report_set *set = self->set;
    const ratio_list *judged = bt_ratios_of_ab(set, set->runs);
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const char *system = item->round->what.system;
        if (strcmp(item->kernel.group, self->group) == 0 && self->system_count < SYSTEMS_MAX &&
            BT_FIND_WORD(self->systems, self->system_count, system) < 0) {
            self->systems[self->system_count++] = system;
        }
    }
    bt_ratios_base_first(self->systems, self->system_count);
    const int64_t base = judged ? BT_FIND_WORD(self->systems, self->system_count, judged->base) : 0;
    if (base > 0) { // of 'ab', any system may be the base
        self->systems[base] = self->systems[0];
        self->systems[0] = judged->base;
    }
}

// Whether its rate is shown in FLOP/s, without a fraction of a copy.
static bool is_compute_bound(const report_case *item)
{
    const bt_metric_value *metrics = item->summary.metrics;
    return bt_report_flops_dominate(
        metrics[BT_METRIC_COMPUTE].count > 0 ? metrics[BT_METRIC_COMPUTE].value : (double)NAN,
        metrics[BT_METRIC_BANDWIDTH].value);
}

static void value_cell(const bt_metric_value *value, bt_unit unit, bt_table *table)
{
    if (value->count > 0) {
        bt_table_number(table, unit, value->value);
    } else {
        bt_table_cells(table, "%s", "");
    }
}

// The ratio to the first system, with '?' if one round does not determine it.
static bt_status ratio_cell(group_table *self, const report_case *first, const report_case *item)
{
    ratio_row row = bt_ratio_unknown;
    if (first && first != item) {
        BT_TRY(bt_ratio_of_case(self->set, first, item, &row));
    }
    if (isnan(row.ratio)) {
        bt_table_cells(&self->table, "%s", first == item ? "" : "-");
    } else {
        self->wide = self->wide || row.wide;
        bt_table_cells(&self->table, "%s%s~%s", row.wide ? "? " : "",
                       bt_format_ratio(row.ratio).text, bt_format_ratio_interval(&row).text);
    }
    return BT_OK;
}

static void rate_cells(const report_case *item, bool shares, bt_table *table)
{
    const bt_metric_value *metrics = item->summary.metrics;
    if (is_compute_bound(item)) {
        value_cell(&metrics[BT_METRIC_COMPUTE], BT_UNIT_FLOP_PER_S, table);
    } else {
        value_cell(&metrics[BT_METRIC_BANDWIDTH], BT_UNIT_BYTES_PER_S, table);
    }
    if (shares && is_compute_bound(item)) {
        bt_table_cells(table, "%s", "");
    } else if (shares) {
        value_cell(&metrics[BT_METRIC_COPY_SHARE], BT_UNIT_SHARE, table);
    }
}

// A row for each system that ran the case; the shape is in the first.
static bt_status add_rows(group_table *self, const report_case *item)
{
    const report_case *base = bt_report_counterpart(self->set, item, item->run, self->systems[0]);
    const char *shape = item->kernel.shape;
    bt_table *table = &self->table;
    for (int s = 0; s < self->system_count; ++s) {
        const report_case *own =
            bt_report_counterpart(self->set, item, item->run, self->systems[s]);
        if (!own) {
            continue;
        }
        const bt_metric_value *time = &own->summary.metrics[BT_METRIC_TIME];
        bt_table_cells(table, "%s", shape);
        shape = "";
        if (self->system_count > 1) {
            bt_table_cells(table, "%s", self->systems[s]);
        }
        if (time->count > 0) {
            bt_table_interval(table, BT_UNIT_NS, time->value, time->low, time->high);
        } else {
            bt_table_cells(table, "%s", bt_run_status_name(own->round->status));
        }
        if (self->system_count > 1) {
            BT_TRY(ratio_cell(self, base, own));
        }
        rate_cells(own, self->shares, table);
        if (self->launches) {
            value_cell(&own->summary.metrics[BT_METRIC_LAUNCH_TIME], BT_UNIT_NS, table);
        }
        const bt_store_round *round = own->round;
        bt_table_cells(table, "%s", round->kernel_count > 0 ? round->kernels[0].kernel : "");
    }
    return BT_OK;
}

static bool has_launches(const report_set *set, const char *group)
{
    bool found = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        found = found || (strcmp(item->kernel.group, group) == 0 &&
                          item->summary.metrics[BT_METRIC_LAUNCH_TIME].count > 0);
    }
    return found;
}

static bool has_kernels(const report_set *set, const char *group)
{
    bool found = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        found = found || (strcmp(item->kernel.group, group) == 0 &&
                          strcmp(item->round->what.kind, "collective") != 0);
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

// Prints the table of a group; `columns` of the terminal.
static bt_status print_group(group_table *self, int columns, bt_str *out)
{
    bt_table *table = &self->table;
    find_systems(self);
    self->launches = has_launches(self->set, self->group);
    self->shares = has_kernels(self->set, self->group);
    if (self->system_count > 1) {
        bt_table_heads(table, "|system|>time~95 %%|>/%s~95 %%", self->systems[0]);
    } else {
        bt_table_heads(table, "|>%s~95 %%", self->systems[0]);
    }
    bt_table_heads(table, self->shares ? ">rate|>of copy" : ">rate");
    bt_table_heads(table, self->launches ? ">launch|kernel" : "kernel");
    bt_table_fit(table, columns, "kernel|launch|of copy|rate");
    BT_EACH(const report_case, item, self->set->cases, self->set->case_count) {
        if (strcmp(item->kernel.group, self->group) == 0 && is_first(self->set, item)) {
            BT_TRY(add_rows(self, item));
        }
    }
    bt_str_format(out, "\n%s\n", self->group);
    return bt_table_print(table, 2, out);
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

// Explains why hot cases have no fraction, and how a fraction exceeds 100 %, if there are any.
static void explain_shares(const report_set *set, bt_str *out)
{
    static const double share_least = 1.005; // shown as more than 100 %
    bool without = false, above = false;
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        const bt_metric_value *share = &item->summary.metrics[BT_METRIC_COPY_SHARE];
        const bool kernel = *item->kernel.group && !item->kernel.ceiling;
        without =
            without || (kernel && strstr(item->kernel.group, "hot cache") &&
                        item->summary.metrics[BT_METRIC_BANDWIDTH].count > 0 && share->count == 0);
        above = above || (kernel && share->count > 0 && share->value >= share_least &&
                          !is_compute_bound(item));
    }
    bt_str_append(out, without ? "\nhot cases that move less than 256 MiB have no fraction \"of "
                                 "copy\": their data stays in a cache, that of the copy does not\n"
                               : "");
    bt_str_append(out,
                  above ? "\na fraction \"of copy\" above 100 %: the case moves its bytes in less "
                          "time than the copy would, for example because it reads more than it "
                          "writes, or because part of its data stays in a cache\n"
                        : "");
}

static void note_ratios(const group_table *of, ratio_notes *notes)
{
    notes->wide = notes->wide || of->wide;
    if (of->system_count > 1 && notes->base_count < BASES_MAX &&
        BT_FIND_WORD(notes->bases, notes->base_count, of->systems[0]) < 0) {
        notes->bases[notes->base_count++] = of->systems[0];
    }
}

// Names every base as the heads of the tables do: "/blutrain, /pytorch-eager".
static bt_status explain_ratios(const ratio_notes *notes, bt_str *out)
{
    BT_SCOPED(bt_str) bases = {0};
    for (int i = 0; i < notes->base_count; ++i) {
        bt_str_format(&bases, "%s%s", i ? ", /" : "", notes->bases[i]);
    }
    BT_TRY(bt_str_status(&bases));
    if (notes->base_count > 0) {
        bt_str_append(out, "\n");
        bt_ratio_note("", bt_str_text(&bases), out);
    }
    bt_str_append(out, notes->wide
                           ? "\n?  the intervals of the two times allow ratios that differ by more "
                             "than 25 %: run more rounds\n"
                           : "");
    return BT_OK;
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

bt_status bt_report_kernel_tables(const report_set *set, int columns, bt_str *out)
{
    ratio_notes notes = {0};
    bool any = false;
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
            group_table table = {.set = set, .group = group};
            bt_status status = print_group(&table, columns, out);
            note_ratios(&table, &notes);
            bt_table_release(&table.table);
            BT_TRY(status);
        }
    }
    explain_shares(set, out);
    explain_intervals(set, out);
    BT_TRY(explain_ratios(&notes, out));
    print_outputs(&set->runs[0], out);
    print_reasons(&set->runs[0], out);
    return BT_OK;
}
