// framework/compiler/simplify_parts.h - declarations shared by simplify*.c
#ifndef BT_COMPILER_SIMPLIFY_PARTS_H
#define BT_COMPILER_SIMPLIFY_PARTS_H

#include "framework/compiler/simplify.h"

// Fields in the order of operands.inl.
enum { UNARY_X, UNARY_Y };
enum { BINARY_A, BINARY_B, BINARY_Y };
enum { COPY_X, COPY_Y };

typedef struct bt_simplify {
    bt_dag *graph;
    int *uses;  // owned [value_count]
    bool *gone; // owned [node_count]
    bt_status status;
} bt_simplify;

// ---- simplify_graph.c ---------------------------------------------------------------------------
bt_dag_operand *bt_simplify_operand(bt_dag_node *node, int field); // NULL: it has none
// It writes all of a new value.
bool bt_simplify_makes_whole(const bt_dag_operand *x);
int64_t bt_simplify_count_of(const bt_simplify *w, int value);
// The call that makes the whole value, of this op; NULL: another, or none.
bt_dag_node *bt_simplify_maker(const bt_simplify *w, int value, bt_kernel_op op, int field);
double bt_simplify_rounded(double value, bt_dtype dtype);
bool bt_simplify_computes_in(bt_dtype dtype); // F32, F64
// Are the strides contiguous for the shape? Axes of size 1 may have any.
bool bt_simplify_is_contiguous(int rank, const int64_t *shape, const int64_t *stride);
int64_t bt_simplify_product(int rank, const int64_t *shape);
// Redirects readers of `from` to `to`, which has the same contents. False if there are none.
bool bt_simplify_redirect(bt_simplify *w, int from, int to);
// Replaces the call by one of another op. Pointers in args are NULL. False: w->status
bool bt_simplify_become(bt_simplify *w, bt_dag_node *node, bt_kernel_op op, const void *args,
                        const bt_dag_operand *operands, int count);

// ---- simplify_constant.c ------------------------------------------------------------------------
// The number that all elements of the value are.
bool bt_simplify_constant_of(const bt_simplify *w, int value, double *number);

// Rules: true if one was applied to the call.
#define BT_DAG_RULE(name, text) bool bt_rule_##name(bt_simplify *w, int at);
#include "framework/compiler/simplify.inl"
#undef BT_DAG_RULE

#endif
