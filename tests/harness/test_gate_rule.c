// tests/harness/test_gate_rule.c - what the gate decides on: totals and 95th percentiles, guards,
// limits of what stays open, clocks, and rules of version 1
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "tests/harness/gate_setting.h"

// A session of 'ab': 8 rounds of 100 steps each; `share` of the candidate's steps take `factor`.
static void add_mixed_rounds(int share_percent, double factor)
{
    gate_it.paired = true;
    for (int i = 0; i < 2 * GATE_ROUNDS; ++i) {
        bool candidate = i % 2;
        bt_store_round *round =
            made_train_round(&gate_it.run, "tiny", candidate ? "candidate" : "base",
                             5e6 * made_noise(i, GATE_SPREAD), GATE_MIB, 100, 100, 0);
        bt_store_step *steps = (bt_store_step *)(uintptr_t)round->steps;
        for (int64_t j = 0; candidate && j < round->step_count; ++j) {
            bool slow = j * 37 % 100 < share_percent;
            steps[j].host_ns = (int64_t)((double)steps[j].host_ns * (slow ? factor : 1));
        }
    }
}

// 40 % of the steps 10 % slower leaves the median where it was; 6 % of the steps doubled is 6 % in
// the total and more in the 95th percentile.
static void slowdowns_of_some_steps_are_found(void **state)
{
    (void)state;
    add_mixed_rounds(40, 1.1);
    gate_judge("");
    gate_expect("tiny", BT_GATE_STEP_TIME, BT_GATE_SLOWER, 1);
    gate_expect_words(gate_item_of("tiny", BT_GATE_STEP_TIME)->sentence, "slower by 3.9 % [");
    gate_expect("tiny", BT_GATE_STEP_TIME_P95, BT_GATE_SLOWER, 1);
    gate_end(state);
    gate_begin(state);
    add_mixed_rounds(6, 2.0);
    gate_judge("\"tolerance\":{\"train\":0.5,\"p95\":0.1}");
    gate_expect("tiny", BT_GATE_STEP_TIME, BT_GATE_SAME, 1);
    gate_expect("tiny", BT_GATE_STEP_TIME_P95, BT_GATE_SLOWER, 1);
    gate_end(state);
    gate_begin(state);
    add_mixed_rounds(0, 1);
    gate_judge("");
    gate_expect("tiny", BT_GATE_STEP_TIME, BT_GATE_SAME, 0);
    assert_true(gate_item_of("tiny", BT_GATE_STEP_TIME)->verdict.blind_share == 3.0 / 8);
    gate_expect_words(gate_item_of("tiny", BT_GATE_STEP_TIME)->sentence,
                      "; not excluded: a slowdown in fewer than 38 % of the rounds");
    gate_expect_words(gate_item_of("tiny", BT_GATE_MEMORY)->sentence,
                      "not excluded: a larger peak");
    gate_expect_words(gate_item_of("tiny", BT_GATE_LOSS)->sentence, "not excluded: a difference");
}

// Judges the run of the setting again, by a rule.
static bt_status judge_again(const char *rule_json, bt_gate_verdict *out)
{
    bt_arena arena = {0};
    bt_gate_sides sides;
    bt_status status = bt_gate_sides_of_run(&gate_it.run.run, &arena, &sides);
    status =
        status == BT_OK ? bt_gate_judge(&sides, &gate_it.baseline.sides, rule_json, out) : status;
    bt_arena_release(&arena);
    return status;
}

static void a_bad_round_is_said(void **state)
{
    (void)state;
    gate_it.paired = true;
    for (int i = 0; i < 2 * GATE_ROUNDS; ++i) {
        made_kernel_round(&gate_it.run, "gelu", i % 2 ? "candidate" : "base",
                          1e6 * made_noise(i, GATE_SPREAD) * (i == 5 ? 1.5 : 1), "gelu_v2");
    }
    gate_judge("\"tolerance\":{\"kernel\":0.4}");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    gate_expect_words(
        gate_item_of("gelu", BT_GATE_TIME)->sentence,
        "; 1 of 8 rounds of the candidate was slower by 40 % or more, the worst by 50 "
        "%, and 0 of the base; 16 rounds may decide");
}

