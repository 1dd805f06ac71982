// framework/compiler/emit_arithmetic.c - instructions that are the same on every device
#include "framework/compiler/emit_math.h"

static bool is_floating(bt_ir_type type)
{
    return type.kind == BT_IR_F32 || type.kind == BT_IR_F64;
}

static bt_ir_type type_of(const bt_ir *ir, const bt_fused *g, int i, int lanes)
{
    return bt_ir_make(bt_ir_kind_of(ir, g->code[i].dtype), lanes);
}

static int equal(bt_ir *ir, bt_ir_type from, bt_ir_type to, const int *in)
{
    const int same =
        bt_ir_compare(ir, is_floating(from) ? "cmpf oeq" : "cmpi eq", from, in[0], in[1]);
    const int one = is_floating(to) ? bt_ir_float(ir, to, 1) : bt_ir_int(ir, to, 1);
    return bt_ir_select(ir, to, same, one, bt_ir_zero(ir, to));
}

static int choose(bt_ir *ir, bt_ir_type from, bt_ir_type to, const int *in)
{
    const int set = bt_ir_compare(ir, is_floating(from) ? "cmpf une" : "cmpi ne", from, in[0],
                                  bt_ir_zero(ir, from));
    return bt_ir_select(ir, to, set, in[1], in[2]);
}

// ---- functions that are the same on every device ------------------------------------------------

static int unary(bt_ir *ir, const bt_fused_instruction *x, bt_ir_type t, int a,
                 const bt_emit_functions *functions)
{
    int zero = 0;
    switch ((int)x->function) {
    case BT_UNARY_RELU: // of NaN itself
        zero = bt_ir_zero(ir, t);
        return bt_ir_select(ir, t, bt_ir_compare(ir, "cmpf olt", t, a, zero), zero, a);
    case BT_UNARY_NEGATE:
        return bt_ir_one(ir, "arith.negf", t, a);
    case BT_UNARY_SQUARE:
        return bt_ir_two(ir, "arith.mulf", t, a, a);
    case BT_UNARY_SCALE:
        return bt_ir_two(ir, "arith.mulf", t, bt_ir_float(ir, t, x->value), a);
    case BT_UNARY_SHIFT:
        return bt_ir_two(ir, "arith.addf", t, a, bt_ir_float(ir, t, x->value));
    default:
        return functions->unary(ir, x->function, t, a);
    }
}

static int slope(bt_ir *ir, const bt_fused_instruction *x, bt_ir_type t, int a,
                 const bt_emit_functions *functions)
{
    switch ((int)x->function) {
    case BT_UNARY_EXP:
        return functions->unary(ir, BT_UNARY_EXP, t, a);
    case BT_UNARY_LOG:
        return bt_ir_two(ir, "arith.divf", t, bt_ir_float(ir, t, 1), a);
    case BT_UNARY_SQRT:
        return bt_ir_two(ir, "arith.divf", t, bt_ir_float(ir, t, 0.5),
                         functions->unary(ir, BT_UNARY_SQRT, t, a));
    case BT_UNARY_NEGATE:
        return bt_ir_float(ir, t, -1);
    case BT_UNARY_SQUARE:
        return bt_ir_two(ir, "arith.mulf", t, bt_ir_float(ir, t, 2), a);
    case BT_UNARY_SCALE:
        return bt_ir_float(ir, t, x->value);
    case BT_UNARY_SHIFT:
        return bt_ir_float(ir, t, 1);
    default:
        return functions->slope(ir, x->function, t, a);
    }
}

int bt_emit_arithmetic(bt_ir *ir, const bt_fused *g, int i, int lanes, const int *in,
                       const bt_emit_functions *functions)
{
    static const char *const floats[] = {"arith.addf", "arith.subf", "arith.mulf", "arith.divf"};
    static const char *const ints[] = {"arith.addi", "arith.subi", "arith.muli", "arith.divsi"};
    const bt_fused_instruction *x = &g->code[i];
    const bt_ir_type type = type_of(ir, g, i, lanes);
    const bool floating = is_floating(type);
    switch ((int)x->op) {
    case BT_FUSED_CONST:
        return floating ? bt_ir_float(ir, type, x->value) : bt_ir_int(ir, type, (int64_t)x->value);
    case BT_FUSED_CAST:
        return bt_ir_cast(ir, g->code[x->a].dtype, x->dtype, lanes, in[0]);
    case BT_FUSED_UNARY:
        return bt_fused_is_softmax_exp(g, x) ? functions->softmax_exp(ir, type, in[0])
                                             : unary(ir, x, type, in[0], functions);
    case BT_FUSED_SLOPE:
        return slope(ir, x, type, in[0], functions);
    case BT_FUSED_ADD:
    case BT_FUSED_SUB:
    case BT_FUSED_MUL:
    case BT_FUSED_DIV:
        return bt_ir_two(ir, (floating ? floats : ints)[x->op - BT_FUSED_ADD], type, in[0], in[1]);
    case BT_FUSED_MAX:
        return bt_ir_select(
            ir, type, bt_ir_compare(ir, floating ? "cmpf ogt" : "cmpi sgt", type, in[0], in[1]),
            in[0], in[1]);
    case BT_FUSED_FMA:
        return bt_ir_fma(ir, type, in[0], in[1], in[2]);
    case BT_FUSED_EQUAL:
        return equal(ir, type_of(ir, g, x->a, lanes), type, in);
    case BT_FUSED_SELECT:
        return choose(ir, type_of(ir, g, x->a, lanes), type, in);
    default:
        return -1;
    }
}
