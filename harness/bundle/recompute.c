// harness/bundle/recompute.c - recomputes measurements and hashes from the raw rows
//
// A row of the table defines how a metric follows from the round's data. Metrics without a row were
// reported by a worker or the recorder (error_share, wall_time_ns) and cannot be recomputed.
#include "harness/bundle/recompute.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/bundle/content.h"
#include "harness/env/facts.h"
#include "harness/plan/plan.h"
#include "harness/redact/redact.h"
#include "harness/run/plausible.h"
#include "harness/stats/noise.h"
#include "harness/stats/summary.h"
#include "harness/suite/json.h"

enum { FINDINGS_MAX = 100 };

void bt_bundle_find(bt_bundle_check *check, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (check->finding_count++ >= FINDINGS_MAX) {
        return; // counted all the same
    }
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bt_str_format(&check->findings, "%s\n", text);
}

bool bt_recompute_same(double left, double right)
{
    if (isnan(left) || isnan(right)) {
        return isnan(left) && isnan(right);
    }
    return left == right || fabs(left - right) <= 1e-12 * fmax(fabs(left), fabs(right));
}

typedef struct round_check {
    const bt_store_run *run;
    const bt_store_round *round;
    const cJSON *kernel; // the case's settings, NULL unless it is a kernel case
    bt_bundle_check *out;
    bt_summary follows; // from the steps, evaluations, memory and times of calls
} round_check;

static void find_wrong(const round_check *self, const bt_store_measurement *item, const char *what,
                       double recorded, double recomputed)
{
    bt_bundle_find(
        self->out, "%s, %s, round %lld: %s: %s is recorded as %.17g, recomputed as %.17g",
        self->round->what.name, self->round->what.system, (long long)self->round->ordinal,
        bt_metric_info(item->metric)->tag, what, recorded, recomputed);
}

static void compare_value(const round_check *self, const bt_store_measurement *item,
                          const bt_metric_value *follows)
{
    const struct {
        const char *what;
        double recorded, follows;
    } rows[] = {{"the value", item->value, follows->value},
                {"low", item->low, follows->low},
                {"high", item->high, follows->high}};
    for (int i = 0; i < 3; i++) {
        if (!bt_recompute_same(rows[i].recorded, rows[i].follows)) {
            find_wrong(self, item, rows[i].what, rows[i].recorded, rows[i].follows);
        }
    }
}

// A value without an interval.
static void compare_exact(const round_check *self, const bt_store_measurement *item, double value)
{
    compare_value(self, item, &(bt_metric_value){value, (double)NAN, (double)NAN, 1});
}

// ---- formulas ----------------------------------------------------------------------------------

typedef bt_status (*recompute_metric)(const round_check *self, const bt_store_measurement *item);

static const bt_store_measurement *measurement_of(const bt_store_round *round, bt_metric metric)
{
    BT_EACH(const bt_store_measurement, item, round->measurements, round->measurement_count) {
        if (item->metric == metric) {
            return item;
        }
    }
    return NULL;
}

// Summarises the round from its raw rows: of the measurements, only the times of calls are used.
static bt_status summarise(round_check *self)
{
    bt_store_round raw = *self->round;
    const bt_store_measurement *times = measurement_of(self->round, BT_METRIC_TIME);
    raw.measurements = times;
    raw.measurement_count = times && times->sample_count > 0;
    return bt_summary_computed(&raw, &self->follows);
}

static bt_status of_summary(const round_check *self, const bt_store_measurement *item)
{
    compare_value(self, item, &self->follows.metrics[item->metric]);
    return BT_OK;
}

// Rounds of earlier versions have the median, with its samples taken as independent, and with fewer
// than 6 samples the range.
static bt_status of_times(const round_check *self, const bt_store_measurement *item)
{
    bt_stats stats;
    if (bt_summary_is_total(self->round)) {
        return of_summary(self, item);
    }
    BT_TRY(bt_stats_of(item->samples, item->sample_count, &stats));
    const bt_metric_value median = {stats.median, isnan(stats.low) ? stats.min : stats.low,
                                    isnan(stats.high) ? stats.max : stats.high, stats.count};
    compare_value(self, item, &median);
    return BT_OK;
}

// Steps have one sample each, a kernel's calls one value.
static bt_status of_launches(const round_check *self, const bt_store_measurement *item)
{
    bt_stats stats;
    if (item->sample_count > 0) {
        BT_TRY(bt_stats_of_series(item->samples, item->sample_count, &stats));
        const bt_timed timed = bt_timed_of(&stats);
        compare_value(self, item, &timed.mean);
    }
    return BT_OK;
}

