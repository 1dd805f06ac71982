// harness/bundle/recompute.h - everything that follows from raw numbers, made again and compared
#ifndef BT_HARNESS_BUNDLE_RECOMPUTE_H
#define BT_HARNESS_BUNDLE_RECOMPUTE_H

#include "harness/bundle/bundle.h"

// Adds a line to the findings.
void bt_bundle_find(bt_bundle_check *check, const char *format, ...) BT_PRINTF(2, 3);

// Whether two numbers say the same: equal, both NaN, or apart by no more than 1e-12 of them, which
// is what the logarithms of two C libraries may differ by.
bool bt_recompute_same(double left, double right);

// Medians and intervals from samples, samples of steps from the steps, rates from times, peaks and
// losses from their rows; whether the machine disturbed a round, from the samples of it. Each
// difference is a finding with case, metric and both numbers.
BT_CHECKED bt_status bt_recompute_measurements(const bt_store_run *run, bt_bundle_check *check);
// Every verdict of every kind, by the function that made it.
BT_CHECKED bt_status bt_recompute_verdicts(const bt_store_run *run, bt_bundle_check *check);
// Hashes of plan and environment, unless paths in them were shortened; rounds against the plan.
BT_CHECKED bt_status bt_recompute_hashes(const bt_store_run *run, bt_bundle_check *check);

#endif
