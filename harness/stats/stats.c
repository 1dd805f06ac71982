// harness/stats/stats.c - order statistics
#include "harness/stats/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
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
    // Written so that equal neighbours, infinite ones too, give themselves.
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
    // Ranks [k-1, count-k] miss the median when fewer than k samples lie on one side of it.
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
    out->mad = out->low = out->high = (double)NAN;
}

// Fills all but mad, from sorted values.
static void describe(const double *sorted, int64_t count, bt_stats *out)
{
    int64_t low = 0, high = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += sorted[i];
    }
    out->min = sorted[0];
    out->max = sorted[count - 1];
    out->mean = sum / (double)count;
    out->median = bt_stats_quantile(sorted, count, 0.5);
    out->coverage = bt_stats_median_ranks(count, 0.95, &low, &high);
    out->low = sorted[low];
    out->high = sorted[high];
}

bt_status bt_stats_of(const double *values, int64_t count, bt_stats *out)
{
    void *block = NULL;
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
    BT_TRY(bt_mem_alloc((size_t)count, sizeof *values, &block));
    double *sorted = block;
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    describe(sorted, count, out);
    for (int64_t i = 0; i < count; i++) {
        sorted[i] = fabs(sorted[i] - out->median);
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    out->mad = bt_stats_quantile(sorted, count, 0.5);
    bt_mem_free(sorted);
    return BT_OK;
}

bt_status bt_stats_of_steps(const bt_store_step *steps, int64_t count, bt_step_stats *out)
{
    bt_status status = BT_OK;
    int64_t kept = 0, on_device = 0;
    void *block = NULL;
    memset(out, 0, sizeof *out);
    BT_TRY(bt_mem_alloc((size_t)count * 3, sizeof(double), &block));
    double *host = block, *device = host + count, *rate = device + count;
    for (int64_t i = 0; i < count; i++) {
        const bt_store_step *step = &steps[i];
        if (step->warmup || step->profiled || step->host_ns <= 0) {
            continue;
        }
        host[kept] = (double)step->host_ns;
        rate[kept] = (double)step->tokens * 1e9 / (double)step->host_ns;
        kept++;
        if (step->device_ns > 0) {
            device[on_device++] = (double)step->device_ns;
        }
    }
    out->left_out = count - kept;
    BT_TRY_GOTO(bt_stats_of(host, kept, &out->host_ns), done);
    BT_TRY_GOTO(bt_stats_of(device, on_device, &out->device_ns), done);
    BT_TRY_GOTO(bt_stats_of(rate, kept, &out->tokens_per_s), done);
done:
    bt_mem_free(block);
    return status;
}
