// tests/harness/test_change.c - changes that are there are found, where they are; others are not
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/stats/change.h"

enum { LENGTH_MAX = 400 };

// Fills values with 1 ms and noise of one percent, different for each seed. `heavy`: one in twenty
// is ten times as far away.
static void make_series(double *values, int64_t count, uint64_t seed, bool heavy)
{
    bt_rng radius = {.seed = seed, .stream = 7}, angle = {.seed = seed, .stream = 8},
           kind = {.seed = seed, .stream = 9};
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)i;
        double normal = sqrt(-2 * log((double)bt_rng_uniform(radius, at))) *
                        cos(6.283185307179586 * (double)bt_rng_uniform(angle, at));
        double wide = heavy && bt_rng_uniform(kind, at) < 0.05f ? 10 : 1;
        values[i] = 1e6 * exp(0.01 * wide * normal);
    }
}

static void shift_from(double *values, int64_t begin, int64_t end, double deviations)
{
    for (int64_t i = begin; i < end; i++) {
        values[i] *= exp(0.01 * deviations);
    }
}

static int64_t count_changes(const double *values, int64_t count, int64_t *first)
{
    bt_change *changes = NULL;
    int64_t found = 0;
    ASSERT_OK(bt_change_points(values, count, &changes, &found));
    *first = found > 0 ? changes[0].index : -1;
    for (int64_t i = 0; i < found; i++) {
        assert_true(changes[i].p <= BT_CHANGE_ALPHA);
        assert_true(changes[i].before > 0 && changes[i].after > 0);
    }
    bt_mem_free(changes);
    return found;
}

// 2,000 series at 1 %: 20 expected, deviation 4.5; more than 36 has a chance below one in a
// thousand. With ties counted as reached the test may only be stricter.
static void stationary_series_are_left_alone(void **state)
{
    (void)state;
    static const int64_t lengths[] = {12, 30, 100};
    double values[LENGTH_MAX];
    int64_t first = 0;
    for (int heavy = 0; heavy < 2; heavy++) {
        for (int l = 0; l < 3; l++) {
            int alarms = 0;
            for (uint64_t seed = 0; seed < 2000; seed++) {
                make_series(values, lengths[l], seed, heavy != 0);
                alarms += count_changes(values, lengths[l], &first) > 0;
            }
            print_message("%lld values%s: %.2f %% false alarms\n", (long long)lengths[l],
                          heavy ? ", heavy tails" : "", alarms / 20.0);
            assert_in_range(alarms, 0, 36);
        }
    }
}

// Sessions that are correlated with those before, as on a machine that stays warm for days.
static void correlated_series_are_left_alone(void **state)
{
    (void)state;
    enum { SERIES = 400 };
    static const double correlations[] = {0.3, 0.5, 0.7};
    static const int64_t lengths[] = {12, 20, 40, 100};
    double values[LENGTH_MAX];
    int64_t first = 0;
    for (int c = 0; c < 3; c++) {
        double rho = correlations[c];
        for (int l = 0; l < 4; l++) {
            int alarms = 0;
            for (uint64_t seed = 0; seed < SERIES; seed++) {
                double deviation = 0;
                make_series(values, lengths[l], seed, false);
                for (int64_t i = 0; i < lengths[l]; i++) {
                    double fresh = log(values[i] / 1e6);
                    deviation = i > 0 ? rho * deviation + sqrt(1 - rho * rho) * fresh : fresh;
                    values[i] = 1e6 * exp(deviation);
                }
                alarms += count_changes(values, lengths[l], &first) > 0;
            }
            print_message("%lld values, correlation %.1f: %.2f %% false alarms\n",
                          (long long)lengths[l], rho, 100.0 * alarms / SERIES);
            assert_true(alarms <= SERIES / 20);
        }
    }
}

