// harness/stats/decide.h - decides whether one build or system is slower than another, by pure
// functions
//
// The unit is the round: a value is the logarithm of one round's total or 95th percentile
// (summary.h), for a metric of which more is slower. Of paired rounds the log ratio, candidate over
// base, is taken pair by pair (Student's t); rounds that were not run in pairs are compared as two
// groups (Welch's t). Both have a mean m and a standard error s, and
//
//   lower = m - t(alpha / looks) s     family_low  = m - t(alpha / looks / family) s
//   upper = m + t(miss / looks) s      family_high = m + t(alpha / looks / family) s
//   upper_sure = m + t(alpha / looks) s
//
//   SLOWER        lower > log(1 + tolerance) and family_low > 0
//   FASTER        upper_sure < -log(1 + tolerance) and family_high < 0: SLOWER, sides exchanged
//   SAME          upper < log(1 + tolerance), and not FASTER: not slower by more than the tolerance
//   INCONCLUSIVE  none of these
//
// Two guards turn a SAME into INCONCLUSIVE, because a t bound does not detect rare slowdowns:
//
//   bad round  a round of the candidate is slower than its pair (of groups, and where its pair is
//              lost: than the median of the base) by bad_ratio or more. SAME needs all looks, at
//              least two of them, and at least half as large a fraction of bad rounds of the base:
//              then the machine causes them, not the candidate.
//   mixture    the worst value of a side is further from its median than three tolerances and
//              far_spreads scaled MADs. SAME needs all looks.
//
// Except at the last look, INCONCLUSIVE requests more rounds (next_rounds), and so does SAME if m
// is below -log(1 + tolerance), because FASTER may still be shown.
//
// Guarantees, for values that are normal and independent, with any spread:
//   1. Of a family of decisions (the cases and metrics of one suite that are judged together) in
//      which no side is slower, the probability that any is called SLOWER is at most alpha
//      (Bonferroni over looks and family: the second condition); the same for FASTER.
//   2. If one is slower, but by no more than the tolerance, it is called SLOWER with probability at
//      most alpha, per decision; if it is slower by more than the tolerance, it is called SAME or
//      FASTER with probability at most miss, per decision.
//   3. With fewer than two values per side there is no decision. Equal values have no spread and
//      decide at once.
//   4. A SAME states its blind spot: n rounds without a bad one exclude, with 95 % confidence, only
//      slowdowns that hit at least 3/n of the rounds.
// Pairs cancel what both rounds of a pair share: drift, sessions, the card, slow changes. Groups
// cancel nothing: rounds of two sessions are not independent (sessions.h handles these). Error
// rates for values that are not normal: README.md, measured by tests/harness/test_decide_rates.c.
// A value that is not finite makes the decision INCONCLUSIVE with a ratio of NaN.
#ifndef BT_HARNESS_STATS_DECIDE_H
#define BT_HARNESS_STATS_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#define BT_LOOKS_MAX 8

typedef enum bt_outcome {
    BT_OUTCOME_SAME,
    BT_OUTCOME_FASTER,
    BT_OUTCOME_SLOWER,
    BT_OUTCOME_INCONCLUSIVE,
    BT_OUTCOME_COUNT
} bt_outcome;

typedef struct bt_decision_rule {
    double tolerance;   // fraction: 0.01 is 1 %
    double alpha;       // probability of a false SLOWER in a family of equals
    double miss;        // probability that one slower by more than the tolerance passes, per
                        // decision
    double bad_ratio;   // a round slower by this factor is bad; 0: no guards (rules of version 1)
    double far_spreads; // scaled MADs that make a mixture
    int64_t family;     // number of simultaneous decisions, >= 1
    int64_t looks[BT_LOOKS_MAX]; // rounds (pairs) of the looks, ascending
    int64_t look_count;          // >= 1
} bt_decision_rule;

