// framework/compiler/emit_math.c - the functions of UNARY as MLIR for the CPU
//
// The same operations in the same order as kernels/cpu/math.h, hence the same bits; see its
// comments. f32 uses polynomials, f64 calls libm.
#include "framework/compiler/emit_math.h"

#define K(value)      bt_ir_float(ir, t, (value))
#define ADD(a, b)     bt_ir_two(ir, "arith.addf", t, a, b)
#define SUB(a, b)     bt_ir_two(ir, "arith.subf", t, a, b)
#define MUL(a, b)     bt_ir_two(ir, "arith.mulf", t, a, b)
#define DIV(a, b)     bt_ir_two(ir, "arith.divf", t, a, b)
#define FMA(a, b, c)  bt_ir_fma(ir, t, a, b, c)
#define BITS(a)       bt_ir_convert(ir, "arith.bitcast", t, bits_type(t), a)
#define FLOAT(a)      bt_ir_convert(ir, "arith.bitcast", bits_type(t), t, a)
#define I(value)      bt_ir_int(ir, bits_type(t), (value))
#define INT(op, a, b) bt_ir_two(ir, "arith." op, bits_type(t), a, b)

static bt_ir_type bits_type(bt_ir_type t)
{
    return bt_ir_make(t.kind == BT_IR_F64 ? BT_IR_I64 : BT_IR_I32, t.lanes);
}

static bool is_wide(bt_ir_type t) { return t.kind == BT_IR_F64; }

static int negate(bt_ir *ir, bt_ir_type t, int x) { return bt_ir_one(ir, "arith.negf", t, x); }

static int minus_abs(bt_ir *ir, bt_ir_type t, int x)
{
    return negate(ir, t, bt_ir_call(ir, "fabs", t, 1, x, -1, -1));
}

// a > b ? a : b and the like: predicate "cmpf ogt", "cmpf olt".
static int limit(bt_ir *ir, bt_ir_type t, const char *predicate, int a, int b)
{
    return bt_ir_select(ir, t, bt_ir_compare(ir, predicate, t, a, b), a, b);
}

// exp(r) of the reduced argument; *bits: the power of two plus `offset`, in the low bits.
static int exp_reduced(bt_ir *ir, bt_ir_type t, int x, float offset, int *bits)
{
    static const float terms[] = {8.368745e-3F, 4.166839e-2F, 0.16666521F, 0.49999994F, 1.0F, 1.0F};
    const int round_to_integer = K((double)(12582912.0F + offset));
    const int shifted = FMA(x, K((double)1.44269504F), round_to_integer);
    const int n = SUB(shifted, round_to_integer);
    const int high = FMA(n, K((double)-0.693147182F), x);
    const int r = FMA(n, K((double)1.90465421e-9F), high);
    int q = K((double)1.3814539e-3F);
    for (size_t i = 0; i < sizeof terms / sizeof *terms; ++i) {
        q = FMA(q, r, K((double)terms[i]));
    }
    *bits = BITS(shifted);
    return q;
}

static int exp_any(bt_ir *ir, bt_ir_type t, int x)
{
    if (is_wide(t)) {
        return bt_ir_one(ir, "math.exp", t, x);
    }
    int bits = 0;
    x = bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf ogt", t, x, K(90)), K(90), x);
    x = bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf olt", t, x, K(-105)), K(-105), x);
    const int p = exp_reduced(ir, t, x, 0, &bits);
    const int n = INT("subi", bits, I(0x4B400000));
    const int half = INT("shrsi", n, I(1)), other = INT("subi", n, half);
    const int first = FLOAT(INT("shli", INT("addi", half, I(127)), I(23)));
    const int second = FLOAT(INT("shli", INT("addi", other, I(127)), I(23)));
    return MUL(MUL(p, first), second);
}

// exp(x) for x <= 1: the bits of exp_any with fewer steps.
static int exp_falling(bt_ir *ir, bt_ir_type t, int x)
{
    if (is_wide(t)) {
        return bt_ir_one(ir, "math.exp", t, x);
    }
    int bits = 0;
    x = bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf olt", t, x, K(-105)), K(-105), x);
    const int p = exp_reduced(ir, t, x, 160, &bits);
    return MUL(MUL(p, FLOAT(INT("shli", bits, I(23)))), K(0x1p-33));
}

int bt_emit_softmax_exp_cpu(bt_ir *ir, bt_ir_type t, int x)
{
    if (is_wide(t)) {
        return bt_ir_one(ir, "math.exp", t, x);
    }
    int bits = 0;
    const int p = exp_reduced(ir, t, limit(ir, t, "cmpf ogt", K(-88), x), 127, &bits);
    return MUL(p, FLOAT(INT("shli", bits, I(23))));
}

static int nearer(bt_ir *ir, bt_ir_type t, int x, double to)
{
    if (is_wide(t)) {
        return limit(ir, t, "cmpf olt", x, K(to));
    }
    return FLOAT(INT("minui", BITS(x), BITS(K(to))));
}

static int exp_negative(bt_ir *ir, bt_ir_type t, int x)
{
    if (is_wide(t)) {
        return bt_ir_one(ir, "math.exp", t, x);
    }
    int bits = 0;
    const int p = exp_reduced(ir, t, nearer(ir, t, x, -88), 127, &bits);
    return MUL(p, FLOAT(INT("shli", bits, I(23))));
}

