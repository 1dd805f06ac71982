// framework/compiler/emit_product.c - the CPU's emitter: a product's result, its sum over k
//
// One element of A and a vector of B's columns a step, k ascending, each term added with one
// rounding: the bits that group.h defines for RESULT with lanes 1. For tests and for graphs whose
// products are tiny; larger ones are OpenBLAS's.
#include "framework/compiler/emit_cpu.h"

static int constant(bt_emitter *e, int64_t value)
{
    return bt_ir_int(&e->ir, bt_emit_i64(), value);
}

static int i64(bt_emitter *e, const char *op, int a, int b)
{
    return bt_ir_two(&e->ir, op, bt_emit_i64(), a, b);
}

// first + number * stride
static int advanced(bt_emitter *e, int first, int number, int64_t stride)
{
    return i64(e, "arith.addi", first, i64(e, "arith.muli", number, constant(e, stride)));
}

static int loaded(bt_emitter *e, int operand, bt_dtype sum, int lanes)
{
    return bt_ir_cast(&e->ir, e->group->operands[operand].dtype, sum, lanes,
                      bt_emit_load(e, operand, lanes));
}

int bt_emit_product(bt_emitter *e, int i, int lanes)
{
    const bt_gemm_args *p = &e->group->product;
    const int a = e->group->call_operand[0], b = e->group->call_operand[1];
    const bt_dtype sum = e->group->code[i].dtype;
    const bt_ir_type type = bt_ir_make(bt_ir_kind_of(&e->ir, sum), lanes);
    const bt_ir_name name = bt_ir_type_name(type);
    const int zero = constant(e, 0), one = constant(e, 1), end = constant(e, p->k);
    const int line = p->batch > 1 ? i64(e, "arith.remui", e->row, constant(e, p->m)) : e->row;
    const int entry = p->batch > 1 ? i64(e, "arith.divui", e->row, constant(e, p->m)) : zero;
    const int first_a =
        advanced(e, advanced(e, zero, entry, p->stride_a), line, p->trans_a ? 1 : p->lda);
    const int first_b = advanced(e, zero, entry, p->stride_b);
    const int none = bt_ir_zero(&e->ir, type);
    const int all = bt_ir_begin(&e->ir), k = e->ir.next++, before = e->ir.next++;
    bt_ir_rest(&e->ir,
               "scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(%%v%d = %%v%d) -> (%s) : i64 {",
               k, zero, end, one, before, none, name.text);
    ++e->ir.depth;
    e->offset[a] = advanced(e, first_a, k, p->trans_a ? p->lda : 1);
    e->offset[b] = advanced(e, first_b, k, p->trans_b ? 1 : p->ldb);
    const int left = loaded(e, a, sum, 0);
    const int factor = lanes ? bt_ir_broadcast(&e->ir, type, left) : left;
    const int next = bt_ir_fma(&e->ir, type, factor, loaded(e, b, sum, lanes), before);
    bt_ir_line(&e->ir, "scf.yield %%v%d : %s", next, name.text);
    --e->ir.depth;
    bt_ir_line(&e->ir, "}");
    return all;
}
