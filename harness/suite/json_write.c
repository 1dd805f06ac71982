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

typedef struct form {
    bool sorted; // keys by bytes, not in the tree's order
    bool lines;  // one member per line, two spaces per level
    bool flat;   // lists of numbers and texts on one line anyway
} form;

static bool is_flat(const cJSON *node)
{
    bool flat = !cJSON_IsObject(node);
    for (const cJSON *child = node->child; child && flat; child = child->next) {
        flat = !cJSON_IsObject(child) && !cJSON_IsArray(child);
    }
    return flat;
}

static void write_node(const cJSON *node, form as, int depth, bt_str *out);

static void write_members(const cJSON *node, form as, int depth, bt_str *out)
{
    const bool object = cJSON_IsObject(node);
    const size_t count = (size_t)cJSON_GetArraySize(node);
    const cJSON **members = NULL;
    size_t filled = 0;
    as.lines = as.lines && node->child && !(as.flat && is_flat(node));
    if (bt_mem_array(count, sizeof(void *), &members) != BT_OK) {
        out->status = out->status == BT_OK ? BT_STATUS_OUT_OF_MEMORY : out->status;
        return;
    }
    for (const cJSON *child = node->child; child; child = child->next) {
        members[filled++] = child;
    }
    if (object && as.sorted) {
        qsort((void *)members, count, sizeof(cJSON *), by_key);
    }
    bt_str_append(out, object ? "{" : "[");
    for (size_t i = 0; i < count; ++i) {
        bt_str_append(out, i ? "," : "");
        if (as.lines) {
            bt_str_format(out, "\n%*s", 2 * (depth + 1), "");
        }
        if (object) {
            bt_json_string(members[i]->string, out);
            bt_str_append(out, as.lines ? ": " : ":");
        }
        write_node(members[i], as, depth + 1, out);
    }
    if (as.lines) {
        bt_str_format(out, "\n%*s", 2 * depth, "");
    }
    bt_str_append(out, object ? "}" : "]");
    bt_mem_free((void *)members);
}

static void write_node(const cJSON *node, form as, int depth, bt_str *out)
{
    if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
        write_members(node, as, depth, out);
    } else {
        write_scalar(node, out);
    }
}

void bt_json_write(const cJSON *node, bt_str *out)
{
    write_node(node, (form){.sorted = true}, 0, out);
}

void bt_json_write_pretty(const cJSON *node, bt_str *out)
{
    write_node(node, (form){.lines = true}, 0, out);
    bt_str_append(out, "\n");
}

void bt_json_write_document(const cJSON *root, bt_str *out)
{
    write_node(root, (form){.sorted = true, .lines = true, .flat = true}, 0, out);
    bt_str_append(out, "\n");
}
