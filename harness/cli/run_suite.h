// harness/cli/run_suite.h - plans and runs a suite according to a verb's options
//
// For the verbs that run cases: run, replicate, gate and others. An option that a verb lacks counts
// as not given.
#ifndef BT_HARNESS_CLI_RUN_SUITE_H
#define BT_HARNESS_CLI_RUN_SUITE_H

#include "harness/cli/cli.h"
#include "harness/run/run.h"

// A verb's defaults for options that the user did not give.
typedef struct bt_cli_suite_wishes {
    const char *profile;   // NULL: the best that this machine can run
    const char *systems;   // NULL: the profile's
    bool builds;           // builds run every case, as in bt_plan_options
    int64_t rounds;        // 0: the profile's
    bt_plan_selects wants; // additional filter of cases; NULL: all
    const void *wants_by;
    const char *wants_else; // as in bt_plan_options
    bool order_seed; // --seed is the seed of the order of rounds, which the verb reads itself
} bt_cli_suite_wishes;

typedef struct bt_cli_suite {
    const bt_cli_arguments *arguments; // borrowed
    const char *database;              // borrowed
    bt_world world;                    // external launcher of this rank, if any
    bt_str rank_database, rank_out;    // owned; of a rank above 0
    bt_suite suite;
    bt_machine machine;
    bt_plan plan;
    // Set between planning and running, as in bt_run_request:
    const bt_run_wish *wish;
    const bt_peer *systems;
    int64_t system_count;
    uint64_t schedule_seed;
    int64_t resume;       // the run to finish; 0: a new one
    bool trusted;         // programs by path may start: the user named them, or gave --trust
    bool trusts_commands; // command cases may run: the user gave --trust
} bt_cli_suite;

// Loads the suite and makes the plan for this machine. If a GPU cannot be opened and the profile
// was not chosen by the user, the next profile is used. Owns    *out: the caller,
// bt_cli_suite_release, also after a failure Errors  those of the options, the suite and the plan
BT_CHECKED bt_status bt_cli_suite_plan(const bt_cli_arguments *arguments, const char *name,
                                       const bt_cli_suite_wishes *wishes, bt_cli_suite *out);
// Uses the plan of a recorded run instead, for --resume. Other options that select what to run must
// not be given.
// Owns    as above
// Errors  INVALID_ARGUMENT (no such run, such an option), CORRUPT_DATA
BT_CHECKED bt_status bt_cli_suite_resume(const bt_cli_arguments *arguments, const char *run,
                                         bt_cli_suite *out);
// Reads the record of the run to resume. Errors  INVALID_ARGUMENT (a run of another kind)
BT_CHECKED bt_status bt_cli_suite_record(const bt_cli_suite *suite, const char *kind,
                                         bt_store_run *record);
// If torchrun, SLURM or Open MPI started this process as one rank of several: ranks above 0 record
// into separate databases, NAME.rankR. Errors  INVALID_ARGUMENT if the plan does not match the
// number of ranks
BT_CHECKED bt_status bt_cli_suite_join(bt_cli_suite *suite);
// Runs the plan and records it.
// Errors  UNAVAILABLE (the profile needs a GPU and there is none), INVALID_ARGUMENT (the folder of
//         --out has the files of another run), those of bt_run_execute
BT_CHECKED bt_status bt_cli_suite_run(const bt_cli_suite *suite, bt_run_outcome *outcome);
// After a verb's result: if the run's report could not be written, the result is printed, and then
// this error. Errors  that of the report, with the command that writes it elsewhere
BT_CHECKED bt_status bt_cli_report_missing(bt_cli_call *call, const bt_run_outcome *outcome);
void bt_cli_suite_release(bt_cli_suite *suite);

// Writes the page of a run again, now with its verdicts. *page: its path, "" if it has none.
BT_CHECKED bt_status bt_cli_page_renew(bt_store *store, const bt_store_run *run, bt_str *page);

#endif
