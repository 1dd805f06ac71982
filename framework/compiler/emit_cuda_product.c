// framework/compiler/emit_cuda_product.c - small and odd products on tensor cores, with the group's
// program as epilogue
//
// A block of 128 threads computes a square tile of D, each of its 2 x 2 warps a quarter.
// Order   steps of k ascending in f32, within a step the tensor core's; k is not split, so the bits
//         are the same at every launch
// Access  2 to 16 bytes, as row strides and the contiguous extent allow
#include "framework/compiler/emit_cuda_tile.h"

#include "framework/base/idioms.h"

enum {
    LARGE = 64, // sides of a tile
    SMALL = 32,
    BLOCKS_WANTED = 264 // of large tiles; if there are fewer, tiles are small
};

static bool is_narrow(const bt_gemm_args *args) { return args->ab_dtype == BT_BF16; }

// ---- shape --------------------------------------------------------------------------------------

int bt_cuda_product_side(const bt_fused *group)
{
    const bt_gemm_args *p = &group->product;
    const int64_t blocks = p->batch * bt_div_up(p->m, LARGE) * bt_div_up(p->n, LARGE);
    return p->m > SMALL && p->n > SMALL && blocks >= BLOCKS_WANTED ? LARGE : SMALL;
}

bool bt_cuda_product_has_side(int side) { return side == LARGE || side == SMALL; }

int64_t bt_cuda_product_blocks(const bt_fused *group, int64_t side)
{
    const bt_gemm_args *p = &group->product;
    return p->batch * bt_div_up(p->m, side) * bt_div_up(p->n, side);
}

const char *bt_cuda_product_refuses(const bt_fused *group)
{
    const bt_gemm_args *p = &group->product;
    const bool tf32 = p->ab_dtype == BT_F32 && p->compute == BT_COMPUTE_TF32;
    if (!is_narrow(p) && !tf32) {
        return "products are generated in bf16 and tf32";
    }
    if (p->d_dtype != BT_F32 || p->alpha != 1 || p->k < 1 || p->n < 2) {
        return "no CUDA code is generated for this kind of product";
    }
    for (int i = 0; i < group->code_count; ++i) {
        if (group->code[i].op == BT_FUSED_RESULT && group->code[i].order.lanes) {
            return "tensor cores sum in their own order";
        }
    }
    return NULL;
}

// ---- the epilogue -------------------------------------------------------------------------------

static int result_of(const bt_fused *g)
{
    int i = 0;
    while (g->code[i].op != BT_FUSED_RESULT) {
        ++i;
    }
    return i;
}

