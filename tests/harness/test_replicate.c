// tests/harness/test_replicate.c - verdicts of claims, from made-up runs
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/replicate/replicate.h"
#include "harness/text/wrap.h"
#include "tests/support/test.h"

static const char claims_text[] =
    "{\"paper\":\"p\",\"stands_for\":[{\"name\":\"pytorch\",\"system\":\"pytorch-eager\"}],"
    "\"claims\":["
    "{\"id\":\"time\",\"metric\":\"time\",\"better\":\"lower\",\"values\":["
    "{\"system\":\"blutrain\",\"value\":1,\"printed\":\"1.00\"},{\"system\":\"pytorch\",\"value\":"
    "2,\"printed\":\"2.00\"}],"
    "\"case\":{\"suite\":\"kernels/s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"rate\",\"metric\":\"bandwidth\",\"better\":\"higher\",\"values\":["
    "{\"system\":\"blutrain\",\"value\":300,\"printed\":\"300.00\"},{\"system\":\"pytorch\","
    "\"value\":100,\"printed\":\"100.00\"}],"
    "\"case\":{\"suite\":\"kernels/s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"loss\",\"metric\":\"happiness\",\"better\":\"lower\","
    "\"values\":[{\"system\":\"blutrain\",\"value\":1,\"printed\":\"1.00\"},{\"system\":"
    "\"pytorch\",\"value\":2,\"printed\":\"2.00\"}],"
    "\"case\":{\"suite\":\"kernels/s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"alone\",\"metric\":\"time\",\"better\":\"lower\",\"values\":["
    "{\"system\":\"blutrain\",\"value\":1,\"printed\":\"1.00\"}],\"untested\":\"no case\"}]}";

enum { ROUNDS = 4 };

typedef struct made_run {
    bt_store_run run;
    bt_store_round rounds[2 * ROUNDS];
    bt_store_measurement times[2 * ROUNDS];
} made_run;

// `pairs` rounds of case "a" on two systems: ours takes 100 ns, the other so many times that.
static void make_run(made_run *out, int pairs, const double *ratios, bt_run_status theirs)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 2 * pairs; ++i) {
        bool ours = i % 2 == 0;
        out->times[i] = (bt_store_measurement){.metric = BT_METRIC_TIME,
                                               .value = ours ? 100 : 100 * ratios[i / 2],
                                               .low = (double)NAN,
                                               .high = (double)NAN};
        out->rounds[i] = (bt_store_round){
            .ordinal = i / 2,
            .what = {.name = "a", .kind = "kernel", .system = ours ? "blutrain" : "pytorch-eager"},
            .shape = {.device = "a device"},
            .status = ours ? BT_RUN_PASSED : theirs,
            .measurements = &out->times[i],
            .measurement_count = 1};
    }
    out->run.id = 7;
    out->run.rounds = out->rounds;
    out->run.round_count = 2 * pairs;
}

static void replicate(const made_run *made, bt_replications *out, bt_str *text)
{
    bt_json_doc json;
    bt_claims claims;
    ASSERT_OK(bt_json_parse("claims", claims_text, strlen(claims_text), &json));
    ASSERT_OK(bt_claims_read(&json, &claims));
    ASSERT_OK(bt_replicate(&claims, &made->run, out));
    if (text) {
        ASSERT_OK(bt_replications_text(&claims, &made->run, out, 0, text));
        ASSERT_OK(bt_replications_json(&claims, &made->run, out, text));
    }
    for (int64_t i = 0; i < out->count; ++i) {
        out->items[i].subject = out->items[i].other = ""; // they point into what goes now
        out->items[i].reason = "";
    }
    bt_claims_release(&claims);
    bt_json_doc_release(&json);
}

