// harness/gate/gate.h - a recorded run, judged against a baseline, or its candidate against its
// base
//
// Every case and metric that either side has gets a verdict. What the run is held against: a
// baseline (two groups of rounds), or, for a session of 'ab', its own system `base` (pairs).
//
// Invariants
//   1. A function of run, baseline and policy: no clock, no file, no device.
//   2. Each verdict carries its rule (rule.h), by which it can be made again from the run alone.
//   3. Nothing is passed over in silence: a case that only one side has is a verdict too.
#ifndef BT_HARNESS_GATE_GATE_H
#define BT_HARNESS_GATE_GATE_H

#include "harness/gate/baseline.h"
#include "harness/gate/rule.h"
#include "harness/store/store.h"

#define BT_GATE_KIND "gate" // of stored verdicts

typedef struct bt_gate_item {
    const char *subject;   // case, and system where that is not ours
    bt_gate_metric metric; // BT_GATE_METRIC_COUNT: the case as a whole
    bt_gate_rule rule;     // of the policy
    bt_gate_verdict verdict;
    const char *rule_json;
    const char *sentence; // "slower by 3.1 % [2.6, 3.5], tolerance 1 %, 16 rounds"
    const char *changes;  // what else changed, "" where nothing is known to have
    bool excused;         // does not count for the exit code
    bool clocks_differ;   // of interleaved rounds; the sentence says by how much
} bt_gate_item;

// What is asked of a calibration: a case and metric of a run that is judged in pairs.
typedef struct bt_gate_calibration_query {
    const bt_gate_side *side;
    bt_gate_metric metric;
    const bt_decision_rule *rule;
    const char *card;  // bt_gate_card of the run
    int64_t at_ns;     // when the run began, wall clock
    int64_t days;      // after which a calibration expires
    const char *suite; // for messages
} bt_gate_calibration_query;

// What calibration knows: known, or why not.
typedef bt_status (*bt_gate_calibration_of)(void *self, const bt_gate_calibration_query *query,
                                            bt_gate_calibration *out);

// The one that looks into a database; `store` is the bt_store. A calibration counts for the case,
// environment and card that it was made of, for its rule but for the family, and until it expires.
// Errors  those of the store
bt_status bt_gate_calibration_find(void *store, const bt_gate_calibration_query *query,
                                   bt_gate_calibration *out);
// The rule as a calibration keeps it, appended: JSON without the family.
void bt_gate_calibrated_rule(const bt_decision_rule *rule, bt_str *out);

// All borrowed, by the result too.
typedef struct bt_gate_request {
    const bt_store_run *run;
    const bt_baseline *baseline; // NULL: the run is a session of 'ab'
    const bt_policy *policy;
    const char *filter;                 // of cases, as in a plan; NULL: all
    bt_gate_calibration_of calibration; // NULL: nothing is known
    void *calibration_self;
    const char *database; // as commands that follow spell it, " --db FILE"; NULL: the default
} bt_gate_request;

typedef struct bt_gate_result {
    bt_gate_request request;
    const bt_gate_item *items; // [count], in the order of the run, then what only the base has
    int64_t count;
    int64_t case_count;                // cases on their systems
    int64_t words[BT_GATE_WORD_COUNT]; // how many of each
    int64_t excused;                   // of those that would fail
    int64_t unreported;                // cases whose memory only one of two systems reports
    int exit_code;                     // 5 before 1 before 4 before 3 before 0; 4 without items
    bool paired;                       // candidate against base, no baseline
    char warning[256];                 // a sign that the comparison itself is broken; ""
    bt_arena arena;                    // holds all of it
} bt_gate_result;

// Owns    *out: the caller, bt_gate_result_release
// Errors  INVALID_ARGUMENT (the run is still running; no baseline and no session of 'ab'),
//         OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_run(const bt_gate_request *request, bt_gate_result *out);
// A zeroed result is fine.
void bt_gate_result_release(bt_gate_result *result);
// Whether a run is a session of 'ab': it has the systems base and candidate.
bool bt_gate_is_paired(const bt_store_run *run);

// The verdicts as they are stored with the run.
// Errors  those of the store
BT_CHECKED bt_status bt_gate_store(bt_store *store, const bt_gate_result *result);
// The same under another kind: "ab".
BT_CHECKED bt_status bt_gate_store_as(bt_store *store, const char *kind,
                                      const bt_gate_result *result);

// ---- saying it ---------------------------------------------------------------------------------

// `report`: path of the run's report, "" for none.
BT_CHECKED bt_status bt_gate_text(const bt_gate_result *result, const char *report, bt_str *out);
BT_CHECKED bt_status bt_gate_json(const bt_gate_result *result, bt_str *out);
// For a comment on a change: what is not SAME first, the rest folded.
BT_CHECKED bt_status bt_gate_markdown(const bt_gate_result *result, bt_str *out);
// For CI systems: a test case per verdict.
BT_CHECKED bt_status bt_gate_junit(const bt_gate_result *result, bt_str *out);
// Lines of text: what no SAME knows, and the sign of a broken comparison.
void bt_gate_notes(const bt_gate_result *result, bt_str *out);
// What to do next, in a line without its end; "" where nothing suggests itself.
void bt_gate_next(const bt_gate_result *result, bt_str *out);
// What differs besides the cases: the hard facts that make machines not comparable, the machine's
// own speed, the builds, and soft facts, which may explain a difference.
// "compiler GNU 12 -> GNU 13; os.kernel 6.1 -> 6.5"; "" where nothing does. For people the first
// few facts and how many more; `whole`: every one, for programs.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_besides(const bt_gate_result *result, bool whole, bt_str *out);
// "run 12 of kernels against baseline main (...), policy default".
void bt_gate_heading(const bt_gate_result *result, bt_str *out);
// The whole in a word: PASS, FAIL, INCONCLUSIVE, NOT-COMPARABLE.
const char *bt_gate_outcome(const bt_gate_result *result);
// "8 slower, 3 inconclusive, 60 same": counts in words, what matters first.
void bt_gate_counts(const bt_gate_result *result, bt_str *out);

#endif
