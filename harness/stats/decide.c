// harness/stats/decide.c - t bounds on log ratios, and decisions
#include "harness/stats/decide.h"

#include <math.h>

#include "harness/stats/stats.h"
#include "harness/stats/tdist.h"

#define ALPHA       0.01
#define MISS        0.05
#define BAD_RATIO   1.3
#define FAR_SPREADS 6.0
#define FAR_MIN     3.0 // tolerances
#define MAD_SCALE   1.4826
#define DISPLAY_OUT 0.025 // beyond either end of the displayed interval
#define ROUNDING    1e-12 // of differences of logarithms: a ratio of 130 to 100 is bad, too

// A mean with a t distributed error.
typedef struct estimate {
    double mean, error, freedom; // error: standard error
    bool known;                  // at least two finite values per side
} estimate;

bt_decision_rule bt_decision_rule_of(double tolerance, int64_t family)
{
    return (bt_decision_rule){.tolerance = tolerance,
                              .alpha = ALPHA,
                              .miss = MISS,
                              .bad_ratio = BAD_RATIO,
                              .far_spreads = FAR_SPREADS,
                              .family = family > 1 ? family : 1,
                              .looks = {8, 16, 24},
                              .look_count = 3};
}

void bt_decision_rule_limit(bt_decision_rule *rule, int64_t rounds_max)
{
    int64_t most = rounds_max > 2 ? rounds_max : 2;
    int64_t kept = 0;
    while (kept < rule->look_count && rule->looks[kept] < most) {
        ++kept;
    }
    if (kept == rule->look_count) {
        kept = rule->look_count - 1; // more rounds than the last look: the look is moved
    }
    rule->looks[kept] = most;
    rule->look_count = kept + 1;
}

double bt_blind_share(int64_t rounds) { return rounds > 3 ? 3.0 / (double)rounds : 1.0; }

// ---- estimates ---------------------------------------------------------------------------------

// Mean and the square of its standard error.
static bool describe(const double *values, int64_t count, double *mean, double *square)
{
    *mean = bt_mean_of(values, count);
    double squares = bt_squares_about(values, count, *mean);
    *square = squares / (double)(count - 1) / (double)count;
    return count >= 2 && isfinite(squares);
}

static estimate estimate_one(const double *values, int64_t count)
{
    estimate out = {.freedom = (double)(count - 1)};
    double square = 0.0;
    out.known = describe(values, count, &out.mean, &square);
    out.error = sqrt(square);
    return out;
}

// right - left, by Welch and Satterthwaite.
static estimate estimate_difference(const double *left, int64_t left_count, const double *right,
                                    int64_t right_count)
{
    double left_mean = 0.0, right_mean = 0.0, a = 0.0, b = 0.0;
    bool known = describe(left, left_count, &left_mean, &a);
    known = describe(right, right_count, &right_mean, &b) && known;
    estimate out = {.mean = right_mean - left_mean, .error = sqrt(a + b), .known = known};
    // Fractions of the sum, so that tiny squares do not underflow.
    double share = a / (a + b);
    out.freedom = a + b > 0.0 ? 1.0 / (share * share / (double)(left_count - 1) +
                                       (1.0 - share) * (1.0 - share) / (double)(right_count - 1))
                              : (double)(left_count + right_count - 2);
    return out;
}

// Distance from the mean of the bound that is exceeded with probability `tail`.
static double reach_of(const estimate *of, double tail)
{
    return of->error > 0.0 ? bt_t_upper_quantile(tail, of->freedom) * of->error : 0.0;
}

double bt_mean_interval(const double *values, int64_t count, double confidence, double *low,
                        double *high)
{
    estimate of = estimate_one(values, count);
    *low = *high = (double)NAN;
    if (of.known) {
        double reach = reach_of(&of, (1.0 - confidence) / 2.0);
        *low = of.mean - reach;
        *high = of.mean + reach;
    }
    return of.mean;
}

// ---- decisions ---------------------------------------------------------------------------------

// The look reached with `count` rounds, from 1, and the rounds that the next one needs.
static void place(const bt_decision_rule *rule, int64_t count, int64_t *look, int64_t *next_rounds)
{
    *look = 0;
    while (*look < rule->look_count && rule->looks[*look] <= count) {
        ++*look;
    }
    *next_rounds = *look < rule->look_count ? rule->looks[*look] : 0;
}

