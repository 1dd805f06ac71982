// harness/report/pairs.c - ratios without verdicts: two systems by pairs of rounds, and runs
// relative to the first
#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/record/keep.h"
#include "harness/report/internal.h"
#include "harness/report/ratios.h"
#include "harness/stats/decide.h"

const ratio_list *bt_ratios_of_ab(const report_set *set, const bt_store_run *run)
{
    BT_EACH(const ratio_list, list, set->ratios, set->ratio_count) {
        if (list->run == run && strcmp(list->kind, "ab") == 0) {
            return list;
        }
    }
    return NULL;
}

// ---- pairs of rounds ---------------------------------------------------------------------------

static bt_metric time_metric(const report_case *item)
{
    return bt_report_is_kernel(item->round) ? BT_METRIC_TIME : BT_METRIC_STEP_TIME;
}

// The base's time relative to the other's: the geometric mean over the rounds that both have, with
// the t interval of its logarithm, as in replicate's verdicts.
// A single pair has the range that the intervals of its two rounds allow instead: `own`.
static void pair_ratio(const report_case *base, const report_case *other, double *logs,
                       ratio_row *row, ratio_range *own)
{
    bt_metric metric = time_metric(base);
    for (int64_t i = 0; i < base->round_count; i++) {
        for (int64_t j = 0; j < other->round_count; j++) {
            const bt_metric_value *ours = &base->summaries[i].metrics[metric];
            const bt_metric_value *theirs = &other->summaries[j].metrics[metric];
            bool pair = base->rounds[i]->ordinal == other->rounds[j]->ordinal &&
                        bt_round_counts(base, i) && bt_round_counts(other, j);
            if (pair && ours->value > 0.0 && theirs->value > 0.0 &&
                isfinite(theirs->value / ours->value)) {
                logs[row->rounds++] = log(theirs->value / ours->value);
                *own = bt_ratio_range(theirs, ours);
            }
        }
    }
    if (row->rounds == 0) {
        return;
    }
    double low, high;
    row->ratio = exp(bt_mean_interval(logs, row->rounds, 0.95, &low, &high));
    row->low = exp(low);
    row->high = exp(high);
}

// A row of a case on the two systems, without texts of its own.
static bt_status measure_pair(const report_case *base, const report_case *other, ratio_row *row,
                              ratio_range *own)
{
    BT_SCOPED_MEM(double *) logs = NULL;
    *own = (ratio_range){(double)NAN, (double)NAN};
    *row = bt_ratio_unknown;
    row->name = base->round->what.name;
    row->noisy = base->noisy + other->noisy;
    BT_TRY(BT_MEM_ARRAY(base->round_count * other->round_count, &logs));
    pair_ratio(base, other, logs, row, own);
    row->wide = row->rounds == 1 && bt_ratio_is_wide(*own);
    return BT_OK;
}

static bt_status warn(bt_arena *arena, ratio_range own, ratio_row *row)
{
    bt_str text = {0};
    bt_str_format(&text, "one round, whose samples allow %.3g to %s: run more rounds", own.low,
                  isinf(own.high) ? "any ratio" : bt_textf("%.3g", own.high).text);
    return bt_keep_str(arena, &text, &row->reason);
}

// A row of a case on the two systems; `named`: its name contains the other system.
static bt_status add_pair(report_set *set, const report_case *base, const report_case *other,
                          bool named, ratio_row *row)
{
    ratio_range own;
    BT_TRY(measure_pair(base, other, row, &own));
    if (named) {
        bt_str text = {0};
        bt_str_format(&text, "%s, against %s", row->name, other->round->what.system);
        BT_TRY(bt_keep_str(&set->arena, &text, &row->name));
    }
    return row->wide ? warn(&set->arena, own, row) : BT_OK;
}

bt_status bt_ratio_of_case(const report_set *set, const report_case *base, const report_case *other,
                           ratio_row *row)
{
    const ratio_list *judged = bt_ratios_of_ab(set, base->run);
    ratio_range own;
    for (int64_t i = 0; judged && i < judged->count; i++) {
        const ratio_row *found = &judged->rows[i];
        if (strcmp(judged->base, base->round->what.system) == 0 &&
            strcmp(judged->other, other->round->what.system) == 0 && !*found->metric &&
            strcmp(found->name, base->round->what.name) == 0) {
            *row = *found;
            return BT_OK;
        }
    }
    return measure_pair(base, other, row, &own);
}

// The cases of the list's run on its base and on each of `others` [count].
bt_status bt_ratios_of_systems(report_set *set, ratio_list *list, const char *const *others,
                               int count)
{
    int64_t found = 0;
    ratio_row *rows = NULL;
    BT_TRY(BT_ARENA_ARRAY(&set->arena, set->case_count * count, &rows));
    BT_EACH(const report_case, base, set->cases, set->case_count) {
        if (base->run != list->run || base->kernel.ceiling ||
            strcmp(base->round->what.system, list->base) != 0) {
            continue;
        }
        for (int s = 0; s < count; s++) {
            const report_case *other = bt_report_counterpart(set, base, base->run, others[s]);
            if (other) {
                BT_TRY(add_pair(set, base, other, count > 1, &rows[found++]));
            }
        }
    }
    return bt_ratios_sort(&set->arena, rows, found, list);
}

// ---- several runs ------------------------------------------------------------------------------

// A kernel case is sorted by its own name first, so that operations are grouped over all runs.
static bt_status name_in_run(report_set *set, const report_case *item, const char **name)
{
    bt_str text = {0};
    *name = item->label;
    if (!bt_report_is_kernel(item->round)) {
        return BT_OK;
    }
    bt_str_format(&text, "%s, %s, run %lld", item->round->what.name, item->round->what.system,
                  (long long)item->run->id);
    return bt_keep_str(&set->arena, &text, name);
}

// Each later run relative to the first: its time divided by that of the same case there.
bt_status bt_ratios_of_runs(report_set *set, ratio_list *list)
{
    int64_t count = 0;
    ratio_row *rows = NULL;
    BT_TRY(BT_ARENA_ARRAY(&set->arena, set->case_count, &rows));
    BT_EACH(const report_case, mine, set->cases, set->case_count) {
        bool later = mine->run != set->runs && !mine->kernel.ceiling;
        const report_case *base =
            later ? bt_report_counterpart(set, mine, set->runs, mine->round->what.system) : NULL;
        if (!base) {
            continue;
        }
        bt_metric metric = time_metric(mine);
        const bt_metric_value *now = &mine->summary.metrics[metric];
        const bt_metric_value *was = &base->summary.metrics[metric];
        const ratio_range range = bt_ratio_range(now, was);
        ratio_row *row = &rows[count++];
        *row = bt_ratio_unknown;
        row->ratio = now->value / was->value;
        row->low = range.low;
        row->high = range.high;
        row->noisy = base->noisy + mine->noisy;
        row->rounds = bt_report_counted(mine);
        BT_TRY(name_in_run(set, mine, &row->name));
    }
    return bt_ratios_sort(&set->arena, rows, count, list);
}
