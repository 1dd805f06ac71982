// harness/stats/stats.h - what many numbers say: order statistics with intervals, and rates
//
// Samples with NaN in them have no order: every result is NaN then. Nothing here knows where the
// numbers come from; an interval describes the samples, it is no verdict on two builds (METHOD:
// the unit of a decision is the round).
#ifndef BT_HARNESS_STATS_STATS_H
#define BT_HARNESS_STATS_STATS_H

#include <stdint.h>

#include "framework/base/status.h"
#include "harness/store/store.h"

typedef struct bt_stats {
    int64_t count;
    double min, max, mean, median;
    double mad;       // median of |x - median|, not scaled
    double low, high; // 95 % order-statistic interval of the median
    double coverage;  // what the interval covers at least; below 0.95 with fewer than 6 samples,
                      // where it is [min, max]; 0 without samples
} bt_stats;

// Summary of values [count]; with count 0 all but count and coverage are NaN.
// Errors  OUT_OF_MEMORY (it sorts a copy)
BT_CHECKED bt_status bt_stats_of(const double *values, int64_t count, bt_stats *out);

// Quantile of sorted values [count], linear between neighbours (R type 7, NumPy's default);
// 0 <= share <= 1. NaN when count is 0.
double bt_stats_quantile(const double *sorted, int64_t count, double share);

// The interval of the median of `count` samples in ranks from 0: sorted[*low] to sorted[*high],
// with *low + *high = count - 1. The largest rank whose binomial tails hold at most 1 - confidence.
// Returns the coverage.
// Source: David & Nagaraja, "Order Statistics", 3rd ed., 7.1.
double bt_stats_median_ranks(int64_t count, double confidence, int64_t *low, int64_t *high);

// Of the steps that are measurements, neither warm-up nor profiled: time per step in ns (host_ns,
// or device_ns, where steps without one are left out) and tokens per second of host time.
// All zero-count summaries when there are none.
// Errors  OUT_OF_MEMORY
typedef struct bt_step_stats {
    bt_stats host_ns, device_ns, tokens_per_s;
    int64_t left_out; // warm-up and profiled steps
} bt_step_stats;

BT_CHECKED bt_status bt_stats_of_steps(const bt_store_step *steps, int64_t count,
                                       bt_step_stats *out);

#endif
