// framework/compiler/emit_value.c - the CPU's emitter: one instruction's result
#include "framework/compiler/emit_cpu.h"
#include "framework/compiler/emit_math.h"

static bt_ir_type type_of(const bt_emitter *e, int i, int lanes)
{
    return bt_ir_make(bt_ir_kind_of(&e->ir, e->group->code[i].dtype), lanes);
}

void bt_emit_fail(bt_emitter *e, int i, const char *what)
{
    if (e->ir.out.status == BT_OK) {
        const bt_fused_instruction *x = &e->group->code[i];
        e->ir.out.status =
            bt_error(BT_STATUS_UNSUPPORTED, "no code is generated for instruction %d, %s %s: %s", i,
                     bt_fused_op_text(x->op), bt_dtype_name(x->dtype), what);
    }
}

void bt_emit_forget(bt_emitter *e)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        e->loop_value[i] = BT_EMIT_NONE;
    }
}

void bt_emit_mask(bt_emitter *e, int column, int end)
{
    const bt_ir_type lanes = bt_ir_make(BT_IR_I32, e->lanes);
    const int rest = bt_ir_two(&e->ir, "arith.subi", bt_emit_i64(), end, column);
    const int short_rest =
        bt_ir_convert(&e->ir, "arith.trunci", bt_emit_i64(), bt_ir_make(BT_IR_I32, 0), rest);
    const int all = bt_ir_broadcast(&e->ir, lanes, short_rest);
    e->column = column;
    e->mask = bt_ir_compare(&e->ir, "cmpi slt", lanes, bt_ir_lane_numbers(&e->ir, lanes), all);
}

static int place(bt_emitter *e, const bt_fused_instruction *x, int lanes)
{
    const bt_ir_type type = bt_ir_make(BT_IR_I64, lanes);
    if (!lanes) {
        return e->axis_index[x->axis];
    }
    return bt_ir_two(&e->ir, "arith.addi", type, bt_ir_broadcast(&e->ir, type, e->column),
                     bt_ir_lane_numbers(&e->ir, type));
}

// The row-major indices of this place's elements; a scalar has one per row.
static int element_numbers(bt_emitter *e, int lanes)
{
    const bt_ir_type type = bt_ir_make(BT_IR_I64, e->lanes);
    const int cols = bt_ir_int(&e->ir, bt_emit_i64(), e->group->shape[e->group->rank - 1]);
    const int before = bt_ir_two(&e->ir, "arith.muli", bt_emit_i64(), e->row, cols);
    if (!lanes) {
        return before;
    }
    const int first = bt_ir_two(&e->ir, "arith.addi", bt_emit_i64(), before, e->column);
    return bt_ir_two(&e->ir, "arith.addi", type, bt_ir_broadcast(&e->ir, type, first),
                     bt_ir_lane_numbers(&e->ir, type));
}

static int arithmetic(bt_emitter *e, int i, int lanes, const int *in)
{
    static const bt_emit_functions functions = {bt_emit_unary_cpu, bt_emit_slope_cpu,
                                                bt_emit_softmax_exp_cpu};
    const bt_fused_instruction *x = &e->group->code[i];
    if (x->op == BT_FUSED_LOAD) {
        return bt_emit_load(e, x->operand, lanes);
    }
    if (x->op == BT_FUSED_RESULT) {
        return bt_emit_product(e, i, lanes);
    }
    if (x->op == BT_FUSED_INDEX) {
        return place(e, x, lanes);
    }
    if (x->op == BT_FUSED_KEEP) {
        return bt_emit_keep(&e->ir, x, lanes, element_numbers(e, lanes));
    }
    const int made = bt_emit_arithmetic(&e->ir, e->group, i, lanes, in, &functions);
    if (made == BT_EMIT_NONE) {
        bt_emit_fail(e, i, "not on the CPU, or not at this place");
    }
    return made;
}

// The address of a stored vector in scratch.
static int kept_address(bt_emitter *e, int i)
{
    const int64_t size = (int64_t)bt_dtype_size(e->group->code[i].dtype);
    const int bytes = bt_ir_two(&e->ir, "arith.muli", bt_emit_i64(), e->column,
                                bt_ir_int(&e->ir, bt_emit_i64(), size));
    const int at = bt_ir_two(&e->ir, "arith.addi", bt_emit_i64(), bytes,
                             bt_ir_int(&e->ir, bt_emit_i64(), e->kept_bytes[i]));
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir,
               "llvm.getelementptr inbounds %%v%d[%%v%d] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
               e->scratch, at);
    return v;
}

