// tests/harness/test_gate.c - every verdict and exit code of the gate, and what is said of them
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/gate/gate.h"
#include "harness/gate/pace.h"
#include "tests/harness/made_run.h"
#include "tests/harness/sample_run.h"

enum { ROUNDS = 8, MIB = 1 << 20 };

#define SPREAD 0.001 // between rounds

// A gate's ingredients: a base run that becomes the baseline, the run that is judged, a policy.
typedef struct setting {
    made_run base, run;
    bt_baseline baseline;
    bt_policy policy;
    bt_gate_result result;
    bool paired;
} setting;

static setting it;

static int begin(void **state)
{
    (void)state;
    memset(&it, 0, sizeof it);
    made_run_init(&it.base);
    made_run_init(&it.run);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bt_gate_result_release(&it.result);
    bt_baseline_release(&it.baseline);
    bt_policy_release(&it.policy);
    made_run_release(&it.base);
    made_run_release(&it.run);
    return 0;
}

static void add_kernel(made_run *made, const char *name, const char *system, double time_ns,
                       double spread, int rounds)
{
    for (int i = 0; i < rounds; ++i) {
        made_kernel_round(made, name, system, time_ns * made_noise(i, spread), "gelu_v2");
    }
}

static void add_train(made_run *made, int64_t peak_bytes, int64_t shift_at, float shift)
{
    for (int i = 0; i < ROUNDS; ++i) {
        made_train_round(made, "tiny", "blutrain", 5e6 * made_noise(i, SPREAD), peak_bytes, 20,
                         shift_at, shift);
    }
}

static void set_policy(const char *members)
{
    bt_str text = {0};
    bt_policy_release(&it.policy);
    bt_str_format(&text, "{\"name\":\"test\"%s%s}", *members ? "," : "", members);
    ASSERT_OK(bt_policy_parse("p.json", bt_str_text(&text), text.length_bytes, &it.policy));
    bt_str_release(&text);
}

static bt_gate_request request_of(void)
{
    return (bt_gate_request){
        .run = &it.run.run, .baseline = it.paired ? NULL : &it.baseline, .policy = &it.policy};
}

static void judge_again(void)
{
    bt_gate_request request = request_of();
    bt_gate_result_release(&it.result);
    ASSERT_OK(bt_gate_run(&request, &it.result));
}

// Judges under a policy with these members.
static void judge(const char *members)
{
    set_policy(members);
    if (!it.paired && it.baseline.sides.count == 0) {
        bt_str text = {0};
        ASSERT_OK(bt_baseline_write(&it.base.run, "main", "why", 0, &text));
        ASSERT_OK(bt_baseline_parse("b", bt_str_text(&text), text.length_bytes, &it.baseline));
        bt_str_release(&text);
    }
    judge_again();
}

static const bt_gate_item *item_of(const char *subject, bt_gate_metric metric)
{
    for (int64_t i = 0; i < it.result.count; ++i) {
        const bt_gate_item *item = &it.result.items[i];
        if (strcmp(item->subject, subject) == 0 && item->metric == metric) {
            return item;
        }
    }
    fail_msg("no verdict about %s", subject);
    return NULL;
}

static void expect(const char *subject, bt_gate_metric metric, bt_gate_word word, int exit_code)
{
    const bt_gate_item *item = item_of(subject, metric);
    if (item->verdict.word != word || it.result.exit_code != exit_code) {
        fail_msg("%s is %s (%s), exit %d", subject, bt_gate_word_name(item->verdict.word),
                 item->sentence, it.result.exit_code);
    }
}

static void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words)) {
        fail_msg("no '%s' in: %s", words, text);
    }
}

#define WHOLE BT_GATE_METRIC_COUNT // the case as a whole

// ---- times -------------------------------------------------------------------------------------

