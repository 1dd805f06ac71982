// harness/gate/describe.h - baselines as text and JSON
#ifndef BT_HARNESS_GATE_DESCRIBE_H
#define BT_HARNESS_GATE_DESCRIBE_H

#include "harness/gate/baseline.h"
#include "harness/store/store.h"

// One line per baseline; all: including history, else only the current one of each name and
// machine. Texts are fitted to `columns` of a terminal, 0: any number.
BT_CHECKED bt_status bt_baseline_list_text(const bt_store_baseline_list *list, bool all,
                                           int columns, bt_str *out);
BT_CHECKED bt_status bt_baseline_list_json(const bt_store_baseline_list *list, bool all,
                                           bt_str *out);
// The contents of a baseline. run 0: it was read from a file.
BT_CHECKED bt_status bt_baseline_text(const bt_baseline *baseline, int64_t run, int columns,
                                      bt_str *out);

#endif
