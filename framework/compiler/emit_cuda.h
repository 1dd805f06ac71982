// framework/compiler/emit_cuda.h - what the files of the CUDA emitter share
#ifndef BT_COMPILER_EMIT_CUDA_H
#define BT_COMPILER_EMIT_CUDA_H

#include "framework/compiler/emit.h"
#include "framework/compiler/ir.h"

enum {
    BT_CUDA_NONE = -1,
    BT_CUDA_PACKS_MOST = 8,
    BT_CUDA_WARP = 32,
    BT_CUDA_COLUMN_SUMS = 4,       // of a group, at most
    BT_CUDA_THREADS_MOST = 1024,   // of a block
    BT_CUDA_SHARED_MOST = 48 << 10 // bytes of a block
};

// State of the emitter for one group. A vector is emitted once per pack, at its first use, outside
// of every region but the kernel's own: only guarded loads and stores are inside one.
typedef struct bt_cuda_emitter {
    bt_ir ir;
    const bt_fused *group; // borrowed
    bool is_early;         // kernels wait for the previous kernel
    int lanes, packs, threads;
    int row_threads, block_rows;        // ROW
    int side;                           // PRODUCT: rows and columns of a block
    int rows;                           // value: the argument
    int parts;                          // value: COLUMN: the last argument
    int offset[BT_FUSED_OPERANDS_MOST]; // values: the row's first element
    int axis_index[BT_MAX_RANK];        // values: indices on the outer axes
    int row;                            // value: the row's number
    int column[BT_CUDA_PACKS_MOST];     // values: the pack's first column
    int inside[BT_CUDA_PACKS_MOST];     // values: is it inside the row? NONE: always
    int thread;                         // value: of the row, i32
    int scalar[BT_FUSED_CODE_MOST];     // values, NONE: not yet
    int vector[BT_FUSED_CODE_MOST][BT_CUDA_PACKS_MOST];
} bt_cuda_emitter;

static inline bool bt_cuda_is_scalar(const bt_cuda_emitter *e, int i)
{
    const bt_fused_extent extent = e->group->code[i].extent;
    return extent == BT_FUSED_SCALAR || extent == BT_FUSED_PER_ROW;
}

static inline bool bt_cuda_is_store(bt_fused_op op)
{
    return op == BT_FUSED_STORE || op == BT_FUSED_STORE_ADD;
}

static inline bt_ir_type bt_cuda_i32(void) { return bt_ir_make(BT_IR_I32, 0); }

static inline bt_ir_type bt_cuda_i64(void) { return bt_ir_make(BT_IR_I64, 0); }

// ---- emit_cuda_place.c --------------------------------------------------------------------------
int bt_cuda_constant(bt_cuda_emitter *e, int64_t value);
// The block's or thread's index as i64: "block_id", "thread_id".
int bt_cuda_number(bt_cuda_emitter *e, const char *what);
// "arith.divui" or "arith.remui" of i64 values below 2^32.
int bt_cuda_divide(bt_cuda_emitter *e, const char *op, int a, int b);
// axis_index and offset of a row; row BT_CUDA_NONE: 0.
void bt_cuda_enter_row(bt_cuda_emitter *e, int row);
void bt_cuda_region_begin(bt_cuda_emitter *e, int condition);
void bt_cuda_region_end(bt_cuda_emitter *e);

// ---- emit_cuda_column.c -------------------------------------------------------------------------
// Bodies of the two kernels of a column group, and the shared memory of both.
void bt_cuda_column_kernel(bt_cuda_emitter *e);
void bt_cuda_column_finish(bt_cuda_emitter *e);
void bt_cuda_column_arrays(bt_cuda_emitter *e);
int bt_cuda_column_threads(void); // of a block of both, by the emitter's rule
// Numbers of the column sums among the instructions, at most BT_CUDA_COLUMN_SUMS (instructions
// NULL: not wanted); returns the count.
int bt_cuda_column_sums(const bt_fused *group, int *sums);
// The reason why no code can be generated; NULL: none.
const char *bt_cuda_column_refuses(const bt_cuda_emitter *e);

// ---- emit_cuda_product.c ------------------------------------------------------------------------
// Body of the kernel of a product group, its shared memory, threads and blocks.
void bt_cuda_product_kernel(bt_cuda_emitter *e);
void bt_cuda_product_arrays(bt_cuda_emitter *e);
int bt_cuda_product_threads(void);
// Rows and columns of a block by the emitter's rule, one of the two sides that there are.
int bt_cuda_product_side(const bt_fused *group);
bool bt_cuda_product_has_side(int side);
int64_t bt_cuda_product_blocks(const bt_fused *group, int64_t side);
// Why there is no code; NULL: there is.
const char *bt_cuda_product_refuses(const bt_fused *group);

// ---- emit_cuda_value.c --------------------------------------------------------------------------
int bt_cuda_math64(bt_cuda_emitter *e, const char *op, int a, int b);
bt_ir_type bt_cuda_type(const bt_cuda_emitter *e, bt_dtype dtype, int lanes);
// An instruction's result at a pack; pack NONE: a scalar.
int bt_cuda_use(bt_cuda_emitter *e, int i, int pack);
void bt_cuda_forget(bt_cuda_emitter *e);
void bt_cuda_store(bt_cuda_emitter *e, int i, int pack);
// Does the instruction store one element per row?
bool bt_cuda_stores_scalar(const bt_cuda_emitter *e, int i);
// The stores of a pack, their values first.
void bt_cuda_stores_of_pack(bt_cuda_emitter *e, int pack);
// Emits a row reduction; its result is a scalar afterwards.
void bt_cuda_reduce(bt_cuda_emitter *e, int i);
// The accumulator type of a reduction.
bt_dtype bt_cuda_sum_dtype(const bt_cuda_emitter *e, int i);

#endif
