// kernels/cuda/gemm/bf16_sm90.h - what host and device of the Hopper GEMM share: problem and plan
#ifndef BT_KERNELS_CUDA_GEMM_BF16_SM90_H
#define BT_KERNELS_CUDA_GEMM_BF16_SM90_H

#include <cuda.h>
#include <cuda_bf16.h>

#include "kernels/cuda/cuda.h"

namespace bt_gemm_sm90
{

constexpr int SHARED_BYTES_MOST = 232448; // what a block may have on compute capability 9.0

// What becomes of a tile's sums.
enum ending {
    ENDING_STORE, // d = alpha s + bias, bf16
    ENDING_ADD,   // d = alpha s + bias + beta c, bf16; c may be d
    ENDING_GELU,  // aux = alpha s + bias, d = gelu(aux), bf16
    ENDING_DGELU, // d = alpha s gelu'(aux), bf16
    ENDING_F32,   // d = alpha s, or d += alpha s, f32; K may be split
    ENDING_COUNT
};

// The kernel's one argument. `units`, `tiles_*` and `splits` say how the work is cut.
struct problem {
    CUtensorMap a, b;          // operands
    CUtensorMap d, other;      // output; c (ADD), aux (GELU: output, DGELU: input)
    const __nv_bfloat16 *bias; // [n] or NULL
    int *turn;                 // F32, splits > 1: splits of each tile that are done; zero at first
    float alpha, beta;
    int m, n, k, batch;
    int tiles_m, tiles_n, splits, units;
    int group; // rows of tiles that are swept together over all columns
};

// A way to compute a call.
struct plan {
    int tile_n; // 128 or 192
    int splits; // of K; 1 but for F32
    int group;
    double cycles; // estimate
};

constexpr int SPLITS_MOST = 16, PLANS_MOST = 2 * SPLITS_MOST;

// The ending of a call; ENDING_COUNT for one that has none here.
ending ending_of(const bt_gemm_args *args);
// Can the kernel compute the call at all, whatever its speed? The functions below want calls that
// are legal. Plans are functions of the call and of the number of SMs alone.
bool is_legal(const bt_gemm_args *args);
bool is_worth_it(const bt_gemm_args *args, int processors);
// Every plan, the best by the cost model first; returns their number.
int plans_of(const bt_gemm_args *args, int processors, plan plans[PLANS_MOST]);
plan plan_of(const bt_gemm_args *args, int processors);
size_t workspace_of(const bt_gemm_args *args, const plan &chosen);
bt_status launch_plan(const bt_launch *launch, const bt_gemm_args *args, const plan &chosen);

} // namespace bt_gemm_sm90

#endif
