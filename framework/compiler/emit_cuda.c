// framework/compiler/emit_cuda.c - writes groups as MLIR for CUDA: elementwise and rows here,
// columns in emit_cuda_column.c, products in emit_cuda_product.c
//
// A pack is `lanes` adjacent elements, 16 bytes of the narrowest operand: one vectorized access.
// Elementwise: one pack per thread. Rows: T threads hold a row, thread t the packs t, t + T, t + 2T
// ..., fully unrolled; a block has several rows if a row takes 32 threads. Reductions: a thread's
// elements ascending, the lanes of a warp by butterfly, warps ascending through shared memory.
//
// A vector is emitted once per pack, at its first use, outside of every region: only guarded loads
// and stores are inside one.
#include "framework/compiler/emit_cuda.h"

#include <string.h>

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "framework/compiler/emit_math.h"

enum {
    STREAM_THREADS = 128, // of an elementwise block
    SHARED_THREADS = 128  // of a block of several rows
};

// ---- the kernel ---------------------------------------------------------------------------------

// One pack per thread; `all` elements of the last axis. With rank 1 the last pack may be partial.
static void elementwise(bt_cuda_emitter *e)
{
    const bt_fused *g = e->group;
    const int lanes = e->lanes;
    const int64_t cols = g->shape[g->rank - 1];
    const int block = bt_cuda_number(e, "block_id"), thread = bt_cuda_number(e, "thread_id");
    const int first = bt_cuda_math64(e, "arith.muli", block, bt_cuda_constant(e, e->threads));
    const int pack = bt_cuda_math64(e, "arith.addi", first, thread);
    if (g->rank > 1) {
        const int each = bt_cuda_constant(e, cols / lanes);
        int rows = g->dynamic_rows ? e->rows : bt_cuda_constant(e, g->shape[0]);
        for (int i = 1; i + 1 < g->rank; ++i) {
            rows = bt_cuda_math64(e, "arith.muli", rows, bt_cuda_constant(e, g->shape[i]));
        }
        const int all = bt_cuda_math64(e, "arith.muli", rows, each);
        bt_cuda_region_begin(e, bt_ir_compare(&e->ir, "cmpi ult", bt_cuda_i64(), pack, all));
        bt_cuda_enter_row(e, bt_cuda_divide(e, "arith.divui", pack, each));
        e->column[0] = bt_cuda_math64(e, "arith.muli", bt_cuda_divide(e, "arith.remui", pack, each),
                                      bt_cuda_constant(e, lanes));
        bt_cuda_stores_of_pack(e, 0);
        bt_cuda_region_end(e);
        return;
    }
    const int count = g->dynamic_rows ? e->rows : bt_cuda_constant(e, cols);
    const int from = bt_cuda_math64(e, "arith.muli", pack, bt_cuda_constant(e, lanes));
    const int to = bt_cuda_math64(e, "arith.addi", from, bt_cuda_constant(e, lanes));
    bt_cuda_enter_row(e, BT_CUDA_NONE);
    e->column[0] = from;
    bt_cuda_region_begin(e, bt_ir_compare(&e->ir, "cmpi ule", bt_cuda_i64(), to, count));
    bt_cuda_stores_of_pack(e, 0);
    --e->ir.depth;
    bt_ir_line(&e->ir, "} else {");
    ++e->ir.depth;
    e->lanes = 1; // the rest, one element at a time
    const int one = bt_cuda_constant(e, 1), at = e->ir.next++;
    bt_ir_line(&e->ir, "scf.for %%v%d = %%v%d to %%v%d step %%v%d : i64 {", at, from, count, one);
    ++e->ir.depth;
    e->column[0] = at;
    bt_cuda_forget(e);
    bt_cuda_stores_of_pack(e, 0);
    bt_cuda_region_end(e);
    e->lanes = lanes;
    bt_cuda_region_end(e);
}

