// harness/report/thin.c - thins long curves for drawing; figures are not computed from these
#include <math.h>
#include <stdlib.h>

#include "harness/report/curves.h"
#include "harness/report/internal.h"

int64_t bt_curve_thin(double *x, double *y, int64_t count, int64_t buckets)
{
    int64_t finite = 0, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(y[i])) {
            x[finite] = x[i];
            y[finite++] = y[i];
        }
    }
    if (finite <= 2 * buckets) {
        return finite;
    }
    for (int64_t b = 0; b < buckets; b++) {
        int64_t begin = finite * b / buckets, end = finite * (b + 1) / buckets;
        int64_t low = begin, high = begin;
        for (int64_t i = begin; i < end; i++) {
            low = y[i] < y[low] ? i : low;
            high = y[i] > y[high] ? i : high;
        }
        int64_t first = low < high ? low : high, second = low < high ? high : low;
        double first_x = x[first], first_y = y[first], second_x = x[second], second_y = y[second];
        x[kept] = first_x;
        y[kept++] = first_y;
        if (second != first) {
            x[kept] = second_x;
            y[kept++] = second_y;
        }
    }
    return kept;
}

int64_t bt_curve_medians(double *x, double *y, double *low, double *high, int64_t count,
                         int64_t buckets)
{
    int64_t kept = 0;
    if (count <= buckets) {
        return count;
    }
    for (int64_t b = 0; b < buckets; b++) {
        const int64_t begin = count * b / buckets, end = count * (b + 1) / buckets;
        const double middle_x = x[begin + (end - begin) / 2];
        double lowest = (double)NAN, highest = (double)NAN;
        for (int64_t i = begin; low && i < end; i++) {
            lowest = fmin(lowest, low[i]);
            highest = fmax(highest, high[i]);
        }
        qsort(y + begin, (size_t)(end - begin), sizeof *y, bt_ascending);
        const double median = bt_stats_quantile(y + begin, end - begin, 0.5);
        x[kept] = middle_x;
        if (low) {
            low[kept] = lowest;
            high[kept] = highest;
        }
        y[kept++] = median;
    }
    return kept;
}

int64_t bt_curve_flatten(double *x, double *y, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        bool inside = kept > 0 && i + 1 < count && y[i] == y[kept - 1] && y[i] == y[i + 1];
        if (!inside) {
            x[kept] = x[i];
            y[kept++] = y[i];
        }
    }
    return kept;
}
