// tests/harness/test_suite.c - strict JSON with places, the table of keys, suite files
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/suite/schema.h"
#include "harness/suite/suite.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static bt_status parse_text(const char *text, bt_suite *suite)
{
    return bt_suite_parse("s.json", text, strlen(text), suite);
}

static void refuse(const char *text, const char *words)
{
    bt_suite suite;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, words, parse_text(text, &suite));
}

static const char good[] = "{\n"
                           "  \"name\": \"tiny\",\n"
                           "  \"profiles\": {\n"
                           "    \"cpu\": { \"device\": \"cpu\",\n"
                           "      \"cases\": [ { \"name\": \"a\", \"kind\": \"train\" } ] } }\n"
                           "}\n";

static void good_suite_is_accepted(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    bt_suite suite;
    ASSERT_OK(parse_text(good, &suite));
    assert_string_equal(suite.name, "tiny");
    bt_suite_release(&suite);
    assert_int_equal(bt_mem_live_count(), before);
}

static void syntax_errors_name_line_and_column(void **state)
{
    (void)state;
    const struct {
        const char *text, *words;
    } cases[] = {
        {"", "s.json:1:1: the text ends too early"},
        {"{", "s.json:1:2: the text ends too early"},
        {"[1,]", "s.json:1:4: expected a value"},
        {"{\"a\":1,}", "s.json:1:8: expected a key"},
        {"{\"a\" 1}", "s.json:1:6: expected ':'"},
        {"{\"a\":1 \"b\":2}", "s.json:1:8: expected ',' or '}'"},
        {"{\n \"a\": 01}", "s.json:2:7: a number must not begin with a zero"},
        {"[1.]", "s.json:1:4: digits must follow"},
        {"[1e]", "s.json:1:4: digits must follow the exponent"},
        {"[-]", "s.json:1:3: a number needs digits"},
        {"[1e999]", "s.json:1:2: this number is too large"},
        {"[NaN]", "s.json:1:2: expected a value"},
        {"[tru]", "s.json:1:2: expected a value"},
        {"{'a':1}", "s.json:1:2: expected a key in double quotes"},
        {"[\"abc", "s.json:1:2: this text has no closing quote"},
        {"[\"a\nb\"]", "s.json:1:4: a line break"},
        {"[\"\\x\"]", "s.json:1:4: unknown escape"},
        {"[\"\\u12g4\"]", "\\u needs four"},
        {"[\"\\ud800\"]", "half a surrogate pair"},
        {"[\"\\u0000\"]", "\\u0000 is not allowed"},
        {"[\"\xff\"]", "s.json:1:3: not UTF-8"},
        {"[\"\xc0\xaf\"]", "not UTF-8"},
        {"{} {}", "s.json:1:4: nothing may follow"},
        {"{\"\xc3\xa9\": nul}", "s.json:1:7: expected a value"}, // columns count characters
        {"\xef\xbb\xbf{}", "s.json:1:1: expected a value"},
        {"[1,2]", "s.json:1:1: a suite must be an object"},
        {"{\"a\":{\"b\":1,\n\"b\":2}}", "s.json:2:1: \"b\" is given twice"},
        {"{\"a\":1,\"\\u0061\":2}", "s.json:1:8: \"a\" is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        refuse(cases[i].text, cases[i].words);
    }
}

static void depth_and_size_are_limited(void **state)
{
    (void)state;
    char deep[200];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    refuse(deep, "nested too deeply");
    bt_json_doc json;
    size_t size = BT_JSON_SIZE_BYTES_MAX + 1;
    char *large = calloc(1, size + 1);
    assert_non_null(large);
    memset(large, ' ', size);
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "more than the",
                 bt_json_parse("x", large, size, &json));
    free(large);
    bt_str many = {0};
    bt_str_append(&many, "{");
    for (int i = 0; i < BT_JSON_KEYS_MAX + 1; ++i) {
        bt_str_format(&many, "%s\"k%d\":0", i ? "," : "", i);
    }
    bt_str_append(&many, "}");
    refuse(bt_str_text(&many), "more than 512 keys");
    bt_str_release(&many);
    // A zero byte inside of the text does not end it early.
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "x:1:4", bt_json_parse("x", "[1]\0[2]", 7, &json));
}

#define CASE_WITH(members)                                                                         \
    "{\n\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"             \
    "{\"name\": \"a\", \"kind\": \"train\", " members "}]}}}"

