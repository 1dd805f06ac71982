// harness/cases/cases.h - what can be measured: bodies, on the worker's side
#ifndef BT_HARNESS_CASES_CASES_H
#define BT_HARNESS_CASES_CASES_H

#include <stdbool.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

// All kernels of the CPU, and of CUDA where its backend is built: a line each, or a JSON array.
// Opens no GPU.
BT_CHECKED bt_status bt_case_list_kernels(bool json, bt_str *out);

#endif
