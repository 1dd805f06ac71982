// framework/compiler/epilogue.h - additions after products become epilogues of the products
//
// A product whose result is read by one addition only absorbs it: dense rows as C (beta 1), one
// value per column as the bias. In bf16 the sum is then rounded once instead of twice.
#ifndef BT_COMPILER_EPILOGUE_H
#define BT_COMPILER_EPILOGUE_H

#include "framework/compiler/graph.h"

// Rewrites the graph; values keep their numbers. *absorbed: the number of additions removed.
// Errors  OUT_OF_MEMORY: the graph can only be released
BT_CHECKED bt_status bt_dag_absorb_sums(bt_dag *graph, int *absorbed);

#endif
