// harness/report/kernels.c - kernel cases as tables for a terminal: a table per operation,
// direction, type and cache mode, a row per shape, a column per system. The rate is a bandwidth,
// with its fraction of a copy's, or FLOP/s for compute-bound cases
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/outputs.h"
#include "harness/suite/json.h"
#include "harness/text/table.h"

enum { SYSTEMS_MAX = 4, NAME_MAX_BYTES = 64 };

typedef struct kernel_row {
    const bt_store_round *round; // borrowed
    bt_summary summary;
    char group[3 * NAME_MAX_BYTES]; // "layernorm backward, f32, cold cache"
    char shape[NAME_MAX_BYTES];
    bool printed;
    bool wide; // a ratio of it has a wide interval
} kernel_row;

static bt_status read_row(const bt_store_round *round, kernel_row *out)
{
    BT_SCOPED(bt_json_doc) axes = {0};
    const char *text = round->what.axes_json;
    out->round = round;
    BT_TRY(bt_summary_of(round, &out->summary));
    BT_TRY(bt_json_parse("axes", text, strlen(text), &axes));
    const cJSON *kernel = bt_json_get(axes.root, "kernel");
    if (bt_json_get(kernel, "ranks")) { // a collective; its bandwidth is bus bandwidth
        (void)snprintf(out->group, sizeof out->group, "%.60s, %.20s, %d ranks over %.20s",
                       bt_json_text_of(kernel, "op"), bt_json_text_of(kernel, "dtype"),
                       (int)bt_json_number_of(kernel, "ranks"), bt_json_text_of(kernel, "group"));
    } else {
        (void)snprintf(out->group, sizeof out->group, "%.60s %.20s, %.20s, %.20s cache",
                       bt_json_text_of(kernel, "op"), bt_json_text_of(kernel, "direction"),
                       bt_json_text_of(kernel, "dtype"), bt_json_text_of(kernel, "cache"));
    }
    (void)snprintf(out->shape, sizeof out->shape, "%.60s", bt_json_text_of(kernel, "shape"));
    return BT_OK;
}

// The systems of a group, in the order of their first rounds.
static int systems_of(const kernel_row *rows, int64_t count, const char *group,
                      const char *systems[SYSTEMS_MAX])
{
    int found = 0;
    for (int64_t i = 0; i < count && found < SYSTEMS_MAX; ++i) {
        bool known = strcmp(rows[i].group, group) != 0;
        for (int s = 0; s < found; ++s) {
            known = known || strcmp(systems[s], rows[i].round->what.system) == 0;
        }
        if (!known) {
            systems[found++] = rows[i].round->what.system;
        }
    }
    return found;
}

// The rounds of a case on a system in numbers; a count of 0 if nothing was measured.
static bt_status summary_of(const kernel_row *rows, int64_t count, const kernel_row *like,
                            const char *system, bt_summary *out)
{
    BT_SCOPED_MEM(bt_summary *) found = NULL;
    int64_t found_count = 0;
    BT_TRY(BT_MEM_ARRAY(count, &found));
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i].summary.metrics[BT_METRIC_TIME].count > 0 &&
            strcmp(rows[i].round->what.name, like->round->what.name) == 0 &&
            strcmp(rows[i].round->what.system, system) == 0) {
            found[found_count++] = rows[i].summary;
        }
    }
    const bt_summary nothing = {0};
    *out = found_count == 1 ? found[0] : nothing;
    return found_count > 1 ? bt_summary_over(found, found_count, out) : BT_OK;
}

