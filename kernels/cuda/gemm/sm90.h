// kernels/cuda/gemm/sm90.h - types shared by host and device code of the Hopper GEMMs: problem,
//   variant, plan
//
// Layouts and epilogues that the kernels have:
//   bf16  NT: alpha and bias; + beta C; GELU with the pre-activation; f32 with bias; exponentials,
//         for exps_sm90.cu alone. NN: plain; + beta C; GELU's derivative, with D's column sums;
//         f32 with bias. TN: f32, with A's column sums. f32 is stored or added to D; K may be
//         split, in TN also in clusters of 2 or 3.
//   tf32  every layout: bias, stored or added to D in place; K may be split. NT: + beta C; GELU.
//         NN: GELU's derivative. TN: with A's column sums.
//
// Split K is deterministic: splits add to D in ascending order by TMA reductions; a flag in the
// workspace passes the turn to the next split. In a cluster, each block adds up the parts of its
// lines from the others' shared memory; there is no flag and no workspace. Launches whose blocks
// wait for each other are cooperative.
//
// Bias gradients (dbias) are sums of D's columns as stored, computed by the epilogue with GELU's
// derivative while a tile is in shared memory. Weight gradients (dbias_of_a) sum the columns of A:
// in bf16 the producer warpgroup's idle warps do so from the ring, in tf32 the consumers or the
// pass that rounds A. Partial sums go to the workspace; column_sums_sm90.cu reduces them in order.
// Groups have no sums, and calls with sums and groups are not tuned.
#ifndef BT_KERNELS_CUDA_GEMM_SM90_H
#define BT_KERNELS_CUDA_GEMM_SM90_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