static void row(bt_cuda_emitter *e)
{
    const bt_fused *g = e->group;
    const int64_t cols = g->shape[g->rank - 1], span = (int64_t)e->row_threads * e->lanes;
    const int block = bt_cuda_number(e, "block_id");
    int thread = bt_cuda_number(e, "thread_id"), at = block;
    if (e->block_rows > 1) {
        const int width = bt_cuda_constant(e, e->row_threads);
        int rows = g->dynamic_rows ? e->rows : bt_cuda_constant(e, g->shape[0]);
        for (int i = 1; i + 1 < g->rank; ++i) {
            rows = bt_cuda_math64(e, "arith.muli", rows, bt_cuda_constant(e, g->shape[i]));
        }
        at = bt_cuda_math64(
            e, "arith.addi",
            bt_cuda_math64(e, "arith.muli", block, bt_cuda_constant(e, e->block_rows)),
            bt_cuda_divide(e, "arith.divui", thread, width));
        thread = bt_cuda_divide(e, "arith.remui", thread, width);
        bt_cuda_region_begin(
            e, bt_ir_compare(&e->ir, "cmpi ult", bt_cuda_i64(), at, rows)); // whole warps
    }
    e->thread = bt_ir_convert(&e->ir, "arith.trunci", bt_cuda_i64(), bt_cuda_i32(), thread);
    bt_cuda_enter_row(e, at);
    const int start = bt_cuda_math64(e, "arith.muli", thread, bt_cuda_constant(e, e->lanes));
    for (int k = 0; k < e->packs; ++k) {
        e->column[k] = bt_cuda_math64(e, "arith.addi", start, bt_cuda_constant(e, k * span));
        e->inside[k] = (k + 1) * span > cols
                           ? bt_ir_compare(&e->ir, "cmpi ult", bt_cuda_i64(), e->column[k],
                                           bt_cuda_constant(e, cols))
                           : BT_CUDA_NONE;
    }
    // Emits all loads first, so that they are in flight before the first reduction waits; memory
    // that is overwritten is read before.
    for (int i = 0; i < g->code_count; ++i) {
        for (int k = 0; k < e->packs && g->code[i].op == BT_FUSED_LOAD; ++k) {
            (void)bt_cuda_use(e, i, bt_cuda_is_scalar(e, i) ? BT_CUDA_NONE : k);
        }
    }
    for (int i = 0; i < g->code_count; ++i) {
        if (bt_fused_op_reduces(g->code[i].op)) {
            bt_cuda_reduce(e, i);
        }
    }
    for (int k = 0; k < e->packs; ++k) {
        bt_cuda_stores_of_pack(e, k);
    }
    const int zero = bt_ir_int(&e->ir, bt_cuda_i32(), 0);
    const int leader = bt_ir_compare(&e->ir, "cmpi eq", bt_cuda_i32(), e->thread, zero);
    for (int i = 0; i < g->code_count; ++i) {
        if (bt_cuda_is_store(g->code[i].op) && bt_cuda_stores_scalar(e, i)) {
            (void)bt_cuda_use(e, g->code[i].a, BT_CUDA_NONE);
            bt_cuda_region_begin(e, leader);
            bt_cuda_store(e, i, BT_CUDA_NONE);
            bt_cuda_region_end(e);
        }
    }
    if (e->block_rows > 1) {
        bt_cuda_region_end(e);
    }
}

static void shared_arrays(bt_cuda_emitter *e)
{
    for (int i = 0; i < e->group->code_count && e->row_threads > BT_CUDA_WARP; ++i) {
        if (bt_fused_op_reduces(e->group->code[i].op)) {
            bt_ir_line(&e->ir,
                       "llvm.mlir.global internal @shared%d() {addr_space = 3 : i32} : "
                       "!llvm.array<%d x %s>",
                       i, e->row_threads / BT_CUDA_WARP,
                       bt_ir_type_name(bt_cuda_type(e, bt_cuda_sum_dtype(e, i), 0)).text);
        }
    }
}

