// framework/compiler/emit_cuda_tile.h - what the two files of the CUDA emitter for products share
#ifndef BT_COMPILER_EMIT_CUDA_TILE_H
#define BT_COMPILER_EMIT_CUDA_TILE_H

#include "framework/compiler/emit_cuda.h"

enum {
    BT_TILE_THREADS = 128,
    BT_TILE_WARPS = 2,     // along each side of the tile
    BT_TILE_PAD_WORDS = 4, // after a row in shared memory: the 8 rows of a fragment use other banks
    BT_TILE_WORDS = 1024,  // of each operand in shared memory, without the padding
    BT_MMA_ROWS = 16,
    BT_MMA_COLS = 8,
    BT_MMA_WORDS = 8,
    BT_MMA_SUMS = 4,            // of a thread
    BT_TILE_FRAGMENTS_MOST = 4, // along a side of a warp's part
    BT_TILE_SUMS_MOST = BT_TILE_FRAGMENTS_MOST * BT_TILE_FRAGMENTS_MOST * BT_MMA_SUMS,
    BT_TILE_VECTORS_MOST = BT_TILE_WORDS * 2 / BT_TILE_THREADS // of a thread: one bf16 each
};

// One of A and B. `rows` are those of op(A), or the columns of op(B).
typedef struct bt_tile_source {
    int operand, lanes, count; // elements of a vector, vectors of a thread
    bool along_k;              // k is contiguous in memory
    int64_t rows, ld, stride;
    int origin;                       // value: the tile's first row
    int base[BT_TILE_VECTORS_MOST];   // values: a vector's first element at k 0
    int k[BT_TILE_VECTORS_MOST];      // values: its k in the step
    int inside[BT_TILE_VECTORS_MOST]; // values: does the operand have its row?
    int to[BT_TILE_VECTORS_MOST];     // values: its element in shared memory, i32
    const char *array;
} bt_tile_source;

typedef struct bt_tile {
    bt_cuda_emitter *e;
    const bt_gemm_args *args;
    bool narrow;                      // bf16
    int side, words, row_words, step; // words: of a row in shared memory; step: elements of k
    int down, across;                 // fragments of a warp
    int entry, thread;                // values
    int lane_row, lane_col;           // values, i32: of a thread in a fragment
    int warp_row, warp_col;           // values, i32
    bt_tile_source a, b;
} bt_tile;

// Arithmetic of i32 values, and of i64 ones.
int bt_tile_number(bt_tile *p, int64_t value);
int bt_tile_math(bt_tile *p, const char *op, int a, int b);
int bt_tile_wide(bt_tile *p, int a); // i32 to i64
int bt_tile_times(bt_tile *p, int a, int64_t factor);
int bt_tile_inside(bt_tile *p, int a, int64_t end); // a < end, unsigned

// Chooses the accesses to A and B; origins and `entry` are set.
void bt_tile_place(bt_tile *p);
// Emits the loop over k. sums: values, MMA_SUMS per fragment, fragments row by row.
void bt_tile_multiply(bt_tile *p, int *sums);

#endif
