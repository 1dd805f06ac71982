// tests/harness/test_policy.c - what a policy says, and what is refused of one
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/gate/policy.h"
#include "harness/suite/schema.h"

static void parse(const char *text, bt_policy *out)
{
    ASSERT_OK(bt_policy_parse("p.json", text, strlen(text), out));
}

static void a_name_is_enough(void **state)
{
    (void)state;
    bt_policy policy;
    parse("{\"name\":\"bare\"}", &policy);
    assert_string_equal(policy.name, "bare");
    assert_int_equal(policy.rounds, 24);
    assert_true(policy.false_alarm_rate == 0.01 && policy.miss_rate == 0.05);
    assert_false(policy.calibration_required);
    bt_gate_rule rule = bt_policy_rule(&policy, "gelu", BT_GATE_TIME, false, 20000);
    assert_true(rule.tolerance == 0.01);
    assert_true(rule.memory_tolerance_bytes == 1048576);
    assert_string_equal(rule.loss, "numeric");
    assert_string_equal(rule.reason, "");
    assert_true(rule.gated);
    for (int i = 0; i < BT_GATE_ALLOW_COUNT; ++i) {
        assert_false(rule.allow[i]);
    }
    assert_true(bt_policy_rule(&policy, "gelu", BT_GATE_TIME, false, 19999).tolerance == 0.02);
    assert_true(bt_policy_rule(&policy, "t", BT_GATE_STEP_TIME, true, 1).tolerance == 0.005);
    bt_policy_release(&policy);
}

static void the_last_override_that_says_a_key_wins(void **state)
{
    (void)state;
    bt_policy policy;
    parse("{\"name\":\"x\",\"allow\":[\"new\",\"missing\"],\"overrides\":["
          "{\"case\":\"gelu*\",\"reason\":\"a\",\"tolerance\":0.1,\"loss\":\"none\"},"
          "{\"case\":\"gelu.f*\",\"reason\":\"b\",\"tolerance\":0.2,\"allow\":\"inconclusive\"},"
          "{\"case\":\"*\",\"metric\":\"peak_allocated_bytes\",\"reason\":\"c\",\"gated\":false,"
          "\"memory_tolerance_bytes\":5}]}",
          &policy);
    bt_gate_rule rule = bt_policy_rule(&policy, "gelu.f32", BT_GATE_TIME, false, 1e6);
    assert_true(rule.tolerance == 0.2);
    assert_string_equal(rule.loss, "none");
    assert_string_equal(rule.reason, "b");
    assert_true(rule.gated && rule.allow[BT_GATE_ALLOW_INCONCLUSIVE]);
    assert_false(rule.allow[BT_GATE_ALLOW_NEW]); // "allow" says all that is allowed
    rule = bt_policy_rule(&policy, "gelu.b16", BT_GATE_MEMORY, false, 1e6);
    assert_true(rule.tolerance == 0.1 && rule.memory_tolerance_bytes == 5 && !rule.gated);
    assert_true(rule.allow[BT_GATE_ALLOW_NEW] && rule.allow[BT_GATE_ALLOW_MISSING]);
    rule = bt_policy_rule(&policy, "softmax", BT_GATE_METRIC_COUNT, false, 1e6);
    assert_true(rule.gated && rule.tolerance == 0.01); // of one metric, so not of the whole case
    bt_policy_release(&policy);
}

static void a_mistake_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "p.json:1:1"},
        {"{", "p.json:1:2"},
        {"[]", "a policy must be an object, not a list"},
        {"{}", "a policy needs the key \"name\""},
        {"{\"name\":\"x\",\n \"tolerence\":{}}",
         "p.json:2:2: \"tolerence\" is not a key of a policy; "
         "did you mean \"tolerance\"?"},
        {"{\"name\":\"x\",\"tolerance\":0.1}", "\"tolerance\" must be an object"},
        {"{\"name\":\"x\",\"tolerance\":{\"kernels\":1}}", "did you mean \"kernel\"?"},
        {"{\"name\":\"x\",\"tolerance\":{\"kernel\":-1}}", "\"kernel\" is -1; allowed: 0 to 10"},
        {"{\"name\":\"x\",\"tolerance\":{\"kernel\":\"1 %\"}}", "must be a number, not a text"},
        {"{\"name\":\"x\",\"rounds\":1}", "\"rounds\" is 1; allowed: 2 to 24"},
        {"{\"name\":\"x\",\"rounds\":8.5}", "\"rounds\" must be a whole number"},
        {"{\"name\":\"x\",\"loss\":\"bitwize\"}", "did you mean \"bitwise\"?"},
        {"{\"name\":\"x\",\"allow\":\"everything\"}", "allowed: inconclusive, new"},
        {"{\"name\":\"x\",\"allow\":[]}", "empty list"},
        {"{\"name\":\"x\",\"overrides\":{}}", "\"overrides\" must be a list"},
        {"{\"name\":\"x\",\"overrides\":[1]}", "a list of objects"},
        {"{\"name\":\"x\",\"overrides\":[{\"case\":\"*\"}]}",
         "an override needs the key \"reason\""},
        {"{\"name\":\"x\",\"overrides\":[{\"reason\":\"r\"}]}",
         "an override needs the key \"case\""},
        {"{\"name\":\"x\",\"overrides\":[{\"case\":\"*\",\"reason\":\"r\",\"metric\":\"time\"}]}",
         "\"metric\" is \"time\"\nallowed: time_ns, time_p95_ns, step_time_ns"},
        {"{\"name\":\"x\",\"overrides\":[{\"case\":\"*\",\"reason\":\"r\",\"gated\":0}]}",
         "\"gated\" must be true or false"},
        {"{\"name\":\"x\",\"calibration\":{\"required\":\"yes\"}}", "must be true or false"},
        {"{\"name\":\"x\",\"name\":\"y\"}", "p.json:1:"},
        {"{\"name\":\"a b\"}", "a name has 1 to"},
        {"{\"name\":\"x\"} trailing", "p.json:1:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_policy policy;
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, cases[i].words,
                     bt_policy_parse("p.json", cases[i].text, strlen(cases[i].text), &policy));
        bt_policy_release(&policy); // nothing, and that is fine
    }
}

