// tests/harness/test_gate_print.c - the outputs of a gate: text, comment, JUnit, JSON
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "tests/harness/gate_setting.h"
#include "tests/harness/schema_check.h"

static void make_a_bit_of_everything(void)
{
    gate_make_equal_runs();
    gate_add_kernel(&gate_it.base, "a|b<i>", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    for (int i = 0; i < GATE_ROUNDS; ++i) {
        made_kernel_round(&gate_it.run, "a|b<i>", "blutrain", 1.05e6 * made_noise(i, GATE_SPREAD),
                          "gelu_v1");
    }
    gate_add_kernel(&gate_it.base, "open", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "open", "blutrain", 1e6, 0.05, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "bad\x01\"&", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("\"allow\":\"new\"");
}

static void the_text_says_what_changed(void **state)
{
    (void)state;
    bt_str out = {0};
    gate_it.run.facts[4].value = "6.5";
    gate_it.run.run.info.build.flags = "-O2";
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_text(&gate_it.result, "results/run-7/report.html", &out));
    const char *text = bt_str_text(&out);
    gate_expect_words(text, "FAIL  a|b<i>   slower by 5.0 % [");
    gate_expect_words(
        text, "tolerance 1 %, 8 rounds; no 95th percentile (fewer than 20 samples a round)\n"
              "      the kernel that ran changed: gelu_v2 -> gelu_v1\n");
    gate_expect_words(text, "\nbesides  flags -O3 -> -O2; os.kernel 6.1 -> 6.5\nnote  SAME of 8 "
                            "rounds does not exclude a slowdown in fewer than 38 % of the rounds\n"
                            "FAIL  4 cases");
    gate_expect_words(text, "INCONCLUSIVE  open");
    gate_expect_words(text, "; add sessions to the baseline, or compare pairs");
    gate_expect_words(
        text, "NOT-COMPARABLE  bad?\"&   new: the baseline has no such case (allowed by policy)");
    gate_expect_words(
        text, "FAIL  4 cases: 1 slower, 1 not comparable, 1 inconclusive, 1 same; 1 allowed "
              "by the policy   report results/run-7/report.html   exit 1");
    gate_expect_words(text, "next  bt-bench baseline add main RUN..., or pairs: bt-bench ab");
    assert_null(strstr(text, "next  1 faster"));
    bt_str_release(&out);
}

static void a_machine_that_was_slower_as_a_whole_is_said(void **state)
{
    (void)state;
    bt_str out = {0};
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 1.1e6, GATE_SPREAD, GATE_ROUNDS);
    made_ceiling_round(&gate_it.base, 6e9);
    made_ceiling_round(&gate_it.run, 5.9e9);
    gate_judge("");
    assert_int_equal(gate_it.result.count, 1); // the copy itself is not judged
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out));
    assert_null(strstr(bt_str_text(&out), "own copy"));
    ((bt_store_measurement *)(uintptr_t)gate_it.run.rounds[GATE_ROUNDS].measurements)->value =
        5.4e9;
    bt_str_clear(&out);
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out));
    gate_expect_words(bt_str_text(&out),
                      "besides  this machine's copy, hot: 6.00 GB/s -> 5.40 GB/s\n");
    bt_str_release(&out);
}

// The rest of the text about two environments, up to the end of its line; the JSON says `whole`.
static void expect_besides(const char *besides, const char *whole)
{
    bt_str out = {0};
    gate_make_equal_runs();
    gate_judge("");
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out));
    gate_expect_words(bt_str_text(&out), besides);
    bt_str_clear(&out);
    ASSERT_OK(bt_gate_markdown(&gate_it.result, &out));
    gate_expect_words(bt_str_text(&out), "\nbesides: not comparable: cpu.");
    bt_str_clear(&out);
    ASSERT_OK(bt_gate_json(&gate_it.result, &out));
    gate_expect_words(bt_str_text(&out), whole);
    bt_str_release(&out);
}