static void times_have_all_four_words(void **state)
{
    (void)state;
    static const struct {
        double ratio, spread;
        bt_gate_word word;
        int exit_code;
    } cases[] = {
        {1.000, SPREAD, BT_GATE_SAME, 0},       {1.004, SPREAD, BT_GATE_SAME, 0},
        {1.030, SPREAD, BT_GATE_SLOWER, 1},     {0.950, SPREAD, BT_GATE_FASTER, 0},
        {1.008, 0.05, BT_GATE_INCONCLUSIVE, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)begin(state);
        add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
        add_kernel(&it.run, "gelu", "blutrain", 1e6 * cases[i].ratio, cases[i].spread, ROUNDS);
        judge("");
        expect("gelu", BT_GATE_TIME, cases[i].word, cases[i].exit_code);
        assert_int_equal(it.result.count, 1);
        assert_int_equal(it.result.words[cases[i].word], 1);
        assert_true(fabs(it.result.items[0].verdict.ratio - cases[i].ratio) < 0.01);
        (void)end(state);
    }
}

static void pairs_are_held_against_each_other(void **state)
{
    (void)state;
    it.paired = true;
    for (int i = 0; i < ROUNDS; ++i) { // a machine that drifts by half meets both alike
        double drift = 1 + 0.06 * i;
        made_kernel_round(&it.run, "gelu", "base", 1e6 * drift * made_noise(i, SPREAD), "v1");
        made_kernel_round(&it.run, "gelu", "candidate", 1.03e6 * drift * made_noise(i + 3, SPREAD),
                          "v2");
    }
    assert_true(bt_gate_is_paired(&it.run.run));
    judge("");
    expect("gelu", BT_GATE_TIME, BT_GATE_SLOWER, 1);
    assert_int_equal(it.result.items[0].verdict.rounds, ROUNDS);
    expect_words(it.result.items[0].sentence, "slower by 3.0 % [");
    expect_words(it.result.items[0].changes, "the kernel that ran changed: v1 -> v2");
    // A round that one side lost takes its pair along.
    it.run.rounds[3].status = BT_RUN_INVALID;
    judge_again();
    assert_int_equal(it.result.items[0].verdict.rounds, ROUNDS - 1);
    expect("gelu", BT_GATE_TIME, BT_GATE_SLOWER, 1);
    // Against a baseline the candidate stands for our own system.
    it.paired = false;
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    judge("\"tolerance\":{\"kernel\":0.5}");
    assert_int_equal(it.result.count, 1);
    assert_string_equal(it.result.items[0].subject, "gelu");
}

static void rates_turn_round(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; ++i) {
        made_train_round(&it.base, "tiny", "blutrain", 5e6 * made_noise(i, SPREAD), MIB, 20, 20, 0);
        made_train_round(&it.run, "tiny", "blutrain", 5.2e6 * made_noise(i, SPREAD), MIB, 20, 20,
                         0);
    }
    judge("");
    expect("tiny", BT_GATE_STEP_TIME, BT_GATE_SLOWER, 1);
    expect("tiny", BT_GATE_TOKENS_PER_S, BT_GATE_SLOWER, 1);
    assert_true(item_of("tiny", BT_GATE_TOKENS_PER_S)->verdict.ratio > 1.03);
    expect("tiny", BT_GATE_MEMORY, BT_GATE_SAME, 1);
    expect("tiny", BT_GATE_LOSS, BT_GATE_SAME, 1);
    expect_words(item_of("tiny", BT_GATE_TOKENS_PER_S)->sentence, "tokens/s: slower by");
    assert_int_equal(it.result.count, 4);
}

static void a_peer_is_a_subject_of_its_own(void **state)
{
    (void)state;
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.base, "gelu", "pytorch-eager", 2e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "pytorch-eager", 3e6, SPREAD, ROUNDS);
    judge("");
    expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 1);
    expect("gelu pytorch-eager", BT_GATE_TIME, BT_GATE_SLOWER, 1);
}

static void a_case_is_run_until_its_time_is_decided(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        double ratio, spread;
        int64_t rounds;
    } cases[] = {
        {0, 1, 0, 8},         {7, 1, 0.001, 8}, {8, 1, 0.001, 8},      {8, 1.05, 0.001, 8},
        {8, 1.008, 0.05, 16}, {9, 1, 0.05, 16}, {16, 1.008, 0.05, 24}, {24, 1.008, 0.05, 24},
    };
    double times_ns[24];
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    judge("");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        int64_t rounds = 0;
        for (int64_t j = 0; j < cases[i].count; ++j) {
            times_ns[j] = 1e6 * cases[i].ratio * made_noise(j, cases[i].spread);
        }
        bt_gate_pace pace = {&it.policy, &it.baseline.sides.items[0], 1, times_ns, cases[i].count};
        ASSERT_OK(bt_gate_pace_rounds(&pace, &rounds));
        assert_int_equal(rounds, cases[i].rounds);
        pace.base = NULL; // a case that the baseline does not have
        ASSERT_OK(bt_gate_pace_rounds(&pace, &rounds));
        assert_int_equal(rounds, 8);
    }
}

