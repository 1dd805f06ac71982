// framework/compiler/emit_cuda_column.c - writes column groups as MLIR for CUDA
//
// Two kernels. The first: a block of W warps (16 by the emitter's rule) has a tile of columns, one
// pack per thread, and a chunk of BT_CUDA_CHUNK rows; warp w has the rows w, w + W ... The block's
// sums are added through shared memory, warps ascending, and written to `parts` [chunk, sum,
// column]. The second, `finish`: a block has 32 columns; warp w adds the parts of chunks w, w + W
// ... ascending, the block adds the warps ascending, and executes the instructions that use the
// sums. So the order depends on shapes and W alone, not on the device.
//
// Indices past the last row or column are clamped to it, so that no load is inside a region and all
// loads of an iteration are in flight together. Clamped elements add 0 and are not stored.
#include <stdio.h>

#include "framework/compiler/emit_cuda.h"
#include "framework/compiler/emit_math.h"

enum {
    WARPS = 16,   // of a block, by the rule
    TURN_ROWS = 4 // rows of a warp whose loads are in flight together
};

static int warps(const bt_cuda_emitter *e) { return e->threads / BT_CUDA_WARP; }

static bt_ir_type i64(void) { return bt_cuda_i64(); }

static int math(bt_cuda_emitter *e, const char *op, int a, int b)
{
    return bt_cuda_math64(e, op, a, b);
}

static int smaller(bt_cuda_emitter *e, int a, int b)
{
    return bt_ir_select(&e->ir, i64(), bt_ir_compare(&e->ir, "cmpi ult", i64(), a, b), a, b);
}

static bool is_sum(const bt_cuda_emitter *e, int i)
{
    return e->group->code[i].op == BT_FUSED_COLUMN_SUM;
}

static bool is_at_columns(const bt_cuda_emitter *e, int i)
{
    const bt_fused_operand *x = &e->group->operands[e->group->code[i].operand];
    for (int k = 0; k + 1 < e->group->rank; ++k) {
        if (x->stride[k] != 0 && e->group->shape[k] > 1) {
            return false;
        }
    }
    return true;
}

int bt_cuda_column_sums(const bt_fused *group, int *sums)
{
    int count = 0;
    for (int i = 0; i < group->code_count; ++i) {
        if (group->code[i].op == BT_FUSED_COLUMN_SUM) {
            if (sums && count < BT_CUDA_COLUMN_SUMS) {
                sums[count] = i;
            }
            ++count;
        }
    }
    return count;
}

// ---- shared memory and parts --------------------------------------------------------------------

static int element(bt_cuda_emitter *e, const char *base, const char *space, bt_ir_type type,
                   int index)
{
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.getelementptr %s[%%v%d] : (!llvm.ptr<%s>, i64) -> !llvm.ptr<%s>, %s",
               base, index, space, space, bt_ir_kind_name(type.kind));
    return v;
}

static void put(bt_cuda_emitter *e, int at, const char *space, bt_ir_type type, int value)
{
    const int bytes = (type.kind == BT_IR_F64 ? 8 : 4) * (type.lanes ? type.lanes : 1);
    bt_ir_line(&e->ir, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<%s>", value,
               at, bytes < 16 ? bytes : 16, bt_ir_type_name(type).text, space);
}

static int get(bt_cuda_emitter *e, int at, const char *space, bt_ir_type type)
{
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.load %%v%d : !llvm.ptr<%s> -> %s", at, space,
               bt_ir_type_name(type).text);
    return v;
}

static int shared_element(bt_cuda_emitter *e, bt_ir_type type, int sum, int index)
{
    char base[32];
    const int v = bt_ir_begin(&e->ir);
    bt_ir_rest(&e->ir, "llvm.mlir.addressof @shared%d : !llvm.ptr<3>", sum);
    (void)snprintf(base, sizeof base, "%%v%d", v);
    return element(e, base, "3", type, index);
}