static void keys_and_values_are_checked(void **state)
{
    (void)state;
    const struct {
        const char *text, *words;
    } cases[] = {
        {CASE_WITH("\"dtyp\": 1"), "s.json:3:32: \"dtyp\" is not a key of a case\nallowed: name, "
                                   "kind, description, systems, dataset, "
                                   "train"},
        {CASE_WITH("\"tran\": {}"), "did you mean \"train\"?"},
        {CASE_WITH("\"train\": {\"stpes\": 3}"),
         "s.json:3:42: \"stpes\" is not a key of train; did you mean \"steps\"?"},
        {CASE_WITH("\"train\": {\"steps\": \"3\"}"),
         "s.json:3:51: \"steps\" must be a whole number, not a text \"3\""},
        {CASE_WITH("\"train\": {\"steps\": 2.5}"), "must be a whole number, not a number 2.5"},
        {CASE_WITH("\"train\": {\"steps\": 0}"), "\"steps\" is 0; allowed: 1 to 1000000000"},
        {CASE_WITH("\"train\": {\"steps\": null}"), "not null"},
        {CASE_WITH("\"train\": {\"steps\": [1]}"), "not a list"},
        {CASE_WITH("\"train\": 3"), "\"train\" must be an object, not a number 3"},
        {CASE_WITH("\"train\": {\"precision\": \"fp16\"}"),
         "\"precision\" is \"fp16\"; did you mean \"fp32\"?\nallowed: fp32, tf32, bf16"},
        {CASE_WITH("\"train\": {\"precision\": 16}"), "must be a text"},
        {CASE_WITH("\"train\": {\"micro_batch\": \"big\"}"), "or \"auto\""},
        {CASE_WITH("\"train\": {\"micro_batch\": []}"), "is an empty list"},
        {CASE_WITH("\"train\": {\"micro_batch\": [4, 0]}"), "\"micro_batch\" is 0"},
        {CASE_WITH("\"train\": {\"model\": {\"widht\": 3}}"), "a key of train.model; did you mean"},
        {CASE_WITH("\"train\": {\"optimizer\": {\"beta1\": 1}}"), "\"beta1\" is 1; allowed: 0 to"},
        {CASE_WITH("\"dataset\": 3"), "must be a name or an object"},
        {CASE_WITH("\"dataset\": {\"val\": []}"), "needs the key \"train\""},
        {CASE_WITH("\"dataset\": {\"train\": [3]}"), "\"train\" must be a text"},
        {CASE_WITH("\"dataset\": \"../x\""), "a name has 1 to 64"},
        {"{\"name\": \"t\"}", "s.json:1:1: a suite needs the key \"profiles\""},
        {"{\"name\": \"t\", \"profiles\": {}}", "at least one member"},
        {"{\"name\": \"t\", \"profiles\": {\"cpu\": 1}}", "\"cpu\" must be an object"},
        {"{\"name\": \"t\", \"profiles\": {\"a b\": {}}}", "\"a b\" is not a valid name"},
        {"{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": []}}}",
         "\"cases\" is an empty list"},
        {"{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"gpu\", \"cases\": []}}}",
         "\"device\" is \"gpu\"; did you mean \"cpu\"?\nallowed: cpu, cuda"},
        {"{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"automatic\": 1}}}",
         "must be true or false"},
        {"{\"name\": \"a/b\"}", "\"name\" is \"a/b\"; a name has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        refuse(cases[i].text, cases[i].words);
    }
    refuse("{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
           "{\"name\": \"a\", \"kind\": \"train\"},\n{\"name\": \"a\", \"kind\": \"train\"}]}}}",
           "s.json:3:10: profile cpu has two cases named \"a\"");
    refuse("{\"name\": \"t\", \"profiles\": {\"cpu\": {\"device\": \"cpu\", \"cases\": [\n"
           "{\"name\": \"ceiling.hot\", \"kind\": \"train\"}]}}}",
           "s.json:2:10: \"ceiling.hot\" is a reserved name");
}

