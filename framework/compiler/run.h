// framework/compiler/run.h - a fused group compiled, loaded and called
//
// bt_compile emits, lowers (or finds in the cache) and loads a group; bt_compiled_run is then one
// call, like a kernel's: it neither allocates nor synchronises, and its bits do not depend on the
// number of threads. On CUDA it is launched on the stream that is given, also under capture.
#ifndef BT_COMPILER_RUN_H
#define BT_COMPILER_RUN_H

#include "framework/compiler/emit.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/lower.h"

typedef struct bt_compiled bt_compiled;

// For this machine's CPU, or for a device of any backend. cache NULL: no cache.
// Errors  UNSUPPORTED (run the group eagerly), UNAVAILABLE (no compiler and not in the cache; no
//         driver), OUT_OF_MEMORY, INTERNAL
// Owns    the caller, bt_compiled_release
BT_CHECKED bt_status bt_compile(const bt_fused *group, bt_code_cache *cache, bt_compiled **out);
BT_CHECKED bt_status bt_compile_for(const bt_device *device, const bt_fused *group,
                                    bt_code_cache *cache, bt_compiled **out);
// Only puts the text's code in the cache: lowers for a target that need not be present.
// Errors  as bt_compile; IO if the cache cannot be written; UNAVAILABLE if it has no folder
BT_CHECKED bt_status bt_compile_ahead(const bt_target *target, const bt_fused *group,
                                      bt_code_cache *cache);
// The forms of a group's code as text, for a reader.
typedef enum bt_code_form { BT_CODE_MLIR, BT_CODE_LLVM, BT_CODE_PTX } bt_code_form;

// Appends the text. Without a cache, as LLVM IR is not kept.
// Errors  as bt_compile; UNSUPPORTED also for PTX of a CPU
BT_CHECKED bt_status bt_compile_text(const bt_target *target, const bt_fused *group,
                                     bt_code_form form, bt_str *out);
// operands: memory of each operand of the group, in its order, borrowed. rows: the size of axis 0;
// it may differ from the group's only if the group has dynamic rows. stream: of the device that the
// group was compiled for; NULL on the CPU. workspace: device memory of bt_compiled_workspace_bytes,
// free for reuse on the stream after the call; NULL if that is 0.
// Errors  INVALID_ARGUMENT (rows; on CUDA, memory that is not 16-byte aligned), INTERNAL
BT_CHECKED bt_status bt_compiled_run(const bt_compiled *compiled, bt_stream stream, int64_t rows,
                                     void *const *operands, void *workspace);
// BT_OK if the group can run with so many rows.
// Errors  UNSUPPORTED
BT_CHECKED bt_status bt_compiled_check_rows(const bt_compiled *compiled, int64_t rows);
int64_t bt_compiled_workspace_bytes(const bt_compiled *compiled, int64_t rows);
// The same with workspace from the context's pool, on its stream.
// Errors  as bt_compiled_run; OUT_OF_MEMORY
BT_CHECKED bt_status bt_compiled_run_in(bt_context *context, const bt_compiled *compiled,
                                        int64_t rows, void *const *operands);
void bt_compiled_release(bt_compiled *compiled);

struct bt_generated_table; // kernels/generated.h
// For tests of failures: GPU code is assembled, loaded and launched by `table`, borrowed, from now
// on; NULL: by libbt_cuda.so.
void bt_compile_through(const struct bt_generated_table *table);

// ---- groups of a graph --------------------------------------------------------------------------

// Compiles groups at their first run and keeps them. Not thread-safe.
typedef struct bt_compiler {
    bt_code_cache *cache;              // borrowed; NULL: no cache on disk
    struct bt_compiler_entry *entries; // owned [count], by the group's text
    int count, capacity;
    int64_t runs, fallbacks; // by bt_compiler_launch: all, and those that were interpreted
    char reason[256];        // of the latest group asked for that has no code; "": all have
} bt_compiler;

void bt_compiler_init(bt_compiler *compiler, bt_code_cache *cache);
void bt_compiler_release(bt_compiler *compiler);
// The group's code for a device; NULL if there is none, whatever the cause: see compiler->reason.
// Owns    the compiler
// Errors  OUT_OF_MEMORY (for the compiler's own entry)
BT_CHECKED bt_status bt_compiler_get(bt_compiler *compiler, const bt_device *device,
                                     const bt_fused *group, bt_compiled **out);
// A bt_fused_launch for bt_dag_run_fused, self: a bt_compiler. A group without code is interpreted,
// with the same bits, and counted.
BT_CHECKED bt_status bt_compiler_launch(void *self, bt_context *context, const bt_fused *group,
                                        void *const *at);

#endif