static bt_decision undecided(const bt_decision_rule *rule, double mean, int64_t count)
{
    const double nan = (double)NAN;
    bt_decision out = {.outcome = BT_OUTCOME_INCONCLUSIVE,
                       .ratio = isfinite(mean) ? exp(mean) : nan,
                       .low = nan,
                       .high = nan,
                       .lower = nan,
                       .upper = nan,
                       .upper_sure = nan,
                       .family_low = nan,
                       .family_high = nan,
                       .worst = nan,
                       .rounds = count};
    place(rule, count, &out.look, &out.next_rounds);
    return out;
}

bt_decision_levels bt_decision_levels_of(const bt_decision_rule *rule, double freedom)
{
    const double alpha = rule->alpha / (double)rule->look_count;
    return (bt_decision_levels){
        .freedom = freedom,
        .sure = bt_t_upper_quantile(alpha, freedom),
        .lax = bt_t_upper_quantile(rule->miss / (double)rule->look_count, freedom),
        .family = bt_t_upper_quantile(alpha / (double)rule->family, freedom),
        .shown = bt_t_upper_quantile(DISPLAY_OUT, freedom)};
}

bt_decision bt_decide_mean(const bt_decision_rule *rule, const bt_decision_levels *levels,
                           double mean, double error, int64_t count)
{
    const double tolerance = log1p(rule->tolerance);
    const double sure = levels->sure * error, family = levels->family * error;
    bt_decision out = undecided(rule, mean, count);
    out.low = exp(mean - levels->shown * error);
    out.high = exp(mean + levels->shown * error);
    out.lower = exp(mean - sure);
    out.upper = exp(mean + levels->lax * error);
    out.upper_sure = exp(mean + sure);
    out.family_low = exp(mean - family);
    out.family_high = exp(mean + family);
    if (mean - sure > tolerance && mean - family > 0) {
        out.outcome = BT_OUTCOME_SLOWER;
        out.next_rounds = 0;
    } else if (mean + sure < -tolerance && mean + family < 0) {
        out.outcome = BT_OUTCOME_FASTER;
        out.next_rounds = 0;
    } else if (mean + levels->lax * error < tolerance) {
        out.outcome = BT_OUTCOME_SAME;
        out.next_rounds = mean < -tolerance ? out.next_rounds : 0;
    }
    return out;
}

static bt_decision decide(const bt_decision_rule *rule, const estimate *of, int64_t count)
{
    if (!of->known) {
        return undecided(rule, of->mean, count);
    }
    bt_decision_levels levels = bt_decision_levels_of(rule, of->freedom);
    return bt_decide_mean(rule, &levels, of->mean, of->error, count);
}

// ---- guards ------------------------------------------------------------------------------------

// Values of one side around a center, more is worse: those of the candidate have the sign +1 in a
// log ratio, those of the base -1.
typedef struct deviations {
    const double *values; // [count], borrowed
    int64_t count;
    double sign, middle;
} deviations;

static double deviation(const deviations *self, int64_t index)
{
    return self->sign * (self->values[index] - self->middle);
}

// The lower median of the values, or of their distances from the center. Quadratic, in the number
// of rounds.
static double middle_of(const deviations *self, bool distances)
{
    for (int64_t i = 0; i < self->count; ++i) {
        double at = distances ? fabs(deviation(self, i)) : deviation(self, i);
        int64_t below = 0, equal = 0;
        for (int64_t j = 0; j < self->count; ++j) {
            double other = distances ? fabs(deviation(self, j)) : deviation(self, j);
            below += other < at;
            equal += !(other < at) && !(other > at);
        }
        if (below <= (self->count - 1) / 2 && (self->count - 1) / 2 < below + equal) {
            return at;
        }
    }
    return (double)NAN;
}

static double worst_of(const deviations *self)
{
    double worst = deviation(self, 0);
    for (int64_t i = 1; i < self->count; ++i) {
        worst = fmax(worst, deviation(self, i));
    }
    return worst;
}

static bool is_mixture(const bt_decision_rule *rule, const deviations *side)
{
    deviations own = *side;
    own.middle += side->sign * middle_of(side, false);
    double gap = worst_of(&own);
    return gap > FAR_MIN * log1p(rule->tolerance) &&
           gap > rule->far_spreads * MAD_SCALE * middle_of(&own, true);
}

static int64_t count_bad(const bt_decision_rule *rule, const deviations *side)
{
    double limit = fmax(log(rule->bad_ratio), log1p(rule->tolerance)) - ROUNDING;
    int64_t count = 0;
    for (int64_t i = 0; i < side->count; ++i) {
        count += deviation(side, i) >= limit;
    }
    return count;
}

