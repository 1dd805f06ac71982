// harness/stats/stats.h - order statistics with intervals, and rates
//
// If a sample is NaN, every result is NaN. An interval describes the samples; it is not a verdict
// on two builds (METHOD: the unit of a decision is the round).
#ifndef BT_HARNESS_STATS_STATS_H
#define BT_HARNESS_STATS_STATS_H

#include <stdint.h>

#include "framework/base/status.h"
#include "harness/record/record.h"

typedef struct bt_stats {
    int64_t count;
    double min, max, mean, median;
    double p95;                 // 95th percentile; NaN with fewer than 20 samples
    double mad;                 // median of |x - median|, not scaled
    double low, high;           // 95 % interval of the median; NaN: too few samples
    double coverage;            // of [low, high], a lower bound; 0 if there is none
    double mean_low, mean_high; // 95 % t interval of the mean; NaN: too few samples
    double effective;           // effective number of independent samples
} bt_stats;

// Summary of independent values [count], in any order; with count 0 everything except count,
// coverage and effective is NaN. Fewer than 6 values have no interval: [min, max] of 5 covers 93.75
// %.
// Errors  OUT_OF_MEMORY (it sorts a copy)
BT_CHECKED bt_status bt_stats_of(const double *values, int64_t count, bt_stats *out);

// Their median; NaN without values. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_stats_median(const double *values, int64_t count, double *median);

// The same as bt_stats_of for a time series, whose neighbors may be correlated: the intervals are
// those of `effective` independent values, derived from the autocorrelation (series.c). With fewer
// than 6 of these there is no interval. Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_stats_of_series(const double *values, int64_t count, bt_stats *out);

// Quantile of sorted values [count], linear between neighbours (R type 7, NumPy's default);
// 0 <= share <= 1. NaN when count is 0.
double bt_stats_quantile(const double *sorted, int64_t count, double share);

// The interval of the median of `count` samples in ranks from 0: sorted[*low] to sorted[*high],
// with *low + *high = count - 1. The largest rank whose binomial tails hold at most 1 - confidence.
// Returns the coverage.
// Source: David & Nagaraja, "Order Statistics", 3rd ed., 7.1.
double bt_stats_median_ranks(int64_t count, double confidence, int64_t *low, int64_t *high);

// For measured steps, without warm-up and profiled ones: time per step in ns (host_ns, or
// device_ns, ignoring steps without one) and tokens per second of host time, as series; and the
// rate of the round: the sum of their tokens divided by the sum of their host times. Empty
// summaries and a NaN rate if there are none.
// Errors  OUT_OF_MEMORY
typedef struct bt_step_stats {
    bt_stats host_ns, device_ns, tokens_per_s;
    double rate_tok_s, rate_low, rate_high; // low, high: 95 % interval, NaN: none
    int64_t left_out;                       // warm-up and profiled steps
} bt_step_stats;

BT_CHECKED bt_status bt_stats_of_steps(const bt_store_step *steps, int64_t count,
                                       bt_step_stats *out);

// Mean of values [count], NaN without any; and the sum of squares about it. Two passes, because
// the values are close to each other.
double bt_mean_of(const double *values, int64_t count);
double bt_squares_about(const double *values, int64_t count, double mean);

// Estimated time of `left` more items, if `done` took spent_ns together. NaN: none was done.
double bt_time_left(double spent_ns, int64_t done, int64_t left);

// Orders doubles, for qsort.
int bt_ascending(const void *left, const void *right);

#endif
