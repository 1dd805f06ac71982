// harness/cli/gate_resume.h - resumes an interrupted gated run with the same looks
#ifndef BT_HARNESS_CLI_GATE_RESUME_H
#define BT_HARNESS_CLI_GATE_RESUME_H

#include "harness/cli/gate_pace.h"
#include "harness/cli/run_suite.h"

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