static void verdicts_follow_the_interval(void **state)
{
    (void)state;
    static const struct {
        double ratios[ROUNDS];
        int pairs;
        bt_verdict of_two, of_three; // claims of 2x and of 3x
        int exit_code;
    } cases[] = {
        {{2.0, 2.01, 1.99, 2.0}, 4, BT_VERDICT_REPLICATED, BT_VERDICT_LOWER, 1},
        {{2.5, 2.51, 2.49, 2.5}, 4, BT_VERDICT_HIGHER, BT_VERDICT_LOWER, 1},
        {{3.0, 3.01, 2.99, 3.0}, 4, BT_VERDICT_HIGHER, BT_VERDICT_REPLICATED, 0},
        {{1.0, 4.0, 1.5, 3.5}, 4, BT_VERDICT_INCONCLUSIVE, BT_VERDICT_INCONCLUSIVE, 3},
        // Inside the margin below, across its upper edge above: nothing is replicated.
        {{1.99, 2.01, 2.06, 2.07}, 4, BT_VERDICT_INCONCLUSIVE, BT_VERDICT_LOWER, 1},
        {{9.0}, 1, BT_VERDICT_INCONCLUSIVE, BT_VERDICT_INCONCLUSIVE, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        made_run made;
        bt_replications got;
        make_run(&made, cases[i].pairs, cases[i].ratios, BT_RUN_PASSED);
        replicate(&made, &got, NULL);
        assert_int_equal(got.count, 4);
        assert_int_equal(got.items[0].verdict, cases[i].of_two);
        assert_int_equal(got.items[1].verdict, cases[i].of_three);
        assert_int_equal(got.items[2].verdict, BT_VERDICT_NOT_TESTABLE);
        assert_int_equal(got.items[3].verdict, BT_VERDICT_NOT_TESTABLE);
        assert_int_equal(got.verdicts[BT_VERDICT_NOT_TESTABLE], 2);
        // Time and rate of one case: one measurement, counted for the smaller margin.
        assert_false(got.items[0].counted);
        assert_true(got.items[1].counted);
        assert_int_equal(got.verdicts[got.items[1].verdict], 1);
        assert_int_equal(bt_replications_exit_code(&got), cases[i].exit_code);
        bt_replications_release(&got);
    }
}

static void failed_rounds_are_no_evidence(void **state)
{
    (void)state;
    made_run made;
    bt_replications got;
    const double ratios[ROUNDS] = {2, 2, 2, 2};
    make_run(&made, ROUNDS, ratios, BT_RUN_UNAVAILABLE);
    replicate(&made, &got, NULL);
    assert_int_equal(got.verdicts[BT_VERDICT_NOT_TESTABLE], 4);
    assert_int_equal(bt_replications_exit_code(&got), 4);
    bt_replications_release(&got);
}

static void the_interval_is_students(void **state)
{
    (void)state;
    // Two logarithms 0 and 0.2: mean 0.1, deviation 0.1414, so 12.706204736 * 0.1 about the mean.
    const double logs[] = {0, 0.2};
    bt_replication got = {.claimed = 1, .margin = 0.02};
    bt_replication_judge(logs, 2, &got);
    assert_true(fabs(log(got.ratio) - 0.1) < 1e-12);
    assert_true(fabs(log(got.low) - (0.1 - 1.2706204736)) < 1e-9);
    assert_true(fabs(log(got.high) - (0.1 + 1.2706204736)) < 1e-9);
    assert_int_equal(got.verdict, BT_VERDICT_INCONCLUSIVE);
}

static void a_wide_margin_replicates_nothing(void **state)
{
    (void)state;
    const double logs[] = {0.0, 0.001, -0.001};
    bt_replication got = {.claimed = 1, .margin = 0.101, .rule = BT_CLAIM_RULE};
    bt_replication_judge(logs, 3, &got);
    assert_int_equal(got.verdict, BT_VERDICT_UNINFORMATIVE);
    assert_true(got.low < 1 && got.high > 1); // shown all the same
    got.margin = 0.1;
    bt_replication_judge(logs, 3, &got);
    assert_int_equal(got.verdict, BT_VERDICT_REPLICATED);
    got = (bt_replication){.claimed = 0.5, .margin = 0.9, .rule = 1}; // as old records were judged
    bt_replication_judge(logs, 3, &got);
    assert_int_equal(got.verdict, BT_VERDICT_EXCEEDED);
}

// A file of claims in an old bundle states its margins: its verdicts follow by the old rule.
static void a_file_with_margins_is_judged_as_it_was(void **state)
{
    (void)state;
    static const char text[] =
        "{\"claims\":[{\"id\":\"t\",\"metric\":\"time\",\"better\":\"lower\",\"margin\":0.5,"
        "\"values\":[{\"system\":\"blutrain\",\"value\":1},{\"system\":\"pytorch-eager\","
        "\"value\":1}],\"case\":{\"suite\":\"kernels/s\",\"profile\":\"p\",\"name\":\"a\"}}]}";
    const double ratios[ROUNDS] = {2.0, 2.01, 1.99, 2.0};
    made_run made;
    bt_json_doc json;
    bt_claims claims;
    bt_replications got;
    make_run(&made, ROUNDS, ratios, BT_RUN_PASSED);
    ASSERT_OK(bt_json_parse("claims", text, strlen(text), &json));
    ASSERT_OK(bt_claims_read(&json, &claims));
    ASSERT_OK(bt_replicate(&claims, &made.run, &got));
    assert_string_equal(bt_verdict_name(got.items[0].verdict), "EXCEEDED");
    assert_true(got.items[0].margin >= 0.5 && got.items[0].margin <= 0.5);
    bt_replications_release(&got);
    bt_claims_release(&claims);
    bt_json_doc_release(&json);
}

static void text_and_json_say_it(void **state)
{
    (void)state;
    made_run made;
    bt_replications got;
    bt_str text = {0};
    const double ratios[ROUNDS] = {2.0, 2.01, 1.99, 2.0};
    make_run(&made, ROUNDS, ratios, BT_RUN_PASSED);
    replicate(&made, &got, &text);
    static const char *const words[] = {"p on a device, run 7",
                                        "REPLICATED",
                                        "LOWER",
                                        "1 not testable here: no case",
                                        "0 replicated \xc2\xb7 0 higher \xc2\xb7 1 lower",
                                        "\"verdict\": \"NOT TESTABLE HERE\"",
                                        "\"pairs\": 4"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        if (!strstr(bt_str_text(&text), words[i])) {
            fail_msg("no '%s' in:\n%s", words[i], bt_str_text(&text));
        }
    }
    bt_str_release(&text);
    bt_replications_release(&got);
    bt_json_doc none;
    bt_claims claims;
    ASSERT_OK(bt_json_parse("x", "{}", 2, &none));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no list \"claims\"", bt_claims_read(&none, &claims));
    bt_json_doc_release(&none);
}

