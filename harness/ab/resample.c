// harness/ab/resample.c - replays a rule on recorded pairs of equal builds
#include <math.h>

#include "framework/base/scoped.h"
#include "harness/ab/calibrate.h"
#include "harness/stats/stats.h"

#define BISECTIONS 14
#define NORMAL_95  1.6448536269514722 // one-sided 95 % point of the normal distribution
#define NORMAL_90  1.2815515655446004

// State of the sessions of pairs during the replay.
typedef struct replaying {
    const bt_decision_rule *rule;
    const bt_sessions *pairs;
    double *window; // borrowed, [rounds of the last look]
} replaying;

static int64_t first_look(const bt_decision_rule *rule) { return rule->looks[0]; }
static int64_t last_look(const bt_decision_rule *rule) { return rule->looks[rule->look_count - 1]; }

// The result of `ab` on these pairs [count >= first look], all slower by `shift` (a logarithm).
static bt_outcome replay(const replaying *self, const double *logs, int64_t count, double shift)
{
    bt_decision decision = {.outcome = BT_OUTCOME_INCONCLUSIVE};
    for (int64_t i = 0; i < count; ++i) {
        self->window[i] = logs[i] + shift;
    }
    for (int64_t look = 0; look < self->rule->look_count; ++look) {
        if (self->rule->looks[look] > count) {
            break;
        }
        decision = bt_decide_paired(self->rule, self->window, self->rule->looks[look], 0);
        if (decision.next_rounds == 0) {
            break;
        }
    }
    return decision.outcome;
}

// Fraction of the windows of contiguous pairs, one starting at each pair with enough successors,
// that end as SLOWER, or (`either`) as SLOWER or FASTER.
static double share_of(const replaying *self, double shift, bool either)
{
    const int64_t least = first_look(self->rule), most = last_look(self->rule);
    const double *at = self->pairs->logs;
    int64_t windows = 0, alarms = 0;
    for (int64_t s = 0; s < self->pairs->count; at += self->pairs->rounds[s++]) {
        for (int64_t i = 0; i + least <= self->pairs->rounds[s]; ++i) {
            int64_t rest = self->pairs->rounds[s] - i;
            bt_outcome outcome = replay(self, at + i, rest < most ? rest : most, shift);
            alarms += outcome == BT_OUTCOME_SLOWER || (either && outcome == BT_OUTCOME_FASTER);
            ++windows;
        }
    }
    return windows ? (double)alarms / (double)windows : (double)NAN;
}

// The smallest slowdown that enough of the windows detect.
static double smallest_found(const replaying *self)
{
    double low = 0, high = log1p(BT_CALIBRATE_LARGEST);
    if (share_of(self, high, false) < BT_CALIBRATE_FOUND_SHARE) {
        return (double)INFINITY;
    }
    for (int i = 0; i < BISECTIONS; ++i) {
        double middle = low + (high - low) / 2;
        if (share_of(self, middle, false) < BT_CALIBRATE_FOUND_SHARE) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return expm1(high);
}

// ---- blocks ------------------------------------------------------------------------------------

// Means of contiguous blocks of the length of a first look. Equal builds have mean 0, so bias and
// drift count as spread.
typedef struct blocks {
    int64_t count;
    double squares;        // sum of squares of the means about 0
    double within_squares; // sum of squares of the pairs about their block's mean
    double within_freedom;
} blocks;

static blocks blocks_of(const bt_sessions *pairs, int64_t size)
{
    blocks out = {0};
    const double *at = pairs->logs;
    for (int64_t s = 0; s < pairs->count; at += pairs->rounds[s++]) {
        for (int64_t i = 0; i + size <= pairs->rounds[s]; i += size) {
            double mean = bt_mean_of(at + i, size);
            out.within_squares += bt_squares_about(at + i, size, mean);
            out.squares += mean * mean;
            out.within_freedom += (double)(size - 1);
            ++out.count;
        }
    }
    return out;
}

// 95 % upper bound of a standard deviation, from a sum of squares with that many degrees of
// freedom.
// Source  Wilson & Hilferty 1931, the 5 % point of chi-square
static double deviation_high(double squares, double freedom)
{
    double ninth = 2 / (9 * freedom), root = 1 - ninth - NORMAL_95 * sqrt(ninth);
    return root > 0 ? sqrt(squares / (freedom * root * root * root)) : (double)INFINITY;
}

static void bound(const bt_decision_rule *rule, const blocks *of, bt_noise_rates *out)
{
    const double tolerance = log1p(rule->tolerance), last = (double)last_look(rule);
    double block = deviation_high(of->squares, (double)of->count);
    double within =
        of->within_squares > 0 ? deviation_high(of->within_squares, of->within_freedom) : 0;
    const bt_decision_levels levels = bt_decision_levels_of(rule, last - 1);
    double error = within / sqrt(last);
    out->block_deviation = sqrt(of->squares / (double)of->count);
    out->false_alarm_high =
        fmax(out->false_alarm_rate, block > 0 ? erfc(tolerance / block / sqrt(2)) : 0);
    double least = fmax(tolerance + levels.sure * error, levels.family * error);
    out->smallest_high = fmax(out->smallest, expm1(least + NORMAL_90 * block));
}

// ---- all ---------------------------------------------------------------------------------------

// Minimum number of pairs for a calibration of this rule.
static int64_t pairs_needed(const bt_decision_rule *rule)
{
    int64_t last = last_look(rule);
    return last > BT_CALIBRATE_PAIRS_MIN ? last : BT_CALIBRATE_PAIRS_MIN;
}

static void describe(const bt_sessions *pairs, const bt_decision_rule *rule, bt_noise_rates *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < pairs->count; ++i) {
        bool whole = pairs->rounds[i] >= first_look(rule);
        count += pairs->rounds[i];
        out->pairs += whole ? pairs->rounds[i] : 0;
        out->sessions += whole;
    }
    out->bias = bt_mean_of(pairs->logs, count);
    const double squares = bt_squares_about(pairs->logs, count, out->bias);
    out->deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : (double)NAN;
}

bt_status bt_noise_rates_of(const bt_sessions *pairs, const bt_decision_rule *rule,
                            bt_noise_rates *out)
{
    const double nan = (double)NAN;
    BT_SCOPED_MEM(double *) window = NULL;
    *out = (bt_noise_rates){.needed = pairs_needed(rule),
                            .block_deviation = nan,
                            .false_alarm_rate = nan,
                            .false_alarm_high = nan,
                            .smallest = nan,
                            .smallest_high = nan};
    describe(pairs, rule, out);
    if (out->pairs < out->needed) {
        return BT_OK;
    }
    const blocks of = blocks_of(pairs, first_look(rule));
    BT_TRY(BT_MEM_ARRAY(last_look(rule), &window));
    const replaying self = {rule, pairs, window};
    out->false_alarm_rate = share_of(&self, 0, true);
    out->smallest = smallest_found(&self);
    bound(rule, &of, out);
    return BT_OK;
}

bt_status bt_noise_found_rate(const bt_sessions *pairs, const bt_decision_rule *rule, double *found)
{
    BT_SCOPED_MEM(double *) window = NULL;
    BT_TRY(BT_MEM_ARRAY(last_look(rule), &window));
    const replaying self = {rule, pairs, window};
    *found = share_of(&self, 0, false);
    return BT_OK;
}
