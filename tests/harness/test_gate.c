// tests/harness/test_gate.c - every verdict and exit code of the gate, and their texts
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "tests/harness/gate_setting.h"
#include "tests/harness/scratch_store.h"

// ---- times -------------------------------------------------------------------------------------

static void times_have_all_four_words(void **state)
{
    (void)state;
    static const struct {
        double ratio, spread;
        bt_gate_word word;
        int exit_code;
    } cases[] = {
        {1.000, GATE_SPREAD, BT_GATE_SAME, 0},   {1.004, GATE_SPREAD, BT_GATE_SAME, 0},
        {1.030, GATE_SPREAD, BT_GATE_SLOWER, 1}, {0.950, GATE_SPREAD, BT_GATE_FASTER, 0},
        {1.008, 0.05, BT_GATE_INCONCLUSIVE, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)gate_begin(state);
        gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
        gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1e6 * cases[i].ratio, cases[i].spread,
                        GATE_ROUNDS);
        gate_judge("");
        gate_expect("gelu", BT_GATE_TIME, cases[i].word, cases[i].exit_code);
        assert_int_equal(gate_it.result.count, 1);
        assert_int_equal(gate_it.result.words[cases[i].word], 1);
        assert_true(fabs(gate_it.result.items[0].verdict.ratio - cases[i].ratio) < 0.01);
        (void)gate_end(state);
    }
}

static void pairs_are_held_against_each_other(void **state)
{
    (void)state;
    gate_it.paired = true;
    for (int i = 0; i < GATE_ROUNDS; ++i) { // a machine that drifts by half affects both equally
        double drift = 1 + 0.06 * i;
        made_kernel_round(&gate_it.run, "gelu", "base", 1e6 * drift * made_noise(i, GATE_SPREAD),
                          "v1");
        made_kernel_round(&gate_it.run, "gelu", "candidate",
                          1.03e6 * drift * made_noise(i + 3, GATE_SPREAD), "v2");
    }
    assert_true(bt_gate_is_paired(&gate_it.run.run));
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SLOWER, 1);
    assert_int_equal(gate_it.result.items[0].verdict.rounds, GATE_ROUNDS);
    gate_expect_words(gate_it.result.items[0].sentence, "slower by 3.0 % [");
    gate_expect_words(gate_it.result.items[0].changes, "the kernel that ran changed: v1 -> v2");
    // A round that one side lost takes its pair along.
    gate_it.run.rounds[3].status = BT_RUN_INVALID;
    gate_judge_again();
    assert_int_equal(gate_it.result.items[0].verdict.rounds, GATE_ROUNDS - 1);
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SLOWER, 1);
    // Against a baseline the candidate represents our own system.
    gate_it.paired = false;
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("\"tolerance\":{\"kernel\":0.5}");
    assert_int_equal(gate_it.result.count, 1);
    assert_string_equal(gate_it.result.items[0].subject, "gelu");
}

static void a_rate_is_shown_and_the_time_decides(void **state)
{
    (void)state;
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        made_train_round(&gate_it.base, "tiny", "blutrain", 5e6 * made_noise(i, GATE_SPREAD),
                         GATE_MIB, 20, 20, 0);
        made_train_round(&gate_it.run, "tiny", "blutrain", 5.2e6 * made_noise(i, GATE_SPREAD),
                         GATE_MIB, 20, 20, 0);
    }
    gate_judge("");
    gate_expect("tiny", BT_GATE_STEP_TIME, BT_GATE_SLOWER, 1);
    gate_expect("tiny", BT_GATE_STEP_TIME_P95, BT_GATE_SAME, 1); // tolerance 5 %
    gate_expect("tiny", BT_GATE_MEMORY, BT_GATE_SAME, 1);
    gate_expect("tiny", BT_GATE_LOSS, BT_GATE_SAME, 1);
    // The rate is the same measurement: it is shown, and does not decide once more.
    gate_expect_words(gate_item_of("tiny", BT_GATE_STEP_TIME)->sentence,
                      "; 102K tok/s -> 98.5K tok/s");
    assert_int_equal(gate_it.result.count, 4);
    gate_expect_words(gate_item_of("tiny", BT_GATE_STEP_TIME)->rule_json, "\"family\":2");
}

