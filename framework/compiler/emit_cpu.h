// framework/compiler/emit_cpu.h - what the files of the CPU's emitter share
#ifndef BT_COMPILER_EMIT_CPU_H
#define BT_COMPILER_EMIT_CPU_H

#include "framework/compiler/emit.h"
#include "framework/compiler/ir.h"

enum { BT_EMIT_NONE = -1 };

// State of the emitter for one group.
//
// Values with one element per row are scalars, emitted once per row; the others are vectors of
// `lanes` elements, emitted in each loop that needs them. A phase is a pass over the columns: phase
// 0 uses no reduction's result, phase p + 1 uses those of phase p.
typedef struct bt_emitter {
    bt_ir ir;
    const bt_fused *group; // borrowed
    bool past;             // emitting kernel_past
    int lanes;
    int phases;
    int ready[BT_FUSED_CODE_MOST];          // the first phase in which a result can be used
    bool kept[BT_FUSED_CODE_MOST];          // stored in scratch when computed, read back later
    int64_t kept_bytes[BT_FUSED_CODE_MOST]; // offset in scratch
    int64_t scratch_bytes;
    int pointer[BT_FUSED_OPERANDS_MOST]; // values: the operand's address
    int offset[BT_FUSED_OPERANDS_MOST];  // values: address of the row's first element
    int row_value[BT_FUSED_CODE_MOST];   // scalars of this row; NONE: not yet
    int loop_value[BT_FUSED_CODE_MOST];  // vectors at the current place in the loop
    int rows, begin, end, scratch;       // the function's arguments
    int axis_index[BT_MAX_RANK];         // indices on the outer axes
    int row;                             // the row's number
    int column, mask;                    // of the vector; mask NONE: all lanes
    int phase;                           // function being emitted
} bt_emitter;

// Is the instruction's result one number per row?
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

// emit_value.c: one instruction's result, as a scalar (lanes 0) or vector. A vector is emitted at
// its first use; a scalar was emitted by bt_emit_row_values or is a reduction's result.
int bt_emit_use(bt_emitter *e, int i, int lanes);
// Clears the vectors: a loop begins or ends, or the place changes.
void bt_emit_forget(bt_emitter *e);
// Emits the scalars that phase `phase` can use, and its stores of scalars.
void bt_emit_row_values(bt_emitter *e, int phase);
// Emits the vector stores of a phase: first all of their values, so that no store overwrites an
// operand that is still needed.
void bt_emit_stores(bt_emitter *e, int phase);
// Stores the values that later phases read back in scratch.
void bt_emit_save(bt_emitter *e, int phase);
void bt_emit_fail(bt_emitter *e, int i, const char *what);
// Sets mask and column for the lanes below `end`, a value, starting at `column`.
void bt_emit_mask(bt_emitter *e, int column, int end);

// emit_memory.c: elements of an operand from offset[operand] on: a vector of this place's columns,
// or (lanes 0) one element. `value` has the operand's type.
int bt_emit_load(bt_emitter *e, int operand, int lanes);
void bt_emit_store(bt_emitter *e, int operand, int lanes, int value);

// emit_product.c: RESULT of a PRODUCT group at this place.
int bt_emit_product(bt_emitter *e, int i, int lanes);

// emit_reduce.c: the reductions of a phase over a row of `cols` columns, with the phase's stores.
void bt_emit_row_phase(bt_emitter *e, int phase, int64_t cols);
// The accumulators of a column sum: types, initial values, the update by one row, the result.
int bt_emit_column_start(bt_emitter *e, int i);
int bt_emit_column_add(bt_emitter *e, int i, int sum);
int bt_emit_column_end(bt_emitter *e, int i, int sum);
bt_ir_type bt_emit_sum_type(const bt_emitter *e, int i);

#endif
