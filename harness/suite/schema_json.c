// harness/suite/schema_json.c - defaults and the shipped JSON Schema, both from the table of keys
#include <string.h>

#include "framework/base/scoped.h"
#include "harness/suite/schema.h"

static const char name_pattern[] = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$";

static const char *object_name(bt_suite_object object)
{
    static const char *const names[] = {
#define BT_SUITE_OBJECT_TEXT(name, text, called, meaning) text,
        BT_SUITE_OBJECT_LIST(BT_SUITE_OBJECT_TEXT)
#undef BT_SUITE_OBJECT_TEXT
    };
    return names[object];
}

static const char *object_meaning(bt_suite_object object)
{
    static const char *const meanings[] = {
#define BT_SUITE_OBJECT_MEANING(name, text, called, meaning) meaning,
        BT_SUITE_OBJECT_LIST(BT_SUITE_OBJECT_MEANING)
#undef BT_SUITE_OBJECT_MEANING
    };
    return meanings[object];
}

bt_status bt_suite_fill_defaults(bt_suite_object kind, cJSON *object)
{
    BT_EACH(const bt_suite_key, key, bt_suite_keys, bt_suite_key_count) {
        if (key->owner != kind) {
            continue;
        }
        cJSON *node = bt_json_get(object, key->key);
        if (!node && key->fallback) {
            node = cJSON_Parse(key->fallback);
            if (!node || !cJSON_AddItemToObject(object, key->key, node)) {
                cJSON_Delete(node);
                return bt_error(BT_STATUS_OUT_OF_MEMORY, "host memory for \"%s\"", key->key);
            }
        }
        bool group = key->type == BT_SUITE_GROUP || key->type == BT_SUITE_DATA;
        if (node && group && cJSON_IsObject(node)) {
            BT_TRY(bt_suite_fill_defaults(key->object, node));
        }
    }
    return BT_OK;
}

// ---- JSON Schema -------------------------------------------------------------------------------

static void write_reference(bt_suite_object object, bt_str *out)
{
    bt_str_format(out, "{ \"$ref\": \"#/$defs/%s\" }", object_name(object));
}

static void write_range(const bt_suite_key *key, const char *type, bt_str *out)
{
    bt_str_format(out, "\"type\": \"%s\", \"minimum\": ", type);
    bt_json_number(key->minimum, out);
    bt_str_append(out, ", \"maximum\": ");
    bt_json_number(key->maximum, out);
}

static void write_choices(const char *choices, bt_str *out)
{
    bt_str_append(out, "\"enum\": [\"");
    bt_words_join(choices, "\", \"", out);
    bt_str_append(out, "\"]");
}

static void write_type(const bt_suite_key *key, bt_str *out)
{
    switch (key->type) {
    case BT_SUITE_TEXT:
        bt_str_append(out, "\"type\": \"string\"");
        break;
    case BT_SUITE_NAME:
        bt_str_format(out, "\"type\": \"string\", \"pattern\": \"%s\"", name_pattern);
        break;
    case BT_SUITE_CHOICE:
        write_choices(key->choices, out);
        break;
    case BT_SUITE_CHOICES:
        bt_str_append(out, "\"anyOf\": [{ ");
        write_choices(key->choices, out);
        bt_str_append(out, " }, { \"type\": \"array\", \"minItems\": 1, \"items\": { ");
        write_choices(key->choices, out);
        bt_str_append(out, " } }]");
        break;
    case BT_SUITE_INTEGER:
        write_range(key, "integer", out);
        break;
    case BT_SUITE_NUMBER:
        write_range(key, "number", out);
        break;
    case BT_SUITE_BOOL:
        bt_str_append(out, "\"type\": \"boolean\"");
        break;
    case BT_SUITE_TEXTS:
        bt_str_append(out, "\"anyOf\": [{ \"type\": \"string\" }, { \"type\": \"array\", "
                           "\"items\": { \"type\": \"string\" } }]");
        break;
    case BT_SUITE_COUNTS:
        bt_str_append(out, "\"anyOf\": [{ ");
        write_range(key, "integer", out);
        bt_str_append(out, " }, { \"type\": \"array\", \"minItems\": 1, \"items\": { ");
        write_range(key, "integer", out);
        bt_str_append(out, " } }, { \"const\": \"auto\" }]");
        break;
    case BT_SUITE_GROUP:
        bt_str_format(out, "\"$ref\": \"#/$defs/%s\"", object_name(key->object));
        break;
    case BT_SUITE_GROUPS:
        bt_str_append(out, "\"type\": \"array\", \"minItems\": 1, \"items\": ");
        write_reference(key->object, out);
        break;
    case BT_SUITE_MAP:
        bt_str_format(out,
                      "\"type\": \"object\", \"minProperties\": 1, \"propertyNames\": { "
                      "\"pattern\": \"%s\" }, \"additionalProperties\": ",
                      name_pattern);
        write_reference(key->object, out);
        break;
    case BT_SUITE_DATA:
        bt_str_format(out, "\"anyOf\": [{ \"type\": \"string\", \"pattern\": \"%s\" }, ",
                      name_pattern);
        write_reference(key->object, out);
        bt_str_append(out, "]");
        break;
    }
}

