// kernels/cuda/attention/backward_bf16_sm90.cu - flash attention backward for Hopper, bf16
//   with p = exp(scale q k^T - lse), dp = do v^T, delta = rowsum(do o), ds = p (dp - delta):
//   dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], lse [B, H, T] f32; D <= 128, a multiple of 8; full, or causal
//          with as many keys as queries, any number of them; accumulation
// Types    bf16 operands, fp32 sums; p and ds are rounded to bf16 before their products.
//          Accumulation rounds the gradient, then the sum, which L2 forms
// Plan     queries_sm90.cuh gives dq and the row statistics, keys_bf16_sm90.cuh dk and dv; of few
//          heads up to 64 columns both at once (side_by_side_bf16_sm90.cuh). A call for dk and dv
//          alone makes the statistics of the delta that it is given (delta_sm90.cu)
// Bitwise  fixed order of each sum, no atomics; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: likewise of
//          all rows that see it
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/attention.h"
#include "kernels/cuda/attention/backward_bf16_sm90.cuh"
#include "kernels/cuda/attention/side_by_side_bf16_sm90.cuh"

size_t bt_attention_backward_bf16_sm90_workspace(const bt_device *, const void *args)
{
    return bt_attention_sm90::statistics_bytes(((const bt_attention_backward_args *)args)->shape);
}

bt_status bt_attention_backward_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    BT_TRY(check_workspace(launch, "attention backward bf16", statistics_bytes(a->shape)));
    if (bt_attention_wants_all(a) &&
        side_by_side_pays_bf16(a->shape, launch->device->info.processor_count)) {
        return side_by_side::run(launch, a, (float *)launch->workspace);
    }
    auto *run = a->shape.head_dim <= COLUMNS ? run_backward<bf16_tiles<1>, false>
                                             : run_backward<bf16_tiles<2>, false>;
    return run(launch, a, (float *)launch->workspace, nullptr);
}
