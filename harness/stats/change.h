// harness/stats/change.h - where a series changed its level
//
// For a history: one value per session, in time order. A change is a shift of the level that lasts
// at least BT_CHANGE_SEGMENT_MIN values; a single outlier is none.
//
// Method: binary segmentation with a permutation test. Of scores x (see below), for each place k
// that leaves BT_CHANGE_SEGMENT_MIN values on both sides, T_k = |mean after - mean before| *
// sqrt(k (n - k) / n); the statistic is the largest. Its p-value is the share of random orders of
// the same values that reach it (exact up to the number of orders: no assumption on the noise, only
// that without a change the order means nothing). At p <= BT_CHANGE_ALPHA the series is split there
// and both parts are searched. At the end each place is put where T_k is largest between its
// neighbours, and one that is not significant there is dropped.
// Scores: (log v - median) / (1.4826 MAD), cut at +-2.5, so that an outlier counts 2.5 deviations
// and no more. They do not depend on the order, which keeps the test exact. Values that are not
// > 0 leave the series without scores and so without changes.
//
// Sessions of one machine are not independent: its temperature, its neighbours and its driver stay
// for days. A place that passes must therefore pass a second test, on series that are made without
// a shift but with correlated neighbours (AR(1), an upper estimate of the correlation, the
// residuals as innovations); the statistic is there the share of T_k^2 in all squares.
//
// Error rates, as tests/harness/test_change.c finds them: of series without a change at most 1 %
// are called changed when sessions are independent, at most 5 % at a correlation of 0.3, 0.5 and
// 0.7, of 12 to 100 sessions. The price is power. Found are, in deviations from session to session
// and without correlation: a shift of 3 behind ten sessions once five lie behind it in 38 %, of 5
// in 74 %; of 2 between twenty and twenty in 74 %, of 3 in 96 %. Fewer than ten sessions find
// nothing.
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
    double before, after; // medians of the levels beside it
    double p;             // at most BT_CHANGE_ALPHA
} bt_change;

// Finds the changes of values [count], ascending by index. The same values give the same changes.
// Owns    *changes [*change_count]: the caller, bt_mem_free; NULL when there is none
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_change_points(const double *values, int64_t count, bt_change **changes,
                                      int64_t *change_count);

#endif
