// framework/compiler/group.h - a fused group: a program over an index space, one generated kernel
//
// `fuse` makes groups of a graph (graph.h), `emit` writes MLIR for them. A group is a loop nest of
// up to BT_MAX_RANK axes and a list of instructions that is executed at every index. Operands are
// arrays with a stride per axis (0: broadcast); an instruction reads the results of earlier ones.
// A row reduction runs over the last axis; its result has one value a row and may be used by later
// instructions at every index of that row. A column reduction runs over all axes but the last.
//
//   y = softmax(x), [rows, cols] of f32:
//     %0 = load 0                     full
//     %1 = row_max %0                 row     order lanes 32
//     %2 = sub %0 %1                  full
//     %3 = exp %2                     full
//     %4 = cast f64 %3                full
//     %5 = row_sum %4                 row     order lanes 32 sum f64
//     ...
//
// Invariants
//   1. Instruction i uses results below i only. LOADs of an operand that is also stored to read
//      what was there before the kernel.
//   2. An instruction's arithmetic is IEEE in `dtype`, each operation rounded once; nothing is
//      contracted or reordered except as FMA and an order specify. So the bits are defined.
//   3. Functions (GELU ... SHIFT) have the bits of the UNARY kernel of the group's device, SLOPE
//      those of UNARY_BACKWARD with dy = 1, or the bound that the emitter states. The EXP of a
//      softmax has those of SOFTMAX: on the CPU, f32 below 2^-126.5 is 0.
//   4. dtype is F32 or F64 for arithmetic (bf16 operands are cast at LOAD and STORE), I32 or I64
//      for ids. A LOAD's dtype is its operand's; STORE rounds to its operand's, to nearest even.
//   5. The index space has no empty axis; rank is at least 1. Axes that can be merged for all
//      operands are merged (bt_fused_collapse).
#ifndef BT_COMPILER_GROUP_H
#define BT_COMPILER_GROUP_H

#include "framework/base/str.h"
#include "kernels/kernels.h"

enum { BT_FUSED_OPERANDS_MOST = 24, BT_FUSED_CODE_MOST = 160 };

// X(enumerator, text)
#define BT_FUSED_KIND_LIST(X)                                                                      \
    X(ELEMENTWISE, "elementwise") /* no reduction */                                               \
    X(ROW, "row")                 /* row reductions, then elementwise; or several of these */      \
    X(COLUMN, "column")           /* column reductions of elementwise values */                    \
    X(PRODUCT, "product")         /* a GEMM, the program is its epilogue */                        \
    X(ATTENTION, "attention")     /* likewise of attention's operands and result */

typedef enum bt_fused_kind {
#define BT_FUSED_KIND_ENUM(name, text) BT_FUSED_##name,
    BT_FUSED_KIND_LIST(BT_FUSED_KIND_ENUM)
#undef BT_FUSED_KIND_ENUM
        BT_FUSED_KIND_COUNT
} bt_fused_kind;

// X(enumerator, text, number of earlier results that it uses)
#define BT_FUSED_OP_LIST(X)                                                                        \
    X(LOAD, "load", 0)     /* element of `operand` */                                              \
    X(CONST, "const", 0)   /* value */                                                             \
    X(RESULT, "result", 0) /* of a PRODUCT or ATTENTION group: the call's result here; of a        \
                                 generated product the sum over k */                               \
    X(CAST, "cast", 1)     /* a as dtype, to nearest even */                                       \
    X(UNARY, "unary", 1)   /* function(a), alpha in value */                                       \
    X(SLOPE, "slope", 1)   /* function'(a), likewise */                                            \
    X(ADD, "add", 2)                                                                               \
    X(SUB, "sub", 2)                                                                               \
    X(MUL, "mul", 2)                                                                               \
    X(DIV, "div", 2)                                                                               \
    X(MAX, "max", 2)               /* a > b ? a : b */                                             \
    X(FMA, "fma", 3)               /* a b + c, rounded once */                                     \
    X(EQUAL, "equal", 2)           /* a == b ? 1 : 0; dtype is the result's */                     \
    X(SELECT, "select", 3)         /* a != 0 ? b : c */                                            \
    X(INDEX, "index", 0)           /* I64: index along `axis` */                                   \
    X(KEEP, "keep", 0)             /* dropout: 1 where kept, else 0; `dropout` */                  \
    X(ROW_SUM, "row_sum", 1)       /* sum of a along the last axis */                              \
    X(ROW_DOT, "row_dot", 2)       /* sum of a b, each term added with one rounding (fma) */       \
    X(ROW_MAX, "row_max", 1)       /* largest a; -infinity first, NaN passes over */               \
    X(COLUMN_SUM, "column_sum", 1) /* sum of a over all axes but the last */                       \
    X(STORE, "store", 1)           /* a to `operand` */                                            \
    X(STORE_ADD, "store_add", 1)   /* operand += a: old value widened to dtype, rounded once */

