// harness/stats/stats.c - order statistics
#include "harness/stats/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/stats/series.h"
#include "harness/stats/tdist.h"

#define CONFIDENCE    0.95
#define P95_COUNT_MIN 20 // with fewer, the 95th percentile is next to the largest sample

int bt_ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bt_mean_of(const double *values, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / (double)count;
}

double bt_squares_about(const double *values, int64_t count, double mean)
{
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    return squares;
}

double bt_stats_quantile(const double *sorted, int64_t count, double share)
{
    if (count <= 0) {
        return (double)NAN;
    }
    double at = share * (double)(count - 1);
    int64_t below = (int64_t)floor(at);
    if (below >= count - 1) {
        return sorted[count - 1];
    }
    double part = at - (double)below;
    // Written such that equal neighbors, also infinite ones, give their value.
    if (sorted[below] == sorted[below + 1] || part == 0.0) {
        return sorted[below];
    }
    return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

// P(X <= k), X binomial(count, 1/2), is summed from k = 0 in logarithms, since 2^-count underflows.
double bt_stats_median_ranks(int64_t count, double confidence, int64_t *low, int64_t *high)
{
    double log_term = -(double)count * log(2.0); // of P(X = k)
    double tail = 0.0;                           // P(X < k)
    double limit = (1.0 - confidence) / 2.0;
    int64_t k = 0;
    *low = 0;
    *high = count - 1;
    if (count <= 0) {
        *high = 0;
        return 0.0;
    }
    // The interval of ranks [k-1, count-k] misses the median if fewer than k samples are on one
    // side of it.
    double coverage = 1.0 - 2.0 * exp(log_term);
    while (2 * k < count) {
        tail += exp(log_term);
        log_term += log((double)(count - k) / (double)(k + 1));
        if (tail > limit || 2 * k > count - 1) {
            break;
        }
        *low = k;
        *high = count - 1 - k;
        coverage = 1.0 - 2.0 * tail;
        k++;
    }
    return coverage > 0.0 ? coverage : 0.0;
}

static void set_nan(bt_stats *out)
{
    out->min = out->max = out->mean = out->median = (double)NAN;
    out->mad = out->low = out->high = out->p95 = (double)NAN;
    out->mean_low = out->mean_high = (double)NAN;
}

// Fills all but mad and the intervals, from sorted values.
static void describe(const double *sorted, int64_t count, bt_stats *out)
{
    out->min = sorted[0];
    out->max = sorted[count - 1];
    out->mean = bt_mean_of(sorted, count);
    out->median = bt_stats_quantile(sorted, count, 0.5);
    out->effective = (double)count;
    if (count >= P95_COUNT_MIN) {
        out->p95 = bt_stats_quantile(sorted, count, 0.95);
    }
}

// The interval of the median of `effective` independent values: exact by the binomial if they are
// all values; otherwise ranks by the normal approximation, with Student's t in place of the normal
// quantile because the autocorrelation was estimated from the same values.
static void set_median_interval(const double *sorted, double effective, bt_stats *out)
{
    int64_t low = 0, high = 0, count = out->count;
    double coverage = bt_stats_median_ranks(count, CONFIDENCE, &low, &high);
    if (effective < (double)count) {
        double t = bt_t_upper_quantile((1.0 - CONFIDENCE) / 2.0, effective - 1.0);
        double middle = (double)(count - 1) / 2.0;
        double below = floor(middle - t * (double)count / (2.0 * sqrt(effective)));
        coverage = below >= 0.0 ? CONFIDENCE : 0.0;
        low = (int64_t)below;
        high = count - 1 - low;
    }
    if (coverage >= CONFIDENCE) {
        out->low = sorted[low];
        out->high = sorted[high];
        out->coverage = coverage;
    }
}

// The t interval of the mean; correlated values have a smaller spread than their distribution.
static void set_mean_interval(const double *sorted, double effective, bt_stats *out)
{
    const double count = (double)out->count;
    const double squares = bt_squares_about(sorted, out->count, out->mean);
    double error = sqrt(squares / (count - count / effective) / effective);
    double reach = bt_t_upper_quantile((1.0 - CONFIDENCE) / 2.0, effective - 1.0) * error;
    out->mean_low = out->mean - reach;
    out->mean_high = out->mean + reach;
}

static bt_status describe_all(const double *values, int64_t count, bool series, bt_stats *out)
{
    enum { INTERVAL_COUNT_MIN = 6 };
    memset(out, 0, sizeof *out);
    out->count = count;
    set_nan(out);
    for (int64_t i = 0; i < count; i++) {
        if (isnan(values[i])) {
            return BT_OK;
        }
    }
    if (count <= 0) {
        return BT_OK;
    }
    BT_SCOPED_MEM(double *) sorted = NULL;
    BT_TRY(BT_MEM_ARRAY(count, &sorted));
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, bt_ascending);
    describe(sorted, count, out);
    double of_median = (double)count, of_mean = (double)count;
    if (series) {
        of_median = bt_series_effective_signs(values, count, out->median);
        of_mean = bt_series_effective(values, count, out->mean);
        out->effective = of_mean < of_median ? of_mean : of_median;
    }
    if (of_median >= INTERVAL_COUNT_MIN) {
        set_median_interval(sorted, of_median, out);
    }
    if (of_mean >= INTERVAL_COUNT_MIN && isfinite(out->mean)) {
        set_mean_interval(sorted, of_mean, out);
    }
    for (int64_t i = 0; i < count; i++) {
        sorted[i] = fabs(sorted[i] - out->median);
    }
    qsort(sorted, (size_t)count, sizeof *sorted, bt_ascending);
    out->mad = bt_stats_quantile(sorted, count, 0.5);
    return BT_OK;
}