// A planted slower recovery fails, a slower detection too, and each has its own tolerance.
static void a_slower_recovery_fails(void **state)
{
    static const struct {
        double detect_ns, recovery_ns;
        const char *policy;
        bt_gate_word detect, recovery;
        int exit_code;
    } rows[] = {
        {6e6, 5e8, "", BT_GATE_SAME, BT_GATE_SAME, 0},
        {6e6, 5.2e8, "", BT_GATE_SAME, BT_GATE_SAME, 0}, // tolerance 10 %
        {6e6, 6e8, "", BT_GATE_SAME, BT_GATE_SLOWER, 1},
        {9e6, 5e8, "", BT_GATE_SLOWER, BT_GATE_SAME, 1},
        {6e6, 3e8, "", BT_GATE_SAME, BT_GATE_FASTER, 0},
        {6e6, 6e8, "\"tolerance\":{\"recovery\":0.3}", BT_GATE_SAME, BT_GATE_SAME, 0},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; ++row) {
        (void)gate_begin(state);
        for (int i = 0; i < GATE_ROUNDS; ++i) {
            const double noise = made_noise(i, GATE_SPREAD);
            made_recovery(&gate_it.base,
                          made_train_round(&gate_it.base, "kill", "blutrain", 5e6 * noise, GATE_MIB,
                                           20, 20, 0),
                          6e6 * noise, 5e8 * noise);
            made_recovery(&gate_it.run,
                          made_train_round(&gate_it.run, "kill", "blutrain", 5e6 * noise, GATE_MIB,
                                           20, 20, 0),
                          rows[row].detect_ns * noise, rows[row].recovery_ns * noise);
        }
        gate_judge(rows[row].policy);
        gate_expect("kill", BT_GATE_RECOVERY, rows[row].recovery, rows[row].exit_code);
        gate_expect("kill", BT_GATE_RECOVERY_DETECT, rows[row].detect, rows[row].exit_code);
        gate_expect("kill", BT_GATE_STEP_TIME, BT_GATE_SAME, rows[row].exit_code);
        (void)gate_end(state);
    }
    // A run whose recovery was not measured does not pass for one that recovers.
    (void)gate_begin(state);
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, GATE_MIB, 20, 0);
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        made_recovery(&gate_it.base, &gate_it.base.rounds[i], 6e6, 5e8);
    }
    gate_judge("");
    gate_expect("tiny", BT_GATE_RECOVERY, BT_GATE_NOT_COMPARABLE, 4);
    (void)gate_end(state);
}

static void a_peer_is_a_subject_of_its_own(void **state)
{
    (void)state;
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.base, "gelu", "pytorch-eager", 2e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "pytorch-eager", 3e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 1);
    gate_expect("gelu pytorch-eager", BT_GATE_TIME, BT_GATE_SLOWER, 1);
}

static void a_case_has_as_many_rounds_as_the_sessions_of_the_baseline(void **state)
{
    (void)state;
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, 12);
    gate_add_kernel(&gate_it.base, "few", "blutrain", 1e6, GATE_SPREAD, 3);
    gate_add_kernel(&gate_it.base, "many", "blutrain", 1e6, GATE_SPREAD, 30);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("");
    static const int64_t expected[] = {12, 8, 24}; // at least a look, at most the policy's
    for (int i = 0; i < 3; ++i) {
        const bt_gate_side *base = &gate_it.baseline.sides.items[i];
        assert_int_equal(bt_gate_rounds_against(&gate_it.policy, base), expected[i]);
    }
    assert_int_equal(bt_gate_rounds_against(&gate_it.policy, NULL), 8); // a new case
}

