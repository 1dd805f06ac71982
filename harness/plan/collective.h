// harness/plan/collective.h - collective cases: expands lists, computes bus bytes
#ifndef BT_HARNESS_PLAN_COLLECTIVE_H
#define BT_HARNESS_PLAN_COLLECTIVE_H

#include "harness/plan/kernel.h"

// The cases NAME.OP.DTYPE.SIZE.GROUP of collective: {op, dtype, size, ranks, group, ...}. A case is
// recorded as the call of a kernel: {op, dtype, shape: elements, bytes: bus bytes, ranks, group}.
// Errors  INVALID_ARGUMENT (a size that is not a whole number of elements per rank), OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_collective_expand(const bt_plan_expansion *self);
// "4KiB", "25MiB" or "1000" (bytes); false: none of these, or more than 2^40.
bool bt_collective_size_parse(const char *text, int64_t *size_bytes);

#endif
