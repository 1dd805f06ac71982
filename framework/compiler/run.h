// framework/compiler/run.h - a fused group as something that runs
//
// bt_compile emits, lowers (or finds in the cache) and loads a group; bt_compiled_run is then one
// call, like a kernel's: it neither allocates nor synchronises, and its bits do not depend on the
// number of threads.
#ifndef BT_COMPILER_RUN_H
#define BT_COMPILER_RUN_H

#include "framework/compiler/emit.h"
#include "framework/compiler/fuse.h"
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

// ---- groups of a graph --------------------------------------------------------------------------

// Compiles groups when they are first run and keeps them. One thread at a time.
typedef struct bt_compiler {
    bt_code_cache *cache;              // borrowed; NULL: nothing is kept on disk
    struct bt_compiler_entry *entries; // owned [count], by the group's text
    int count, capacity;
    int64_t runs, fallbacks; // launches, and those of them that were interpreted
    char reason[256];        // of the latest group for which there is no code; "": none
} bt_compiler;

void bt_compiler_init(bt_compiler *compiler, bt_code_cache *cache);
void bt_compiler_release(bt_compiler *compiler);
// A bt_fused_launch for bt_dag_run_fused, self: a bt_compiler. A group for which no code can be
// generated (UNSUPPORTED, UNAVAILABLE) is interpreted, with the same bits, and counted.
BT_CHECKED bt_status bt_compiler_launch(void *self, bt_context *context, const bt_fused *group,
                                        void *const *at);

#endif