// Before the first access to memory: other kernels may read what is written, or write what is read.
static void wait_for_previous(bt_cuda_emitter *e)
{
    bt_ir_line(&e->ir, "llvm.inline_asm has_side_effects \"griddepcontrol.wait;\", "
                       "\"~{memory}\" : () -> ()");
}

static void function(bt_cuda_emitter *e, const char *name, void (*body)(bt_cuda_emitter *))
{
    const int count = e->group->operand_count;
    const bool column = e->group->kind == BT_FUSED_COLUMN;
    bt_str_format(&e->ir.out, "  gpu.func @%s(", name);
    for (int k = 0; k < count; ++k) {
        bt_str_format(&e->ir.out, "%%v%d: !llvm.ptr<1>, ", k);
    }
    bt_str_format(&e->ir.out, "%%v%d: i64", count);
    if (column) {
        bt_str_format(&e->ir.out, ", %%v%d: !llvm.ptr<1>", count + 1);
    }
    bt_str_format(&e->ir.out, ") kernel attributes {known_block_size = array<i32: %d, 1, 1>} {\n",
                  e->threads);
    e->rows = count;
    e->parts = count + 1;
    e->ir.next = count + 2;
    e->ir.depth = 2;
    bt_cuda_forget(e);
    if (e->is_early) {
        wait_for_previous(e);
    }
    body(e);
    bt_ir_line(&e->ir, "gpu.return");
    bt_str_append(&e->ir.out, "  }\n");
}

static void module(bt_cuda_emitter *e)
{
    const bt_fused_kind kind = e->group->kind;
    bt_str_append(&e->ir.out, "module attributes {gpu.container_module} {\ngpu.module @m {\n");
    e->ir.depth = 1;
    if (kind == BT_FUSED_COLUMN) {
        bt_cuda_column_arrays(e);
        function(e, "kernel", bt_cuda_column_kernel);
        function(e, "finish", bt_cuda_column_finish);
    } else if (kind == BT_FUSED_PRODUCT) {
        bt_cuda_product_arrays(e);
        function(e, "kernel", bt_cuda_product_kernel);
    } else {
        shared_arrays(e);
        function(e, "kernel", kind == BT_FUSED_ROW ? row : elementwise);
    }
    bt_str_append(&e->ir.out, "}\n}\n");
}

// ---- shapes -------------------------------------------------------------------------------------

// Elements of a pack: 16 bytes of the narrowest operand with a nonzero inner stride, fewer if rows
// or strides are not a multiple of that.
static int choose_lanes(const bt_fused *g)
{
    int lanes = 1;
    for (int k = 0; k < g->operand_count; ++k) {
        const int fit = 16 / (int)bt_dtype_size(g->operands[k].dtype);
        if (g->operands[k].stride[g->rank - 1] == 1) {
            lanes = fit > lanes ? fit : lanes;
        }
    }
    for (int k = 0; k < g->operand_count; ++k) {
        for (int i = 0; i + 1 < g->rank; ++i) {
            while (lanes > 1 && g->operands[k].stride[g->rank - 1] == 1 &&
                   g->operands[k].stride[i] % lanes) {
                lanes /= 2;
            }
        }
    }
    while (lanes > 1 && g->rank > 1 && g->shape[g->rank - 1] % lanes) {
        lanes /= 2;
    }
    return lanes;
}

// Vectors of a thread that hold a row.
static int packs_of(const bt_cuda_emitter *e)
{
    const int64_t cols = e->group->shape[e->group->rank - 1];
    return (int)bt_div_up(cols, (int64_t)e->row_threads * e->lanes);
}

// Threads per row: as in kernels/cuda/rows.cuh if a row has at least 32.
static void choose_row_threads(bt_cuda_emitter *e)
{
    static const struct {
        int cols, f32_threads, bf16_threads;
    } table[] = {{256, 32, 32},    {512, 64, 32},    {768, 96, 32},
                 {1024, 128, 32},  {2048, 256, 128}, {3072, 384, 192},
                 {4096, 256, 256}, {8192, 512, 256}, {BT_CUDA_ROW_MOST, 1024, 512}};
    const int64_t cols = e->group->shape[e->group->rank - 1];
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        if (cols <= table[i].cols) {
            e->row_threads = e->lanes >= 8 ? table[i].bf16_threads : table[i].f32_threads;
            break;
        }
    }
    e->packs = e->row_threads ? packs_of(e) : BT_CUDA_PACKS_MOST + 1;
    e->block_rows = e->row_threads == BT_CUDA_WARP ? SHARED_THREADS / BT_CUDA_WARP : 1;
    e->threads = e->row_threads * e->block_rows;
}

