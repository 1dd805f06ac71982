// harness/plan/data_key.c - the key of a case's data among the facts of an environment
#include <stdio.h>
#include <string.h>

#include "framework/base/scoped.h"
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
    BT_TRY(bt_record_digest_str(&names, hash));
    (void)snprintf(key, BT_PLAN_DATA_KEY_BYTES, BT_PLAN_DATA_PREFIX "shards-%.8s", hash);
    return BT_OK;
}

bt_status bt_plan_data_key_of(const char *axes_json, char key[BT_PLAN_DATA_KEY_BYTES])
{
    BT_SCOPED(bt_json_doc) json = {0};
    key[0] = '\0';
    if (!strstr(axes_json, "\"dataset\"")) {
        return BT_OK; // a kernel case: nothing to parse
    }
    BT_TRY(bt_json_parse("settings", axes_json, strlen(axes_json), &json));
    return bt_plan_data_key(json.root, key);
}

static bool is_data(const bt_store_fact *fact)
{
    return strncmp(fact->key, BT_PLAN_DATA_PREFIX, strlen(BT_PLAN_DATA_PREFIX)) == 0;
}

bool bt_plan_fact_concerns(const bt_store_fact *fact, const char *name, const char *data_key)
{
    return fact->level == BT_FACT_HARD &&
           (!is_data(fact) || strcmp(fact->key, data_key) == 0 ||
            strcmp(fact->key + strlen(BT_PLAN_DATA_PREFIX), name) == 0);
}

bt_status bt_plan_environment(const bt_store_env *env, const char *name, const char *axes_json,
                              char digest[33])
{
    char data_key[BT_PLAN_DATA_KEY_BYTES];
    bt_str text = {0};
    BT_TRY(bt_plan_data_key_of(axes_json, data_key));
    BT_EACH(const bt_store_fact, fact, env->facts, env->fact_count) {
        if (bt_plan_fact_concerns(fact, name, data_key)) {
            // Data are identified by their digest, under either key.
            bt_str_format(&text, "%s=%s\n", is_data(fact) ? "data" : fact->key, fact->value);
        }
    }
    return bt_record_digest_str(&text, digest);
}
