// tests/harness/test_calibrate.c - rates from resampled pairs, and sessions of calibrate
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/clock.h"
#include "framework/base/mem.h"
#include "framework/base/rng.h"
#include "harness/ab/ab.h"
#include "harness/ab/calibrate.h"
#include "harness/gate/gate.h"
#include "harness/plan/plan.h"
#include "tests/harness/scratch_store.h"
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

static bt_noise_rates rates_of_sessions(const double *logs, int64_t count, int64_t sessions,
                                        double tolerance)
{
    int64_t rounds[8];
    bt_noise_rates rates;
    const bt_decision_rule rule = bt_decision_rule_of(tolerance, 10);
    for (int64_t i = 0; i < sessions; ++i) {
        rounds[i] = count / sessions;
    }
    const bt_sessions pairs = {logs, rounds, sessions};
    ASSERT_OK(bt_noise_rates_of(&pairs, &rule, &rates));
    return rates;
}

static bool is_refused(const bt_noise_rates *rates, double tolerance)
{
    return !(rates->false_alarm_high <= 0.01) || !(rates->smallest_high <= 2 * tolerance);
}

static void a_quiet_machine_passes(void **state)
{
    (void)state;
    int refused = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        double logs[5 * PAIRS];
        draw(logs, PAIRS, 0.0015, 100 + seed);
        bt_noise_rates got = rates_of_sessions(logs, PAIRS, 1, 0.01);
        assert_true(got.false_alarm_rate == 0.0);
        assert_true(got.smallest > 0.01 && got.smallest < 0.02);
        assert_true(got.false_alarm_rate <= got.false_alarm_high);
        assert_true(got.smallest <= got.smallest_high);
        refused += is_refused(&got, 0.01);
        draw(logs, 5 * PAIRS, 0.004, 300 + seed); // noisier: five sessions are enough
        got = rates_of_sessions(logs, 5 * PAIRS, 5, 0.01);
        assert_int_equal(got.sessions, 5);
        refused += is_refused(&got, 0.01);
    }
    assert_true(refused <= 10);
}

typedef void (*maker)(double *logs, uint64_t seed);

static void slower_in_all_pairs(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.001, seed);
    for (int i = 0; i < PAIRS; ++i) {
        logs[i] += 0.03;
    }
}

static void slower_then_faster(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.001, seed);
    for (int i = 0; i < PAIRS; ++i) {
        logs[i] += i < PAIRS / 2 ? 0.03 : -0.03;
    }
}

static void drifting(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.001, seed);
    for (int i = 0; i < PAIRS; ++i) {
        logs[i] += 0.03 * i / PAIRS;
    }
}

static void wandering(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.005, seed);
    for (int i = 1; i < PAIRS; ++i) {
        logs[i] += logs[i - 1];
    }
}

static void biased(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.002, seed);
    for (int i = 0; i < PAIRS; ++i) {
        logs[i] += 0.008;
    }
}

// Each side is 5 % slower in one round of three.
static void bimodal(double *logs, uint64_t seed)
{
    draw(logs, PAIRS, 0.001, seed);
    for (uint64_t i = 0; i < PAIRS; ++i) {
        const bt_rng rng = {seed, 1000};
        logs[i] += 0.05 * (bt_rng_below(rng, 2 * i, 3) == 0) -
                   0.05 * (bt_rng_below(rng, 2 * i + 1, 3) == 0);
    }
}

// Coin flips and shuffles would hide every one of these but the last.
static void bad_machines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        maker make;
    } rows[] = {{"slower in all pairs", slower_in_all_pairs},
                {"slower, then faster", slower_then_faster},
                {"drifting", drifting},
                {"wandering", wandering},
                {"biased", biased},
                {"bimodal", bimodal}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        int refused = 0, alarms = 0;
        for (uint64_t seed = 0; seed < 100; ++seed) {
            double logs[PAIRS];
            rows[i].make(logs, 500 + seed);
            bt_noise_rates got = rates_of_sessions(logs, PAIRS, 1, 0.01);
            refused += is_refused(&got, 0.01);
            alarms += got.false_alarm_high > 0.01;
        }
        printf("          %s: %d of 100 refused, %d by false alarms\n", rows[i].name, refused,
               alarms);
        assert_int_equal(refused, 100);
        assert_true(alarms >= 95);
    }
}

static void alarms_are_those_of_contiguous_windows(void **state)
{
    (void)state;
    double logs[PAIRS];
    slower_in_all_pairs(logs, 1);
    bt_noise_rates got = rates_of_sessions(logs, PAIRS, 1, 0.01);
    assert_true(got.false_alarm_rate == 1.0);
    assert_true(fabs(got.bias - 0.03) <= 0.001);
    slower_then_faster(logs, 1);
    got = rates_of_sessions(logs, PAIRS, 1, 0.01);
    // Of windows from pair 0 to 16 on, decided after 8 pairs: 0 to 4 and 12 to 16 at least.
    assert_true(got.false_alarm_rate >= 10.0 / 17);
    // A window does not reach from one session into the next.
    got = rates_of_sessions(logs, PAIRS, 2, 0.01);
    assert_true(got.false_alarm_rate == 1.0);
}

