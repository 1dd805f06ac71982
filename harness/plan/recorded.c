// harness/plan/recorded.c - a plan from its recorded text
#include <string.h>

#include "framework/base/mem.h"
#include "harness/plan/plan.h"

bt_status bt_plan_index(bt_plan *plan)
{
    const cJSON *suite = bt_json_get(plan->root, "suite");
    const cJSON *profile = bt_json_get(plan->root, "profile");
    const cJSON *device = bt_json_get(plan->root, "device");
    plan->cases = bt_json_get(plan->root, "cases");
    plan->systems = bt_json_get(plan->root, "systems");
    if (!cJSON_IsString(suite) || !cJSON_IsString(profile) || !cJSON_IsString(device) ||
        !cJSON_IsArray(plan->cases)) {
        return bt_error(BT_STATUS_CORRUPT_DATA,
                        "a plan without suite, profile, device or cases: not one of bt-bench");
    }
    bt_plan_hash(plan->text, plan->hash);
    plan->suite = suite->valuestring;
    plan->profile = profile->valuestring;
    plan->device = device->valuestring;
    plan->case_count = cJSON_GetArraySize(plan->cases);
    plan->rounds = (int64_t)bt_json_number_of(plan->root, "rounds");
    return BT_OK;
}

bt_status bt_plan_read(const char *text, bt_plan *out)
{
    bt_json_doc json = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_json_parse("the recorded plan", text, strlen(text), &json));
    out->root = json.root;
    json.root = NULL; // the plan's from here on
    bt_json_release(&json);
    bt_status status = bt_mem_strdup(text, &out->text);
    if (status == BT_OK) {
        status = bt_plan_index(out);
    }
    if (status != BT_OK) {
        bt_plan_release(out);
    }
    return status;
}
