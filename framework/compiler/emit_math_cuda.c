// framework/compiler/emit_math_cuda.c - the functions of UNARY as MLIR for CUDA
//
// The formulas of kernels/cuda/unary.cu and gelu.cuh. Exponentials in GELU, SILU, SIGMOID and
// softmax are ex2.approx and their quotients rcp.approx, both of which flush subnormal numbers;
// EXP, LOG and TANH are from libdevice. nvcc may contract a product and a sum, this emitter does
// not, so results may differ from those kernels by an ulp.
#include "framework/compiler/emit_math.h"

#include <stdio.h>

#define K(value)     bt_ir_float(ir, t, (value))
#define ADD(a, b)    bt_ir_two(ir, "arith.addf", t, a, b)
#define SUB(a, b)    bt_ir_two(ir, "arith.subf", t, a, b)
#define MUL(a, b)    bt_ir_two(ir, "arith.mulf", t, a, b)
#define DIV(a, b)    bt_ir_two(ir, "arith.divf", t, a, b)
#define FMA(a, b, c) bt_ir_fma(ir, t, a, b, c)

static const double gelu_a = 0.7978845608028654, log2_of_e = 1.4426950408889634;
static const double gelu_b = 0.7978845608028654 * 0.044715;

// `format` has %d for the operand's number and ends in the types; a vector is processed lane by
// lane.
static int each_lane(bt_ir *ir, bt_ir_type t, const char *before, const char *after, int x)
{
    if (!t.lanes) {
        const int v = bt_ir_begin(ir);
        bt_ir_rest(ir, "%s%%v%d%s", before, x, after);
        return v;
    }
    int all = K(0);
    for (int i = 0; i < t.lanes; ++i) {
        const int one = bt_ir_extract(ir, t, x, i), made = bt_ir_begin(ir);
        bt_ir_rest(ir, "%s%%v%d%s", before, one, after);
        all = bt_ir_insert(ir, t, made, all, i);
    }
    return all;
}

static int intrinsic(bt_ir *ir, bt_ir_type t, const char *name, int x)
{
    char before[96];
    (void)snprintf(before, sizeof before, "llvm.call_intrinsic \"llvm.nvvm.%s\"(", name);
    return each_lane(ir, t, before, ") : (f32) -> f32", x);
}

static int library(bt_ir *ir, bt_ir_type t, const char *name, int x)
{
    char before[32];
    (void)snprintf(before, sizeof before, "math.%s ", name);
    return each_lane(ir, t, before, " : f32", x);
}

static int exp_base2(bt_ir *ir, bt_ir_type t, int x)
{
    return intrinsic(ir, t, "ex2.approx.ftz.f", MUL(x, K(log2_of_e)));
}

int bt_emit_softmax_exp_cuda(bt_ir *ir, bt_ir_type t, int x)
{
    return t.kind == BT_IR_F32 ? exp_base2(ir, t, x) : bt_emit_unary_cuda(ir, BT_UNARY_EXP, t, x);
}

static int sigmoid(bt_ir *ir, bt_ir_type t, int x)
{
    const int e = intrinsic(ir, t, "ex2.approx.ftz.f", MUL(x, K(-log2_of_e)));
    return intrinsic(ir, t, "rcp.approx.ftz.f", ADD(K(1), e));
}

// Rounded to nearest, as by nvcc. (The pass to NVVM maps MLIR's own functions to libdevice.)
static int root(bt_ir *ir, bt_ir_type t, int x)
{
    return t.kind == BT_IR_F32 ? intrinsic(ir, t, "sqrt.rn.f", x)
                               : each_lane(ir, t, "llvm.call_intrinsic \"llvm.nvvm.sqrt.rn.d\"(",
                                           ") : (f64) -> f64", x);
}

static bool is_f32_only(bt_unary function)
{
    return function == BT_UNARY_GELU || function == BT_UNARY_SILU || function == BT_UNARY_TANH ||
           function == BT_UNARY_SIGMOID || function == BT_UNARY_EXP || function == BT_UNARY_LOG;
}