static void check_power(int64_t before, int64_t after, double deviations, bool heavy, int wanted)
{
    double values[LENGTH_MAX];
    int found = 0, near = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int64_t first = 0;
        make_series(values, before + after, seed, heavy);
        shift_from(values, before, before + after, deviations);
        found += count_changes(values, before + after, &first) > 0;
        near += first >= before - 2 && first <= before + 2;
    }
    print_message(
        "%lld + %lld values, %.1f deviations%s: %.1f %% found, %.1f %% within two places\n",
        (long long)before, (long long)after, deviations, heavy ? ", heavy tails" : "", found / 2.0,
        near / 2.0);
    assert_true(found >= wanted * 2);
    assert_true(near >= found * 7 / 10);
}

static void shifts_are_found(void **state)
{
    (void)state;
    check_power(10, 5, 3, false, 30);
    check_power(10, 5, 5, false, 65);
    check_power(20, 20, 2, false, 65);
    check_power(20, 20, 3, false, 90);
    check_power(50, 5, 4, false, 75);
    check_power(20, 20, 4, true, 68);
    check_power(30, 10, 4, false, 88);
}

static void several_changes_have_places_and_levels(void **state)
{
    (void)state;
    double values[100];
    bt_change *changes = NULL;
    int64_t found = 0;
    make_series(values, 100, 3, false);
    shift_from(values, 30, 60, 10);
    shift_from(values, 60, 100, -5);
    values[10] *= 50; // outliers are no change
    values[80] /= 50;
    ASSERT_OK(bt_change_points(values, 100, &changes, &found));
    assert_int_equal(found, 2);
    assert_int_equal(changes[0].index, 30);
    assert_int_equal(changes[1].index, 60);
    assert_true(fabs(changes[0].after / changes[0].before - exp(0.1)) < 0.01);
    assert_true(fabs(changes[1].after / changes[1].before - exp(-0.15)) < 0.01);
    assert_true(changes[0].after == changes[1].before);
    bt_mem_free(changes);
}

static void odd_series(void **state)
{
    (void)state;
    double values[LENGTH_MAX];
    int64_t first = 0;
    for (int64_t i = 0; i < LENGTH_MAX; i++) {
        values[i] = 5;
    }
    assert_int_equal(count_changes(values, 0, &first), 0);
    assert_int_equal(count_changes(values, 5, &first), 0);
    assert_int_equal(count_changes(values, LENGTH_MAX, &first), 0); // all alike
    values[17] = 6;
    assert_int_equal(count_changes(values, 40, &first), 0); // one that differs
    for (int64_t i = 20; i < 40; i++) {
        values[i] = 5.001; // without noise every step is a change
    }
    values[17] = 5;
    assert_int_equal(count_changes(values, 40, &first), 1);
    assert_int_equal(first, 20);
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
    for (int i = 0; i < 4; i++) {
        values[3] = bad[i];
        assert_int_equal(count_changes(values, 40, &first), 0);
    }
}

static void allocations_that_fail_are_reported(void **state)
{
    (void)state;
    double values[40];
    int64_t before = bt_mem_live_count();
    make_series(values, 40, 1, false);
    shift_from(values, 20, 40, 5);
    for (int64_t n = 1; n <= 8; n++) {
        bt_change *changes = NULL;
        int64_t found = 0;
        bt_mem_fail_at(n);
        bt_status status = bt_change_points(values, 40, &changes, &found);
        bt_mem_fail_at(0);
        assert_true(status == BT_OK ? found == 1 : status == BT_STATUS_OUT_OF_MEMORY && !changes);
        bt_mem_free(changes);
        assert_int_equal(bt_mem_live_count(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stationary_series_are_left_alone),
        cmocka_unit_test(correlated_series_are_left_alone),
        cmocka_unit_test(shifts_are_found),
        cmocka_unit_test(several_changes_have_places_and_levels),
        cmocka_unit_test(odd_series),
        cmocka_unit_test(allocations_that_fail_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
