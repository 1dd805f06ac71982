// harness/report/groups.c - the contents of a compiled step: generated kernels and their savings
//
// One row per kernel, forward and backward separate. On the page a bar shows the bytes that the
// kernel moves, in front of the longer one that its calls would move. The time of those calls is of
// the same step, run one by one on the same batch. The whole step is compared with eager if the run
// has the same case without compile.
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"
#include "harness/text/table.h"

static bool is_group(const bt_store_group *row) { return row->kind[0] != '\0'; }

static const char *const directions[] = {"forward", "forward and backward", "backward"};

enum { DIRECTIONS = (int)(sizeof directions / sizeof directions[0]) };

typedef struct groups_sum {
    double groups, calls, bytes_before, bytes_after, time_ns; // of groups
    double apart_ns;                                          // NaN: not measured for every group
    double other_calls, other_ns;
    double most_bytes; // of a row
} groups_sum;

// The time of a kernel's calls run one by one; NaN: not measured.
static double apart_ns_of(const bt_store_round *round, const bt_store_group *row)
{
    BT_EACH(const bt_store_group_calls, calls, round->group_calls, round->group_calls_count) {
        if (is_group(row) && strcmp(calls->kernel, row->kernel) == 0 &&
            strcmp(calls->direction, row->direction) == 0) {
            return (double)calls->time_ns;
        }
    }
    return (double)NAN;
}

static groups_sum sum_of(const bt_store_round *round)
{
    groups_sum sum = {0};
    BT_EACH(const bt_store_group, row, round->groups, round->group_count) {
        if (!is_group(row)) {
            sum.other_calls += (double)row->calls;
            sum.other_ns += (double)row->time_ns;
            continue;
        }
        sum.groups += (double)row->count;
        sum.calls += (double)row->calls;
        sum.bytes_before += (double)row->bytes_before;
        sum.bytes_after += (double)row->bytes_after;
        sum.time_ns += (double)row->time_ns;
        sum.apart_ns += apart_ns_of(round, row);
        sum.most_bytes = fmax(sum.most_bytes, (double)row->bytes_before);
        sum.most_bytes = fmax(sum.most_bytes, (double)row->bytes_after);
    }
    return sum;
}

// ---- the same case without compile --------------------------------------------------------------

static cJSON *work_of(const report_case *item)
{
    cJSON *axes = cJSON_Parse(item->round->what.axes_json);
    cJSON *train = cJSON_DetachItemFromObjectCaseSensitive(axes, "train");
    cJSON_DeleteItemFromObjectCaseSensitive(train, "compile");
    cJSON_DeleteItemFromObjectCaseSensitive(train, "profile_steps");
    cJSON_Delete(axes);
    return train;
}

static const report_case *eager_of(const report_set *set, const report_case *item)
{
    const report_case *found = NULL;
    cJSON *work = work_of(item);
    for (int64_t i = 0; i < set->case_count && work && !found; i++) {
        const report_case *other = &set->cases[i];
        if (other->run == item->run && other != item && other->round->group_count == 0 &&
            strcmp(other->round->what.system, item->round->what.system) == 0) {
            cJSON *theirs = work_of(other);
            found = theirs && cJSON_Compare(work, theirs, true) ? other : NULL;
            cJSON_Delete(theirs);
        }
    }
    cJSON_Delete(work);
    return found;
}

static double step_of(const report_case *item)
{
    const bt_metric_value *value = &item->summary.metrics[BT_METRIC_STEP_TIME];
    return value->count > 0 ? value->value : (double)NAN;
}

// "8 of 30 kernel calls in 4 groups, which move 1.2 MiB instead of 3.4 in 20 us instead of 60: 3x"
static void write_sum(const bt_store_round *round, bt_str *out)
{
    const groups_sum sum = sum_of(round);
    bt_str_format(out,
                  "%.0f of %.0f kernel calls of a micro-batch in %.0f groups, which move %s "
                  "instead of %s",
                  sum.calls, sum.calls + sum.other_calls, sum.groups,
                  bt_format_value(BT_UNIT_BYTES, sum.bytes_after).text,
                  bt_format_value(BT_UNIT_BYTES, sum.bytes_before).text);
    if (sum.apart_ns > 0 && sum.time_ns > 0) {
        bt_str_format(out, " in %s instead of %s: %.3gx",
                      bt_format_value(BT_UNIT_NS, sum.time_ns).text,
                      bt_format_value(BT_UNIT_NS, sum.apart_ns).text, sum.apart_ns / sum.time_ns);
    }
}

static void write_step(const report_set *set, const report_case *item, bt_str *out)
{
    const report_case *eager = eager_of(set, item);
    if (eager && step_of(eager) > 0 && step_of(item) > 0) {
        bt_str_format(
            out, "; a step %s, eager %s: %.3gx", bt_format_value(BT_UNIT_NS, step_of(item)).text,
            bt_format_value(BT_UNIT_NS, step_of(eager)).text, step_of(eager) / step_of(item));
    }
}

