// framework/compiler/program.h - a schedule of a graph, with memory assigned to each value
//
// Built once from a graph and its groups and run many times: only pointers change. A unit is a
// call, a list of products, or a group; it is scheduled as soon as its operands are made.
//
// Invariants
//   1. A call adds to a value in place if nothing else reads it any more, else to a copy.
//   2. A run allocates and frees in the same order each time, on the context's stream, so the
//      pool's plan of a repeated step holds (memory/step_plan.h).
//   3. A run launches on the context's stream only and does not synchronize: a CUDA graph can
//      capture it.
#ifndef BT_COMPILER_PROGRAM_H
#define BT_COMPILER_PROGRAM_H

#include "framework/compiler/fuse.h"

typedef struct bt_program bt_program;

// fusion NULL: no groups. homes [value_count], NULL: none; homes[output] is the input whose memory
// receives the output; -1: the output has its own memory. An input that is a home is overwritten.
// Owns    the caller, bt_program_destroy. graph and fusion are borrowed and outlive the program
// Errors  OUT_OF_MEMORY; INTERNAL (groups that wait for each other)
BT_CHECKED bt_status bt_program_create(const bt_dag *graph, const bt_fusion_plan *fusion,
                                       const int *homes, bt_program **out);
void bt_program_destroy(bt_program *program);
// memory[value]: of each input, given. Of an output it may be given; if NULL, it is allocated and
// the caller owns it (bt_pool_free). An output with a home has none.
// Groups are passed to `launch`.
// Shapes  memory [value_count], device pointers
// Errors  INVALID_ARGUMENT (an input is missing), UNSUPPORTED, OUT_OF_MEMORY, the launches';
// everything allocated is freed then
BT_CHECKED bt_status bt_program_run(const bt_program *program, bt_context *context,
                                    bt_fused_launch launch, void *self, void **memory);

#endif