// Rounds are `enough` if no look follows and this was not the first.
static void guard(const bt_decision_rule *rule, const deviations *base, const deviations *candidate,
                  bool enough, bt_decision *out)
{
    if (!(rule->bad_ratio > 0.0) || out->outcome != BT_OUTCOME_SAME) {
        return;
    }
    out->worst = exp(worst_of(candidate));
    out->bad_base = count_bad(rule, base);
    out->bad_candidate = count_bad(rule, candidate);
    bool explained =
        enough && 2 * out->bad_base * candidate->count >= out->bad_candidate * base->count;
    if (out->bad_candidate > 0 && !explained) {
        out->doubt = BT_DOUBT_BAD_ROUND;
        out->outcome = BT_OUTCOME_INCONCLUSIVE;
    }
}

// The values of `lone` rounds follow those of both sides; the mixture guard ignores them.
static void guard_looks(const bt_decision_rule *rule, const deviations *base,
                        const deviations *candidate, int64_t lone, bt_decision *out)
{
    bool last = out->look == rule->look_count;
    bool same = out->outcome == BT_OUTCOME_SAME && rule->bad_ratio > 0.0;
    deviations all_base = *base, all_candidate = *candidate;
    all_base.count += lone;
    all_candidate.count += lone;
    guard(rule, &all_base, &all_candidate, last && out->look > 1, out);
    bool mixture = same && out->doubt == BT_DOUBT_NONE && !last &&
                   (is_mixture(rule, base) || is_mixture(rule, candidate));
    if (mixture) {
        out->doubt = BT_DOUBT_MIXTURE;
        out->outcome = BT_OUTCOME_INCONCLUSIVE;
    }
    if (out->doubt != BT_DOUBT_NONE) {
        out->next_rounds = last ? 0 : rule->looks[out->look];
    }
}

// Groups: each round relative to the median of the base.
static void take_groups(const double *base_logs, int64_t base_count, const double *candidate_logs,
                        int64_t candidate_count, deviations *base, deviations *candidate)
{
    *base = (deviations){base_logs, base_count, 1.0, 0.0};
    base->middle = middle_of(base, false);
    *candidate = (deviations){candidate_logs, candidate_count, 1.0, base->middle};
}

void bt_decision_guard(const bt_decision_rule *rule, const double *base_logs, int64_t base_count,
                       const double *candidate_logs, int64_t candidate_count, bt_decision *decision)
{
    deviations base, candidate;
    take_groups(base_logs, base_count, candidate_logs, candidate_count, &base, &candidate);
    guard(rule, &base, &candidate, true, decision);
}

// ---- rounds ------------------------------------------------------------------------------------

bt_decision bt_decide_paired(const bt_decision_rule *rule, const double *log_ratios, int64_t count,
                             int64_t lone)
{
    estimate of = estimate_one(log_ratios, count);
    bt_decision out = decide(rule, &of, count);
    deviations base = {log_ratios, count, -1.0, 0.0}, candidate = {log_ratios, count, 1.0, 0.0};
    guard_looks(rule, &base, &candidate, lone, &out);
    return out;
}

bt_decision bt_decide_unpaired(const bt_decision_rule *rule, const double *base_logs,
                               int64_t base_count, const double *candidate_logs,
                               int64_t candidate_count)
{
    estimate of = estimate_difference(base_logs, base_count, candidate_logs, candidate_count);
    bt_decision out = decide(rule, &of, candidate_count);
    deviations base, candidate;
    take_groups(base_logs, base_count, candidate_logs, candidate_count, &base, &candidate);
    guard_looks(rule, &base, &candidate, 0, &out);
    return out;
}

// ---- two one-sided tests -----------------------------------------------------------------------

// P(T > gap / error); without a spread the sign of the gap decides.
static double one_sided(const estimate *of, double gap)
{
    if (of->error > 0.0) {
        return bt_t_upper_tail(gap / of->error, of->freedom);
    }
    return gap > 0.0 ? 0.0 : 1.0;
}

bt_equivalence bt_equivalence_test(const double *left, int64_t left_count, const double *right,
                                   int64_t right_count, double margin, double alpha)
{
    const double nan = (double)NAN;
    estimate of = estimate_difference(left, left_count, right, right_count);
    bt_equivalence out = {of.known ? of.mean : nan, nan, nan, nan, false};
    if (!of.known) {
        return out;
    }
    double reach = reach_of(&of, alpha);
    out.low = of.mean - reach;
    out.high = of.mean + reach;
    double below = one_sided(&of, of.mean + margin), above = one_sided(&of, margin - of.mean);
    out.p = below > above ? below : above;
    out.equivalent = out.p < alpha;
    return out;
}
