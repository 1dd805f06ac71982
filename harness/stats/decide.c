// harness/stats/decide.c - t bounds on log ratios, and what they decide
#include "harness/stats/decide.h"

#include <math.h>
#include <string.h>

#include "harness/stats/tdist.h"

#define ALPHA       0.01
#define MISS        0.05
#define SHORT_NS    20000.0
#define DISPLAY_OUT 0.025 // beyond either end of the interval that is shown

// A mean that is t distributed about the true one.
typedef struct estimate {
    double mean, error, freedom; // error: standard error
    bool known;                  // at least two finite values a side
} estimate;

const char *bt_outcome_name(bt_outcome outcome)
{
    static const char *const names[] = {
#define BT_OUTCOME_TEXT(name, word) word,
        BT_OUTCOME_LIST(BT_OUTCOME_TEXT)
#undef BT_OUTCOME_TEXT
    };
    return (unsigned)outcome < BT_OUTCOME_COUNT ? names[outcome] : "?";
}

bt_decision_rule bt_decision_rule_of(double tolerance, int64_t family)
{
    return (bt_decision_rule){.tolerance = tolerance,
                              .alpha = ALPHA,
                              .miss = MISS,
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
        kept = rule->look_count - 1; // more rounds than the last look: it moves out
    }
    rule->looks[kept] = most;
    rule->look_count = kept + 1;
}

double bt_decision_tolerance(bool training, double base_ns)
{
    return training ? 0.005 : base_ns >= SHORT_NS ? 0.01 : 0.02;
}

// ---- estimates ---------------------------------------------------------------------------------

// Mean and the square of its standard error. Two passes: the values are close to each other.
static bool describe(const double *values, int64_t count, double *mean, double *square)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i];
    }
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; ++i) {
        squares += (values[i] - *mean) * (values[i] - *mean);
    }
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
    // Shares of the sum, so that tiny squares do not underflow.
    double share = a / (a + b);
    out.freedom = a + b > 0.0 ? 1.0 / (share * share / (double)(left_count - 1) +
                                       (1.0 - share) * (1.0 - share) / (double)(right_count - 1))
                              : (double)(left_count + right_count - 2);
    return out;
}

// How far the bound that is exceeded with probability `tail` lies from the mean.
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

// The look that `count` rounds have reached, from 1, and what the next one needs.
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

bt_decision bt_decide_paired(const bt_decision_rule *rule, const double *log_ratios, int64_t count)
{
    estimate of = estimate_one(log_ratios, count);
    return decide(rule, &of, count);
}

bt_decision bt_decide_unpaired(const bt_decision_rule *rule, const double *base_logs,
                               int64_t base_count, const double *candidate_logs,
                               int64_t candidate_count)
{
    estimate of = estimate_difference(base_logs, base_count, candidate_logs, candidate_count);
    return decide(rule, &of, candidate_count);
}

// ---- two one-sided tests -----------------------------------------------------------------------

// P(T > gap / error); without a spread the sign of the gap says it all.
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