// What stays INCONCLUSIVE passes only up to a ratio, under every policy that lets it pass.
static void inconclusive_has_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool allowed;
        double limit, p95;
    } rows[] = {{"default", false, 0.25, 0.05}, {"shared", true, 0.5, 0.25}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        bt_policy policy;
        ASSERT_OK(bt_policy_load(rows[i].name, &policy));
        bt_gate_rule rule = bt_policy_rule(&policy, "gelu", BT_GATE_TIME, false, 1e6);
        assert_true(rule.allow[BT_GATE_ALLOW_INCONCLUSIVE] == rows[i].allowed);
        assert_true(rule.inconclusive_limit == rows[i].limit);
        rule = bt_policy_rule(&policy, "gelu", BT_GATE_TIME_P95, false, 1e6);
        assert_true(rule.allow[BT_GATE_ALLOW_INCONCLUSIVE] && rule.tolerance == rows[i].p95);
        bt_policy_release(&policy);
    }
    static const char text[] =
        "{\"name\":\"x\",\"overrides\":[{\"case\":\"gelu\",\"metric\":\"time_p95_ns\","
        "\"tolerance\":0.5,\"inconclusive_limit\":1,\"reason\":\"r\"}]}";
    bt_policy policy;
    ASSERT_OK(bt_policy_parse("p.json", text, sizeof text - 1, &policy));
    bt_gate_rule rule = bt_policy_rule(&policy, "gelu", BT_GATE_TIME_P95, false, 1e6);
    assert_true(rule.tolerance == 0.5 && rule.inconclusive_limit == 1);
    rule = bt_policy_rule(&policy, "gelu", BT_GATE_TIME, false, 1e6);
    assert_true(rule.tolerance == 0.01 && rule.inconclusive_limit == 0.25);
    bt_policy_release(&policy);
}

static void shipped_policies_are_found_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "shared"};
    bt_policy policy;
    for (size_t i = 0; i < 2; ++i) {
        ASSERT_OK(bt_policy_load(names[i], &policy));
        assert_string_equal(policy.name, names[i]);
        bt_policy_release(&policy);
    }
    ASSERT_OK(bt_policy_load(NULL, &policy));
    assert_string_equal(policy.name, "default");
    bt_policy_release(&policy);
    ASSERT_OK(bt_policy_load("suites/policies/shared.json", &policy));
    bt_policy_release(&policy);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no policy \"strict\"",
                 bt_policy_load("strict", &policy));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no policy \"no/such.json\"",
                 bt_policy_load("no/such.json", &policy));
}

static void equal_policies_have_equal_digests(void **state)
{
    (void)state;
    bt_policy left, right;
    parse("{\"name\":\"x\"}", &left);
    parse("{\"rounds\":24,\n\"name\":\"x\"}", &right);
    assert_string_equal(left.digest, right.digest);
    bt_policy_release(&right);
    parse("{\"rounds\":16,\"name\":\"x\"}", &right);
    assert_string_not_equal(left.digest, right.digest);
    bt_policy_release(&right);
    bt_policy_release(&left);
}

static void shipped_schema_is_made_from_the_table(void **state)
{
    (void)state;
    void *shipped = NULL;
    size_t size_bytes = 0;
    bt_str made = {0};
    ASSERT_OK(bt_file_read("suites/schema/policy.schema.json", &shipped, &size_bytes));
    bt_policy_schema_write(&made);
    // On failure: bt-bench list schema policy > suites/schema/policy.schema.json
    assert_string_equal(shipped, bt_str_text(&made));
    bt_mem_free(shipped);
    bt_str_release(&made);
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    const char *text = "{\"name\":\"x\",\"overrides\":[{\"case\":\"*\",\"reason\":\"r\"}]}";
    int64_t live = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_policy policy;
        bt_mem_fail_at(n);
        bt_status status = bt_policy_parse("p", text, strlen(text), &policy);
        bt_mem_fail_at(0);
        bt_policy_release(&policy);
        assert_int_equal(bt_mem_live_count(), live);
        if (status == BT_OK) {
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_enough),
        cmocka_unit_test(the_last_override_that_says_a_key_wins),
        cmocka_unit_test(a_mistake_is_named_with_its_place),
        cmocka_unit_test(inconclusive_has_a_limit),
        cmocka_unit_test(shipped_policies_are_found_by_name),
        cmocka_unit_test(equal_policies_have_equal_digests),
        cmocka_unit_test(shipped_schema_is_made_from_the_table),
        cmocka_unit_test(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
