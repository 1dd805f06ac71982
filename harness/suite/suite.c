// harness/suite/suite.c - finds, reads and checks a suite file
#include "harness/suite/suite.h"

#include <string.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/schema.h"

// ---- finding -----------------------------------------------------------------------------------

// Whether a file is a suite: the folders of claims, policies and schemas have JSON files too.
static bool is_suite(const char *path)
{
    BT_SCOPED(bt_json_doc) json = {0};
    return bt_json_load(path, &json) == BT_OK &&
           (bt_json_get(json.root, "profiles") || bt_json_get(json.root, "include"));
}

// The suites of a folder without suite.json: "kernels/gelu".
static void add_names_of_folder(const char *folder, const char *name, bt_str *out)
{
    BT_SCOPED(bt_str) path = {0}, files = {0};
    bt_word file;
    bt_str_format(&path, "%s/%s", folder, name);
    bt_home_list(bt_str_text(&path), ".json", &files);
    for (const char *rest = bt_str_text(&files); bt_words_next(&rest, &file);) {
        bt_str_clear(&path);
        bt_str_format(&path, "%s/%s/%.*s.json", folder, name, (int)file.length, file.text);
        if (is_suite(bt_str_text(&path))) {
            bt_str_clear(&path);
            bt_str_format(&path, "%s/%.*s", name, (int)file.length, file.text);
            bt_words_add(out, bt_str_text(&path), path.length_bytes);
        }
    }
}

static void suite_names_in(const char *root, bt_str *out)
{
    BT_SCOPED(bt_str) folder = {0}, names = {0}, name = {0}, file = {0};
    bt_word word;
    bt_str_format(&folder, "%s/suites", root);
    bt_home_list(bt_str_text(&folder), "", &names);
    for (const char *rest = bt_str_text(&names); bt_words_next(&rest, &word);) {
        bt_str_clear(&name);
        bt_str_append_bytes(&name, word.text, word.length);
        bt_str_clear(&file);
        bt_str_format(&file, "%s/%s/suite.json", bt_str_text(&folder), bt_str_text(&name));
        if (bt_file_exists(bt_str_text(&file))) {
            bt_words_add(out, word.text, word.length);
        } else {
            add_names_of_folder(bt_str_text(&folder), bt_str_text(&name), out);
        }
    }
}

void bt_suite_names(bt_str *out)
{
    suite_names_in(".", out);
    if (!out->length_bytes) {
        BT_SCOPED(bt_str) home = {0};
        bt_home_path(&home);
        suite_names_in(bt_str_text(&home), out);
    }
}

// Sets *path to <prefix><given>, the suite.json in it, or <prefix><given>.json, if it exists.
static bool found_at(const char *prefix, const char *given, bt_str *path)
{
    size_t length = strlen(given);
    while (length > 1 && given[length - 1] == '/') {
        --length;
    }
    bt_str_clear(path);
    bt_str_format(path, "%s%.*s", prefix, (int)length, given);
    if (bt_home_is_folder(bt_str_text(path))) {
        bt_str_append(path, "/suite.json");
    }
    if (!bt_file_exists(bt_str_text(path)) && !strstr(given, ".json")) {
        bt_str_clear(path);
        bt_str_format(path, "%s%.*s.json", prefix, (int)length, given);
    }
    return bt_file_exists(bt_str_text(path));
}

// The suite of a folder of suites that has this name, as kernels/softmax has "softmax".
static void find_in_folders(const char *base, const char *names, bt_str *out)
{
    bt_word word;
    for (const char *rest = names; !out->length_bytes && bt_words_next(&rest, &word);) {
        const char *slash = memchr(word.text, '/', word.length);
        const char *leaf = slash ? slash + 1 : word.text;
        if (slash && strlen(base) == (size_t)(word.text + word.length - leaf) &&
            strncmp(leaf, base, strlen(base)) == 0) {
            bt_str_append_bytes(out, word.text, word.length);
        }
    }
}

