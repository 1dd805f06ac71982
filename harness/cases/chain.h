// harness/cases/chain.h - a chain of ops that users compose, as one call of a kernel case
//
// A chain is captured from ops (framework/compiler/capture.h) and run as a program over the case's
// operands: call by call, with the kernels of eager execution, or with groups of calls as generated
// kernels (kernel.compile: on). Its reference is the same chain in f64 on the CPU, call by call.
//
// Invariants
//   1. Inputs are the body's operands in their order, and so are outputs.
//   2. A run writes the outputs where the operands are; what lies between is the pool's.
#ifndef BT_HARNESS_CASES_CHAIN_H
#define BT_HARNESS_CASES_CHAIN_H

#include "framework/compiler/fuse.h"
#include "framework/compiler/run.h"
#include "framework/ops/expression.h"
#include "harness/cases/operands.h"

typedef struct bt_chain bt_chain;

// Captures the chain over the operands of `args`; no kernel is launched. context is borrowed and
// outlives the chain. Without `forms` calls stay as eager execution makes them; with it they are
// simplified and grouped as in a compiled step for `kind`.
// Owns    the caller, bt_chain_close
// Errors  OUT_OF_MEMORY, and the ops'
BT_CHECKED bt_status bt_chain_open(bt_context *context, const bt_chain_args *args, bool forms,
                                   bt_target_kind kind, bt_chain **out);
void bt_chain_close(bt_chain *chain);
// Code for the groups on the context's device. cache NULL: made now, nothing is kept. To be called
// once more, the chain forgets what it had.
// Errors  UNSUPPORTED (a group has no code, or there is none)
BT_CHECKED bt_status bt_chain_compile(bt_chain *chain, bt_code_cache *cache);
// Shapes  at [operands of the body], of the shapes that the chain was captured with
BT_CHECKED bt_status bt_chain_run(bt_chain *chain, void *const *at);
// How many calls were captured, and how many are left behind simplification.
int bt_chain_calls(const bt_chain *chain);
int bt_chain_simple_calls(const bt_chain *chain);
// The groups; borrowed.
const bt_fusion_plan *bt_chain_groups(const bt_chain *chain);

// ---- chains.c -----------------------------------------------------------------------------------

enum { BT_CHAIN_OUTPUTS = 2 };

// What a chain is made of: recorded ops from inputs to outputs.
typedef struct bt_chain_parts {
    const bt_kernel_shape *shape; // of the case, with `rows` rows
    int64_t rows;
    bt_tensor *const *in; // the body's inputs
    bt_tensor *constant;  // borrowed; NULL where the chain has none
} bt_chain_parts;

typedef void (*bt_chain_body)(bt_expression *e, const bt_chain_parts *parts, bt_tensor **out);
bt_chain_body bt_chain_body_of(bt_kernel_case_op what);
// A chain's constant, a square matrix; *dim 0: it has none. Owns  the caller (bt_mem_free)
BT_CHECKED bt_status bt_chain_constant(const bt_chain_args *args, int64_t *dim, double **values);

#endif
