// framework/linalg/plan_cache.h - measured choices, kept in a file from run to run
//
// The file is JSON: {"format", "build", "device", "plans": {KEY: {"kernel", "plan", "time_ns"}}}.
// It is a cache: one that is damaged, or of another build or device, is ignored with a warning and
// written anew at the next choice. It is replaced whole (bt_file_write), so that a reader never
// sees a part of it; what another process has added meanwhile is taken along.
#ifndef BT_LINALG_PLAN_CACHE_H
#define BT_LINALG_PLAN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"

typedef struct bt_plan_cache bt_plan_cache;

// Borrowed, until the next bt_plan_cache_add.
typedef struct bt_planned {
    const char *kernel, *plan; // names; plan is "" where the kernel has one way
    int64_t time_ns;           // of a call, when it was chosen
} bt_planned;

// Reads the file, if it is there; NULL: nothing is kept beyond the process.
// Owns    the caller, bt_plan_cache_close
// Errors  OUT_OF_MEMORY; whatever is wrong with the file is a warning
BT_CHECKED bt_status bt_plan_cache_open(const char *path, const char *build, const char *device,
                                        bt_plan_cache **out);
void bt_plan_cache_close(bt_plan_cache *cache);
// False when the key has no choice yet.
bool bt_plan_cache_find(const bt_plan_cache *cache, const char *key, bt_planned *out);
// Remembers a choice and writes the file. A file that cannot be written is a warning.
// Errors  OUT_OF_MEMORY
BT_CHECKED bt_status bt_plan_cache_add(bt_plan_cache *cache, const char *key,
                                       const bt_planned *choice);
// What went wrong last with the file, in words; "" when nothing did.
const char *bt_plan_cache_warning(const bt_plan_cache *cache);

#endif
