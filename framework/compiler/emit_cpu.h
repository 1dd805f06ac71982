// framework/compiler/emit_cpu.h - what the files of the CPU's emitter share
#ifndef BT_COMPILER_EMIT_CPU_H
#define BT_COMPILER_EMIT_CPU_H

#include "framework/compiler/emit.h"
#include "framework/compiler/ir.h"

enum { BT_EMIT_NONE = -1 };

// A group that is being written.
//
// Values with one element a row are scalars, written once a row; the others are vectors of `lanes`
// elements, written in each loop that needs them. A phase is a walk over the columns: phase 0 needs
// no reduction's result, phase p + 1 those of phase p.
typedef struct bt_emitter {
    bt_ir ir;
    const bt_fused *group; // borrowed
    bool past;             // writing kernel_past
    int lanes;
    int phases;
    int ready[BT_FUSED_CODE_MOST];          // the first phase in which a result can be used
    bool kept[BT_FUSED_CODE_MOST];          // written to scratch when it is made, read later
    int64_t kept_bytes[BT_FUSED_CODE_MOST]; // where in scratch
    int64_t scratch_bytes;
    int pointer[BT_FUSED_OPERANDS_MOST]; // values: the operand's memory
    int offset[BT_FUSED_OPERANDS_MOST];  // and the row's first element in it
    int row_value[BT_FUSED_CODE_MOST];   // scalars of this row; NONE: not yet
    int loop_value[BT_FUSED_CODE_MOST];  // vectors of this place in the loop
    int rows, begin, end, scratch;       // the function's arguments
    int axis_index[BT_MAX_RANK];         // places on the outer axes
    int row;                             // the row's number
    int column, mask;                    // of the vector; mask NONE: all lanes
    int phase;                           // that is being written
} bt_emitter;

// Is the instruction's result one number a row?
static inline bool bt_emit_is_scalar(const bt_emitter *e, int i)
{
    const bt_fused_extent extent = e->group->code[i].extent;
    return extent == BT_FUSED_SCALAR || extent == BT_FUSED_PER_ROW;
}

static inline bool bt_emit_is_store(bt_fused_op op)
{
    return op == BT_FUSED_STORE || op == BT_FUSED_STORE_ADD;
}

static inline bt_ir_type bt_emit_i64(void) { return bt_ir_make(BT_IR_I64, 0); }

// emit_value.c: one instruction's result, as a scalar (lanes 0) or vector. Vectors are written
// where they are first asked for; a scalar was written by bt_emit_row_values or is a reduction's
// result.
int bt_emit_use(bt_emitter *e, int i, int lanes);
// Forgets the vectors: a loop begins or ends, or the place changes.
void bt_emit_forget(bt_emitter *e);
// The scalars that phase `phase` can use, and its stores of scalars.
void bt_emit_row_values(bt_emitter *e, int phase);
// The stores of vectors of a phase: all of their values first, so that none is overwritten before.
void bt_emit_stores(bt_emitter *e, int phase);
// Writes what later phases read back to scratch.
void bt_emit_save(bt_emitter *e, int phase);
void bt_emit_fail(bt_emitter *e, int i, const char *what);
// Sets mask and column for the lanes below `end`, a value, from `column` on.
void bt_emit_mask(bt_emitter *e, int column, int end);

// emit_reduce.c: the reductions of a phase of a row, of `cols` columns, with the phase's stores.
void bt_emit_row_phase(bt_emitter *e, int phase, int64_t cols);
// A column sum's accumulators: types, initial values, one more row, the result.
int bt_emit_column_start(bt_emitter *e, int i);
int bt_emit_column_add(bt_emitter *e, int i, int sum);
int bt_emit_column_end(bt_emitter *e, int i, int sum);
bt_ir_type bt_emit_sum_type(const bt_emitter *e, int i);

#endif