// ---- memory and losses -------------------------------------------------------------------------

static void memory_is_exact(void **state)
{
    static const struct {
        int64_t peak_bytes;
        bt_gate_word word;
        int exit_code;
        const char *words;
    } cases[] = {
        {10 * MIB, BT_GATE_SAME, 0, "peak memory: 10.0 MiB"},
        {11 * MIB, BT_GATE_SAME, 0, "11.0 MiB"},
        {11 * MIB + 1, BT_GATE_SLOWER, 1, "more by 1.00 MiB"},
        {9 * MIB - 1, BT_GATE_FASTER, 0, "less by"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)begin(state);
        add_train(&it.base, 10 * MIB, 20, 0);
        add_train(&it.run, 10 * MIB, 20, 0);
        ((bt_store_step *)(uintptr_t)it.run.rounds[5].steps)[7].peak_allocated_bytes =
            cases[i].peak_bytes; // one step of one round
        for (int64_t j = 0; cases[i].peak_bytes < 10 * MIB && j < ROUNDS * 20; ++j) {
            ((bt_store_step *)(uintptr_t)it.run.rounds[j / 20].steps)[j % 20].peak_allocated_bytes =
                cases[i].peak_bytes;
        }
        judge("");
        expect("tiny", BT_GATE_MEMORY, cases[i].word, cases[i].exit_code);
        expect_words(item_of("tiny", BT_GATE_MEMORY)->sentence, cases[i].words);
        (void)end(state);
    }
}

static void losses_go_by_their_tier(void **state)
{
    static const struct {
        const char *policy;
        float shift;
        bt_gate_word word;
        int exit_code;
    } cases[] = {
        {"\"loss\":\"bitwise\"", 0, BT_GATE_SAME, 0},
        {"\"loss\":\"bitwise\"", 1e-6F, BT_GATE_INVALID, 5},
        {"\"loss\":\"numeric\"", 1e-6F, BT_GATE_SAME, 0},
        {"\"loss\":\"numeric\"", 0.5F, BT_GATE_INVALID, 5},
        {"\"loss\":\"numeric\"", (float)NAN, BT_GATE_INVALID, 5},
        {"\"loss\":\"statistical\"", 0, BT_GATE_SAME, 0}, // consistent with
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)begin(state);
        add_train(&it.base, MIB, 20, 0);
        add_train(&it.run, MIB, 10, cases[i].shift);
        judge(cases[i].policy);
        expect("tiny", BT_GATE_LOSS, cases[i].word, cases[i].exit_code);
        (void)end(state);
    }
    (void)begin(state);
    add_train(&it.base, MIB, 20, 0);
    add_train(&it.run, MIB, 10, 0.5F);
    judge("\"loss\":\"none\"");
    assert_int_equal(it.result.count, 3);
    assert_int_equal(it.result.exit_code, 0);
    judge("\"overrides\":[{\"case\":\"tiny\",\"metric\":\"loss\",\"loss\":\"none\","
          "\"reason\":\"new data\"}]");
    assert_int_equal(it.result.count, 3);
    // A baseline whose own rounds differ is no measure of bits.
    it.baseline.sides.count = 0;
    bt_baseline_release(&it.baseline);
    made_train_round(&it.base, "tiny", "blutrain", 5e6, MIB, 20, 3, 0.1F);
    judge("\"loss\":\"bitwise\"");
    expect("tiny", BT_GATE_LOSS, BT_GATE_NOT_COMPARABLE, 4);
    (void)end(state);
}

