// harness/bundle/recompute.h - recomputes and compares everything that follows from raw data
#ifndef BT_HARNESS_BUNDLE_RECOMPUTE_H
#define BT_HARNESS_BUNDLE_RECOMPUTE_H

#include "harness/bundle/bundle.h"

// Adds a line to the findings.
void bt_bundle_find(bt_bundle_check *check, const char *format, ...) BT_PRINTF(2, 3);

// Whether two numbers are equal: exactly, both NaN, or within a relative 1e-12, by which the
// logarithms of C libraries may differ.
bool bt_recompute_same(double left, double right);

// Recomputes medians and intervals from samples, samples of steps from the steps, rates from times,
// peaks and losses from their rows, and the disturbance of rounds from telemetry samples. Each
// difference is a finding with case, metric and both numbers.
BT_CHECKED bt_status bt_recompute_measurements(const bt_store_run *run, bt_bundle_check *check);
// Recomputes every verdict of every kind, with the function that made it.
BT_CHECKED bt_status bt_recompute_verdicts(const bt_store_run *run, bt_bundle_check *check);
// Checks hashes of plan and environment, unless paths in them were shortened; rounds against the
// plan.
BT_CHECKED bt_status bt_recompute_hashes(const bt_store_run *run, bt_bundle_check *check);

#endif
