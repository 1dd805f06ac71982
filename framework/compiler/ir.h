// framework/compiler/ir.h - writes MLIR text, one operation per call
//
// A value is the number of an SSA name, %v<number>; types are given by the caller. Only
// out-of-memory is detected here (bt_ir.out keeps the first error): the text is verified when it is
// lowered.
#ifndef BT_COMPILER_IR_H
#define BT_COMPILER_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/dtype.h"
#include "framework/base/str.h"

typedef enum bt_ir_kind {
    BT_IR_F32,
    BT_IR_F64,
    BT_IR_I1,
    BT_IR_BF16,
    BT_IR_I16, // also the bits of a bf16
    BT_IR_I32,
    BT_IR_I64,
    BT_IR_KIND_COUNT
} bt_ir_kind;

typedef struct bt_ir_type {
    bt_ir_kind kind;
    int lanes; // of a vector; 0: a scalar
} bt_ir_type;

typedef struct bt_ir {
    bt_str out;       // owned
    int next;         // the next value's number
    int depth;        // nesting depth, for indentation
    bool native_bf16; // bf16 is a native type of the device, not bits in an I16
} bt_ir;

typedef struct bt_ir_name { // the text of a type
    char text[32];
} bt_ir_name;

// bf16 is I16, its bits, unless the device has the type.
bt_ir_kind bt_ir_kind_of(const bt_ir *ir, bt_dtype dtype);
const char *bt_ir_kind_name(bt_ir_kind kind);
static inline bt_ir_type bt_ir_make(bt_ir_kind kind, int lanes)
{
    return (bt_ir_type){kind, lanes};
}
bt_ir_name bt_ir_type_name(bt_ir_type type);

// A line of text, indented. Without the newline.
void bt_ir_line(bt_ir *ir, const char *format, ...) BT_PRINTF(2, 3);
// Begins a line with "%v7 = " for a new value; the caller ends it with bt_ir_rest.
int bt_ir_begin(bt_ir *ir);
void bt_ir_rest(bt_ir *ir, const char *format, ...) BT_PRINTF(2, 3);

// A failure to build a part of a line is one of the text: a text with a part missing is never used.
void bt_ir_keep_failure(bt_ir *ir, const bt_str *part);

int bt_ir_float(bt_ir *ir, bt_ir_type type, double value);
int bt_ir_zero(bt_ir *ir, bt_ir_type type); // of any type
int bt_ir_int(bt_ir *ir, bt_ir_type type, int64_t value);
// 0, 1, 2 ... of a vector of integers.
int bt_ir_lane_numbers(bt_ir *ir, bt_ir_type type);
// "op %a : type", "op %a, %b : type".
int bt_ir_one(bt_ir *ir, const char *op, bt_ir_type type, int a);
int bt_ir_two(bt_ir *ir, const char *op, bt_ir_type type, int a, int b);
// "arith.cmpf ogt, %a, %b : type": predicate "cmpf ogt", "cmpi slt". A value of I1.
int bt_ir_compare(bt_ir *ir, const char *predicate, bt_ir_type type, int a, int b);
int bt_ir_select(bt_ir *ir, bt_ir_type type, int condition, int a, int b);
// "op %a : from to to": arith.extf, truncf, bitcast, extsi ...
int bt_ir_convert(bt_ir *ir, const char *op, bt_ir_type from, bt_ir_type to, int a);
// LLVM's fma, sqrt, fabs, copysign: "llvm.intr.name(%a, ...) : (type, ...) -> type", count 1 to 3.
int bt_ir_call(bt_ir *ir, const char *name, bt_ir_type type, int count, int a, int b, int c);
int bt_ir_fma(bt_ir *ir, bt_ir_type type, int a, int b, int c);
int bt_ir_broadcast(bt_ir *ir, bt_ir_type type, int scalar);
// The vector with one lane replaced.
int bt_ir_insert(bt_ir *ir, bt_ir_type type, int scalar, int vector, int lane);
int bt_ir_extract(bt_ir *ir, bt_ir_type type, int vector, int lane);
// Lanes [first, first + count) of a vector.
int bt_ir_slice(bt_ir *ir, bt_ir_type type, int vector, int first, int count);

// From one element type of tensors to another, to nearest even; lanes of both are equal.
// Errors  UNSUPPORTED, which makes ir->out fail: floats to integers, f64 to bf16
int bt_ir_cast(bt_ir *ir, bt_dtype from, bt_dtype to, int lanes, int a);

#endif