// Whether the count-th sample, from 1, is `value`.
static bool has_sample(const round_check *self, const bt_store_measurement *item, int64_t count,
                       double value)
{
    if (count > item->sample_count || bt_recompute_same(item->samples[count - 1], value)) {
        return true; // the number of samples is checked at the end
    }
    find_wrong(self, item, "a sample", item->samples[count - 1], value);
    return false;
}

static bool has_count(const round_check *self, const bt_store_measurement *item, int64_t count)
{
    if (item->sample_count != count) {
        find_wrong(self, item, "the number of samples", (double)item->sample_count, (double)count);
    }
    return item->sample_count == count;
}

// The samples follow from the measured steps.
static bt_status of_steps(const round_check *self, const bt_store_measurement *item)
{
    const bt_store_round *round = self->round;
    const bool device = item->metric == BT_METRIC_STEP_DEVICE_TIME;
    const bool rate = item->metric == BT_METRIC_TOKENS_PER_S;
    int64_t count = 0;
    BT_EACH(const bt_store_step, step, round->steps, round->step_count) {
        double time_ns = (double)(device ? step->device_ns : step->host_ns);
        if (step->warmup || step->profiled || !(time_ns > 0)) {
            continue;
        }
        if (!has_sample(self, item, ++count,
                        rate ? (double)step->tokens * 1e9 / time_ns : time_ns)) {
            return BT_OK;
        }
    }
    return has_count(self, item, count) ? of_times(self, item) : BT_OK;
}

// The last loss of the curve, with the whole curve as its samples; rounds of earlier versions have
// no samples.
static bt_status of_curve(const round_check *self, const bt_store_measurement *item)
{
    const bt_store_round *round = self->round;
    const bool evals = item->metric == BT_METRIC_VAL_LOSS;
    const int64_t count = evals ? round->eval_count : round->step_count;
    BT_TRY(of_summary(self, item));
    if (item->sample_count == 0 || !has_count(self, item, count)) {
        return BT_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        double loss = evals ? round->evals[i].loss : (double)round->steps[i].loss;
        if (!has_sample(self, item, i + 1, loss)) {
            return BT_OK;
        }
    }
    return BT_OK;
}

static bt_status of_plan(const round_check *self, const bt_store_measurement *item)
{
    compare_exact(self, item, bt_json_number_of(self->kernel, "bytes"));
    return BT_OK;
}

// An amount per call divided by the time of a call, which is checked separately.
static void compare_rate(const round_check *self, const bt_store_measurement *item, double amount)
{
    const bt_store_measurement *time = measurement_of(self->round, BT_METRIC_TIME);
    const double nan = (double)NAN;
    bt_metric_value rate = {nan, nan, nan, 0};
    if (time) {
        rate.value = amount * 1e9 / time->value;
        rate.low = amount * 1e9 / time->high;
        rate.high = time->low <= 0.0 ? nan : amount * 1e9 / time->low;
    }
    compare_value(self, item, &rate);
}

static bt_status of_rate(const round_check *self, const bt_store_measurement *item)
{
    compare_rate(
        self, item,
        bt_json_number_of(self->kernel, item->metric == BT_METRIC_COMPUTE ? "flops" : "bytes"));
    return BT_OK;
}

static bool is_copy_of_mode(const bt_store_round *round, const char *mode)
{
    static const char prefix[] = "ceiling.";
    const char *name = round->what.name;
    return strncmp(name, prefix, sizeof prefix - 1) == 0 &&
           strcmp(name + sizeof prefix - 1, mode) == 0;
}

// A fraction of one of the run's copies in the same cache mode; the record does not say which one.
static bt_status of_copy(const round_check *self, const bt_store_measurement *item)
{
    const cJSON *cache = bt_json_get(self->kernel, "cache");
    const bt_store_measurement *time = measurement_of(self->round, BT_METRIC_TIME);
    double bytes = bt_json_number_of(self->kernel, "bytes"), nearest = 0.0;
    for (int64_t i = 0; time && cJSON_IsString(cache) && i < self->run->round_count; i++) {
        const bt_store_round *copy = &self->run->rounds[i];
        const bt_store_measurement *rate = measurement_of(copy, BT_METRIC_BANDWIDTH);
        if (!rate || !is_copy_of_mode(copy, cache->valuestring)) {
            continue;
        }
        double share = bytes / rate->value * 1e9 / time->value;
        if (bt_recompute_same(share, item->value)) {
            compare_rate(self, item, bytes / rate->value);
            return BT_OK;
        }
        if (nearest == 0.0 || fabs(share - item->value) < fabs(nearest - item->value)) {
            nearest = share;
        }
    }
    find_wrong(self, item, "the value", item->value, nearest);
    return BT_OK;
}