// One session is no evidence about other days: whatever it measured, no speed fails the gate.
static void a_baseline_of_few_sessions_is_advisory(void **state)
{
    (void)state;
    bt_str text = {0}, json = {0};
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1.1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_it.sessions = 4;
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_ADVISORY, 0);
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &text));
    gate_expect_words(bt_str_text(&text), "ADVISORY  gelu   +10.0 %");
    gate_expect_words(bt_str_text(&text), "the baseline has 4 sessions of the 5 that a verdict");
    gate_expect_words(bt_str_text(&text), "1 advisory");
    gate_expect_words(bt_str_text(&text), "next  speed was not judged: bt-bench baseline add main");
    ASSERT_OK(bt_gate_json(&gate_it.result, &json));
    gate_expect_words(bt_str_text(&json), "\"verdict\": \"ADVISORY\"");
    gate_expect_words(bt_str_text(&json), "\"sessions\": 4");
    bt_str_release(&text);
    bt_str_release(&json);
}

// The same with a GPU whose UUID is another one, or is not known.
static void a_baseline_of_another_card_is_advisory(void **state)
{
    (void)state;
    static const struct {
        const char *base, *run;
        bt_gate_word word;
    } rows[] = {{"GPU-1", "GPU-1", BT_GATE_SLOWER},
                {"GPU-1", "GPU-2", BT_GATE_ADVISORY},
                {"GPU-1", "(left out)", BT_GATE_ADVISORY},
                {"(left out)", "(left out)", BT_GATE_ADVISORY}};
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1.1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        made_run *const of[] = {&gate_it.base, &gate_it.run};
        const char *const uuids[] = {rows[i].base, rows[i].run};
        for (int j = 0; j < 2; ++j) {
            of[j]->facts[3].value = uuids[j];
        }
        if (uuids[0][0] == '(') { // a baseline's own sessions must name their card
            gate_it.sessions = 1;
        }
        bt_baseline_release(&gate_it.baseline);
        gate_judge("");
        gate_expect("gelu", BT_GATE_TIME, rows[i].word, rows[i].word == BT_GATE_SLOWER);
        assert_null(strstr(gate_it.baseline.document, "GPU-1"));
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
        {10 * GATE_MIB, BT_GATE_SAME, 0, "peak memory: 10.0 MiB"},
        {11 * GATE_MIB, BT_GATE_SAME, 0, "11.0 MiB"},
        {11 * GATE_MIB + 1, BT_GATE_LARGER, 1, "more by 1.00 MiB"},
        {9 * GATE_MIB - 1, BT_GATE_SMALLER, 0, "less by"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)gate_begin(state);
        gate_add_train(&gate_it.base, 10 * GATE_MIB, 20, 0);
        gate_add_train(&gate_it.run, 10 * GATE_MIB, 20, 0);
        ((bt_store_step *)(uintptr_t)gate_it.run.rounds[5].steps)[7].peak_allocated_bytes =
            cases[i].peak_bytes; // one step of one round
        for (int64_t j = 0; cases[i].peak_bytes < 10 * GATE_MIB && j < GATE_ROUNDS * 20; ++j) {
            ((bt_store_step *)(uintptr_t)gate_it.run.rounds[j / 20].steps)[j % 20]
                .peak_allocated_bytes = cases[i].peak_bytes;
        }
        gate_judge("");
        gate_expect("tiny", BT_GATE_MEMORY, cases[i].word, cases[i].exit_code);
        gate_expect_words(gate_item_of("tiny", BT_GATE_MEMORY)->sentence, cases[i].words);
        (void)gate_end(state);
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
        {"\"loss\":\"bitwise\"", 1e-6F, BT_GATE_DIFFERENT, 5},
        {"\"loss\":\"numeric\"", 1e-6F, BT_GATE_SAME, 0},
        {"\"loss\":\"numeric\"", 0.5F, BT_GATE_DIFFERENT, 5},
        {"\"loss\":\"numeric\"", (float)NAN, BT_GATE_DIFFERENT, 5},
        {"\"loss\":\"statistical\"", 0, BT_GATE_SAME, 0}, // consistent with
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        (void)gate_begin(state);
        gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
        gate_add_train(&gate_it.run, GATE_MIB, 10, cases[i].shift);
        gate_judge(cases[i].policy);
        gate_expect("tiny", BT_GATE_LOSS, cases[i].word, cases[i].exit_code);
        (void)gate_end(state);
    }
    (void)gate_begin(state);
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, GATE_MIB, 10, 0.5F);
    gate_judge("\"loss\":\"none\"");
    assert_int_equal(gate_it.result.count, 3);
    assert_int_equal(gate_it.result.exit_code, 0);
    gate_judge("\"overrides\":[{\"case\":\"tiny\",\"metric\":\"loss\",\"loss\":\"none\","
               "\"reason\":\"new data\"}]");
    assert_int_equal(gate_it.result.count, 3);
    // A baseline whose own rounds differ cannot be compared bit by bit.
    gate_it.baseline.sides.count = 0;
    bt_baseline_release(&gate_it.baseline);
    made_train_round(&gate_it.base, "tiny", "blutrain", 5e6, GATE_MIB, 20, 3, 0.1F);
    gate_judge("\"loss\":\"bitwise\"");
    gate_expect("tiny", BT_GATE_LOSS, BT_GATE_NOT_COMPARABLE, 4);
    (void)gate_end(state);
}