static void no_noise_finds_the_tolerance(void **state)
{
    (void)state;
    double logs[PAIRS] = {0};
    bt_noise_rates got = rates_of_sessions(logs, PAIRS, 1, 0.01);
    assert_true(got.false_alarm_rate == 0.0 && got.false_alarm_high == 0.0);
    assert_true(fabs(got.smallest - 0.01) <= 1e-3);
    assert_true(got.smallest_high <= 0.012);
}

static void too_much_noise_and_too_few_pairs(void **state)
{
    (void)state;
    double logs[PAIRS];
    draw(logs, PAIRS, 8.0, 2);
    bt_noise_rates got = rates_of_sessions(logs, PAIRS, 1, 0.01);
    assert_true(isinf(got.smallest) && isinf(got.smallest_high));
    for (int64_t count = 0; count < PAIRS; count += 5) {
        got = rates_of_sessions(logs, count, 1, 0.01);
        assert_true(isnan(got.smallest) && isnan(got.false_alarm_high));
        assert_int_equal(got.pairs, count < 8 ? 0 : count);
        assert_int_equal(got.needed, PAIRS);
    }
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
    draw(noise, 3 * PAIRS, 0.001, 3);
    memset(rounds, 0, sizeof rounds);
    rounds[run.round_count++] = (bt_store_round){
        .status = BT_RUN_PASSED,
        .message = "",
        .what = {.bench = "k", .kind = "kernel", .name = "ceiling.hot", .system = "blutrain"}};
    for (int64_t i = 0; i < 3 * PAIRS; ++i) {
        bool slowed = i % 3 == 2;
        times[i] = (bt_store_measurement){.metric = BT_METRIC_TIME,
                                          .value = 1e6 * exp(noise[i]) * (slowed ? 1.1 : 1.0)};
        rounds[run.round_count++] = (bt_store_round){.ordinal = i / 3,
                                                     .status = BT_RUN_PASSED,
                                                     .message = "",
                                                     .what = {.bench = "k",
                                                              .kind = "kernel",
                                                              .name = "gelu",
                                                              .system = names[i % 3],
                                                              .axes_json = "{}"},
                                                     .measurements = &times[i],
                                                     .measurement_count = 1};
    }
    run.info.suite.name = "k";
    run.info.suite.path = "k.json";
    run.schedule = (bt_store_schedule){9, BT_CALIBRATE_KIND, "", systems, 3};
    return run;
}

