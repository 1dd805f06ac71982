// harness/stats/pairs.h - rounds of two sides, pair by pair
#ifndef BT_HARNESS_STATS_PAIRS_H
#define BT_HARNESS_STATS_PAIRS_H

#include <stdint.h>

// base, candidate [count]: logarithms of what rounds are worth, in the order of their pairs, NaN
// where a round was lost or has no value. Writes into logs [count] the log ratio of each whole
// pair, candidate over base, and behind these that of each lone round to the lower median of the
// other side; a lone round without another side is left out. Returns the number of pairs, *lone
// that of lone rounds.
int64_t bt_pairs_of(const double *base, const double *candidate, int64_t count, double *logs,
                    int64_t *lone);

#endif