// From the GPU's counter in the telemetry, and the time or rate, which is checked separately.
static bt_status of_energy(const round_check *self, const bt_store_measurement *item)
{
    const bt_store_round *round = self->round;
    const bt_store_measurement *rate = measurement_of(round, BT_METRIC_TOKENS_PER_S);
    const bt_store_measurement *time = measurement_of(round, BT_METRIC_TIME);
    bt_telemetry_summary summary;
    BT_TRY(bt_telemetry_summary_of(round, &summary));
    double value = item->metric == BT_METRIC_ENERGY ? summary.energy_j
                   : item->metric == BT_METRIC_ENERGY_PER_CALL
                       ? summary.work_power_w * (time ? time->value : (double)NAN) / 1e9
                       : summary.work_power_w / (rate ? rate->value : (double)NAN);
    compare_exact(self, item, value);
    return BT_OK;
}

static const struct {
    bt_metric metric;
    recompute_metric recompute;
} rules[] = {
    {BT_METRIC_ENERGY, of_energy},          {BT_METRIC_ENERGY_PER_TOKEN, of_energy},
    {BT_METRIC_ENERGY_PER_CALL, of_energy}, {BT_METRIC_TIME, of_times},
    {BT_METRIC_TIME_P95, of_summary},       {BT_METRIC_TIME_MEDIAN, of_summary},
    {BT_METRIC_LAUNCH_TIME, of_launches},   {BT_METRIC_TOKENS_PER_S, of_steps},
    {BT_METRIC_STEP_TIME, of_steps},        {BT_METRIC_STEP_DEVICE_TIME, of_steps},
    {BT_METRIC_STEP_TIME_P95, of_summary},  {BT_METRIC_STEP_TIME_MEDIAN, of_summary},
    {BT_METRIC_LOSS_FIRST, of_summary},     {BT_METRIC_LOSS_LAST, of_curve},
    {BT_METRIC_VAL_LOSS, of_curve},         {BT_METRIC_PEAK_ALLOCATED, of_summary},
    {BT_METRIC_PEAK_RESERVED, of_summary},  {BT_METRIC_PEAK_RESIDENT, of_summary},
    {BT_METRIC_BYTES_MOVED, of_plan},       {BT_METRIC_BANDWIDTH, of_rate},
    {BT_METRIC_COMPUTE, of_rate},           {BT_METRIC_COPY_SHARE, of_copy},
};

// A round with implausible times or outputs is invalid, and its time is not kept.
static bool cannot_be(const bt_store_round *round)
{
    return bt_plausible_is_invalid(round->message) && !measurement_of(round, BT_METRIC_TIME);
}

// A round that passed must not have been disturbed; an invalid one must have been disturbed, or
// have implausible times or outputs; its label must follow from its samples.
static void check_noise(const round_check *self)
{
    const bt_store_round *round = self->round;
    bt_noise_verdict verdict;
    bt_noise_judge(round->telemetry, round->telemetry_count, &verdict);
    if (round->telemetry_count > 0 && strcmp(round->label, bt_noise_name(verdict.noise)) != 0) {
        bt_bundle_find(self->out,
                       "%s, %s, round %lld: labelled '%s', but its samples result in '%s'",
                       round->what.name, round->what.system, (long long)round->ordinal,
                       round->label, bt_noise_name(verdict.noise));
    }
    bool disturbed = bt_noise_invalidates(verdict.noise);
    bool wrong = (round->status == BT_RUN_PASSED && disturbed) ||
                 (round->status == BT_RUN_INVALID && round->telemetry_count > 0 && !disturbed &&
                  !cannot_be(round));
    if (wrong) {
        bt_bundle_find(self->out,
                       "%s, %s, round %lld: recorded as %s, but its samples result in '%s'%s%s",
                       round->what.name, round->what.system, (long long)round->ordinal,
                       bt_run_status_name(round->status),
                       disturbed ? bt_noise_name(verdict.noise) : "undisturbed",
                       disturbed ? ": " : "", disturbed ? verdict.reason : "");
    }
}

