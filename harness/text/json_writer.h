// harness/text/json_writer.h - writes JSON, value by value
//
// Commas are set by the writer. In an object each value is given with its key, in an array with
// NULL. Numbers that JSON has no word for (NaN, infinity) become null. Failures stick in `out`.
#ifndef BT_HARNESS_TEXT_JSON_WRITER_H
#define BT_HARNESS_TEXT_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/str.h"

typedef struct bt_json_writer {
    bt_str *out; // borrowed
    int indent;  // spaces per level; 0: all on one line
    int depth;
    bool filled; // the innermost object or array has a value
} bt_json_writer;

void bt_json_writer_open(bt_json_writer *json, const char *key, char bracket); // '{' or '['
void bt_json_writer_close(bt_json_writer *json, char bracket);                 // '}' or ']'
// Closes the outermost object or array and ends the line. The status of `out`.
BT_CHECKED bt_status bt_json_writer_end(bt_json_writer *json, char bracket);
// Bytes that are not UTF-8 become U+FFFD. '<' is written as an escape, so that JSON may stand in a
// page.
void bt_json_writer_text(bt_json_writer *json, const char *key, const char *value);
void bt_json_writer_integer(bt_json_writer *json, const char *key, int64_t value);
// An integer where it is one, otherwise the shortest of 6, 9 or 17 digits that reads back the same.
void bt_json_writer_real(bt_json_writer *json, const char *key, double value);
// With so many significant digits, for what is only drawn.
void bt_json_writer_rounded(bt_json_writer *json, const char *key, double value, int digits);
void bt_json_writer_bool(bt_json_writer *json, const char *key, bool value);
void bt_json_writer_null(bt_json_writer *json, const char *key);

#endif
