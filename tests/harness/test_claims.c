// tests/harness/test_claims.c - claims of papers: well-formed, complete, tested by cases that exist
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/plan/plan.h"
#include "tests/harness/schema_check.h"
#include "tests/support/test.h"

#define FOLDER "suites/claims"
#define PAPER  FOLDER "/blutrain-2606.24780.json"

static void read_json(const char *path, bt_json_doc *json)
{
    void *bytes = NULL;
    size_t size_bytes = 0;
    ASSERT_OK(bt_file_read(path, &bytes, &size_bytes));
    ASSERT_OK(bt_json_parse(path, bytes, size_bytes, json));
    bt_mem_free(bytes);
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *node = bt_json_get(object, key);
    return cJSON_IsString(node) ? node->valuestring : "";
}

static bool is_named(const cJSON *list, const char *name)
{
    for (const cJSON *node = list->child; node; node = node->next) {
        if (strcmp(text_of(node, "name"), name) == 0) {
            return true;
        }
    }
    return false;
}

// ---- any file of claims ------------------------------------------------------------------------

// What is wrong with a claim, NULL when nothing is.
static const char *fault_of(const cJSON *root, const cJSON *claim)
{
    bool has_case = bt_json_get(claim, "case") != NULL;
    if (has_case == (text_of(claim, "untested")[0] != '\0')) {
        return "needs either a case or a reason why it has none";
    }
    for (const cJSON *other = claim->next; other; other = other->next) {
        if (strcmp(text_of(other, "id"), text_of(claim, "id")) == 0) {
            return "its id is another's too";
        }
    }
    if (!is_named(bt_json_get(root, "conditions"), text_of(claim, "conditions"))) {
        return "its conditions are not in the list";
    }
    const cJSON *mark = NULL;
    cJSON_ArrayForEach(mark, bt_json_get(claim, "provenance"))
    {
        if (!bt_json_get(bt_json_get(root, "marks"), mark->valuestring)) {
            return "a mark without a meaning";
        }
    }
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, bt_json_get(claim, "values"))
    {
        if (!(bt_json_number_of(value, "value") > 0)) {
            return "a value that is not positive";
        }
    }
    double margin = bt_json_number_of(claim, "margin");
    return margin >= 0.02 && margin < 1.1 ? NULL : "a margin of less than 2 % or more than 110 %";
}

static void every_file_obeys_its_schema(void **state)
{
    (void)state;
    bt_json_doc schema;
    read_json("suites/schema/claims.schema.json", &schema);
    DIR *dir = opendir(FOLDER);
    assert_non_null(dir);
    int files = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!strstr(entry->d_name, ".json")) {
            continue;
        }
        char path[512];
        bt_json_doc json;
        (void)snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        read_json(path, &json);
        assert_string_equal(schema_check(schema.root, json.root), "");
        const cJSON *claim = NULL;
        cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims"))
        {
            const char *fault = fault_of(json.root, claim);
            if (fault) {
                fail_msg("%s: %s: %s", path, text_of(claim, "id"), fault);
            }
        }
        bt_json_release(&json);
        ++files;
    }
    closedir(dir);
    assert_true(files > 0);
    bt_json_release(&schema);
}

static void a_bad_claim_is_found(void **state)
{
    (void)state;
    bt_json_doc json, schema;
    read_json(PAPER, &json);
    read_json("suites/schema/claims.schema.json", &schema);
    cJSON *claim = bt_json_get(json.root, "claims")->child;
    assert_null(fault_of(json.root, claim));
    cJSON_SetValuestring(bt_json_get(claim, "conditions"), "x");
    assert_non_null(fault_of(json.root, claim));
    cJSON_DeleteItemFromObject(claim, "case");
    assert_string_equal(fault_of(json.root, claim),
                        "needs either a case or a reason why it has none");
    cJSON_DeleteItemFromObject(claim, "citation");
    assert_non_null(strstr(schema_check(schema.root, json.root), "citation"));
    bt_json_release(&json);
    bt_json_release(&schema);
}

// ---- cases that exist --------------------------------------------------------------------------

// The plan of the profile of a suite, kept while claims of one suite follow each other.
typedef struct planned {
    char suite[128], profile[64];
    bt_plan plan;
} planned;

static void look_up(planned *at, const char *suite_name, const char *profile)
{
    if (strcmp(at->suite, suite_name) == 0 && strcmp(at->profile, profile) == 0) {
        return;
    }
    bt_plan_release(&at->plan);
    char path[256];
    bt_suite suite;
    bt_machine machine = {0};
    bt_plan_options options = {.profile = profile, .seed = -1};
    (void)snprintf(path, sizeof path, "suites/%s", suite_name);
    (void)snprintf(at->suite, sizeof at->suite, "%s", suite_name);
    (void)snprintf(at->profile, sizeof at->profile, "%s", profile);
    ASSERT_OK(bt_suite_load(path, &suite));
    ASSERT_OK(bt_plan_make(&suite, &options, &machine, &at->plan));
    bt_suite_release(&suite);
}