static void nearest_word_is_found_or_none(void **state)
{
    (void)state;
    const struct {
        const char *given, *expected;
    } cases[] = {{"stesp", "steps"}, {"step", "steps"}, {"seeed", "seed"},
                 {"zzzzz", ""},      {"", ""},          {"esed", "seed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        bt_str nearest = {0};
        bt_words_nearest(cases[i].given, "steps|seed|precision", &nearest);
        assert_string_equal(bt_str_text(&nearest), cases[i].expected);
        bt_str_release(&nearest);
    }
}

static void canonical_text_does_not_depend_on_order(void **state)
{
    (void)state;
    const char *texts[] = {"{\"b\": [1, 2.50, true], \"a\": {\"y\": null, \"x\": \"\\u00e9\\n\"}}",
                           "{ \"a\":{\"x\":\"\xc3\xa9\\n\",\"y\":null},\n\"b\":[1.0,25e-1,true]}"};
    for (int i = 0; i < 2; ++i) {
        bt_json_doc json;
        bt_str out = {0};
        ASSERT_OK(bt_json_parse("x", texts[i], strlen(texts[i]), &json));
        bt_json_write(json.root, &out);
        assert_string_equal(bt_str_text(&out),
                            "{\"a\":{\"x\":\"\xc3\xa9\\n\",\"y\":null},\"b\":[1,2.5,true]}");
        bt_str_release(&out);
        bt_json_doc_release(&json);
    }
    const double values[] = {0.1, 1e-8, 6e-4, 1.0 / 3.0, 1e300, -0.0, 9007199254740993.0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        bt_str out = {0};
        bt_json_number(values[i], &out);
        double back = strtod(bt_str_text(&out), NULL);
        test_assert_close(&back, &values[i], 1, 0, 0, "number read back");
        bt_str_release(&out);
    }
}

static void shipped_schema_is_made_from_the_table(void **state)
{
    (void)state;
    void *shipped = NULL;
    size_t size_bytes = 0;
    ASSERT_OK(bt_file_read("suites/schema/suite.schema.json", &shipped, &size_bytes));
    bt_str made = {0};
    bt_suite_schema_write(&made);
    // On failure: bt-bench list schema > suites/schema/suite.schema.json
    assert_string_equal(bt_str_text(&made), shipped);
    bt_json_doc json;
    ASSERT_OK(bt_json_parse("schema", shipped, size_bytes, &json));
    bt_json_doc_release(&json);
    bt_mem_free(shipped);
    bt_str_release(&made);
}

static void defaults_obey_their_own_rows(void **state)
{
    (void)state;
    bt_json_init();
    for (int i = 0; i < bt_suite_key_count; ++i) {
        const bt_suite_key *key = &bt_suite_keys[i];
        if (!key->fallback) {
            continue;
        }
        bt_json_doc json;
        ASSERT_OK(bt_json_parse(key->key, key->fallback, strlen(key->fallback), &json));
        ASSERT_OK(bt_suite_check_value(&json, key, json.root));
        bt_json_doc_release(&json);
    }
}

static void suites_are_found_by_file_folder_and_name(void **state)
{
    (void)state;
    const char *given[] = {"suites/gpt2_124m", "suites/gpt2_124m/", "suites/gpt2_124m/suite.json",
                           "gpt2_124m"};
    for (int i = 0; i < 4; ++i) {
        bt_suite suite;
        ASSERT_OK(bt_suite_load(given[i], &suite));
        assert_string_equal(suite.json.name, "suites/gpt2_124m/suite.json");
        bt_suite_release(&suite);
    }
    bt_suite suite;
    ASSERT_FAILS(
        BT_STATUS_INVALID_ARGUMENT,
        "suites/gpt2_124n: no such suite file or folder; did you mean \"suites/gpt2_124m\"?\n"
        "'bt-bench list suites' lists the suites",
        bt_suite_load("suites/gpt2_124n", &suite));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no such suite", bt_suite_load("", &suite));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "no such suite", bt_suite_load("/no/such", &suite));
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    int64_t before = bt_mem_live_count();
    for (int64_t n = 1;; ++n) {
        bt_suite suite;
        bt_mem_fail_at(n);
        bt_status status = parse_text(good, &suite);
        bt_mem_fail_at(0);
        if (status == BT_OK) {
            assert_true(n > 20);
            bt_suite_release(&suite);
            break;
        }
        assert_int_equal(status, BT_STATUS_OUT_OF_MEMORY);
        assert_int_equal(bt_mem_live_count(), before);
    }
    assert_int_equal(bt_mem_live_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_suite_is_accepted),
        cmocka_unit_test(syntax_errors_name_line_and_column),
        cmocka_unit_test(depth_and_size_are_limited),
        cmocka_unit_test(keys_and_values_are_checked),
        cmocka_unit_test(nearest_word_is_found_or_none),
        cmocka_unit_test(canonical_text_does_not_depend_on_order),
        cmocka_unit_test(shipped_schema_is_made_from_the_table),
        cmocka_unit_test(defaults_obey_their_own_rows),
        cmocka_unit_test(suites_are_found_by_file_folder_and_name),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
