// framework/compiler/emit_memory.c - the CPU's emitter: loads and stores of operands
#include "framework/compiler/emit_cpu.h"

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

void bt_emit_store(bt_emitter *e, int operand, int lanes, int value)
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
