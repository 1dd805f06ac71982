// tests/harness/test_stats.c - against values worked by hand, exact binomials and R's definitions
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/stats/summary.h"

#define CLOSE(actual, expected)                                                                    \
    do {                                                                                           \
        double close_actual = (actual), close_expected = (expected);                               \
        test_assert_close(&close_actual, &close_expected, 1, 1e-12, 1e-12, #actual);               \
    } while (0)

static void small_cases_by_hand(void **state)
{
    (void)state;
    bt_stats stats;
    double odd[] = {5.0, 1.0, 4.0, 2.0, 30.0};
    ASSERT_OK(bt_stats_of(odd, 5, &stats));
    CLOSE(stats.median, 4.0);
    CLOSE(stats.mean, 8.4);
    CLOSE(stats.mad, 2.0); // |x - 4| = 1 3 0 2 26
    CLOSE(stats.min, 1.0);
    CLOSE(stats.max, 30.0);
    assert_true(isnan(stats.low) && isnan(stats.high)); // five samples reach 15/16 only
    assert_true(isnan(stats.mean_low) && stats.coverage == 0.0);
    double six[] = {5.0, 1.0, 4.0, 2.0, 30.0, 3.0};
    ASSERT_OK(bt_stats_of(six, 6, &stats));
    CLOSE(stats.low, 1.0);
    CLOSE(stats.high, 30.0);
    CLOSE(stats.coverage, 1.0 - 2.0 / 64.0);
    CLOSE(stats.mean_low, 7.5 - 2.5705818356363141 * sqrt(617.5 / 30.0)); // t(0.975, 5)
    CLOSE(stats.mean_high, 7.5 + 2.5705818356363141 * sqrt(617.5 / 30.0));
    double even[] = {4.0, 1.0, 3.0, 2.0};
    ASSERT_OK(bt_stats_of(even, 4, &stats));
    CLOSE(stats.median, 2.5);
    CLOSE(stats.mad, 1.0);
    double one[] = {7.0};
    ASSERT_OK(bt_stats_of(one, 1, &stats));
    CLOSE(stats.median, 7.0);
    assert_true(isnan(stats.low) && stats.coverage == 0.0);
    ASSERT_OK(bt_stats_of(odd, 2, &stats)); // [min, max] of two covers a half
    assert_true(isnan(stats.low) && isnan(stats.high) && isnan(stats.mean_high));
    CLOSE(odd[0], 5.0); // the input keeps its order
}

static void only_a_loss_has_a_lower_bound_below_0(void **state)
{
    (void)state;
    assert_true(bt_metric_low(BT_METRIC_TIME, -3.0) == 0.0);
    assert_true(bt_metric_low(BT_METRIC_COPY_SHARE, -3.0) == 0.0);
    assert_true(bt_metric_low(BT_METRIC_TIME, 3.0) == 3.0);
    assert_true(bt_metric_low(BT_METRIC_LOSS_LAST, -3.0) == -3.0);
    assert_true(isnan(bt_metric_low(BT_METRIC_TIME, (double)NAN)));
}

static void nothing_and_nan_give_nan(void **state)
{
    (void)state;
    bt_stats stats;
    ASSERT_OK(bt_stats_of(NULL, 0, &stats));
    assert_int_equal(stats.count, 0);
    assert_true(isnan(stats.median) && isnan(stats.low) && stats.coverage == 0.0);
    double bad[] = {1.0, (double)NAN, 2.0};
    ASSERT_OK(bt_stats_of(bad, 3, &stats));
    assert_true(isnan(stats.median) && isnan(stats.mean) && isnan(stats.high));
    double infinite[] = {1.0, (double)INFINITY, (double)INFINITY};
    ASSERT_OK(bt_stats_of(infinite, 3, &stats));
    assert_true(isinf(stats.median));
}

// quantile(c(1,2,4,8,16), c(0,.1,.25,.5,.9,1)) of R, type 7, and numpy.quantile
static void quantiles_are_type_7(void **state)
{
    (void)state;
    double values[] = {1.0, 2.0, 4.0, 8.0, 16.0};
    double shares[] = {0.0, 0.1, 0.25, 0.5, 0.9, 1.0};
    double expected[] = {1.0, 1.4, 2.0, 4.0, 12.8, 16.0};
    for (int i = 0; i < 6; i++) {
        CLOSE(bt_stats_quantile(values, 5, shares[i]), expected[i]);
    }
    assert_true(isnan(bt_stats_quantile(values, 0, 0.5)));
}

// Ranks (from 1) of the 95 % interval, as in David & Nagaraja's and Conover's tables, which are
// qbinom(0.025, n, 0.5) and n + 1 - that: n, rank. Coverage 1 - 2 pbinom(rank - 1, n, 0.5).
static void ranks_are_those_of_the_binomial(void **state)
{
    (void)state;
    static const struct {
        int64_t count, rank;
        double coverage;
    } rows[] = {
        {6, 1, 1.0 - 2.0 / 64.0},
        {8, 1, 1.0 - 2.0 / 256.0},
        {9, 2, 1.0 - 2.0 * 10.0 / 512.0},
        {10, 2, 1.0 - 2.0 * 11.0 / 1024.0},
        {12, 3, 1.0 - 2.0 * 79.0 / 4096.0},
        {15, 4, 1.0 - 2.0 * 576.0 / 32768.0},
        {20, 6, 1.0 - 2.0 * 21700.0 / 1048576.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t low = -1, high = -1;
        CLOSE(bt_stats_median_ranks(rows[i].count, 0.95, &low, &high), rows[i].coverage);
        assert_int_equal(low, rows[i].rank - 1);
        assert_int_equal(high, rows[i].count - rows[i].rank);
    }
    // Large counts meet the normal approximation: n/2 - 0.98 sqrt(n) to a rank or two.
    int64_t low = 0, high = 0;
    double coverage = bt_stats_median_ranks(1000000, 0.95, &low, &high);
    assert_true(coverage >= 0.95 && coverage < 0.9502);
    assert_true(llabs(low - (500000 - 980)) <= 2);
    assert_int_equal(low + high, 999999);
}

// The interval covers the true median as often as it says: 2,000 draws of 25 uniforms.
static void interval_covers_as_it_says(void **state)
{
    (void)state;
    enum { DRAWS = 2000, SIZE = 25 };
    int covered = 0;
    double coverage = 0.0;
    for (int draw = 0; draw < DRAWS; draw++) {
        double values[SIZE];
        bt_rng rng = {.seed = 7, .stream = (uint64_t)draw};
        for (uint64_t i = 0; i < SIZE; i++) {
            values[i] = (double)bt_rng_uniform(rng, i);
        }
        bt_stats stats;
        ASSERT_OK(bt_stats_of(values, SIZE, &stats));
        covered += stats.low <= 0.5 && 0.5 <= stats.high;
        coverage = stats.coverage;
    }
    assert_true(coverage >= 0.95);
    double deviation = sqrt(coverage * (1.0 - coverage) / DRAWS);
    double error = fabs((double)covered / DRAWS - coverage);
    assert_true(error <= 4.0 * deviation);
}

static double normal(bt_rng rng, uint64_t index)
{
    double u = (double)bt_rng_uniform(rng, 2 * index),
           v = (double)bt_rng_uniform(rng, 2 * index + 1);
    return sqrt(-2.0 * log(1.0 - u * 0.999999)) * cos(6.283185307179586 * v);
}

// A process of first order about 0.
static void make_series(double rho, uint64_t stream, int64_t count, double *values)
{
    bt_rng rng = {.seed = 11, .stream = stream};
    double value = normal(rng, 0);
    for (int64_t i = 0; i < count; i++) {
        values[i] = value;
        value = rho * value + sqrt(1.0 - rho * rho) * normal(rng, (uint64_t)i + 1);
    }
}

// Intervals of autocorrelated steps keep their coverage: of all intervals that are printed, at most
// 5 % miss the true value (and 1.5 % for the 1,000 draws). Taken as independent, 56 % would miss at
// 0.9.
static void intervals_of_series_keep_their_coverage(void **state)
{
    (void)state;
    static const double rhos[] = {0.0, 0.3, 0.6, 0.9};
    static const int64_t counts[] = {60, 200};
    enum { DRAWS = 1000 };
    double values[200];
    for (int i = 0; i < 8; i++) {
        int printed = 0, missed = 0, mean_missed = 0, naive_missed = 0;
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            bt_stats stats;
            make_series(rhos[i % 4], draw, counts[i / 4], values);
            ASSERT_OK(bt_stats_of_series(values, counts[i / 4], &stats));
            printed += !isnan(stats.low);
            missed += stats.low > 0.0 || stats.high < 0.0;
            mean_missed += stats.mean_low > 0.0 || stats.mean_high < 0.0;
            ASSERT_OK(bt_stats_of(values, counts[i / 4], &stats));
            naive_missed += stats.low > 0.0 || stats.high < 0.0;
        }
        print_message("%d steps, autocorrelation %.1f: %.1f %% have an interval; it misses in "
                      "%.1f %%, of the mean in %.1f %%, taken as independent in %.1f %%\n",
                      (int)counts[i / 4], rhos[i % 4], printed / 10.0, missed / 10.0,
                      mean_missed / 10.0, naive_missed / 10.0);
        assert_true(missed <= 65 && mean_missed <= 65);
        assert_true(rhos[i % 4] > 0.3 ? naive_missed > 130 : printed > 980);
        assert_true(counts[i / 4] < 200 || rhos[i % 4] > 0.6 || printed > 990);
    }
}

// 200 steps of which 40 % take 1.1: the total shows it, the median does not.
static void slow_steps_are_in_the_total_and_not_in_the_median(void **state)
{
    (void)state;
    bt_store_step steps[200];
    bt_step_stats stats;
    for (int64_t i = 0; i < 200; i++) {
        steps[i] = (bt_store_step){
            .step = i, .tokens = 512, .host_ns = i % 5 < 2 ? 1100000 : 1000000, .device_ns = 1};
    }
    ASSERT_OK(bt_stats_of_steps(steps, 200, &stats));
    CLOSE(stats.host_ns.median, 1e6);
    CLOSE(stats.host_ns.mean, 1.04e6);
    CLOSE(stats.host_ns.p95, 1.1e6);
    CLOSE(stats.rate_tok_s, 512.0 * 200 * 1e9 / (200 * 1.04e6));
    assert_true(stats.rate_low <= stats.rate_tok_s && stats.rate_tok_s <= stats.rate_high);
    ASSERT_OK(bt_stats_of_steps(steps, 19, &stats)); // too few for a 95th percentile
    assert_true(isnan(stats.host_ns.p95));
}

static void warmup_and_profiled_steps_are_left_out(void **state)
{
    (void)state;
    bt_store_step steps[] = {
        {.step = 0, .tokens = 100, .host_ns = 9000000000, .device_ns = 9, .warmup = true},
        {.step = 1, .tokens = 100, .host_ns = 1000000000, .device_ns = 990000000},
        {.step = 2, .tokens = 100, .host_ns = 5000000000, .device_ns = 9, .profiled = true},
        {.step = 3, .tokens = 100, .host_ns = 2000000000, .device_ns = 0},
        {.step = 4, .tokens = 200, .host_ns = 1000000000, .device_ns = 970000000},
    };
    bt_step_stats stats;
    ASSERT_OK(bt_stats_of_steps(steps, 5, &stats));
    assert_int_equal(stats.left_out, 2);
    assert_int_equal(stats.host_ns.count, 3);
    CLOSE(stats.host_ns.median, 1e9);
    CLOSE(stats.tokens_per_s.median, 100.0);
    CLOSE(stats.tokens_per_s.max, 200.0);
    assert_int_equal(stats.device_ns.count, 2);
    CLOSE(stats.device_ns.median, 980000000.0);
    CLOSE(stats.rate_tok_s, 400.0 / 4.0); // tokens of all three over the sum of their times
    ASSERT_OK(bt_stats_of_steps(steps, 1, &stats));
    assert_true(isnan(stats.rate_tok_s));
    assert_int_equal(stats.host_ns.count, 0);
    assert_true(isnan(stats.tokens_per_s.median));
    ASSERT_OK(bt_stats_of_steps(NULL, 0, &stats));
}

static void failing_allocations_are_reported(void **state)
{
    (void)state;
    bt_store_step step = {.tokens = 1, .host_ns = 1, .device_ns = 1};
    bt_step_stats stats;
    int64_t live = bt_mem_live_count();
    for (int64_t n = 1; n <= 4; n++) {
        bt_mem_fail_at(n);
        ASSERT_FAILS(BT_STATUS_OUT_OF_MEMORY, "", bt_stats_of_steps(&step, 1, &stats));
        bt_mem_fail_at(0);
        assert_int_equal(bt_mem_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_cases_by_hand),
        cmocka_unit_test(only_a_loss_has_a_lower_bound_below_0),
        cmocka_unit_test(nothing_and_nan_give_nan),
        cmocka_unit_test(quantiles_are_type_7),
        cmocka_unit_test(ranks_are_those_of_the_binomial),
        cmocka_unit_test(interval_covers_as_it_says),
        cmocka_unit_test(intervals_of_series_keep_their_coverage),
        cmocka_unit_test(slow_steps_are_in_the_total_and_not_in_the_median),
        cmocka_unit_test(warmup_and_profiled_steps_are_left_out),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
