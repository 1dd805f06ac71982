// framework/compiler/emit_cuda_place.c - the CUDA emitter: indices, rows and regions
#include "framework/compiler/emit_cuda.h"

int bt_cuda_constant(bt_cuda_emitter *e, int64_t value)
{
    return bt_ir_int(&e->ir, bt_cuda_i64(), value);
}

// 32-bit quotients: a 64-bit division by a constant takes about 20 instructions.
int bt_cuda_divide(bt_cuda_emitter *e, const char *op, int a, int b)
{
    const int narrow = bt_ir_convert(&e->ir, "arith.trunci", bt_cuda_i64(), bt_cuda_i32(), a);
    const int by = bt_ir_convert(&e->ir, "arith.trunci", bt_cuda_i64(), bt_cuda_i32(), b);
    return bt_ir_convert(&e->ir, "arith.extui", bt_cuda_i32(), bt_cuda_i64(),
                         bt_ir_two(&e->ir, op, bt_cuda_i32(), narrow, by));
}

// axis_index and offset of a row; row BT_CUDA_NONE: 0.
void bt_cuda_enter_row(bt_cuda_emitter *e, int row)
{
    const bt_fused *g = e->group;
    int rest = row;
    e->row = row == BT_CUDA_NONE ? bt_cuda_constant(e, 0) : row;
    for (int i = g->rank - 2; i >= 0 && row != BT_CUDA_NONE; --i) {
        const int size = i ? bt_cuda_constant(e, g->shape[i]) : BT_CUDA_NONE;
        e->axis_index[i] = i ? bt_cuda_divide(e, "arith.remui", rest, size) : rest;
        rest = i ? bt_cuda_divide(e, "arith.divui", rest, size) : rest;
    }
    for (int k = 0; k < g->operand_count; ++k) {
        e->offset[k] = bt_cuda_constant(e, 0);
        for (int i = 0; i + 1 < g->rank && row != BT_CUDA_NONE; ++i) {
            if (g->operands[k].stride[i]) {
                const int step = bt_cuda_constant(e, g->operands[k].stride[i]);
                e->offset[k] =
                    bt_cuda_math64(e, "arith.addi", e->offset[k],
                                   bt_cuda_math64(e, "arith.muli", e->axis_index[i], step));
            }
        }
    }
}

// The block's or thread's index as i64.
int bt_cuda_number(bt_cuda_emitter *e, const char *what)
{
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "gpu.%s x", what);
    const int wide = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "arith.index_castui %%v%d : index to i64", v);
    return wide;
}

void bt_cuda_region_begin(bt_cuda_emitter *e, int condition)
{
    bt_ir_line(&e->ir, "scf.if %%v%d {", condition);
    ++e->ir.depth;
}

void bt_cuda_region_end(bt_cuda_emitter *e)
{
    --e->ir.depth;
    bt_ir_line(&e->ir, "}");
}
