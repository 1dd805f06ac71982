// harness/ab/calibrate.c - a session of 'calibrate', case by case
#include "harness/ab/calibrate.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/gate/card.h"
#include "harness/gate/gate.h"
#include "harness/plan/plan.h"
#include "harness/record/keep.h"
#include "harness/stats/stats.h"
#include "harness/stats/summary.h"

enum { A, B, SLOWED, SYSTEMS };
static const char *const systems[SYSTEMS] = {"a", "b", BT_CALIBRATE_SLOWED};

typedef struct gathering {
    const bt_store_run *const *runs; // [run_count], the newest first
    int64_t run_count;
    const bt_store_run *run; // runs[0]
    const bt_policy *policy;
    bt_calibration_result *out;
    bt_calibrated_case *items;
    int64_t ordinals;       // 1 + the largest
    double *times[SYSTEMS]; // [ordinals], of one case; NaN: none
    double *logs;           // [ordinals * run_count]
    int64_t *rounds;        // [run_count]: pairs of each session
    int64_t family;
} gathering;

// ---- the recorded rounds -----------------------------------------------------------------------

static bool is_of(const bt_store_round *round, const bt_calibrated_case *item)
{
    return strcmp(round->what.name, item->name) == 0 && strcmp(round->what.bench, item->bench) == 0;
}

static int system_of(const bt_store_round *round)
{
    int found = -1;
    for (int i = 0; i < SYSTEMS; ++i) {
        found = strcmp(round->what.system, systems[i]) == 0 ? i : found;
    }
    return found;
}

// Every case once, in the order of the run.
static void list_cases(gathering *self)
{
    BT_EACH(const bt_store_round, round, self->run->rounds, self->run->round_count) {
        bool known = bt_gate_is_ceiling(round);
        for (int64_t j = 0; j < self->out->count && !known; ++j) {
            known = is_of(round, &self->items[j]);
        }
        if (!known) {
            bool training = !bt_summary_times_calls(&round->what);
            self->items[self->out->count++] = (bt_calibrated_case){.bench = round->what.bench,
                                                                   .name = round->what.name,
                                                                   .training = training,
                                                                   .message = ""};
            self->family += 2; // counts decisions as `ab` does
        }
    }
}

static void count_ordinals(gathering *self)
{
    for (int64_t i = 0; i < self->run_count; ++i) {
        for (int64_t j = 0; j < self->runs[i]->round_count; ++j) {
            int64_t ordinal = self->runs[i]->rounds[j].ordinal;
            self->ordinals = ordinal >= self->ordinals ? ordinal + 1 : self->ordinals;
        }
    }
}

// The case's settings in a session; NULL if it has no such case.
static const char *axes_of(const bt_store_run *run, const bt_calibrated_case *item)
{
    for (int64_t i = 0; i < run->round_count; ++i) {
        if (is_of(&run->rounds[i], item)) {
            return run->rounds[i].what.axes_json;
        }
    }
    return NULL;
}

// Whether another session has the same case on the same machine and card.
static bt_status fits(const gathering *self, const bt_store_run *other,
                      const bt_calibrated_case *item, bool *same)
{
    const bt_store_env *env = &self->run->info.env;
    const char *axes = axes_of(self->run, item), *others = axes_of(other, item);
    char here[33], there[33], card[33];
    *same = other == self->run;
    if (*same || !others || strcmp(axes, others) != 0) {
        return BT_OK;
    }
    BT_TRY(bt_plan_environment(env, item->name, axes, here));
    BT_TRY(bt_plan_environment(&other->info.env, item->name, axes, there));
    bt_gate_card(env, card);
    *same = strcmp(here, there) == 0 && bt_gate_same_card(env, card, &other->info.env);
    return BT_OK;
}

