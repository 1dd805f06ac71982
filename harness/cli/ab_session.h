// harness/cli/ab_session.h - shared by ab and calibrate: options, and a session with its verdict
#ifndef BT_HARNESS_CLI_AB_SESSION_H
#define BT_HARNESS_CLI_AB_SESSION_H

#include "harness/ab/rounds.h"
#include "harness/ab/side.h"
#include "harness/cli/run_suite.h"
#include "harness/gate/policy.h"

// Rows of a verb's table of options.
// clang-format off
#define BT_CLI_AB_OPTIONS_NEW                                                                      \
    {"tolerance", 0, "FRACTION",                                                                   \
     "a larger slowdown is SLOWER (default: 0.01; 0.02 below 20 us; 0.005 for training steps)"},   \
    {"rounds-max", 0, "N", "maximum number of pairs of rounds per case (default: 24)"},            \
    {"policy", 0, "NAME|FILE", "a gate's policy, in place of --tolerance and --rounds-max"},       \
    {"seed", 0, "N", "seed of the order of rounds (default: random, recorded)"},                   \
    {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"},  \
    {"filter", 0, "TEXT", "only cases whose name contains TEXT, or matches it as a glob"},         \
    {"set", 0, "KEY=VALUE",                                                                        \
     "set a key of every case, as in --set train.steps=3; repeatable. A list, as in\n"             \
     "                           train.optimizer.lr=[3e-4,6e-4], makes a case for each value"},    \
    {"trust", 0, NULL, "start programs that the suite or an imported run names by path"},          \
    {"name", 0, "NAME", "a name that other verbs accept in place of the run's number"},            \
    {"note", 0, "TEXT", "a remark, stored with the run"},                                          \
    {"out", 0, "DIR", "folder of the run's files (default: run-N next to the database)"},           \
    {"quiet", 'q', NULL, "no progress"},                                                           \
    {"worker", 0, "PROGRAM", NULL}
// The same for verbs that can resume a session.
#define BT_CLI_AB_OPTIONS                                                                          \
    {"resume", 0, "RUN", "finish an interrupted session: completed rounds are not repeated"},      \
    BT_CLI_AB_OPTIONS_NEW
// clang-format on

// A fraction, such as 0.02; the fallback if it was not given.
// Errors  INVALID_ARGUMENT naming the option
BT_CHECKED bt_status bt_cli_share(const bt_cli_arguments *arguments, const char *name,
                                  double fallback, double *share);
// --seed, or a random one; below 2^53.
BT_CHECKED bt_status bt_cli_order_seed(const bt_cli_arguments *arguments, uint64_t *seed);
// --policy, or METHOD's with --tolerance and --rounds-max.
// Owns    *out: the caller, bt_policy_release
BT_CHECKED bt_status bt_cli_ab_policy(const bt_cli_arguments *arguments, bt_policy *out);

enum { BT_CLI_AB_SYSTEMS_MAX = 3 };

// State of one call of a verb. Owned and released by bt_cli_ab.
typedef struct bt_cli_ab_session {
    bt_cli_call *call;                 // borrowed
    const bt_cli_arguments *arguments; // borrowed
    bt_policy policy;
    bt_ab_rounds rounds;
    bt_cli_suite suite;
    bt_ab_side sides[2];                    // the compared builds; zeroed: none
    bt_peer systems[BT_CLI_AB_SYSTEMS_MAX]; // for the suite; texts borrowed
    bt_store_run record;                    // of a resumed session
} bt_cli_ab_session;

typedef struct bt_cli_ab_verb {
    const char *kind;  // of the schedule
    bool fixed_rounds; // the plan's number of rounds, independent of results
    // Reads the options of a new session: policy, suite, its systems and seed.
    bt_status (*begin)(bt_cli_ab_session *session);
    // Judges the recorded run in the store of the call, stores the verdicts, and sets output and
    // exit code of the call.
    bt_status (*judge)(const bt_cli_ab_session *session, int64_t run);
} bt_cli_ab_verb;

// Begins a session, or resumes the one of --resume (with plan, policy, seed and systems of the
// record), runs it and calls `judge`.
BT_CHECKED bt_status bt_cli_ab(const bt_cli_ab_verb *verb, bt_cli_call *call);

#endif