static void another_machine_is_said_by_its_name(void **state)
{
    (void)state;
    static const bt_store_fact base[] = {
        {"cpu.features", "avx2 fma", BT_FACT_HARD}, {"cpu.model", "a processor", BT_FACT_HARD},
        {"cpu.usable", "16", BT_FACT_HARD},         {"gpu.clock_max_sm", "1980", BT_FACT_SOFT},
        {"gpu.driver", "580", BT_FACT_HARD},        {"gpu.name", "NVIDIA H200", BT_FACT_HARD},
        {"os.libc", "2.39", BT_FACT_SOFT},
    };
    static const bt_store_fact now[] = {
        {"cpu.features", "avx2", BT_FACT_HARD}, {"cpu.model", "a processor", BT_FACT_HARD},
        {"cpu.usable", "2", BT_FACT_HARD},      {"memory.total", "8 GiB", BT_FACT_SOFT},
        {"os.libc", "2.36", BT_FACT_SOFT},
    };
    gate_it.sessions = 1; // the card is not given
    gate_it.base.run.info.env = (bt_store_env){"base", base, sizeof base / sizeof base[0]};
    gate_it.run.run.info.env = (bt_store_env){"now", now, sizeof now / sizeof now[0]};
    expect_besides("\nbesides  not comparable: cpu.features avx2 fma -> avx2; cpu.usable 16 -> 2; "
                   "gpu.name NVIDIA H200 -> none; os.libc 2.39 -> 2.36; "
                   "memory.total none -> 8 GiB\n",
                   "gpu.driver 580 -> none; gpu.name");
}

static void of_many_soft_facts_a_few_are_said(void **state)
{
    (void)state;
    static const bt_store_fact base[] = {
        {"cpu.usable", "16", BT_FACT_HARD}, {"env.A", "1", BT_FACT_SOFT},
        {"env.C", "1", BT_FACT_SOFT},       {"env.D", "1", BT_FACT_SOFT},
        {"env.E", "1", BT_FACT_SOFT},
    };
    static const bt_store_fact now[] = {
        {"cpu.usable", "2", BT_FACT_HARD}, {"env.B", "2", BT_FACT_SOFT},
        {"env.C", "2", BT_FACT_SOFT},      {"env.D", "2", BT_FACT_SOFT},
        {"env.E", "1", BT_FACT_SOFT},      {"os.kernel", "6.1", BT_FACT_SOFT}, // private
    };
    gate_it.base.run.info.env = (bt_store_env){"base", base, sizeof base / sizeof base[0]};
    gate_it.run.run.info.env = (bt_store_env){"now", now, sizeof now / sizeof now[0]};
    expect_besides("\nbesides  not comparable: cpu.usable 16 -> 2; env.C 1 -> 2; env.D 1 -> 2; "
                   "env.A 1 -> none; and 1 more soft fact\n",
                   "env.A 1 -> none; env.B none -> 2\"");
}

static void an_improvement_proposes_a_baseline(void **state)
{
    (void)state;
    bt_str out = {0};
    gate_add_kernel(&gate_it.base, "gelu", "blutrain", 1e6, GATE_SPREAD, GATE_ROUNDS);
    gate_add_kernel(&gate_it.run, "gelu", "blutrain", 0.9e6, GATE_SPREAD, GATE_ROUNDS);
    gate_judge("");
    ASSERT_OK(bt_gate_text(&gate_it.result, "", &out));
    gate_expect_words(bt_str_text(&out), "FASTER  gelu   faster by 10.0 % [");
    gate_expect_words(bt_str_text(&out),
                      "PASS  1 case: 1 faster   exit 0\n"
                      "next  1 faster: bt-bench baseline set main 7 --reason \"...\"");
    bt_str_release(&out);
}

static void the_comment_folds_what_is_same(void **state)
{
    (void)state;
    bt_str out = {0};
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_markdown(&gate_it.result, &out));
    const char *text = bt_str_text(&out);
    gate_expect_words(text, "### bt-bench gate: FAIL (exit 1)\n\n**1 slower, 1 not comparable, 1 "
                            "inconclusive, 1 same**, of which the policy allows 1");
    gate_expect_words(text, "| a\\|b\\<i\\> | time | SLOWER | +5.00 % | slower by 5.0 %");
    gate_expect_words(text, "<details><summary>1 same</summary>\n\n| case |");
    gate_expect_words(text, "\nnext: bt-bench baseline add main RUN..., or pairs: bt-bench ab\n");
    const char *folded = strstr(text, "<details>");
    assert_true(strstr(text, "| SLOWER |") < strstr(text, "| INCONCLUSIVE |"));
    assert_true(strstr(text, "| INCONCLUSIVE |") < folded);
    assert_true(strstr(text, "| gelu |") > folded);
    assert_true(strstr(text, "not excluded: a slowdown in fewer than 38 %") > folded);
    bt_str_release(&out);
}

