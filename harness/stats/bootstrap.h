// harness/stats/bootstrap.h - draws with replacement
//
// Draws come from the counter-based generator, so equal arguments give equal bits everywhere.
#ifndef BT_HARNESS_STATS_BOOTSTRAP_H
#define BT_HARNESS_STATS_BOOTSTRAP_H

#include <stdint.h>

// Fills draw [count] with the values of draw number `index` of a seed.
void bt_bootstrap_draw(const double *values, int64_t count, uint64_t seed, uint64_t index,
                       double *draw);
double bt_statistic_mean(const double *values, int64_t count, void *context); // needs no context

#endif
