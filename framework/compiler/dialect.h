// framework/compiler/dialect.h - a graph as MLIR: the `bt` dialect, for dumps and verification
//
// bt.<op> is a call of a kernel op. The dialect is IRDL text made from kernels/operands.inl, so it
// follows the kernel table. Nothing is compiled from this text.
#ifndef BT_COMPILER_DIALECT_H
#define BT_COMPILER_DIALECT_H

#include "framework/compiler/graph.h"

// An operation for each op without lists. Fields are optional operands; those that a call may
// write, also optional results, both in the order of operands.inl. Attributes are required.
void bt_dialect_print(bt_str *out);

// The graph as one function: inputs are arguments, outputs are returned, value n is %vn, a flat
// tensor of its storage. operand_segment_sizes and result_segment_sizes say which fields are there;
// offset_bytes has the place of each field in its storage.
void bt_dialect_print_graph(const bt_dag *graph, bt_str *out);

// Loads the dialect into MLIR, parses the text and verifies it.
// Errors  INVALID_ARGUMENT with place and reason; UNAVAILABLE without the compiler
BT_CHECKED bt_status bt_dialect_verify(const char *text);

#endif
