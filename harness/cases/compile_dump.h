// harness/cases/compile_dump.h - writes graphs, groups and code of a case as text; for compile.c
#ifndef BT_HARNESS_CASES_COMPILE_DUMP_H
#define BT_HARNESS_CASES_COMPILE_DUMP_H

#include "framework/compiler/fuse.h"
#include "framework/compiler/lower.h"
#include "harness/cases/compile.h"

// Where the dumps of a case go: folder/name.<dump>.txt. All borrowed.
typedef struct bt_compile_dumper {
    const char *name, *folder;
    const bt_target *target; // of the code
    unsigned dumps;          // bit k: bt_compile_dump k is written
    bt_case_compiled *out;   // counts what was written
} bt_compile_dumper;

// Each writes what was asked for.
// Errors  IO; UNAVAILABLE (LLVM IR and PTX: no compiler)
BT_CHECKED bt_status bt_compile_dump_graph(const bt_compile_dumper *d, bt_compile_dump which,
                                           const bt_dag *graph);
// The bt dialect. Errors  also INTERNAL or INVALID_ARGUMENT of the verifier
BT_CHECKED bt_status bt_compile_dump_dialect(const bt_compile_dumper *d, const bt_dag *graph);
// The groups, the decisions, and the code of each group.
BT_CHECKED bt_status bt_compile_dump_groups(const bt_compile_dumper *d, const bt_dag *graph,
                                            const bt_fusion_plan *fusion);
// The same for a graph of one call that is a group alone.
BT_CHECKED bt_status bt_compile_dump_group(const bt_compile_dumper *d, const bt_dag *graph,
                                           const bt_fused *group);

#endif