// One row of a fragment: 2 neighbouring columns in each of `across` places.
static void epilogue_row(bt_tile *p, int i, int half, const int *sums)
{
    bt_cuda_emitter *e = p->e;
    const bt_fused *g = e->group;
    const int result = result_of(g), pair = 2 / e->lanes;
    const bt_ir_type type = bt_cuda_type(e, BT_F32, e->lanes);
    const int local =
        bt_tile_math(p, "arith.addi", bt_tile_math(p, "arith.addi", p->warp_row, p->lane_row),
                     bt_tile_number(p, i * BT_MMA_ROWS + half * BT_MMA_ROWS / 2));
    const int row = bt_cuda_math64(p->e, "arith.addi", p->a.origin, bt_tile_wide(p, local));
    const int last = bt_cuda_constant(e, p->args->m - 1),
              in_row = bt_tile_inside(p, row, p->args->m);
    const int first = bt_tile_times(p, p->entry, p->args->m);
    bt_cuda_forget(e);
    bt_cuda_enter_row(e, bt_cuda_math64(p->e, "arith.addi", first,
                                        bt_cuda_math64(p->e, "arith.minui", row, last)));
    for (int pack = 0; pack < p->across * pair; ++pack) {
        const int j = pack / pair;
        const int twice = bt_tile_math(p, "arith.addi", p->lane_col, p->lane_col);
        const int col =
            bt_tile_math(p, "arith.addi", bt_tile_math(p, "arith.addi", p->warp_col, twice),
                         bt_tile_number(p, j * BT_MMA_COLS + pack % pair));
        e->column[pack] = bt_cuda_math64(p->e, "arith.addi", p->b.origin, bt_tile_wide(p, col));
        e->inside[pack] = bt_ir_two(&e->ir, "arith.andi", bt_ir_make(BT_IR_I1, 0), in_row,
                                    bt_tile_inside(p, e->column[pack], p->args->n));
        int made = bt_ir_zero(&e->ir, type);
        for (int lane = 0; lane < e->lanes; ++lane) {
            const int sum = sums[(i * p->across + j) * BT_MMA_SUMS + half * 2 + pack % pair + lane];
            made = bt_ir_insert(&e->ir, type, sum, made, lane);
        }
        e->vector[result][pack] = made;
        bt_cuda_stores_of_pack(e, pack);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

void bt_cuda_product_arrays(bt_cuda_emitter *e)
{
    for (int i = 0; i < 2; ++i) {
        bt_ir_line(&e->ir,
                   "llvm.mlir.global internal @staged_%s() {addr_space = 3 : i32, alignment = 16 : "
                   "i64} : !llvm.array<%d x i32>",
                   i ? "b" : "a", BT_TILE_WORDS + e->side * BT_TILE_PAD_WORDS);
    }
}

int bt_cuda_product_threads(void) { return BT_TILE_THREADS; }

static void find_place(bt_tile *p)
{
    bt_cuda_emitter *e = p->e;
    const int block = bt_cuda_number(e, "block_id");
    const int across = bt_cuda_constant(e, bt_div_up(p->args->n, p->side));
    const int down = bt_cuda_constant(e, bt_div_up(p->args->m, p->side));
    const int line = bt_cuda_divide(e, "arith.divui", block, across);
    p->b.origin = bt_tile_times(p, bt_cuda_divide(e, "arith.remui", block, across), p->side);
    p->a.origin = bt_tile_times(p, bt_cuda_divide(e, "arith.remui", line, down), p->side);
    p->entry = bt_cuda_divide(e, "arith.divui", line, down);
    p->thread = bt_ir_convert(&e->ir, "arith.trunci", bt_cuda_i64(), bt_ir_make(BT_IR_I32, 0),
                              bt_cuda_number(e, "thread_id"));
    const int lane = bt_tile_math(p, "arith.remui", p->thread, bt_tile_number(p, BT_CUDA_WARP));
    const int warp = bt_tile_math(p, "arith.divui", p->thread, bt_tile_number(p, BT_CUDA_WARP));
    const int part = bt_tile_number(p, p->side / BT_TILE_WARPS);
    p->lane_row = bt_tile_math(p, "arith.divui", lane, bt_tile_number(p, 4));
    p->lane_col = bt_tile_math(p, "arith.remui", lane, bt_tile_number(p, 4));
    p->warp_row =
        bt_tile_math(p, "arith.muli",
                     bt_tile_math(p, "arith.divui", warp, bt_tile_number(p, BT_TILE_WARPS)), part);
    p->warp_col =
        bt_tile_math(p, "arith.muli",
                     bt_tile_math(p, "arith.remui", warp, bt_tile_number(p, BT_TILE_WARPS)), part);
}

void bt_cuda_product_kernel(bt_cuda_emitter *e)
{
    const bt_gemm_args *args = &e->group->product;
    bt_tile p = {.e = e, .args = args, .narrow = is_narrow(args)};
    int sums[BT_TILE_SUMS_MOST];
    p.side = e->side;
    p.words = BT_TILE_WORDS / p.side;
    p.row_words = p.words + BT_TILE_PAD_WORDS;
    p.step = p.words * (p.narrow ? 2 : 1);
    p.down = p.side / BT_TILE_WARPS / BT_MMA_ROWS;
    p.across = p.side / BT_TILE_WARPS / BT_MMA_COLS;
    p.a = (bt_tile_source){.operand = e->group->call_operand[0],
                           .along_k = !args->trans_a,
                           .rows = args->m,
                           .ld = args->lda,
                           .stride = args->stride_a,
                           .array = "staged_a"};
    p.b = (bt_tile_source){.operand = e->group->call_operand[1],
                           .along_k = args->trans_b,
                           .rows = args->n,
                           .ld = args->ldb,
                           .stride = args->stride_b,
                           .array = "staged_b"};
    find_place(&p);
    bt_tile_place(&p);
    bt_tile_multiply(&p, sums);
    for (int i = 0; i < p.down; ++i) {
        for (int half = 0; half < 2; ++half) {
            epilogue_row(&p, i, half, sums);
        }
    }
}
