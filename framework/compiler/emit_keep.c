// framework/compiler/emit_keep.c - which elements dropout keeps, as MLIR
//
// Philox4x32-10 as in framework/base/rng.c: element i takes word i % 4 of block i / 4. Every lane
// computes its own block and uses one of the four words: simple, and on a GPU hidden behind memory
// traffic.
#include "framework/compiler/emit_math.h"

enum { ROUNDS = 10 };

#define OP(op, a, b) bt_ir_two(ir, "arith." op, wide, a, b)
#define INT(value)   bt_ir_int(ir, wide, (int64_t)(value))

static const uint32_t low_half = 0xFFFFFFFFU;

// The words have 32 bits and are held in 64, so that a product needs no high half.
static void one_round(bt_ir *ir, bt_ir_type wide, int *c, uint32_t key0, uint32_t key1)
{
    const int mask = INT(low_half), half = INT(32);
    const int first = OP("muli", INT(0xD2511F53U), c[0]);
    const int second = OP("muli", INT(0xCD9E8D57U), c[2]);
    const int c0 = OP("xori", OP("xori", OP("shrui", second, half), c[1]), INT(key0));
    const int c2 = OP("xori", OP("xori", OP("shrui", first, half), c[3]), INT(key1));
    c[0] = c0;
    c[1] = OP("andi", second, mask);
    c[2] = c2;
    c[3] = OP("andi", first, mask);
}

// The word of element `number`, in [0, 2^32).
static int word_of(bt_ir *ir, bt_ir_type wide, uint64_t seed, uint64_t stream, int number)
{
    const int block = OP("shrui", number, INT(2));
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    int c[4] = {OP("andi", block, INT(low_half)), OP("shrui", block, INT(32)),
                INT((uint32_t)stream), INT((uint32_t)(stream >> 32))};
    for (int round = 0; round < ROUNDS; ++round) {
        one_round(ir, wide, c, key0, key1);
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    const int place = OP("andi", number, INT(3));
    int word = c[0];
    for (int i = 1; i < 4; ++i) {
        word =
            bt_ir_select(ir, wide, bt_ir_compare(ir, "cmpi eq", wide, place, INT(i)), c[i], word);
    }
    return word;
}

int bt_emit_keep(bt_ir *ir, const bt_fused_instruction *x, int lanes, int number)
{
    const bt_ir_type wide = bt_ir_make(BT_IR_I64, lanes), f64 = bt_ir_make(BT_IR_F64, lanes);
    const bt_ir_type f32 = bt_ir_make(BT_IR_F32, lanes);
    const int word = word_of(ir, wide, x->dropout.seed, x->dropout.stream, number);
    const int upper = bt_ir_convert(ir, "arith.sitofp", wide, f64, OP("shrui", word, INT(8)));
    const int middle = bt_ir_two(ir, "arith.addf", f64, upper, bt_ir_float(ir, f64, 0.5));
    const int unit = bt_ir_two(ir, "arith.mulf", f64, middle, bt_ir_float(ir, f64, 0x1p-24));
    const int rounded = bt_ir_convert(ir, "arith.extf", f32, f64,
                                      bt_ir_convert(ir, "arith.truncf", f64, f32, unit));
    const int kept =
        bt_ir_compare(ir, "cmpf oge", f64, rounded, bt_ir_float(ir, f64, x->dropout.rate));
    const bt_ir_type type = bt_ir_make(bt_ir_kind_of(ir, x->dtype), lanes);
    return bt_ir_select(ir, type, kept, bt_ir_float(ir, type, 1), bt_ir_zero(ir, type));
}
