// framework/compiler/emit_math.h - the functions of UNARY as MLIR, for both devices
#ifndef BT_COMPILER_EMIT_MATH_H
#define BT_COMPILER_EMIT_MATH_H

#include <stdbool.h>

#include "framework/compiler/ir.h"
#include "kernels/kernels.h"

// f(x) and f'(x) of f32 or f64, with the bits of the CPU's kernels (kernels/cpu/math.h).
int bt_emit_unary_cpu(bt_ir *ir, bt_unary function, double alpha, bt_ir_type type, int x);
int bt_emit_slope_cpu(bt_ir *ir, bt_unary function, double alpha, bt_ir_type type, int x);
// exp(x) for x <= 1: the same bits with fewer steps.
int bt_emit_exp_falling_cpu(bt_ir *ir, bt_ir_type type, int x);

// The same of f32 for CUDA: the operations of kernels/cuda/unary.cu.
int bt_emit_unary_cuda(bt_ir *ir, bt_unary function, double alpha, bt_ir_type type, int x);
int bt_emit_slope_cuda(bt_ir *ir, bt_unary function, double alpha, bt_ir_type type, int x);

#endif