static void a_long_comment_is_cut(void **state)
{
    (void)state;
    bt_str out = {0};
    static char names[120][16]; // the runs borrow them
    for (int i = 0; i < 120; ++i) {
        (void)snprintf(names[i], sizeof names[i], "case%03d", i);
        gate_add_kernel(&gate_it.base, names[i], "blutrain", 1e6, 0, 2);
        gate_add_kernel(&gate_it.run, names[i], "blutrain", 1.1e6, 0, 2);
    }
    gate_judge("\"rounds\":2");
    assert_int_equal(gate_it.result.words[BT_GATE_SLOWER], 120);
    ASSERT_OK(bt_gate_markdown(&gate_it.result, &out));
    gate_expect_words(bt_str_text(&out), "| case099 |");
    assert_null(strstr(bt_str_text(&out), "| case100 |"));
    gate_expect_words(bt_str_text(&out), "\n20 more in the report\n");
    assert_true(out.length_bytes < 65536);
    bt_str_release(&out);
}

static void junit_is_escaped_and_counted(void **state)
{
    (void)state;
    bt_str out = {0};
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_junit(&gate_it.result, &out));
    const char *text = bt_str_text(&out);
    gate_expect_words(text, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\"");
    gate_expect_words(text, "<testcase classname=\"a|b&lt;i&gt;\" name=\"time_ns\"><failure "
                            "message=\"SLOWER: slower by 5.0 %");
    gate_expect_words(text, "<system-out>SAME: 0.00 % [");
    gate_expect_words(text, "not excluded: a slowdown in fewer than 38 % of the rounds");
    gate_expect_words(text, "<testcase classname=\"bad?&quot;&amp;\" name=\"case\"><skipped ");
    assert_null(strchr(text, 1));
    bt_str_release(&out);
}

static void json_says_all(void **state)
{
    (void)state;
    bt_str out = {0};
    bt_json_doc json;
    make_a_bit_of_everything();
    ASSERT_OK(bt_gate_json(&gate_it.result, &out));
    ASSERT_OK(bt_json_parse("gate", bt_str_text(&out), out.length_bytes, &json));
    assert_true(bt_json_number_of(json.root, "exit_code") == 1);
    assert_true(bt_json_number_of(bt_json_get(json.root, "counts"), "NOT-COMPARABLE") == 1);
    const cJSON *verdicts = bt_json_get(json.root, "verdicts");
    assert_int_equal(cJSON_GetArraySize(verdicts), 4);
    assert_true(bt_json_number_of(verdicts->child, "blind_share") == 3.0 / 8); // gelu is SAME
    assert_true(cJSON_IsNull(bt_json_get(verdicts->child->next, "blind_share")));
    assert_string_equal(bt_json_get(bt_json_get(json.root, "baseline"), "digest")->valuestring,
                        gate_it.baseline.digest);
    void *text = NULL;
    size_t size_bytes = 0;
    bt_json_doc schema;
    ASSERT_OK(bt_file_read("suites/schema/gate.schema.json", &text, &size_bytes));
    ASSERT_OK(bt_json_parse("gate.schema.json", text, size_bytes, &schema));
    assert_string_equal(schema_check(schema.root, json.root), "");
    bt_mem_free(text);
    bt_json_doc_release(&schema);
    bt_json_doc_release(&json);
    bt_str_release(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, gate_begin, gate_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_text_says_what_changed),
        TEST(a_machine_that_was_slower_as_a_whole_is_said),
        TEST(another_machine_is_said_by_its_name),
        TEST(of_many_soft_facts_a_few_are_said),
        TEST(an_improvement_proposes_a_baseline),
        TEST(the_comment_folds_what_is_same),
        TEST(a_long_comment_is_cut),
        TEST(junit_is_escaped_and_counted),
        TEST(json_says_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
