// framework/compiler/rematerialize.h - recomputes cheap values where they are read
//
// A value that costs no more to recompute than to store is not stored: its readers get copies of
// the calls that make it, which `fuse` joins with them. There are two kinds of readers:
//   backward  calls that read what the forward made: less memory is kept between the two
//   columns   a column sum whose operand nothing else reads: it becomes its own group, and the
//             calls around it can join row groups
// Elementwise calls are copied if their operands have no more bytes than storing and loading the
// value takes; for a value that is stored anyway, fewer than loading it. Bits do not change.
#ifndef BT_COMPILER_REMATERIALIZE_H
#define BT_COMPILER_REMATERIALIZE_H

#include "framework/compiler/graph.h"

// Rewrites the graph; values keep their numbers. *copied: the number of calls added.
// least_bytes: smaller values stay as they are.
// Errors  OUT_OF_MEMORY: the graph can only be released
BT_CHECKED bt_status bt_dag_rematerialize(bt_dag *graph, int64_t least_bytes, int *copied);
// Appends a line for each call that recomputes a value: which one, and what that saves.
void bt_dag_rematerialize_print(const bt_dag *graph, bt_str *out);

#endif