// (chunk * sums + number) * cols + column
static int part_element(bt_cuda_emitter *e, bt_ir_type type, int chunk, int number, int column)
{
    char base[32];
    const int sums = bt_cuda_constant(e, bt_cuda_column_sums(e->group, NULL));
    const int cols = bt_cuda_constant(e, e->group->shape[e->group->rank - 1]);
    const int line =
        math(e, "arith.addi", math(e, "arith.muli", chunk, sums), bt_cuda_constant(e, number));
    (void)snprintf(base, sizeof base, "%%v%d", e->parts);
    return element(e, base, "1", type,
                   math(e, "arith.addi", math(e, "arith.muli", line, cols), column));
}

// The sum over warps of shared[warp][thread], ascending.
static int over_warps(bt_cuda_emitter *e, bt_ir_type type, int sum, int thread, int width)
{
    int total = BT_CUDA_NONE;
    for (int w = 0; w < warps(e); ++w) {
        const int index = math(e, "arith.addi", thread, bt_cuda_constant(e, (int64_t)w * width));
        const int part = get(e, shared_element(e, type, sum, index), "3", type);
        total = w ? bt_ir_two(&e->ir, "arith.addf", type, total, part) : part;
    }
    return total;
}

// ---- the first kernel ---------------------------------------------------------------------------

typedef struct place {
    int lane, warp, thread; // values, i64
    int chunk, tile;        // values
    int rows;               // value: all outer axes together
    int inside;             // value: the pack is inside the columns
} place;

static place find_place(bt_cuda_emitter *e)
{
    const bt_fused *g = e->group;
    place p = {.rows = g->dynamic_rows ? e->rows : bt_cuda_constant(e, g->shape[0])};
    const int64_t cols = g->shape[g->rank - 1], width = (int64_t)BT_CUDA_WARP * e->lanes;
    const int tiles = bt_cuda_constant(e, (cols + width - 1) / width);
    const int warp = bt_cuda_constant(e, BT_CUDA_WARP);
    const int block = bt_cuda_number(e, "block_id");
    p.thread = bt_cuda_number(e, "thread_id");
    p.lane = bt_cuda_divide(e, "arith.remui", p.thread, warp);
    p.warp = bt_cuda_divide(e, "arith.divui", p.thread, warp);
    p.chunk = bt_cuda_divide(e, "arith.divui", block, tiles);
    p.tile = math(e, "arith.muli", bt_cuda_divide(e, "arith.remui", block, tiles),
                  bt_cuda_constant(e, width));
    for (int i = 1; i + 1 < g->rank; ++i) {
        p.rows = math(e, "arith.muli", p.rows, bt_cuda_constant(e, g->shape[i]));
    }
    const int column =
        math(e, "arith.addi", p.tile, math(e, "arith.muli", p.lane, bt_cuda_constant(e, e->lanes)));
    p.inside = bt_ir_compare(&e->ir, "cmpi ult", i64(), column, bt_cuda_constant(e, cols));
    e->column[0] = smaller(e, column, bt_cuda_constant(e, cols - e->lanes));
    return p;
}

// One row: its stores, and its contributions to the totals.
static void add_row(bt_cuda_emitter *e, const place *p, int row, const int *sums, int count,
                    int *totals)
{
    const int last = math(e, "arith.subi", p->rows, bt_cuda_constant(e, 1));
    const int there = bt_ir_compare(&e->ir, "cmpi ult", i64(), row, p->rows);
    bt_cuda_enter_row(e, smaller(e, row, last));
    bt_cuda_forget(e);
    for (int i = 0; i < e->group->code_count; ++i) { // loads first
        if (e->group->code[i].op == BT_FUSED_LOAD) {
            (void)bt_cuda_use(e, i, bt_cuda_is_scalar(e, i) ? BT_CUDA_NONE : 0);
        }
    }
    for (int k = 0; k < count; ++k) {
        const bt_fused_instruction *x = &e->group->code[sums[k]];
        const bt_ir_type type = bt_cuda_type(e, x->order.sum, e->lanes);
        const int a = bt_ir_cast(&e->ir, x->dtype, x->order.sum, e->lanes, bt_cuda_use(e, x->a, 0));
        const int none = bt_ir_float(&e->ir, type, 0), term = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "arith.select %%v%d, %%v%d, %%v%d : %s", there, a, none,
                   bt_ir_type_name(type).text);
        totals[k] = bt_ir_two(&e->ir, "arith.addf", type, totals[k], term);
    }
    for (int i = 0; i < e->group->code_count; ++i) {
        if (bt_cuda_is_store(e->group->code[i].op) && !is_at_columns(e, i)) {
            (void)bt_cuda_use(e, e->group->code[i].a, 0);
            bt_cuda_region_begin(
                e, bt_ir_two(&e->ir, "arith.andi", bt_ir_make(BT_IR_I1, 0), there, p->inside));
            bt_cuda_store(e, i, 0);
            bt_cuda_region_end(e);
        }
    }
}

