// harness/stats/tdist.c - Student's t distribution
#include "harness/stats/tdist.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#define FRACTION_TERMS_MAX                                                                         \
    20000 // the number of terms grows with the root of the parameters: 1e6
          // takes some 2,000
#define NEWTON_STEPS_MAX 200

static const double freedom_max = 1e6;

// The continued fraction of I_x(a, b), by Lentz's method; for x < (a + 1) / (a + b + 2).
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1.0;
    double d = 1.0 - (a + b) * x / (a + 1.0);
    d = 1.0 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= FRACTION_TERMS_MAX; ++m) {
        double even = (double)m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 + even * d;
        c = 1.0 + even / c;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        value *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 + odd * d;
        c = 1.0 + odd / c;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        value *= d * c;
        if (fabs(d * c - 1.0) <= DBL_EPSILON) {
            return value;
        }
    }
    return (double)NAN;
}

// log of the beta function. lgamma writes the global signgam; lgamma_r does not.
static double log_beta(double a, double b)
{
    int sign = 0;
    return lgamma_r(a, &sign) + lgamma_r(b, &sign) - lgamma_r(a + b, &sign);
}

// I_x(a, b), given 1 - x more precisely than x allows.
static double incomplete_beta(double a, double b, double x, double rest)
{
    if (x <= 0.0 || rest <= 0.0) {
        return x <= 0.0 ? 0.0 : 1.0;
    }
    double front = exp(a * log(x) + b * log(rest) - log_beta(a, b));
    if (x < (a + 1.0) / (a + b + 2.0)) {
        return front * beta_fraction(a, b, x) / a;
    }
    return 1.0 - front * beta_fraction(b, a, rest) / b;
}

double bt_incomplete_beta(double a, double b, double x)
{
    if (!(a > 0.0) || !(b > 0.0) || !(x >= 0.0 && x <= 1.0)) {
        return (double)NAN;
    }
    return incomplete_beta(a, b, x, 1.0 - x);
}

double bt_t_upper_tail(double t, double freedom)
{
    if (isnan(t) || !(freedom > 0.0 && freedom <= freedom_max)) {
        return (double)NAN;
    }
    if (isinf(t)) {
        return t > 0.0 ? 0.0 : 1.0;
    }
    double sum = freedom + t * t;
    double both = incomplete_beta(freedom / 2.0, 0.5, freedom / sum, t * t / sum);
    return t >= 0.0 ? both / 2.0 : 1.0 - both / 2.0;
}

static double log_density(double t, double freedom)
{
    return -log_beta(freedom / 2.0, 0.5) - log(freedom) / 2.0 -
           (freedom + 1.0) / 2.0 * log1p(t * t / freedom);
}

// Newton's method on the logarithm of the tail, kept inside a shrinking bracket.
static double positive_quantile(double tail, double freedom)
{
    double low = 0.0, high = 1.0;
    while (bt_t_upper_tail(high, freedom) > tail && high < DBL_MAX / 4.0) {
        low = high;
        high *= 2.0;
    }
    double t = low + (high - low) / 2.0;
    for (int i = 0; i < NEWTON_STEPS_MAX; ++i) {
        double here = bt_t_upper_tail(t, freedom);
        if (here > tail) {
            low = t;
        } else {
            high = t;
        }
        double step = (log(here) - log(tail)) * here / exp(log_density(t, freedom));
        if (fabs(step) <= 2.0 * DBL_EPSILON * t) {
            return t + step;
        }
        bool inside = t + step > low && t + step < high;
        t = inside ? t + step : low + (high - low) / 2.0;
    }
    return t;
}

double bt_t_upper_quantile(double tail, double freedom)
{
    if (!(tail > 0.0 && tail < 1.0) || !(freedom > 0.0 && freedom <= freedom_max)) {
        return (double)NAN;
    }
    if (tail == 0.5) {
        return 0.0;
    }
    return tail < 0.5 ? positive_quantile(tail, freedom) : -positive_quantile(1.0 - tail, freedom);
}