static bt_status take_times(gathering *self, const bt_store_run *run, bt_calibrated_case *item)
{
    for (int i = 0; i < SYSTEMS; ++i) {
        for (int64_t j = 0; j < self->ordinals; ++j) {
            self->times[i][j] = (double)NAN;
        }
    }
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        int system = is_of(round, item) ? system_of(round) : -1;
        if (system < 0 || round->ordinal < 0) {
            continue;
        }
        if (round->status == BT_RUN_PASSED) {
            BT_TRY(bt_summary_time(round, &self->times[system][round->ordinal]));
        } else if (round->status != BT_RUN_INTERRUPTED && !*item->message && run == self->run) {
            item->message = round->message;
        }
        item->failed = item->failed || (round->status == BT_RUN_FAILED && run == self->run);
    }
    return BT_OK;
}

// Log ratios of every ordinal for which both times are known, by session, in the order recorded.
static bt_status pair(gathering *self, bt_calibrated_case *item, int base, int other,
                      bt_sessions *out)
{
    int64_t count = 0;
    *out = (bt_sessions){self->logs, self->rounds, 0};
    for (int64_t s = 0; s < self->run_count; ++s) {
        int64_t before = count;
        bool same = false;
        BT_TRY(fits(self, self->runs[s], item, &same));
        if (same) {
            BT_TRY(take_times(self, self->runs[s], item));
        }
        for (int64_t i = 0; same && i < self->ordinals; ++i) {
            double below = self->times[base][i], above = self->times[other][i];
            if (below > 0 && above > 0) {
                self->logs[count++] = log(above / below);
            }
        }
        if (count > before) {
            self->rounds[out->count++] = count - before;
        }
    }
    return BT_OK;
}

static bt_status median_of(gathering *self, const double *times, double *median)
{
    int64_t count = 0;
    for (int64_t i = 0; i < self->ordinals; ++i) {
        if (times[i] > 0) {
            self->logs[count++] = times[i];
        }
    }
    return bt_stats_median(self->logs, count, median);
}

// ---- judging -----------------------------------------------------------------------------------

static void make_rule(const gathering *self, bt_calibrated_case *item)
{
    bt_gate_metric metric = item->training ? BT_GATE_STEP_TIME : BT_GATE_TIME;
    bt_gate_rule policy =
        bt_policy_rule(self->policy, item->name, metric, item->training, item->base_ns);
    item->rule = bt_gate_decision_rule(self->policy, policy.tolerance, self->family);
}

static bt_status judge(gathering *self, bt_calibrated_case *item)
{
    bt_sessions pairs;
    double low = 0, high = 0;
    int64_t count = 0;
    BT_TRY(take_times(self, self->run, item));
    BT_TRY(median_of(self, self->times[A], &item->base_ns));
    make_rule(self, item);
    BT_TRY(pair(self, item, A, B, &pairs));
    BT_TRY(bt_noise_rates_of(&pairs, &item->rule, &item->rates));
    item->misses = item->rates.false_alarm_high > item->rule.alpha;
    item->coarse = item->rates.smallest_high >
                   self->policy->calibration_smallest_tolerances * item->rule.tolerance;
    BT_TRY(pair(self, item, B, SLOWED, &pairs));
    for (int64_t i = 0; i < pairs.count; ++i) {
        count += pairs.rounds[i];
    }
    item->seen = expm1(bt_mean_interval(self->logs, count, 0.95, &low, &high));
    item->seen_low = expm1(low);
    item->seen_high = expm1(high);
    return bt_noise_found_rate(&pairs, &item->rule, &item->found);
}

static bt_status gather(gathering *self)
{
    bt_arena *arena = &self->out->arena;
    BT_TRY(BT_ARENA_ARRAY(arena, self->run->round_count, &self->items));
    self->out->items = self->items;
    list_cases(self);
    count_ordinals(self);
    for (int i = 0; i < SYSTEMS; ++i) {
        BT_TRY(BT_ARENA_ARRAY(arena, self->ordinals, &self->times[i]));
    }
    BT_TRY(BT_ARENA_ARRAY(arena, self->ordinals * self->run_count, &self->logs));
    BT_TRY(BT_ARENA_ARRAY(arena, self->run_count, &self->rounds));
    for (int64_t i = 0; i < self->out->count; ++i) {
        self->items[i].injected = self->run->schedule.systems[SLOWED].inject_slowdown;
        BT_TRY(judge(self, &self->items[i]));
    }
    return BT_OK;
}