// The name below suites/ that is nearest to `base`, also where only its last part is given.
static void find_nearest(const char *base, const char *names, bt_str *out)
{
    BT_SCOPED(bt_str) leaves = {0}, leaf = {0};
    bt_word word;
    for (const char *rest = names; bt_words_next(&rest, &word);) {
        const char *slash = memchr(word.text, '/', word.length);
        const char *from = slash ? slash + 1 : word.text;
        bt_words_add(&leaves, from, (size_t)(word.text + word.length - from));
    }
    bt_words_nearest(base, bt_str_text(&leaves), &leaf);
    find_in_folders(bt_str_text(&leaf), names, out);
    if (!out->length_bytes) {
        bt_str_append(out, bt_str_text(&leaf));
    }
}

// The names in the folder `given` of suites/, as "suites/kernels/adamw, suites/kernels/all".
static void find_members(const char *given, const char *names, bt_str *out)
{
    const char *folder = strncmp(given, "suites/", 7) == 0 ? given + 7 : given;
    size_t length = strlen(folder);
    bt_word word;
    while (length > 0 && folder[length - 1] == '/') {
        --length;
    }
    for (const char *rest = names; bt_words_next(&rest, &word);) {
        if (word.length > length && strncmp(word.text, folder, length) == 0 &&
            word.text[length] == '/') {
            bt_str_format(out, "%ssuites/%.*s", out->length_bytes ? ", " : "", (int)word.length,
                          word.text);
        }
    }
}

static bt_status not_found(const char *given)
{
    BT_SCOPED(bt_str) names = {0}, members = {0}, nearest = {0}, path = {0}, hint = {0};
    bt_suite_names(&names);
    find_members(given, bt_str_text(&names), &members);
    BT_FAIL_IF(members.length_bytes > 0, BT_STATUS_INVALID_ARGUMENT,
               "%s: this is a folder of suites; name one of them\nallowed: %s", given,
               bt_str_text(&members));
    const char *slash = strrchr(given, '/'), *base = slash ? slash + 1 : given;
    const bool is_folder = bt_home_is_folder(given);
    find_in_folders(base, bt_str_text(&names), &nearest);
    if (!nearest.length_bytes && !is_folder) {
        find_nearest(base, bt_str_text(&names), &nearest);
    }
    bt_str_format(&path, "%s%s", nearest.length_bytes ? "suites/" : "", bt_str_text(&nearest));
    bt_words_suggest(bt_str_text(&path), &hint);
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %s%s\n'bt-bench list suites' lists the suites",
                    given,
                    is_folder ? "this folder has no suite.json" : "no such suite file or folder",
                    bt_str_text(&hint));
}

static bt_status find(const char *given, bt_str *path)
{
    BT_SCOPED(bt_str) home = {0}, suites = {0};
    bt_home_path(&home);
    bt_str_append(&home, "/");
    bt_str_format(&suites, "%ssuites/", bt_str_text(&home));
    bool name = *given && *given != '/' && *given != '.'; // may be one below suites/
    bool found =
        *given && (found_at("", given, path) || (name && found_at("suites/", given, path)));
    if (!found && *given && *given != '/') {
        found = found_at(bt_str_text(&home), given, path) ||
                (name && found_at(bt_str_text(&suites), given, path));
    }
    return found ? bt_str_status(path) : not_found(given);
}

// ---- checking ----------------------------------------------------------------------------------

// ceiling, ceiling.hot ...: cases that a plan adds (plan/kernel.h).
static bool is_ceiling(const char *name)
{
    const size_t length = strlen("ceiling");
    return strncmp(name, "ceiling", length) == 0 && (!name[length] || name[length] == '.');
}

static bool is_kernel(const cJSON *item)
{
    return strcmp(bt_json_get(item, "kind")->valuestring, "kernel") == 0;
}

