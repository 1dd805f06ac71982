// tests/harness/test_claims.c - claims of papers: well-formed, complete, tested by cases that exist
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/mem.h"
#include "harness/plan/plan.h"
#include "harness/replicate/claims.h"
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
    cJSON_ArrayForEach(mark, bt_json_get(claim, "provenance")) {
        if (!bt_json_get(bt_json_get(root, "marks"), mark->valuestring)) {
            return "a mark without a meaning";
        }
    }
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
        if (!(bt_json_number_of(value, "value") > 0)) {
            return "a value that is not positive";
        }
    }
    cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
        double printed = strtod(text_of(value, "printed"), NULL);
        if (!(fabs(printed - bt_json_number_of(value, "value")) <= 1e-12 * printed)) {
            return "a value that is not what was printed";
        }
    }
    return NULL;
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
        cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims")) {
            const char *fault = fault_of(json.root, claim);
            if (fault) {
                fail_msg("%s: %s: %s", path, text_of(claim, "id"), fault);
            }
        }
        bt_json_doc_release(&json);
        ++files;
    }
    closedir(dir);
    assert_true(files > 0);
    bt_json_doc_release(&schema);
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
    bt_json_doc_release(&json);
    bt_json_doc_release(&schema);
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
    cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims")) {
        if (bt_json_get(claim, "case")) {
            check_case(&at, claim, bt_json_get(claim, "case"));
            ++tested;
        }
        cJSON_ArrayForEach(item, bt_json_get(claim, "stand_ins")) {
            check_case(&at, claim, item);
            assert_true(cJSON_GetArraySize(bt_json_get(item, "deviations")) > 0);
            ++stand_ins;
        }
    }
    assert_false(is_named(at.plan.cases, "nothing.of.this.name"));
    assert_true(tested >= 146);
    assert_true(stand_ins >= 4);
    bt_plan_release(&at.plan);
    bt_json_doc_release(&json);
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
                    {"E3", 2},   {"E4", 2},   {"E5", 1},   {"E6", 6},    {"B.11", 6}, {"extra", 7}};
    bt_json_doc json;
    int total = 0;
    read_json(PAPER, &json);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        int count = 0;
        const cJSON *claim = NULL;
        cJSON_ArrayForEach(claim, bt_json_get(json.root, "claims")) {
            count += strcmp(text_of(claim, "experiment"), expected[i].experiment) == 0;
        }
        assert_int_equal(count, expected[i].claims);
        total += count;
    }
    assert_int_equal(total, cJSON_GetArraySize(bt_json_get(json.root, "claims")));
    bt_json_doc_release(&json);
}

static double value_of(const cJSON *root, const char *id, const char *system)
{
    const cJSON *claim = NULL, *value = NULL;
    cJSON_ArrayForEach(claim, bt_json_get(root, "claims")) {
        cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
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
    bt_json_doc_release(&json);
}

// ---- margins, and statements that the paper repeats --------------------------------------------

// Half a unit in the last printed place of a value, as an exact decimal.
static double half_unit(const char *printed)
{
    const char *point = strchr(printed, '.');
    double unit = 1;
    for (size_t i = 0; point && i < strlen(point + 1); ++i) {
        unit /= 10;
    }
    return unit / 2;
}

static const char *printed_of(const cJSON *claim, const char *system)
{
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
        if (strcmp(text_of(value, "system"), system) == 0) {
            return text_of(value, "printed");
        }
    }
    return NULL;
}

static void every_margin_follows_from_the_printed_digits(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        double margin;
    } expected[] = {{"B.3.32x1024x3072.time", 0.030},       {"B.4.1x2048x3072.time", 0.126},
                    {"B.4.16x1024x4096.time", 0.030},       {"B.3.16x2048x3072.time", 0.030},
                    {"B.1.causal.1x12x512x64.time", 0.039}, {"B.5.1024x768.time", 1.02}};
    bt_json_doc json;
    bt_claims claims;
    int pairs = 0, found = 0;
    read_json(PAPER, &json);
    ASSERT_OK(bt_claims_read(&json, &claims));
    for (int64_t i = 0; i < claims.count; ++i) {
        const bt_claim *claim = &claims.items[i];
        const char *ours = printed_of(claim->node, "blutrain");
        const cJSON *value = NULL;
        const double least = 0.02;
        bool same = *claim->over && fabs(claim->margin - least) <= 1e-12; // of two cases of ours
        if (ours && strcmp(text_of(claim->node, "metric"), "throughput_gain") == 0) {
            const double gain = half_unit(ours) / (100 + strtod(ours, NULL));
            same = fabs(claim->margin - (least + gain)) <= 1e-12;
        }
        cJSON_ArrayForEach(value, bt_json_get(claim->node, "values")) {
            const char *theirs = text_of(value, "printed");
            double margin = !ours ? (double)NAN
                                  : 0.02 + half_unit(ours) / strtod(ours, NULL) +
                                        half_unit(theirs) / strtod(theirs, NULL);
            same = same || fabs(margin - claim->margin) <= 1e-12;
        }
        if (claim->claimed > 0 && !same) {
            fail_msg("%s: a margin of %g", claim->subject, claim->margin);
        }
        pairs += claim->claimed > 0;
        for (size_t e = 0; e < sizeof expected / sizeof expected[0]; ++e) {
            if (strcmp(expected[e].id, claim->subject) == 0) {
                assert_true(fabs(claim->margin - expected[e].margin) <= 5e-4);
                ++found;
            }
        }
    }
    assert_int_equal(found, 6);
    assert_true(pairs > 140);
    bt_claims_release(&claims);
    bt_json_doc_release(&json);
}

