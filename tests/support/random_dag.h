// tests/support/random_dag.h - random graphs of kernel calls, run, compared and shrunk
//
// A graph has a few inputs of f32 or f64 over one small matrix shape and its rows, columns and
// scalar, and up to RANDOM_DAG_NODES calls: elementwise with broadcasts, casts, transposes, sums of
// rows and columns, softmax, LayerNorm, products (of bf16 too), dropout, writes in place. Values
// stay small. In one of twelve graphs a dimension is 0, or both are: calls without elements, sums
// and products over nothing.
#ifndef BT_TESTS_SUPPORT_RANDOM_DAG_H
#define BT_TESTS_SUPPORT_RANDOM_DAG_H

#include "framework/compiler/fuse.h"
#include "tests/support/fixture.h"

enum { RANDOM_DAG_NODES = 24 };

void random_dag_make(uint64_t seed, bt_dag *graph);
// Matrices of up to 60 rows and 1200 columns instead: several tasks of a kernel, rows longer than
// vectors, products of several tiles. False at the start.
extern bool random_dag_large;
// By what random_dag_run runs groups; NULL: there are none.
extern const bt_fusion_plan *random_dag_plan;
extern bt_fused_launch random_dag_launch;

// Runs it on inputs that are drawn by their place among the inputs. out: the outputs' bytes, one
// after the other; free() it. Returns their number of bytes. Fails the test where the run fails.
size_t random_dag_run(fixture *f, const bt_dag *graph, unsigned char **out);
// True where the graph is of interest: it fails.
typedef bool (*random_dag_fails)(void *self, const bt_dag *graph);
// The smallest graph that still fails: nodes are left out one by one, what they made becomes an
// input; outputs are left out likewise. *graph is replaced.
void random_dag_shrink(random_dag_fails fails, void *self, bt_dag *graph);
// Prints it on standard error.
void random_dag_show(const char *what, uint64_t seed, const bt_dag *graph);

#endif