static void a_coarser_precision_allows_more(void **state)
{
    (void)state;
    static const struct {
        const char *precision;
        bt_gate_word word;
    } cases[] = {{"fp32", BT_GATE_DIFFERENT}, {"bf16", BT_GATE_SAME}};
    const float shift = 0.001F; // of a loss of ten: a ten-thousandth
    gate_it.paired = true;
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        made_train_round(&gate_it.run, "tiny", "base", 5e6, GATE_MIB, 20, 20, 0);
        made_train_round(&gate_it.run, "tiny", "candidate", 5e6, GATE_MIB, 20, 1, shift);
    }
    for (size_t i = 0; i < 2; ++i) {
        for (int64_t j = 0; j < gate_it.run.run.round_count; ++j) {
            gate_it.run.rounds[j].shape.precision = cases[i].precision;
        }
        gate_judge("");
        gate_expect("tiny", BT_GATE_LOSS, cases[i].word, cases[i].word == BT_GATE_SAME ? 0 : 5);
    }
}

// ---- what cannot be judged ---------------------------------------------------------------------

static void another_machine_is_not_comparable(void **state)
{
    (void)state;
    gate_make_equal_runs();
    gate_it.run.facts[2].value = "NVIDIA A100";
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->changes,
                      "gpu.name NVIDIA H200 -> NVIDIA A100");
    gate_judge("\"allow\":\"incomparable\"");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 0);
    // Soft facts and the data of another case do not count.
    gate_it.run.facts[2].value = "NVIDIA H200";
    gate_it.run.facts[1].value = "books 4567";
    gate_it.run.facts[4].value = "6.2";
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 0);
}

static void own_data_and_settings_count(void **state)
{
    (void)state;
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, GATE_MIB, 20, 0);
    gate_it.run.facts[1].value = "books 4567";
    gate_judge("");
    gate_expect("tiny", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("tiny", GATE_WHOLE)->changes,
                      "data.tiny books 0123 -> books 4567");
    gate_it.run.facts[1].value = "books 0123";
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].what.axes_json = "{\"train\":{\"steps\":21}}";
    }
    gate_judge_again();
    gate_expect("tiny", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("tiny", GATE_WHOLE)->changes, "train.steps 20 -> 21");
}