bt_status bt_stats_of(const double *values, int64_t count, bt_stats *out)
{
    return describe_all(values, count, false, out);
}

bt_status bt_stats_median(const double *values, int64_t count, double *median)
{
    bt_stats stats;
    BT_TRY(bt_stats_of(values, count, &stats));
    *median = stats.median;
    return BT_OK;
}

bt_status bt_stats_of_series(const double *values, int64_t count, bt_stats *out)
{
    return describe_all(values, count, true, out);
}

bt_status bt_stats_of_steps(const bt_store_step *steps, int64_t count, bt_step_stats *out)
{
    int64_t kept = 0, on_device = 0;
    BT_SCOPED_MEM(void *) block = NULL;
    double tokens = 0.0, time_ns = 0.0;
    memset(out, 0, sizeof *out);
    out->rate_tok_s = out->rate_low = out->rate_high = (double)NAN;
    BT_TRY(bt_mem_alloc((size_t)count * 3, sizeof(double), &block));
    double *host = block, *device = host + count, *rate = device + count;
    BT_EACH(const bt_store_step, step, steps, count) {
        if (step->warmup || step->profiled || step->host_ns <= 0) {
            continue;
        }
        host[kept] = (double)step->host_ns;
        rate[kept] = (double)step->tokens * 1e9 / (double)step->host_ns;
        kept++;
        tokens += (double)step->tokens;
        time_ns += (double)step->host_ns;
        if (step->device_ns > 0) {
            device[on_device++] = (double)step->device_ns;
        }
    }
    out->left_out = count - kept;
    BT_TRY(bt_stats_of_series(host, kept, &out->host_ns));
    BT_TRY(bt_stats_of_series(device, on_device, &out->device_ns));
    BT_TRY(bt_stats_of_series(rate, kept, &out->tokens_per_s));
    if (kept > 0) {
        double per_step = tokens * 1e9 / (double)kept;
        out->rate_tok_s = tokens * 1e9 / time_ns;
        out->rate_low = per_step / out->host_ns.mean_high;
        out->rate_high =
            out->host_ns.mean_low > 0.0 ? per_step / out->host_ns.mean_low : (double)NAN;
    }
    return BT_OK;
}

double bt_time_left(double spent_ns, int64_t done, int64_t left)
{
    return done > 0 ? spent_ns / (double)done * (double)left : (double)NAN;
}
