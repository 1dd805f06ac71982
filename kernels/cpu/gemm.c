// kernels/cpu/gemm.c - D = epilogue(alpha op(A) op(B)) + beta C, through OpenBLAS
//
// D is split into tiles by its shape and the machine's number of processors; a thread computes a
// tile with one single-threaded BLAS call (OpenBLAS uses one thread inside a parallel region) and
// applies the epilogue. So the bits depend on shapes and machine, not on the number of threads.
// There are few tiles, one per processor unless D is huge, because each packs its operands
// separately.
//
// Shapes   row-major, row strides below 2^31; k below 2^31; batch entries by their strides;
//          c may be d; D must not alias the other operands
// Types    f32, f64: a, b, c, d, bias and aux alike. Sums in that type, OpenBLAS' order
// NaN      propagates, except through alpha == 0 (A, B are not read) and beta == 0 (C is not read)
#include "framework/base/idioms.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

// Partition of D: `row_tiles` x `col_tiles` tiles of at most tile_rows x tile_cols.
typedef struct gemm_tiling {
    int64_t tile_rows, tile_cols;
    int64_t row_tiles, col_tiles;
} gemm_tiling;

enum {
    TILE_LONGEST = 16384, // maximum length of a tile's side
    TILE_SHORTEST = 64,   // sides shorter than this are not split to get more tiles
    TILE_STEP = 16,       // a multiple of the micro-kernels' sizes
    TILE_SMALL = 1 << 21, // up to this number of multiply-adds there is one tile
    ROWS_FEW = 16,        // columns are split first if there are this many times more of them
    DGELU_TILE = 64,      // side of the tile that DGELU with beta holds on the stack
};

// One tile of one batch entry; operands as offsets in elements from their base.
typedef struct gemm_tile {
    int64_t rows, cols;
    int64_t a, b, c, d, bias; // d also serves aux
} gemm_tile;

bool bt_gemm_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_gemm_args *op = args;
    const bool needs_aux =
        op->epilogue == BT_EPILOGUE_BIAS_GELU || op->epilogue == BT_EPILOGUE_DGELU;
    return !op->dbias && op->d_dtype == op->ab_dtype && (op->aux || !needs_aux) &&
           op->compute == BT_COMPUTE_NATIVE && op->k <= INT32_MAX && op->lda <= INT32_MAX &&
           op->ldb <= INT32_MAX && op->ldc <= INT32_MAX && op->ldd <= INT32_MAX;
}

// The length of a tile's side if `size` is split in `parts`, or in a multiple of `parts` if the
// tiles would be too long.
static int64_t part_length(int64_t size, int64_t parts)
{
    const int64_t rounds = bt_div_up(size, parts * TILE_LONGEST);
    return bt_div_up(bt_div_up(size, parts * rounds), TILE_STEP) * TILE_STEP;
}

static int64_t parts_wanted(int64_t size, int64_t wanted)
{
    const int64_t most = bt_div_up(size, TILE_SHORTEST);
    return wanted < most ? wanted : most;
}

// A tile for every processor: rows are split first, which is faster in OpenBLAS, then columns; the
// reverse if there are few rows.
static gemm_tiling cut(const bt_device *device, const bt_gemm_args *op)
{
    gemm_tiling tiling = {op->m, op->n, 1, 1};
    if (op->epilogue == BT_EPILOGUE_DGELU && op->beta != 0) {
        tiling.tile_rows = tiling.tile_cols = DGELU_TILE;
    } else if ((double)op->m * (double)op->n * (double)op->k > TILE_SMALL) {
        const bool rows_first = op->n / op->m < ROWS_FEW;
        const int64_t first = rows_first ? op->m : op->n, second = rows_first ? op->n : op->m;
        const int64_t processors =
            device->info.processor_count > 0 ? device->info.processor_count : 1;
        const int64_t wanted = bt_div_up(processors, op->batch);
        const int64_t parts = parts_wanted(first, wanted);
        const int64_t rest = parts_wanted(second, bt_div_up(wanted, parts));
        tiling.tile_rows = part_length(op->m, rows_first ? parts : rest);
        tiling.tile_cols = part_length(op->n, rows_first ? rest : parts);
    }
    tiling.row_tiles = bt_div_up(op->m, tiling.tile_rows);
    tiling.col_tiles = bt_div_up(op->n, tiling.tile_cols);
    return tiling;
}

static gemm_tile tile_at(const bt_gemm_args *op, const gemm_tiling *tiling, int64_t task)
{
    const int64_t tiles = tiling->row_tiles * tiling->col_tiles;
    const int64_t entry = task / tiles, index = task % tiles;
    const int64_t row = index / tiling->col_tiles * tiling->tile_rows;
    const int64_t col = index % tiling->col_tiles * tiling->tile_cols;
    return (gemm_tile){
        .rows = op->m - row < tiling->tile_rows ? op->m - row : tiling->tile_rows,
        .cols = op->n - col < tiling->tile_cols ? op->n - col : tiling->tile_cols,
        .a = entry * op->stride_a + (op->trans_a ? row : row * op->lda),
        .b = entry * op->stride_b + (op->trans_b ? col * op->ldb : col),
        .c = entry * op->stride_c + row * op->ldc + col,
        .d = entry * op->stride_d + row * op->ldd + col,
        .bias = col,
    };
}

#define BT_BODY "kernels/cpu/gemm.inl"
#include "kernels/cpu/both.h"
