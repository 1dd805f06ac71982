// harness/suite/include.c - suites that include others
//
// The profiles are appended after everything in the file itself, so that line numbers of the file's
// values stay correct; values of an included suite have the position "name: ".
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/suite/suite.h"

enum { DEPTH_MAX = 4 };

#define INCLUDED "the included suites" // in messages

static bt_status no_memory(void)
{
    return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for " INCLUDED);
}

// A self-contained copy of the case: with the values of its profile and suite.
static bt_status add_case(const cJSON *suite, const cJSON *profile, const cJSON *item, cJSON *cases)
{
    const cJSON *levels[] = {suite, profile, item};
    const char *kind = bt_json_get(item, "kind")->valuestring;
    cJSON *copy = cJSON_Duplicate(item, 1), *values = NULL;
    const cJSON *dataset = NULL;
    BT_TRY(bt_json_put(cases, NULL, copy, INCLUDED));
    values = cJSON_CreateObject();
    BT_TRY(bt_json_put(copy, kind, values, INCLUDED));
    for (int i = 0; i < 3; ++i) {
        const cJSON *own = bt_json_get(levels[i], "dataset");
        dataset = own ? own : dataset;
        BT_TRY(bt_json_merge(values, bt_json_get(levels[i], kind), INCLUDED));
    }
    if (dataset && strcmp(kind, "train") == 0) {
        return bt_json_put(copy, "dataset", cJSON_Duplicate(dataset, 1), INCLUDED);
    }
    return BT_OK;
}

static bt_status add_profiles(const cJSON *from, cJSON *into)
{
    const cJSON *profile = NULL;
    cJSON_ArrayForEach(profile, bt_json_get(from, "profiles")) {
        cJSON *own = bt_json_get(into, profile->string);
        if (!own) {
            own = cJSON_AddObjectToObject(into, profile->string);
            static const char *const copied[] = {"device", "automatic", "rounds", "systems"};
            for (int i = 0; own && i < 4; ++i) {
                const cJSON *value = bt_json_get(profile, copied[i]);
                BT_TRY(value ? bt_json_put(own, copied[i], cJSON_Duplicate(value, 1), INCLUDED)
                             : BT_OK);
            }
            if (!own || !cJSON_AddArrayToObject(own, "cases")) {
                return no_memory();
            }
        }
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, bt_json_get(profile, "cases")) {
            BT_TRY(add_case(from, profile, item, bt_json_get(own, "cases")));
        }
    }
    return BT_OK;
}

static bt_status include(bt_suite *suite, bt_suite_load_fn load, cJSON *profiles, const char *given)
{
    static _Thread_local int depth;
    BT_SCOPED(bt_str) path = {0};
    const char *slash = strrchr(suite->json.name, '/');
    if (slash && given[0] != '/') {
        bt_str_append_bytes(&path, suite->json.name, (size_t)(slash - suite->json.name) + 1);
    }
    bt_str_append(&path, given);
    bt_suite other = {0};
    bt_status status = bt_str_status(&path);
    if (status == BT_OK && depth >= DEPTH_MAX) {
        status = bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: suites include each other %d deep",
                          suite->json.name, DEPTH_MAX);
    }
    if (status == BT_OK) {
        ++depth;
        status = load(bt_str_text(&path), &other);
        --depth;
    }
    BT_IF_OK(status, add_profiles(other.json.root, profiles));
    bt_json_doc_release(&other.json);
    return status;
}

bt_status bt_suite_include(bt_suite *suite, bt_suite_load_fn load)
{
    const cJSON *list = bt_json_get(suite->json.root, "include");
    if (!list) {
        return BT_OK;
    }
    cJSON *profiles = cJSON_AddObjectToObject(suite->json.root, "profiles");
    if (!profiles) {
        return no_memory();
    }
    if (cJSON_IsString(list)) {
        return include(suite, load, profiles, list->valuestring);
    }
    for (const cJSON *node = list->child; node; node = node->next) {
        BT_TRY(include(suite, load, profiles, node->valuestring));
    }
    return BT_OK;
}
