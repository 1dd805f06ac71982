// framework/compiler/rematerialize.h - making cheap values again where they are read
//
// A value that costs no more to make again than to keep is not stored: its readers get copies of
// the calls that make it, which `fuse` joins with them. Two kinds of readers do:
//   backward  calls that read what the forward made: less memory is kept between the two
//   columns   a sum of columns, whose operand nobody else reads: it becomes a group of its own,
//             and the calls around it are free to join rows
// Copied are elementwise calls whose operands are smaller than storing and loading the value: the
// cost model counts bytes. Bits do not change.
#ifndef BT_COMPILER_REMATERIALIZE_H
#define BT_COMPILER_REMATERIALIZE_H

#include "framework/compiler/graph.h"

// Rewrites the graph; values keep their numbers. *copied: calls that were added.
// least_bytes: smaller values stay as they are.
// Errors  OUT_OF_MEMORY: the graph can only be released
BT_CHECKED bt_status bt_dag_rematerialize(bt_dag *graph, int64_t least_bytes, int *copied);

#endif