// Two cases of one profile must not have the same name, nor that of a ceiling. Kernel cases may
// share a name, each with its own axes and systems: the plan refuses two expanded cases with one
// name.
static bt_status check_case_names(const bt_json_doc *json)
{
    const cJSON *profile = NULL;
    cJSON_ArrayForEach(profile, bt_json_get(json->root, "profiles")) {
        const cJSON *cases = bt_json_get(profile, "cases");
        for (const cJSON *a = cases->child; a; a = a->next) {
            const cJSON *name = bt_json_get(a, "name");
            BT_JSON_FAIL_IF(
                is_ceiling(name->valuestring), json, name, BT_JSON_VALUE,
                "\"%s\" is a reserved name (the machine's ceilings); choose another name",
                name->valuestring);
            for (const cJSON *b = cases->child; b != a; b = b->next) {
                BT_JSON_FAIL_IF(strcmp(bt_json_get(b, "name")->valuestring, name->valuestring) ==
                                        0 &&
                                    !(is_kernel(a) && is_kernel(b)),
                                json, name, BT_JSON_VALUE, "profile %s has two cases named \"%s\"",
                                profile->string, name->valuestring);
            }
        }
    }
    return BT_OK;
}

// A suite has profiles, or includes suites that have profiles.
static bt_status check_parts(const bt_json_doc *json)
{
    const cJSON *include = bt_json_get(json->root, "include");
    const cJSON *profiles = bt_json_get(json->root, "profiles");
    BT_JSON_FAIL_IF(!include && !profiles, json, json->root, BT_JSON_VALUE,
                    "a suite needs the key \"profiles\" or the key \"include\"");
    return include && profiles ? bt_json_error(json, include, BT_JSON_KEY,
                                               "a suite has either \"include\" or \"profiles\"")
                               : BT_OK;
}

bt_status bt_suite_parse(const char *path, const char *text, size_t size_bytes, bt_suite *out)
{
    memset(out, 0, sizeof *out);
    BT_TRY(bt_json_parse(path, text, size_bytes, &out->json));
    bt_status status = cJSON_IsObject(out->json.root)
                           ? bt_suite_check(&out->json, BT_SUITE_SUITE, out->json.root)
                           : bt_json_error(&out->json, out->json.root, BT_JSON_VALUE,
                                           "a suite must be an object {...}, not %s",
                                           bt_json_type_name(out->json.root));
    BT_IF_OK(status, check_parts(&out->json));
    BT_IF_OK(status, check_case_names(&out->json));
    if (status != BT_OK) {
        bt_suite_release(out);
        return status;
    }
    out->name = bt_json_get(out->json.root, "name")->valuestring;
    return BT_OK;
}

bt_status bt_suite_load(const char *given, bt_suite *out)
{
    memset(out, 0, sizeof *out);
    BT_SCOPED(bt_str) path = {0};
    BT_SCOPED_MEM(void *) bytes = NULL;
    size_t size_bytes = 0;
    uint64_t file_bytes = 0;
    bt_status status = find(given, &path);
    BT_IF_OK(status, bt_file_size(bt_str_text(&path), &file_bytes));
    if (status == BT_OK && file_bytes > BT_JSON_SIZE_BYTES_MAX) {
        status =
            bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %llu bytes, more than the %d allowed",
                     bt_str_text(&path), (unsigned long long)file_bytes, BT_JSON_SIZE_BYTES_MAX);
    }
    BT_IF_OK(status, bt_file_read(bt_str_text(&path), &bytes, &size_bytes));
    BT_IF_OK(status, bt_suite_parse(bt_str_text(&path), bytes, size_bytes, out));
    if (status == BT_OK) {
        status = bt_suite_include(out, bt_suite_load);
        if (status != BT_OK) {
            bt_suite_release(out);
        }
    }
    return status;
}

void bt_suite_release(bt_suite *suite)
{
    bt_json_doc_release(&suite->json);
    memset(suite, 0, sizeof *suite);
}
