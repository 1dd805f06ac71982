// harness/ab/calibrate.c - a session of 'calibrate', case by case
#include "harness/ab/calibrate.h"

#include <math.h>
#include <string.h>

#include "harness/gate/side.h"
#include "harness/stats/decide_json.h"
#include "harness/stats/stats.h"
#include "harness/stats/summary.h"
#include "harness/text/json_writer.h"

enum { A, B, SLOWED, SYSTEMS };
static const char *const systems[SYSTEMS] = {"a", "b", BT_CALIBRATE_SLOWED};

#define CEILING "ceiling."

typedef struct gathering {
    const bt_store_run *run;
    const bt_policy *policy;
    bt_calibration_result *out;
    bt_calibrated_case *items;
    int64_t ordinals;       // 1 + the largest
    double *times[SYSTEMS]; // [ordinals], of one case; NaN: none
    double *logs;           // [ordinals]
    int64_t family;
} gathering;

// ---- what the run has --------------------------------------------------------------------------

static bool is_case(const bt_store_round *round)
{
    return strncmp(round->what.name, CEILING, sizeof CEILING - 1) != 0;
}

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
    for (int64_t i = 0; i < self->run->round_count; ++i) {
        const bt_store_round *round = &self->run->rounds[i];
        bool known = !is_case(round);
        for (int64_t j = 0; j < self->out->count && !known; ++j) {
            known = is_of(round, &self->items[j]);
        }
        if (!known) {
            bool training = strcmp(round->what.kind, "kernel") != 0;
            self->items[self->out->count++] = (bt_calibrated_case){.bench = round->what.bench,
                                                                   .name = round->what.name,
                                                                   .training = training,
                                                                   .message = ""};
            self->family += 2; // as `ab` counts decisions
        }
        self->ordinals = round->ordinal >= self->ordinals ? round->ordinal + 1 : self->ordinals;
    }
}

static bt_status take_times(gathering *self, bt_calibrated_case *item)
{
    for (int i = 0; i < SYSTEMS; ++i) {
        for (int64_t j = 0; j < self->ordinals; ++j) {
            self->times[i][j] = (double)NAN;
        }
    }
    for (int64_t i = 0; i < self->run->round_count; ++i) {
        const bt_store_round *round = &self->run->rounds[i];
        int system = is_of(round, item) ? system_of(round) : -1;
        if (system < 0 || round->ordinal < 0) {
            continue;
        }
        if (round->status == BT_RUN_PASSED) {
            BT_TRY(bt_summary_time(round, &self->times[system][round->ordinal]));
        } else if (round->status != BT_RUN_INTERRUPTED && !*item->message) {
            item->message = round->message;
        }
        item->failed = item->failed || round->status == BT_RUN_FAILED;
    }
    return BT_OK;
}

// Log ratios of every ordinal of which both are known. Returns how many.
static int64_t pair(const gathering *self, int base, int other)
{
    int64_t count = 0;
    for (int64_t i = 0; i < self->ordinals; ++i) {
        double below = self->times[base][i], above = self->times[other][i];
        if (below > 0 && above > 0) {
            self->logs[count++] = log(above / below);
        }
    }
    return count;
}

static bt_status median_of(gathering *self, const double *times, double *median)
{
    bt_stats stats;
    int64_t count = 0;
    for (int64_t i = 0; i < self->ordinals; ++i) {
        if (times[i] > 0) {
            self->logs[count++] = times[i];
        }
    }
    BT_TRY(bt_stats_of(self->logs, count, &stats));
    *median = stats.median;
    return BT_OK;
}

// ---- judging -----------------------------------------------------------------------------------

static void make_rule(const gathering *self, bt_calibrated_case *item)
{
    bt_gate_metric metric = item->training ? BT_GATE_STEP_TIME : BT_GATE_TIME;
    bt_gate_rule policy =
        bt_policy_rule(self->policy, item->name, metric, item->training, item->base_ns);
    item->rule = bt_decision_rule_of(policy.tolerance, self->family);
    item->rule.alpha = self->policy->false_alarm_rate;
    item->rule.miss = self->policy->miss_rate;
    bt_decision_rule_limit(&item->rule, self->policy->rounds);
}

static bt_status judge(gathering *self, bt_calibrated_case *item)
{
    uint64_t seed = self->run->schedule.seed;
    double low = 0, high = 0;
    BT_TRY(take_times(self, item));
    BT_TRY(median_of(self, self->times[A], &item->base_ns));
    make_rule(self, item);
    int64_t count = pair(self, A, B);
    BT_TRY(bt_noise_rates_of(self->logs, count, &item->rule, seed, &item->rates));
    item->misses = item->rates.false_alarm_rate > item->rule.alpha;
    count = pair(self, B, SLOWED);
    item->seen = expm1(bt_mean_interval(self->logs, count, 0.95, &low, &high));
    item->seen_low = expm1(low);
    item->seen_high = expm1(high);
    return bt_noise_found_rate(self->logs, count, &item->rule, seed, &item->found);
}

