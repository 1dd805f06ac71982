// harness/suite/json.h - strict JSON of users, with line and column for every value
//
// cJSON builds the tree; before that our scanner checks the grammar strictly, limits depth and
// size, and records the position of each value and key, in preorder. So the line and column of any
// node are known.
//
// Invariants
//   1. What the scanner accepts, cJSON parses to a tree of the same shape.
//   2. No object of the tree has two equal keys; every number is finite.
#ifndef BT_HARNESS_SUITE_JSON_H
#define BT_HARNESS_SUITE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "framework/base/str.h"

#define BT_JSON_DEPTH_MAX      32
#define BT_JSON_SIZE_BYTES_MAX (4 << 20)
#define BT_JSON_KEYS_MAX       512 // in one object

typedef struct bt_json_doc {
    cJSON *root;       // owned
    char *text;        // owned, zero-terminated copy of the source
    char *name;        // owned; name of the source in messages: a path, "--set ..."
    uint32_t *offsets; // owned, [2 * count]: byte offset of key (or value), of value
    int64_t count;     // nodes, in preorder
    int64_t capacity;  // of offsets, in nodes
} bt_json_doc;

// Owns    *out: the caller, bt_json_doc_release; also released on failure
// Errors  INVALID_ARGUMENT "name:line:column: what", OUT_OF_MEMORY
BT_CHECKED bt_status bt_json_parse(const char *name, const char *text, size_t size_bytes,
                                   bt_json_doc *out);
// The same of a text of at most limit_bytes instead of BT_JSON_SIZE_BYTES_MAX.
BT_CHECKED bt_status bt_json_parse_within(const char *name, const char *text, size_t size_bytes,
                                          size_t limit_bytes, bt_json_doc *out);
// The same of a file. Errors  also IO
BT_CHECKED bt_status bt_json_load(const char *path, bt_json_doc *out);
void bt_json_doc_release(bt_json_doc *json);

typedef enum bt_json_part { BT_JSON_KEY, BT_JSON_VALUE } bt_json_part;

// Sets "name:line:column: ..." for a node of this document (a node of another tree, or NULL, gets
// "name: ..."). Lines and columns count from 1, columns in characters. Returns INVALID_ARGUMENT.
bt_status bt_json_error(const bt_json_doc *json, const cJSON *node, bt_json_part part,
                        const char *format, ...) BT_PRINTF(4, 5);

// Returns bt_json_error(json, node, part, format, ...) where the condition holds.
#define BT_JSON_FAIL_IF(condition, ...)                                                            \
    do {                                                                                           \
        if (condition) {                                                                           \
            return bt_json_error(__VA_ARGS__);                                                     \
        }                                                                                          \
    } while (0)

// The member of an object, NULL if it has none.
cJSON *bt_json_get(const cJSON *object, const char *key);
// Sets a member of an object, or with key NULL appends to a list. `node` is owned by the tree, or
// deleted; NULL: it could not be made. Errors  OUT_OF_MEMORY "host memory for WHAT"
BT_CHECKED bt_status bt_json_put(cJSON *to, const char *key, cJSON *node, const char *what);
// Copies the members of `from` (NULL: none) into an object: objects are merged, others replaced.
BT_CHECKED bt_status bt_json_merge(cJSON *into, const cJSON *from, const char *what);
// A number member of an object, 0 if it has none.
double bt_json_number_of(const cJSON *object, const char *key);
// A text member of an object, NULL or "" if it has none. Borrowed.
const char *bt_json_text_or_null(const cJSON *object, const char *key);
const char *bt_json_text_of(const cJSON *object, const char *key);
// Whether a member is this text.
bool bt_json_is_text(const cJSON *object, const char *key, const char *text);
// "text", "number" ... for messages.
const char *bt_json_type_name(const cJSON *node);

// Canonical form: keys sorted by bytes, no blanks, integers as integers, other numbers with the
// fewest digits that read back as the same double. Equal trees give equal bytes.
void bt_json_write(const cJSON *node, bt_str *out);
// The same with two-space indentation and the keys in the tree's order, for display.
void bt_json_write_pretty(const cJSON *node, bt_str *out);
// The form of stored documents: indented, keys sorted, lists of numbers and texts on one line, a
// newline at the end.
void bt_json_write_document(const cJSON *root, bt_str *out);
// One number, null if it is not finite; one quoted string.
void bt_json_number(double value, bt_str *out);
void bt_json_string(const char *text, bt_str *out);

// Makes cJSON allocate through bt_mem. bt_json_parse calls it; call it before building a tree by
// hand.
void bt_json_init(void);

#endif
