// framework/train/guard.c - medians over a small window
#include "framework/train/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SIGMAS = 8, SIGMA_OF_MAD = 1.4826, LEAST_RISE = 0.1, NORM_FACTOR = 10;

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_of(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

// The window's median and sigma.
static void describe(const bt_guard_series *series, double *median, double *sigma)
{
    double values[BT_GUARD_WINDOW];
    const int64_t count = series->count < BT_GUARD_WINDOW ? series->count : BT_GUARD_WINDOW;
    memcpy(values, series->value, (size_t)count * sizeof *values);
    *median = median_of(values, count);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = fabs(series->value[i] - *median);
    }
    *sigma = SIGMA_OF_MAD * median_of(values, count);
}

static void take(bt_guard_series *series, double value, double limit, bt_guard_flag *flag)
{
    const bool over = series->count >= BT_GUARD_LEAST && value > limit;
    flag->raised = over && !series->flagged;
    flag->limit = limit;
    series->flagged = over;
    series->value[series->count++ % BT_GUARD_WINDOW] = value;
}

void bt_guard_look(bt_guard *guard, double loss, double norm, bt_guard_flag *spike,
                   bt_guard_flag *explosion)
{
    double sigma = 0;
    *spike = *explosion = (bt_guard_flag){0};
    if (guard->loss.count > 0) {
        describe(&guard->loss, &spike->median, &sigma);
    }
    take(&guard->loss, loss, spike->median + fmax(SIGMAS * sigma, LEAST_RISE * fabs(spike->median)),
         spike);
    if (guard->norm.count > 0) {
        describe(&guard->norm, &explosion->median, &sigma);
    }
    take(&guard->norm, norm, NORM_FACTOR * explosion->median, explosion);
}
