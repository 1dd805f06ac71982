// harness/replicate/claims.c - converts a file of claims to pairs of systems that can be tested
// here
#include "harness/replicate/claims.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "harness/record/keep.h"

#define OURS "blutrain"

// Words of the file for metrics. Bandwidth and rate of one case are its bytes and operations
// divided by its time, so their ratio is that of times.
static const struct {
    const char *word;
    bt_metric metric;
} metrics[] = {
    {"time", BT_METRIC_TIME},
    {"bandwidth", BT_METRIC_TIME},
    {"compute", BT_METRIC_TIME},
    {"throughput", BT_METRIC_TOKENS_PER_S},
    {"best_bucket", BT_METRIC_TOKENS_PER_S},
    {"throughput_gain", BT_METRIC_TOKENS_PER_S},
    {"step_time", BT_METRIC_STEP_TIME},
    {"min_train_loss", BT_METRIC_LOSS_MIN},
    {"final_val_loss", BT_METRIC_VAL_LOSS},
    {"memory_step0", BT_METRIC_PEAK_FIRST_STEP},
    {"memory_steady", BT_METRIC_PEAK_ALLOCATED},
    {"peak_memory", BT_METRIC_PEAK_ALLOCATED},
    {"checkpoint_stall", BT_METRIC_CHECKPOINT_STALL},
    {"checkpoint_save", BT_METRIC_CHECKPOINT_SAVE},
};

#define MARGIN_LEAST 0.02 // of two exact values

// The system here that represents one of the paper.
static const char *stand_in(const cJSON *root, const char *name)
{
    const cJSON *alias = NULL;
    cJSON_ArrayForEach(alias, bt_json_get(root, "stands_for")) {
        if (strcmp(bt_json_text_of(alias, "name"), name) == 0) {
            return bt_json_text_of(alias, "system");
        }
    }
    return name;
}

// ---- margins -----------------------------------------------------------------------------------

// Half a unit in the last printed place, as a fraction of the value: 0.05 of "0.10", 0.005 of
// "1.00".
static double rounding_of(const char *printed)
{
    const char *point = strchr(printed, '.');
    double value = strtod(printed, NULL);
    double places = point ? (double)strlen(point + 1) : 0;
    return value > 0 ? 0.5 * pow(10, -places) / value : (double)NAN;
}

// Relative tolerance of the ratio of two printed values: 2 %, and half a unit in the last printed
// place of each value, as a fraction of it. NaN: not a number.
static double margin_of(const char *ours, const char *theirs)
{
    return MARGIN_LEAST + rounding_of(ours) + rounding_of(theirs);
}

// ---- reading -----------------------------------------------------------------------------------

// Our value of a claim, NULL if it has none.
static const cJSON *ours_of(const cJSON *claim)
{
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
        if (strcmp(bt_json_text_of(value, "system"), OURS) == 0) {
            return value;
        }
    }
    return NULL;
}

// The number of values of other systems.
static int64_t count_others(const cJSON *claim)
{
    int64_t count = 0;
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, bt_json_get(claim, "values")) {
        count += strcmp(bt_json_text_of(value, "system"), OURS) != 0;
    }
    return count;
}

static bt_status set_subject(bt_claims *claims, bt_claim *out, bool several)
{
    out->subject = out->id;
    return several ? bt_keep_format(&claims->arena, &out->subject, "%s/%s", out->id, out->other)
                   : BT_OK;
}

static bool find_metric(const char *word, bt_metric *metric)
{
    const int64_t at = BT_FIND(metrics, BT_COUNT(metrics), word, word);
    if (at >= 0) {
        *metric = metrics[at].metric;
    }
    return at >= 0;
}

// One case of ours against another.
static void compare_cases(bt_claim *out)
{
    out->other = OURS;
    out->claimed = 1;
    out->margin = MARGIN_LEAST;
    out->rule = BT_CLAIM_RULE_AT_LEAST;
}

// A gain in percent, over another case of ours or over the system "against".
static void compare_gain(const cJSON *root, const cJSON *own, bt_claim *out)
{
    const double percent = bt_json_number_of(own, "value"), ratio = 1 + percent / 100;
    out->other = *out->over ? OURS : stand_in(root, bt_json_text_of(out->node, "against"));
    out->claimed = ratio;
    out->margin =
        MARGIN_LEAST + rounding_of(bt_json_text_of(own, "printed")) * percent / 100 / ratio;
}

