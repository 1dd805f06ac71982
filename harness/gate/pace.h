// harness/gate/pace.h - the number of rounds that a case needs against a baseline
//
// As many as the baseline's largest session, at least those of a first look, at most the policy's.
// More would not help: the uncertainty is in the effect of this session, not in its mean.
#ifndef BT_HARNESS_GATE_PACE_H
#define BT_HARNESS_GATE_PACE_H

#include "harness/gate/gate.h"

// Of one case on one system.
typedef struct bt_gate_pace {
    const bt_policy *policy;
    const bt_gate_side *base; // its side of the baseline; NULL: none
} bt_gate_pace;

int64_t bt_gate_pace_rounds(const bt_gate_pace *pace);

#endif
