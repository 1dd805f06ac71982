// framework/compiler/graph.h - a graph of kernel calls in static single assignment form
//
// A node is one call of a kernel op (kernels.h): a copy of its operand struct, whose pointers are
// replaced by values. So the node types are those of the kernel table, running a graph node by node
// launches the kernels of eager execution with the same bits, and a pass inspects a node's struct.
// kernels/operands.inl lists which fields are pointers, what is read and written through them, and
// which fields are attributes.
//
// A value is the contents of one storage (tensor.h) after a write, that is (storage serial,
// version). Views are not nodes: an operand is a value, an offset into it, and the strides in the
// struct. A call that writes part of a storage, or adds to it, reads the previous value (`base`)
// and makes a new one.
//
// Invariants
//   1. Nodes are in topological order: a node reads only inputs and results of earlier nodes. Each
//      value that is not an input has one producer.
//   2. All operands of a node that write one storage have the same result.
//   3. Pointer fields of args are NULL. bt_dag_check checks all of this.
//   4. If the writer of a value reads no base, only what it wrote is defined, and nothing else is
//      read.
//   5. Ops that take lists are not among the nodes: a grouped product is a node per product, and
//      their `list` is the same number.
#ifndef BT_COMPILER_GRAPH_H
#define BT_COMPILER_GRAPH_H

#include "framework/base/mem.h"
#include "framework/base/str.h"
#include "framework/tensor/context.h"
#include "kernels/operands.h"

typedef enum bt_dag_phase {
    BT_DAG_FORWARD,
    BT_DAG_BACKWARD,
    BT_DAG_ACCUMULATE, // gradients of one value summed by the tape
    BT_DAG_PHASE_COUNT
} bt_dag_phase;

// Producer of a removed value: no node makes it and nothing reads it.
enum { BT_DAG_REMOVED = -2 };

typedef struct bt_dag_value {
    char name[48]; // "" or the tensor's; for messages and dumps
    bt_dtype dtype;
    int64_t size_bytes;       // of the storage
    int producer;             // node; -1: an input, given by the caller; or REMOVED
    int base;                 // the previous value of the same storage, -1: none
    bool is_output;           // read by the caller afterwards
    uint64_t serial, version; // address at capture, 0 if built by hand
    int again;                // 1 + the value that it is recomputed from (rematerialize.h), 0: none
} bt_dag_value;

typedef struct bt_dag_operand {
    int field;            // of the op, in the order of operands.inl
    int value;            // value read, or the base of the value written; -1: neither
    int result;           // value written; -1: none
    int64_t offset_bytes; // of the pointer, in both
} bt_dag_operand;

typedef struct bt_dag_node {
    bt_kernel_op op;
    void *args; // owned, the op's struct
    int operand_count;
    bt_dag_operand operands[BT_KERNEL_OPERANDS_MOST];
    bt_dag_phase phase;
    char origin[32]; // the op of ops.inl that made the call, "" by hand
    int list; // products with the same number above 0, consecutive, were launched as one list call
} bt_dag_node;

typedef struct bt_dag {
    bt_dag_value *values; // owned [value_count]
    int value_count, value_capacity;
    bt_dag_node *nodes; // owned [node_count]
    int node_count, node_capacity;
} bt_dag;

// An empty graph is {0}. Release one also after a failure.
void bt_dag_release(bt_dag *graph);
// Owns    the caller owns *to
BT_CHECKED bt_status bt_dag_copy(const bt_dag *graph, bt_dag *to);

// ---- building by hand: values are numbers; each function makes one, of new memory ---------------

// Contents given by the caller. `name` is copied and truncated.
BT_CHECKED bt_status bt_dag_input(bt_dag *graph, bt_dtype dtype, int64_t count, const char *name,
                                  int *value);
// Binds a pointer field of args to a value; `field` is the member's name in the operand struct.
typedef struct bt_dag_binding {
    const char *field;
    int value;            // read or added to; -1: a new value of `count` elements is written
    int64_t offset_bytes; // only of those that exist
} bt_dag_binding;
// A call of any op. Pointers in args are ignored. Each field that the call writes gets a new value:
// results[i] is that of bindings[i], -1 where it is only read. A value that a field writes only in
// part must be given. Pointer fields without a binding are NULL.
// Errors  INVALID_ARGUMENT naming op and field: unknown, missing, of another size or type
BT_CHECKED bt_status bt_dag_call(bt_dag *graph, bt_kernel_op op, const void *args,
                                 const bt_dag_binding *bindings, int count, int *results);