// One claim against one other system; `value` is that system's, NULL if there is none.
static bt_status add_pair(bt_claims *claims, const cJSON *node, const cJSON *value, bool several)
{
    bt_claim *out = &claims->items[claims->count++];
    const cJSON *own = ours_of(node);
    double ours = own ? bt_json_number_of(own, "value") : (double)NAN,
           theirs = bt_json_number_of(value, "value");
    bool lower = strcmp(bt_json_text_of(node, "better"), "lower") == 0;
    *out = (bt_claim){
        .node = node,
        .rule = BT_CLAIM_RULE,
        .id = bt_json_text_of(node, "id"),
        .title = bt_json_text_of(node, "title"),
        .other = value ? stand_in(claims->json->root, bt_json_text_of(value, "system")) : "",
        .claimed = value ? (lower ? theirs / ours : ours / theirs) : (double)NAN,
        .margin = margin_of(bt_json_text_of(own, "printed"), bt_json_text_of(value, "printed")),
        .over = bt_json_text_of(node, "over"),
        .untested = bt_json_text_of(node, "untested")};
    if (own && strcmp(bt_json_text_of(node, "metric"), "throughput_gain") == 0) {
        compare_gain(claims->json->root, own, out);
    } else if (*out->over) {
        compare_cases(out);
    }
    const cJSON *stated = bt_json_get(node, "margin"); // for files without printed digits
    if (cJSON_IsNumber(stated)) {
        out->margin = stated->valuedouble;
        out->rule = 1;
    }
    BT_TRY(set_subject(claims, out, several));
    if (*out->untested) {
        return BT_OK;
    }
    if (!(out->claimed > 0)) {
        out->untested = "does not compare two systems";
    } else if (!find_metric(bt_json_text_of(node, "metric"), &out->metric)) {
        out->untested = "no metric of bt-bench measures it";
    }
    return BT_OK;
}

static bt_status read_claims(bt_claims *claims, const cJSON *list)
{
    int64_t count = 0;
    const cJSON *node = NULL, *value = NULL;
    cJSON_ArrayForEach(node, list) {
        int64_t others = count_others(node);
        count += others > 0 ? others : 1;
    }
    BT_TRY(BT_ARENA_ARRAY(&claims->arena, count, &claims->items));
    cJSON_ArrayForEach(node, list) {
        int64_t others = count_others(node);
        if (others == 0) {
            BT_TRY(add_pair(claims, node, NULL, false));
        }
        cJSON_ArrayForEach(value, bt_json_get(node, "values")) {
            if (strcmp(bt_json_text_of(value, "system"), OURS) != 0) {
                BT_TRY(add_pair(claims, node, value, others > 1));
            }
        }
    }
    return BT_OK;
}

bt_status bt_claims_read(const bt_json_doc *json, bt_claims *out)
{
    const cJSON *list = bt_json_get(json->root, "claims");
    memset(out, 0, sizeof *out);
    out->json = json;
    BT_FAIL_IF(!cJSON_IsArray(list), BT_STATUS_INVALID_ARGUMENT, "%s: no list \"claims\"",
               json->name);
    bt_status status = read_claims(out, list);
    if (status != BT_OK) {
        bt_claims_release(out);
    }
    return status;
}

void bt_claims_release(bt_claims *claims)
{
    bt_arena_release(&claims->arena);
    memset(claims, 0, sizeof *claims);
}

// ---- cases -------------------------------------------------------------------------------------

static bool is_of_kernels(const cJSON *item)
{
    return strncmp(bt_json_text_of(item, "suite"), "kernels/", 8) == 0;
}

// "distributed/buckets", the path of a suite, and "distributed_buckets", its name, are the same.
static bool is_suite(const cJSON *item, const char *name)
{
    const char *given = bt_json_text_of(item, "suite");
    while (*given && (*given == *name || (*given == '/' && *name == '_'))) {
        ++given;
        ++name;
    }
    return *given == *name;
}

static bool is_case(const cJSON *item, const char *suite, const char *profile, const char *name)
{
    return item && strcmp(bt_json_text_of(item, "name"), name) == 0 &&
           (is_of_kernels(item) ||
            (is_suite(item, suite) && strcmp(bt_json_text_of(item, "profile"), profile) == 0));
}

const cJSON *bt_claim_case(const bt_claim *claim, const char *suite, const char *profile,
                           const char *name)
{
    const cJSON *item = bt_json_get(claim->node, "case");
    if (is_case(item, suite, profile, name)) {
        return item;
    }
    cJSON_ArrayForEach(item, bt_json_get(claim->node, "stand_ins")) {
        if (is_case(item, suite, profile, name)) {
            return item;
        }
    }
    return NULL;
}

static bool is_in(const cJSON *item, const char *suite)
{
    return item &&
           (is_suite(item, suite) || (is_of_kernels(item) && strcmp(suite, "kernels_all") == 0));
}

