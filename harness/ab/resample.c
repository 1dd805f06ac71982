// harness/ab/resample.c - what a rule does with noise, by playing comparisons on recorded pairs
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/ab/calibrate.h"
#include "harness/stats/bootstrap.h"
#include "harness/stats/stats.h"

#define PLAYS         2000 // of the estimates
#define REDRAWS       60   // of the pairs, for the intervals
#define REDRAW_PLAYS  200
#define PAIRS_MIN     4
#define BISECTIONS    20
#define WILSON_Z      1.959963984540054
#define REDRAW_STREAM ((uint64_t)1 << 40)

// A play, as far as decisions need it: mean and standard error at each look.
typedef struct play {
    double mean[BT_LOOKS_MAX], error[BT_LOOKS_MAX];
} play;

typedef struct playing {
    const bt_decision_rule *rule;
    bt_decision_levels levels[BT_LOOKS_MAX];
    play *plays; // owned, [PLAYS]
} playing;

// Draws the pairs of one play and keeps their moments at the looks.
static void draw_play(const playing *self, const double *logs, int64_t count, bool turned,
                      bt_rng rng, play *out)
{
    double mean = 0, squares = 0; // Welford
    int64_t taken = 0;
    for (int64_t look = 0; look < self->rule->look_count; ++look) {
        for (; taken < self->rule->looks[look]; ++taken) {
            uint64_t word = bt_rng_below(rng, (uint64_t)taken, 2 * (uint64_t)count);
            double value = logs[word / 2] * (turned && word % 2 ? -1.0 : 1.0);
            double before = value - mean;
            mean += before / (double)(taken + 1);
            squares += before * (value - mean);
        }
        out->mean[look] = mean;
        out->error[look] = sqrt(squares / (double)(taken - 1) / (double)taken);
    }
}

// Is the play SLOWER with `slowdown` added to each pair?
static bool is_slower(const playing *self, const play *of, double slowdown)
{
    double added = log1p(slowdown);
    for (int64_t look = 0; look < self->rule->look_count; ++look) {
        bt_decision decision =
            bt_decide_mean(self->rule, &self->levels[look], of->mean[look] + added, of->error[look],
                           self->rule->looks[look]);
        if (decision.next_rounds == 0) {
            return decision.outcome == BT_OUTCOME_SLOWER;
        }
    }
    return false;
}

static double share_slower(const playing *self, int64_t plays, double slowdown)
{
    int64_t slower = 0;
    for (int64_t i = 0; i < plays; ++i) {
        slower += is_slower(self, &self->plays[i], slowdown);
    }
    return (double)slower / (double)plays;
}

static void draw_plays(playing *self, const double *logs, int64_t count, bool turned, int64_t plays,
                       uint64_t seed, uint64_t stream)
{
    for (int64_t i = 0; i < plays; ++i) {
        const bt_rng rng = {.seed = seed, .stream = stream + (uint64_t)i};
        draw_play(self, logs, count, turned, rng, &self->plays[i]);
    }
}

// The least slowdown that enough of the plays find; the same plays for all of them.
static double smallest_found(const playing *self, int64_t plays)
{
    double low = 0, high = BT_CALIBRATE_LARGEST;
    if (share_slower(self, plays, high) < BT_CALIBRATE_FOUND_SHARE) {
        return (double)INFINITY;
    }
    for (int i = 0; i < BISECTIONS; ++i) {
        double middle = low + (high - low) / 2;
        if (share_slower(self, plays, middle) < BT_CALIBRATE_FOUND_SHARE) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

static bt_status open_playing(const bt_decision_rule *rule, playing *out)
{
    void *block = NULL;
    *out = (playing){.rule = rule};
    for (int64_t i = 0; i < rule->look_count; ++i) {
        out->levels[i] = bt_decision_levels_of(rule, (double)(rule->looks[i] - 1));
    }
    BT_TRY(bt_mem_alloc(PLAYS, sizeof *out->plays, &block));
    out->plays = block;
    return BT_OK;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Source  Wilson 1927; what `share` of PLAYS says about the probability behind it
static void wilson(double share, double *low, double *high)
{
    const double n = PLAYS, z = WILSON_Z;
    double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
    double reach = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    *low = centre - reach > 0 ? centre - reach : 0;
    *high = centre + reach;
}

// The same on redrawn pairs, for the intervals.
static void redraw(playing *self, const double *logs, int64_t count, uint64_t seed, double *drawn,
                   bt_noise_rates *out)
{
    double alarms[REDRAWS], smallest[REDRAWS];
    for (int i = 0; i < REDRAWS; ++i) {
        uint64_t stream = REDRAW_STREAM * (uint64_t)(i + 1);
        bt_bootstrap_draw(logs, count, seed, stream - 1, drawn);
        draw_plays(self, drawn, count, true, REDRAW_PLAYS, seed, stream);
        alarms[i] = share_slower(self, REDRAW_PLAYS, 0);
        smallest[i] = smallest_found(self, REDRAW_PLAYS);
    }
    qsort(alarms, REDRAWS, sizeof *alarms, compare);
    qsort(smallest, REDRAWS, sizeof *smallest, compare);
    wilson(out->false_alarm_rate, &out->false_alarm_low, &out->false_alarm_high);
    out->false_alarm_low = fmin(out->false_alarm_low, bt_stats_quantile(alarms, REDRAWS, 0.025));
    out->false_alarm_high = fmax(out->false_alarm_high, bt_stats_quantile(alarms, REDRAWS, 0.975));
    out->smallest_low = fmin(out->smallest, bt_stats_quantile(smallest, REDRAWS, 0.025));
    out->smallest_high = fmax(out->smallest, bt_stats_quantile(smallest, REDRAWS, 0.975));
}

static double deviation_of(const double *values, int64_t count)
{
    double mean = bt_statistic_mean(values, count, NULL), squares = 0;
    for (int64_t i = 0; i < count; ++i) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    return sqrt(squares / (double)(count - 1));
}

bt_status bt_noise_rates_of(const double *log_ratios, int64_t count, const bt_decision_rule *rule,
                            uint64_t seed, bt_noise_rates *out)
{
    const double nan = (double)NAN;
    playing self;
    void *block = NULL;
    *out = (bt_noise_rates){count, nan, nan, nan, nan, nan, nan, nan};
    if (count < PAIRS_MIN) {
        return BT_OK;
    }
    BT_TRY(open_playing(rule, &self));
    bt_status status = bt_mem_alloc((size_t)count, sizeof(double), &block);
    if (status == BT_OK) {
        out->deviation = deviation_of(log_ratios, count);
        draw_plays(&self, log_ratios, count, true, PLAYS, seed, 0);
        out->false_alarm_rate = share_slower(&self, PLAYS, 0);
        out->smallest = smallest_found(&self, PLAYS);
        redraw(&self, log_ratios, count, seed, block, out);
    }
    bt_mem_free(block);
    bt_mem_free(self.plays);
    return status;
}

bt_status bt_noise_found_rate(const double *log_ratios, int64_t count, const bt_decision_rule *rule,
                              uint64_t seed, double *found)
{
    playing self;
    *found = (double)NAN;
    if (count < PAIRS_MIN) {
        return BT_OK;
    }
    BT_TRY(open_playing(rule, &self));
    draw_plays(&self, log_ratios, count, false, PLAYS, seed, 0);
    *found = share_slower(&self, PLAYS, 0);
    bt_mem_free(self.plays);
    return BT_OK;
}
