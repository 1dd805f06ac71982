// harness/cases/returned.h - checks outputs that a peer returns
//
// A peer gets the inputs of a kernel case as files and returns the outputs, or a sample of them, as
// files; the recorder compares them with its own reference in f64, within the bounds of our own
// kernels. harness/run/PROTOCOL.md describes the peer's part.
#ifndef BT_HARNESS_CASES_RETURNED_H
#define BT_HARNESS_CASES_RETURNED_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

// Whether a peer can return the outputs of a case: frameworks define the operation in the same way.
bool bt_returned_can(const cJSON *kernel);
// Creates `folder` with the files of inputs and appends a comma and the task's key "returns". Only
// for cases with bt_returned_can.
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_returned_ask(const cJSON *kernel, const char *folder, bt_str *task);
// Compares the files that the peer wrote to `folder`. `precision`: the one that the peer reports,
// "" for the case's; "tf32" widens the bounds. *worst is the largest error as a fraction of its
// tolerance.
// Errors  INTERNAL (a wrong output, with the worst element), CORRUPT_DATA (a file of the wrong
//         size), IO (a missing file), INVALID_ARGUMENT (an unknown precision)
BT_CHECKED bt_status bt_returned_check(const cJSON *kernel, const char *folder,
                                       const char *precision, double *worst);
// Removes the folder with the files of bt_returned_ask and of the peer, but not subfolders.
void bt_returned_remove(const char *folder);

#endif