bool bt_claim_is_of_suite(const bt_claim *claim, const char *suite)
{
    bool found = is_in(bt_json_get(claim->node, "case"), suite);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, bt_json_get(claim->node, "stand_ins")) {
        found = found || is_in(item, suite);
    }
    return found;
}

// Whether a case or stand-in of this claim belongs to the suite, under any name.
static bool names_suite(const cJSON *item, const bt_claims_suite *suite)
{
    return item && (is_of_kernels(item)
                        ? strncmp(suite->suite, "kernels", 7) == 0
                        : is_suite(item, suite->suite) &&
                              strcmp(bt_json_text_of(item, "profile"), suite->profile) == 0);
}

static bool is_of_suite(const bt_claim *claim, const bt_claims_suite *suite)
{
    const cJSON *item = NULL;
    if (*claim->untested) {
        return false;
    }
    cJSON_ArrayForEach(item, bt_json_get(claim->node, "stand_ins")) {
        if (names_suite(item, suite)) {
            return true;
        }
    }
    return names_suite(bt_json_get(claim->node, "case"), suite);
}

bool bt_claims_want(const char *name, const void *by)
{
    const bt_claims_suite *suite = by;
    BT_EACH(const bt_claim, claim, suite->claims->items, suite->claims->count) {
        const bool over = is_of_suite(claim, suite) && strcmp(claim->over, name) == 0;
        if (!*claim->untested &&
            (over || bt_claim_case(claim, suite->suite, suite->profile, name))) {
            return true;
        }
    }
    return false;
}

void bt_claims_systems(const bt_claims_suite *suite, bt_str *out)
{
    bt_str_append(out, OURS);
    for (int64_t i = 0; i < suite->claims->count; ++i) {
        const bt_claim *claim = &suite->claims->items[i];
        bool known = !is_of_suite(claim, suite) || strcmp(claim->other, OURS) == 0;
        for (int64_t j = 0; j < i && !known; ++j) {
            const bt_claim *earlier = &suite->claims->items[j];
            known = is_of_suite(earlier, suite) && strcmp(earlier->other, claim->other) == 0;
        }
        if (!known) {
            bt_str_format(out, ",%s", claim->other);
        }
    }
}

// Adds the profile of a case of the suite, if it is another one and not yet there.
static bt_status add_profile(const cJSON *item, const bt_claims_suite *suite, cJSON *profiles)
{
    const char *profile = bt_json_text_of(item, "profile");
    if (!item || is_of_kernels(item) || !is_suite(item, suite->suite) ||
        strcmp(profile, suite->profile) == 0 || bt_json_get(profiles, profile)) {
        return BT_OK;
    }
    return bt_json_put(profiles, profile, cJSON_CreateNull(), "the profiles");
}

static bt_status find_profiles(const bt_claims_suite *suite, cJSON *profiles)
{
    BT_EACH(const bt_claim, claim, suite->claims->items, suite->claims->count) {
        const cJSON *item = NULL;
        if (*claim->untested) {
            continue;
        }
        cJSON_ArrayForEach(item, bt_json_get(claim->node, "stand_ins")) {
            BT_TRY(add_profile(item, suite, profiles));
        }
        BT_TRY(add_profile(bt_json_get(claim->node, "case"), suite, profiles));
    }
    return BT_OK;
}

bt_status bt_claims_expected(const bt_claims_suite *suite, bt_str *out)
{
    cJSON *profiles = cJSON_CreateObject();
    const cJSON *profile = NULL;
    bt_status status = profiles ? find_profiles(suite, profiles)
                                : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for the profiles");
    const char *before = "expected --profile ";
    cJSON_ArrayForEach(profile, profiles) {
        bt_str_format(out, "%s%s", before, profile->string);
        before = profile->next && profile->next->next ? ", " : " or ";
    }
    if (!profiles || !profiles->child) {
        bt_str_append(out, "expected cases such as those of suites/kernels/all");
    }
    cJSON_Delete(profiles);
    return status == BT_OK ? bt_str_status(out) : status;
}

const char *bt_claims_profile(const bt_claims *claims, const char *suite)
{
    const char *own = NULL;
    for (int64_t i = 0; i < claims->count; ++i) {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, bt_json_get(claims->items[i].node, "stand_ins")) {
            if (is_suite(item, suite)) {
                return bt_json_text_of(item, "profile");
            }
        }
        item = bt_json_get(claims->items[i].node, "case");
        if (!own && is_suite(item, suite)) {
            own = bt_json_text_of(item, "profile");
        }
    }
    return own;
}
