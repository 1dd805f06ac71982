// tests/harness/test_replicate.c - verdicts of claims, from made-up runs
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/replicate/replicate.h"
#include "tests/support/test.h"

static const char claims_text[] =
    "{\"paper\":\"p\",\"stands_for\":[{\"name\":\"pytorch\",\"system\":\"pytorch-eager\"}],"
    "\"claims\":["
    "{\"id\":\"time\",\"metric\":\"time\",\"better\":\"lower\",\"margin\":0.05,\"values\":["
    "{\"system\":\"blutrain\",\"value\":1},{\"system\":\"pytorch\",\"value\":2}],"
    "\"case\":{\"suite\":\"s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"rate\",\"metric\":\"bandwidth\",\"better\":\"higher\",\"margin\":0.05,\"values\":["
    "{\"system\":\"blutrain\",\"value\":300},{\"system\":\"pytorch\",\"value\":100}],"
    "\"case\":{\"suite\":\"s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"loss\",\"metric\":\"final_val_loss\",\"better\":\"lower\",\"margin\":0.05,"
    "\"values\":[{\"system\":\"blutrain\",\"value\":1},{\"system\":\"pytorch\",\"value\":2}],"
    "\"case\":{\"suite\":\"s\",\"profile\":\"p\",\"name\":\"a\"}},"
    "{\"id\":\"alone\",\"metric\":\"time\",\"better\":\"lower\",\"margin\":0.05,\"values\":["
    "{\"system\":\"blutrain\",\"value\":1}],\"untested\":\"no case\"}]}";

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
    bt_json_doc claims;
    ASSERT_OK(bt_json_parse("claims", claims_text, strlen(claims_text), &claims));
    ASSERT_OK(bt_replicate(&claims, &made->run, out));
    if (text) {
        ASSERT_OK(bt_replications_text(&claims, &made->run, out, text));
        ASSERT_OK(bt_replications_json(&claims, &made->run, out, text));
    }
    for (int64_t i = 0; i < out->count; ++i) {
        out->items[i].id = ""; // they point into what goes now
        out->items[i].reason = "";
    }
    bt_json_release(&claims);
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
        {{2.0, 2.01, 1.99, 2.0}, 4, BT_VERDICT_REPLICATED, BT_VERDICT_NOT_REPLICATED, 1},
        {{2.5, 2.51, 2.49, 2.5}, 4, BT_VERDICT_EXCEEDED, BT_VERDICT_NOT_REPLICATED, 1},
        {{3.0, 3.01, 2.99, 3.0}, 4, BT_VERDICT_EXCEEDED, BT_VERDICT_REPLICATED, 0},
        {{1.0, 4.0, 1.5, 3.5}, 4, BT_VERDICT_INCONCLUSIVE, BT_VERDICT_INCONCLUSIVE, 3},
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
                                        "NOT REPLICATED",
                                        "1 not testable here: no case",
                                        "1 replicated or exceeded",
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
    ASSERT_OK(bt_json_parse("x", "{}", 2, &none));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no list \"claims\"",
                 bt_replicate(&none, &made.run, &got));
    bt_json_release(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_follow_the_interval),
        cmocka_unit_test(failed_rounds_are_no_evidence),
        cmocka_unit_test(the_interval_is_students),
        cmocka_unit_test(text_and_json_say_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
