// harness/suite/suite.c - finds, reads and checks a suite file
#include "harness/suite/suite.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/file.h"
#include "framework/base/scoped.h"
#include "harness/suite/schema.h"

// ---- finding -----------------------------------------------------------------------------------

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int by_text(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

#define NAMES_MAX 256

// Whether a file is a suite: the folders of claims, policies and schemas have JSON files too.
static bool is_suite(const char *path)
{
    BT_SCOPED_MEM(void *) bytes = NULL;
    BT_SCOPED(bt_json_doc) json = {0};
    size_t size_bytes = 0;
    return bt_file_read(path, &bytes, &size_bytes) == BT_OK &&
           bt_json_parse(path, bytes, size_bytes, &json) == BT_OK &&
           (bt_json_get(json.root, "profiles") || bt_json_get(json.root, "include"));
}

// The suites of a folder without suite.json: "kernels/gelu".
static size_t names_of_folder(const char *folder, const char *name, char **names, size_t count)
{
    BT_SCOPED(bt_str) path = {0}, text = {0};
    bt_str_format(&path, "%s/%s", folder, name);
    DIR *dir = opendir(bt_str_text(&path));
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && count < NAMES_MAX;
         entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0) {
            bt_str_clear(&text);
            bt_str_format(&text, "%s/%s/%s", folder, name, entry->d_name);
            const bool suite = is_suite(bt_str_text(&text));
            bt_str_clear(&text);
            bt_str_format(&text, "%s/%.*s", name, (int)length - 5, entry->d_name);
            count += suite && bt_mem_strdup(bt_str_text(&text), &names[count]) == BT_OK;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

static void suite_names_in(const char *root, bt_str *out)
{
    BT_SCOPED(bt_str) folder = {0}, file = {0};
    bt_str_format(&folder, "%s/suites", root);
    DIR *dir = opendir(bt_str_text(&folder));
    char *names[NAMES_MAX];
    size_t count = 0;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && count < NAMES_MAX;
         entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        bt_str_clear(&file);
        bt_str_format(&file, "%s/%s/suite.json", bt_str_text(&folder), entry->d_name);
        if (bt_file_exists(bt_str_text(&file))) {
            count += bt_mem_strdup(entry->d_name, &names[count]) == BT_OK;
        } else {
            count = names_of_folder(bt_str_text(&folder), entry->d_name, names, count);
        }
    }
    if (dir) {
        closedir(dir);
    }
    qsort(names, count, sizeof names[0], by_text);
    for (size_t i = 0; i < count; ++i) {
        bt_str_format(out, "%s%s", out->length_bytes ? "|" : "", names[i]);
        bt_mem_free(names[i]);
    }
}

void bt_suite_names(bt_str *out)
{
    suite_names_in(".", out);
    if (!out->length_bytes) {
        bt_str home = {0};
        bt_home_path(&home);
        suite_names_in(bt_str_text(&home), out);
        bt_str_release(&home);
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
    if (is_dir(bt_str_text(path))) {
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
    for (const char *word = names; *word && !out->length_bytes;) {
        size_t length = strcspn(word, "|");
        const char *slash = memchr(word, '/', length);
        const char *leaf = slash ? slash + 1 : word;
        if (slash && strlen(base) == (size_t)(word + length - leaf) &&
            strncmp(leaf, base, strlen(base)) == 0) {
            bt_str_append_bytes(out, word, length);
        }
        word += length + (word[length] == '|');
    }
}

// The name below suites/ that is nearest to `base`, also where only its last part is given.
static void find_nearest(const char *base, const char *names, bt_str *out)
{
    BT_SCOPED(bt_str) leaves = {0}, leaf = {0};
    for (const char *word = names; *word;) {
        size_t length = strcspn(word, "|");
        const char *slash = memchr(word, '/', length), *from = slash ? slash + 1 : word;
        bt_str_format(&leaves, "%s%.*s", leaves.length_bytes ? "|" : "",
                      (int)(word + length - from), from);
        word += length + (word[length] == '|');
    }
    bt_suite_nearest(base, bt_str_text(&leaves), &leaf);
    find_in_folders(bt_str_text(&leaf), names, out);
    if (!out->length_bytes) {
        bt_str_append(out, bt_str_text(&leaf));
    }
}

static bt_status not_found(const char *given)
{
    BT_SCOPED(bt_str) names = {0}, nearest = {0}, listed = {0};
    bt_suite_names(&names);
    const char *slash = strrchr(given, '/'), *base = slash ? slash + 1 : given;
    find_in_folders(base, bt_str_text(&names), &nearest);
    if (!nearest.length_bytes && !is_dir(given)) {
        find_nearest(base, bt_str_text(&names), &nearest);
    }
    for (const char *word = bt_str_text(&names); *word;) {
        size_t length = strcspn(word, "|");
        bt_str_format(&listed, "%ssuites/%.*s", listed.length_bytes ? ", " : "", (int)length, word);
        word += length + (word[length] == '|');
    }
    return bt_error(
        BT_STATUS_INVALID_ARGUMENT, "%s: %s%s%s%s\navailable: %s", given,
        is_dir(given) ? "this folder has no suite.json" : "no such suite file or folder",
        nearest.length_bytes ? "; did you mean suites/" : "", bt_str_text(&nearest),
        nearest.length_bytes ? "?" : "", listed.length_bytes ? bt_str_text(&listed) : "none");
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
            if (is_ceiling(name->valuestring)) {
                return bt_json_error(
                    json, name, BT_JSON_VALUE,
                    "\"%s\" is a reserved name (the machine's ceilings); choose another name",
                    name->valuestring);
            }
            for (const cJSON *b = cases->child; b != a; b = b->next) {
                if (strcmp(bt_json_get(b, "name")->valuestring, name->valuestring) == 0 &&
                    !(is_kernel(a) && is_kernel(b))) {
                    return bt_json_error(json, name, BT_JSON_VALUE,
                                         "profile %s has two cases named \"%s\"", profile->string,
                                         name->valuestring);
                }
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
    if (!include && !profiles) {
        return bt_json_error(json, json->root, BT_JSON_VALUE,
                             "a suite needs the key \"profiles\" or the key \"include\"");
    }
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
