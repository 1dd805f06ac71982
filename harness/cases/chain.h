// harness/cases/chain.h - a chain of ops, as users compose them, as one call of a kernel case
//
// A chain is captured from ops (framework/compiler/capture.h) and run as a program over the case's
// operands: call by call with the kernels of eager execution, or with groups of calls as generated
// kernels (kernel.compile: on). Its reference is the same chain in f64 on the CPU, call by call.
// A backward case captures the forward and the backward on a tape, as a training step does.
//
// Invariants
//   1. Inputs and outputs are the body's operands in their order.
//   2. A run writes the outputs to the operands; intermediate values come from the pool.
#ifndef BT_HARNESS_CASES_CHAIN_H
#define BT_HARNESS_CASES_CHAIN_H

#include "framework/compiler/fuse.h"
#include "framework/compiler/run.h"
#include "framework/ops/expression.h"
#include "harness/cases/operands.h"

typedef struct bt_chain bt_chain;

// Captures the chain over the operands of `args`; no kernel is launched. context is borrowed and
// outlives the chain. Without `forms` the calls are those of eager execution; with it they are
// simplified and grouped as in a compiled step for `kind`.
// Owns    the caller, bt_chain_close
// Errors  OUT_OF_MEMORY, and the ops'
BT_CHECKED bt_status bt_chain_open(bt_context *context, const bt_chain_args *args, bool forms,
                                   bt_target_kind kind, bt_chain **out);
void bt_chain_close(bt_chain *chain);
// Compiles the groups for the context's device. cache NULL: no cache. May be called again; then the
// earlier code is dropped.
// Errors  UNSUPPORTED (a group has no code, or there are no groups)
BT_CHECKED bt_status bt_chain_compile(bt_chain *chain, bt_code_cache *cache);
// Shapes  at [operands of the body], with the shapes at capture
BT_CHECKED bt_status bt_chain_run(bt_chain *chain, void *const *at);
// The number of captured calls, and the number after simplification.
int bt_chain_calls(const bt_chain *chain);
int bt_chain_simple_calls(const bt_chain *chain);
// The graph as it runs, and the groups; borrowed.
const bt_dag *bt_chain_graph(const bt_chain *chain);
const bt_fusion_plan *bt_chain_groups(const bt_chain *chain);

// ---- chains.c -----------------------------------------------------------------------------------

enum { BT_CHAIN_OUTPUTS = 2 };

// The function that makes a chain: recorded ops from inputs to outputs. The last output is the one
// that gets a gradient.
typedef struct bt_chain_parts {
    const bt_kernel_shape *shape; // of the case, with `rows` rows
    int64_t rows;
    bt_tensor *const *in; // the body's inputs
    bt_tensor *constant;  // borrowed; NULL if the chain has none
} bt_chain_parts;

typedef void (*bt_chain_body)(bt_expression *e, const bt_chain_parts *parts, bt_tensor **out);
bt_chain_body bt_chain_body_of(bt_kernel_case_op what);
// A chain's constant, a square matrix; *dim 0: none. Owns  the caller (bt_mem_free)
BT_CHECKED bt_status bt_chain_constant(const bt_chain_args *args, int64_t *dim, double **values);

#endif