// The slow round's pair was lost to noise: version 2 passed over it.
static void a_bad_round_without_its_pair_is_said(void **state)
{
    (void)state;
    bt_gate_verdict verdict;
    gate_it.paired = true;
    for (int i = 0; i < 2 * GATE_ROUNDS + 2; ++i) {
        bt_store_round *round =
            made_kernel_round(&gate_it.run, "gelu", i % 2 ? "candidate" : "base",
                              1e6 * made_noise(i, GATE_SPREAD) * (i == 5 ? 1.5 : 1), "gelu_v2");
        round->status = i == 4 ? BT_RUN_INVALID : BT_RUN_PASSED;
    }
    gate_judge("\"tolerance\":{\"kernel\":0.4}");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence,
                      "; 1 of 8 rounds of the candidate was slower by 40 % or more");
    char *rule = (char *)(uintptr_t)gate_item_of("gelu", BT_GATE_TIME)->rule_json;
    char *version = strstr(rule, "\"version\":3");
    assert_non_null(version);
    version[strlen("\"version\":")] = '2';
    ASSERT_OK(judge_again(rule, &verdict));
    assert_int_equal(verdict.word, BT_GATE_SAME);
}

// Only 3 of 8 rounds have a 95th percentile: 5 more rounds, not 0, make 8 that have one.
static void rounds_without_the_metric_are_not_counted_as_done(void **state)
{
    (void)state;
    static bt_store_measurement both[2 * GATE_ROUNDS][2];
    gate_it.paired = true;
    for (int i = 0; i < 2 * GATE_ROUNDS; ++i) {
        bt_store_round *round =
            made_kernel_round(&gate_it.run, "gelu", i % 2 ? "candidate" : "base",
                              1e6 * made_noise(i, GATE_SPREAD), "gelu_v2");
        both[i][0] = round->measurements[0];
        both[i][1] = both[i][0];
        both[i][1].metric = BT_METRIC_TIME_P95;
        both[i][1].value = 1e6 * made_noise(i, 0.5);
        round->measurements = both[i];
        round->measurement_count = i < 6 ? 2 : 1;
    }
    gate_judge("\"rounds\":24");
    gate_expect("gelu", BT_GATE_TIME_P95, BT_GATE_INCONCLUSIVE, 0);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME_P95)->sentence,
                      "3 rounds; 13 rounds may decide");
    gate_judge("\"rounds\":8"); // no more rounds than there are
    gate_expect("gelu", BT_GATE_TIME_P95, BT_GATE_INCONCLUSIVE, 0);
    assert_null(strstr(gate_item_of("gelu", BT_GATE_TIME_P95)->sentence, "may tell"));
}

// A policy that accepts INCONCLUSIVE does so only while the interval ends below its limit.
static void inconclusive_passes_up_to_its_limit(void **state)
{
    (void)state;
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1.1e6, 0.3, GATE_ROUNDS);
    gate_judge("\"allow\":\"inconclusive\"");
    const bt_gate_item *item = gate_item_of("gelu", BT_GATE_TIME);
    assert_int_equal(item->verdict.word, BT_GATE_INCONCLUSIVE);
    assert_true(item->verdict.high > 1.25 && item->verdict.high < 1.4);
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    gate_expect_words(item->sentence, "the 25 % up to which the policy allows inconclusive");
    gate_judge("\"allow\":\"inconclusive\",\"inconclusive_limit\":0.4");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 0);
    gate_judge("\"allow\":\"inconclusive\",\"inconclusive_limit\":0");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    gate_it.run.run.round_count = 1; // no interval at all: nothing is known about a limit
    gate_judge("\"allow\":\"inconclusive\",\"inconclusive_limit\":10");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
}

// All cases of a suite by 3 %: the machine more often than the change.
static void many_worse_and_none_better_is_said(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    gate_it.paired = true;
    for (int i = 0; i < 6 * 2 * GATE_ROUNDS; ++i) {
        int named = i / (2 * GATE_ROUNDS);
        double slower = i % 2 && named < 5 ? 1.03 : 1;
        made_kernel_round(&gate_it.run, names[named], i % 2 ? "candidate" : "base",
                          1e6 * slower * made_noise(i, GATE_SPREAD), "gelu_v2");
    }
    gate_judge("");
    gate_expect_words(gate_it.result.warning, "5 of 6 cases are slower and none is faster: the "
                                              "comparison may be broken");
    bt_str out = {0};
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out));
    ASSERT_OK(bt_gate_json(&gate_it.result, &out));
    ASSERT_OK(bt_gate_markdown(&gate_it.result, &out));
    ASSERT_OK(bt_gate_junit(&gate_it.result, &out));
    gate_expect_words(bt_str_text(&out), "\nwarning  5 of 6 cases are slower");
    gate_expect_words(bt_str_text(&out), "\"warning\": \"5 of 6 cases are slower");
    gate_expect_words(bt_str_text(&out), "\nwarning: 5 of 6 cases are slower");
    gate_expect_words(bt_str_text(&out), "<system-err>5 of 6 cases are slower");
    bt_str_release(&out);
    gate_it.run.run.round_count = 4 * 2 * GATE_ROUNDS; // four are too few for that
    gate_judge_again();
    assert_string_equal(gate_it.result.warning, "");
}

