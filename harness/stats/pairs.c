// harness/stats/pairs.c - see pairs.h
#include "harness/stats/pairs.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "harness/stats/stats.h"

// The lower median of the known values; NaN if there are none. known [count] is overwritten.
static double median_known(const double *values, int64_t count, double *known)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (!isnan(values[i])) {
            known[found++] = values[i];
        }
    }
    if (found == 0) {
        return (double)NAN;
    }
    qsort(known, (size_t)found, sizeof *known, bt_ascending);
    return known[(found - 1) / 2];
}

int64_t bt_pairs_of(const double *base, const double *candidate, int64_t count, double *logs,
                    int64_t *lone)
{
    const double before = median_known(base, count, logs);
    const double now = median_known(candidate, count, logs);
    int64_t pairs = 0;
    *lone = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (!isnan(base[i]) && !isnan(candidate[i])) {
            logs[pairs++] = candidate[i] - base[i];
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        const bool lost_base = isnan(base[i]), lost_candidate = isnan(candidate[i]);
        const double ratio = lost_base ? candidate[i] - before : now - base[i];
        if (lost_base != lost_candidate && !isnan(ratio)) {
            logs[pairs + (*lone)++] = ratio;
        }
    }
    return pairs;
}