// "%v<first>:count = scf.for ... iter_args(...)" over the iterations; totals are replaced by
// results.
static void add_rows(bt_cuda_emitter *e, const place *p, const int *sums, int count, int *totals)
{
    const int results = e->ir.next++, turn = e->ir.next++;
    const int zero = bt_cuda_constant(e, 0), one = bt_cuda_constant(e, 1);
    const int turns = bt_cuda_constant(e, BT_CUDA_CHUNK / (warps(e) * TURN_ROWS));
    int carried[BT_CUDA_COLUMN_SUMS];
    bt_str args = {0}, types = {0}, yields = {0};
    for (int k = 0; k < count; ++k) {
        const bt_ir_name name =
            bt_ir_type_name(bt_cuda_type(e, e->group->code[sums[k]].order.sum, e->lanes));
        carried[k] = e->ir.next++;
        bt_str_format(&args, "%s%%v%d = %%v%d", k ? ", " : "", carried[k], totals[k]);
        bt_str_format(&types, "%s%s", k ? ", " : "", name.text);
    }
    bt_ir_line(&e->ir,
               "%%v%d:%d = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(%s) -> (%s) : i64 {",
               results, count, turn, zero, turns, one, bt_str_text(&args), bt_str_text(&types));
    ++e->ir.depth;
    const int first =
        math(e, "arith.addi", math(e, "arith.muli", p->chunk, bt_cuda_constant(e, BT_CUDA_CHUNK)),
             math(e, "arith.addi", p->warp,
                  math(e, "arith.muli", turn, bt_cuda_constant(e, (int64_t)warps(e) * TURN_ROWS))));
    for (int r = 0; r < TURN_ROWS; ++r) {
        const int row = math(e, "arith.addi", first, bt_cuda_constant(e, (int64_t)r * warps(e)));
        add_row(e, p, row, sums, count, carried);
    }
    for (int k = 0; k < count; ++k) {
        bt_str_format(&yields, "%s%%v%d", k ? ", " : "", carried[k]);
    }
    bt_ir_line(&e->ir, "scf.yield %s : %s", bt_str_text(&yields), bt_str_text(&types));
    bt_cuda_region_end(e);
    for (int k = 0; k < count; ++k) { // the name of one of several results has its number
        const bt_ir_name name =
            bt_ir_type_name(bt_cuda_type(e, e->group->code[sums[k]].order.sum, e->lanes));
        totals[k] = bt_ir_begin(&e->ir);
        bt_ir_rest(&e->ir, "llvm.bitcast %%v%d#%d : %s to %s", results, k, name.text, name.text);
    }
    bt_ir_keep_failure(&e->ir, &args);
    bt_ir_keep_failure(&e->ir, &types);
    bt_ir_keep_failure(&e->ir, &yields);
    bt_str_release(&args);
    bt_str_release(&types);
    bt_str_release(&yields);
}