static void a_coarser_precision_allows_more(void **state)
{
    (void)state;
    static const struct {
        const char *precision;
        bt_gate_word word;
    } cases[] = {{"fp32", BT_GATE_INVALID}, {"bf16", BT_GATE_SAME}};
    const float shift = 0.001F; // of a loss of ten: a ten-thousandth
    it.paired = true;
    for (int i = 0; i < ROUNDS; ++i) {
        made_train_round(&it.run, "tiny", "base", 5e6, MIB, 20, 20, 0);
        made_train_round(&it.run, "tiny", "candidate", 5e6, MIB, 20, 1, shift);
    }
    for (size_t i = 0; i < 2; ++i) {
        for (int64_t j = 0; j < it.run.run.round_count; ++j) {
            it.run.rounds[j].shape.precision = cases[i].precision;
        }
        judge("");
        expect("tiny", BT_GATE_LOSS, cases[i].word, cases[i].word == BT_GATE_SAME ? 0 : 5);
    }
}

// ---- what cannot be judged ---------------------------------------------------------------------

static void make_equal_runs(void)
{
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
}

static void another_machine_is_not_comparable(void **state)
{
    (void)state;
    make_equal_runs();
    it.run.facts[2].value = "NVIDIA A100";
    judge("");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("gelu", WHOLE)->changes, "gpu.name NVIDIA H200 -> NVIDIA A100");
    judge("\"allow\":\"incomparable\"");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 0);
    // Soft facts and the data of another case do not count.
    it.run.facts[2].value = "NVIDIA H200";
    it.run.facts[1].value = "books 4567";
    it.run.facts[3].value = "6.2";
    judge("");
    expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 0);
}

static void own_data_and_settings_count(void **state)
{
    (void)state;
    add_train(&it.base, MIB, 20, 0);
    add_train(&it.run, MIB, 20, 0);
    it.run.facts[1].value = "books 4567";
    judge("");
    expect("tiny", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("tiny", WHOLE)->changes, "data.tiny books 0123 -> books 4567");
    it.run.facts[1].value = "books 0123";
    for (int i = 0; i < ROUNDS; ++i) {
        it.run.rounds[i].what.axes_json = "{\"train\":{\"steps\":21}}";
    }
    judge_again();
    expect("tiny", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("tiny", WHOLE)->changes, "train.steps 20 -> 21");
}

static void cases_of_one_side_are_said(void **state)
{
    (void)state;
    make_equal_runs();
    add_kernel(&it.base, "gone", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "fresh", "blutrain", 1e6, SPREAD, ROUNDS);
    judge("");
    expect("gone", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect("fresh", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 4);
    judge("\"allow\":[\"new\"]");
    assert_int_equal(it.result.exit_code, 4);
    judge("\"allow\":[\"new\",\"missing\"]");
    assert_int_equal(it.result.exit_code, 0);
    assert_int_equal(it.result.excused, 2);
    bt_gate_request request = request_of();
    request.filter = "gel*";
    bt_gate_result_release(&it.result);
    ASSERT_OK(bt_gate_run(&request, &it.result));
    assert_int_equal(it.result.count, 1); // what was not asked for is not missing
}

static void rounds_that_went_wrong_are_said(void **state)
{
    (void)state;
    make_equal_runs();
    it.run.rounds[2].status = BT_RUN_FAILED;
    it.run.rounds[2].message = "element 3 is 7, not 8";
    judge("\"allow\":[\"inconclusive\",\"incomparable\"]");
    expect("gelu", WHOLE, BT_GATE_INVALID, 5);
    expect_words(item_of("gelu", WHOLE)->sentence, "1 of 8 rounds failed: element 3 is 7, not 8");
    for (int i = 0; i < ROUNDS; ++i) {
        it.run.rounds[i].status = BT_RUN_INVALID;
        it.run.rounds[i].label = "throttled";
    }
    judge("");
    expect("gelu", WHOLE, BT_GATE_INVALID, 4);
    expect_words(item_of("gelu", WHOLE)->sentence, "all 8 rounds were disturbed: throttled");
    for (int i = 0; i < ROUNDS; ++i) {
        it.run.rounds[i].status = BT_RUN_UNAVAILABLE;
        it.run.rounds[i].message = "no torch";
    }
    judge("");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    for (int i = 0; i < ROUNDS; ++i) {
        it.run.rounds[i].status = BT_RUN_INTERRUPTED;
    }
    judge("");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("gelu", WHOLE)->sentence, "no round of it was finished");
}