// METHOD's rule: alpha 1 %, miss 5 %, looks after 8, 16 and 24 rounds, a bad round is 30 % slower.
bt_decision_rule bt_decision_rule_of(double tolerance, int64_t family);
// The same with looks only up to rounds_max: those of 8, 16, 24 below it, then it itself; at least
// 2, so --rounds-max 12 looks at 8 and 12.
void bt_decision_rule_limit(bt_decision_rule *rule, int64_t rounds_max);

// Why a SAME was turned into INCONCLUSIVE.
typedef enum bt_doubt { BT_DOUBT_NONE, BT_DOUBT_BAD_ROUND, BT_DOUBT_MIXTURE } bt_doubt;

typedef struct bt_decision {
    bt_outcome outcome;
    double ratio;     // exp(m), candidate over base: 1.03 is 3 % slower; NaN: unknown
    double low, high; // its two-sided 95 % t interval, for display; NaN: unknown
    double lower, upper, upper_sure; // the bounds that were compared, as ratios; NaN: none
    double family_low, family_high;
    int64_t rounds;      // pairs, or rounds of the candidate
    int64_t look;        // number of this look, from 1; 0: before the first
    int64_t next_rounds; // number of rounds to continue to; 0: done
    bt_doubt doubt;
    double worst;                    // of the guards: the worst round's factor; NaN: not applied
    int64_t bad_base, bad_candidate; // bad rounds of each
} bt_decision;

// Fraction of the rounds that a slowdown may hit without being detected: 3 / rounds, at most 1.
double bt_blind_share(int64_t rounds);

// Of pairs: log_ratios [count + lone], log(candidate / base) of each; after the pairs come rounds
// whose pair was lost (pairs.h), which only the guard on bad rounds uses.
// A count between two looks is judged with all its pairs, at the level of a look: the count must be
// chosen before seeing the values.
bt_decision bt_decide_paired(const bt_decision_rule *rule, const double *log_ratios, int64_t count,
                             int64_t lone);
// Of two groups: base_logs [base_count], candidate_logs [candidate_count]; looks count the
// candidate's rounds.
bt_decision bt_decide_unpaired(const bt_decision_rule *rule, const double *base_logs,
                               int64_t base_count, const double *candidate_logs,
                               int64_t candidate_count);

// Applies the guard on bad rounds to a decision on sessions (sessions.h): there are no looks, and
// the rounds of the base serve as the explanation.
void bt_decision_guard(const bt_decision_rule *rule, const double *base_logs, int64_t base_count,
                       const double *candidate_logs, int64_t candidate_count,
                       bt_decision *decision);

// The t quantiles of a decision with that many degrees of freedom; a function of the rule alone,
// worth caching if many decisions are made, as in resampling.
typedef struct bt_decision_levels {
    double freedom, sure, lax, family, shown;
} bt_decision_levels;

bt_decision_levels bt_decision_levels_of(const bt_decision_rule *rule, double freedom);
// The decision on a mean log ratio with its standard error, of `count` rounds.
bt_decision bt_decide_mean(const bt_decision_rule *rule, const bt_decision_levels *levels,
                           double mean, double error, int64_t count);

// Two-sided t interval of the mean of values [count]; *low and *high NaN with fewer than two.
// Returns the mean, NaN without values.
double bt_mean_interval(const double *values, int64_t count, double confidence, double *low,
                        double *high);

// ---- two one-sided tests -----------------------------------------------------------------------

// Tests whether two groups are equal within `margin`, for example losses of independent seeds at
// equal tokens.
typedef struct bt_equivalence {
    double difference; // mean of right - mean of left
    double low, high;  // its interval at 1 - 2 alpha
    double p;          // the larger of the two one-sided p-values (Welch)
    bool equivalent;   // p < alpha: the whole interval is within +-margin
} bt_equivalence;

// With fewer than two values per side, or a non-finite value: NaN and not equivalent.
// Source  Schuirmann 1987; two one-sided tests
bt_equivalence bt_equivalence_test(const double *left, int64_t left_count, const double *right,
                                   int64_t right_count, double margin, double alpha);

#endif
