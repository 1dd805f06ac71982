// harness/cli/run_name.h - resolves a user's name of a run
//
// A word is a run's number, `last` (the newest), `last-N` (N before it), `@NAME` (the newest run
// that made the baseline NAME), or the name given with --name. If several runs have the name, the
// newest is used.
#ifndef BT_HARNESS_CLI_RUN_NAME_H
#define BT_HARNESS_CLI_RUN_NAME_H

#include "harness/cli/cli.h"
#include "harness/store/store.h"

// The run that a word names. Errors  INVALID_ARGUMENT, with the nearest name
BT_CHECKED bt_status bt_cli_run_in(bt_store *store, const char *word, int64_t *run);
// Opens the database of --db, and finds the runs that `count` words name, from word `first` on.
BT_CHECKED bt_status bt_cli_open_runs(bt_cli_call *call, bt_store_mode mode, int64_t first,
                                      int64_t count, int64_t *runs);
// The same in the database of --db, which is opened for it unless the word is a number.
BT_CHECKED bt_status bt_cli_run(const bt_cli_arguments *arguments, const char *word, int64_t *run);
// Whether a word names a run, for verbs that also accept suites. A file of that name has
// precedence.
bool bt_cli_is_run(const bt_cli_arguments *arguments, const char *word);
// Whether a run may have this name; NULL: no name. Errors  INVALID_ARGUMENT
BT_CHECKED bt_status bt_cli_check_run_name(const char *name);

#endif
