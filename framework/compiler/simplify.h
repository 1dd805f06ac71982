// framework/compiler/simplify.h - the same results with fewer kernel calls
//
// Rules (simplify.inl) rewrite a graph until none applies. Every rule keeps each output's bits,
// also of NaN, infinities and zeros of both signs: a rule that holds for real numbers only is none
// of ours.
//
// Invariants
//   1. Values keep their numbers: memory given for inputs and asked for outputs stays where it was.
//      A value that is made no more has producer BT_DAG_REMOVED.
//   2. Outputs are made as before, by a call or a copy of their own.
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
    int applied[BT_DAG_RULE_COUNT]; // how often
    int nodes_before, nodes_after;
} bt_dag_simplified;

// What a rule does, in words.
const char *bt_dag_rule_text(bt_dag_rule_id rule);
const char *bt_dag_rule_name(bt_dag_rule_id rule);

// Errors  OUT_OF_MEMORY; the graph is as before or simplified by some of the rules
BT_CHECKED bt_status bt_dag_simplify(bt_dag *graph, bt_dag_simplified *report);

#endif