static int one_plus_exp(bt_ir *ir, bt_ir_type t, int x)
{
    if (is_wide(t)) {
        return ADD(K(1), bt_ir_one(ir, "math.exp", t, x));
    }
    int bits = INT("minsi", BITS(x), I(0x42B20000));
    bits = INT("minui", bits, I((int32_t)0xC2AE0000));
    const int p = exp_reduced(ir, t, FLOAT(bits), 127, &bits);
    return FMA(p, FLOAT(INT("shli", bits, I(23))), K(1));
}

static int gelu_inner(bt_ir *ir, bt_ir_type t, int x, int z)
{
    return MUL(x, FMA(z, K(0.07135481627260025), K(1.5957691216057308)));
}

static int tanh_of(bt_ir *ir, bt_ir_type t, int x)
{
    static const float terms[] = {2.0606175e-2F, -5.3730007e-2F, 0.13331331F, -0.33333278F};
    if (is_wide(t)) {
        return bt_ir_one(ir, "math.tanh", t, x);
    }
    const int z = MUL(x, x);
    int q = K((double)-5.6669763e-3F);
    for (size_t i = 0; i < sizeof terms / sizeof *terms; ++i) {
        q = FMA(q, z, K((double)terms[i]));
    }
    const int near = FMA(MUL(x, z), q, x);
    const int e = exp_falling(ir, t, MUL(K(2), minus_abs(ir, t, x)));
    const int size = DIV(SUB(K(1), e), ADD(K(1), e));
    const int far = bt_ir_call(ir, "copysign", t, 2, size, x, -1);
    const int small =
        bt_ir_compare(ir, "cmpf olt", t, bt_ir_call(ir, "fabs", t, 1, x, -1, -1), K(0.625));
    return bt_ir_select(ir, t, small, near, far);
}

static int sigmoid(bt_ir *ir, bt_ir_type t, int x)
{
    const int e = exp_falling(ir, t, minus_abs(ir, t, x));
    const int negative = bt_ir_compare(ir, "cmpf olt", t, x, K(0));
    return DIV(bt_ir_select(ir, t, negative, e, K(1)), ADD(K(1), e));
}

// Returns the sigmoid; its slope goes to *slope.
static int sigmoid_both(bt_ir *ir, bt_ir_type t, int x, int *slope)
{
    const int e = exp_falling(ir, t, minus_abs(ir, t, x));
    const int larger = DIV(K(1), ADD(K(1), e)), smaller = MUL(e, larger);
    *slope = MUL(smaller, larger);
    return bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf olt", t, x, K(0)), smaller, larger);
}

int bt_emit_unary_cpu(bt_ir *ir, bt_unary function, bt_ir_type t, int x)
{
    switch (function) {
    case BT_UNARY_GELU:
        return DIV(x, one_plus_exp(ir, t, negate(ir, t, gelu_inner(ir, t, x, MUL(x, x)))));
    case BT_UNARY_SILU:
        return DIV(x, one_plus_exp(ir, t, negate(ir, t, x)));
    case BT_UNARY_TANH:
        return tanh_of(ir, t, x);
    case BT_UNARY_SIGMOID:
        return sigmoid(ir, t, x);
    case BT_UNARY_EXP:
        return exp_any(ir, t, x);
    case BT_UNARY_LOG:
        return bt_ir_one(ir, "math.log", t, x);
    case BT_UNARY_SQRT:
        return bt_ir_call(ir, "sqrt", t, 1, x, -1, -1);
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

static int gelu_slope(bt_ir *ir, bt_ir_type t, int x)
{
    const int z = nearer(ir, t, MUL(x, x), is_wide(t) ? 1600 : 101);
    const int inner = gelu_inner(ir, t, x, z);
    const int inner_slope = FMA(z, K(0.21406444881780073), K(1.5957691216057308));
    const int e = exp_negative(ir, t, minus_abs(ir, t, inner));
    const int larger = DIV(K(1), ADD(K(1), e)), smaller = MUL(e, larger);
    const int negative = bt_ir_compare(ir, "cmpf olt", t, inner, K(0));
    const int s = bt_ir_select(ir, t, negative, smaller, larger);
    return FMA(x, MUL(inner_slope, MUL(smaller, larger)), s);
}

int bt_emit_slope_cpu(bt_ir *ir, bt_unary function, bt_ir_type t, int x)
{
    int slope = 0, s = 0;
    switch (function) {
    case BT_UNARY_GELU:
        return gelu_slope(ir, t, x);
    case BT_UNARY_RELU:
        return bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf ole", t, x, K(0)), K(0), K(1));
    case BT_UNARY_SILU:
        s = sigmoid_both(ir, t, x, &slope);
        return FMA(x, slope, s);
    case BT_UNARY_TANH:
        (void)sigmoid_both(ir, t, MUL(K(2), x), &slope);
        return MUL(K(4), slope);
    case BT_UNARY_SIGMOID:
        (void)sigmoid_both(ir, t, x, &slope);
        return slope;
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