// Contiguous operands, of the value's type.
BT_CHECKED bt_status bt_dag_unary(bt_dag *graph, bt_unary function, double alpha, int x, int *y);
// Strides in elements, 0 broadcasts. Shapes  a, b as seen through shape [rank]
BT_CHECKED bt_status bt_dag_binary(bt_dag *graph, bt_binary function, int rank,
                                   const int64_t *shape, int a, const int64_t *a_stride, int b,
                                   const int64_t *b_stride, int *y);
// y = x with conversion and any strides of x.
BT_CHECKED bt_status bt_dag_copy_of(bt_dag *graph, int rank, const int64_t *shape, int x,
                                    const int64_t *x_stride, bt_dtype dtype, int *y);
BT_CHECKED bt_status bt_dag_fill(bt_dag *graph, bt_dtype dtype, int64_t count, double value,
                                 int *y);
// Shapes  x [outer, reduce, inner], y [outer, inner]
BT_CHECKED bt_status bt_dag_sum(bt_dag *graph, int x, int64_t outer, int64_t reduce, int64_t inner,
                                double scale, int *y);
BT_CHECKED bt_status bt_dag_output(bt_dag *graph, int value);

// For capture and passes: appends copies. A value's number is the count before.
BT_CHECKED bt_status bt_dag_value_append(bt_dag *graph, const bt_dag_value *value, int *number);
// node->args is copied. The producers of values that it writes become the new node.
BT_CHECKED bt_status bt_dag_node_append(bt_dag *graph, const bt_dag_node *node);

// ---- queries ------------------------------------------------------------------------------------

int64_t bt_dag_value_count(const bt_dag_value *value); // elements
// True if a forward node makes it (or it is an input) and a backward node reads it.
bool bt_dag_is_saved(const bt_dag *graph, int value);
// uses[value]: how many operands read it, and one if it is an output. [value_count]
void bt_dag_uses(const bt_dag *graph, int *uses);
// Errors  INVALID_ARGUMENT naming the node and what is wrong
BT_CHECKED bt_status bt_dag_check(const bt_dag *graph);

// ---- execution ----------------------------------------------------------------------------------

// Runs all nodes in order as eager execution would launch them (program.h). memory[value] of inputs
// is given and read only; that of outputs is allocated.
// Shapes  memory [value_count], device pointers; NULL but for inputs
// Owns    the caller owns the outputs' memory (bt_pool_free); after a failure there is none
// Errors  INVALID_ARGUMENT (an input is missing), UNSUPPORTED, OUT_OF_MEMORY, the launches'
BT_CHECKED bt_status bt_dag_run(bt_context *context, const bt_dag *graph, void **memory);

// ---- text: the same for the same graph; bt_dag_parse(bt_dag_print(g)) is g
// -------------------
//   value 0 f32 84 input "x"
//   value 1 f32 84 output ""
//   node unary forward "" x=0 y=>1 function=gelu count=21 dtype=f32
// Products of one list have list=NUMBER.
// A value line has its size in bytes, and base=VALUE where it has one. An operand is FIELD=READ,
// FIELD=>WRITTEN or FIELD=READ>WRITTEN, with +OFFSET where it is not 0. Attributes of value 0 are
// omitted.
void bt_dag_print(const bt_dag *graph, bt_str *out);
// Errors  INVALID_ARGUMENT with the line's number
BT_CHECKED bt_status bt_dag_parse(const char *text, bt_dag *graph);
const char *bt_dag_phase_name(bt_dag_phase phase);
// True for attributes whose numbers have names: types, and the functions of some ops.
bool bt_dag_attribute_has_names(const bt_kernel_attribute *attribute);
// The name of such a number. NULL: it has none.
const char *bt_dag_attribute_word(const bt_kernel_attribute *attribute, int value);

#endif
