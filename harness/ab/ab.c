// harness/ab/ab.c - policy and verdicts of a comparison
#include "harness/ab/ab.h"

#include <math.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/text/json_writer.h"

#define TOLERANCE_MAX 10.0

static bt_status policy_of(double tolerance, int64_t rounds_max, bt_str *text)
{
    static const char *const kinds[] = {"kernel", "short_kernel", "train"};
    bt_json_writer json = {.out = text};
    bt_json_writer_open(&json, NULL, '{');
    bt_json_writer_text(&json, "name", BT_AB_KIND);
    if (rounds_max > 0) {
        bt_json_writer_integer(&json, "rounds", rounds_max);
    }
    if (!isnan(tolerance)) {
        bt_json_writer_open(&json, "tolerance", '{');
        for (int i = 0; i < 3; ++i) {
            bt_json_writer_real(&json, kinds[i], tolerance);
        }
        bt_json_writer_close(&json, '}');
    }
    bt_json_writer_close(&json, '}');
    return bt_str_status(text);
}

bt_status bt_ab_policy(const char *given, double tolerance, int64_t rounds_max, bt_policy *out)
{
    BT_SCOPED(bt_str) text = {0};
    if (given) {
        return isnan(tolerance) && rounds_max == 0
                   ? bt_policy_load(given, out)
                   : bt_error(BT_STATUS_INVALID_ARGUMENT, "--policy defines tolerance and rounds: "
                                                          "omit --tolerance and --rounds-max");
    }
    BT_FAIL_IF(!isnan(tolerance) && !(tolerance > 0 && tolerance <= TOLERANCE_MAX),
               BT_STATUS_INVALID_ARGUMENT,
               "tolerance %g: expected a fraction above 0, such as 0.01 for 1 %%", tolerance);
    BT_TRY(policy_of(tolerance, rounds_max, &text));
    return bt_policy_parse("the policy of ab", bt_str_text(&text), text.length_bytes, out);
}

bt_status bt_ab_rule_json(const bt_policy *policy, bt_str *out)
{
    bt_str_append(out, "{\"policy\":");
    bt_json_write(policy->root, out);
    bt_str_append(out, "}");
    return bt_str_status(out);
}

bt_status bt_ab_policy_recorded(const char *rule_json, bt_policy *out)
{
    BT_SCOPED(bt_json_doc) json = {0};
    BT_SCOPED(bt_str) text = {0};
    BT_TRY(bt_json_parse("the rule of a run", rule_json, strlen(rule_json), &json));
    const cJSON *policy = bt_json_get(json.root, "policy");
    BT_TRY(policy ? BT_OK
                  : bt_error(BT_STATUS_CORRUPT_DATA, "the rule of a run has no policy: %.80s",
                             rule_json));
    bt_json_write(policy, &text);
    BT_TRY(bt_str_status(&text));
    return bt_policy_parse("the policy of a run", bt_str_text(&text), text.length_bytes, out);
}

bt_status bt_ab_judge(bt_store *store, int64_t run_number, const bt_policy *policy,
                      bt_store_run *run, bt_gate_result *result)
{
    memset(result, 0, sizeof *result);
    BT_TRY(bt_store_run_read(store, run_number, run));
    const bt_gate_request request = {.run = run,
                                     .policy = policy,
                                     .calibration = bt_gate_calibration_find,
                                     .calibration_self = store};
    BT_TRY(bt_gate_run(&request, result));
    return bt_gate_store(store, BT_AB_KIND, result);
}
