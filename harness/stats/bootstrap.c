// harness/stats/bootstrap.c - draws with replacement
#include "harness/stats/bootstrap.h"

#include "framework/base/rng.h"

void bt_bootstrap_draw(const double *values, int64_t count, uint64_t seed, uint64_t index,
                       double *draw)
{
    const bt_rng rng = {.seed = seed, .stream = index};
    for (int64_t i = 0; i < count; ++i) {
        draw[i] = values[bt_rng_below(rng, (uint64_t)i, (uint64_t)count)];
    }
}

double bt_statistic_mean(const double *values, int64_t count, void *context)
{
    double sum = 0;
    (void)context;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i];
    }
    return sum / (double)count;
}
