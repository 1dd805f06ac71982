// tests/harness/test_claims_cases.c - claims that compare cases of ours with each other
#include <math.h>
#include <string.h>

#include "framework/base/file.h"
#include "harness/replicate/replicate.h"
#include "tests/harness/made_run.h"
#include "tests/support/test.h"

enum { ROUNDS = 4 };

typedef struct judged {
    bt_json_doc json;
    bt_claims claims;
    bt_replications got;
} judged;

typedef struct expectation {
    const char *claim;
    bt_verdict verdict;
} expectation;

// Steps of `step_ns` in each round of a case.
static void add_rounds(made_run *made, const char *name, const char *system, double step_ns)
{
    for (int i = 0; i < ROUNDS; ++i) {
        made_train_round(made, name, system, step_ns * made_noise(i, 0.0005), 1, 20, 20, 0);
    }
}

// Judges the run, as one of this suite's profile `gpu`, by the shipped claims.
static void judge(made_run *made, const char *suite, judged *out)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    made->run.info.suite.name = suite;
    made->run.info.suite.profile = "gpu";
    memset(out, 0, sizeof *out);
    ASSERT_OK(bt_file_read("suites/claims/blutrain-2606.24780.json", &bytes, &size_bytes));
    ASSERT_OK(bt_json_parse("claims", bytes, size_bytes, &out->json));
    bt_mem_free(bytes);
    ASSERT_OK(bt_claims_read(&out->json, &out->claims));
    ASSERT_OK(bt_replicate(&out->claims, &made->run, &out->got));
}

static void release_judged(judged *all)
{
    bt_replications_release(&all->got);
    bt_claims_release(&all->claims);
    bt_json_doc_release(&all->json);
}

static const bt_replication *verdict_of(const bt_replications *got, const char *claim)
{
    const bt_replication *item = got->items;
    while (item < got->items + got->count && strcmp(item->subject, claim) != 0) {
        ++item;
    }
    assert_true(item < got->items + got->count);
    return item;
}

static void check_verdicts(const bt_replications *got, const expectation *expected, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const bt_replication *item = verdict_of(got, expected[i].claim);
        assert_string_equal(bt_verdict_name(item->verdict), bt_verdict_name(expected[i].verdict));
        assert_true(item->counted && *item->deviations);
    }
}

// The record has the other case, so each verdict can be made again.
static void check_recorded_verdicts(const made_run *made, judged *all)
{
    bt_arena arena = {0};
    const bt_store_verdict *verdicts = NULL;
    bt_replication again;
    ASSERT_OK(bt_replications_verdicts(&all->got, &verdicts));
    for (int64_t i = 0; i < all->got.count; ++i) {
        ASSERT_OK(bt_replication_again(&made->run, &verdicts[i], &arena, &again));
        assert_int_equal(again.verdict, all->got.items[i].verdict);
    }
    bt_arena_release(&arena);
}

static void check_systems(const judged *all, const char *suite, const char *expected)
{
    const bt_claims_suite of = {&all->claims, suite, "gpu"};
    bt_str systems = {0};
    bt_claims_systems(&of, &systems);
    assert_string_equal(bt_str_text(&systems), expected);
    assert_string_equal(bt_claims_profile(&all->claims, suite), "gpu");
    bt_str_release(&systems);
}

// Figure 35 gives no ratios: sizes of buckets are compared with each other, on our system alone.
static void shipped_claims_about_buckets_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double step_ns;
    } cases[] = {{"5", 5.5e6}, {"10", 5.05e6}, {"25", 5e6}, {"50", 5.02e6}, {"100", 4.5e6}};
    static const expectation expected[] = {{"B.11.25_over_5", BT_VERDICT_REPLICATED},
                                           {"B.11.50_over_10", BT_VERDICT_REPLICATED},
                                           {"B.11.25_over_100", BT_VERDICT_LOWER}};
    static made_run made;
    judged all;
    made_run_init(&made);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
        add_rounds(&made, cases[c].name, "blutrain", cases[c].step_ns);
    }
    judge(&made, "distributed_buckets", &all);
    check_verdicts(&all.got, expected, sizeof expected / sizeof expected[0]);
    check_recorded_verdicts(&made, &all);
    const bt_claims_suite suite = {&all.claims, "distributed_buckets", "gpu"};
    assert_true(bt_claims_want("5", &suite) && bt_claims_want("50", &suite));
    assert_false(bt_claims_want("7", &suite));
    check_systems(&all, "distributed_buckets", "blutrain");
    release_judged(&all);
    made_run_release(&made);
}

// E4 and E5 give gains in percent: over another case of ours, and over another system.
static void shipped_claims_about_gains_are_judged(void **state)
{
    (void)state;
    static const expectation of_tensor[] = {{"E4.tp_gain", BT_VERDICT_REPLICATED},
                                            {"E4.async_tp_gain", BT_VERDICT_HIGHER}};
    static const expectation of_context[] = {{"E5.cp_gain", BT_VERDICT_LOWER}};
    static made_run made;
    judged all;
    made_run_init(&made);
    add_rounds(&made, "tf32_tensor2", "blutrain", 40e6);
    add_rounds(&made, "tf32_tensor2", "pytorch-compile", 48e6);   // 1.2; claimed: 1.197
    add_rounds(&made, "tf32_tensor2_chunks", "blutrain", 34.5e6); // 1.159; claimed: 1.079
    judge(&made, "distributed_tensor", &all);
    check_verdicts(&all.got, of_tensor, 2);
    assert_true(fabs(verdict_of(&all.got, "E4.async_tp_gain")->claimed - 1.079) < 1e-12);
    assert_true(fabs(verdict_of(&all.got, "E4.tp_gain")->margin - (0.02 + 0.0005 / 1.197)) < 1e-12);
    check_recorded_verdicts(&made, &all);
    check_systems(&all, "distributed_tensor", "blutrain,pytorch-compile");
    release_judged(&all);
    made_run_release(&made);

    made_run_init(&made);
    add_rounds(&made, "tf32_all_gather", "blutrain", 90e6);
    add_rounds(&made, "tf32_all_gather", "pytorch-compile", 110e6); // 1.22; claimed: 1.301
    judge(&made, "distributed_context", &all);
    check_verdicts(&all.got, of_context, 1);
    check_systems(&all, "distributed_context", "blutrain,pytorch-compile");
    release_judged(&all);
    made_run_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_claims_about_buckets_are_judged),
        cmocka_unit_test(shipped_claims_about_gains_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