// The number of steps must be the plan's, and a round that passed must have done all.
static void check_steps(const round_check *self, const cJSON *item)
{
    const bt_store_round *round = self->round;
    int64_t planned = (int64_t)bt_plan_number(item, "train.steps");
    bool described = *round->shape.device || round->shape.steps != 0; // it has sent `start`
    if ((described && round->shape.steps != planned) ||
        (round->status == BT_RUN_PASSED && round->step_count != planned)) {
        bt_bundle_find(self->out,
                       "%s, %s, round %lld: %lld steps are recorded as planned and %lld as done, "
                       "the plan has %lld",
                       round->what.name, round->what.system, (long long)round->ordinal,
                       (long long)round->shape.steps, (long long)round->step_count,
                       (long long)planned);
    }
}

static bt_status check_round(round_check *self)
{
    const bt_store_round *round = self->round;
    check_noise(self);
    BT_TRY(summarise(self));
    BT_EACH(const bt_store_measurement, item, round->measurements, round->measurement_count) {
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            if (rules[r].metric == item->metric) {
                BT_TRY(rules[r].recompute(self, item));
                self->out->measurement_count++;
            }
        }
    }
    return BT_OK;
}

bt_status bt_recompute_measurements(const bt_store_run *run, bt_bundle_check *check)
{
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        const char *axes = round->what.axes_json;
        BT_SCOPED(bt_json_doc) json = {0};
        BT_TRY(bt_json_parse("axes_json", axes, strlen(axes), &json));
        round_check self = {
            .run = run, .round = round, .kernel = bt_json_get(json.root, "kernel"), .out = check};
        check_steps(&self, json.root);
        BT_TRY(check_round(&self));
        check->round_count++;
    }
    return BT_OK;
}

// ---- hashes ------------------------------------------------------------------------------------

static bt_status check_environment(const bt_store_env *env, bt_bundle_check *check)
{
    BT_SCOPED(bt_facts) facts = {0};
    BT_EACH(const bt_store_fact, fact, env->facts, env->fact_count) {
        if (fact->level == BT_FACT_HARD && bt_redact_is_short(fact->value)) {
            bt_str_format(&check->notes,
                          "the environment's digest is not checked: a path in %.80s was "
                          "shortened\n",
                          fact->key);
            return BT_OK;
        }
        BT_TRY(bt_facts_add_as(&facts, fact->key, fact->value, fact->level));
    }
    BT_TRY(bt_facts_finish(&facts));
    if (strcmp(facts.digest, env->digest) != 0) {
        bt_bundle_find(check, "environment: its digest is recorded as %s, recomputed as %s",
                       env->digest, facts.digest);
    }
    return BT_OK;
}

// Whether a list of cases has this one, with identical text.
static bt_status has_case(const cJSON *cases, const bt_store_case *what, bool *found)
{
    *found = false;
    for (const cJSON *item = cases ? cases->child : NULL; item && !*found; item = item->next) {
        BT_SCOPED(bt_str) text = {0};
        if (bt_json_is_text(item, "name", what->name)) {
            bt_json_write(item, &text);
            BT_TRY(bt_str_status(&text));
            *found = strcmp(bt_str_text(&text), what->axes_json) == 0;
        }
    }
    return BT_OK;
}

// Every round must have run a case of the plan.
static bt_status check_plan(const bt_store_run *run, bt_bundle_check *check)
{
    const char *plan = run->info.suite.plan_json;
    BT_SCOPED(bt_json_doc) json = {0};
    BT_TRY(bt_json_parse("plan.json", plan, strlen(plan), &json));
    BT_EACH(const bt_store_round, round, run->rounds, run->round_count) {
        bool found = false;
        BT_TRY(has_case(bt_json_get(json.root, "cases"), &round->what, &found));
        if (!found) {
            bt_bundle_find(check, "%s, %s, round %lld: the plan has no such case", round->what.name,
                           round->what.system, (long long)round->ordinal);
        }
    }
    return BT_OK;
}

bt_status bt_recompute_hashes(const bt_store_run *run, bt_bundle_check *check)
{
    const bt_store_suite *suite = &run->info.suite;
    char hash[33];
    bt_plan_hash(suite->plan_json, hash);
    if (strcmp(hash, suite->plan_hash) != 0) {
        bt_bundle_find(check, "plan: its hash is recorded as %s, recomputed as %s",
                       suite->plan_hash, hash);
    }
    BT_TRY(check_plan(run, check));
    return check_environment(&run->info.env, check);
}