// An older record has the data under the name of the case, a newer one under that of the dataset.
static void data_are_known_by_their_dataset(void **state)
{
    (void)state;
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, GATE_MIB, 20, 0);
    for (int64_t i = 0; i < gate_it.base.run.round_count; ++i) {
        gate_it.base.rounds[i].what.axes_json = "{\"dataset\":{\"name\":\"books\"}}";
        gate_it.run.rounds[i].what.axes_json = gate_it.base.rounds[i].what.axes_json;
    }
    gate_it.run.facts[1].key = "data.books";
    gate_judge("");
    gate_expect("tiny", BT_GATE_MEMORY, BT_GATE_SAME, 0);
    gate_it.run.facts[1].value = "books 4567";
    gate_judge_again();
    gate_expect("tiny", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_it.run.facts[1].value = "books 0123";
    gate_it.run.facts[1].key = "data.other"; // of another case: this one's own are missing
    gate_judge_again();
    gate_expect("tiny", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
}

static void cases_of_one_side_are_said(void **state)
{
    (void)state;
    gate_make_equal_runs();
    gate_add_kernel(&gate_it.base, "gone", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "fresh", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("");
    gate_expect("gone", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect("fresh", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 4);
    gate_judge("\"allow\":[\"new\"]");
    assert_int_equal(gate_it.result.exit_code, 4);
    gate_judge("\"allow\":[\"new\",\"missing\"]");
    assert_int_equal(gate_it.result.exit_code, 0);
    assert_int_equal(gate_it.result.excused, 2);
    bt_gate_request request = gate_request_of();
    request.filter = "gel*";
    bt_gate_result_release(&gate_it.result);
    ASSERT_OK(bt_gate_run(&request, &gate_it.result));
    assert_int_equal(gate_it.result.count, 1); // cases that were not requested are not missing
}

static void rounds_that_went_wrong_are_said(void **state)
{
    (void)state;
    gate_make_equal_runs();
    gate_it.run.rounds[2].status = BT_RUN_FAILED;
    gate_it.run.rounds[2].message = "element 3 is 7, not 8";
    gate_judge("\"allow\":[\"inconclusive\",\"incomparable\"]");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_INVALID, 5);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->sentence,
                      "1 of 8 rounds failed: element 3 is 7, not 8");
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].status = BT_RUN_INVALID;
        gate_it.run.rounds[i].label = "throttled";
    }
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_INVALID, 4);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->sentence,
                      "all 8 rounds were disturbed: throttled");
    // A peer that runs until it would be slow.
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].status = i < 4 ? BT_RUN_PASSED : BT_RUN_UNAVAILABLE;
        gate_it.run.rounds[i].message = "not now";
    }
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->sentence,
                      "4 of 8 rounds could not run: not now");
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].status = BT_RUN_UNAVAILABLE;
        gate_it.run.rounds[i].message = "no torch";
    }
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].status = BT_RUN_INTERRUPTED;
    }
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->sentence, "no round has finished");
}

static void a_run_without_samples_is_said(void **state)
{
    (void)state;
    gate_make_equal_runs();
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.run.rounds[i].measurement_count = 0;
    }
    gate_judge("");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence, "the run has no time_ns");
    gate_it.run.run.round_count = 0;
    gate_judge("\"allow\":\"missing\"");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 0);
    gate_it.run.run.status = BT_RUN_RUNNING;
    bt_gate_request request = gate_request_of();
    bt_gate_result none;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "run 7 is still running",
                 bt_gate_run(&request, &none));
    gate_it.run.run.status = BT_RUN_PASSED;
    request.baseline = NULL;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "needs a baseline", bt_gate_run(&request, &none));
}

static void clocks_far_apart_are_not_comparable(void **state)
{
    (void)state;
    bt_store_telemetry base[2], run[2];
    gate_make_equal_runs();
    for (int i = 0; i < 2; ++i) {
        base[i] = (bt_store_telemetry){.sm_clock_mhz = 1980, .power_w = 400};
        run[i] = (bt_store_telemetry){.sm_clock_mhz = 1755, .power_w = 300};
    }
    run[0] = (bt_store_telemetry){.sm_clock_mhz = 345, .throttle = BT_THROTTLE_IDLE}; // starting up
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        gate_it.base.rounds[i].telemetry = base;
        gate_it.run.rounds[i].telemetry = run;
        gate_it.base.rounds[i].telemetry_count = gate_it.run.rounds[i].telemetry_count = 2;
    }
    gate_judge("");
    gate_expect("gelu", GATE_WHOLE, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->sentence, "1980 and 1755 MHz");
    gate_expect_words(gate_item_of("gelu", GATE_WHOLE)->changes, "power 400 -> 300 W");
    gate_it.run.rounds[4].label = "loaded machine";
    gate_judge("\"clock_tolerance\":0.2");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_SAME, 0);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->changes, "1 of 8 rounds: loaded machine");
}

