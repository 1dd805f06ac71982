// framework/checkpoint/json.h - JSON of headers and manifests: writing texts, reading checked
// values
#ifndef BT_CHECKPOINT_JSON_H
#define BT_CHECKPOINT_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "framework/base/str.h"

// Appends a quoted, escaped text.
void bt_json_append(bt_str *json, const char *text);

// Parses untrusted bytes. Accepted: valid UTF-8, no control bytes other than white space, no
// escaped zero (cJSON's texts end at one), no duplicate keys, one object followed only by white
// space. base_bytes is added to the byte offsets in messages.
// Owns    *root: the caller (cJSON_Delete)
// Errors  CORRUPT_DATA, OUT_OF_MEMORY
BT_CHECKED bt_status bt_json_read(const char *path, const char *text, size_t size_bytes,
                                  uint64_t base_bytes, cJSON **root);
// False unless the item is an integer in [0, 2^53], or in [-2^53, 2^53] for the second function.
bool bt_json_u64(const cJSON *item, uint64_t *value);
bool bt_json_i64(const cJSON *item, int64_t *value);

#endif
