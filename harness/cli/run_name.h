// harness/cli/run_name.h - how a user names a run, wherever a verb takes one
//
// A word is a run's number, `last` (the newest), `last-N` (N before it), `@NAME` (the newest run
// that made the baseline NAME), or the name that the run was given with --name. Of several runs of
// one name the newest is meant.
#ifndef BT_HARNESS_CLI_RUN_NAME_H
#define BT_HARNESS_CLI_RUN_NAME_H

#include "harness/cli/cli.h"
#include "harness/store/store.h"

// The run that a word names. Errors  INVALID_ARGUMENT, with the nearest name
BT_CHECKED bt_status bt_cli_run_in(bt_store *store, const char *word, int64_t *run);
// The same in the database of --db, which is opened for it unless the word is a number.
BT_CHECKED bt_status bt_cli_run(const bt_cli_arguments *arguments, const char *word, int64_t *run);
// Whether a word names a run where a verb takes suites, too. A file of that name comes first.
bool bt_cli_is_run(const bt_cli_arguments *arguments, const char *word);
// Whether a run may be called so; NULL: it has no name. Errors  INVALID_ARGUMENT
BT_CHECKED bt_status bt_cli_check_run_name(const char *name);

#endif
