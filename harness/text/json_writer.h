// harness/text/json_writer.h - writes JSON, value by value
//
// The writer adds commas. In an object each value is given with its key, in an array with NULL. NaN
// and infinity become null. Failures are kept in `out`.
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
// A list: BT_JSON_LIST(json, "rows", i, count) { writes item i }. No break inside.
#define BT_JSON_LIST(json, key, i, count)                                                          \
    for (int64_t i = (bt_json_writer_open(json, key, '['), 0);                                     \
         (i) < (count) || (bt_json_writer_close(json, ']'), false); ++(i))
// Closes the outermost object or array and ends the line. Returns the status of `out`.
BT_CHECKED bt_status bt_json_writer_end(bt_json_writer *json, char bracket);
// Bytes that are not UTF-8 become U+FFFD. '<' is escaped, so that JSON can be embedded in a page.
void bt_json_writer_text(bt_json_writer *json, const char *key, const char *value);
void bt_json_writer_integer(bt_json_writer *json, const char *key, int64_t value);
// An integer if it is one, otherwise the shortest of 6, 9 or 17 digits that gives the same double.
void bt_json_writer_real(bt_json_writer *json, const char *key, double value);
// With that many significant digits, for values that are only drawn.
void bt_json_writer_rounded(bt_json_writer *json, const char *key, double value, int digits);
void bt_json_writer_bool(bt_json_writer *json, const char *key, bool value);
void bt_json_writer_null(bt_json_writer *json, const char *key);
// A value that is JSON already.
void bt_json_writer_raw(bt_json_writer *json, const char *key, const char *value);
// A text, null for NULL.
void bt_json_writer_text_or_null(bt_json_writer *json, const char *key, const char *value);

// ---- several values at once --------------------------------------------------------------------

// A value with its key, made by BT_KV from a text, an integer, a double or a bool, by BT_FLAG
// from a condition. Borrows.
typedef struct bt_json_member {
    enum { BT_JSON_END, BT_JSON_TEXT, BT_JSON_INTEGER, BT_JSON_REAL, BT_JSON_BOOL } type;
    const char *key;
    union {
        const char *text;
        int64_t integer;
        double real;
        bool flag;
    } as;
} bt_json_member;

static inline bt_json_member bt_json_of_text(const char *key, const char *value)
{
    return (bt_json_member){BT_JSON_TEXT, key, {.text = value}};
}

static inline bt_json_member bt_json_of_integer(const char *key, int64_t value)
{
    return (bt_json_member){BT_JSON_INTEGER, key, {.integer = value}};
}

static inline bt_json_member bt_json_of_real(const char *key, double value)
{
    return (bt_json_member){BT_JSON_REAL, key, {.real = value}};
}

static inline bt_json_member bt_json_of_bool(const char *key, bool value)
{
    return (bt_json_member){BT_JSON_BOOL, key, {.flag = value}};
}

#define BT_KV(key, value)                                                                          \
    _Generic((value),                                                                              \
        char *: bt_json_of_text,                                                                   \
        const char *: bt_json_of_text,                                                             \
        bool: bt_json_of_bool,                                                                     \
        double: bt_json_of_real,                                                                   \
        default: bt_json_of_integer)(key, value)
#define BT_FLAG(key, value) bt_json_of_bool(key, value)
// A member of a struct, under its own name.
#define BT_OF(object, member) BT_KV(#member, (object)->member)

// Writes members up to BT_JSON_END, into the open object or as a separate object.
void bt_json_writer_members(bt_json_writer *json, const bt_json_member *members);
void bt_json_writer_object(bt_json_writer *json, const char *key, const bt_json_member *members);

#define BT_JSON(json, ...)                                                                         \
    bt_json_writer_members(json, (const bt_json_member[]){__VA_ARGS__, {.type = BT_JSON_END}})
#define BT_JSON_OBJECT(json, key, ...)                                                             \
    bt_json_writer_object(json, key, (const bt_json_member[]){__VA_ARGS__, {.type = BT_JSON_END}})

#endif
