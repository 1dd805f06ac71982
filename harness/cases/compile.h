// harness/cases/compile.h - the compiler's result for a training case
#ifndef BT_HARNESS_CASES_COMPILE_H
#define BT_HARNESS_CASES_COMPILE_H

#include "harness/cases/cases.h"

// X(enumerator, word, what is written)
#define BT_COMPILE_DUMP_LIST(X)                                                                    \
    X(GRAPH, "graph", "the captured step: forward and backward of one micro-batch")                \
    X(SIMPLE, "simple", "the same, simplified")                                                    \
    X(BT, "bt", "the captured step as MLIR, in the bt dialect (CASE.bt.mlir)")                     \
    X(GROUPS, "groups", "the fused groups with their programs, and why calls were joined or not")  \
    X(MLIR, "mlir", "the code of each group: MLIR")                                                \
    X(LLVM, "llvm", "LLVM IR")                                                                     \
    X(PTX, "ptx", "PTX, for a GPU")

typedef enum bt_compile_dump {
#define BT_COMPILE_DUMP_ENUM(name, word, text) BT_COMPILE_DUMP_##name,
    BT_COMPILE_DUMP_LIST(BT_COMPILE_DUMP_ENUM)
#undef BT_COMPILE_DUMP_ENUM
        BT_COMPILE_DUMP_COUNT
} bt_compile_dump;

typedef struct bt_case_compiled {
    int64_t calls, saved;              // kernel calls captured; activations kept for backward
    int64_t simple_calls;              // after simplification
    int64_t groups, fused_calls;       // groups, and the calls in them
    int64_t bytes_before, bytes_after; // moved by the grouped calls, by the groups
    int64_t with_code;                 // of the groups, those with code; -1: no target was given
    int64_t dump_files, dump_bytes;    // written to the folder
} bt_case_compiled;

// The words of a list, "graph,groups", as bits. Errors  INVALID_ARGUMENT naming the allowed words
BT_CHECKED bt_status bt_compile_dumps_parse(const char *list, unsigned *dumps);
// BT_OK if dumps of `bt` are verified. Errors  UNAVAILABLE with the reason
BT_CHECKED bt_status bt_compile_verifier(void);
// target NULL: groups of every kind, without code. Else the groups that train.compile would form on
// such a device ("cpu", "sm_90"), with their code in the user's cache. A kernel case with `compile`
// on has one call and one group, and no dumps; a chain has as many as were captured. Both have code
// only with a target.
// Captures one micro-batch of the case without running a kernel, on the CPU's kernel table, and
// writes `folder`/CASE.WORD.txt for each dump; of `bt` CASE.bt.mlir, verified where the compiler is
// built.
// Errors  UNSUPPORTED (the CPU has no kernel for a call of the case), OUT_OF_MEMORY, IO
BT_CHECKED bt_status bt_case_compile(const cJSON *item, const char *target, const char *folder,
                                     unsigned dumps, bt_case_compiled *out);

#endif