static const char explained[] =
    "Kernels that were generated for groups of calls, of one micro-batch. Groups with equal code "
    "share a kernel. Bytes: what the kernel moves, before what its calls would move. Times are of "
    "the last profiled step; one by one: of the calls, each launched alone on the same batch, "
    "without those that only repeat a value.";

// ---- the table ----------------------------------------------------------------------------------

// Drawn: with a column for bars.
static void add_row(const bt_store_round *round, const bt_store_group *row, double most_bytes,
                    bool drawn, bt_table *table)
{
    const bool group = is_group(row), timed = row->time_ns > 0;
    const double before = (double)row->bytes_before, after = (double)row->bytes_after;
    const double time_ns = (double)row->time_ns, apart_ns = apart_ns_of(round, row);
    const double most = most_bytes > 0 ? most_bytes : 1;
    bt_table_cells(table, "%s|%s", group ? row->kernel : "calls in no group", row->direction);
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=word");
    if (drawn) {
        bt_table_cells(table, "%s", "");
        bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=track");
        bt_str *out = bt_table_part(table, BT_CELL_MARKUP);
        if (group) {
            bt_str_format(out,
                          "<i class=\"bar d3\" style=\"left:0;width:%.2f%%\"></i>"
                          "<i class=\"bar d0\" style=\"left:0;width:%.2f%%\"></i>",
                          100 * before / most, 100 * after / most);
        }
    }
    bt_html_number(table, group, BT_UNIT_BYTES, after);
    bt_html_number(table, group, BT_UNIT_BYTES, before);
    bt_html_number(table, timed, BT_UNIT_NS, time_ns);
    bt_html_number(table, apart_ns > 0, BT_UNIT_NS, apart_ns);
    if (apart_ns > 0 && timed) {
        bt_table_cells(table, "%.3gx", apart_ns / time_ns);
        bt_str_format(bt_table_part(table, BT_CELL_ATTRIBUTES), " data-v=%.4f", apart_ns / time_ns);
    } else {
        bt_table_cells(table, "%s", "");
    }
    bt_html_number(table, group && timed, BT_UNIT_BYTES_PER_S, after / time_ns * 1e9);
    bt_table_cells(table, "%lld|%lld|%s", (long long)row->count, (long long)row->calls, row->ops);
    bt_str_append(bt_table_part(table, BT_CELL_ATTRIBUTES), " class=long");
}

// By direction, groups first.
static void fill_table(const bt_store_round *round, bool drawn, bt_table *table)
{
    const groups_sum sum = sum_of(round);
    bt_table_heads(table, drawn ? "kernel|direction|bytes" : "kernel|direction");
    bt_table_heads(table,
                   ">moved|>by the calls|>time|>one by one|>speedup|>rate|>groups|>calls|ops");
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int calls = 0; calls < 2; calls++) {
            BT_EACH(const bt_store_group, row, round->groups, round->group_count) {
                if (strcmp(row->direction, directions[d]) == 0 && is_group(row) == !calls) {
                    add_row(round, row, sum.most_bytes, drawn, table);
                }
            }
        }
    }
}

// ---- the page -----------------------------------------------------------------------------------

static bt_status write_case(const report_set *set, int64_t index, bool open, bt_str *out)
{
    const report_case *item = &set->cases[index];
    bt_table table = {.name = bt_textf("compiled-%s", item->tag)};
    bt_html_open_case(item, open, out);
    write_sum(item->round, out);
    write_step(set, item, out);
    bt_str_append(out, "</span></summary>\n");
    fill_table(item->round, true, &table);
    bt_table_html(&table, out);
    bt_str_append(out, "</details>\n");
    return BT_OK;
}

static bool has_groups(const report_case *item) { return item->round->group_count > 0; }

bt_status bt_page_groups(const report_set *set, bt_str *out)
{
    static const report_section section = {.id = "compiled",
                                           .title = "Compiled steps",
                                           .note = explained,
                                           .has = has_groups,
                                           .write = write_case};
    return bt_html_section(&section, set, out);
}

// ---- Markdown and text --------------------------------------------------------------------------

bt_status bt_markdown_groups(const report_set *set, bt_str *out)
{
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        if (has_groups(item)) {
            bt_table table = {0};
            bt_markdown(out, "\n## Compiled steps: %s\n\n", item->label);
            write_sum(item->round, out);
            write_step(set, item, out);
            bt_str_append(out, ".\n\n");
            fill_table(item->round, false, &table);
            bt_table_markdown(&table, out);
        }
    }
    return bt_str_status(out);
}

bt_status bt_show_groups(const bt_store_round *round, bt_str *out)
{
    bt_table table = {0};
    if (round->group_count == 0) {
        return BT_OK;
    }
    bt_str_append(out, "  compiled     ");
    write_sum(round, out);
    bt_str_append(out, "\n");
    fill_table(round, false, &table);
    return bt_table_print(&table, 4, out);
}