typedef enum bt_fused_op {
#define BT_FUSED_OP_ENUM(name, text, uses) BT_FUSED_##name,
    BT_FUSED_OP_LIST(BT_FUSED_OP_ENUM)
#undef BT_FUSED_OP_ENUM
        BT_FUSED_OP_COUNT
} bt_fused_op;

// Order of a reduction. Element i belongs to lane i % lanes. A lane adds its elements ascending: in
// `part` for `block` of them, then the part is added to the lane's sum in `sum` and starts again at
// 0; block 0 adds each element to the lane's sum at once. The lanes' sums are added by halves:
// lane j += lane j + lanes / 2, then lanes / 4, ... 1. lanes 0: the emitter chooses the order,
// which is fixed for a shape; the error bound is that of a sum in `sum`.
// Each element is rounded to `part`, or to `sum` where it is added to that, and the result to the
// instruction's dtype. Column sums: element i is row i; lanes 1 is ascending.
// RESULT of a PRODUCT: lanes 1 adds the terms of k ascending, each with one rounding (fma).
typedef struct bt_fused_order {
    int lanes;     // 0 or a power of two
    int64_t block; // elements of a lane
    bool tail;     // elements after the last whole round of lanes are added directly to the lane's
                   // sum, after its last part
    bt_dtype part, sum;
} bt_fused_order;

// Along which axes an instruction's result varies.
typedef enum bt_fused_extent {
    BT_FUSED_SCALAR,     // one value
    BT_FUSED_PER_ROW,    // one per row: it depends on all axes but the last
    BT_FUSED_PER_COLUMN, // one per column: it depends on the last axis only
    BT_FUSED_FULL
} bt_fused_extent;

typedef struct bt_fused_instruction {
    bt_fused_op op;
    bt_dtype dtype; // of the result and the arithmetic
    int a, b, c;    // earlier instructions; -1: none
    int operand;    // LOAD, STORE, STORE_ADD; else -1
    bt_unary function;
    double value; // CONST; alpha of UNARY and SLOPE
    int axis;     // INDEX
    struct {
        double rate;
        uint64_t seed, stream; // the element's number is its row-major index, as in bt_dropout_args
    } dropout;
    bt_fused_order order;   // of reductions, and of RESULT
    bt_fused_extent extent; // the builders write it
} bt_fused_instruction;

typedef struct bt_fused_operand {
    bt_dtype dtype;
    int64_t stride[BT_MAX_RANK]; // elements per axis of the group; 0: broadcast. The reduced axes
                                 // of a reduction's result have 0
    int64_t count;               // elements from the first to the last that the group accesses
    bool is_read, is_written;
    int value; // value of the graph it stands for (the written one if both), -1 if built by hand
    int64_t offset_bytes; // where the operand begins in that value
} bt_fused_operand;

