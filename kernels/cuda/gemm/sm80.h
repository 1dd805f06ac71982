// kernels/cuda/gemm/sm80.h - what host and device of the GEMMs for any GPU from sm_80 on share
#ifndef BT_KERNELS_CUDA_GEMM_SM80_H
#define BT_KERNELS_CUDA_GEMM_SM80_H

#include "kernels/cuda/cuda.h"

namespace bt_gemm_sm80
{

// A kernel's one argument: the call, and how it is cut. A unit is a tile and a part of K; units are
// numbered in groups of `group` rows of tiles, all of a split before the next split's.
struct problem {
    bt_gemm_args call;
    float alpha, beta;
    int *turn; // splits > 1: splits of each tile that are done; zero at first
    int tiles_m, tiles_n, splits, units, group;
    bool wide_a, wide_b, wide_d; // addresses and strides are multiples of 16 bytes (wide_d: of c, d
                                 // and aux)
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
    int splits, group;
    double cycles; // estimate
};

constexpr int SPLITS_MOST = 24, PLANS_MOST = 4 * SPLITS_MOST;

extern const family family_bf16, family_tf32, family_fp32;

bool is_legal(const family &of, const bt_gemm_args *args);
// Every plan of a legal call, the best by the cost model first; returns their number, which is not
// 0 as every family has a kernel for 99 KiB of shared memory, the least from sm_80 on. Plans are
// functions of the call, the number of SMs and their shared memory alone.
int plans_of(const family &of, const bt_gemm_args *args, const bt_device_info &on,
             plan plans[PLANS_MOST]);
size_t workspace_of(const bt_gemm_args *args, const plan &chosen);
bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen);

// What a row of the kernel table is made of.
bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args);
size_t workspace(const family &of, const bt_device *device, const bt_gemm_args *args);
bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args);

} // namespace bt_gemm_sm80

#endif
