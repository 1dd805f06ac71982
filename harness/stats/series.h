// harness/stats/series.h - effective number of independent values of a time series
//
// The variance of a mean of n values whose autocorrelations are r(1), r(2) ... is that of n / tau
// independent ones, tau = 1 + 2 sum r(k). Two estimates of tau are computed and the larger one is
// used:
//   - that of an autoregressive process of first order with the lag-1 correlation of the series,
//     corrected for its bias in short series (Kendall 1954), r + (1 + 4 r) / n, and raised by its
//     standard error, because a value that is too small makes intervals too narrow;
//   - the sum over lags while pairs of neighbours are positive (Geyer 1992), for slower memory.
// The result is at most n, and n for a constant series. In 30 values a correlation of 0.9 cannot be
// distinguished from a smaller one: the coverage of intervals of so few values is lower than
// stated.
#ifndef BT_HARNESS_STATS_SERIES_H
#define BT_HARNESS_STATS_SERIES_H

#include <stdint.h>

// For the mean: n / tau of values [count] around `mean`; >= 1.
double bt_series_effective(const double *values, int64_t count, double mean);
// For the median: the same for the signs of values - median, which determine its rank.
double bt_series_effective_signs(const double *values, int64_t count, double median);

#endif
