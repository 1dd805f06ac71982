// tests/gradient/graph.h - random graphs of ops: drawn, run on the tape, and run by an oracle
//
// A graph is a list of nodes; a node uses earlier ones. A segment is a range of nodes that the tape
// runs as the body of bt_recompute; the oracle does not know of segments, nor of the tape. WRITE
// overwrites the memory of an earlier node, and so of its views. In one of twelve graphs some
// dimensions are 0.
//
// Invariants
//   1. Of the nodes of a segment only the last, and leaves, are used after it.
//   2. Segments nest or are disjoint; each has a last node of its own. WRITE is in none.
//   3. Values stay below VALUE_MOST, so that rounding stays far below the tolerance.
#ifndef BT_TESTS_GRADIENT_GRAPH_H
#define BT_TESTS_GRADIENT_GRAPH_H

#include "tests/support/fixture.h"

enum { GRAPH_NODES = 48, GRAPH_ELEMENTS = 54, GRAPH_INPUTS = 6, GRAPH_SEGMENTS = 4 };

// X(enumerator, name, needs contiguous inputs)
#define GRAPH_KINDS(X)                                                                             \
    X(LEAF, "leaf", false)                                                                         \
    X(WRITE, "write", false)                                                                       \
    X(DROPPED, "dropped", false)                                                                   \
    X(SECOND, "second output", false)                                                              \
    X(UNARY, "unary", true)                                                                        \
    X(BINARY, "binary", false)                                                                     \
    X(SUM, "sum", true)                                                                            \
    X(SUM_ALL, "sum_all", true)                                                                    \
    X(MEAN_ALL, "mean_all", true)                                                                  \
    X(SQUARED_ERROR, "mean_squared_error", false)                                                  \
    X(SOFTMAX, "softmax", true)                                                                    \
    X(LAYERNORM, "layernorm", true)                                                                \
    X(ADD_LAYERNORM, "add_layernorm", true)                                                        \
    X(LINEAR, "linear", true)                                                                      \
    X(FEED_FORWARD, "feed_forward", true)                                                          \
    X(MATMUL, "matmul", true)                                                                      \
    X(EMBEDDING, "embedding", true)                                                                \
    X(ATTENTION, "attention", true)                                                                \
    X(CROSS_ENTROPY, "cross_entropy", true)                                                        \
    X(LINEAR_CROSS_ENTROPY, "linear_cross_entropy", true)                                          \
    X(DROPOUT, "dropout", true)                                                                    \
    X(CAST, "cast", false)                                                                         \
    X(CONTIGUOUS, "contiguous", false)                                                             \
    X(RESHAPE, "reshape", true)                                                                    \
    X(PERMUTE, "permute", false)                                                                   \
    X(NARROW, "narrow", false)                                                                     \
    X(EXPAND, "expand", false)                                                                     \
    X(DETACH, "detach", false)

typedef enum graph_kind {
#define GRAPH_KIND_ENUM(name, text, contiguous) GRAPH_##name,
    GRAPH_KINDS(GRAPH_KIND_ENUM)
#undef GRAPH_KIND_ENUM
        GRAPH_KIND_COUNT
} graph_kind;

typedef struct graph_node {
    graph_kind kind;
    int in[GRAPH_INPUTS]; // -1: none
    bt_shape shape;
    int function;                  // of UNARY, BINARY
    double alpha;                  // of UNARY; what WRITE writes; rate of DROPOUT
    int axis, axes[BT_MAX_RANK];   // of ATTENTION: window; axes[0] heads of keys
    int64_t start;                 // of NARROW; heads of ATTENTION; rows of a chunk
    bool trans_a, trans_b;         // of MATMUL; trans_a: GELU of LINEAR, causal of ATTENTION
    bool trained;                  // of LEAF
    double values[GRAPH_ELEMENTS]; // of LEAF; factors of DROPOUT; ids, targets
    // graph_lay_out writes:
    int storage;               // the node that made the memory
    int place[GRAPH_ELEMENTS]; // of each element in it
    bool contiguous;
} graph_node;

typedef struct graph_segment {
    int first, last;
    int passed[GRAPH_INPUTS], passed_count; // nodes given to bt_recompute; it captures the others
} graph_segment;

typedef struct graph {
    uint64_t seed;
    int count;
    graph_node nodes[GRAPH_NODES];
    int segment_count;
    graph_segment segments[GRAPH_SEGMENTS];
    bool in_loss[GRAPH_NODES]; // the loss is the sum of graph_weight times these
    int passes;                // backward passes, whose gradients add up
    bool release_early;        // before the backward
    int recompute;             // bt_recompute_mode of the forward
} graph;

// What the tape must answer.
typedef enum graph_answer { GRAPH_GRADIENTS, GRAPH_STALE, GRAPH_NO_GRADIENT } graph_answer;

// ---- graph_make.c -------------------------------------------------------------------------------
// Draws the graph of a seed. `f` is for dropout's factors.
void graph_make(fixture *f, uint64_t seed, graph *g);
// Memory of each node.
void graph_lay_out(graph *g);
double graph_weight(const graph *g, int node, int element);
bool graph_is_view(graph_kind kind);
const char *graph_kind_name(graph_kind kind);
// As text on standard error.
void graph_print(const graph *g);

// ---- graph_oracle.c -----------------------------------------------------------------------------
// A number and its derivative in one direction.
typedef struct dual {
    double v, d;
} dual;

// Runs nodes 0 to count - 1 forward in dual numbers, the direction being one element of one leaf.
// values[n] gets what node n was when it was made. False where a node's value is not finite, is too
// large, or is too near to a pole.
bool graph_evaluate(const graph *g, int count, int leaf, int element,
                    dual values[GRAPH_NODES][GRAPH_ELEMENTS]);
// d loss / d element of a leaf, of one pass.
double graph_derivative(const graph *g, int leaf, int element);
// ---- graph_expect.c -----------------------------------------------------------------------------
// What follows from the graph by the rules of ops.h: which op reads what in its backward.
graph_answer graph_expect(const graph *g);

// Called with each gradient before it is read and released; NULL: not called.
typedef struct graph_listener {
    void *self;
    void (*gradient)(void *self, const bt_tensor *grad);
} graph_listener;

extern graph_listener graph_listening;

// ---- graph_run.c --------------------------------------------------------------------------------
// Runs the graph on the tape. grads[n] gets the gradient of leaf n (free() it), NULL where it has
// none. Returns the backward's status; a forward that fails fails the test.
bt_status graph_run(fixture *f, const graph *g, double *grads[GRAPH_NODES]);
// The same once for the gradient of S = sum over trained leaves of graph_weight times the loss's
// gradient, which is made by bt_backward_recorded. UNSUPPORTED if that function returns it.
bt_status graph_run_twice(fixture *f, const graph *g, double *grads[GRAPH_NODES]);

#endif
