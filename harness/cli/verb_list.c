// harness/cli/verb_list.c - suites, cases, runs, kernels, the schemas
#include <string.h>

#include "framework/base/mem.h"
#include "harness/cases/cases.h"
#include "harness/cli/cli.h"
#include "harness/env/build.h"
#include "harness/plan/plan.h"
#include "harness/suite/schema.h"

// The folder of suite `name`, as a user would type it.
static void append_suite(const char *name, size_t length, bool json, bt_str *out)
{
    bt_str path = {0};
    bt_str_format(&path, "suites/%.*s", (int)length, name);
    bt_suite suite;
    bt_status status = bt_suite_load(bt_str_text(&path), &suite);
    const cJSON *description = status == BT_OK ? bt_json_get(suite.json.root, "description") : NULL;
    const char *words = description       ? description->valuestring
                        : status == BT_OK ? ""
                                          : bt_error_message();
    if (json) {
        bt_str_append(out, "{\"suite\":");
        bt_json_string(bt_str_text(&path), out);
        bt_str_append(out, ",\"description\":");
        bt_json_string(words, out);
        bt_str_append(out, "}");
    } else {
        bt_str_format(out, "%-24s %s\n", bt_str_text(&path), words);
    }
    if (status == BT_OK) {
        bt_suite_release(&suite);
    }
    bt_str_release(&path);
}

static int list_suites(bool json)
{
    bt_str names = {0}, out = {0};
    bt_suite_names(&names);
    bt_str_append(&out, json ? "[" : "");
    for (const char *word = bt_str_text(&names); *word;) {
        size_t length = strcspn(word, "|");
        bt_str_append(&out, json && word != bt_str_text(&names) ? "," : "");
        append_suite(word, length, json, &out);
        word += length + (word[length] == '|');
    }
    bt_str_append(&out, json ? "]\n" : "");
    bt_str_release(&names);
    return bt_cli_print(&out);
}

static int list_cases(const char *given, bool json)
{
    bt_suite suite;
    bt_status status = bt_suite_load(given, &suite);
    if (status != BT_OK) {
        return bt_cli_fail(status);
    }
    bt_str out = {0};
    bt_str_append(&out, json ? "[" : "");
    const cJSON *profile = NULL;
    cJSON_ArrayForEach(profile, bt_json_get(suite.json.root, "profiles"))
    {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, bt_json_get(profile, "cases"))
        {
            bt_str_format(&out,
                          json ? "%s{\"profile\":\"%s\",\"device\":\"%s\",\"case\":\"%s\",\"kind\":"
                                 "\"%s\"}"
                               : "%s%-12s %-6s %-16s %s\n",
                          json && out.length_bytes > 1 ? "," : "", profile->string,
                          bt_json_get(profile, "device")->valuestring,
                          bt_json_get(item, "name")->valuestring,
                          bt_json_get(item, "kind")->valuestring);
        }
    }
    bt_str_append(&out, json ? "]\n" : "");
    bt_suite_release(&suite);
    return bt_cli_print(&out);
}

static int list_kernels(bool json)
{
    bt_str out = {0};
    bt_status status = bt_case_list_kernels(json, &out);
    if (status != BT_OK) {
        bt_str_release(&out);
        return bt_cli_fail(status);
    }
    return bt_cli_print(&out);
}

static int list_schema(const char *which)
{
    static const struct {
        const char *name;
        void (*write)(bt_str *out);
    } schemas[] = {{"suite", bt_suite_schema_write}, {"policy", bt_policy_schema_write}};
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; ++i) {
        if (strcmp(which, schemas[i].name) == 0) {
            bt_str out = {0};
            schemas[i].write(&out);
            return bt_cli_print(&out);
        }
    }
    return bt_cli_fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "bt-bench list schema: \"%s\" is none of suite, policy", which));
}

int bt_verb_list(const bt_cli_arguments *arguments)
{
    bool json = false;
    bt_status status = bt_cli_wants_json(arguments, &json);
    if (status != BT_OK) {
        return bt_cli_fail(status);
    }
    const char *what = arguments->word_count ? arguments->words[0] : "suites";
    if (strcmp(what, "cases") == 0) {
        const char *suite = arguments->word_count > 1 ? arguments->words[1] : "suites/gpt2_124m";
        return list_cases(suite, json);
    }
    if (strcmp(what, "schema") == 0) {
        return list_schema(arguments->word_count > 1 ? arguments->words[1] : "suite");
    }
    if (arguments->word_count > 1) {
        return bt_cli_fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                                    "bt-bench list %s: takes nothing "
                                    "more, not \"%s\"",
                                    what, arguments->words[1]));
    }
    if (strcmp(what, "suites") == 0) {
        return list_suites(json);
    }
    if (strcmp(what, "runs") == 0) {
        return bt_cli_list_runs(arguments, json);
    }
    if (strcmp(what, "kernels") == 0) {
        return list_kernels(json);
    }
    return bt_cli_fail(bt_error(BT_STATUS_INVALID_ARGUMENT,
                                "bt-bench list: \"%s\" is none of suites, cases, runs, kernels, "
                                "schema",
                                what));
}

int bt_verb_version(const bt_cli_arguments *arguments)
{
    (void)arguments;
    bt_str out = {0};
    bt_build_describe(&out);
    return bt_cli_print(&out);
}
