// tests/harness/test_calibrate.c - rates from resampled pairs, and sessions of calibrate
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/ab/ab.h"
#include "harness/ab/calibrate.h"
#include "tests/support/test.h"

enum { PAIRS = 24 };

// Normal log ratios, the same every time.
static void draw(double *values, int64_t count, double deviation, uint64_t stream)
{
    for (int64_t i = 0; i < count; ++i) {
        uint32_t words[4];
        bt_rng_block((bt_rng){42, stream}, (uint64_t)i, words);
        double radius = sqrt(-2 * log(((double)words[0] + 0.5) / 4294967296.0));
        values[i] = deviation * radius * cos(6.283185307179586 * (double)words[1] / 4294967296.0);
    }
}

// ---- rates -------------------------------------------------------------------------------------

static bt_noise_rates rates_of(double deviation, double tolerance, int64_t count)
{
    double logs[PAIRS];
    bt_noise_rates rates;
    const bt_decision_rule rule = bt_decision_rule_of(tolerance, 10);
    draw(logs, count, deviation, 2);
    ASSERT_OK(bt_noise_rates_of(logs, count, &rule, 5, &rates));
    return rates;
}

// With 24 pairs, t(0.01 / 3, 23) = 2.98 and the 90 % point of the mean's noise 1.28 of its error:
// what is found nine times in ten lies near tolerance + 4.3 sd / sqrt(24), or
// t(0.01 / 3 / 10, 23) = 3.9 and 1.28: 5.2 sd / sqrt(24), whatever is more; a tenth for the looks
// and the sample's own deviation.
static void rates_follow_the_noise(void **state)
{
    (void)state;
    static const struct {
        double deviation, tolerance;
    } rows[] = {{0.004, 0.01}, {0.02, 0.01}, {0.1, 0.01}, {0.02, 0.2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_noise_rates got = rates_of(rows[i].deviation, rows[i].tolerance, PAIRS);
        double error = got.deviation / sqrt(PAIRS);
        double least = log1p(rows[i].tolerance) + 4.3 * error;
        least = expm1(fmax(least, 5.2 * error));
        assert_true(got.false_alarm_rate <= 0.01);
        assert_true(got.false_alarm_low <= got.false_alarm_rate);
        assert_true(got.false_alarm_high >= 0.0019); // 2,000 plays show no more than that
        if (!(fabs(got.smallest / least - 1) <= 0.15)) {
            fail_msg("row %zu: %g, expected near %g", i, got.smallest, least);
        }
        assert_true(got.smallest_low <= got.smallest && got.smallest <= got.smallest_high);
        assert_true(got.smallest_high > got.smallest_low);
    }
}

static void no_noise_finds_the_tolerance(void **state)
{
    (void)state;
    bt_noise_rates got = rates_of(0.0, 0.01, PAIRS);
    assert_true(got.false_alarm_rate == 0.0);
    assert_true(fabs(got.smallest - 0.01) <= 1e-4);
}

static void too_much_noise_finds_nothing(void **state)
{
    (void)state;
    bt_noise_rates got = rates_of(8.0, 0.01, PAIRS);
    assert_true(isinf(got.smallest) && isinf(got.smallest_high));
    got = rates_of(0.01, 0.01, 3);
    assert_true(isnan(got.smallest) && isnan(got.false_alarm_rate) && isnan(got.deviation));
    assert_int_equal(got.pairs, 3);
}

// A rule that looks at two pairs only is fooled by noise of always the same size: both pairs are
// slower one time in four.
static void a_rule_that_is_fooled_is_seen(void **state)
{
    (void)state;
    double logs[PAIRS], found = 0;
    bt_noise_rates rates;
    bt_decision_rule rule = bt_decision_rule_of(0.01, 1);
    bt_decision_rule_limit(&rule, 2);
    for (int i = 0; i < PAIRS; ++i) {
        logs[i] = 0.05;
    }
    ASSERT_OK(bt_noise_rates_of(logs, PAIRS, &rule, 5, &rates));
    assert_true(fabs(rates.false_alarm_rate - 0.25) <= 0.04); // 4 sd of 2,000 plays
    ASSERT_OK(bt_noise_found_rate(logs, PAIRS, &rule, 5, &found));
    assert_true(found == 1.0);
}

// ---- a session ---------------------------------------------------------------------------------

static const char *const names[] = {"a", "b", BT_CALIBRATE_SLOWED};
static bt_store_round rounds[3 * PAIRS + 8];
static bt_store_measurement times[3 * PAIRS];
static const bt_store_system systems[] = {
    {.name = "a"}, {.name = "b"}, {.name = BT_CALIBRATE_SLOWED, .inject_slowdown = 0.1}};

// PAIRS rounds of one kernel case on each system, the third a tenth slower, and a copy.
static bt_store_run session(void)
{
    double noise[3 * PAIRS];
    bt_store_run run = {.id = 4, .rounds = rounds};
    draw(noise, 3 * PAIRS, 0.003, 3);
    memset(rounds, 0, sizeof rounds);
    rounds[run.round_count++] = (bt_store_round){
        .status = BT_RUN_PASSED,
        .message = "",
        .what = {.bench = "k", .kind = "kernel", .name = "ceiling.hot", .system = "blutrain"}};
    for (int64_t i = 0; i < 3 * PAIRS; ++i) {
        bool slowed = i % 3 == 2;
        times[i] = (bt_store_measurement){.metric = BT_METRIC_TIME,
                                          .value = 1e6 * exp(noise[i]) * (slowed ? 1.1 : 1.0)};
        rounds[run.round_count++] = (bt_store_round){
            .ordinal = i / 3,
            .status = BT_RUN_PASSED,
            .message = "",
            .what = {.bench = "k", .kind = "kernel", .name = "gelu", .system = names[i % 3]},
            .measurements = &times[i],
            .measurement_count = 1};
    }
    run.info.suite.name = "k";
    run.schedule = (bt_store_schedule){9, BT_CALIBRATE_KIND, "", systems, 3};
    return run;
}

static void a_session_is_judged(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session();
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    ASSERT_OK(bt_calibrate(&run, &policy, &got));
    assert_int_equal(got.count, 1);
    const bt_calibrated_case *item = &got.items[0];
    assert_string_equal(item->name, "gelu");
    assert_true(fabs(item->base_ns / 1e6 - 1) <= 0.01);
    assert_int_equal(item->rates.pairs, PAIRS);
    assert_true(item->rule.tolerance == 0.01 && item->rule.family == 2);
    assert_true(item->injected == 0.1 && item->found == 1.0);
    assert_true(item->seen_low < 0.1 && item->seen_high > 0.1);
    assert_true(item->rates.smallest > 0.01 && item->rates.smallest < 0.02);
    assert_int_equal(bt_calibration_exit_code(&got), 0);
    bt_str text = {0};
    ASSERT_OK(bt_calibration_text(&got, &text));
    assert_non_null(strstr(bt_str_text(&text), "made slower by 10.0 %"));
    assert_non_null(strstr(bt_str_text(&text), "exit 0"));
    bt_str_release(&text);
    ASSERT_OK(bt_calibration_json(&got, &text));
    cJSON *json = cJSON_Parse(bt_str_text(&text));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "cases")), 1);
    cJSON_Delete(json);
    bt_str_release(&text);
    bt_calibration_release(&got);
    bt_policy_release(&policy);
}

