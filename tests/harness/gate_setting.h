// tests/harness/gate_setting.h - a gate's ingredients: a base run, the run that is judged, a policy
#ifndef BT_TESTS_HARNESS_GATE_SETTING_H
#define BT_TESTS_HARNESS_GATE_SETTING_H

#include "harness/gate/gate.h"
#include "tests/harness/made_run.h"

enum { GATE_ROUNDS = 8, GATE_MIB = 1 << 20 };

#define GATE_SPREAD 0.001                // between rounds
#define GATE_WHOLE  BT_GATE_METRIC_COUNT // the case as a whole

typedef struct gate_setting {
    made_run base, run; // the base becomes the baseline
    bt_baseline baseline;
    bt_policy policy;
    bt_gate_result result;
    int sessions; // of the baseline; 0: as many as a verdict needs
    bool paired;  // no baseline: the run's candidate against its base
} gate_setting;

extern gate_setting gate_it;

// Set-up and tear-down of a test.
int gate_begin(void **state);
int gate_end(void **state);
void gate_add_kernel(made_run *made, const char *name, const char *system, double time_ns,
                     double spread, int rounds);
void gate_add_train(made_run *made, int64_t peak_bytes, int64_t shift_at, float shift);
// Both runs have the same rounds of the kernel case "gelu".
void gate_make_equal_runs(void);
bt_gate_request gate_request_of(void);
// Judges under a policy with these members.
void gate_judge(const char *members);
// The same policy once more.
void gate_judge_again(void);
// The verdict about a subject; fails without one.
const bt_gate_item *gate_item_of(const char *subject, bt_gate_metric metric);
void gate_expect(const char *subject, bt_gate_metric metric, bt_gate_word word, int exit_code);
void gate_expect_words(const char *text, const char *words);

#endif
