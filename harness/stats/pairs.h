// harness/stats/pairs.h - pairs the rounds of two sides
#ifndef BT_HARNESS_STATS_PAIRS_H
#define BT_HARNESS_STATS_PAIRS_H

#include <stdint.h>

// base, candidate [count]: logarithms of the rounds' values, in the order of their pairs, NaN if a
// round was lost or has no value. Writes to logs [count] the log ratio of each complete pair,
// candidate over base, followed by that of each lone round to the lower median of the other side; a
// lone round is dropped if the other side has none. Returns the number of pairs, *lone that of lone
// rounds.
int64_t bt_pairs_of(const double *base, const double *candidate, int64_t count, double *logs,
                    int64_t *lone);

#endif
