// harness/cli/gate_run.h - a gated run has as many rounds as the baseline's sessions; an
// interrupted one is resumed with the same looks
#ifndef BT_HARNESS_CLI_GATE_RUN_H
#define BT_HARNESS_CLI_GATE_RUN_H

#include "harness/cli/run_suite.h"
#include "harness/gate/baseline.h"

typedef struct bt_cli_gate_pace {
    const bt_policy *policy;
    const bt_baseline *baseline;
    const bt_plan *plan;
    bool fixed; // the plan's number of rounds, independent of results
} bt_cli_gate_pace;

// Borrows the pace.
bt_run_wish bt_cli_gate_wish(bt_cli_gate_pace *pace);

// What the record of a gated run contains besides its plan; texts belong to the document.
typedef struct bt_cli_gate_record {
    const char *baseline; // as given by the user
    const char *digest;   // of it
    bool fixed;           // the number of rounds was given by the user
    bt_json_doc json;
} bt_cli_gate_record;

// Appends the rule of the run: all inputs of its pace other than the plan.
BT_CHECKED bt_status bt_cli_gate_rule_write(const bt_cli_gate_pace *pace, const char *baseline,
                                            bt_str *out);
// Plan, policy and the rest from the record of the run that --resume names.
// Owns    *suite, *policy, *record: the caller, also after a failure
// Errors  INVALID_ARGUMENT (another kind of run; an option that the record determines), those of
//         the
// store
BT_CHECKED bt_status bt_cli_gate_resume(const bt_cli_arguments *arguments, bt_cli_suite *suite,
                                        bt_policy *policy, bt_cli_gate_record *record);
// The baseline must be the one with which the run began.
// Errors  UNAVAILABLE
BT_CHECKED bt_status bt_cli_gate_check_baseline(const bt_cli_gate_record *record, int64_t run,
                                                const bt_baseline *found);
void bt_cli_gate_record_release(bt_cli_gate_record *record);

#endif
