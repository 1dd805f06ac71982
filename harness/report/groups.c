// harness/report/groups.c - the contents of a compiled step: generated kernels and their savings
//
// One row per kernel, forward and backward separate. The bar shows the bytes that the kernel moves,
// in front of the longer one that its calls would move. Speed is compared with eager for the whole
// step, if the run has the same case without compile: a group's calls are not run separately.
#include <math.h>
#include <string.h>

#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

static bool is_group(const bt_store_group *row) { return row->kind[0] != '\0'; }

static const char *const directions[] = {"forward", "forward and backward", "backward"};

enum { DIRECTIONS = (int)(sizeof directions / sizeof directions[0]) };

typedef struct groups_sum {
    double groups, calls, bytes_before, bytes_after, time_ns; // of groups
    double other_calls, other_ns;
    double most_bytes; // of a row
} groups_sum;

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

// "8 of 30 kernel calls in 4 groups, which move 1.2 MiB instead of 3.4; ..."
static void write_sum(const report_set *set, const report_case *item, bt_str *out)
{
    const groups_sum sum = sum_of(item->round);
    const report_case *eager = eager_of(set, item);
    bt_str_format(out,
                  "%.0f of %.0f kernel calls of a micro-batch in %.0f groups, which move %s "
                  "instead of %s",
                  sum.calls, sum.calls + sum.other_calls, sum.groups,
                  bt_format_value(BT_UNIT_BYTES, sum.bytes_after).text,
                  bt_format_value(BT_UNIT_BYTES, sum.bytes_before).text);
    if (eager && step_of(eager) > 0 && step_of(item) > 0) {
        bt_str_format(
            out, "; a step %s, eager %s: %.3gx", bt_format_value(BT_UNIT_NS, step_of(item)).text,
            bt_format_value(BT_UNIT_NS, step_of(eager)).text, step_of(eager) / step_of(item));
    }
}

static const char explained[] =
    "Kernels that were generated for groups of calls, of one micro-batch. Groups with equal code "
    "share a kernel. Bytes: what the kernel moves, before what its calls would move. Times are of "
    "the last profiled step.";

// ---- the page -----------------------------------------------------------------------------------

static void write_bytes(const bt_store_group *row, const groups_sum *sum, bt_str *out)
{
    const double most = sum->most_bytes > 0 ? sum->most_bytes : 1;
    bt_str_format(out, "<td class=track>");
    if (is_group(row)) {
        bt_str_format(out,
                      "<i class=\"bar d3\" style=\"left:0;width:%.2f%%\"></i>"
                      "<i class=\"bar d0\" style=\"left:0;width:%.2f%%\"></i>",
                      100 * (double)row->bytes_before / most,
                      100 * (double)row->bytes_after / most);
    }
}

static void write_number(bool known, bt_unit unit, double value, bt_str *out)
{
    if (known) {
        bt_str_format(out, "<td class=n data-v=\"%.6g\">%s", value,
                      bt_format_value(unit, value).text);
    } else {
        bt_str_append(out, "<td class=n>");
    }
}

static void write_row(const bt_store_group *row, const groups_sum *sum, bt_str *out)
{
    const bool group = is_group(row), timed = row->time_ns > 0;
    const double after = (double)row->bytes_after, time_ns = (double)row->time_ns;
    bt_html(out, "<tr><th scope=row>%s</th><td class=word>%s",
            group ? row->kernel : "calls in no group", row->direction);
    write_bytes(row, sum, out);
    write_number(group, BT_UNIT_BYTES, after, out);
    write_number(group, BT_UNIT_BYTES, (double)row->bytes_before, out);
    write_number(timed, BT_UNIT_NS, time_ns, out);
    write_number(group && timed, BT_UNIT_BYTES_PER_S, after / time_ns * 1e9, out);
    bt_str_format(out, "<td class=n>%lld<td class=n>%lld", (long long)row->count,
                  (long long)row->calls);
    bt_html(out, "<td class=long>%s\n", row->ops);
}

static void write_case(const report_set *set, const report_case *item, bool open, bt_str *out)
{
    const groups_sum sum = sum_of(item->round);
    bt_str_format(out, "<details%s><summary>", open ? " open" : "");
    bt_html_tag(out, item);
    bt_html_text(out, item->label);
    bt_str_append(out, " <span class=muted>");
    write_sum(set, item, out);
    bt_html(out,
            "</span></summary>\n<div class=scroll><table data-name=\"compiled-%s\"><thead><tr>"
            "<th>kernel<th>direction<th>bytes<th class=n>moved<th class=n>by the calls"
            "<th class=n>time<th class=n>rate<th class=n>groups<th class=n>calls<th>ops</thead>"
            "<tbody>\n",
            item->tag);
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int calls = 0; calls < 2; calls++) { // groups first
            BT_EACH(const bt_store_group, row, item->round->groups, item->round->group_count) {
                if (strcmp(row->direction, directions[d]) == 0 && is_group(row) == !calls) {
                    write_row(row, &sum, out);
                }
            }
        }
    }
    bt_str_append(out, "</tbody></table></div></details>\n");
}

bt_status bt_page_groups(const report_set *set, bt_str *out)
{
    int64_t first = -1, others = -1;
    for (int64_t i = 0; i < set->case_count; i++) {
        const bool has = set->cases[i].round->group_count > 0;
        first = has && first < 0 ? i : first;
        others += has;
    }
    if (first < 0) {
        return BT_OK;
    }
    bt_str_format(out, "<section id=compiled><h2>Compiled steps</h2>\n<p class=muted>%s</p>\n",
                  explained);
    write_case(set, &set->cases[first], true, out);
    bt_html_group_open(out, "The other cases", others);
    for (int64_t i = first + 1; i < set->case_count; i++) {
        if (set->cases[i].round->group_count > 0) {
            write_case(set, &set->cases[i], false, out);
        }
    }
    bt_html_group_close(out, others);
    bt_str_append(out, "</section>\n");
    return BT_OK;
}

// ---- Markdown -----------------------------------------------------------------------------------

void bt_markdown_groups(const report_set *set, bt_str *out)
{
    BT_EACH(const report_case, item, set->cases, set->case_count) {
        if (item->round->group_count == 0) {
            continue;
        }
        bt_markdown(out, "\n## Compiled steps: %s\n\n", item->label);
        write_sum(set, item, out);
        bt_str_append(out, ".\n\n| kernel | direction | ops | groups | calls | moved | by the "
                           "calls | time |\n|---|---|---|--:|--:|--:|--:|--:|\n");
        BT_EACH(const bt_store_group, row, item->round->groups, item->round->group_count) {
            bt_markdown(out, "| %s | %s | %s |", is_group(row) ? row->kernel : "calls in no group",
                        row->direction, row->ops);
            bt_str_format(out, " %lld | %lld | %s | %s | %s |\n", (long long)row->count,
                          (long long)row->calls,
                          bt_format_value(BT_UNIT_BYTES, (double)row->bytes_after).text,
                          bt_format_value(BT_UNIT_BYTES, (double)row->bytes_before).text,
                          bt_format_value(BT_UNIT_NS, (double)row->time_ns).text);
        }
    }
}