// ---- claims of training: several systems, several metrics, stand-ins ---------------------------

static const char training_text[] =
    "{\"claims\":["
    "{\"id\":\"rate\",\"metric\":\"throughput\",\"better\":\"higher\",\"values\":["
    "{\"system\":\"eager\",\"value\":100,\"printed\":\"100.00\"},{\"system\":\"compiled\","
    "\"value\":125,\"printed\":\"125.00\"},"
    "{\"system\":\"blutrain\",\"value\":150,\"printed\":\"150.00\"}],"
    "\"case\":{\"suite\":\"gpt\",\"profile\":\"paper\",\"name\":\"e1\"},\"stand_ins\":[{\"suite\":"
    "\"gpt\","
    "\"profile\":\"short\",\"name\":\"e1\",\"deviations\":[\"one GPU\",\"12 steps\"]}]},"
    "{\"id\":\"memory\",\"metric\":\"peak_memory\",\"better\":\"lower\",\"values\":"
    "["
    "{\"system\":\"eager\",\"value\":20,\"printed\":\"20.00\"},{\"system\":\"blutrain\",\"value\":"
    "10,\"printed\":\"10.00\"}],"
    "\"case\":{\"suite\":\"gpt\",\"profile\":\"paper\",\"name\":\"e1\"}}]}";

enum { SYSTEMS = 3 };

typedef struct training_run {
    bt_store_run run;
    bt_store_round rounds[2 * SYSTEMS];
    bt_store_step steps[2 * SYSTEMS];
} training_run;