static void broken_sessions_say_so(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    bt_store_run run = session();
    for (int64_t i = 1; i < run.round_count; ++i) {
        rounds[i].status = i < 8 ? BT_RUN_PASSED : BT_RUN_INVALID;
        rounds[i].message = "throttled";
    }
    ASSERT_OK(bt_calibrate(&run, &policy, &got)); // two whole pairs: no answer
    assert_int_equal(bt_calibration_exit_code(&got), 4);
    bt_str text = {0};
    ASSERT_OK(bt_calibration_text(&got, &text));
    assert_non_null(strstr(bt_str_text(&text), "no answer, 2 whole pairs: throttled"));
    bt_str_release(&text);
    bt_calibration_release(&got);
    run = session();
    rounds[5].status = BT_RUN_FAILED;
    ASSERT_OK(bt_calibrate(&run, &policy, &got));
    assert_int_equal(bt_calibration_exit_code(&got), 5);
    bt_calibration_release(&got);
    run.schedule.kind = "ab";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no session of 'bt-bench calibrate'",
                 bt_calibrate(&run, &policy, &got));
    bt_policy_release(&policy);
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session();
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t failures = 0;
    for (int64_t n = 1; status == BT_STATUS_OUT_OF_MEMORY && n < 1000; n += n < 8 ? 1 : 37) {
        bt_mem_fail_at(n);
        status = bt_calibrate(&run, &policy, &got);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            bt_calibration_release(&got);
        }
        failures += status != BT_OK;
        assert_int_equal(bt_mem_live_count(), live);
    }
    ASSERT_OK(status);
    assert_true(failures > 5);
    bt_policy_release(&policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_the_noise),
        cmocka_unit_test(no_noise_finds_the_tolerance),
        cmocka_unit_test(too_much_noise_finds_nothing),
        cmocka_unit_test(a_rule_that_is_fooled_is_seen),
        cmocka_unit_test(a_session_is_judged),
        cmocka_unit_test(broken_sessions_say_so),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
