// harness/cli/verb_list.c - list: suites, cases, runs, kernels, schemas
#include "framework/base/find.h"
#include "framework/base/scoped.h"
#include "harness/cases/cases.h"
#include "harness/cli/cli.h"
#include "harness/env/build.h"
#include "harness/plan/plan.h"
#include "harness/suite/schema.h"
#include "harness/text/json_writer.h"
#include "harness/text/table.h"

// The folder of suite `name`, as a user would type it.
static void append_suite(const char *name, size_t length, bt_json_writer *json, bt_table *table)
{
    BT_SCOPED(bt_str) path = {0};
    bt_str_format(&path, "suites/%.*s", (int)length, name);
    BT_SCOPED(bt_suite) suite = {0};
    bt_status status = bt_suite_load(bt_str_text(&path), &suite);
    const cJSON *description = status == BT_OK ? bt_json_get(suite.json.root, "description") : NULL;
    const char *words = description       ? description->valuestring
                        : status == BT_OK ? ""
                                          : bt_error_message();
    if (json) {
        BT_JSON_OBJECT(json, NULL, BT_KV("suite", bt_str_text(&path)), BT_KV("description", words));
    } else {
        bt_table_cells(table, "%s|%s", bt_str_text(&path), words);
    }
}

static bt_status list_suites(bt_cli_call *call)
{
    BT_SCOPED(bt_str) names = {0};
    BT_SCOPED(bt_table) table = {0};
    bt_json_writer json = {.out = &call->out};
    bt_suite_names(&names);
    if (!names.length_bytes) {
        BT_SCOPED(bt_str) home = {0};
        bt_home_path(&home);
        return bt_error(BT_STATUS_UNAVAILABLE, "no suites in suites/ or %s/suites/",
                        bt_str_text(&home));
    }
    if (call->json) {
        bt_json_writer_open(&json, NULL, '[');
    }
    bt_table_heads(&table, "|<");
    bt_table_fit(&table, call->columns, "");
    bt_word word;
    for (const char *rest = bt_str_text(&names); bt_words_next(&rest, &word);) {
        append_suite(word.text, word.length, call->json ? &json : NULL, &table);
    }
    return call->json ? bt_json_writer_end(&json, ']') : bt_table_print(&table, 0, &call->out);
}

// The mesh of a training case, whose keys may be of the suite, of the profile or of the case; "" if
// it has one rank.
static bt_status mesh_of(const bt_suite *suite, const cJSON *profile, const cJSON *item,
                         bt_text *out)
{
    const cJSON *const levels[] = {suite->json.root, profile, item};
    cJSON *train = cJSON_CreateObject();
    bt_status status = train ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for a case");
    for (int i = 0; i < 3; ++i) {
        BT_IF_OK(status, bt_json_merge(train, bt_json_get(levels[i], "train"), "a case"));
    }
    const bt_plan_mesh mesh = bt_plan_mesh_of(train);
    *out = bt_plan_degrees_text(&mesh); // as ci/unbuilt.sh lists it
    cJSON_Delete(train);
    return status;
}

// Whether some case has several ranks: only then the table has a column of meshes.
static bt_status find_mesh(const bt_suite *suite, bool *out)
{
    const cJSON *profile = NULL, *item = NULL;
    *out = false;
    cJSON_ArrayForEach(profile, bt_json_get(suite->json.root, "profiles")) {
        cJSON_ArrayForEach(item, bt_json_get(profile, "cases")) {
            bt_text mesh;
            BT_TRY(mesh_of(suite, profile, item, &mesh));
            *out = *out || mesh.text[0] != '\0';
        }
    }
    return BT_OK;
}

static bt_status list_cases(bt_cli_call *call)
{
    const bt_cli_arguments *arguments = call->arguments;
    BT_SCOPED(bt_suite) suite = {0};
    bt_json_writer json = {.out = &call->out};
    BT_SCOPED(bt_table) table = {0};
    bool meshes = false;
    BT_FAIL_IF(arguments->word_count < 2, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench list cases: SUITE is missing\nusage: bt-bench list %s",
               arguments->verb->usage);
    BT_TRY(bt_suite_load(arguments->words[1], &suite));
    BT_TRY(find_mesh(&suite, &meshes));
    if (call->json) {
        bt_json_writer_open(&json, NULL, '[');
    }
    bt_table_heads(&table, meshes ? "profile|device|case|kind|mesh" : "profile|device|case|kind");
    const cJSON *profile = NULL;
    cJSON_ArrayForEach(profile, bt_json_get(suite.json.root, "profiles")) {
        const char *device = bt_json_text_of(profile, "device");
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, bt_json_get(profile, "cases")) {
            const char *name = bt_json_text_of(item, "name"), *kind = bt_json_text_of(item, "kind");
            bt_text mesh;
            BT_TRY(mesh_of(&suite, profile, item, &mesh));
            if (call->json) {
                BT_JSON_OBJECT(&json, NULL, BT_KV("profile", profile->string),
                               BT_KV("device", device), BT_KV("case", name), BT_KV("kind", kind),
                               BT_KV("mesh", mesh.text));
                continue;
            }
            bt_table_cells(&table, "%s|%s|%s|%s", profile->string, device, name, kind);
            if (meshes) {
                bt_table_cells(&table, "%s", mesh.text);
            }
        }
    }
    return call->json ? bt_json_writer_end(&json, ']') : bt_table_print(&table, 0, &call->out);
}

static bt_status list_kernels(bt_cli_call *call)
{
    return bt_case_list_kernels(call->json, call->columns, &call->out);
}

static bt_status list_schema(bt_cli_call *call)
{
    static const struct {
        const char *name;
        void (*write)(bt_str *out);
    } schemas[] = {{"suite", bt_suite_schema_write}, {"policy", bt_policy_schema_write}};
    const char *which = call->arguments->word_count > 1 ? call->arguments->words[1] : "suite";
    const int64_t at = BT_FIND(schemas, BT_COUNT(schemas), name, which);
    BT_FAIL_IF(at < 0, BT_STATUS_INVALID_ARGUMENT,
               "bt-bench list schema: unknown schema \"%s\"; expected suite or policy", which);
    schemas[at].write(&call->out);
    return BT_OK;
}

bt_status bt_verb_list(bt_cli_call *call)
{
    static const struct {
        const char *name;
        int64_t words_max;
        bt_status (*list)(bt_cli_call *call);
    } lists[] = {{"suites", 1, list_suites},
                 {"cases", 2, list_cases},
                 {"runs", 1, bt_cli_list_runs},
                 {"kernels", 1, list_kernels},
                 {"schema", 2, list_schema}};
    const bt_cli_arguments *arguments = call->arguments;
    const char *what = arguments->word_count ? arguments->words[0] : "suites";
    const bool more = arguments->word_count > 1;
    const int64_t at = BT_FIND(lists, BT_COUNT(lists), name, what);
    if (at >= 0 && arguments->word_count <= lists[at].words_max) {
        return lists[at].list(call);
    }
    const char *hint = strchr(what, '/') ? "\nthe cases of a suite: bt-bench list cases " : "";
    return more
               ? bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "bt-bench list %s: unexpected argument \"%s\"", what, arguments->words[1])
               : bt_error(BT_STATUS_INVALID_ARGUMENT,
                          "bt-bench list: unknown list \"%s\"; expected suites, cases, runs, "
                          "kernels or schema%s%s",
                          what, hint, *hint ? what : "");
}

bt_status bt_verb_version(bt_cli_call *call)
{
    bt_build_describe(&call->out);
    return BT_OK;
}
