// kernels/cuda/attention/backward_tf32_sm90.cu - flash attention backward for Hopper, f32 in
//   memory, products in tf32
//   with p = exp(scale q k^T - lse), dp = do v^T, delta = rowsum(do o), ds = p (dp - delta):
//   dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], any T; D <= 64, a multiple of 8; lse [B, H, T] f32
// Types    operands rounded to the nearest tf32, fp32 sums; delta from the f32 values
// Plan     a pass transposes and rounds k and do (transposed_tf32_sm90.h) and writes row
//          statistics; queries_sm90.cuh gives dq. Then q takes k's place in the workspace, and
//          keys_tf32_sm90.cuh gives dk and dv
// Bitwise  fixed order of each sum, no atomics; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row, then two transposed operands, each as large as dq
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: likewise of
//          all rows that see it
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/keys_tf32_sm90.cuh"
#include "kernels/cuda/attention/queries_sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"

namespace bt_attention_sm90
{
namespace
{

using format = tf32_tiles<1>;

// Places in the workspace: k for the first kernel, q for the second; do for both.
enum { K_OR_Q, DO, TRANSPOSED };

bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                      const transposition &what)
{
    using kernel = queries<format, false>;
    query_maps maps = {};
    const query_rows rows = {nullptr, what.statistics, {}};
    maps.k_transposed = K_OR_Q;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps.d_o));
    BT_TRY(map_transposed(s, what, &maps.transposed));
    BT_TRY(map_view(s, QUERIES, &a->dq, format::STORED, &maps.dq));
    const work w = work_make(s, QUERIES, kernel::GROUPS, launch->device->info.processor_count);
    return start_kernel<kernel>(launch, "attention backward tf32, queries", maps, w, rows);
}

bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                   const transposition &what)
{
    key_maps maps = {};
    maps.q_transposed = K_OR_Q;
    maps.d_o_transposed = DO;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps.d_o));
    BT_TRY(map_transposed(s, what, &maps.transposed));
    BT_TRY(map_view(s, KEYS, &a->dk, format::STORED, &maps.dk));
    BT_TRY(map_view(s, KEYS, &a->dv, format::STORED, &maps.dv));
    BT_TRY(map_statistics(s, what.statistics, &maps.statistics));
    const work w = work_make(s, KEYS, keys_tf32::GROUPS, launch->device->info.processor_count);
    return start_kernel<keys_tf32>(launch, "attention backward tf32, keys", maps, w, nullptr);
}

size_t workspace_bytes(const shape &s)
{
    return statistics_bytes(s) + TRANSPOSED * transposed_bytes(s);
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_backward_tf32_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    return workspace_bytes(((const bt_attention_backward_args *)args)->shape);
}

bt_status bt_attention_backward_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape &s = a->shape;
    BT_TRY(check_workspace(launch, "attention backward tf32", workspace_bytes(s)));
    transposition what = {};
    what.from[K_OR_Q] = a->k;
    what.from[DO] = a->d_o;
    what.count = TRANSPOSED;
    what.statistics = (float *)launch->workspace;
    what.to = (float *)((char *)launch->workspace + statistics_bytes(s));
    what.o = a->o;
    what.lse = (const float *)a->lse;
    BT_TRY(transpose(launch, s, what, "attention backward tf32, transposition"));
    BT_TRY(run_queries(launch, a, s, what));
    transposition of_q = {};
    of_q.from[K_OR_Q] = a->q;
    of_q.count = 1;
    of_q.to = what.to;
    BT_TRY(transpose(launch, s, of_q, "attention backward tf32, transposition of q"));
    return run_keys(launch, a, s, what);
}