// Two rounds of case e1 on three systems, a step each: ours 150 tokens/s in 10 bytes, eager 100 in
// 30, compiled 125 in 15.
static void make_training(training_run *out, const char *profile)
{
    static const struct {
        const char *system;
        int64_t tokens, bytes;
    } made[SYSTEMS] = {{"blutrain", 150, 10}, {"eager", 100, 30}, {"compiled", 125, 15}};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 2 * SYSTEMS; ++i) {
        out->steps[i] = (bt_store_step){.loss = 3,
                                        .tokens = made[i % SYSTEMS].tokens,
                                        .host_ns = 1000000000,
                                        .peak_allocated_bytes = made[i % SYSTEMS].bytes};
        out->rounds[i] = (bt_store_round){
            .ordinal = i / SYSTEMS,
            .what = {.name = "e1", .kind = "train", .system = made[i % SYSTEMS].system},
            .status = BT_RUN_PASSED,
            .steps = &out->steps[i],
            .step_count = 1};
    }
    out->run = (bt_store_run){.id = 9,
                              .info.suite = {.name = "gpt", .profile = profile},
                              .rounds = out->rounds,
                              .round_count = 2 * SYSTEMS};
}

typedef struct judged {
    bt_json_doc json;
    bt_claims claims;
    bt_replications got;
} judged;

static void judge_training(const bt_store_run *run, judged *out)
{
    ASSERT_OK(bt_json_parse("claims", training_text, strlen(training_text), &out->json));
    ASSERT_OK(bt_claims_read(&out->json, &out->claims));
    ASSERT_OK(bt_replicate(&out->claims, run, &out->got));
}

static void release_judged(judged *out)
{
    bt_replications_release(&out->got);
    bt_claims_release(&out->claims);
    bt_json_doc_release(&out->json);
}

static void a_claim_of_three_systems_is_two_pairs(void **state)
{
    (void)state;
    training_run made;
    judged all;
    make_training(&made, "paper");
    judge_training(&made.run, &all);
    assert_int_equal(all.got.count, 3);
    assert_string_equal(all.got.items[0].subject, "rate/eager");
    assert_true(fabs(all.got.items[0].ratio - 1.5) < 1e-12);
    assert_int_equal(all.got.items[0].verdict, BT_VERDICT_REPLICATED);
    assert_string_equal(all.got.items[1].subject, "rate/compiled");
    assert_true(fabs(all.got.items[1].ratio - 1.2) < 1e-12);
    assert_string_equal(all.got.items[2].subject, "memory");
    assert_true(fabs(all.got.items[2].ratio - 3) < 1e-12); // claimed: 2
    assert_int_equal(all.got.items[2].verdict, BT_VERDICT_HIGHER);
    assert_string_equal(all.got.items[2].deviations, "");
    assert_int_equal(bt_replications_exit_code(&all.got), 0);
    release_judged(&all);
}

static void a_stand_in_says_in_what_it_deviates(void **state)
{
    (void)state;
    training_run made;
    judged all;
    make_training(&made, "short");
    judge_training(&made.run, &all);
    assert_string_equal(all.got.items[0].deviations, "one GPU; 12 steps");
    assert_int_equal(all.got.items[0].verdict, BT_VERDICT_REPLICATED);
    assert_int_equal(all.got.items[2].verdict, BT_VERDICT_NOT_TESTABLE); // it has none
    release_judged(&all);
    make_training(&made, "other"); // a case of the same name elsewhere is another case
    judge_training(&made.run, &all);
    assert_int_equal(all.got.verdicts[BT_VERDICT_NOT_TESTABLE], 3);
    release_judged(&all);
}

static void deviations_are_said_once(void **state)
{
    (void)state;
    training_run made;
    judged all;
    bt_str text = {0};
    make_training(&made, "short");
    judge_training(&made.run, &all);
    ASSERT_OK(bt_replications_text(&all.claims, &made.run, &all.got, 0, &text));
    const char *first = strstr(bt_str_text(&text), "* deviates from the paper: one GPU; 12 steps");
    assert_non_null(first);
    assert_null(strstr(first + 10, "deviates"));
    bt_str_release(&text);
    release_judged(&all);
}