namespace bt_gemm_sm90
{

constexpr int SHARED_BYTES_MOST = 232448; // limit of a block on compute capability 9.0

// Epilogues. Outputs have the operands' type, except for F32.
enum epilogue {
    EPILOGUE_STORE, // d = alpha s + bias
    EPILOGUE_ADD,   // d = alpha s + bias + beta c; c may be d
    EPILOGUE_GELU,  // aux = alpha s + bias, d = gelu(aux)
    EPILOGUE_DGELU, // d = alpha s gelu'(aux); in bf16 the sums of its columns, where asked for
    EPILOGUE_F32,   // d = alpha s + bias, or d += that, f32; K may be split
    EPILOGUE_EXP,   // d = exp(s - reference of the row), 0 at the row's target; sums of rows
    EPILOGUE_COUNT
};

// A kernel's one argument. `units`, `tiles_*` and `splits` describe how the work is divided.
struct problem {
    CUtensorMap a, b;       // operands
    CUtensorMap d, other;   // output; c (ADD), aux (GELU: output, DGELU: input)
    const float *b_values;  // tf32, unless a pass rounds b: the matrix B
    int64_t ldb, stride_b;  // its strides in elements
    const void *bias;       // [n] of the operands' type, or NULL
    float *column_sums;     // DGELU: [tiles_m, n], of each row of tiles, or NULL
    float *a_sums;          // A MN-major: [parts, m], of op(A)'s rows, in parts of K, or NULL
    const float *reference; // EXP: [m]
    const int *targets;     // EXP: [m], columns
    float *row_sums;        // EXP: [tiles_n, m], of each tile's values before they are rounded
    float *out;             // d where threads write it (clusters)
    int64_t ld_out, stride_out;
    int *turn; // F32, splits > 1: splits of each part of a tile that are done, 0 first
    float alpha, beta;
    int m, n, k, batch;
    int tiles_m, tiles_n, splits, units;
    int group; // rows of tiles that are swept together over all columns
};

// A kernel.
struct variant {
    int tile_m, tile_n;
    bool trans_a, trans_b;
    epilogue kind;
    void (*kernel)(const problem);
    int shared_bytes, threads;
    bool ping_pong = true; // consumers take whole tiles in turn; else each half of every tile
    bool rounds_b = false; // B comes as round_b leaves it
    int cluster = 0;       // blocks that share a tile's K (cluster_sm90.cuh); 0: none do
    // The kernel computes D^T: its A is the call's B, its B the call's A. Tiles here are D's.
    bool exchanged = false;
};

// The kernels of one precision.
struct family {
    const char *name; // of the row
    bt_dtype dtype;   // of the operands
    bt_compute compute;
    int depth;           // of a k-block
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
constexpr int PLAN_NUMBERS = 32;  // a plan's number: its variant times this, and its splits
constexpr int TURNS_PER_TILE = 2; // flags: one for each consumer that writes a part of a tile

extern const family family_bf16, family_tf32;

// The epilogue of a call; EPILOGUE_COUNT for one that the family has none for.
epilogue epilogue_of(const family &of, const bt_gemm_args *args);
// Can the family compute the call at all, whatever its speed? The functions below want calls that
// are legal. Plans are functions of the call and of the number of SMs alone.
bool is_legal(const family &of, const bt_gemm_args *args);
bool is_worth_it(const family &of, const bt_gemm_args *args, int processors);
// Every plan, the best by the cost model first; returns their number.
int plans_of(const family &of, const bt_gemm_args *args, int processors, plan plans[PLANS_MOST]);
plan plan_of(const family &of, const bt_gemm_args *args, int processors);
// The plan of a number, and the number of a plan, which is never 0.
plan plan_at(const family &of, const bt_gemm_args *args, int number);
int number_of(const family &of, const plan &chosen);
size_t workspace_of(const bt_gemm_args *args, const plan &chosen);
// tf32: B^T, rounded, as [batch, n, rounded_ld], n at most ROUNDED_N_MOST; `to` at a multiple of 16
// bytes. Where A is MN-major each eight values of k stand as 0, 2, 4, 6, 1, 3, 5, 7. `sums`, or
// NULL: [rounded_parts, n], the sums of B's columns, in parts of k; batch 1. The kernel after it
// may start before its end.
constexpr int64_t ROUNDED_N_MOST = 65535 * 64;
int64_t rounded_ld(const bt_gemm_args *args);
int64_t rounded_parts(const bt_gemm_args *args);
bt_status round_b(const bt_launch *launch, const bt_gemm_args *args, float *to, float *sums);
// The call as the plan's kernel sees it, but for D: operands exchanged or not.
bt_gemm_args roles_of(const bt_gemm_args *args, const variant &how);
// dbias[count] (+)= the sums over rows of parts[rows, count], in a fixed order.
bt_status add_column_sums(const bt_launch *launch, const bt_gemm_args *args, const float *parts,
                          int64_t rows, int64_t count);
bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen);
// d = exp(a b^T - reference), a product whose plain call is legal. row_sums: [parts, m], parts =
// exps_parts of the call.
int64_t exps_parts(const family &of, const bt_gemm_args *args, int processors);
bt_status launch_exps(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const float *reference, const int *targets, float *row_sums);

// ---- pieces: a product whose rows arrive or leave while it runs ---------------------------------

// A kernel's one argument (bt_gemm_pieces_args).
struct pieces {
    problem product;
    CUtensorMap own; // rows own_begin to own_end of A
    int own_begin, own_end;
    int rows;    // of a piece
    int first_m; // where the units begin
    int number;  // of pieces
    uint32_t *ready, *done, *count;
};

struct pieces_variant {
    int tile_n;
    bool trans_b;
    epilogue kind;
    void (*kernel)(const pieces);
    int shared_bytes;
};

bt_status launch_pieces(const bt_launch *launch, const bt_gemm_pieces_args *args);

// ---- groups: bf16 weight gradients (EPILOGUE_F32) of one or several products, in one launch -----

constexpr int GROUP_MOST = 8; // products of a launch; a larger group takes several
constexpr int BLOCKS_MOST = 160;

// A kernel's one argument: products and how their work is shared out (work_sm90.cuh).
struct group {
    problem products[GROUP_MOST];
    // Of each product, then once more for the end: what comes before it, in tiles and in k-blocks.
    int first_tile[GROUP_MOST + 1], first_block[GROUP_MOST + 1];
    int tiles, cut_tiles;      // all; the first so many are cut
    int cuts[BLOCKS_MOST + 1]; // block b adds up the k-blocks cuts[b] to cuts[b + 1] of those
};

struct group_variant {
    int tile_m, tile_n;
    void (*kernel)(const group);
    int shared_bytes, threads;
};

// A way to compute a group.
struct group_plan {
    const group_variant *how;
    int blocks;    // of the launch: all SMs where tiles are cut, or as many as there are tiles
    int cut_tiles; // these are shared out among the first `sharers` blocks, the others are whole
    int sharers;
    double stagger; // a tile's next part is that many k-blocks deeper: it ends when its turn comes
    double cycles;  // estimate
};

constexpr int GROUP_PLANS_MOST = 64;

bool group_is_legal(const bt_gemm_args *products, int64_t count);
// Every plan for up to GROUP_MOST legal products, the best by the model first.
int group_plans_of(const bt_gemm_args *products, int count, int processors,
                   group_plan plans[GROUP_PLANS_MOST]);
size_t group_workspace_of(const bt_gemm_args *products, int count, const group_plan &chosen);
bt_status group_launch_plan(const bt_launch *launch, const bt_gemm_args *products, int count,
                            const group_plan &chosen);

// ---- parts of a launch --------------------------------------------------------------------------

// `rounded`: where B stands as round_b leaves it, if the plan wants that.
bt_status make_problem(const family &of, const bt_gemm_args *args, const plan &chosen,
                       const float *rounded, problem *p);

// What a row of the kernel table is made of.
bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args);
bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args);

} // namespace bt_gemm_sm90

#endif
