// harness/stats/bootstrap.h - intervals by resampling, for display; nothing is decided by them
//
// A draw takes as many values as there are, with replacement, and the statistic of it; the interval
// is between quantiles of the statistic over many draws (percentile bootstrap). Random numbers are
// counter-based: equal seeds give equal intervals, whatever else ran.
// Source  Efron & Tibshirani, "An Introduction to the Bootstrap", 13.3
#ifndef BT_HARNESS_STATS_BOOTSTRAP_H
#define BT_HARNESS_STATS_BOOTSTRAP_H

#include <stdint.h>

#include "framework/base/status.h"

typedef double (*bt_statistic)(const double *values, int64_t count, void *context);

// The interval of statistic(values [count]) at `confidence`, of `draws` draws. NaN without values.
// A statistic that is NaN in any draw makes both ends NaN.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_bootstrap_interval(const double *values, int64_t count,
                                           bt_statistic statistic, void *context, int64_t draws,
                                           double confidence, uint64_t seed, double *low,
                                           double *high);
double bt_statistic_mean(const double *values, int64_t count, void *context); // needs no context

// Fills draw [count] with the values of draw number `index` of a seed.
void bt_bootstrap_draw(const double *values, int64_t count, uint64_t seed, uint64_t index,
                       double *draw);

#endif
