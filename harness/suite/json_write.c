// harness/suite/json_write.c - canonical and indented JSON text of a cJSON tree
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/mem.h"
#include "harness/suite/json.h"

void bt_json_number(double value, bt_str *out)
{
    if (!isfinite(value)) {
        bt_str_append(out, "null");
        return;
    }
    if (fabs(value) < 9007199254740992.0 && !(value < floor(value)) && !(value > floor(value))) {
        bt_str_format(out, "%lld", (long long)value);
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; ++digits) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        // The bits, not the values. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*)
        if (memcmp(&back, &value, sizeof back) == 0) {
            break;
        }
    }
    bt_str_append(out, text);
}

void bt_json_string(const char *text, bt_str *out)
{
    bt_str_append(out, "\"");
    for (const char *at = text; *at; ++at) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            bt_str_format(out, "\\%c", byte);
        } else if (byte == '\n') {
            bt_str_append(out, "\\n");
        } else if (byte == '\t') {
            bt_str_append(out, "\\t");
        } else if (byte < 0x20) {
            bt_str_format(out, "\\u%04x", byte);
        } else {
            bt_str_append_bytes(out, at, 1);
        }
    }
    bt_str_append(out, "\"");
}

static int by_key(const void *left, const void *right)
{
    const cJSON *const *a = left;
    const cJSON *const *b = right;
    return strcmp((*a)->string, (*b)->string);
}

static void write_scalar(const cJSON *node, bt_str *out)
{
    if (cJSON_IsNumber(node)) {
        bt_json_number(node->valuedouble, out);
    } else if (cJSON_IsString(node)) {
        bt_json_string(node->valuestring, out);
    } else {
        bt_str_append(out, cJSON_IsTrue(node) ? "true" : cJSON_IsFalse(node) ? "false" : "null");
    }
}

static void write_object(const cJSON *object, bt_str *out)
{
    size_t count = (size_t)cJSON_GetArraySize(object);
    void *block = NULL;
    if (bt_mem_alloc(count, sizeof(cJSON *), &block) != BT_OK) {
        out->status = out->status == BT_OK ? BT_STATUS_OUT_OF_MEMORY : out->status;
        return;
    }
    const cJSON **members = block;
    size_t i = 0;
    for (const cJSON *child = object->child; child; child = child->next) {
        members[i++] = child;
    }
    qsort((void *)members, count, sizeof(cJSON *), by_key);
    bt_str_append(out, "{");
    for (i = 0; i < count; ++i) {
        bt_str_append(out, i ? "," : "");
        bt_json_string(members[i]->string, out);
        bt_str_append(out, ":");
        bt_json_write(members[i], out);
    }
    bt_str_append(out, "}");
    bt_mem_free(block);
}

void bt_json_write(const cJSON *node, bt_str *out)
{
    if (cJSON_IsObject(node)) {
        write_object(node, out);
    } else if (cJSON_IsArray(node)) {
        bt_str_append(out, "[");
        for (const cJSON *child = node->child; child; child = child->next) {
            bt_json_write(child, out);
            bt_str_append(out, child->next ? "," : "");
        }
        bt_str_append(out, "]");
    } else {
        write_scalar(node, out);
    }
}

static void write_indented(const cJSON *node, int depth, bt_str *out)
{
    bool nests = cJSON_IsObject(node) || cJSON_IsArray(node);
    if (!nests || !node->child) {
        bt_json_write(node, out);
        return;
    }
    bt_str_append(out, cJSON_IsObject(node) ? "{\n" : "[\n");
    for (const cJSON *child = node->child; child; child = child->next) {
        bt_str_format(out, "%*s", 2 * (depth + 1), "");
        if (cJSON_IsObject(node)) {
            bt_json_string(child->string, out);
            bt_str_append(out, ": ");
        }
        write_indented(child, depth + 1, out);
        bt_str_append(out, child->next ? ",\n" : "\n");
    }
    bt_str_format(out, "%*s%s", 2 * depth, "", cJSON_IsObject(node) ? "}" : "]");
}

void bt_json_write_pretty(const cJSON *node, bt_str *out)
{
    write_indented(node, 0, out);
    bt_str_append(out, "\n");
}
