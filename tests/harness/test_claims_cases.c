// tests/harness/test_claims_cases.c - claims that compare cases of ours with each other
#include <string.h>

#include "framework/base/file.h"
#include "harness/replicate/replicate.h"
#include "tests/harness/made_run.h"
#include "tests/support/test.h"

enum { ROUNDS = 4 };

// Figure 35 gives no ratios: sizes of buckets are compared with each other, on our system alone.
static void shipped_claims_about_buckets_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double step_ns;
    } cases[] = {{"5", 5.5e6}, {"10", 5.05e6}, {"25", 5e6}, {"50", 5.02e6}, {"100", 4.5e6}};
    static const struct {
        const char *claim;
        bt_verdict verdict;
    } expected[] = {{"B.11.25_over_5", BT_VERDICT_REPLICATED},
                    {"B.11.50_over_10", BT_VERDICT_REPLICATED},
                    {"B.11.25_over_100", BT_VERDICT_LOWER}};
    static made_run made;
    bt_json_doc json = {0};
    bt_claims claims;
    bt_replications got;
    bt_arena arena = {0};
    bt_str systems = {0};
    void *bytes = NULL;
    size_t size_bytes = 0;
    made_run_init(&made);
    made.run.info.suite.name = "distributed_buckets";
    made.run.info.suite.profile = "gpu";
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
        for (int i = 0; i < ROUNDS; ++i) {
            made_train_round(&made, cases[c].name, "blutrain",
                             cases[c].step_ns * made_noise(i, 0.0005), 1, 20, 20, 0);
        }
    }
    ASSERT_OK(bt_file_read("suites/claims/blutrain-2606.24780.json", &bytes, &size_bytes));
    ASSERT_OK(bt_json_parse("claims", bytes, size_bytes, &json));
    bt_mem_free(bytes);
    ASSERT_OK(bt_claims_read(&json, &claims));
    ASSERT_OK(bt_replicate(&claims, &made.run, &got));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        const bt_replication *item = got.items;
        while (item < got.items + got.count && strcmp(item->subject, expected[i].claim) != 0) {
            ++item;
        }
        assert_true(item < got.items + got.count);
        assert_string_equal(bt_verdict_name(item->verdict), bt_verdict_name(expected[i].verdict));
        assert_true(item->counted && *item->deviations);
    }
    // The record has the other case, so the verdict can be made again.
    const bt_store_verdict *verdicts = NULL;
    bt_replication again;
    ASSERT_OK(bt_replications_verdicts(&got, &verdicts));
    for (int64_t i = 0; i < got.count; ++i) {
        ASSERT_OK(bt_replication_again(&made.run, &verdicts[i], &arena, &again));
        assert_int_equal(again.verdict, got.items[i].verdict);
    }
    const bt_claims_suite suite = {&claims, "distributed_buckets", "gpu"};
    assert_true(bt_claims_want("5", &suite) && bt_claims_want("50", &suite));
    assert_false(bt_claims_want("7", &suite));
    bt_claims_systems(&suite, &systems);
    assert_string_equal(bt_str_text(&systems), "blutrain");
    assert_string_equal(bt_claims_profile(&claims, "distributed_buckets"), "gpu");
    bt_str_release(&systems);
    bt_arena_release(&arena);
    bt_replications_release(&got);
    bt_claims_release(&claims);
    bt_json_doc_release(&json);
    made_run_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_claims_about_buckets_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