static bt_status gather(gathering *self)
{
    bt_arena *arena = &self->out->arena;
    void *block = NULL;
    BT_TRY(bt_arena_alloc(arena, (size_t)self->run->round_count * sizeof *self->items, &block));
    self->items = block;
    self->out->items = self->items;
    list_cases(self);
    for (int i = 0; i < SYSTEMS; ++i) {
        BT_TRY(bt_arena_alloc(arena, (size_t)self->ordinals * sizeof(double), &block));
        self->times[i] = block;
    }
    BT_TRY(bt_arena_alloc(arena, (size_t)self->ordinals * sizeof(double), &block));
    self->logs = block;
    for (int64_t i = 0; i < self->out->count; ++i) {
        self->items[i].injected = self->run->schedule.systems[SLOWED].inject_slowdown;
        BT_TRY(judge(self, &self->items[i]));
    }
    return BT_OK;
}

bt_status bt_calibrate(const bt_store_run *run, const bt_policy *policy, bt_calibration_result *out)
{
    const bt_store_schedule *schedule = &run->schedule;
    memset(out, 0, sizeof *out);
    out->run = run;
    if (strcmp(schedule->kind, BT_CALIBRATE_KIND) != 0 || schedule->system_count != SYSTEMS) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "run %lld is no session of 'bt-bench calibrate'", (long long)run->id);
    }
    gathering self = {.run = run, .policy = policy, .out = out};
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
    for (int64_t i = 0; i < result->count; ++i) {
        const bt_calibrated_case *item = &result->items[i];
        failed = failed || item->failed;
        unknown = unknown || isnan(item->rates.false_alarm_rate);
        misses = misses || item->misses;
    }
    return failed ? 5 : unknown ? 4 : misses ? 1 : 0;
}

// ---- storing -----------------------------------------------------------------------------------

static bt_status keep_rule(const bt_calibrated_case *item, bt_arena *arena, const char **out)
{
    bt_str text = {0};
    bt_json_writer json = {.out = &text};
    void *copy = NULL;
    bt_json_writer_open(&json, NULL, '{');
    bt_decision_rule_write(&item->rule, &json);
    bt_json_writer_close(&json, '}');
    bt_status status = bt_str_status(&text);
    if (status == BT_OK) {
        status = bt_arena_alloc(arena, text.length_bytes + 1, &copy);
    }
    if (status == BT_OK) {
        memcpy(copy, bt_str_text(&text), text.length_bytes + 1);
        *out = copy;
    }
    bt_str_release(&text);
    return status;
}

// The settings of a case, as its first round has them.
static const char *axes_of(const bt_store_run *run, const char *name)
{
    for (int64_t i = 0; i < run->round_count; ++i) {
        if (strcmp(run->rounds[i].what.name, name) == 0) {
            return run->rounds[i].what.axes_json;
        }
    }
    return "";
}

static bt_status add_row(const bt_calibration_result *result, const bt_calibrated_case *item,
                         bt_arena *arena, bt_store_calibration *rows, int64_t *count)
{
    const bt_noise_rates *rates = &item->rates;
    void *block = NULL;
    if (isnan(rates->false_alarm_rate)) {
        return BT_OK;
    }
    // What is not found at all is kept as the largest slowdown that was looked for.
    bt_store_calibration row = {.bench = item->bench,
                                .name = item->name,
                                .pairs = rates->pairs,
                                .false_alarm_rate = rates->false_alarm_rate,
                                .false_alarm_low = rates->false_alarm_low,
                                .false_alarm_high = rates->false_alarm_high,
                                .smallest = fmin(rates->smallest, BT_CALIBRATE_LARGEST),
                                .smallest_low = fmin(rates->smallest_low, BT_CALIBRATE_LARGEST),
                                .smallest_high = fmin(rates->smallest_high, BT_CALIBRATE_LARGEST)};
    char environment[33];
    BT_TRY(bt_gate_environment(&result->run->info.env, item->name, axes_of(result->run, item->name),
                               environment));
    BT_TRY(bt_arena_alloc(arena, sizeof environment, &block));
    memcpy(block, environment, sizeof environment);
    row.environment = block;
    BT_TRY(keep_rule(item, arena, &row.rule_json));
    row.metric = bt_gate_metric_info(item->training ? BT_GATE_STEP_TIME : BT_GATE_TIME)->tag;
    rows[(*count)++] = row;
    return BT_OK;
}

bt_status bt_calibration_store(bt_store *store, const bt_calibration_result *result)
{
    bt_arena arena = {0};
    void *block = NULL;
    int64_t count = 0;
    bt_status status =
        bt_arena_alloc(&arena, (size_t)result->count * sizeof(bt_store_calibration), &block);
    for (int64_t i = 0; status == BT_OK && i < result->count; ++i) {
        status = add_row(result, &result->items[i], &arena, block, &count);
    }
    if (status == BT_OK) {
        status = bt_store_calibrations_set(store, result->run->id, block, count);
    }
    bt_arena_release(&arena);
    return status;
}
