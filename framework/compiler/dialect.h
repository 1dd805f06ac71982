// framework/compiler/dialect.h - a graph as MLIR: the `bt` dialect, for dumps and verification
//
// bt.<op> is a call of a kernel op. The dialect is IRDL text made from kernels/operands.inl, so it
// follows the kernel table. Nothing is compiled from this text.
#ifndef BT_COMPILER_DIALECT_H
#define BT_COMPILER_DIALECT_H

#include "framework/compiler/graph.h"

// An operation for each op without lists. Fields are operands; those that a call may write, also
// results, both in the order of operands.inl. Operands that every call reads are required, and the
// result of an op that always writes one; the others are optional. Attributes are required.
// !bt.value<f32, 8 : i64> is a storage of 8 elements. Fields whose data types are the same
// expression in operands.inl have the same elements, of the type that the attribute so named gives.
// Not expressed: that WIDE(t) is f64 only for f64, and how sizes follow from attributes.
void bt_dialect_print(bt_str *out);

// The graph as one function: inputs are arguments, outputs are returned, value n is %vn, its
// storage. operand_segment_sizes and result_segment_sizes say which fields are there;
// offset_bytes has the place of each field in its storage.
void bt_dialect_print_graph(const bt_dag *graph, bt_str *out);

// Loads the dialect into MLIR, parses the text and verifies it.
// Errors  INVALID_ARGUMENT with place and reason; UNAVAILABLE without the compiler
BT_CHECKED bt_status bt_dialect_verify(const char *text);

#endif