static void a_session_is_judged(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session();
    const bt_store_run *const only[] = {&run};
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    ASSERT_OK(bt_calibrate(only, 1, &policy, &got));
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

// Pairs of an earlier session count where case, machine and card are the same.
static void sessions_are_judged_together(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session(), before = run;
    const bt_store_run *const both[] = {&run, &before};
    bt_store_fact here = {"gpu.name", "H200", BT_FACT_HARD},
                  there = {"gpu.name", "A100", BT_FACT_HARD};
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    before.id = 3;
    ASSERT_OK(bt_calibrate(both, 2, &policy, &got));
    assert_int_equal(got.items[0].rates.pairs, 2 * PAIRS);
    assert_int_equal(got.items[0].rates.sessions, 2);
    bt_calibration_release(&got);
    run.info.env = (bt_store_env){"", &here, 1};
    before.info.env = (bt_store_env){"", &there, 1};
    ASSERT_OK(bt_calibrate(both, 2, &policy, &got));
    assert_int_equal(got.items[0].rates.pairs, PAIRS);
    bt_calibration_release(&got);
    bt_policy_release(&policy);
}

// What a gate gets for a stored calibration: that it counts, or why it does not.
static void a_calibration_is_bound_to_rule_card_and_date(void **state)
{
    (void)state;
    static const int64_t day_ns = INT64_C(86400) * 1000000000;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session();
    const bt_store_run *const only[] = {&run};
    int64_t number = 0;
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    ASSERT_OK(bt_calibrate(only, 1, &policy, &got));
    const bt_store_run_info info = {.suite = {"p", "k", "cpu", "k.json", "{}"},
                                    .build = {.digest = "b"},
                                    .env = {.digest = "e"}};
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &number));
    run.id = number;
    ASSERT_OK(bt_calibration_store(scratch_store, &got));
    bt_gate_side side = {.bench = "k", .name = "gelu"};
    ASSERT_OK(bt_plan_environment(&run.info.env, "gelu", "{}", side.environment));
    const bt_decision_rule rule = got.items[0].rule;
    bt_decision_rule wider = rule, larger = rule, fewer = rule;
    wider.tolerance = 0.02;
    larger.family = 64; // as a filter changes it: no other rule
    bt_decision_rule_limit(&fewer, 12);
    const int64_t now = bt_clock_wall_ns();
    const struct {
        const bt_decision_rule *rule;
        const char *card;
        int64_t at_ns;
        const char *why; // NULL: it counts
    } rows[] = {{&rule, "", now, NULL},
                {&larger, "", now, NULL},
                {&rule, "", now + 29 * day_ns, NULL},
                {&wider, "", now, "another rule or tolerance"},
                {&fewer, "", now, "another rule or tolerance"},
                {&rule, "", now + 31 * day_ns, "has expired"},
                {&rule, "other", now, "not calibrated in this environment"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_gate_calibration known = {0};
        const bt_gate_calibration_query query = {
            &side, BT_GATE_TIME, rows[i].rule, rows[i].card, rows[i].at_ns, 30, "k.json"};
        ASSERT_OK(bt_gate_calibration_find(scratch_store, &query, &known));
        assert_int_equal(known.known, !rows[i].why);
        assert_true(!rows[i].why || strstr(known.why, rows[i].why));
        assert_true(rows[i].why || known.false_alarm_rate == got.items[0].rates.false_alarm_high);
    }
    // A later calibration by another rule does not take the place of the first.
    ASSERT_OK(bt_store_run_begin(scratch_store, &info, &number));
    run.id = number;
    ((bt_calibrated_case *)(uintptr_t)got.items)[0].rule = wider;
    ASSERT_OK(bt_calibration_store(scratch_store, &got));
    const bt_decision_rule *const both[] = {&rule, &wider};
    for (int i = 0; i < 2; ++i) {
        bt_gate_calibration known = {0};
        const bt_gate_calibration_query query = {&side, BT_GATE_TIME, both[i], "", now, 30, "k"};
        ASSERT_OK(bt_gate_calibration_find(scratch_store, &query, &known));
        assert_true(known.known);
    }
    int64_t removed = 0;
    ASSERT_OK(bt_store_calibrations_remove(scratch_store, "ge*", &removed));
    assert_int_equal(removed, 2);
    ASSERT_OK(bt_store_calibrations_remove(scratch_store, "ge*", &removed));
    assert_int_equal(removed, 0);
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
    const bt_store_run *const only[] = {&run};
    for (int64_t i = 1; i < run.round_count; ++i) {
        rounds[i].status = i < 8 ? BT_RUN_PASSED : BT_RUN_INVALID;
        rounds[i].message = "throttled";
    }
    ASSERT_OK(bt_calibrate(only, 1, &policy, &got)); // two whole pairs
    assert_int_equal(bt_calibration_exit_code(&got), 4);
    bt_str text = {0};
    ASSERT_OK(bt_calibration_text(&got, &text));
    assert_non_null(strstr(bt_str_text(&text),
                           "not calibrated (0 of 24 pairs, in sessions of 8 or more): throttled"));
    bt_str_release(&text);
    bt_calibration_release(&got);
    run = session();
    rounds[5].status = BT_RUN_FAILED;
    ASSERT_OK(bt_calibrate(only, 1, &policy, &got));
    assert_int_equal(bt_calibration_exit_code(&got), 5);
    bt_calibration_release(&got);
    run.schedule.kind = "ab";
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "not a session of 'bt-bench calibrate'",
                 bt_calibrate(only, 1, &policy, &got));
    bt_policy_release(&policy);
}

static void failing_allocations_leak_nothing(void **state)
{
    (void)state;
    bt_policy policy;
    bt_calibration_result got;
    bt_store_run run = session();
    const bt_store_run *const only[] = {&run};
    ASSERT_OK(bt_ab_policy(NULL, (double)NAN, 0, &policy));
    int64_t live = bt_mem_live_count();
    bt_status status = BT_STATUS_OUT_OF_MEMORY;
    int64_t failures = 0;
    for (int64_t n = 1; status == BT_STATUS_OUT_OF_MEMORY && n < 1000; n += n < 8 ? 1 : 37) {
        bt_mem_fail_at(n);
        status = bt_calibrate(only, 1, &policy, &got);
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
        cmocka_unit_test(a_quiet_machine_passes),
        cmocka_unit_test(bad_machines_are_refused),
        cmocka_unit_test(alarms_are_those_of_contiguous_windows),
        cmocka_unit_test(no_noise_finds_the_tolerance),
        cmocka_unit_test(too_much_noise_and_too_few_pairs),
        cmocka_unit_test(sessions_are_judged_together),
        cmocka_unit_test_setup_teardown(a_calibration_is_bound_to_rule_card_and_date,
                                        scratch_store_open, scratch_store_close),
        cmocka_unit_test(a_session_is_judged),
        cmocka_unit_test(broken_sessions_say_so),
        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
