// harness/plan/recorded.c - a recorded plan: its text, hash, cases and numbers
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/record/record.h"

void bt_plan_hash(const char *text, char hash[33]) { bt_record_digest(text, strlen(text), hash); }

double bt_plan_number(const cJSON *object, const char *path)
{
    const cJSON *node = object;
    while (node && *path) {
        char key[64];
        size_t length = strcspn(path, ".");
        (void)snprintf(key, sizeof key, "%.*s", (int)length, path);
        node = bt_json_get(node, key);
        path += length + (path[length] == '.');
    }
    return node && cJSON_IsNumber(node) ? node->valuedouble : 0;
}

bt_status bt_plan_index(bt_plan *plan)
{
    const cJSON *suite = bt_json_get(plan->root, "suite");
    const cJSON *profile = bt_json_get(plan->root, "profile");
    const cJSON *device = bt_json_get(plan->root, "device");
    plan->cases = bt_json_get(plan->root, "cases");
    plan->systems = bt_json_get(plan->root, "systems");
    BT_FAIL_IF(!cJSON_IsString(suite) || !cJSON_IsString(profile) || !cJSON_IsString(device) ||
                   !cJSON_IsArray(plan->cases),
               BT_STATUS_CORRUPT_DATA,
               "the plan lacks suite, profile, device or cases: bt-bench did not write it");
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
    BT_SCOPED(bt_json_doc) json = {0};
    memset(out, 0, sizeof *out);
    BT_TRY(bt_json_parse("the recorded plan", text, strlen(text), &json));
    out->root = json.root;
    json.root = NULL; // the plan's from here on
    bt_status status = bt_mem_strdup(text, &out->text);
    BT_IF_OK(status, bt_plan_index(out));
    if (status != BT_OK) {
        bt_plan_release(out);
    }
    return status;
}

void bt_plan_release(bt_plan *plan)
{
    cJSON_Delete(plan->root);
    bt_mem_free(plan->text);
    memset(plan, 0, sizeof *plan);
}

const cJSON *bt_plan_case(const bt_plan *plan, int64_t index)
{
    return cJSON_GetArrayItem(plan->cases, (int)index);
}

int64_t bt_plan_find(const bt_plan *plan, const char *name)
{
    int64_t index = 0;
    for (const cJSON *item = plan->cases->child; item; item = item->next, ++index) {
        if (strcmp(bt_json_text_of(item, "name"), name) == 0) {
            return index;
        }
    }
    return -1;
}

bool bt_plan_times_calls(const cJSON *item)
{
    return bt_json_get(item, "kernel") || bt_json_get(item, "command");
}

bt_status bt_plan_check_commands(const bt_plan *plan, bool trusted)
{
    for (const cJSON *item = plan->cases->child; item && !trusted; item = item->next) {
        const cJSON *run = bt_json_get(bt_json_get(item, "command"), "run");
        BT_SCOPED(bt_str) text = {0};
        if (run) {
            bt_json_write(run, &text);
            return bt_error(BT_STATUS_INVALID_ARGUMENT,
                            "case %s runs the command %.300s, which needs permission; nothing was "
                            "started\nread the suite, then add --trust to allow its commands",
                            bt_json_get(item, "name")->valuestring, bt_str_text(&text));
        }
    }
    return BT_OK;
}
