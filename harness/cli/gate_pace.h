// harness/cli/gate_pace.h - a gated run has as many rounds as the baseline's sessions
#ifndef BT_HARNESS_CLI_GATE_PACE_H
#define BT_HARNESS_CLI_GATE_PACE_H

#include "harness/gate/baseline.h"
#include "harness/run/run.h"

typedef struct bt_cli_gate_pace {
    const bt_policy *policy;
    const bt_baseline *baseline;
    const bt_plan *plan;
    bool fixed; // the plan's number of rounds, independent of results
} bt_cli_gate_pace;

// Borrows the pace.
bt_run_wish bt_cli_gate_wish(bt_cli_gate_pace *pace);

#endif
