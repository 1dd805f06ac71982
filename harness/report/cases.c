// harness/report/cases.c - the numbers of a case: of the only round that counts, or medians over
// several
//
// The round is the unit (METHOD): if several rounds count, a metric is the median of their values,
// its interval the order-statistic one over them, and its count the number of rounds.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/report/internal.h"
#include "harness/suite/json.h"

bool bt_report_is_kernel(const bt_store_round *round)
{
    return bt_summary_times_calls(&round->what);
}

const char *bt_report_eager(const bt_store_round *round)
{
    const char *reason = NULL;
    for (int64_t i = 0; i < round->kernel_count && !reason; i++) {
        reason = bt_store_eager_reason(&round->kernels[i]);
    }
    return reason;
}

bool bt_report_is_command(const bt_store_round *round)
{
    return strcmp(round->what.kind, "command") == 0;
}

bool bt_report_has_steps(const report_case *item) { return item->round->step_count > 0; }

bool bt_report_has_passed(const report_case *item) { return item->round->status == BT_RUN_PASSED; }

int64_t bt_report_count(const report_set *set, bool (*is)(const report_case *item))
{
    int64_t count = 0;
    for (int64_t i = 0; i < set->case_count; i++) {
        count += is(&set->cases[i]);
    }
    return count;
}

const char *bt_noise_of(const bt_store_round *round)
{
    return round->label && round->label[0]   ? round->label
           : round->status == BT_RUN_INVALID ? bt_run_status_name(BT_RUN_INVALID)
                                             : "";
}

bool bt_round_counts(const report_case *item, int64_t index)
{
    // If a case has several rounds, those that passed; if it has one, that one in any state.
    return item->round_count == 1 || item->rounds[index]->status == BT_RUN_PASSED;
}

int64_t bt_report_counted(const report_case *item)
{
    int64_t count = 0;
    for (int64_t i = 0; i < item->round_count; i++) {
        count += bt_round_counts(item, i);
    }
    return count;
}

static bt_status read_kernel(report_case *item, bt_arena *arena)
{
    BT_SCOPED(bt_json_doc) axes = {0};
    const char *text = item->round->what.axes_json;
    item->kernel = (report_kernel){"", "", "", "", "", false};
    if (!bt_report_is_kernel(item->round)) {
        return BT_OK;
    }
    item->kernel.ceiling = strncmp(item->round->what.name, "ceiling.", 8) == 0;
    BT_TRY(bt_json_parse("axes", text, strlen(text), &axes));
    const cJSON *kernel = bt_json_get(axes.root, "kernel");
    BT_TRY(bt_keep(arena, bt_json_text_of(kernel, "op"), &item->kernel.op));
    BT_TRY(bt_keep(arena, bt_json_text_of(kernel, "direction"), &item->kernel.direction));
    BT_TRY(bt_keep(arena, bt_json_text_of(kernel, "dtype"), &item->kernel.dtype));
    BT_TRY(bt_keep(arena, bt_json_text_of(kernel, "shape"), &item->kernel.shape));
    bt_str group = {0};
    if (bt_json_get(kernel, "ranks")) { // a collective; its bandwidth is bus bandwidth
        bt_str_format(&group, "%s, %s, %.0f ranks over %s", item->kernel.op, item->kernel.dtype,
                      bt_json_number_of(kernel, "ranks"), bt_json_text_of(kernel, "group"));
    } else if (kernel) {
        bt_str_format(&group, "%s %s, %s, %s cache", item->kernel.op, item->kernel.direction,
                      item->kernel.dtype, bt_json_text_of(kernel, "cache"));
    }
    return bt_keep_str(arena, &group, &item->kernel.group);
}

bt_status bt_report_recompute(const bt_store_round *round, char text[BT_REPORT_RECOMPUTE_BYTES])
{
    BT_SCOPED(bt_json_doc) axes = {0};
    const char *json = round->what.axes_json;
    text[0] = '\0';
    BT_TRY(bt_json_parse("axes", json, strlen(json), &axes));
    const cJSON *train = bt_json_get(axes.root, "train");
    const cJSON *mode = bt_json_get(train, "recompute");
    if (cJSON_IsString(mode) && strcmp(mode->valuestring, "none") != 0) {
        const int64_t blocks = (int64_t)bt_json_number_of(train, "recompute_blocks");
        (void)snprintf(text, BT_REPORT_RECOMPUTE_BYTES, "recompute %.16s in %.20s blocks",
                       mode->valuestring,
                       blocks > 0 ? bt_textf("%lld", (long long)blocks).text : "all");
    }
    return BT_OK;
}

