// harness/cli/run_suite.h - plans and runs a suite according to a verb's options
//
// For the verbs that run cases: run, replicate, gate and others. An option of BT_CLI_RUN_OPTIONS
// that a verb lacks counts as not given.
#ifndef BT_HARNESS_CLI_RUN_SUITE_H
#define BT_HARNESS_CLI_RUN_SUITE_H

#include "harness/cli/cli.h"
#include "harness/run/run.h"

// Rows of a verb's table of options.
// clang-format off
#define BT_CLI_RUN_OPTIONS                                                                         \
    {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"},  \
    {"filter", 0, "TEXT", "only cases whose name contains TEXT, or matches it as a glob"},         \
    {"set", 0, "KEY=VALUE",                                                                        \
     "set a key of every case, as in --set train.steps=3; repeatable. A list, as in\n"             \
     "                           train.optimizer.lr=[3e-4,6e-4], makes a case for each value"},    \
    {"seed", 0, "N", "random seed of all cases, the same as --set train.seed=N"},                  \
    {"system", 0, "LIST",                                                                          \
     "systems that run the cases: blutrain, pytorch-eager, pytorch-compile, a peer's program"},    \
    {"rounds", 0, "N", "rounds (fresh processes) per case (default: the profile's)"},              \
    {"trust", 0, NULL, "start programs that the suite or an imported run names by path"},          \
    {"name", 0, "NAME", "a name that other verbs accept in place of the run's number"},            \
    {"note", 0, "TEXT", "a remark, stored with the run"},                                          \
    {"out", 0, "DIR", "folder of the run's files (default: run-N next to the database)"},           \
    {"metrics", 0, "DIR", "write metrics.jsonl and bt_bench.prom (Prometheus) to DIR"},            \
    {"quiet", 'q', NULL, "no progress"},                                                           \
    {"worker", 0, "PROGRAM", NULL}
// clang-format on

// A verb's defaults for options that the user did not give.
typedef struct bt_cli_suite_wishes {
    const char *profile;   // NULL: the best that this machine can run
    const char *systems;   // NULL: the profile's
    bool builds;           // builds run every case, as in bt_plan_options
    int64_t rounds;        // 0: the profile's
    bt_plan_selects wants; // additional filter of cases; NULL: all
    const void *wants_by;
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
// If torchrun, SLURM or Open MPI started this process as one rank of several: ranks above 0 record
// into separate databases, NAME.rankR. Errors  INVALID_ARGUMENT if the plan does not match the
// number of ranks
BT_CHECKED bt_status bt_cli_suite_join(bt_cli_suite *suite);
// Runs the plan and records it.
// Errors  UNAVAILABLE (the profile needs a GPU and there is none), those of bt_run_execute
BT_CHECKED bt_status bt_cli_suite_run(const bt_cli_suite *suite, bt_run_outcome *outcome);
void bt_cli_suite_release(bt_cli_suite *suite);

#endif