// The emitter's rule.
static void choose(bt_cuda_emitter *e, const bt_fused *group)
{
    e->group = group;
    e->lanes = choose_lanes(group);
    e->threads = STREAM_THREADS;
    e->packs = 1;
    e->inside[0] = BT_CUDA_NONE;
    if (group->kind == BT_FUSED_ROW) {
        choose_row_threads(e);
    } else if (group->kind == BT_FUSED_COLUMN) {
        e->threads = bt_cuda_column_threads();
    } else if (group->kind == BT_FUSED_PRODUCT) {
        e->threads = bt_cuda_product_threads();
        e->side = bt_cuda_product_side(group);
        e->lanes = e->lanes > 2 ? 2 : e->lanes; // what a thread has of a row of the tile
    }
}

// Another tiling than the rule's. The reason why the group cannot have it; NULL: none.
static const char *adopt(bt_cuda_emitter *e, const bt_cuda_tiling *tiling)
{
    static const char *const none = "no CUDA code is generated for such a tiling";
    const bt_fused_kind kind = e->group->kind;
    const int warps = tiling->threads / BT_CUDA_WARP;
    if (warps < 1 || tiling->threads % BT_CUDA_WARP || tiling->threads > BT_CUDA_THREADS_MOST) {
        return none;
    }
    if (kind == BT_FUSED_PRODUCT) {
        e->side = tiling->rows;
        return tiling->threads == e->threads && bt_cuda_product_has_side(e->side) ? NULL : none;
    }
    e->threads = tiling->threads;
    if (kind == BT_FUSED_ROW) { // rows share a block only if each has one warp
        if (tiling->rows < 1 || (tiling->rows > 1 && tiling->rows != warps)) {
            return none;
        }
        e->block_rows = tiling->rows;
        e->row_threads = tiling->threads / tiling->rows;
        e->packs = packs_of(e);
    }
    return NULL;
}

static const char *refuses(const bt_cuda_emitter *e)
{
    const bt_fused *g = e->group;
    if (g->kind > BT_FUSED_PRODUCT) {
        return "no CUDA code is generated for groups of this kind";
    }
    if (g->kind == BT_FUSED_ROW &&
        (e->packs > BT_CUDA_PACKS_MOST || (g->rank == 1 && g->dynamic_rows))) {
        return "no CUDA code is generated for rows of this length";
    }
    for (int k = 0; k < g->operand_count; ++k) {
        const int64_t stride = g->operands[k].stride[g->rank - 1];
        if (g->operands[k].offset_bytes % 16) {
            return "an operand does not begin at a multiple of 16 bytes";
        }
        if ((stride != 0 && stride != 1) ||
            (g->kind != BT_FUSED_ROW && stride == 0 && g->operands[k].is_written &&
             (g->kind == BT_FUSED_ELEMENTWISE || g->shape[g->rank - 1] > 1))) {
            return "no CUDA code is generated for inner strides other than 0 and 1";
        }
    }
    for (int i = 0; i < g->code_count; ++i) {
        const char *why = bt_emit_math_cuda_refuses(&g->code[i]);
        if (why) {
            return why;
        }
    }
    return g->kind == BT_FUSED_COLUMN    ? bt_cuda_column_refuses(e)
           : g->kind == BT_FUSED_PRODUCT ? bt_cuda_product_refuses(g)
                                         : NULL;
}

const char *bt_emit_cuda_refuses(const bt_fused *group)
{
    bt_cuda_emitter e = {.group = group};
    choose(&e, group);
    return refuses(&e);
}