typedef struct bt_fused {
    bt_fused_kind kind;
    int rank;
    int64_t shape[BT_MAX_RANK];
    bool dynamic_rows; // axis 0 may have another size at each call (batch); others are fixed
    int number;        // number in its plan (fuse.h); 0 if built by hand
    int operand_count;
    bt_fused_operand operands[BT_FUSED_OPERANDS_MOST];
    int code_count;
    bt_fused_instruction code[BT_FUSED_CODE_MOST];
    // PRODUCT: the call whose result the program modifies. The axes but the
    // last are batch and m, possibly split. Its a, b are operands call_operand[0], [1]. ATTENTION:
    // q, k, v.
    bt_gemm_args product;
    bt_attention_shape attention;
    int call_operand[3]; // -1: none
} bt_fused;

// ---- building; all return the new instruction, and write the first failure to *status -----------

typedef struct bt_fused_builder {
    bt_fused *group; // borrowed
    bt_status status;
} bt_fused_builder;

// Shapes  shape [rank], each at least 1
BT_CHECKED bt_status bt_fused_init(bt_fused *group, bt_fused_kind kind, const int64_t *shape,
                                   int rank);
// A new operand with the strides given; returns its number. NULL: contiguous, of the group's shape.
int bt_fused_operand_add(bt_fused_builder *b, bt_dtype dtype, const int64_t *stride);
int bt_fused_load(bt_fused_builder *b, int operand);
void bt_fused_store(bt_fused_builder *b, int operand, int a);
void bt_fused_store_add(bt_fused_builder *b, int operand, int a);
int bt_fused_const(bt_fused_builder *b, bt_dtype dtype, double value);
int bt_fused_cast(bt_fused_builder *b, int a, bt_dtype dtype); // a itself where it is of that type
int bt_fused_unary(bt_fused_builder *b, bt_unary function, double alpha, int a);
int bt_fused_slope(bt_fused_builder *b, bt_unary function, double alpha, int a);
// ADD, SUB, MUL, DIV, MAX, EQUAL; a and b of one type.
int bt_fused_binary(bt_fused_builder *b, bt_fused_op op, int first, int second);
int bt_fused_ternary(bt_fused_builder *b, bt_fused_op op, int first, int second, int third);
int bt_fused_reduce(bt_fused_builder *b, bt_fused_op op, int first, int second,
                    bt_fused_order order);
// Any other instruction, checked; `made` is copied, its extent is ignored.
int bt_fused_append(bt_fused_builder *b, const bt_fused_instruction *made);

// The order of the CPU's row sums: 32 lanes, `block` elements of a lane in the row's type.
bt_fused_order bt_fused_lanes(bt_dtype part, int64_t block, bt_dtype sum);

// ---- queries ------------------------------------------------------------------------------------

const char *bt_fused_op_text(bt_fused_op op);
const char *bt_fused_kind_text(bt_fused_kind kind);
const char *bt_fused_extent_text(bt_fused_extent extent);
int bt_fused_op_uses(bt_fused_op op); // how many of a, b, c
bool bt_fused_op_reduces(bt_fused_op op);
// exp(x - the row's largest x).
bool bt_fused_is_softmax_exp(const bt_fused *group, const bt_fused_instruction *x);
// The extent of the instruction's result, derived from its operands.
bt_fused_extent bt_fused_extent_of(const bt_fused *group, const bt_fused_instruction *x);
// Errors  INVALID_ARGUMENT naming the instruction: invariants 1, 4, 5, operand numbers, extents
BT_CHECKED bt_status bt_fused_check(const bt_fused *group);
// Merges adjacent axes whose strides are contiguous for every operand. Axes used by INDEX, and the
// last axis of a group with reductions, are kept.
void bt_fused_collapse(bt_fused *group);
// Bytes that the kernel reads and writes if each operand is moved once.
int64_t bt_fused_bytes(const bt_fused *group);
// As text, one instruction per line; equal groups have equal text, which can be hashed. Dynamic
// rows are omitted: a kernel serves any number.
void bt_fused_print(const bt_fused *group, bt_str *out);

#endif
