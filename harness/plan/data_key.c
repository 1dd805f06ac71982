// harness/plan/data_key.c - the name under which an environment has the data of a case
#include <stdio.h>
#include <string.h>

#include "harness/plan/plan.h"
#include "harness/suite/json.h"

static void append_names(const cJSON *shards, bt_str *out)
{
    for (const cJSON *node = shards ? shards->child : NULL; node; node = node->next) {
        const char *path = cJSON_IsString(node) ? node->valuestring : "";
        const char *slash = strrchr(path, '/');
        bt_str_format(out, "%s\n", slash ? slash + 1 : path);
    }
}

bt_status bt_plan_data_key(const cJSON *item, char key[BT_PLAN_DATA_KEY_BYTES])
{
    const cJSON *dataset = bt_json_get(item, "dataset");
    const cJSON *name = bt_json_get(dataset, "name");
    bt_str names = {0};
    char hash[33];
    key[0] = '\0';
    if (!dataset) {
        return BT_OK;
    }
    if (cJSON_IsString(name)) {
        (void)snprintf(key, BT_PLAN_DATA_KEY_BYTES, BT_PLAN_DATA_PREFIX "%s", name->valuestring);
        return BT_OK;
    }
    append_names(bt_json_get(dataset, "train"), &names);
    append_names(bt_json_get(dataset, "val"), &names);
    bt_status status = bt_str_status(&names);
    if (status == BT_OK) {
        bt_plan_hash(bt_str_text(&names), hash);
        (void)snprintf(key, BT_PLAN_DATA_KEY_BYTES, BT_PLAN_DATA_PREFIX "shards-%.8s", hash);
    }
    bt_str_release(&names);
    return status;
}

bt_status bt_plan_data_key_of(const char *axes_json, char key[BT_PLAN_DATA_KEY_BYTES])
{
    bt_json_doc json = {0};
    key[0] = '\0';
    if (!strstr(axes_json, "\"dataset\"")) {
        return BT_OK; // a kernel case: nothing to parse
    }
    BT_TRY(bt_json_parse("settings", axes_json, strlen(axes_json), &json));
    bt_status status = bt_plan_data_key(json.root, key);
    bt_json_release(&json);
    return status;
}
