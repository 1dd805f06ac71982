// framework/compiler/simplify.h - the same results with fewer kernel calls
//
// Rules (simplify.inl) rewrite a graph until none applies. Every rule keeps each output's bits,
// also of NaN, infinities and zeros of both signs: identities that hold only for real numbers are
// not used.
//
// Invariants
//   1. Values keep their numbers, so the caller's tables of inputs and outputs stay valid. A
//      removed value has producer BT_DAG_REMOVED.
//   2. Each output is still made, by a call or by a copy.
#ifndef BT_COMPILER_SIMPLIFY_H
#define BT_COMPILER_SIMPLIFY_H

#include "framework/compiler/graph.h"

typedef enum bt_dag_rule_id {
#define BT_DAG_RULE(name, ...) BT_DAG_RULE_##name,
#include "framework/compiler/simplify.inl"
#undef BT_DAG_RULE
    BT_DAG_RULE_COUNT
} bt_dag_rule_id;

typedef struct bt_dag_simplified {
    int applied[BT_DAG_RULE_COUNT]; // number of applications
    int nodes_before, nodes_after;
} bt_dag_simplified;

const char *bt_dag_rule_name(bt_dag_rule_id rule);

// Errors  OUT_OF_MEMORY; the graph is as before or simplified by some of the rules
BT_CHECKED bt_status bt_dag_simplify(bt_dag *graph, bt_dag_simplified *report);

#endif
