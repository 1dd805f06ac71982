// harness/stats/bootstrap.c - percentile bootstrap
#include "harness/stats/bootstrap.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/stats/stats.h"

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

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

bt_status bt_bootstrap_interval(const double *values, int64_t count, bt_statistic statistic,
                                void *context, int64_t draws, double confidence, uint64_t seed,
                                double *low, double *high)
{
    void *block = NULL, *found_block = NULL;
    bt_status status = BT_OK;
    *low = *high = (double)NAN;
    if (count < 1) {
        return BT_OK;
    }
    BT_TRY(bt_mem_alloc((size_t)count, sizeof(double), &block));
    double *draw = block, *found = NULL;
    BT_TRY_GOTO(bt_mem_alloc((size_t)draws, sizeof(double), &found_block), done);
    found = found_block;
    bool known = true;
    for (int64_t i = 0; i < draws; ++i) {
        bt_bootstrap_draw(values, count, seed, (uint64_t)i, draw);
        found[i] = statistic(draw, count, context);
        known = known && !isnan(found[i]);
    }
    if (known) {
        qsort(found, (size_t)draws, sizeof *found, compare);
        *low = bt_stats_quantile(found, draws, (1.0 - confidence) / 2.0);
        *high = bt_stats_quantile(found, draws, (1.0 + confidence) / 2.0);
    }
done:
    bt_mem_free(found);
    bt_mem_free(draw);
    return status;
}