static bt_status say_calibration(void *self, const bt_gate_calibration_query *query,
                                 bt_gate_calibration *out)
{
    assert_string_equal(query->side->name, "gelu");
    assert_int_equal(query->metric, BT_GATE_TIME);
    assert_int_equal(query->days, 30);
    assert_true(query->rule->tolerance == 0.01);
    assert_int_equal(strlen(query->card), 32);
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
        double seen[2]; // upper bounds: false alarms, smallest slowdown
        bt_gate_word word;
        const char *words;
    } cases[] = {
        {{0.01, 0.02}, BT_GATE_SAME, ""},
        {{(double)NAN, (double)NAN}, BT_GATE_NOT_COMPARABLE, "may be judged slower"},
        {{0.05, 0.01},
         BT_GATE_NOT_COMPARABLE,
         "up to 5 % of identical builds may be judged slower"},
        {{0, 0.03},
         BT_GATE_NOT_COMPARABLE,
         "below 3 % may be missed; the policy requires detection from 2 %"},
    };
    gate_add_kernel(&gate_it.run, "gelu", "base", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "candidate", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_it.paired = true;
    gate_judge("\"calibration\":{\"required\":true}");
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence, "bt-bench calibrate");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_gate_request request = gate_request_of();
        request.calibration = say_calibration;
        request.calibration_self = (void *)(uintptr_t)cases[i].seen;
        bt_gate_result_release(&gate_it.result);
        ASSERT_OK(bt_gate_run(&request, &gate_it.result));
        gate_expect("gelu", BT_GATE_TIME, cases[i].word, cases[i].word == BT_GATE_SAME ? 0 : 4);
        gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence, cases[i].words);
    }
}

// Pairs hide what differs from day to day.
static void a_calibration_of_pairs_does_not_vouch_for_a_baseline(void **state)
{
    (void)state;
    static const double perfect[2] = {0, 0.01};
    gate_make_equal_runs();
    gate_judge("\"calibration\":{\"required\":true}");
    bt_gate_request request = gate_request_of();
    request.calibration = say_calibration;
    request.calibration_self = (void *)(uintptr_t)perfect;
    bt_gate_result_release(&gate_it.result);
    ASSERT_OK(bt_gate_run(&request, &gate_it.result));
    gate_expect("gelu", BT_GATE_TIME, BT_GATE_NOT_COMPARABLE, 4);
    gate_expect_words(gate_item_of("gelu", BT_GATE_TIME)->sentence,
                      "does not apply to a gate against a baseline");
}

static void the_gravest_gives_the_exit_code(void **state)
{
    (void)state;
    gate_add_kernel(&gate_it.base, "a", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.base, "b", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.base, "c", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "a", "blutrain", 1.1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "b", "blutrain", 1e6, 0.05, GATE_ROUNDS);
    gate_judge("");
    gate_expect("a", BT_GATE_TIME, BT_GATE_SLOWER, 1); // before missing (4) and inconclusive (3)
    gate_judge("\"overrides\":[{\"case\":\"a\",\"gated\":false,\"reason\":\"known\"}]");
    gate_expect("a", BT_GATE_TIME, BT_GATE_SLOWER, 4);
    gate_judge("\"allow\":\"missing\","
               "\"overrides\":[{\"case\":\"a\",\"gated\":false,\"reason\":\"known\"}]");
    gate_expect("b", BT_GATE_TIME, BT_GATE_INCONCLUSIVE, 3);
    gate_it.run.rounds[0].status = BT_RUN_FAILED;
    gate_judge("");
    gate_expect("a", GATE_WHOLE, BT_GATE_INVALID, 5);
}

