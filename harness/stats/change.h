// harness/stats/change.h - change points of a series
//
// For a history: one value per session, in time order. A change is a shift of the level that lasts
// at least BT_CHANGE_SEGMENT_MIN values; a single outlier is not a change.
//
// Method: binary segmentation with a permutation test. Of scores x (see below), for each place k
// that leaves BT_CHANGE_SEGMENT_MIN values on both sides, T_k = |mean after - mean before| *
// sqrt(k (n - k) / n); the statistic is the largest. Its p-value is the fraction of random orders
// of the same values that reach it (exact up to the number of orders: no assumption on the noise,
// only that without a change the order means nothing). At p <= BT_CHANGE_ALPHA the series is split
// there and both parts are searched. Finally each position is moved to where T_k is largest between
// its neighbors, and dropped if it is not significant there.
// Scores: (log v - median) / (1.4826 MAD), clipped at +-2.5, so that an outlier counts at most 2.5
// deviations. They do not depend on the order, which keeps the test exact. If a value is not > 0,
// the series has no scores and so no changes.
//
// Sessions of one machine are not independent: its temperature, its load and its driver persist for
// days. A candidate must therefore pass a second test, on simulated series without a shift but with
// correlated neighbors (AR(1), an upper estimate of the correlation, the residuals as innovations);
// the statistic there is the fraction of T_k^2 in all squares.
//
// Error rates, measured by tests/harness/test_change.c: of series without a change at most 1 % are
// reported as changed if sessions are independent, at most 5 % at a correlation of 0.3, 0.5 and
// 0.7, of 12 to 100 sessions. Power, in standard deviations between sessions, without correlation:
// a shift of 3 after ten sessions, followed by five, is found in 38 %, of 5 in 74 %; a shift of 2
// between twenty and twenty sessions in 74 %, of 3 in 96 %. With fewer than ten sessions nothing is
// found.
//
// Source: Scott & Knott 1974 and Vostrikova 1981 (binary segmentation); Antoch & Huskova 2001,
// "Permutation tests in change point analysis"; Besag & Clifford 1991 (stopping early).
#ifndef BT_HARNESS_STATS_CHANGE_H
#define BT_HARNESS_STATS_CHANGE_H

#include <stdint.h>

#include "framework/base/status.h"

#define BT_CHANGE_ALPHA 0.01

enum { BT_CHANGE_SEGMENT_MIN = 3, BT_CHANGE_ORDERS = 1999 };

typedef struct bt_change {
    int64_t index;        // the first value of the new level
    double before, after; // medians of the levels before and after
    double p;             // at most BT_CHANGE_ALPHA
} bt_change;

// Finds the changes of values [count], ascending by index. The same values give the same changes.
// Owns    *changes [*change_count]: the caller, bt_mem_free; NULL if there are none
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_change_points(const double *values, int64_t count, bt_change **changes,
                                      int64_t *change_count);

#endif
