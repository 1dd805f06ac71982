// kernels/cuda/gemm/sm90.h - what host and device of the Hopper GEMMs share: problem, variant, plan
#ifndef BT_KERNELS_CUDA_GEMM_SM90_H
#define BT_KERNELS_CUDA_GEMM_SM90_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

namespace bt_gemm_sm90
{

constexpr int SHARED_BYTES_MOST = 232448; // what a block may have on compute capability 9.0

// What becomes of a tile's sums. Outputs are of the operands' type but for F32.
enum ending {
    ENDING_STORE, // d = alpha s + bias
    ENDING_ADD,   // d = alpha s + bias + beta c; c may be d
    ENDING_GELU,  // aux = alpha s + bias, d = gelu(aux)
    ENDING_DGELU, // d = alpha s gelu'(aux); in bf16 the sums of its columns, where asked for
    ENDING_F32,   // d = alpha s + bias, or d += that, f32; K may be split
    ENDING_COUNT
};

// A kernel's one argument. `units`, `tiles_*` and `splits` say how the work is cut.
struct problem {
    CUtensorMap a, b;      // operands; b of bf16 alone
    CUtensorMap d, other;  // output; c (ADD), aux (GELU: output, DGELU: input)
    const float *b_values; // tf32: what b would describe
    int64_t ldb, stride_b; // its strides in elements
    const void *bias;      // [n] of the operands' type, or NULL
    float *column_sums;    // DGELU: [tiles_m, n], of each row of tiles, or NULL
    int *turn;             // F32, splits > 1: splits of each part of a tile that are done, 0 first
    float alpha, beta;
    int m, n, k, batch;
    int tiles_m, tiles_n, splits, units;
    int group; // rows of tiles that are swept together over all columns
};

// A kernel.
struct variant {
    int tile_m, tile_n;
    bool trans_a, trans_b;
    ending kind;
    void (*kernel)(const problem);
    int shared_bytes, threads;
};

// The kernels of one precision.
struct family {
    const char *name; // of the row
    bt_dtype dtype;   // of the operands
    bt_compute compute;
    int depth;           // of a k-block
    bool ping_pong;      // consumers take whole tiles in turn; else each half of every tile
    int flops_per_cycle; // of an SM's tensor cores
    const variant *variants;
    int variant_count;
};

// A way to compute a call.
struct plan {
    const variant *how;
    int splits; // of K; 1 but for F32
    int group;
    double cycles; // estimate
};

constexpr int SPLITS_MOST = 24, PLANS_MOST = 4 * SPLITS_MOST;
constexpr int TURNS_PER_TILE = 2; // flags: one for each consumer that writes a part of a tile

extern const family family_bf16, family_tf32;

// The ending of a call; ENDING_COUNT for one that the family has none for.
ending ending_of(const family &of, const bt_gemm_args *args);
// Can the family compute the call at all, whatever its speed? The functions below want calls that
// are legal. Plans are functions of the call and of the number of SMs alone.
bool is_legal(const family &of, const bt_gemm_args *args);
bool is_worth_it(const family &of, const bt_gemm_args *args, int processors);
// Every plan, the best by the cost model first; returns their number.
int plans_of(const family &of, const bt_gemm_args *args, int processors, plan plans[PLANS_MOST]);
plan plan_of(const family &of, const bt_gemm_args *args, int processors);
size_t workspace_of(const bt_gemm_args *args, const plan &chosen);
// dbias (+)= the sums over m of parts[m, n], `rows` rows, in a fixed order.
bt_status add_column_sums(const bt_launch *launch, const bt_gemm_args *args, const float *parts,
                          int64_t rows);
bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen);

// What a row of the kernel table is made of.
bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args);
bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args);

} // namespace bt_gemm_sm90

#endif