static void a_run_without_samples_is_said(void **state)
{
    (void)state;
    make_equal_runs();
    for (int i = 0; i < ROUNDS; ++i) {
        it.run.rounds[i].measurement_count = 0;
    }
    judge("");
    expect("gelu", BT_GATE_TIME, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("gelu", BT_GATE_TIME)->sentence, "the run has no time_ns");
    it.run.run.round_count = 0;
    judge("\"allow\":\"missing\"");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 0);
    it.run.run.status = BT_RUN_RUNNING;
    bt_gate_request request = request_of();
    bt_gate_result none;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 7 is still running",
                 bt_gate_run(&request, &none));
    it.run.run.status = BT_RUN_PASSED;
    request.baseline = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "needs a baseline", bt_gate_run(&request, &none));
}

static void clocks_far_apart_are_not_comparable(void **state)
{
    (void)state;
    bt_store_telemetry base[2], run[2];
    make_equal_runs();
    for (int i = 0; i < 2; ++i) {
        base[i] = (bt_store_telemetry){.sm_clock_mhz = 1980, .power_w = 400};
        run[i] = (bt_store_telemetry){.sm_clock_mhz = 1755, .power_w = 300};
    }
    run[0] = (bt_store_telemetry){.sm_clock_mhz = 345, .throttle = BT_THROTTLE_IDLE}; // starting up
    for (int i = 0; i < ROUNDS; ++i) {
        it.base.rounds[i].telemetry = base;
        it.run.rounds[i].telemetry = run;
        it.base.rounds[i].telemetry_count = it.run.rounds[i].telemetry_count = 2;
    }
    judge("");
    expect("gelu", WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("gelu", WHOLE)->sentence, "1980 and 1755 MHz");
    expect_words(item_of("gelu", WHOLE)->changes, "power 400 -> 300 W");
    it.run.rounds[4].label = "loaded machine";
    judge("\"clock_tolerance\":0.2");
    expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 0);
    expect_words(item_of("gelu", BT_GATE_TIME)->changes, "1 of 8 rounds: loaded machine");
}

static bt_status say_calibration(void *self, const bt_gate_side *side, bt_gate_metric metric,
                                 bt_gate_calibration *out)
{
    assert_string_equal(side->name, "gelu");
    assert_int_equal(metric, BT_GATE_TIME);
    const double *seen = self;
    out->known = true;
    out->false_alarm_rate = seen[0];
    out->smallest = seen[1];
    return BT_OK;
}

static void a_gate_that_misses_its_rates_is_refused(void **state)
{
    (void)state;
    static const struct {
        double seen[2]; // false alarms, smallest slowdown
        bt_gate_word word;
        const char *words;
    } cases[] = {
        {{0.01, 0.02}, BT_GATE_SAME, ""},
        {{(double)NAN, (double)NAN}, BT_GATE_SAME, ""},
        {{0.05, 0.01}, BT_GATE_NOT_COMPARABLE, "called 5 % of identical builds slower"},
        {{0, 0.03}, BT_GATE_NOT_COMPARABLE, "no slowdown below 3 %; it must find 2 %"},
    };
    make_equal_runs();
    judge("\"calibration\":{\"required\":true}");
    expect("gelu", BT_GATE_TIME, BT_GATE_NOT_COMPARABLE, 4);
    expect_words(item_of("gelu", BT_GATE_TIME)->sentence, "bt-bench calibrate");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_gate_request request = request_of();
        request.calibration = say_calibration;
        request.calibration_self = (void *)(uintptr_t)cases[i].seen;
        bt_gate_result_release(&it.result);
        ASSERT_OK(bt_gate_run(&request, &it.result));
        expect("gelu", BT_GATE_TIME, cases[i].word, cases[i].word == BT_GATE_SAME ? 0 : 4);
        expect_words(item_of("gelu", BT_GATE_TIME)->sentence, cases[i].words);
    }
}

