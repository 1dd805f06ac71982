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

// ---- memory -------------------------------------------------------------------------------------

// Of a product's B too, whose columns are the group's.
static int64_t inner_stride(const bt_emitter *e, int operand)
{
    const bt_gemm_args *p = &e->group->product;
    if (e->group->kind == BT_FUSED_PRODUCT && operand == e->group->call_operand[1]) {
        return p->trans_b ? p->ldb : 1;
    }
    return e->group->operands[operand].stride[e->group->rank - 1];
}

// Address of the first element at this place; lanes 0 or stride 0: the row's single element.
static int address(bt_emitter *e, int operand, bool row_only)
{
    const bt_fused_operand *o = &e->group->operands[operand];
    int index = e->offset[operand];
    if (!row_only) {
        int column = e->column;
        if (inner_stride(e, operand) != 1) {
            column = bt_ir_two(&e->ir, "arith.muli", bt_emit_i64(), column,
                               bt_ir_int(&e->ir, bt_emit_i64(), inner_stride(e, operand)));
        }
        index = bt_ir_two(&e->ir, "arith.addi", bt_emit_i64(), index, column);
    }
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir,
               "llvm.getelementptr inbounds %%v%d[%%v%d] : (!llvm.ptr, i64) -> !llvm.ptr, %s",
               e->pointer[operand], index, bt_ir_kind_name(bt_ir_kind_of(&e->ir, o->dtype)));
    return v;
}

// Addresses of the lanes, `stride` elements apart.
static int lane_addresses(bt_emitter *e, int operand)
{
    const bt_ir_type type = bt_ir_make(BT_IR_I64, e->lanes);
    const int first = address(e, operand, false);
    const int apart = bt_ir_int(&e->ir, type, inner_stride(e, operand));
    const int places =
        bt_ir_two(&e->ir, "arith.muli", type, bt_ir_lane_numbers(&e->ir, type), apart);
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir,
               "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr, vector<%dxi64>) -> !llvm.vec<%d x "
               "ptr>, %s",
               first, places, e->lanes, e->lanes,
               bt_ir_kind_name(bt_ir_kind_of(&e->ir, e->group->operands[operand].dtype)));
    return v;
}

static int every_lane(bt_emitter *e)
{
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "arith.constant dense<true> : vector<%dxi1>", e->lanes);
    return v;
}

int bt_emit_load(bt_emitter *e, int operand, int lanes)
{
    const bt_dtype dtype = e->group->operands[operand].dtype;
    const bt_ir_type type = bt_ir_make(bt_ir_kind_of(&e->ir, dtype), lanes);
    const bt_ir_name name = bt_ir_type_name(type);
    const int alignment = (int)bt_dtype_size(dtype);
    if (lanes && inner_stride(e, operand) != 1) {
        const int from = lane_addresses(e, operand);
        const int mask = e->mask != BT_EMIT_NONE ? e->mask : every_lane(e);
        const int none = bt_ir_zero(&e->ir, type), v = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir,
                   "llvm.intr.masked.gather %%v%d, %%v%d, %%v%d {alignment = %d : i32} : "
                   "(!llvm.vec<%d x ptr>, vector<%dxi1>, %s) -> %s",
                   from, mask, none, alignment, lanes, lanes, name.text, name.text);
        return v;
    }
    const int from = address(e, operand, !lanes);
    if (lanes && e->mask != BT_EMIT_NONE) {
        const int none = bt_ir_zero(&e->ir, type), v = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir,
                   "llvm.intr.masked.load %%v%d, %%v%d, %%v%d {alignment = %d : i32} : (!llvm.ptr, "
                   "vector<%dxi1>, %s) -> %s",
                   from, e->mask, none, alignment, lanes, name.text, name.text);
        return v;
    }
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.load %%v%d {alignment = %d : i64} : !llvm.ptr -> %s", from, alignment,
               name.text);
    return v;
}

static void store(bt_emitter *e, int operand, int lanes, int value)
{
    const bt_dtype dtype = e->group->operands[operand].dtype;
    const bt_ir_name name = bt_ir_type_name(bt_ir_make(bt_ir_kind_of(&e->ir, dtype), lanes));
    const int bytes = (int)bt_dtype_size(dtype), all = lanes * bytes;
    if (lanes && inner_stride(e, operand) != 1) {
        const int to = lane_addresses(e, operand);
        const int mask = e->mask != BT_EMIT_NONE ? e->mask : every_lane(e);
        bt_ir_line(&e->ir,
                   "llvm.intr.masked.scatter %%v%d, %%v%d, %%v%d {alignment = %d : i32} : %s, "
                   "vector<%dxi1> into !llvm.vec<%d x ptr>",
                   value, to, mask, bytes, name.text, lanes, lanes);
        return;
    }
    const int to = address(e, operand, !lanes);
    if (lanes && e->mask != BT_EMIT_NONE) {
        bt_ir_line(&e->ir,
                   "llvm.intr.masked.store %%v%d, %%v%d, %%v%d {alignment = %d : i32} : %s, "
                   "vector<%dxi1> into !llvm.ptr",
                   value, to, e->mask, bytes, name.text, lanes);
    } else if (lanes && e->past) {
        bt_ir_line(&e->ir,
                   "llvm.store %%v%d, %%v%d {alignment = %d : i64, nontemporal} : %s, !llvm.ptr",
                   value, to, all < 64 ? all : 64, name.text);
    } else {
        bt_ir_line(&e->ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr", value,
                   to, bytes, name.text);
    }
}

// ---- arithmetic ---------------------------------------------------------------------------------

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

static void emit_store(bt_emitter *e, int i, int lanes)
{
    const bt_fused_instruction *x = &e->group->code[i];
    const bt_dtype to = e->group->operands[x->operand].dtype;
    int value = bt_emit_use(e, x->a, lanes);
    if (x->op == BT_FUSED_STORE_ADD) {
        const int old = bt_ir_cast(&e->ir, to, x->dtype, lanes, bt_emit_load(e, x->operand, lanes));
        value = bt_ir_two(&e->ir, "arith.addf", type_of(e, i, lanes), old, value);
    }
    store(e, x->operand, lanes, bt_ir_cast(&e->ir, x->dtype, to, lanes, value));
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
                emit_store(e, i, 0);
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
                emit_store(e, i, e->lanes);
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
