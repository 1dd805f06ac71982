// harness/cli/ab_session.h - shared by ab and calibrate: options, and a session with its verdict
#ifndef BT_HARNESS_CLI_AB_SESSION_H
#define BT_HARNESS_CLI_AB_SESSION_H

#include "harness/ab/rounds.h"
#include "harness/ab/side.h"
#include "harness/cli/run_suite.h"
#include "harness/gate/policy.h"

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
