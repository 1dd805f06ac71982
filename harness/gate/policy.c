// harness/gate/policy.c - finds, checks and looks up a policy
#include "harness/gate/policy.h"

#include <fnmatch.h>
#include <string.h>

#include "framework/base/file.h"
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/suite/schema.h"
#include "harness/suite/suite.h"

#define SHORT_KERNEL_NS 20000.0

static const bt_gate_metric_row metric_rows[] = {
#define METRIC_ROW(name, tag, metric, way, words) {tag, metric, BT_GATE_WAY_##way, words},
    BT_GATE_METRIC_LIST(METRIC_ROW)
#undef METRIC_ROW
};

const bt_gate_metric_row *bt_gate_metric_info(bt_gate_metric metric)
{
    return &metric_rows[metric];
}

bool bt_gate_metric_parse(const char *tag, bt_gate_metric *metric)
{
    const int64_t at = BT_FIND(metric_rows, BT_GATE_METRIC_COUNT, tag, tag);
    if (at >= 0) {
        *metric = (bt_gate_metric)at;
    }
    return at >= 0;
}

// ---- reading -----------------------------------------------------------------------------------

// The file of a policy: as given, or NAME.json in suites/policies of the working directory or the
// installation.
static bt_status find_policy(const char *given, bt_str *path)
{
    bt_str_append(path, given);
    if (strchr(given, '/') || strstr(given, ".json") || bt_file_exists(given)) {
        return bt_str_status(path);
    }
    bt_str_clear(path);
    bt_str_format(path, "suites/policies/%s.json", given);
    if (!bt_file_exists(bt_str_text(path))) {
        bt_str_clear(path);
        bt_home_path(path);
        bt_str_format(path, "/suites/policies/%s.json", given);
    }
    return bt_str_status(path);
}

static bt_status no_policy(const char *given)
{
    BT_SCOPED(bt_str) names = {0}, nearest = {0}, listed = {0};
    bt_home_names("suites/policies", ".json", &names);
    bt_home_hint(given, bt_str_text(&names), &nearest, &listed);
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "no policy \"%s\": no such file, and no policy of that name in "
                    "suites/policies%s\navailable: %s",
                    given, bt_str_text(&nearest), bt_str_text(&listed));
}

bt_status bt_policy_load(const char *given, bt_policy *out)
{
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    memset(out, 0, sizeof *out);
    BT_TRY(find_policy(given ? given : "default", &path));
    if (!bt_file_exists(bt_str_text(&path))) {
        BT_TRY(no_policy(given ? given : "default"));
    }
    BT_TRY(bt_file_read(bt_str_text(&path), &bytes, &size_bytes));
    return bt_policy_parse(bt_str_text(&path), bytes, size_bytes, out);
}

static bt_status take_root(const cJSON *root, bt_policy *out)
{
    bt_str text = {0};
    out->root = cJSON_Duplicate(root, true);
    BT_FAIL_IF(!out->root, BT_STATUS_OUT_OF_MEMORY, "host memory for a policy");
    BT_TRY(bt_suite_fill_defaults(BT_SUITE_POLICY, out->root));
    bt_json_write(out->root, &text);
    const cJSON *calibration = bt_json_get(out->root, "calibration");
    out->name = bt_json_get(out->root, "name")->valuestring;
    out->rounds = (int64_t)bt_json_number_of(out->root, "rounds");
    out->false_alarm_rate = bt_json_number_of(out->root, "false_alarm_rate");
    out->miss_rate = bt_json_number_of(out->root, "miss_rate");
    out->inconclusive_limit = bt_json_number_of(out->root, "inconclusive_limit");
    out->clock_tolerance = bt_json_number_of(out->root, "clock_tolerance");
    out->calibration_required = cJSON_IsTrue(bt_json_get(calibration, "required"));
    out->calibration_false_alarm_rate = bt_json_number_of(calibration, "false_alarm_rate");
    out->calibration_smallest_tolerances = bt_json_number_of(calibration, "smallest_tolerances");
    out->calibration_days = (int64_t)bt_json_number_of(calibration, "days");
    return bt_record_digest_str(&text, out->digest);
}