static void the_gravest_gives_the_exit_code(void **state)
{
    (void)state;
    add_kernel(&it.base, "a", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.base, "b", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.base, "c", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "a", "blutrain", 1.1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "b", "blutrain", 1e6, 0.05, ROUNDS);
    judge("");
    expect("a", BT_GATE_TIME, BT_GATE_SLOWER, 1); // before missing (4) and inconclusive (3)
    judge("\"overrides\":[{\"case\":\"a\",\"gated\":false,\"reason\":\"known\"}]");
    expect("a", BT_GATE_TIME, BT_GATE_SLOWER, 4);
    judge("\"allow\":\"missing\","
          "\"overrides\":[{\"case\":\"a\",\"gated\":false,\"reason\":\"known\"}]");
    expect("b", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    it.run.rounds[0].status = BT_RUN_FAILED;
    judge("");
    expect("a", WHOLE, BT_GATE_INVALID, 5);
}

// ---- verdicts are kept and made again ----------------------------------------------------------

static void same_number(double left, double right)
{
    assert_true((isnan(left) && isnan(right)) || fabs(left - right) <= 0);
}

static void judged_again_from_the_store(bt_store *store, int64_t run)
{
    bt_store_run back;
    ASSERT_OK(bt_store_run_read(store, run, &back));
    assert_int_equal(back.verdict_count, it.result.count);
    for (int64_t i = 0; i < back.verdict_count; ++i) {
        bt_gate_verdict again;
        const bt_store_verdict *stored = &back.verdicts[i];
        assert_string_equal(stored->kind, BT_GATE_KIND);
        ASSERT_OK(bt_gate_rejudge(&it.run.run, stored, &again));
        assert_string_equal(bt_gate_word_name(again.word), stored->verdict);
        same_number(again.ratio, stored->ratio);
        same_number(again.low, stored->low);
        same_number(again.high, stored->high);
        assert_int_equal(again.rounds, stored->rounds);
    }
    bt_store_run_release(&back);
}

static void verdicts_are_made_again_from_their_rule(void **state)
{
    (void)state;
    const char *folder = sample_folder_make();
    char database[128];
    bt_store *store = NULL;
    (void)snprintf(database, sizeof database, "%s/bt.sqlite", folder);
    make_equal_runs();
    add_train(&it.base, MIB, 20, 0);
    add_train(&it.run, 3 * MIB, 10, 0.5F);
    add_kernel(&it.base, "gone", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "fresh", "blutrain", 1e6, SPREAD, ROUNDS);
    judge("");
    assert_int_equal(it.result.count, 7);
    ASSERT_OK(bt_store_open(database, BT_STORE_WRITE, &store));
    ASSERT_OK(bt_store_run_begin(store, &it.run.run.info, &it.run.run.id));
    ASSERT_OK(bt_gate_store(store, &it.result)); // request.run is it.run.run
    judged_again_from_the_store(store, it.run.run.id);
    ASSERT_OK(bt_store_close(store));
    sample_folder_remove(folder);
    // Other rounds give another verdict: the rule does not hold the answer.
    bt_gate_verdict again;
    bt_store_verdict stored = {.rule_json = item_of("gelu", BT_GATE_TIME)->rule_json};
    for (int64_t i = 0; i < ROUNDS; ++i) {
        ((bt_store_measurement *)(uintptr_t)it.run.rounds[i].measurements)->value *= 1.05;
    }
    ASSERT_OK(bt_gate_rejudge(&it.run.run, &stored, &again));
    assert_int_equal(again.word, BT_GATE_SLOWER);
}

static void a_rule_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"bench\":\"made\",\"case\":\"gelu\",\"candidate\":\"blutrain\"}",
        "{\"bench\":\"made\",\"case\":\"gelu\",\"candidate\":\"blutrain\",\"presence\":\"no\"}"};
    bt_gate_verdict verdict;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
        bt_store_verdict stored = {.rule_json = rules[i]};
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                     "the rule of a verdict:1:", bt_gate_rejudge(&it.run.run, &stored, &verdict));
    }
}

// ---- what is said ------------------------------------------------------------------------------

static void make_a_bit_of_everything(void)
{
    make_equal_runs();
    add_kernel(&it.base, "a|b<i>", "blutrain", 1e6, SPREAD, ROUNDS);
    for (int i = 0; i < ROUNDS; ++i) {
        made_kernel_round(&it.run, "a|b<i>", "blutrain", 1.05e6 * made_noise(i, SPREAD), "gelu_v1");
    }
    add_kernel(&it.base, "open", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "open", "blutrain", 1e6, 0.05, ROUNDS);
    add_kernel(&it.run, "bad\x01\"&", "blutrain", 1e6, SPREAD, ROUNDS);
    judge("\"allow\":\"new\"");
}

