// kernels/cpu/gemm.c - D = epilogue(alpha op(A) op(B)) + beta C, through OpenBLAS
//
// D is cut into tiles by its shape and the machine's number of processors; a thread computes a tile
// with one single-threaded BLAS call (OpenBLAS uses one thread inside a parallel region) and
// applies the epilogue. So the bits depend on shapes and machine, never on the number of threads.
// Tiles are few, one a processor where D is not huge: each packs its operands anew, and with two
// processors this keeps the rate of plain threaded cblas_sgemm at training shapes.
//
// Shapes   row-major, row strides below 2^31; k below 2^31; batch entries by their strides;
//          c may be d; D must not alias the other operands
// Types    f32, f64: a, b, c, d, bias and aux alike. Sums in that type, OpenBLAS' order
// NaN      propagates, except through alpha == 0 (A, B are not read) and beta == 0 (C is not read)
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

// How D is cut: `row_tiles` x `col_tiles` tiles of at most tile_rows x tile_cols.
typedef struct gemm_tiling {
    int64_t tile_rows, tile_cols;
    int64_t row_tiles, col_tiles;
} gemm_tiling;

enum {
    TILE_LONGEST = 16384, // no tile's side is longer
    TILE_SHORTEST = 64,   // no side is cut for the sake of more tiles below this
    TILE_STEP = 16,       // a multiple of the micro-kernels' sizes
    TILE_SMALL = 1 << 21, // up to so many multiply-adds one tile does
    ROWS_FEW = 16,        // columns are cut first when there are so many times more of them
    DGELU_TILE = 64,      // side of the tile that DGELU with beta keeps on the stack
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

static int64_t divide_up(int64_t size, int64_t part) { return (size + part - 1) / part; }

// The length of a tile's side when `size` is cut in `parts`, or more where they were too long; the
// number of parts stays a multiple of `parts`.
static int64_t part_length(int64_t size, int64_t parts)
{
    const int64_t rounds = divide_up(size, parts * TILE_LONGEST);
    return divide_up(divide_up(size, parts * rounds), TILE_STEP) * TILE_STEP;
}

static int64_t parts_wanted(int64_t size, int64_t wanted)
{
    const int64_t most = divide_up(size, TILE_SHORTEST);
    return wanted < most ? wanted : most;
}

// A tile for every processor: rows are cut first, which OpenBLAS likes better, then columns; the
// other way round where rows are few.
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
        const int64_t wanted = divide_up(processors, op->batch);
        const int64_t parts = parts_wanted(first, wanted);
        const int64_t rest = parts_wanted(second, divide_up(wanted, parts));
        tiling.tile_rows = part_length(op->m, rows_first ? parts : rest);
        tiling.tile_cols = part_length(op->n, rows_first ? rest : parts);
    }
    tiling.row_tiles = divide_up(op->m, tiling.tile_rows);
    tiling.col_tiles = divide_up(op->n, tiling.tile_cols);
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