// Ranks of a training case, or of a collective unless its group is of CPU ranks; at least 1.
static int64_t ranks_of(const report_case *item, const cJSON *axes)
{
    const cJSON *kernel = bt_json_get(axes, "kernel");
    if (strcmp(item->round->what.kind, "collective") != 0) {
        return bt_plan_mesh_of(bt_json_get(axes, "train")).ranks;
    }
    return bt_json_is_text(kernel, "group", "host")
               ? 1
               : (int64_t)fmax(bt_json_number_of(kernel, "ranks"), 1);
}

// The ranks of a case on GPUs each have their own.
static bt_status read_gpus(report_case *item)
{
    BT_SCOPED(bt_json_doc) axes = {0};
    BT_SCOPED(bt_json_doc) plan = {0};
    const char *json = item->round->what.axes_json;
    const char *plan_json = item->run->info.suite.plan_json;
    item->gpus = 1;
    BT_TRY(bt_json_parse("axes", json, strlen(json), &axes));
    const int64_t ranks = ranks_of(item, axes.root);
    if (ranks > 1) {
        BT_TRY(bt_json_parse("plan", plan_json, strlen(plan_json), &plan));
        item->gpus = bt_json_is_text(plan.root, "device", "cuda") ? ranks : 1;
    }
    return BT_OK;
}

bt_status bt_case_summarise(report_case *item, bt_arena *arena)
{
    BT_TRY(read_kernel(item, arena));
    BT_TRY(bt_report_recompute(item->round, item->recompute));
    BT_TRY(read_gpus(item));
    BT_TRY(BT_ARENA_ARRAY(arena, item->round_count, &item->summaries));
    for (int64_t i = 0; i < item->round_count; i++) {
        BT_TRY(bt_summary_of(item->rounds[i], &item->summaries[i]));
    }
    BT_SCOPED_MEM(bt_summary *) counted = NULL;
    BT_TRY(BT_MEM_ARRAY(item->round_count, &counted));
    int64_t count = 0;
    for (int64_t i = 0; i < item->round_count; i++) {
        if (bt_round_counts(item, i)) {
            counted[count++] = item->summaries[i];
        }
    }
    if (count == 1) {
        item->summary = counted[0];
        return BT_OK;
    }
    return bt_summary_over(counted, count, &item->summary);
}

const report_case *bt_report_counterpart(const report_set *set, const report_case *item,
                                         const bt_store_run *run, const char *system)
{
    BT_EACH(const report_case, other, set->cases, set->case_count) {
        if (other->run == run && strcmp(other->round->what.system, system) == 0 &&
            strcmp(other->round->what.name, item->round->what.name) == 0) {
            return other;
        }
    }
    return NULL;
}

// ---- columns of the tables of cases ------------------------------------------------------------

const report_column bt_report_columns[] = {
    {"speed", BT_METRIC_TOKENS_PER_S, false},
    {"step", BT_METRIC_STEP_TIME, false},
    {"first loss", BT_METRIC_LOSS_FIRST, false},
    {"last loss", BT_METRIC_LOSS_LAST, false},
    {"validation", BT_METRIC_VAL_LOSS, false},
    {"peak memory", BT_METRIC_PEAK_ALLOCATED, false},
    {"time", BT_METRIC_TIME, true},
    {"bandwidth", BT_METRIC_BANDWIDTH, true},
    {"compute", BT_METRIC_COMPUTE, true},
    {"of copy", BT_METRIC_COPY_SHARE, true},
    {"launch", BT_METRIC_LAUNCH_TIME, true},
    {"processor time", BT_METRIC_CPU_TIME, true},
    {"peak memory", BT_METRIC_PEAK_RESIDENT, true},
};
const int bt_report_column_count = (int)(sizeof bt_report_columns / sizeof bt_report_columns[0]);

bool bt_report_flops_dominate(double flop_per_s, double bytes_per_s)
{
    static const double intensity_least = 10.0;
    return flop_per_s > intensity_least * bytes_per_s; // false for NaN
}

bool bt_report_column_shown(const report_set *set, const report_column *column)
{
    bool shown = !column->of_kernels && set->case_count == 0;
    for (int64_t i = 0; i < set->case_count && !shown; ++i) {
        const report_case *item = &set->cases[i];
        // The resident memory of a kernel case is that of our worker, not of the kernel.
        shown = bt_report_is_kernel(item->round) == column->of_kernels &&
                (column->metric != BT_METRIC_PEAK_RESIDENT || bt_report_is_command(item->round)) &&
                item->summary.metrics[column->metric].count > 0;
    }
    return shown;
}