static void describe(const bt_cuda_emitter *e, int lanes, bt_emitted_cuda *out)
{
    out->threads = e->threads;
    out->block_rows = e->block_rows;
    out->block_elements = (int64_t)e->threads * lanes;
    out->tile_columns = (int64_t)BT_CUDA_WARP * lanes;
    out->tile_side = e->side;
    out->alignment_bytes = 16;
    out->is_early = e->is_early;
}

void bt_emit_cuda_rule(const bt_fused *group, bt_emitted_cuda *out)
{
    bt_cuda_emitter e = {.group = group};
    memset(out, 0, sizeof *out);
    choose(&e, group);
    describe(&e, e.lanes, out);
}

bt_status bt_emit_cuda(const bt_fused *group, const bt_cuda_tiling *tiling, bool is_early,
                       bt_emitted_cuda *out)
{
    void *block = NULL;
    memset(out, 0, sizeof *out);
    BT_TRY(bt_fused_check(group));
    BT_TRY(bt_mem_alloc(1, sizeof(bt_cuda_emitter), &block));
    bt_cuda_emitter *e = block;
    e->ir.native_bf16 = true;
    e->is_early = is_early;
    choose(e, group);
    const char *why = tiling ? adopt(e, tiling) : NULL;
    why = why ? why : refuses(e);
    const int lanes = e->lanes;
    bt_status status = why ? bt_error(BT_STATUS_UNSUPPORTED, "a %s group: %s",
                                      bt_fused_kind_text(group->kind), why)
                           : BT_OK;
    if (status == BT_OK) {
        module(e);
        status = bt_str_status(&e->ir.out);
    }
    out->text = e->ir.out;
    describe(e, lanes, out);
    bt_mem_free(e);
    return status;
}

static int64_t outer_elements(const bt_fused *group, int64_t rows)
{
    int64_t count = group->dynamic_rows ? rows : group->shape[0];
    for (int i = 1; i + 1 < group->rank; ++i) {
        count *= group->shape[i];
    }
    return count;
}

int64_t bt_emit_blocks(const bt_fused *group, const bt_emitted_cuda *emitted, int64_t rows)
{
    const int64_t cols = group->shape[group->rank - 1], outer = outer_elements(group, rows);
    if (group->kind == BT_FUSED_ROW) {
        return bt_div_up(group->rank == 1 ? 1 : outer, emitted->block_rows);
    }
    if (group->kind == BT_FUSED_COLUMN) {
        return bt_div_up(outer, BT_CUDA_CHUNK) * bt_div_up(cols, emitted->tile_columns);
    }
    if (group->kind == BT_FUSED_PRODUCT) {
        return bt_cuda_product_blocks(group, emitted->tile_side);
    }
    return bt_div_up(group->rank == 1 ? outer : outer * cols, emitted->block_elements);
}

bt_status bt_emit_check_rows(const bt_fused *group, const bt_emitted_cuda *emitted, int64_t rows)
{
    const int64_t blocks = bt_emit_blocks(group, emitted, rows);
    return blocks <= (int64_t)UINT32_MAX / emitted->threads
               ? BT_OK
               : bt_error(BT_STATUS_UNSUPPORTED,
                          "%lld blocks of %d threads; generated code counts at most 2^32 threads",
                          (long long)blocks, emitted->threads);
}

int64_t bt_emit_finish_blocks(const bt_fused *group)
{
    return group->kind == BT_FUSED_COLUMN ? bt_div_up(group->shape[group->rank - 1], BT_CUDA_WARP)
                                          : 0;
}

int64_t bt_emit_parts_bytes(const bt_fused *group, int64_t rows)
{
    const int64_t chunks = bt_div_up(outer_elements(group, rows), BT_CUDA_CHUNK);
    return group->kind == BT_FUSED_COLUMN
               ? chunks * bt_cuda_column_sums(group, NULL) * group->shape[group->rank - 1] *
                     (int64_t)sizeof(double)
               : 0;
}
