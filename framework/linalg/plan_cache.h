// framework/linalg/plan_cache.h - measured choices, stored in a file between runs
//
// The file is JSON: {"format", "build", "device", "plans": {KEY: {"kernel", "plan", "time_ns"}}}.
// It is a cache: a damaged file, or one of another build or device, is ignored with a warning and
// overwritten at the next choice. It is replaced atomically (bt_file_write); choices that another
// process has added are merged.
#ifndef BT_LINALG_PLAN_CACHE_H
#define BT_LINALG_PLAN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_plan_cache bt_plan_cache;

// Borrowed, until the next bt_plan_cache_add.
typedef struct bt_planned {
    const char *kernel, *plan; // names; plan is "" if the kernel has one plan
    int64_t time_ns;           // of a call, when it was chosen
} bt_planned;

// Reads the file, if it exists; path NULL: choices are not stored.
// Owns    the caller, bt_plan_cache_close
// Errors  OUT_OF_MEMORY; an unusable file is a warning
BT_CHECKED bt_status bt_plan_cache_open(const char *path, const char *build, const char *device,
                                        bt_plan_cache **out);
void bt_plan_cache_close(bt_plan_cache *cache);
// False if the key has no choice yet.
bool bt_plan_cache_find(const bt_plan_cache *cache, const char *key, bt_planned *out);
// Adds a choice and writes the file. A file that cannot be written is a warning.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_cache_add(bt_plan_cache *cache, const char *key,
                                       const bt_planned *choice);
// The last warning about the file; "" if there was none.
const char *bt_plan_cache_warning(const bt_plan_cache *cache);

#endif
