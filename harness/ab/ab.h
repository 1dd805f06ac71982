// harness/ab/ab.h - compares two builds or systems: policy, verdicts, output
//
// An 'ab' session has two systems. Two builds are named base and candidate, two systems of a plan
// keep their names; the first is the base. The run's schedule describes them (bt_store_schedule),
// and the verdicts are stored in the run under the kind "ab".
#ifndef BT_HARNESS_AB_AB_H
#define BT_HARNESS_AB_AB_H

#include "harness/gate/gate.h"

#define BT_AB_KIND "ab" // of the schedule, and of stored verdicts

// The policy of a file, or with `given` NULL: METHOD's, with the tolerance (a fraction; NaN:
// METHOD's) for all times and at most rounds_max pairs (0: METHOD's 24).
// Owns    *out: the caller, bt_policy_release
// Errors  INVALID_ARGUMENT (a tolerance or number out of range), those of the policy
BT_CHECKED bt_status bt_ab_policy(const char *given, double tolerance, int64_t rounds_max,
                                  bt_policy *out);
// The rule as stored with the run for resuming: {"policy": {...}}.
BT_CHECKED bt_status bt_ab_rule_json(const bt_policy *policy, bt_str *out);

// Restores the policy from there.
// Owns    *out: the caller, bt_policy_release
// Errors  CORRUPT_DATA (not such a rule), those of a policy
BT_CHECKED bt_status bt_ab_policy_recorded(const char *rule_json, bt_policy *out);

// Judges the candidate against the base and stores the verdicts; the run is read again.
// Owns    *run and *result: the caller; the result borrows from run and policy
// Errors  those of the store and of bt_gate_run
BT_CHECKED bt_status bt_ab_judge(bt_store *store, int64_t run_number, const bt_policy *policy,
                                 bt_store_run *run, bt_gate_result *result);

// `report`: path of the run's report.
BT_CHECKED bt_status bt_ab_text(const bt_gate_result *result, const char *report, bt_str *out);
BT_CHECKED bt_status bt_ab_json(const bt_gate_result *result, bt_str *out);

#endif