static void lines_fit_the_terminal_and_name_what_is_not_tested(void **state)
{
    (void)state;
    training_run made;
    judged all;
    bt_str text = {0};
    make_training(&made, "short");
    judge_training(&made.run, &all);
    ASSERT_OK(bt_replications_text(&all.claims, &made.run, &all.got, 60, &text));
    assert_non_null(strstr(bt_str_text(&text), "not testable here: the run has no case that the"));
    assert_non_null(strstr(bt_str_text(&text), "\n       of this suite: memory\n"));
    for (const char *line = bt_str_text(&text); *line; line += line[strcspn(line, "\n")] == '\n') {
        const size_t length = strcspn(line, "\n");
        assert_in_range(bt_wrap_width(line, length), 0, 60);
        line += length;
    }
    bt_str_release(&text);
    made.run.info.suite.name = "bert";
    ASSERT_OK(bt_replications_text(&all.claims, &made.run, &all.got, 60, &text));
    assert_null(strstr(bt_str_text(&text), "of this suite"));
    bt_str_release(&text);
    release_judged(&all);
}

static void a_suite_is_run_for_its_claims(void **state)
{
    (void)state;
    training_run made;
    judged all;
    bt_str systems = {0};
    make_training(&made, "short");
    judge_training(&made.run, &all);
    assert_string_equal(bt_claims_profile(&all.claims, "gpt"), "short");
    assert_null(bt_claims_profile(&all.claims, "bert"));
    bt_claims_suite suite = {&all.claims, "gpt", "paper"};
    assert_true(bt_claims_want("e1", &suite));
    assert_false(bt_claims_want("e2", &suite));
    bt_claims_systems(&suite, &systems);
    assert_string_equal(bt_str_text(&systems), "blutrain,eager,compiled");
    bt_str_release(&systems);
    release_judged(&all);
}

static void a_recorded_verdict_can_be_made_again(void **state)
{
    (void)state;
    training_run made;
    judged all;
    bt_arena arena = {0};
    bt_replication again;
    const bt_store_verdict *verdicts = NULL;
    make_training(&made, "short");
    judge_training(&made.run, &all);
    ASSERT_OK(bt_replications_verdicts(&all.got, &verdicts));
    for (int64_t i = 0; i < all.got.count; ++i) {
        ASSERT_OK(bt_replication_again(&made.run, &verdicts[i], &arena, &again));
        assert_int_equal(again.verdict, all.got.items[i].verdict);
        assert_string_equal(bt_verdict_name(again.verdict), verdicts[i].verdict);
        assert_true(again.ratio == verdicts[i].ratio || isnan(again.ratio));
    }
    made.steps[0].tokens = 75; // a sample that was changed
    ASSERT_OK(bt_replication_again(&made.run, &verdicts[0], &arena, &again));
    assert_int_not_equal(again.verdict, all.got.items[0].verdict);
    bt_store_verdict bad = verdicts[0];
    bad.rule_json = "{\"case\":\"e1\"}";
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "claim rate/eager: the rule has no \"other\"",
                 bt_replication_again(&made.run, &bad, &arena, &again));
    bad.rule_json = "{\"case\":\"e1\",\"other\":\"eager\",\"claimed\":1.2,\"margin\":0.02,"
                    "\"deviations\":\"\"}"; // a record of rule 1
    made.steps[0].tokens = 150;
    ASSERT_OK(bt_replication_again(&made.run, &bad, &arena, &again));
    assert_string_equal(bt_verdict_name(again.verdict), "EXCEEDED");
    bad = verdicts[0];
    bad.metric = "happiness";
    ASSERT_FAILS(BT_STATUS_CORRUPT_DATA, "no metric \"happiness\"",
                 bt_replication_again(&made.run, &bad, &arena, &again));
    bt_arena_release(&arena);
    release_judged(&all);
}

// ---- shipped claims about checkpoints and the large model --------------------------------------

enum { SAVED = 2 };

// Rounds of a case on ours and torch.save, with what a checkpoint costs: ns of stall and of saving.
static void make_saving(made_run *out, bt_store_measurement costs[2 * ROUNDS][SAVED])
{
    static const double values[2][SAVED] = {{2e6, 600e6}, {1850e6, 1850e6}};
    const double ratios[ROUNDS] = {1, 1, 1, 1};
    make_run(out, ROUNDS, ratios, BT_RUN_PASSED);
    for (int i = 0; i < 2 * ROUNDS; ++i) {
        static const bt_metric metrics[SAVED] = {BT_METRIC_CHECKPOINT_STALL,
                                                 BT_METRIC_CHECKPOINT_SAVE};
        for (int k = 0; k < SAVED; ++k) {
            costs[i][k] = (bt_store_measurement){.metric = metrics[k],
                                                 .value = values[i % 2][k],
                                                 .low = (double)NAN,
                                                 .high = (double)NAN};
        }
        out->rounds[i].what.name = "124m_parameters_async";
        out->rounds[i].what.kind = "train";
        out->rounds[i].measurements = costs[i];
        out->rounds[i].measurement_count = SAVED;
    }
    out->run.info.suite = (bt_store_suite){.name = "checkpoint", .profile = "gpu"};
}

