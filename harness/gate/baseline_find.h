// harness/gate/baseline_find.h - finds a baseline by name or file
#ifndef BT_HARNESS_GATE_BASELINE_FIND_H
#define BT_HARNESS_GATE_BASELINE_FIND_H

#include "harness/gate/baseline.h"
#include "harness/store/store.h"

// A file (a word with a slash or ".json"), or a name: that machine's in the database, else
// results/baselines/<machine>/<name>.json of the working directory or the installation, else any
// machine's in the database.
// store    NULL: no database
// machine  type of the machine; NULL: any
// Owns     *out: the caller, bt_baseline_release
// Errors   INVALID_ARGUMENT (none of that name, with the existing names; a file that is not a
//          baseline)
BT_CHECKED bt_status bt_baseline_find(bt_store *store, const char *given, const char *machine,
                                      bt_baseline *out);

#endif