// ---- verdicts are kept and made again ----------------------------------------------------------

static int begin_with_store(void **state)
{
    return gate_begin(state) == 0 ? scratch_store_open(state) : -1;
}

static int end_with_store(void **state)
{
    return gate_end(state) == 0 ? scratch_store_close(state) : -1;
}

static void same_number(double left, double right)
{
    assert_true((isnan(left) && isnan(right)) || fabs(left - right) <= 0);
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

static void judged_again_from_the_store(bt_store *store, int64_t run)
{
    bt_store_run back;
    ASSERT_OK(bt_store_run_read(store, run, &back));
    assert_int_equal(back.verdict_count, gate_it.result.count);
    for (int64_t i = 0; i < back.verdict_count; ++i) {
        bt_gate_verdict again;
        const bt_store_verdict *stored = &back.verdicts[i];
        assert_string_equal(stored->kind, BT_GATE_KIND);
        ASSERT_OK(judge_again(stored->rule_json, &again));
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
    gate_make_equal_runs();
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, 3 * GATE_MIB, 10, 0.5F);
    gate_add_kernel(&gate_it.base, "gone", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "fresh", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("");
    assert_int_equal(gate_it.result.count, 7);
    ASSERT_OK(bt_store_run_begin(scratch_store, &gate_it.run.run.info, &gate_it.run.run.id));
    ASSERT_OK(bt_gate_store(scratch_store, BT_GATE_KIND,
                            &gate_it.result)); // request.run is gate_it.run.run
    judged_again_from_the_store(scratch_store, gate_it.run.run.id);
    // Other rounds give another verdict: the rule does not contain the answer.
    bt_gate_verdict again;
    const char *rule = gate_item_of("gelu", BT_GATE_TIME)->rule_json;
    for (int64_t i = 0; i < GATE_ROUNDS; ++i) {
        ((bt_store_measurement *)(uintptr_t)gate_it.run.rounds[i].measurements)->value *= 1.05;
    }
    ASSERT_OK(judge_again(rule, &again));
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
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT,
                     "the rule of a verdict:1:", judge_again(rules[i], &verdict));
    }
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    gate_make_equal_runs();
    gate_add_train(&gate_it.base, GATE_MIB, 20, 0);
    gate_add_train(&gate_it.run, GATE_MIB, 20, 0);
    gate_it.run.facts[0].value = "another";
    gate_judge("");
    gate_it.run.facts[0].value = "a processor";
    bt_gate_request request = gate_request_of();
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, gate_begin, gate_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_all_four_words),
        TEST(pairs_are_held_against_each_other),
        TEST(a_rate_is_shown_and_the_time_decides),
        cmocka_unit_test(a_slower_recovery_fails),
        TEST(a_peer_is_a_subject_of_its_own),
        TEST(a_case_has_as_many_rounds_as_the_sessions_of_the_baseline),
        TEST(a_baseline_of_few_sessions_is_advisory),
        TEST(a_baseline_of_another_card_is_advisory),
        cmocka_unit_test(memory_is_exact),
        cmocka_unit_test(losses_go_by_their_tier),
        TEST(a_coarser_precision_allows_more),
        TEST(another_machine_is_not_comparable),
        TEST(own_data_and_settings_count),
        TEST(data_are_known_by_their_dataset),
        TEST(cases_of_one_side_are_said),
        TEST(rounds_that_went_wrong_are_said),
        TEST(a_run_without_samples_is_said),
        TEST(clocks_far_apart_are_not_comparable),
        TEST(a_gate_that_misses_its_rates_is_refused),
        TEST(a_calibration_of_pairs_does_not_vouch_for_a_baseline),
        TEST(the_gravest_gives_the_exit_code),
        cmocka_unit_test_setup_teardown(verdicts_are_made_again_from_their_rule, begin_with_store,
                                        end_with_store),
        TEST(a_rule_that_is_none_is_refused),
        TEST(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
