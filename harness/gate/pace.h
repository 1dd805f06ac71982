// harness/gate/pace.h - how many rounds a case needs until its time is decided
#ifndef BT_HARNESS_GATE_PACE_H
#define BT_HARNESS_GATE_PACE_H

#include "harness/gate/gate.h"

// Of one case on one system: its side of the baseline (NULL: none) and the median times of the
// rounds kept so far.
typedef struct bt_gate_pace {
    const bt_policy *policy;
    const bt_gate_side *base;
    int64_t family;         // decisions made together
    const double *times_ns; // [count]
    int64_t count;
} bt_gate_pace;

// *rounds: how many there are to be in all; at first the first look's.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_gate_pace_rounds(const bt_gate_pace *pace, int64_t *rounds);

#endif
