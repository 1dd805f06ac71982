// harness/gate/rule.h - one judgement: a case and metric of a run, by a rule that holds all the
// rest
//
// A rule is a JSON object, stored with the verdict. It has all that the judgement needs besides the
// rounds of both sides: tolerance, error rates, the name of the other system, or name and digest of
// the baseline, whose document is stored once beside the run. So the same function judges first and
// verifies later. Rules of earlier versions hold copies of the baseline's values; they still judge.
//
// Invariants
//   1. bt_gate_judge is a function of its arguments alone: equal arguments give equal verdicts.
//   2. The first check that speaks decides, from the case as a whole to the metric: is it there, is
//      it right, was it disturbed, is it comparable, is the gate calibrated; then the metric.
//   3. Ratios are time-like: above 1 is slower, for rates as well.
//   4. A rule has a version, and is judged as that version says. Version 1 (no "version" in it):
//      a round was worth its median, rates were judged beside times, clocks that differ voided a
//      comparison of interleaved rounds, no guards, and more memory was SLOWER. Version 2: what
//      stats/decide.h and stats/summary.h say, but rounds whose pair was lost said nothing,
//      and neither did some that could not run. Version 3: the ones are guarded, the others end it.
#ifndef BT_HARNESS_GATE_RULE_H
#define BT_HARNESS_GATE_RULE_H

#include "harness/gate/side.h"
#include "harness/stats/decide.h"

// X(enumerator, word, exit code when it is not excused)
#define BT_GATE_WORD_LIST(X)                                                                       \
    X(SAME, "SAME", 0)                                                                             \
    X(FASTER, "FASTER", 0)                                                                         \
    X(SLOWER, "SLOWER", 1)                                                                         \
    X(ADVISORY, "ADVISORY", 0) /* speed against a baseline that cannot carry a verdict */          \
    X(LARGER, "LARGER", 1)     /* memory */                                                        \
    X(SMALLER, "SMALLER", 0)   /* memory */                                                        \
    X(INCONCLUSIVE, "INCONCLUSIVE", 3)                                                             \
    X(NOT_COMPARABLE, "NOT-COMPARABLE", 4)                                                         \
    X(DIFFERENT, "DIFFERENT", 5) /* losses */                                                      \
    X(INVALID, "INVALID", 5)     /* crashed or wrong; 4 when only disturbed */

#define BT_GATE_RULE_VERSION 3

typedef enum bt_gate_word {
#define BT_GATE_WORD_ENUM(name, word, exit_code) BT_GATE_##name,
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

// What 'calibrate' knows of a case in this environment.
typedef struct bt_gate_calibration {
    bool required, known;
    char why[160];                            // not known: why, a clause; ""
    double false_alarm_rate;                  // upper bound; NaN: not known
    double smallest;                          // slowdown that is found nine times in ten, likewise
    double false_alarm_limit, smallest_limit; // the most that is accepted
} bt_gate_calibration;

// A rule before it is written.
typedef struct bt_gate_terms {
    const bt_policy *policy; // borrowed
    bt_gate_rule rule;       // of the policy, for this case and metric
    bt_gate_metric metric;   // BT_GATE_METRIC_COUNT: the case as a whole
    bt_gate_presence presence;
    const char *bench, *name, *candidate; // case; system of the run
    const char *base;                     // other system of the run; NULL: a baseline
    const char *baseline;                 // its name and digest, when it is one
    const char *baseline_digest;
    const bt_gate_side *recorded; // the baseline's side; NULL: none
    bool other_card;              // the baseline is not known to be of the run's card
    const char *precision;        // "bf16": how far losses may be apart
    int64_t family;               // decisions made together
    bt_gate_calibration calibration;
} bt_gate_terms;

// How times and rates are decided under a policy.
bt_decision_rule bt_gate_decision_rule(const bt_policy *policy, double tolerance, int64_t family);
// The rule as a JSON object on one line, appended to `out`.
BT_CHECKED bt_status bt_gate_rule_write(const bt_gate_terms *terms, bt_str *out);

typedef struct bt_gate_verdict {
    bt_gate_word word;
    int exit_code;           // 0, 1, 3, 4, 5: what it means for the gate unless excused
    double ratio, low, high; // NaN: none
    double base, candidate;  // medians (of memory: the peaks); NaN: none
    int64_t rounds;          // pairs, or rounds of the candidate
    int64_t next_rounds;     // more would help: go on to so many; 0: no
    double blind_share; // SAME: a slowdown of fewer of the rounds is not excluded; NaN: no SAME
    char reason[512];   // a sentence; "" where the numbers say it all
    char doubt[192];    // why it is not SAME though the numbers alone would say so; ""
} bt_gate_verdict;

// Judges. `sides` are those of the run (bt_gate_sides_of_run).
// recorded  sides of the baseline that the rule names; NULL: none is known
// Errors    INVALID_ARGUMENT (no rule that this program knows; it needs a baseline), OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_judge(const bt_gate_sides *sides, const bt_gate_sides *recorded,
                                   const char *rule_json, bt_gate_verdict *out);
// The version of a rule; 0 where it is no rule at all.
int64_t bt_gate_rule_version(const char *rule_json);

#endif
