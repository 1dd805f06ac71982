// harness/plan/set.c - --set key=value, checked like the file
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/plan/plan.h"
#include "harness/plan/sweep.h"
#include "harness/suite/schema.h"

// `key` is not a key of the owner that --set can set, or NULL: the owner itself was given a value.
static bt_status unknown(const char *given, bt_suite_object owner, const char *key)
{
    BT_SCOPED(bt_str) words = {0}, allowed = {0}, hint = {0};
    bt_suite_key_words(owner, true, &words);
    bt_words_join(bt_str_text(&words), ", ", &allowed);
    BT_FAIL_IF(!key, BT_STATUS_INVALID_ARGUMENT, "--set %s: %s is a group; set one of its keys: %s",
               given, bt_suite_object_called(owner), bt_str_text(&allowed));
    BT_FAIL_IF(bt_suite_key_find(owner, key), BT_STATUS_INVALID_ARGUMENT,
               "--set %s: \"%s\" cannot be set with --set; write it in the suite\nallowed: %s",
               given, key, bt_str_text(&allowed));
    bt_words_hint(key, bt_str_text(&words), &hint);
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "--set %s: \"%s\" is not a key of %s%s\nallowed: %s", given, key,
                    bt_suite_object_called(owner), bt_str_text(&hint), bt_str_text(&allowed));
}

// A list of texts may be a single text: --set command.run=true is a text, not a boolean.
static bool is_text(const bt_suite_key *key, const char *value)
{
    return (key->type == BT_SUITE_TEXTS && *value != '[' && *value != '"') ||
           key->type == BT_SUITE_TEXT || key->type == BT_SUITE_NAME || key->type == BT_SUITE_CHOICE;
}

static bool is_bracketed(const char *value)
{
    return *value == '[' && value[strlen(value) - 1] == ']';
}

// Whether a list of the key may be given without quotes, as in kernel.dtype=[f32,bf16]. A command
// is excluded: a line for the shell may begin with '['.
static bool takes_words(const bt_suite_key *key)
{
    return key->type == BT_SUITE_CHOICES ||
           (key->type == BT_SUITE_TEXTS && key->owner != BT_SUITE_COMMAND);
}

// The words of "[f32,bf16]" as a list; NULL if memory is missing.
static cJSON *word_list(const char *value)
{
    cJSON *list = cJSON_CreateArray();
    for (const char *at = value + 1; list && *at; ++at) {
        const char *word = at;
        const size_t length = bt_plan_list_value(&word, &at);
        BT_SCOPED(bt_str) text = {0};
        bt_str_append_bytes(&text, word, length);
        cJSON *node = bt_str_status(&text) == BT_OK ? cJSON_CreateString(bt_str_text(&text)) : NULL;
        if (!node || !cJSON_AddItemToArray(list, node)) {
            cJSON_Delete(node);
            cJSON_Delete(list);
            return NULL;
        }
        if (!*at) {
            break;
        }
    }
    return list;
}

// The value as a node: JSON if it is JSON and the key is not a text, otherwise plain text, or a
// list of words.
static bt_status value_node(const bt_suite_key *key, const char *name, const char *value,
                            cJSON **node)
{
    bt_json_doc parsed = {0};
    *node = NULL;
    if (!is_text(key, value) && *value &&
        bt_json_parse(name, value, strlen(value), &parsed) == BT_OK) {
        *node = cJSON_Duplicate(parsed.root, 1);
        bt_json_doc_release(&parsed);
    } else if (is_bracketed(value) && takes_words(key)) {
        *node = word_list(value);
    } else {
        *node = cJSON_CreateString(value);
    }
    return *node ? BT_OK : bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for %s", name);
}

// A path has no list of values: a case for each would be named after a path.
static bool is_list_of_paths(const bt_suite_key *key, const char *value)
{
    return key->type == BT_SUITE_TEXT && strcmp(key->key, "output") != 0 && is_bracketed(value);
}

static bt_status put(const bt_suite_key *key, const char *given, const char *value, cJSON *object)
{
    BT_SCOPED(bt_str) name = {0};
    BT_FAIL_IF(
        is_list_of_paths(key, value), BT_STATUS_INVALID_ARGUMENT,
        "--set %s: \"%s\" takes one path, not a list; a list makes a case for each value only "
        "of keys that take a number, true or false, one of several words, or a dataset",
        given, key->key);
    bt_str_format(&name, "--set %s", given);
    cJSON *node = NULL;
    bt_status status = bt_str_status(&name);
    BT_IF_OK(status, value_node(key, bt_str_text(&name), value, &node));
    // A source without text: messages begin with "--set ...: " and have no line.
    bt_json_doc source = {.name = name.text};
    BT_IF_OK(status, bt_suite_check_value(&source, key, node));
    if (status == BT_OK) {
        cJSON_DeleteItemFromObjectCaseSensitive(object, key->key);
        if (!cJSON_AddItemToObject(object, key->key, node)) {
            status = bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for --set %s", given);
        } else {
            node = NULL;
        }
    }
    cJSON_Delete(node);
    return status;
}

// The object that a key of a path names, created if it is missing or was a name.
static bt_status descend(const bt_suite_key *key, const char *given, cJSON **object)
{
    cJSON *child = bt_json_get(*object, key->key);
    if (!cJSON_IsObject(child)) {
        cJSON_DeleteItemFromObjectCaseSensitive(*object, key->key);
        child = cJSON_AddObjectToObject(*object, key->key);
    }
    BT_FAIL_IF(!child, BT_STATUS_OUT_OF_MEMORY, "host memory for --set %s", given);
    *object = child;
    return BT_OK;
}

