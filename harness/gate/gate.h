// harness/gate/gate.h - judges a recorded run against a baseline, or its candidate against its base
//
// Every case and metric of either side gets a verdict. The run is compared with a baseline (two
// groups of rounds) or, for an 'ab' session, with its own system `base` (pairs).
//
// Invariants
//   1. The result is a function of run, baseline and policy: no clock, no file, no device.
//   2. Each verdict contains its rule (rule.h), with which it can be recomputed from the run alone.
//   3. Nothing is omitted: a case that only one side has gets a verdict too.
#ifndef BT_HARNESS_GATE_GATE_H
#define BT_HARNESS_GATE_GATE_H

#include "harness/gate/baseline.h"
#include "harness/gate/rule.h"
#include "harness/store/store.h"

#define BT_GATE_KIND "gate" // kind of stored verdicts

typedef struct bt_gate_item {
    const char *subject;   // case, and system if not ours
    bt_gate_metric metric; // BT_GATE_METRIC_COUNT: the case as a whole
    bt_gate_rule rule;     // of the policy
    bt_gate_verdict verdict;
    const char *rule_json;
    const char *sentence; // "slower by 3.1 % [2.6, 3.5], tolerance 1 %, 16 rounds"
    const char *changes;  // what else changed, "" if nothing is known
    bool excused;         // ignored in the exit code
    bool clocks_differ;   // of interleaved rounds; the sentence has the amount
} bt_gate_item;

// Query for a calibration: a case and metric of a run that is judged in pairs.
typedef struct bt_gate_calibration_query {
    const bt_gate_side *side;
    bt_gate_metric metric;
    const bt_decision_rule *rule;
    const char *card;  // bt_gate_card of the run
    int64_t at_ns;     // when the run began, wall clock
    int64_t days;      // calibrations expire after this
    const char *suite; // for messages
} bt_gate_calibration_query;

// Returns a calibration, or why there is none.
typedef bt_status (*bt_gate_calibration_of)(void *self, const bt_gate_calibration_query *query,
                                            bt_gate_calibration *out);

// Looks calibrations up in a database; `store` is the bt_store. A calibration is valid for its
// case, environment and card, for its rule except the family, and until it expires.
// Errors  those of the store
bt_status bt_gate_calibration_find(void *store, const bt_gate_calibration_query *query,
                                   bt_gate_calibration *out);
// Appends the rule as a calibration stores it: JSON without the family.
void bt_gate_calibrated_rule(const bt_decision_rule *rule, bt_str *out);

// All borrowed, by the result too.
typedef struct bt_gate_request {
    const bt_store_run *run;
    const bt_baseline *baseline; // NULL: the run is an 'ab' session
    const bt_policy *policy;
    const char *filter;                 // of cases, as in a plan; NULL: all
    bt_gate_calibration_of calibration; // NULL: no calibrations
    void *calibration_self;
    const char *database; // the option for suggested commands, " --db FILE"; NULL: the default
    int columns;          // of the terminal, to which the table of 'ab' is fitted; 0: any number
} bt_gate_request;

typedef struct bt_gate_result {
    bt_gate_request request;
    const bt_gate_item *items; // [count], in the order of the run, then those that only the base
                               // has
    int64_t count;
    int64_t case_count;                // pairs of case and system
    int64_t words[BT_GATE_WORD_COUNT]; // how many of each
    int64_t excused;                   // how many of them would fail
    int64_t unreported;                // cases whose memory only one of two systems reports
    int exit_code;                     // the first of 5, 1, 4, 3, 0 that occurs; 4 without items
    char warning[256];                 // a sign that the comparison itself is invalid; ""
    bt_arena arena;                    // arena of all of the above
} bt_gate_result;

// Owns    *out: the caller, bt_gate_result_release
// Errors  INVALID_ARGUMENT (the run is still running; no baseline and not an 'ab' session),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_run(const bt_gate_request *request, bt_gate_result *out);
// A zeroed result is allowed.
void bt_gate_result_release(bt_gate_result *result);
// Whether a run is an 'ab' session: it has the systems base and candidate.
bool bt_gate_is_paired(const bt_store_run *run);

// The verdicts as they are stored with the run: result->count of them.
// Owns    *out and texts: in the arena; borrows from the result
BT_CHECKED bt_status bt_gate_verdicts(const bt_gate_result *result, bt_arena *arena,
                                      bt_store_verdict **out);
// Stores them under a kind (BT_GATE_KIND, "ab"), and the baseline's document.
// Errors  those of the store
BT_CHECKED bt_status bt_gate_store(bt_store *store, const char *kind, const bt_gate_result *result);

// ---- output -------------------------------------------------------------------------------------

// `report`: path of the run's report, "" for none.
BT_CHECKED bt_status bt_gate_text(const bt_gate_result *result, const char *report, bt_str *out);
BT_CHECKED bt_status bt_gate_json(const bt_gate_result *result, bt_str *out);
// For a comment on a change: first what is not SAME, the rest folded.
BT_CHECKED bt_status bt_gate_markdown(const bt_gate_result *result, bt_str *out);
// For CI systems: one test case per verdict.
BT_CHECKED bt_status bt_gate_junit(const bt_gate_result *result, bt_str *out);
// Lines of text: the limits of SAME, and signs of an invalid comparison.
void bt_gate_notes(const bt_gate_result *result, bt_str *out);
// A suggested next step, in a line without newline; "" if there is none.
void bt_gate_next(const bt_gate_result *result, bt_str *out);
// Other differences: the hard facts that make machines not comparable, the machine's own speed, the
// builds, and soft facts, which may explain a difference.
// "compiler GNU 12 -> GNU 13; os.kernel 6.1 -> 6.5"; "" if there are none. By default the first few
// facts and the number of others; `whole`: all, for programs.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_besides(const bt_gate_result *result, bool whole, bt_str *out);
// "run 12 of kernels against baseline main (...), policy default".
void bt_gate_heading(const bt_gate_result *result, bt_str *out);
// The result in one word: PASS, FAIL, INCONCLUSIVE, NOT-COMPARABLE.
const char *bt_gate_outcome(const bt_gate_result *result);
// "8 slower, 3 inconclusive, 60 same": counts, the most important first.
void bt_gate_counts(const bt_gate_result *result, bt_str *out);

#endif