static void leave_part(bt_cuda_emitter *e, const place *p, int number, int sum, int total)
{
    const bt_dtype dtype = e->group->code[sum].order.sum;
    const bt_ir_type one = bt_cuda_type(e, dtype, 0), all = bt_cuda_type(e, dtype, e->lanes);
    const int width = BT_CUDA_WARP * e->lanes;
    const int64_t cols = e->group->shape[e->group->rank - 1];
    const int own = math(e, "arith.muli", p->thread, bt_cuda_constant(e, e->lanes));
    put(e, shared_element(e, one, sum, own), "3", all, total);
    bt_ir_line(&e->ir, "gpu.barrier");
    const int column = math(e, "arith.addi", p->tile, p->thread);
    const int mine =
        bt_ir_two(&e->ir, "arith.andi", bt_ir_make(BT_IR_I1, 0),
                  bt_ir_compare(&e->ir, "cmpi ult", i64(), p->thread, bt_cuda_constant(e, width)),
                  bt_ir_compare(&e->ir, "cmpi ult", i64(), column, bt_cuda_constant(e, cols)));
    bt_cuda_region_begin(e, mine);
    const int part = over_warps(e, one, sum, p->thread, width);
    put(e, part_element(e, one, p->chunk, number, column), "1", one, part);
    bt_cuda_region_end(e);
}

void bt_cuda_column_kernel(bt_cuda_emitter *e)
{
    int sums[BT_CUDA_COLUMN_SUMS], totals[BT_CUDA_COLUMN_SUMS];
    const int count = bt_cuda_column_sums(e->group, sums);
    const place p = find_place(e);
    for (int k = 0; k < count; ++k) {
        totals[k] =
            bt_ir_float(&e->ir, bt_cuda_type(e, e->group->code[sums[k]].order.sum, e->lanes), 0);
    }
    add_rows(e, &p, sums, count, totals);
    for (int k = 0; k < count; ++k) {
        leave_part(e, &p, k, sums[k], totals[k]);
    }
}

// ---- the second kernel --------------------------------------------------------------------------

// The parts of chunks warp, warp + W ...
static int add_parts(bt_cuda_emitter *e, int warp, int chunks, int number, bt_ir_type type)
{
    const bt_ir_name name = bt_ir_type_name(type);
    const int start = bt_ir_float(&e->ir, type, 0),
              last = math(e, "arith.subi", chunks, bt_cuda_constant(e, 1));
    const int step = bt_cuda_constant(e, (int64_t)warps(e) * TURN_ROWS);
    const int result = e->ir.next++, chunk = e->ir.next++, before = e->ir.next++;
    int total = before;
    bt_ir_line(&e->ir,
               "%%v%d = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(%%v%d = %%v%d) -> (%s)"
               " : i64 {",
               result, chunk, warp, chunks, step, before, start, name.text);
    ++e->ir.depth;
    for (int r = 0; r < TURN_ROWS; ++r) {
        const int at = math(e, "arith.addi", chunk, bt_cuda_constant(e, (int64_t)r * warps(e)));
        const int there = bt_ir_compare(&e->ir, "cmpi ult", i64(), at, chunks);
        const int part =
            get(e, part_element(e, type, smaller(e, at, last), number, e->column[0]), "1", type);
        const int none = bt_ir_float(&e->ir, type, 0);
        const int term = bt_ir_select(&e->ir, type, there, part, none);
        total = bt_ir_two(&e->ir, "arith.addf", type, total, term);
    }
    bt_ir_line(&e->ir, "scf.yield %%v%d : %s", total, name.text);
    bt_cuda_region_end(e);
    return result;
}