static int make(bt_emitter *e, int i, int lanes)
{
    const bt_fused_instruction *x = &e->group->code[i];
    int uses[3];
    const int count = bt_emit_uses(x, uses);
    int in[3] = {BT_EMIT_NONE, BT_EMIT_NONE, BT_EMIT_NONE};
    if (lanes && e->kept[i] && e->phase > e->ready[i]) {
        const int from = kept_address(e, i), v = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "llvm.load %%v%d {alignment = 64 : i64} : !llvm.ptr -> %s", from,
                   bt_ir_type_name(type_of(e, i, lanes)).text);
        return v;
    }
    for (int k = 0; k < count; ++k) {
        in[k] = bt_emit_use(e, uses[k], lanes);
    }
    return arithmetic(e, i, lanes, in);
}

int bt_emit_use(bt_emitter *e, int i, int lanes)
{
    int *memo = lanes ? &e->loop_value[i] : &e->row_value[i];
    if (e->ir.out.status) {
        return 0;
    }
    if (*memo == BT_EMIT_NONE) {
        if (lanes && bt_emit_is_scalar(e, i)) {
            *memo = bt_ir_broadcast(&e->ir, type_of(e, i, lanes), bt_emit_use(e, i, 0));
        } else if (!lanes && bt_fused_op_reduces(e->group->code[i].op)) {
            bt_emit_fail(e, i, "its result is used before it is computed");
        } else {
            *memo = make(e, i, lanes);
        }
    }
    return *memo;
}

static void store(bt_emitter *e, int i, int lanes)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bt_dtype to = e->group->operands[x->operand].dtype;
    int value = bt_emit_use(e, x->a, lanes);
    if (x->op == BT_FUSED_STORE_ADD) {
        const int old = bt_ir_cast(&e->ir, to, x->dtype, lanes, bt_emit_load(e, x->operand, lanes));
        value = bt_ir_two(&e->ir, "arith.addf", type_of(e, i, lanes), old, value);
    }
    bt_emit_store(e, x->operand, lanes, bt_ir_cast(&e->ir, x->dtype, to, lanes, value));
}

static bool stores_scalar(const bt_emitter *e, int i)
{
    const bt_fused_instruction *x = &e->group->code[i];
    return bt_emit_is_scalar(e, x->a) &&
           e->group->operands[x->operand].stride[e->group->rank - 1] == 0;
}

void bt_emit_row_values(bt_emitter *e, int phase)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        const bt_fused_instruction *x = &e->group->code[i];
        if (e->ready[i] > phase) {
            continue;
        }
        if (bt_emit_is_store(x->op)) {
            if (e->ready[i] == phase && stores_scalar(e, i)) {
                store(e, i, 0);
            }
        } else if (bt_emit_is_scalar(e, i) && !bt_fused_op_reduces(x->op)) {
            (void)bt_emit_use(e, i, 0);
        }
    }
}

// All values first: a store may overwrite memory that another store's value is loaded from.
void bt_emit_stores(bt_emitter *e, int phase)
{
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = 0; i < e->group->code_count; ++i) {
            const bt_fused_instruction *x = &e->group->code[i];
            if (!bt_emit_is_store(x->op) || e->ready[i] != phase || stores_scalar(e, i)) {
                continue;
            }
            if (pass == 0) {
                (void)bt_emit_use(e, x->a, e->lanes);
            } else {
                store(e, i, e->lanes);
            }
        }
    }
}

void bt_emit_save(bt_emitter *e, int phase)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        if (e->kept[i] && e->ready[i] == phase) {
            const int value = bt_emit_use(e, i, e->lanes);
            const int to = kept_address(e, i);
            bt_ir_line(&e->ir, "llvm.store %%v%d, %%v%d {alignment = 64 : i64} : %s, !llvm.ptr",
                       value, to, bt_ir_type_name(type_of(e, i, e->lanes)).text);
        }
    }
}
