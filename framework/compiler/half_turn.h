// framework/compiler/half_turn.h - products by a constant that only moves elements
//
// Rotary positions written as ops multiply each head by a matrix of 0, 1 and -1 that swaps its
// halves. Such a product is one multiplication of a view of its operand by a view of the matrix,
// which elementwise groups take in. Finite results keep their bits, but zeros may have another
// sign; an infinity or NaN stays in its element, where a product spreads it to the whole row.
#ifndef BT_COMPILER_HALF_TURN_H
#define BT_COMPILER_HALF_TURN_H

#include "framework/compiler/capture.h"

// Which inputs of a captured graph are such matrices: square, [dim, dim] with an even dim, and not
// trained. The contents are read here and must not change while the graph is used.
// Sync    waits for the stream
// Owns    the caller owns *turns [graph->value_count] (bt_mem_free): dim, or 0 for other values
BT_CHECKED bt_status bt_dag_find_half_turns(const bt_dag_capture *capture, const bt_dag *graph,
                                            int64_t **turns);
// Rewrites products whose second operand is such a matrix. *changed: their number.
// turns   [turn_count], for the first turn_count values; passes may have added others
// Errors  OUT_OF_MEMORY: the graph can only be released
BT_CHECKED bt_status bt_dag_expand_half_turns(bt_dag *graph, const int64_t *turns, int turn_count,
                                              int *changed);

#endif
