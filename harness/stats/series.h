// harness/stats/series.h - how many independent values a series in the order of time is worth
//
// The variance of a mean of n values whose autocorrelations are r(1), r(2) ... is that of n / tau
// independent ones, tau = 1 + 2 sum r(k). Two estimates of tau are made and the larger one counts:
//   - that of an autoregressive process of first order with the lag-1 correlation of the series,
//     corrected for its bias in short series (Kendall 1954), r + (1 + 4 r) / n, and raised by its
//     standard error, because a value that is too small makes intervals too narrow;
//   - the sum over lags while pairs of neighbours are positive (Geyer 1992), for slower memory.
// A series never counts as more than its n values, and a constant one counts as n. A correlation of
// 0.9 cannot be told from less in 30 values: intervals of so few hold it less often than they say.
#ifndef BT_HARNESS_STATS_SERIES_H
#define BT_HARNESS_STATS_SERIES_H

#include <stdint.h>

// For the mean: n / tau of values [count] about `mean`; >= 1.
double bt_series_effective(const double *values, int64_t count, double mean);
// For the median: the same of the signs of values - median, which decide its rank.
double bt_series_effective_signs(const double *values, int64_t count, double median);

#endif