bt_status bt_calibrate(const bt_store_run *const *runs, int64_t count, const bt_policy *policy,
                       bt_calibration_result *out)
{
    memset(out, 0, sizeof *out);
    out->run = runs[0];
    for (int64_t i = 0; i < count; ++i) {
        const bt_store_schedule *schedule = &runs[i]->schedule;
        BT_FAIL_IF(strcmp(schedule->kind, BT_CALIBRATE_KIND) != 0 ||
                       schedule->system_count != SYSTEMS,
                   BT_STATUS_INVALID_ARGUMENT, "run %lld is not a session of 'bt-bench calibrate'",
                   (long long)runs[i]->id);
    }
    gathering self = {
        .runs = runs, .run_count = count, .run = runs[0], .policy = policy, .out = out};
    bt_status status = gather(&self);
    if (status != BT_OK) {
        bt_calibration_release(out);
    }
    return status;
}

void bt_calibration_release(bt_calibration_result *result)
{
    bt_arena_release(&result->arena);
    memset(result, 0, sizeof *result);
}

int bt_calibration_exit_code(const bt_calibration_result *result)
{
    bool failed = false, unknown = result->count == 0, misses = false;
    BT_EACH(const bt_calibrated_case, item, result->items, result->count) {
        failed = failed || item->failed;
        unknown = unknown || isnan(item->rates.false_alarm_rate);
        misses = misses || item->misses || item->coarse;
    }
    return failed ? 5 : unknown ? 4 : misses ? 1 : 0;
}

// ---- storing -----------------------------------------------------------------------------------

static bt_status add_row(const bt_calibration_result *result, const bt_calibrated_case *item,
                         bt_arena *arena, bt_store_calibration *row)
{
    const bt_noise_rates *rates = &item->rates;
    char environment[33], card[33];
    bt_str rule = {0};
    // If no slowdown is detected, the largest tested one is stored.
    *row =
        (bt_store_calibration){.bench = item->bench,
                               .name = item->name,
                               .pairs = rates->pairs,
                               .needed = rates->needed,
                               .sessions = rates->sessions,
                               .false_alarm_rate = rates->false_alarm_rate,
                               .false_alarm_high = rates->false_alarm_high,
                               .smallest = fmin(rates->smallest, BT_CALIBRATE_LARGEST),
                               .smallest_high = fmin(rates->smallest_high, BT_CALIBRATE_LARGEST)};
    if (isnan(rates->smallest)) {
        row->smallest = row->smallest_high = (double)NAN;
    }
    row->metric = bt_gate_metric_info(item->training ? BT_GATE_STEP_TIME : BT_GATE_TIME)->tag;
    BT_TRY(bt_plan_environment(&result->run->info.env, item->name, axes_of(result->run, item),
                               environment));
    bt_gate_card(&result->run->info.env, card);
    BT_TRY(bt_keep(arena, environment, &row->environment));
    BT_TRY(bt_keep(arena, card, &row->card));
    bt_gate_calibrated_rule(&item->rule, &rule);
    return bt_keep_str(arena, &rule, &row->rule_json);
}

bt_status bt_calibration_store(bt_store *store, const bt_calibration_result *result)
{
    BT_SCOPED(bt_arena) arena = {0};
    bt_store_calibration *rows = NULL;
    BT_TRY(BT_ARENA_ARRAY(&arena, result->count, &rows));
    for (int64_t i = 0; i < result->count; ++i) {
        BT_TRY(add_row(result, &result->items[i], &arena, &rows[i]));
    }
    return bt_store_calibrations_set(store, result->run->id, rows, result->count);
}
