// harness/ab/ab.h - a comparison of two builds or systems: its policy, its verdicts, how it reads
//
// A session of 'ab' has two systems. Two builds are called base and candidate, two systems of a
// plan keep their names; the first is the base. What each is stands in the run's schedule
// (bt_store_schedule), and the verdicts in the run, under the kind "ab".
#ifndef BT_HARNESS_AB_AB_H
#define BT_HARNESS_AB_AB_H

#include "harness/gate/gate.h"

#define BT_AB_KIND "ab" // of the schedule, and of stored verdicts

// A policy file's own, or with `given` NULL: METHOD's, with the tolerance (a share; NaN: METHOD's)
// for all times and at most rounds_max pairs (0: METHOD's 24).
// Owns    *out: the caller, bt_policy_release
// Errors  INVALID_ARGUMENT (a tolerance or number that is out of range), those of the policy
BT_CHECKED bt_status bt_ab_policy(const char *given, double tolerance, int64_t rounds_max,
                                  bt_policy *out);
// What a run of this kind keeps of its rule, that it may be resumed: {"policy": {...}}.
BT_CHECKED bt_status bt_ab_rule_json(const bt_policy *policy, bt_str *out);

// The policy back from there.
// Owns    *out: the caller, bt_policy_release
// Errors  CORRUPT_DATA (that is no such rule), those of a policy
BT_CHECKED bt_status bt_ab_policy_recorded(const char *rule_json, bt_policy *out);

// Judges the candidate against the base and stores the verdicts; the run is read anew.
// Owns    *run and *result: the caller; the result borrows from run and policy
// Errors  those of the store and of bt_gate_run
BT_CHECKED bt_status bt_ab_judge(bt_store *store, int64_t run_number, const bt_policy *policy,
                                 bt_store_run *run, bt_gate_result *result);

// `report`: path of the run's report.
BT_CHECKED bt_status bt_ab_text(const bt_gate_result *result, const char *report, bt_str *out);
BT_CHECKED bt_status bt_ab_json(const bt_gate_result *result, bt_str *out);

#endif
