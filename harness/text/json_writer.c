// harness/text/json_writer.c - writes JSON
#include "harness/text/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/suite/utf8.h"

static void line(bt_json_writer *json)
{
    if (json->indent > 0 && json->depth > 0) {
        bt_str_format(json->out, "\n%*s", json->indent * json->depth, "");
    }
}

static void quote(bt_json_writer *json, const char *text)
{
    bt_str *out = json->out;
    bt_str_append(out, "\"");
    while (*text) {
        size_t length = bt_utf8_length(text);
        unsigned char first = (unsigned char)*text;
        if (length == 0) {
            bt_str_append(out, "\xef\xbf\xbd");
            length = 1;
        } else if (first == '"' || first == '\\') {
            bt_str_format(out, "\\%c", first);
        } else if (first == '\n') {
            bt_str_append(out, "\\n");
        } else if (first < 0x20 || first == '<' || first == 0x7f) {
            bt_str_format(out, "\\u%04x", first);
        } else {
            bt_str_append_bytes(out, text, length);
        }
        text += length;
    }
    bt_str_append(out, "\"");
}

static void begin(bt_json_writer *json, const char *key)
{
    if (json->filled) {
        bt_str_append(json->out, ",");
    }
    line(json);
    json->filled = true;
    if (key) {
        quote(json, key);
        bt_str_append(json->out, json->indent > 0 ? ": " : ":");
    }
}

void bt_json_writer_open(bt_json_writer *json, const char *key, char bracket)
{
    begin(json, key);
    bt_str_append_bytes(json->out, &bracket, 1);
    json->depth++;
    json->filled = false;
}

void bt_json_writer_close(bt_json_writer *json, char bracket)
{
    json->depth--;
    if (json->filled && json->indent > 0) {
        bt_str_format(json->out, "\n%*s", json->indent * json->depth, "");
    }
    bt_str_append_bytes(json->out, &bracket, 1);
    json->filled = true;
}

bt_status bt_json_writer_end(bt_json_writer *json, char bracket)
{
    bt_json_writer_close(json, bracket);
    bt_str_append(json->out, "\n");
    return bt_str_status(json->out);
}

void bt_json_writer_text(bt_json_writer *json, const char *key, const char *value)
{
    begin(json, key);
    quote(json, value ? value : "");
}

void bt_json_writer_integer(bt_json_writer *json, const char *key, int64_t value)
{
    begin(json, key);
    bt_str_format(json->out, "%lld", (long long)value);
}

void bt_json_writer_rounded(bt_json_writer *json, const char *key, double value, int digits)
{
    begin(json, key);
    if (isfinite(value)) {
        bt_str_format(json->out, "%.*g", digits, value);
    } else {
        bt_str_append(json->out, "null");
    }
}

void bt_json_writer_real(bt_json_writer *json, const char *key, double value)
{
    static const int tries[] = {6, 9, 17};
    char text[40] = "";
    if (fabs(value) < 9007199254740992.0 && floor(value) == value) {
        bt_json_writer_integer(json, key, (int64_t)value); // without an exponent
        return;
    }
    for (int i = 0; i < 3 && isfinite(value); i++) {
        (void)snprintf(text, sizeof text, "%.*g", tries[i], value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    begin(json, key);
    bt_str_append(json->out, text[0] ? text : "null");
}

void bt_json_writer_bool(bt_json_writer *json, const char *key, bool value)
{
    begin(json, key);
    bt_str_append(json->out, value ? "true" : "false");
}

void bt_json_writer_text_or_null(bt_json_writer *json, const char *key, const char *value)
{
    value ? bt_json_writer_text(json, key, value) : bt_json_writer_null(json, key);
}

void bt_json_writer_raw(bt_json_writer *json, const char *key, const char *value)
{
    begin(json, key);
    bt_str_append(json->out, value);
}

void bt_json_writer_null(bt_json_writer *json, const char *key)
{
    begin(json, key);
    bt_str_append(json->out, "null");
}

void bt_json_writer_members(bt_json_writer *json, const bt_json_member *members)
{
    for (const bt_json_member *at = members; at->type != BT_JSON_END; at++) {
        switch (at->type) {
        case BT_JSON_TEXT:
            bt_json_writer_text(json, at->key, at->as.text);
            break;
        case BT_JSON_INTEGER:
            bt_json_writer_integer(json, at->key, at->as.integer);
            break;
        case BT_JSON_REAL:
            bt_json_writer_real(json, at->key, at->as.real);
            break;
        case BT_JSON_BOOL:
            bt_json_writer_bool(json, at->key, at->as.flag);
            break;
        case BT_JSON_END:
            break;
        }
    }
}

void bt_json_writer_object(bt_json_writer *json, const char *key, const bt_json_member *members)
{
    bt_json_writer_open(json, key, '{');
    bt_json_writer_members(json, members);
    bt_json_writer_close(json, '}');
}