static void the_text_says_what_changed(void **state)
{
    (void)state;
    bt_str out = {0};
    it.run.facts[3].value = "6.5";
    it.run.run.info.build.flags = "-O2";
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_text(&it.result, "results/run-7/report.html", &out));
    const char *text = bt_str_text(&out);
    expect_words(text, "FAIL  a|b<i>   slower by 5.0 % [");
    expect_words(text, "tolerance 1 %, 8 rounds\n      the kernel that ran changed: gelu_v2 -> "
                       "gelu_v1\n");
    expect_words(text, "\nbesides  flags -O3 -> -O2; os.kernel 6.1 -> 6.5\nFAIL  4 cases");
    expect_words(text, "INCONCLUSIVE  open");
    expect_words(text, "16 rounds may tell");
    expect_words(text, "NOT-COMPARABLE  bad?\"&   new: the baseline has no such case (let pass)");
    expect_words(text, "FAIL  4 cases: 1 slower, 1 not comparable, 1 inconclusive, 1 same; 1 let "
                       "pass by the policy   report results/run-7/report.html   exit 1");
    expect_words(text, "next  the same with 16 rounds");
    assert_null(strstr(text, "next  1 faster"));
    bt_str_release(&out);
}

static void a_machine_that_was_slower_as_a_whole_is_said(void **state)
{
    (void)state;
    bt_str out = {0};
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "blutrain", 1.1e6, SPREAD, ROUNDS);
    made_ceiling_round(&it.base, 6e9);
    made_ceiling_round(&it.run, 5.9e9);
    judge("");
    assert_int_equal(it.result.count, 1); // the copy itself is not judged
    ASSERT_OK(bt_gate_text(&it.result, "", &out));
    assert_null(strstr(bt_str_text(&out), "own copy"));
    ((bt_store_measurement *)(uintptr_t)it.run.rounds[ROUNDS].measurements)->value = 5.4e9;
    bt_str_clear(&out);
    ASSERT_OK(bt_gate_text(&it.result, "", &out));
    expect_words(bt_str_text(&out),
                 "besides  the machine's own copy, hot: 6.00 GB/s -> 5.40 GB/s\n");
    bt_str_release(&out);
}

static void an_improvement_proposes_a_baseline(void **state)
{
    (void)state;
    bt_str out = {0};
    add_kernel(&it.base, "gelu", "blutrain", 1e6, SPREAD, ROUNDS);
    add_kernel(&it.run, "gelu", "blutrain", 0.9e6, SPREAD, ROUNDS);
    judge("");
    ASSERT_OK(bt_gate_text(&it.result, "", &out));
    expect_words(bt_str_text(&out), "FASTER  gelu   faster by 10.0 % [");
    expect_words(bt_str_text(&out),
                 "PASS  1 case: 1 faster   exit 0\n"
                 "next  1 faster: bt-bench baseline set main 7 --reason \"...\"");
    bt_str_release(&out);
}

static void the_comment_folds_what_is_same(void **state)
{
    (void)state;
    bt_str out = {0};
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_markdown(&it.result, &out));
    const char *text = bt_str_text(&out);
    expect_words(text, "### bt-bench gate: FAIL (exit 1)\n\n**1 slower, 1 not comparable, 1 "
                       "inconclusive, 1 same**, of which the policy lets 1 pass");
    expect_words(text, "| a\\|b&lt;i&gt; | time | SLOWER | +5.00 % | slower by 5.0 %");
    expect_words(text, "<details><summary>1 same</summary>\n\n| case |");
    expect_words(text, "\nnext: the same with 16 rounds\n");
    const char *folded = strstr(text, "<details>");
    assert_true(strstr(text, "| SLOWER |") < strstr(text, "| INCONCLUSIVE |"));
    assert_true(strstr(text, "| INCONCLUSIVE |") < folded);
    assert_true(strstr(text, "| gelu |") > folded);
    bt_str_release(&out);
}