// Whether the printed time (ms) and rate (1e9 bytes or 1e12 FLOP per second) of `work` agree when
// each may be off by half a unit in its last place.
static bool agree(double work, const char *time, const char *rate)
{
    double slowest = (strtod(time, NULL) + half_unit(time)) * 1e-3;
    double fastest = (strtod(time, NULL) - half_unit(time)) * 1e-3;
    double least = strtod(rate, NULL) - half_unit(rate),
           most = strtod(rate, NULL) + half_unit(rate);
    return work / slowest <= most && work / fastest >= least;
}

// The claim about the same case and system pair with this metric, NULL: none.
static const cJSON *sibling(const cJSON *list, const cJSON *claim, const char *metric)
{
    const char *name = text_of(bt_json_get(claim, "case"), "name");
    const cJSON *other = NULL;
    cJSON_ArrayForEach(other, list) {
        if (*name && strcmp(text_of(bt_json_get(other, "case"), "name"), name) == 0 &&
            strcmp(text_of(other, "metric"), metric) == 0) {
            return other;
        }
    }
    return NULL;
}

static double work_of(planned *at, const cJSON *claim, bool flops)
{
    const cJSON *where = bt_json_get(claim, "case"), *item = NULL;
    look_up(at, text_of(where, "suite"), text_of(where, "profile"));
    cJSON_ArrayForEach(item, at->plan.cases) {
        if (strcmp(text_of(item, "name"), text_of(where, "name")) == 0) {
            return bt_json_number_of(bt_json_get(item, "kernel"), flops ? "flops" : "bytes") /
                   (flops ? 1e12 : 1e9);
        }
    }
    return (double)NAN;
}

static void times_and_rates_that_disagree_are_noted(void **state)
{
    (void)state;
    bt_json_doc json;
    planned at = {0};
    int pairs = 0, noted = 0;
    read_json(PAPER, &json);
    const cJSON *list = bt_json_get(json.root, "claims"), *claim = NULL, *value = NULL;
    cJSON_ArrayForEach(claim, list) {
        const bool flops = strcmp(text_of(claim, "metric"), "compute") == 0;
        const bool rate = flops || strcmp(text_of(claim, "metric"), "bandwidth") == 0;
        const cJSON *time = rate ? sibling(list, claim, "time") : NULL;
        cJSON_ArrayForEach(value, bt_json_get(time ? claim : NULL, "values")) {
            const char *system = text_of(value, "system");
            char words[128];
            (void)snprintf(words, sizeof words, "prints for %s disagree beyond rounding", system);
            bool fine = agree(work_of(&at, claim, flops), printed_of(time, system),
                              text_of(value, "printed"));
            if (fine == (strstr(text_of(claim, "note"), words) != NULL)) {
                fail_msg("%s, %s: %s", text_of(claim, "id"), system,
                         fine ? "noted, and agrees" : "disagrees, and is not noted");
            }
            noted += !fine;
            ++pairs;
        }
    }
    assert_int_equal(pairs, 70);
    assert_int_equal(noted, 14);
    assert_true(agree(0.1006632960, "0.12", "812") && !agree(0.1006632960, "0.12", "900"));
    bt_plan_release(&at.plan);
    bt_json_doc_release(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_obeys_its_schema),
        cmocka_unit_test(a_bad_claim_is_found),
        cmocka_unit_test(every_case_exists),
        cmocka_unit_test(counts_are_those_of_the_paper),
        cmocka_unit_test(some_numbers_are_those_of_the_paper),
        cmocka_unit_test(every_margin_follows_from_the_printed_digits),
        cmocka_unit_test(times_and_rates_that_disagree_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