const char *bt_emit_math_cuda_refuses(const bt_fused_instruction *x)
{
    const bool has_function = x->op == BT_FUSED_UNARY || x->op == BT_FUSED_SLOPE;
    const bool is_quotient = x->op == BT_FUSED_SLOPE && x->function == BT_UNARY_LOG; // 1 / a
    return has_function && x->dtype != BT_F32 && is_f32_only(x->function) && !is_quotient
               ? "no CUDA code is generated for this function of f64"
               : NULL;
}

static bool is_refused(bt_ir *ir, bt_unary function, bt_ir_type t)
{
    const bool refused = t.kind != BT_IR_F32 && is_f32_only(function);
    if (refused && ir->out.status == BT_OK) {
        ir->out.status = bt_error(BT_STATUS_UNSUPPORTED, "no generated %s of f64 for CUDA",
                                  bt_unary_name(function));
    }
    return refused;
}

int bt_emit_unary_cuda(bt_ir *ir, bt_unary function, bt_ir_type t, int x)
{
    if (is_refused(ir, function, t)) {
        return x;
    }
    switch (function) {
    case BT_UNARY_GELU:
        return MUL(x, sigmoid(ir, t, MUL(x, FMA(MUL(K(2 * gelu_b), x), x, K(2 * gelu_a)))));
    case BT_UNARY_SILU:
        return MUL(x, sigmoid(ir, t, x));
    case BT_UNARY_TANH:
        return library(ir, t, "tanh", x);
    case BT_UNARY_SIGMOID:
        return sigmoid(ir, t, x);
    case BT_UNARY_EXP:
        return library(ir, t, "exp", x);
    case BT_UNARY_LOG:
        return library(ir, t, "log", x);
    case BT_UNARY_SQRT:
        return root(ir, t, x);
    case BT_UNARY_RELU:
    case BT_UNARY_NEGATE:
    case BT_UNARY_SQUARE:
    case BT_UNARY_SCALE:
    case BT_UNARY_SHIFT:
    case BT_UNARY_COUNT:
        break;
    }
    return x;
}

// s + x s (1 - s) inner'
static int gated_slope(bt_ir *ir, bt_ir_type t, int x, int s, int inner_slope)
{
    const int rise = MUL(MUL(x, s), SUB(K(1), s));
    return FMA(rise, inner_slope, s);
}

int bt_emit_slope_cuda(bt_ir *ir, bt_unary function, bt_ir_type t, int x)
{
    int s = 0, inner = 0;
    if (is_refused(ir, function, t)) {
        return x;
    }
    switch (function) {
    case BT_UNARY_GELU:
        inner = MUL(x, FMA(MUL(K(2 * gelu_b), x), x, K(2 * gelu_a)));
        s = sigmoid(ir, t, inner);
        return gated_slope(ir, t, x, s, FMA(MUL(K(6 * gelu_b), x), x, K(2 * gelu_a)));
    case BT_UNARY_RELU:
        s = bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf ole", t, x, K(0)), K(0), K(1));
        return bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf uno", t, x, x), x, s);
    case BT_UNARY_SILU:
        return gated_slope(ir, t, x, sigmoid(ir, t, x), K(1));
    case BT_UNARY_TANH:
        s = library(ir, t, "tanh", x);
        return SUB(K(1), MUL(s, s));
    case BT_UNARY_SIGMOID:
        s = sigmoid(ir, t, x);
        return MUL(s, SUB(K(1), s));
    case BT_UNARY_EXP:
    case BT_UNARY_LOG:
    case BT_UNARY_SQRT:
    case BT_UNARY_NEGATE:
    case BT_UNARY_SQUARE:
    case BT_UNARY_SCALE:
    case BT_UNARY_SHIFT:
    case BT_UNARY_COUNT:
        break;
    }
    return x;
}