static void a_long_comment_is_cut(void **state)
{
    (void)state;
    bt_str out = {0};
    static char names[120][16]; // the runs borrow them
    for (int i = 0; i < 120; ++i) {
        (void)snprintf(names[i], sizeof names[i], "case%03d", i);
        add_kernel(&it.base, names[i], "blutrain", 1e6, 0, 2);
        add_kernel(&it.run, names[i], "blutrain", 1.1e6, 0, 2);
    }
    judge("\"rounds\":2");
    assert_int_equal(it.result.words[BT_GATE_SLOWER], 120);
    ASSERT_OK(bt_gate_markdown(&it.result, &out));
    expect_words(bt_str_text(&out), "| case099 |");
    assert_null(strstr(bt_str_text(&out), "| case100 |"));
    expect_words(bt_str_text(&out), "\n20 more in the report\n");
    assert_true(out.length_bytes < 65536);
    bt_str_release(&out);
}

static void junit_is_escaped_and_counted(void **state)
{
    (void)state;
    bt_str out = {0};
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_junit(&it.result, &out));
    const char *text = bt_str_text(&out);
    expect_words(text, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\"");
    expect_words(text, "<testcase classname=\"a|b&lt;i&gt;\" name=\"time_ns\"><failure "
                       "message=\"SLOWER: slower by 5.0 %");
    expect_words(text, "<testcase classname=\"bad?&quot;&amp;\" name=\"case\"><skipped ");
    assert_null(strchr(text, 1));
    bt_str_release(&out);
}

static void json_says_all(void **state)
{
    (void)state;
    bt_str out = {0};
    bt_json_doc json;
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_json(&it.result, &out));
    ASSERT_OK(bt_json_parse("gate", bt_str_text(&out), out.length_bytes, &json));
    assert_true(bt_json_number_of(json.root, "exit_code") == 1);
    assert_true(bt_json_number_of(bt_json_get(json.root, "counts"), "NOT-COMPARABLE") == 1);
    assert_int_equal(cJSON_GetArraySize(bt_json_get(json.root, "verdicts")), 4);
    assert_string_equal(bt_json_get(bt_json_get(json.root, "baseline"), "digest")->valuestring,
                        it.baseline.digest);
    bt_json_release(&json);
    bt_str_release(&out);
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    make_equal_runs();
    add_train(&it.base, MIB, 20, 0);
    add_train(&it.run, MIB, 20, 0);
    it.run.facts[0].value = "another";
    judge("");
    it.run.facts[0].value = "a processor";
    bt_gate_request request = request_of();
    int64_t live = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_gate_result result = {0};
        bt_str text = {0};
        bt_mem_fail_at(n);
        bt_status status = bt_gate_run(&request, &result);
        if (status == BT_OK) {
            status = bt_gate_text(&result, "", &text);
        }
        if (status == BT_OK) {
            status = bt_gate_markdown(&result, &text);
        }
        if (status == BT_OK) {
            status = bt_gate_junit(&result, &text);
        }
        bt_mem_fail_at(0);
        bt_gate_result_release(&result);
        bt_str_release(&text);
        assert_int_equal(bt_mem_live_count(), live);
        if (status == BT_OK) {
            assert_true(n > 50);
            return;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_all_four_words),
        TEST(pairs_are_held_against_each_other),
        TEST(rates_turn_round),
        TEST(a_peer_is_a_subject_of_its_own),
        TEST(a_case_is_run_until_its_time_is_decided),
        cmocka_unit_test(memory_is_exact),
        cmocka_unit_test(losses_go_by_their_tier),
        TEST(a_coarser_precision_allows_more),
        TEST(another_machine_is_not_comparable),
        TEST(own_data_and_settings_count),
        TEST(cases_of_one_side_are_said),
        TEST(rounds_that_went_wrong_are_said),
        TEST(a_run_without_samples_is_said),
        TEST(clocks_far_apart_are_not_comparable),
        TEST(a_gate_that_misses_its_rates_is_refused),
        TEST(the_gravest_gives_the_exit_code),
        TEST(verdicts_are_made_again_from_their_rule),
        TEST(a_rule_that_is_none_is_refused),
        TEST(the_text_says_what_changed),
        TEST(a_machine_that_was_slower_as_a_whole_is_said),
        TEST(an_improvement_proposes_a_baseline),
        TEST(the_comment_folds_what_is_same),
        TEST(a_long_comment_is_cut),
        TEST(junit_is_escaped_and_counted),
        TEST(json_says_all),
        TEST(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
