// harness/cases/returned.h - outputs that a peer returns: what it is told, and how they are checked
//
// A peer gets the inputs of a kernel case as files and returns the outputs, or a sample of them, as
// files; the recorder compares them with its own reference in f64, within the bounds of our own
// kernels. harness/peers/README.md says what a peer has to do.
#ifndef BT_HARNESS_CASES_RETURNED_H
#define BT_HARNESS_CASES_RETURNED_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

// Whether a peer can return the outputs of a case: the operation means the same to frameworks.
bool bt_returned_can(const cJSON *kernel);
// Makes `folder` with the files of inputs and appends the task's key "returns" with a comma before
// it. Only for cases that bt_returned_can.
// Errors  IO, OUT_OF_MEMORY
BT_CHECKED bt_status bt_returned_ask(const cJSON *kernel, const char *folder, bt_str *task);
// Compares what the peer left in `folder`. `precision`: that in which it says to have computed, ""
// for the case's; "tf32" widens the bounds. *worst is the largest error as a share of its
// tolerance. Errors  INTERNAL (a wrong output, with the worst element), CORRUPT_DATA (a file of
// another size),
//         IO (a missing one), INVALID_ARGUMENT (a precision that is unknown)
BT_CHECKED bt_status bt_returned_check(const cJSON *kernel, const char *folder,
                                       const char *precision, double *worst);
// Removes the folder with all that bt_returned_ask and the peer put there, but for folders.
void bt_returned_remove(const char *folder);

#endif