static void check_case(planned *at, const cJSON *claim, const cJSON *item)
{
    look_up(at, text_of(item, "suite"), text_of(item, "profile"));
    if (!is_named(at->plan.cases, text_of(item, "name"))) {
        fail_msg("%s: suites/%s has no case %s on profile %s", text_of(claim, "id"),
                 text_of(item, "suite"), text_of(item, "name"), text_of(item, "profile"));
    }
}

static void every_case_exists(void **state)
{
    (void)state;
    bt_json_doc json;
    planned at = {0};
    int tested = 0, stand_ins = 0;
    read_json(PAPER, &json);
    const cJSON *claim = NULL, *item = NULL;
    cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims"))
    {
        if (bt_json_get(claim, "case")) {
            check_case(&at, claim, bt_json_get(claim, "case"));
            ++tested;
        }
        cJSON_ArrayForEach(item, bt_json_get(claim, "stand_ins"))
        {
            check_case(&at, claim, item);
            assert_true(cJSON_GetArraySize(bt_json_get(item, "deviations")) > 0);
            ++stand_ins;
        }
    }
    assert_false(is_named(at.plan.cases, "nothing.of.this.name"));
    assert_true(tested >= 146);
    assert_true(stand_ins >= 4);
    bt_plan_release(&at.plan);
    bt_json_release(&json);
}

// ---- the numbers of this paper -----------------------------------------------------------------

static void counts_are_those_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        const char *experiment;
        int claims;
    } expected[] = {{"B.1", 22}, {"B.2", 27}, {"B.3", 10}, {"B.4", 10},  {"B.5", 7},  {"B.6", 14},
                    {"B.7", 14}, {"B.8", 7},  {"B.9", 7},  {"B.10", 11}, {"E1", 8},   {"E2", 2},
                    {"E3", 2},   {"E4", 2},   {"E5", 1},   {"E6", 6},    {"B.11", 1}, {"extra", 7}};
    bt_json_doc json;
    int total = 0;
    read_json(PAPER, &json);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        int count = 0;
        const cJSON *claim = NULL;
        cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims"))
        {
            count += strcmp(text_of(claim, "experiment"), expected[i].experiment) == 0;
        }
        assert_int_equal(count, expected[i].claims);
        total += count;
    }
    assert_int_equal(total, cJSON_GetArraySize(bt_json_get(json.root, "claims")));
    bt_json_release(&json);
}

static double value_of(const cJSON *root, const char *id, const char *system)
{
    const cJSON *claim = NULL, *value = NULL;
    cJSON_ArrayForEach(claim, bt_json_get(root, "claims"))
    {
        cJSON_ArrayForEach(value, bt_json_get(claim, "values"))
        {
            if (strcmp(text_of(claim, "id"), id) == 0 &&
                strcmp(text_of(value, "system"), system) == 0) {
                return bt_json_number_of(value, "value");
            }
        }
    }
    return (double)NAN;
}

static void some_numbers_are_those_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        const char *id, *system;
        double value;
    } expected[] = {
        {"B.1.causal.16x12x1024x64.time", "pytorch", 1.59},
        {"B.2.full.4x32x2048x128.compute", "blutrain", 20},
        {"B.3.16x1024x16384.time", "blutrain", 2.71},
        {"B.4.1x2048x3072.bandwidth", "pytorch", 769},
        {"B.5.16384x4096.time", "pytorch", 0.7},
        {"B.6.16384x4096.bandwidth", "blutrain", 501},
        {"B.7.16384x128256.time", "pytorch", 32.12},
        {"B.8.16384x32000.bandwidth", "blutrain", 796},
        {"B.9.16384x50304.bandwidth", "pytorch", 871},
        {"B.10.full_124m.bandwidth", "blutrain", 780},
        {"E1.throughput", "pytorch-compile", 402453},
        {"E1.memory_steady", "blutrain", 21.48},
        {"E2.throughput", "pytorch", 14849},
        {"extra.gemm_bf16.8x4096", "cublas", 157.7},
    };
    bt_json_doc json;
    read_json(PAPER, &json);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        double value = value_of(json.root, expected[i].id, expected[i].system);
        if (!(fabs(value - expected[i].value) <= 1e-9)) {
            fail_msg("%s of %s is %g", expected[i].id, expected[i].system, value);
        }
    }
    bt_json_release(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_obeys_its_schema),
        cmocka_unit_test(a_bad_claim_is_found),
        cmocka_unit_test(every_case_exists),
        cmocka_unit_test(counts_are_those_of_the_paper),
        cmocka_unit_test(some_numbers_are_those_of_the_paper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