static const bt_replication *judged_as(const bt_replications *all, const char *subject)
{
    for (int64_t i = 0; i < all->count; ++i) {
        if (strcmp(all->items[i].subject, subject) == 0) {
            return &all->items[i];
        }
    }
    fail_msg("no claim %s", subject);
    return NULL;
}

static void shipped_claims_about_checkpoints_are_judged(void **state)
{
    (void)state;
    static bt_store_measurement costs[2 * ROUNDS][SAVED];
    made_run made;
    bt_json_doc json = {0};
    bt_claims claims;
    bt_replications got;
    make_saving(&made, costs);
    void *bytes = NULL;
    size_t size_bytes = 0;
    ASSERT_OK(bt_file_read("suites/claims/blutrain-2606.24780.json", &bytes, &size_bytes));
    ASSERT_OK(bt_json_parse("claims", bytes, size_bytes, &json));
    bt_mem_free(bytes);
    ASSERT_OK(bt_claims_read(&json, &claims));
    ASSERT_OK(bt_replicate(&claims, &made.run, &got));
    const bt_replication *stall = judged_as(&got, "E6.async_124m_stall");
    assert_true(fabs(stall->claimed - 360.0 / 57) < 1e-9);
    assert_true(fabs(stall->ratio - 925) < 1e-9);
    assert_int_equal(stall->verdict, BT_VERDICT_HIGHER);
    const bt_replication *total = judged_as(&got, "E6.async_124m_total");
    assert_true(fabs(total->claimed - 360.0 / 503) < 1e-9);
    assert_int_equal(total->verdict, BT_VERDICT_HIGHER);
    // The paper compares these with no other system: there is no ratio, and the text says so.
    static const char *const alone[] = {
        "E6.async_44m_total",   "E6.async_44m_stall", "E6.async_44m_background",
        "E6.pytorch_124m_save", "E3.memory",          "E3.throughput"};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; ++i) {
        assert_int_equal(judged_as(&got, alone[i])->verdict, BT_VERDICT_NOT_TESTABLE);
        assert_true(strlen(judged_as(&got, alone[i])->reason) > 0);
    }
    bt_replications_release(&got);
    // The same of a slow save: lower than claimed.
    for (int i = 0; i < 2 * ROUNDS; i += 2) {
        costs[i][0].value = 400e6;
    }
    ASSERT_OK(bt_replicate(&claims, &made.run, &got));
    assert_int_equal(judged_as(&got, "E6.async_124m_stall")->verdict, BT_VERDICT_LOWER);
    assert_int_equal(bt_replications_exit_code(&got), 1);
    bt_replications_release(&got);
    bt_claims_release(&claims);
    bt_json_doc_release(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_follow_the_interval),
        cmocka_unit_test(failed_rounds_are_no_evidence),
        cmocka_unit_test(the_interval_is_students),
        cmocka_unit_test(a_wide_margin_replicates_nothing),
        cmocka_unit_test(a_file_with_margins_is_judged_as_it_was),
        cmocka_unit_test(text_and_json_say_it),
        cmocka_unit_test(a_claim_of_three_systems_is_two_pairs),
        cmocka_unit_test(a_stand_in_says_in_what_it_deviates),
        cmocka_unit_test(deviations_are_said_once),
        cmocka_unit_test(lines_fit_the_terminal_and_name_what_is_not_tested),
        cmocka_unit_test(a_suite_is_run_for_its_claims),
        cmocka_unit_test(a_recorded_verdict_can_be_made_again),
        cmocka_unit_test(shipped_claims_about_checkpoints_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
