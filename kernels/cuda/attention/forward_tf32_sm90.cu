// kernels/cuda/attention/forward_tf32_sm90.cu - flash attention for Hopper, f32 in memory, products
//   in tf32
//   o = softmax(scale q k^T) v, lse = log sum exp
// Shapes   views of [B, T, H, D], any T; D <= 128, a multiple of 8; lse [B, H, T] f32
// Types    operands rounded to the nearest tf32 (q and k by TMA as it loads them, v by the pass
//          before, P in registers), fp32 sums and softmax
// Plan     v is transposed and rounded by a pass (transposed_tf32_sm90.h), then forward_sm90.cuh
// Bitwise  one warp sums a row, in descending key order; the schedule changes nothing
// Workspace  v transposed, as large as o
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach earlier rows of the same tile (0 * NaN in the product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   softmax in float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/forward_sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"

size_t bt_attention_tf32_sm90_workspace(const bt_device *, const void *args)
{
    return bt_attention_sm90::transposed_bytes(((const bt_attention_args *)args)->shape);
}

bt_status bt_attention_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_args *a = (const bt_attention_args *)args;
    const shape &s = a->shape;
    transposition v = {};
    v.from[0] = a->v;
    v.count = 1;
    v.to = (float *)launch->workspace;
    CUtensorMap v_transposed;
    BT_TRY(check_workspace(launch, "attention tf32", transposed_bytes(s)));
    BT_TRY(map_transposed(s, v, &v_transposed));
    BT_TRY(transpose(launch, s, v, "attention tf32, transposition"));
    auto *run = s.head_dim <= COLUMNS ? run_forward<tf32_tiles<1>, false>
                                      : run_forward<tf32_tiles<2>, false>;
    return run(launch, "attention tf32", a, &v_transposed, nullptr);
}
