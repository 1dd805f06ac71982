// framework/compiler/program.h - a graph in the order in which it runs, with a place for each value
//
// Made once from a graph and its groups, run as often as wanted: everything but pointers is decided
// before. A unit is a call, a list of products, or a group; it runs as soon as all that it reads
// has been made.
//
// Invariants
//   1. A value that a call adds to is changed in place where nobody else reads it any more, else
//      copied first.
//   2. A run allocates and frees in the same order each time, on the context's stream, so the
//      pool's plan of a repeated step holds (memory/step_plan.h).
//   3. A run launches on the context's stream alone and waits for nothing: a CUDA graph can capture
//      it.
#ifndef BT_COMPILER_PROGRAM_H
#define BT_COMPILER_PROGRAM_H

#include "framework/compiler/fuse.h"

typedef struct bt_program bt_program;

// fusion NULL: no groups. homes [value_count], NULL: none; homes[output] is the input whose memory
// the output ends in, -1: it is in memory of its own. An input that is a home is overwritten.
// Owns    the caller, bt_program_destroy. graph and fusion are borrowed and outlive the program
// Errors  OUT_OF_MEMORY; INTERNAL (groups that wait for each other)
BT_CHECKED bt_status bt_program_create(const bt_dag *graph, const bt_fusion_plan *fusion,
                                       const int *homes, bt_program **out);
void bt_program_destroy(bt_program *program);
// memory[value]: of each input, given. Of an output it may be given; where it is NULL it is made
// and the caller owns it (bt_pool_free). An output with a home has none.
// Groups are given to `launch`.
// Shapes  memory [value_count], device pointers
// Errors  INVALID_ARGUMENT (an input is missing), UNSUPPORTED, OUT_OF_MEMORY, the launches';
// nothing
//         that was made is left then
BT_CHECKED bt_status bt_program_run(const bt_program *program, bt_context *context,
                                    bt_fused_launch launch, void *self, void **memory);

#endif
