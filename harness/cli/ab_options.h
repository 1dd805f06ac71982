// harness/cli/ab_options.h - options that ab and calibrate share
#ifndef BT_HARNESS_CLI_AB_OPTIONS_H
#define BT_HARNESS_CLI_AB_OPTIONS_H

#include "harness/cli/run_suite.h"
#include "harness/gate/policy.h"

// Rows of a verb's table of options.
// clang-format off
#define BT_CLI_AB_OPTIONS                                                                          \
    {"resume", 0, "RUN", "finish an interrupted session: what has ended is not run again"},        \
    {"tolerance", 0, "SHARE",                                                                      \
     "slower by more is SLOWER (default: 0.01; 0.02 below 20 us; 0.005 of a step)"},               \
    {"rounds-max", 0, "N", "pairs of rounds per case at most (default: 24)"},                      \
    {"policy", 0, "NAME|FILE", "of a gate, in place of the two"},                                  \
    {"seed", 0, "N", "of the order of rounds (default: drawn, and recorded)"},                     \
    {"profile", 0, "NAME", "profile of the suite (default: the best that this machine can run)"},  \
    {"filter", 0, "TEXT", "only cases whose name contains TEXT, or matches it as a glob"},         \
    {"set", 0, "KEY=VALUE", "set a key of every case, as in --set train.steps=3; repeatable"},     \
    {"out", 0, "DIR", "where the run's files go (default: results/run-N)"},                        \
    {"quiet", 'q', NULL, "no progress"},                                                           \
    {"worker", 0, "PROGRAM", NULL}
// clang-format on

// A share, such as 0.02; the fallback when it was not given.
// Errors  INVALID_ARGUMENT naming the option
BT_CHECKED bt_status bt_cli_share(const bt_cli_arguments *arguments, const char *name,
                                  double fallback, double *share);
// --seed, or one that is drawn; below 2^53.
BT_CHECKED bt_status bt_cli_order_seed(const bt_cli_arguments *arguments, uint64_t *seed);
// --policy, or METHOD's with --tolerance and --rounds-max.
// Owns    *out: the caller, bt_policy_release
BT_CHECKED bt_status bt_cli_ab_policy(const bt_cli_arguments *arguments, bt_policy *out);

enum { BT_CLI_AB_SYSTEMS_MAX = 3 };

// A session of `kind` that was broken off, from its record: plan, policy, seed and systems.
// `record` holds their texts and must outlive the suite.
// Owns    *suite, *policy, *record: the caller, also after a failure
// Errors  INVALID_ARGUMENT (another kind of run; an option that the record says), UNAVAILABLE (a
//         program is another build by now), those of the store
BT_CHECKED bt_status bt_cli_ab_resume(const bt_cli_arguments *arguments, const char *kind,
                                      bt_cli_suite *suite, bt_policy *policy,
                                      bt_peer systems[BT_CLI_AB_SYSTEMS_MAX], bt_store_run *record);

#endif