bt_status bt_plan_set(const char *given, cJSON *target)
{
    const char *equals = strchr(given, '=');
    BT_FAIL_IF(!equals || equals == given, BT_STATUS_INVALID_ARGUMENT,
               "--set %s: expected key=value, such as train.steps=3", given);
    bt_suite_object owner = BT_SUITE_CASE;
    cJSON *object = target;
    for (const char *at = given;;) {
        size_t length = strcspn(at, ".=");
        char word[65];
        if (length >= sizeof word) {
            length = sizeof word - 1;
        }
        memcpy(word, at, length);
        word[length] = '\0';
        const bt_suite_key *key = bt_suite_key_find(owner, word);
        if (!key || !key->settable) {
            return unknown(given, owner, word);
        }
        bool last = at + length == equals;
        bool group = key->type == BT_SUITE_GROUP || key->type == BT_SUITE_DATA;
        if (last && key->type != BT_SUITE_GROUP) {
            return put(key, given, equals + 1, object);
        }
        if (last) {
            return unknown(given, key->object, NULL);
        }
        BT_FAIL_IF(!group, BT_STATUS_INVALID_ARGUMENT, "--set %s: \"%s\" has no keys below it",
                   given, word);
        BT_TRY(descend(key, given, &object));
        owner = key->object;
        at += length + 1;
    }
}

bool bt_plan_set_concerns(const char *given, const char *kind)
{
    const size_t length = strcspn(given, ".=");
    const bool data = length == strlen("dataset") && strncmp(given, "dataset", length) == 0;
    return data ? strcmp(kind, "train") == 0
                : length == strlen(kind) && strncmp(given, kind, length) == 0;
}

// ---- keys that no case has ---------------------------------------------------------------------

// Adds the keys of an object that --set can set, and those of its groups: "seed", "model.width".
static void add_keys(bt_suite_object owner, const char *prefix, bt_str *words)
{
    BT_EACH(const bt_suite_key, key, bt_suite_keys, bt_suite_key_count) {
        BT_SCOPED(bt_str) path = {0};
        if (key->owner != owner || !key->settable) {
            continue;
        }
        bt_str_format(&path, "%s%s", prefix, key->key);
        if (key->type == BT_SUITE_GROUP) {
            bt_str_append(&path, ".");
            add_keys(key->object, bt_str_text(&path), words);
        } else {
            bt_words_add(words, bt_str_text(&path), path.length_bytes);
        }
    }
}

// For "train.seed=7" and a kind of cases that has a key near "seed", appends that: "kernel.seed".
static void find_key_of(const char *given, const char *kind, bt_str *out)
{
    BT_SCOPED(bt_str) words = {0}, below = {0}, nearest = {0};
    const char *dot = given + strcspn(given, ".=");
    bt_str_append_bytes(&below, *dot == '.' ? dot + 1 : dot, strcspn(dot, "=") - (*dot == '.'));
    add_keys(bt_suite_key_find(BT_SUITE_CASE, kind)->object, "", &words);
    bt_words_nearest(bt_str_text(&below), bt_str_text(&words), &nearest);
    if (nearest.length_bytes > 0) {
        bt_str_format(out, "%s.%s", kind, bt_str_text(&nearest));
    }
}

static bt_status no_case_has(const char *given, const cJSON *cases)
{
    BT_SCOPED(bt_str) kinds = {0}, listed = {0}, nearest = {0}, hint = {0};
    for (const cJSON *item = cases->child; item; item = item->next) {
        const char *kind = bt_json_text_of(item, "kind");
        if (!bt_words_have(bt_str_text(&kinds), kind)) {
            bt_words_add(&kinds, kind, strlen(kind));
            if (!nearest.length_bytes) {
                find_key_of(given, kind, &nearest);
            }
        }
    }
    bt_words_join(bt_str_text(&kinds), ", ", &listed);
    bt_words_suggest(bt_str_text(&nearest), &hint);
    return bt_error(BT_STATUS_INVALID_ARGUMENT,
                    "--set %s: no case of the plan has the key \"%.*s\"%s\nkinds of its cases: %s; "
                    "'bt-bench list schema' lists the keys of each",
                    given, (int)strcspn(given, "="), given, bt_str_text(&hint),
                    bt_str_text(&listed));
}

bt_status bt_plan_set_check(const char *const *sets, int64_t set_count, const cJSON *cases)
{
    for (int64_t i = 0; i < set_count; ++i) {
        bool found = false;
        for (const cJSON *item = cases->child; item && !found; item = item->next) {
            found = bt_plan_set_concerns(sets[i], bt_json_text_of(item, "kind"));
        }
        BT_TRY(found ? BT_OK : no_case_has(sets[i], cases));
    }
    return BT_OK;
}

// ---- lists -------------------------------------------------------------------------------------

size_t bt_plan_list_value(const char **value, const char **end)
{
    size_t length = strcspn(*value, ",]");
    *end = *value + length;
    while (length && (**value == ' ' || **value == '"')) {
        ++*value;
        --length;
    }
    while (length && ((*value)[length - 1] == ' ' || (*value)[length - 1] == '"')) {
        --length;
    }
    return length;
}

const bt_suite_key *bt_plan_set_key(const char *given)
{
    const bt_suite_key *key = NULL;
    bt_suite_object owner = BT_SUITE_CASE;
    for (const char *at = given; *at && *at != '=';) {
        const size_t length = strcspn(at, ".=");
        char word[65];
        if ((key && !key->object) || length >= sizeof word) {
            return NULL;
        }
        memcpy(word, at, length);
        word[length] = '\0';
        key = bt_suite_key_find(owner, word);
        if (!key) {
            return NULL;
        }
        owner = key->object;
        at += length + (at[length] == '.');
    }
    return key;
}