// The text in place of a missing time: the last round's status.
static const char *status_of(const kernel_row *rows, int64_t count, const kernel_row *like,
                             const char *system)
{
    const char *status = "-";
    for (int64_t i = 0; i < count; ++i) {
        if (strcmp(rows[i].round->what.name, like->round->what.name) == 0 &&
            strcmp(rows[i].round->what.system, system) == 0) {
            status = bt_run_status_name(rows[i].round->status);
        }
    }
    return status;
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
static void ratio_cell(const bt_metric_value *time, const bt_metric_value *first, kernel_row *row,
                       bt_table *table)
{
    if (time->count == 0 || first->count == 0) {
        bt_table_cells(table, "%s", "");
        return;
    }
    const bool wide = bt_ratio_is_wide(bt_ratio_range(time, first));
    row->wide = row->wide || wide;
    bt_table_cells(table, "%s%s", wide ? "? " : "",
                   bt_format_ratio(time->value / first->value).text);
}

static bt_status print_case(const kernel_row *rows, int64_t count, kernel_row *row,
                            const char *const *systems, int system_count, bool launches,
                            bt_table *table)
{
    bt_summary first;
    BT_TRY(summary_of(rows, count, row, systems[0], &first));
    const bt_metric_value *metrics = first.metrics;
    bt_table_cells(table, "%s", row->shape);
    for (int s = 0; s < system_count; ++s) {
        bt_summary summary;
        BT_TRY(summary_of(rows, count, row, systems[s], &summary));
        const bt_metric_value *time = &summary.metrics[BT_METRIC_TIME];
        if (time->count > 0) {
            bt_table_interval(table, BT_UNIT_NS, time->value, fmax(0, time->low), time->high);
        } else {
            bt_table_cells(table, "%s", status_of(rows, count, row, systems[s]));
        }
        if (s > 0) {
            ratio_cell(time, &metrics[BT_METRIC_TIME], row, table);
        }
    }
    const bool computes = bt_report_flops_dominate(
        metrics[BT_METRIC_COMPUTE].count > 0 ? metrics[BT_METRIC_COMPUTE].value : (double)NAN,
        metrics[BT_METRIC_BANDWIDTH].value);
    if (computes) {
        value_cell(&metrics[BT_METRIC_COMPUTE], BT_UNIT_FLOP_PER_S, table);
        bt_table_cells(table, "%s", "");
    } else {
        value_cell(&metrics[BT_METRIC_BANDWIDTH], BT_UNIT_BYTES_PER_S, table);
        value_cell(&metrics[BT_METRIC_COPY_SHARE], BT_UNIT_SHARE, table);
    }
    if (launches) {
        value_cell(&metrics[BT_METRIC_LAUNCH_TIME], BT_UNIT_NS, table);
    }
    const bt_store_round *round = row->round;
    bt_table_cells(table, "%s", round->kernel_count > 0 ? round->kernels[0].kernel : "");
    return BT_OK;
}

static bool has_launches(const kernel_row *rows, int64_t count, const char *group,
                         const char *system)
{
    for (int64_t i = 0; i < count; ++i) {
        if (strcmp(rows[i].group, group) == 0 && strcmp(rows[i].round->what.system, system) == 0 &&
            rows[i].summary.metrics[BT_METRIC_LAUNCH_TIME].count > 0) {
            return true;
        }
    }
    return false;
}

// A table of one group. Ratios are times relative to the first system's: more than 1 is slower.
static bt_status print_group(kernel_row *rows, int64_t count, const char *group, bt_str *out)
{
    const char *systems[SYSTEMS_MAX] = {""};
    int system_count = systems_of(rows, count, group, systems);
    const bool launches = has_launches(rows, count, group, systems[0]);
    BT_SCOPED(bt_table) table = {0};
    bt_status status = BT_OK;
    bt_table_heads(&table, "|>%s~95 %%", systems[0]);
    for (int s = 1; s < system_count; ++s) {
        bt_table_heads(&table, ">%s~95 %%|>/%s", systems[s], systems[0]);
    }
    // The launch time is that of the host, if measured.
    bt_table_heads(&table, launches ? ">rate|>of copy|>launch|kernel" : ">rate|>of copy|kernel");
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i].printed || strcmp(rows[i].group, group) != 0) {
            continue;
        }
        BT_IF_OK(status,
                 print_case(rows, count, &rows[i], systems, system_count, launches, &table));
        for (int64_t j = i; j < count; ++j) {
            rows[j].printed =
                rows[j].printed || strcmp(rows[j].round->what.name, rows[i].round->what.name) == 0;
        }
    }
    bt_str_format(out, "\n%s\n", group);
    BT_IF_OK(status, bt_table_print(&table, 2, out));
    return status;
}

// Rounds that did not pass, with their messages, each reason of a system once.
static void print_reasons(const kernel_row *rows, int64_t count, bt_str *out)
{
    for (int64_t i = 0; i < count; ++i) {
        const bt_store_round *round = rows[i].round;
        bool said = round->status == BT_RUN_PASSED || round->superseded || !round->message[0];
        for (int64_t j = 0; j < i && !said; ++j) {
            said = strcmp(rows[j].round->message, round->message) == 0 &&
                   strcmp(rows[j].round->what.system, round->what.system) == 0;
        }
        if (!said) {
            bt_str_format(out, "\n%s, %s  %s\n  message      %s\n", round->what.name,
                          round->what.system, bt_run_status_name(round->status), round->message);
        }
    }
}

// Explains why hot cases have no fraction, if there are any.
static void explain_shares(const kernel_row *rows, int64_t count, bt_str *out)
{
    for (int64_t i = 0; i < count; ++i) {
        const bt_summary *summary = &rows[i].summary;
        if (strstr(rows[i].group, "hot cache") && summary->metrics[BT_METRIC_BANDWIDTH].count > 0 &&
            summary->metrics[BT_METRIC_COPY_SHARE].count == 0 &&
            strncmp(rows[i].round->what.name, "ceiling.", 8) != 0) {
            bt_str_append(out, "\nhot cases that move less than 256 MiB have no share \"of copy\": "
                               "their data stays in a cache, that of the copy does not\n");
            return;
        }
    }
}

static void explain_wide(const kernel_row *rows, int64_t count, bt_str *out)
{
    bool any = false;
    for (int64_t i = 0; i < count; ++i) {
        any = any || rows[i].wide;
    }
    bt_str_append(out, any ? "\n?  the intervals of the two times allow ratios that differ by more "
                             "than 25 %: run more rounds\n"
                           : "");
}

static void print_outputs(const kernel_row *rows, int64_t count, bt_str *out)
{
    bt_outputs outputs = {0};
    for (int64_t i = 0; i < count; ++i) {
        bt_outputs_note(&outputs, rows[i].round);
    }
    if (outputs.count > 0) {
        bt_str_append(out, "\n");
        bt_outputs_write(&outputs, "", out);
    }
}

bt_status bt_report_kernel_tables(const bt_store_run *run, bt_str *out)
{
    int64_t count = 0;
    BT_SCOPED_MEM(kernel_row *) rows = NULL;
    BT_TRY(BT_MEM_ARRAY(run->round_count, &rows));
    for (int64_t i = 0; i < run->round_count; ++i) {
        if (bt_report_is_kernel(&run->rounds[i]) && !bt_report_is_command(&run->rounds[i])) {
            BT_TRY(read_row(&run->rounds[i], &rows[count++]));
        }
    }
    if (count > 0) {
        bt_str_format(out, "\n%s\n", rows[0].round->shape.device);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (!rows[i].printed) {
            BT_TRY(print_group(rows, count, rows[i].group, out));
        }
    }
    explain_shares(rows, count, out);
    explain_wide(rows, count, out);
    print_outputs(rows, count, out);
    print_reasons(rows, count, out);
    return BT_OK;
}
