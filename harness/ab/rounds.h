// harness/ab/rounds.h - the number of rounds of a comparison, by case
//
// Called after every round. A case is judged when it has the number of complete pairs of the rule's
// next look; if undecided, it continues to the following look, if decided, it stops. Pairs
// invalidated by noise are replaced, up to the same number. A case that failed, or cannot run on
// one of the systems, stops after that pair.
// Invariant: a function of plan, policy and schedule alone, so that a session can be resumed.
#ifndef BT_HARNESS_AB_ROUNDS_H
#define BT_HARNESS_AB_ROUNDS_H

#include "harness/gate/policy.h"
#include "harness/run/run.h"
#include "harness/stats/decide.h"

typedef struct bt_ab_rounds {
    const bt_plan *plan;     // borrowed
    const bt_policy *policy; // borrowed
    int64_t family;          // number of decisions on times and rates that the gate will make
    bool fixed;              // the plan's number, independent of results: for calibrate
    double *logs; // owned, [3, logs_max]: log ratios of one case, logs of its base and candidate
    int64_t logs_max;
} bt_ab_rounds;

// Owns    *out: the caller, bt_ab_rounds_release
BT_CHECKED bt_status bt_ab_rounds_make(const bt_plan *plan, const bt_policy *policy,
                                       bt_ab_rounds *out);
void bt_ab_rounds_release(bt_ab_rounds *rounds);
// The round request for a run; borrows `rounds`.
bt_run_wish bt_ab_rounds_wish(bt_ab_rounds *rounds);
// Rounds of the first look: what the plan should request.
int64_t bt_ab_rounds_first(const bt_policy *policy);

#endif