bt_status bt_policy_parse(const char *path, const char *text, size_t size_bytes, bt_policy *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_json_parse(path, text, size_bytes, &json));
    bt_status status =
        cJSON_IsObject(json.root)
            ? bt_suite_check(&json, BT_SUITE_POLICY, json.root)
            : bt_json_error(&json, json.root, BT_JSON_VALUE, "a policy must be an object, not %s",
                            bt_json_type_name(json.root));
    BT_IF_OK(status, take_root(json.root, out));
    if (status != BT_OK) {
        bt_policy_release(out);
    }
    return status;
}

void bt_policy_release(bt_policy *policy)
{
    cJSON_Delete(policy->root);
    memset(policy, 0, sizeof *policy);
}

// ---- looking up --------------------------------------------------------------------------------

// "allow" is a word or a list of them; it replaces earlier values.
static void take_allow(const cJSON *node, bool allow[BT_GATE_ALLOW_COUNT])
{
    static const char *const words[] = {
#define ALLOW_WORD(name, word) word,
        BT_GATE_ALLOW_LIST(ALLOW_WORD)
#undef ALLOW_WORD
    };
    for (int i = 0; node && i < BT_GATE_ALLOW_COUNT; ++i) {
        allow[i] = cJSON_IsString(node) && strcmp(node->valuestring, words[i]) == 0;
        for (const cJSON *item = cJSON_IsArray(node) ? node->child : NULL; item;
             item = item->next) {
            allow[i] = allow[i] || strcmp(item->valuestring, words[i]) == 0;
        }
    }
}

static bool fits(const cJSON *override, const char *name, bt_gate_metric metric)
{
    const cJSON *only = bt_json_get(override, "metric");
    return fnmatch(bt_json_get(override, "case")->valuestring, name, 0) == 0 &&
           (!only || (metric < BT_GATE_METRIC_COUNT &&
                      strcmp(only->valuestring, metric_rows[metric].tag) == 0));
}

bt_gate_rule bt_policy_rule(const bt_policy *policy, const char *name, bt_gate_metric metric,
                            bool training, double base_ns)
{
    const cJSON *tolerance = bt_json_get(policy->root, "tolerance");
    const bt_gate_way way =
        metric < BT_GATE_METRIC_COUNT ? metric_rows[metric].way : BT_GATE_WAY_TOTAL;
    const bool p95 = way == BT_GATE_WAY_P95;
    const char *kind = p95                           ? "p95"
                       : way == BT_GATE_WAY_RECOVERY ? "recovery"
                       : training                    ? "train"
                       : base_ns < SHORT_KERNEL_NS   ? "short_kernel"
                                                     : "kernel";
    bt_gate_rule rule = {.tolerance = bt_json_number_of(tolerance, kind),
                         .memory_tolerance_bytes =
                             bt_json_number_of(policy->root, "memory_tolerance_bytes"),
                         .inconclusive_limit = policy->inconclusive_limit,
                         .loss = bt_json_get(policy->root, "loss")->valuestring,
                         .gated = true,
                         .reason = ""};
    take_allow(bt_json_get(policy->root, "allow"), rule.allow);
    const cJSON *override = NULL;
    cJSON_ArrayForEach(override, bt_json_get(policy->root, "overrides")) {
        if (!fits(override, name, metric)) {
            continue;
        }
        const cJSON *given = NULL;
        rule.reason = bt_json_get(override, "reason")->valuestring;
        if ((given = bt_json_get(override, "tolerance"))) {
            rule.tolerance = given->valuedouble;
        }
        if ((given = bt_json_get(override, "inconclusive_limit"))) {
            rule.inconclusive_limit = given->valuedouble;
        }
        if ((given = bt_json_get(override, "memory_tolerance_bytes"))) {
            rule.memory_tolerance_bytes = given->valuedouble;
        }
        if ((given = bt_json_get(override, "loss"))) {
            rule.loss = given->valuestring;
        }
        if ((given = bt_json_get(override, "gated"))) {
            rule.gated = cJSON_IsTrue(given);
        }
        take_allow(bt_json_get(override, "allow"), rule.allow);
    }
    rule.allow[BT_GATE_ALLOW_INCONCLUSIVE] = rule.allow[BT_GATE_ALLOW_INCONCLUSIVE] || p95;
    return rule;
}
