// harness/gate/rule.h - the rule of a verdict: everything that is needed to judge a case and metric
// of a run again
//
// A rule is a JSON object, stored with the verdict. It has everything that the judgement needs
// except the rounds of both sides: tolerance, error rates, the name of the other system, or name
// and digest of the baseline, whose document is stored once with the run. So the same function
// judges and verifies. Rules of earlier versions contain copies of the baseline's values; they are
// still supported.
//
// Invariants
//   1. bt_gate_judge is a function of its arguments alone: equal arguments give equal verdicts.
//   2. The first failing check gives the verdict, from the case as a whole to the metric: presence,
//      correctness, disturbance, comparability, calibration; then the metric.
//   3. Ratios are time-like: above 1 is slower, for rates as well.
//   4. A rule has a version, which determines how it is judged. Version 1 (no "version"): a round
//      was represented by its median, rates were judged in addition to times, different clocks
//      invalidated a comparison of interleaved rounds, there were no guards, and more memory was
//      SLOWER. Version 2: as in stats/decide.h and stats/summary.h, but rounds whose pair was lost
//      were ignored, and so were some that could not run. Version 3: lost pairs are guarded, rounds
//      that could not run end the judgement.
#ifndef BT_HARNESS_GATE_RULE_H
#define BT_HARNESS_GATE_RULE_H

#include "harness/gate/side.h"
#include "harness/stats/decide.h"

// X(enumerator, word, words in text, exit code unless excused)
#define BT_GATE_WORD_LIST(X)                                                                       \
    X(SAME, "SAME", "same", 0)                                                                     \
    X(FASTER, "FASTER", "faster", 0)                                                               \
    X(SLOWER, "SLOWER", "slower", 1)                                                               \
    X(ADVISORY, "ADVISORY", "advisory", 0) /* speed against a baseline with too few sessions */    \
    X(LARGER, "LARGER", "larger", 1)       /* memory */                                            \
    X(SMALLER, "SMALLER", "smaller", 0)    /* memory */                                            \
    X(INCONCLUSIVE, "INCONCLUSIVE", "inconclusive", 3)                                             \
    X(NOT_COMPARABLE, "NOT-COMPARABLE", "not comparable", 4)                                       \
    X(DIFFERENT, "DIFFERENT", "different", 5) /* losses */                                         \
    X(INVALID, "INVALID", "invalid", 5)       /* crashed or wrong; exit code 4 if only disturbed */

#define BT_GATE_RULE_VERSION 3

typedef enum bt_gate_word {
#define BT_GATE_WORD_ENUM(name, word, text, exit_code) BT_GATE_##name,
    BT_GATE_WORD_LIST(BT_GATE_WORD_ENUM)
#undef BT_GATE_WORD_ENUM
        BT_GATE_WORD_COUNT
} bt_gate_word;

const char *bt_gate_word_name(bt_gate_word word);

// X(enumerator, word in a rule): why a case is judged
#define BT_GATE_PRESENCE_LIST(X)                                                                   \
    X(BOTH, "both")                                                                                \
    X(NEW, "new") /* only the run has it */ X(MISSING, "missing") /* only the base */

typedef enum bt_gate_presence {
#define BT_GATE_PRESENCE_ENUM(name, word) BT_GATE_PRESENCE_##name,
    BT_GATE_PRESENCE_LIST(BT_GATE_PRESENCE_ENUM)
#undef BT_GATE_PRESENCE_ENUM
        BT_GATE_PRESENCE_COUNT
} bt_gate_presence;

// The calibration of a case in this environment.
typedef struct bt_gate_calibration {
    bool required, known;
    char why[160];                            // unknown: why, a clause; ""
    double false_alarm_rate;                  // upper bound; NaN: unknown
    double smallest;                          // slowdown that is detected nine times in ten; NaN:
                                              // unknown
    double false_alarm_limit, smallest_limit; // the accepted maximum
} bt_gate_calibration;

// A rule as a struct. Policy and baseline are written for readers; reading it omits them.
typedef struct bt_rule {
    int64_t version;
    const char *policy, *policy_digest;   // name and digest
    const char *bench, *name, *candidate; // case; system of the run
    const char *base;                     // other system of the run; "": a baseline
    const char *baseline, *baseline_digest;
    const char *baseline_system; // of the baseline's side; "": it has none
    bool other_card;             // the baseline is not known to be of the run's card
    bt_gate_presence presence;
    bt_gate_metric metric; // BT_GATE_METRIC_COUNT: the case as a whole
    double clock_tolerance;
    bt_gate_calibration calibration;
    bt_decision_rule decision;     // of times and rates
    double memory_tolerance_bytes; // of the peak
    const char *tier;              // of the loss
    bt_loss_rule loss;
    // In rules of earlier versions: recorded values, digests of the environment and settings.
    const char *environment, *settings;
    double clock_mhz;     // NaN: not known
    const double *values; // [value_count]
    int64_t value_count;
    bt_gate_side recorded; // its curves only
} bt_rule;

// The decision rule for times and rates of a policy.
bt_decision_rule bt_gate_decision_rule(const bt_policy *policy, double tolerance, int64_t family);
// The number of rounds that a case needs against a side of a baseline (NULL: none): as many as its
// largest session, at least those of a first look, at most the policy's. More would not help: the
// uncertainty is in the effect of this session, not in its mean.
int64_t bt_gate_rounds_against(const bt_policy *policy, const bt_gate_side *base);
// The rule of a policy for a metric; the caller adds the case and the other side.
// own        of this case and metric
// precision  "bf16": determines how much losses may differ
// family     number of simultaneous decisions
bt_rule bt_rule_of(const bt_policy *policy, const bt_gate_rule *own, bt_gate_metric metric,
                   const char *precision, int64_t family);
// Appends the rule as a JSON object on one line to `out`.
BT_CHECKED bt_status bt_rule_write(const bt_rule *rule, bt_str *out);
// Reads it back.
// Owns    texts and lists are in the arena
// Errors  INVALID_ARGUMENT (with the position), OUT_OF_MEMORY
BT_CHECKED bt_status bt_rule_read(const char *rule_json, bt_arena *arena, bt_rule *out);

typedef struct bt_gate_verdict {
    bt_gate_word word;
    int exit_code;           // 0, 1, 3, 4, 5: exit code of the gate unless excused
    double ratio, low, high; // NaN: none
    double base, candidate;  // medians (for memory: the peaks); NaN: none
    int64_t rounds;          // pairs, or rounds of the candidate
    int64_t next_rounds;     // number of rounds to continue to if more would help; 0: none
    double blind_share; // SAME: a slowdown in fewer of the rounds than this is not excluded; NaN:
                        // not SAME
    char reason[512];   // a sentence; "" if the numbers are sufficient
    char doubt[192];    // why it is not SAME although the numbers alone would give SAME; ""
} bt_gate_verdict;

// Judges. `sides` are those of the run (bt_gate_sides_of_run).
// recorded  sides of the baseline that the rule names; NULL: unknown
// Errors    INVALID_ARGUMENT (an unknown rule; it needs a baseline), OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_judge(const bt_gate_sides *sides, const bt_gate_sides *recorded,
                                   const char *rule_json, bt_gate_verdict *out);
// The version of a rule; 0 if it is not a rule.
int64_t bt_gate_rule_version(const char *rule_json);

#endif
