// kernels/cuda/gemm/sm80.h - types shared by host and device code of the sm_80 GEMMs
//
// Split K is deterministic: parts of tiles are stored in the workspace (up to 64 KB a block), and
// the block that began a tile adds them in ascending order.
#ifndef BT_KERNELS_CUDA_GEMM_SM80_H
#define BT_KERNELS_CUDA_GEMM_SM80_H

#include "kernels/cuda/cuda.h"

namespace bt_gemm_sm80
{

// A divisor that is constant over a launch, as a multiplication, which is several times faster.
struct divisor {
    int by;
    unsigned factor, shift;
};

// A kernel's one argument: the call, and how it is cut (units_sm80.cuh). Tiles are numbered in
// groups of rows of tiles.
struct problem {
    bt_gemm_args call;
    float alpha, beta;
    float *parts;    // [blocks][tile_m tile_n], a block's sums of a cut tile
    int *left_parts; // [blocks], whether they have been stored; zero at first
    int tiles;
    divisor per_batch, per_group;  // tiles
    divisor group_rows, last_rows; // rows of tiles of a group, and of the last
    int whole_groups;
    int depth_blocks;            // k-blocks of a tile
    int cut;                     // tiles that are cut
    int share, larger;           // k-blocks of them for each block; `larger` blocks have one more
    bool wide_a, wide_b, wide_d; // addresses and strides are multiples of 16 bytes (wide_d: of
                                 // c, d and aux)
};

// A kernel.
struct variant {
    int tile_m, tile_n, depth; // of a tile and a k-block
    bool trans_a, trans_b;
    bt_dtype d_dtype;
    void (*kernel)(const problem);
    int threads, shared_bytes;
    int blocks_per_sm;
    double efficiency; // of the multiplication alone
};

// The kernels of one precision.
struct family {
    const char *name; // of the row
    bt_dtype dtype;   // of the operands
    bt_compute compute;
    int flops_per_cycle; // of an SM
    const variant *variants;
    int variant_count;
};

// A way to compute a call.
struct plan {
    const variant *how;
    int splits; // 1: no tile is cut. 2: those beyond whole rounds of all blocks are; 3: and those
                // of a round more
    int group;
    double cycles; // estimate
    int blocks;    // of the launch
};

constexpr int SPLITS_MOST = 3, PLANS_MOST = 96; // as many as for Hopper: candidates.cu
constexpr int PLAN_NUMBERS = 32; // a plan's number: its variant times this, and its splits

extern const family family_bf16, family_tf32, family_fp32;

bool is_legal(const family &of, const bt_gemm_args *args);
// Every plan of a legal call, the best by the cost model first; returns their number, which is not
// 0 as every family has a kernel for 99 KiB of shared memory, the least from sm_80 on. Plans are
// functions of the call, the number of SMs and their shared memory alone.
int plans_of(const family &of, const bt_gemm_args *args, const bt_device_info &on,
             plan plans[PLANS_MOST]);
// The plan of a number, and the number of a plan, which is never 0.
plan plan_at(const family &of, const bt_gemm_args *args, int number);
int number_of(const family &of, const plan &chosen);
size_t workspace_of(const bt_gemm_args *args, const plan &chosen);
bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen);

// What a row of the kernel table is made of.
bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args);
size_t workspace(const family &of, const bt_device *device, const bt_gemm_args *args);
bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args);

} // namespace bt_gemm_sm80

#endif
