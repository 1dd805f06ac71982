// framework/compiler/emit_math.h - arithmetic as MLIR: instructions, and the functions of UNARY of
// both devices
#ifndef BT_COMPILER_EMIT_MATH_H
#define BT_COMPILER_EMIT_MATH_H

#include <stdbool.h>

#include "framework/compiler/group.h"
#include "framework/compiler/ir.h"

// f(x) and f'(x) of f32 or f64, with the bits of the CPU's kernels (kernels/cpu/math.h). Functions
// of one or two operations are in emit_arithmetic.c, for every device.
int bt_emit_unary_cpu(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
int bt_emit_slope_cpu(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
// exp(x) for x <= 0 as in softmax: 0 where it is below 2^-126.5.
int bt_emit_softmax_exp_cpu(bt_ir *ir, bt_ir_type type, int x);

// The same in f32 for CUDA: the operations of kernels/cuda/unary.cu and softmax.cu.
// f64 supports SQRT and RELU only; other functions make ir->out UNSUPPORTED.
int bt_emit_unary_cuda(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
int bt_emit_slope_cuda(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
// Why there is no code for an instruction's function; NULL: there is, or it has none.
const char *bt_emit_math_cuda_refuses(const bt_fused_instruction *x);
// exp(x) for x <= 0, by ex2.approx: relative error below 2^-21 where x > -10.
int bt_emit_softmax_exp_cuda(bt_ir *ir, bt_ir_type type, int x);

// The operands of an instruction; returns their count.
static inline int bt_emit_uses(const bt_fused_instruction *x, int uses[3])
{
    const int count = bt_fused_op_uses(x->op);
    uses[0] = x->a, uses[1] = x->b, uses[2] = x->c;
    return count < 3 ? count : 3;
}

// A device's functions.
typedef struct bt_emit_functions {
    int (*unary)(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
    int (*slope)(bt_ir *ir, bt_unary function, bt_ir_type type, int x);
    int (*softmax_exp)(bt_ir *ir, bt_ir_type type, int x);
} bt_emit_functions;

// The result of an instruction of a group, as a vector or a scalar (lanes 0); in: its operands. -1:
// not an arithmetic instruction (LOAD, INDEX, reductions, stores).
int bt_emit_arithmetic(bt_ir *ir, const bt_fused *group, int i, int lanes, const int *in,
                       const bt_emit_functions *functions);
// KEEP: 1 if dropout keeps the element of this number, else 0, in x's type.
int bt_emit_keep(bt_ir *ir, const bt_fused_instruction *x, int lanes, int number);

#endif
