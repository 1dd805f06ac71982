// framework/compiler/run.h - a fused group as something that runs
//
// bt_compile emits, lowers (or finds in the cache) and loads a group; bt_compiled_run is then one
// call, like a kernel's: it neither allocates nor synchronises, and its bits do not depend on the
// number of threads.
#ifndef BT_COMPILER_RUN_H
#define BT_COMPILER_RUN_H

#include "framework/compiler/emit.h"
#include "framework/compiler/lower.h"

typedef struct bt_compiled bt_compiled;

// For this machine's CPU. cache NULL: nothing is kept.
// Errors  UNSUPPORTED (run the group eagerly), UNAVAILABLE (no compiler and not in the cache),
//         OUT_OF_MEMORY, INTERNAL
// Owns    the caller, bt_compiled_release
BT_CHECKED bt_status bt_compile(const bt_fused *group, bt_code_cache *cache, bt_compiled **out);
// operands: memory of each operand of the group, in its order, borrowed. rows: the size of axis 0;
// only of a group with dynamic rows may it differ from the group's.
// Errors  INVALID_ARGUMENT (rows)
BT_CHECKED bt_status bt_compiled_run(const bt_compiled *compiled, int64_t rows,
                                     void *const *operands);
void bt_compiled_release(bt_compiled *compiled);

#endif