// In interleaved rounds clocks are a consequence of the change: printed beside the verdict.
static void clocks_of_interleaved_rounds_are_reported(void **state)
{
    (void)state;
    static const bt_store_telemetry clocks[] = {{.sm_clock_mhz = 1980, .power_w = 600},
                                                {.sm_clock_mhz = 1905, .power_w = 700}};
    gate_it.paired = true;
    for (int i = 0; i < 2 * GATE_ROUNDS; ++i) {
        bt_store_round *round =
            made_kernel_round(&gate_it.run, "gelu", i % 2 ? "candidate" : "base",
                              1e6 * made_noise(i, GATE_SPREAD) * (i % 2 ? 0.9 : 1), "gelu_v2");
        round->telemetry = &clocks[i % 2];
        round->telemetry_count = 1;
    }
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_FASTER, 0);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence,
                      "; median clocks differ: 1980 and 1905 MHz");
    gate_judge("\"tolerance\":{\"kernel\":0.3}");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 0);
    bt_str out = {0};
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out)); // of SAME as well
    gate_expect_words(bt_str_text(&out), "median clocks differ: 1980 and 1905 MHz");
    bt_str_release(&out);
}

// Rules of version 1 are judged as they were: medians, rates, clocks that void, no guards, and the
// words of that time.
static void an_older_rule_is_judged_as_it_was(void **state)
{
    (void)state;
    static const bt_store_telemetry clocks[] = {{.sm_clock_mhz = 1980}, {.sm_clock_mhz = 1905}};
    static const struct {
        const char *metric, *rest;
        bt_gate_word word, newer;
    } rows[] = {
        {"step_time_ns", "", BT_GATE_SAME, BT_GATE_SLOWER},
        {"tokens_per_s", "", BT_GATE_SAME, BT_GATE_SLOWER},
        {"peak_allocated_bytes", "\"memory_tolerance_bytes\":0,", BT_GATE_SLOWER, BT_GATE_LARGER},
    };
    add_mixed_rounds(40, 1.1);
    for (int i = 1; i < 2 * GATE_ROUNDS; i += 2) {
        ((bt_store_step *)(uintptr_t)gate_it.run.rounds[i].steps)[3].peak_allocated_bytes *= 2;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        for (int version = 1; version <= 2; ++version) {
            bt_str rule = {0};
            bt_gate_verdict verdict;
            bt_str_format(&rule,
                          "{%s\"bench\":\"made\",\"case\":\"tiny\",\"candidate\":\"candidate\","
                          "\"presence\":\"both\",\"metric\":\"%s\",\"clock_tolerance\":0.01,"
                          "\"calibration\":{\"required\":false,\"known\":false,"
                          "\"false_alarm_limit\":0.01,\"smallest_limit\":0.02},%s"
                          "\"tolerance\":0.005,\"alpha\":0.01,\"miss\":0.05,\"family\":2,"
                          "\"looks\":[8,16,24],\"base\":\"base\"}",
                          version == 1 ? "" : "\"version\":2,", rows[i].metric, rows[i].rest);
            assert_int_equal(bt_gate_rule_version(bt_str_text(&rule)), version);
            ASSERT_OK(judge_again(bt_str_text(&rule), &verdict));
            assert_int_equal(verdict.word, version == 1 ? rows[i].word : rows[i].newer);
            assert_true(version == 1 ? isnan(verdict.blind_share) : true);
            if (i == 0 && version == 1) { // clocks that differ
                for (int j = 0; j < 2 * GATE_ROUNDS; ++j) {
                    gate_it.run.rounds[j].telemetry = &clocks[j % 2];
                    gate_it.run.rounds[j].telemetry_count = 1;
                }
                ASSERT_OK(judge_again(bt_str_text(&rule), &verdict));
                assert_int_equal(verdict.word, BT_GATE_NOT_COMPARABLE);
                for (int j = 0; j < 2 * GATE_ROUNDS; ++j) {
                    gate_it.run.rounds[j].telemetry_count = 0;
                }
            }
            bt_str_release(&rule);
        }
    }
    bt_gate_verdict verdict;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "version",
                 judge_again("{\"version\":4,\"bench\":\"made\"}", &verdict));
    assert_int_equal(bt_gate_rule_version("no rule"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, gate_begin, gate_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slowdowns_of_some_steps_are_found),
        TEST(a_bad_round_is_said),
        TEST(a_bad_round_without_its_pair_is_said),
        TEST(rounds_without_the_metric_are_not_counted_as_done),
        TEST(inconclusive_passes_up_to_its_limit),
        TEST(many_worse_and_none_better_is_said),
        TEST(clocks_of_interleaved_rounds_are_reported),
        TEST(an_older_rule_is_judged_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
