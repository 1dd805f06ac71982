// harness/stats/series.c - integrated autocorrelation time, by two estimates
#include "harness/stats/series.h"

#include <math.h>
#include <stdbool.h>

#define CORRELATION_MAX 0.999
#define TERM_MIN        1e-4
#define LAGS_MAX        256
#define HALF_PI         1.5707963267948966

// A series, or its signs.
typedef struct series {
    const double *values; // [count], borrowed
    int64_t count;
    double middle;
    bool signs;
} series;

static double deviation(const series *self, int64_t index)
{
    double gap = self->values[index] - self->middle;
    return self->signs ? (double)((gap > 0.0) - (gap < 0.0)) : gap;
}

static double covariance(const series *self, int64_t lag)
{
    double sum = 0.0;
    for (int64_t i = lag; i < self->count; ++i) {
        sum += deviation(self, i) * deviation(self, i - lag);
    }
    return sum / (double)self->count;
}

// tau of a first-order process with this corrected lag-1 correlation. If it is normal, its signs
// have the correlation 2 / pi asin(rho^k) at lag k.
static double tau_of_first_order(const series *self, double lag1)
{
    double rho = self->signs ? sin(HALF_PI * lag1) : lag1;
    rho += (1.0 + 4.0 * rho) / (double)self->count;
    rho += sqrt(fmax(0.0, 1.0 - rho * rho) / (double)self->count);
    rho = fmin(rho, CORRELATION_MAX);
    if (rho <= 0.0) {
        return 1.0;
    }
    if (!self->signs) {
        return (1.0 + rho) / (1.0 - rho);
    }
    double tau = 1.0;
    for (double power = rho; power > TERM_MIN; power *= rho) {
        tau += 2.0 * asin(power) / HALF_PI;
    }
    return tau;
}

// Sums pairs of lags (2k, 2k + 1) while they are positive.
static double tau_of_positive_pairs(const series *self, double variance, double lag1)
{
    double tau = 1.0 + 2.0 * lag1;
    for (int64_t lag = 2; lag + 1 < self->count / 2 && lag < LAGS_MAX; lag += 2) {
        double pair = (covariance(self, lag) + covariance(self, lag + 1)) / variance;
        if (!(pair > 0.0)) {
            break;
        }
        tau += 2.0 * pair;
    }
    return tau;
}

// A lag-1 correlation that independent values may have by chance is ignored: it does not widen the
// interval.
static double effective(const series *self)
{
    double count = (double)self->count;
    double variance = covariance(self, 0);
    if (self->count < 3 || !(variance > 0.0) || !isfinite(variance)) {
        return count;
    }
    double lag1 = covariance(self, 1) / variance;
    if (lag1 < 1.0 / sqrt(count)) {
        return count;
    }
    double tau = fmax(tau_of_first_order(self, lag1), tau_of_positive_pairs(self, variance, lag1));
    return fmin(count, fmax(1.0, count / fmax(tau, 1.0)));
}

double bt_series_effective(const double *values, int64_t count, double mean)
{
    return effective(&(series){values, count, mean, false});
}

double bt_series_effective_signs(const double *values, int64_t count, double median)
{
    return effective(&(series){values, count, median, true});
}