void bt_cuda_column_finish(bt_cuda_emitter *e)
{
    const bt_fused *g = e->group;
    int sums[BT_CUDA_COLUMN_SUMS];
    const int count = bt_cuda_column_sums(g, sums);
    place p = find_place(e);
    const int64_t cols = g->shape[g->rank - 1];
    const int column = math(
        e, "arith.addi",
        math(e, "arith.muli", bt_cuda_number(e, "block_id"), bt_cuda_constant(e, BT_CUDA_WARP)),
        p.lane);
    const int round = bt_cuda_constant(e, BT_CUDA_CHUNK - 1);
    const int chunks = bt_cuda_divide(e, "arith.divui", math(e, "arith.addi", p.rows, round),
                                      bt_cuda_constant(e, BT_CUDA_CHUNK));
    e->lanes = 1;
    bt_cuda_enter_row(e, BT_CUDA_NONE);
    bt_cuda_forget(e);
    e->column[0] = smaller(e, column, bt_cuda_constant(e, cols - 1));
    for (int k = 0; k < count; ++k) {
        const bt_ir_type type = bt_cuda_type(e, g->code[sums[k]].order.sum, 0);
        put(e, shared_element(e, type, sums[k], p.thread), "3", type,
            add_parts(e, p.warp, chunks, k, type));
    }
    bt_ir_line(&e->ir, "gpu.barrier");
    const int mine = bt_ir_two(
        &e->ir, "arith.andi", bt_ir_make(BT_IR_I1, 0),
        bt_ir_compare(&e->ir, "cmpi ult", i64(), p.thread, bt_cuda_constant(e, BT_CUDA_WARP)),
        bt_ir_compare(&e->ir, "cmpi ult", i64(), column, bt_cuda_constant(e, cols)));
    bt_cuda_region_begin(e, mine);
    for (int k = 0; k < count; ++k) {
        const bt_fused_instruction *x = &g->code[sums[k]];
        const bt_ir_type type = bt_cuda_type(e, x->order.sum, 0);
        const int total = bt_ir_cast(&e->ir, x->order.sum, x->dtype, 0,
                                     over_warps(e, type, sums[k], p.thread, BT_CUDA_WARP));
        e->scalar[sums[k]] = total; // read where all columns have this sum, of a value per row
        e->vector[sums[k]][0] = bt_ir_broadcast(&e->ir, bt_cuda_type(e, x->dtype, 1), total);
    }
    for (int i = 0; i < g->code_count; ++i) {
        if (bt_cuda_is_store(g->code[i].op) && is_at_columns(e, i)) {
            bt_cuda_store(e, i, 0);
        }
    }
    bt_cuda_region_end(e);
}

// ---- checks -------------------------------------------------------------------------------------

void bt_cuda_column_arrays(bt_cuda_emitter *e)
{
    for (int i = 0; i < e->group->code_count; ++i) {
        if (is_sum(e, i)) {
            bt_ir_line(&e->ir,
                       "llvm.mlir.global internal @shared%d() {addr_space = 3 : i32, alignment = "
                       "16 : i64} : !llvm.array<%d x %s>",
                       i, e->threads * e->lanes,
                       bt_ir_type_name(bt_cuda_type(e, bt_cuda_sum_dtype(e, i), 0)).text);
        }
    }
}

int bt_cuda_column_threads(void) { return WARPS * BT_CUDA_WARP; }

// Does an instruction that is needed at every index depend on a sum?
static bool depends(const bt_fused *g, int i)
{
    int uses[3] = {0};
    const int count = bt_emit_uses(&g->code[i], uses);
    for (int k = 0; k < count; ++k) {
        if (g->code[uses[k]].op == BT_FUSED_COLUMN_SUM || depends(g, uses[k])) {
            return true;
        }
    }
    return false;
}

const char *bt_cuda_column_refuses(const bt_cuda_emitter *e)
{
    static const char *const sums =
        "no CUDA code is generated for this number or kind of column sums";
    const bt_fused *g = e->group;
    const int count = bt_cuda_column_sums(g, NULL), turn = warps(e) * TURN_ROWS;
    int64_t shared = 0;
    if (warps(e) < e->lanes || turn > BT_CUDA_CHUNK || BT_CUDA_CHUNK % turn) {
        return "no CUDA code is generated for column sums by this number of warps";
    }
    if (g->rank < 2 || count < 1 || count > BT_CUDA_COLUMN_SUMS) {
        return sums;
    }
    for (int i = 0; i < g->code_count; ++i) {
        const bt_fused_instruction *x = &g->code[i];
        const bool store = bt_cuda_is_store(x->op);
        if (x->op == BT_FUSED_COLUMN_SUM) {
            const bool real = x->order.sum == BT_F32 || x->order.sum == BT_F64;
            shared += (int64_t)e->threads * e->lanes * (int64_t)bt_dtype_size(x->order.sum);
            if (x->order.lanes || !real || depends(g, i)) {
                return sums;
            }
        } else if (bt_fused_op_reduces(x->op) || (store && !is_at_columns(e, i) && depends(g, i))) {
            return "no CUDA code is generated for rows that need the sums of columns";
        }
    }
    return shared > BT_CUDA_SHARED_MOST ? sums : NULL;
}