static void write_key(const bt_suite_key *key, const char *indent, bt_str *out)
{
    bt_str_format(out, "%s    \"%s\": { ", indent, key->key);
    write_type(key, out);
    // An empty group as default says nothing that the group's own defaults do not say.
    if (key->fallback && strcmp(key->fallback, "{}") != 0) {
        bt_str_format(out, ", \"default\": %s", key->fallback);
    }
    bt_str_append(out, ", \"description\": ");
    bt_json_string(key->meaning, out);
    bt_str_append(out, " }");
}

// The body of one object's schema: type, properties, required.
static void write_object(bt_suite_object object, const char *indent, bt_str *out)
{
    bt_str_format(out, "%s  \"description\": ", indent);
    bt_json_string(object_meaning(object), out);
    bt_str_format(out, ",\n%s  \"type\": \"object\",\n%s  \"additionalProperties\": false,\n",
                  indent, indent);
    bt_str_format(out, "%s  \"properties\": {\n", indent);
    BT_SCOPED(bt_str) required = {0};
    bool first = true;
    for (int i = 0; i < bt_suite_key_count; ++i) {
        if (bt_suite_keys[i].owner != object) {
            continue;
        }
        bt_str_append(out, first ? "" : ",\n");
        write_key(&bt_suite_keys[i], indent, out);
        first = false;
        if (bt_suite_keys[i].required) {
            bt_str_format(&required, "%s\"%s\"", required.length_bytes ? ", " : "",
                          bt_suite_keys[i].key);
        }
    }
    bt_str_format(out, "\n%s  }", indent);
    if (required.length_bytes) {
        bt_str_format(out, ",\n%s  \"required\": [%s]", indent, bt_str_text(&required));
    }
}

static bool holds_object(const bt_suite_key *key)
{
    return key->type == BT_SUITE_GROUP || key->type == BT_SUITE_GROUPS ||
           key->type == BT_SUITE_MAP || key->type == BT_SUITE_DATA;
}

// Marks what `object` may hold, itself included.
static void mark_reachable(bt_suite_object object, bool reachable[BT_SUITE_OBJECT_COUNT])
{
    reachable[object] = true;
    BT_EACH(const bt_suite_key, key, bt_suite_keys, bt_suite_key_count) {
        if (key->owner == object && holds_object(key) && !reachable[key->object]) {
            mark_reachable(key->object, reachable);
        }
    }
}

static void write_schema(bt_suite_object root, const char *title, bt_str *out)
{
    bool reachable[BT_SUITE_OBJECT_COUNT] = {false};
    mark_reachable(root, reachable);
    bt_str_format(out,
                  "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                  "  \"title\": \"%s\",\n",
                  title);
    write_object(root, "", out);
    bt_str_append(out, ",\n  \"$defs\": {\n");
    bool first = true;
    for (int i = 0; i < BT_SUITE_OBJECT_COUNT; ++i) {
        if (!reachable[i] || i == (int)root) {
            continue;
        }
        bt_str_format(out, "%s    \"%s\": {\n", first ? "" : ",\n",
                      object_name((bt_suite_object)i));
        write_object((bt_suite_object)i, "    ", out);
        bt_str_append(out, "\n    }");
        first = false;
    }
    bt_str_append(out, "\n  }\n}\n");
}

void bt_suite_schema_write(bt_str *out) { write_schema(BT_SUITE_SUITE, "bt-bench suite", out); }

void bt_policy_schema_write(bt_str *out) { write_schema(BT_SUITE_POLICY, "bt-bench policy", out); }
