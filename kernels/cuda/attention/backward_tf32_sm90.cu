// kernels/cuda/attention/backward_tf32_sm90.cu - flash attention backward for Hopper, f32 in
// memory,
//   products in tf32
//   with p = exp(scale q k^T - lse), dp = do v^T, delta = rowsum(do o), ds = p (dp - delta):
//   dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], any T; D <= 64, a multiple of 8; lse [B, H, T] f32
// Types    operands rounded to the nearest tf32, fp32 sums; delta from the f32 values
// Plan     a pass transposes and rounds q, k and do (transposed_tf32_sm90.h) and writes row
//          statistics; queries_tf32_sm90.cuh gives dq, keys_tf32_sm90.cuh dk and dv, as in
//          backward_bf16_sm90.cu
// Bitwise  fixed order of each sum, no atomics; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row, then three transposed operands, as large as dq, dk, dv
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: likewise of
// all
//          rows that see it
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/keys_tf32_sm90.cuh"
#include "kernels/cuda/attention/queries_tf32_sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"

namespace bt_attention_sm90
{
namespace
{

constexpr CUtensorMapDataType ROUNDED = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                              PLAIN = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
enum { Q, K, DO, TRANSPOSED };

bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                      const work &w, const transposition &what)
{
    query_maps maps;
    maps.k_transposed = K;
    BT_TRY(map_view(s, &a->q, ROUNDED, &maps.q));
    BT_TRY(map_view(s, &a->k, ROUNDED, &maps.k));
    BT_TRY(map_view(s, &a->v, ROUNDED, &maps.v));
    BT_TRY(map_view(s, &a->d_o, ROUNDED, &maps.d_o));
    BT_TRY(map_transposed(s, what, &maps.transposed));
    BT_TRY(map_view(s, &a->dq, PLAIN, &maps.dq));
    return start(launch, (const void *)queries_tf32,
                 {"attention backward tf32, queries", queries::THREADS, queries::SHARED, 1}, &maps,
                 w, (void *)&what.statistics);
}

bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                   const work &w, const transposition &what)
{
    key_maps maps;
    maps.q_transposed = Q;
    maps.d_o_transposed = DO;
    BT_TRY(map_view(s, &a->q, ROUNDED, &maps.q));
    BT_TRY(map_view(s, &a->k, ROUNDED, &maps.k));
    BT_TRY(map_view(s, &a->v, ROUNDED, &maps.v));
    BT_TRY(map_view(s, &a->d_o, ROUNDED, &maps.d_o));
    BT_TRY(map_transposed(s, what, &maps.transposed));
    BT_TRY(map_view(s, &a->dk, PLAIN, &maps.dk));
    BT_TRY(map_view(s, &a->dv, PLAIN, &maps.dv));
    BT_TRY(map_statistics(s, what.statistics, &maps.statistics));
    return start(launch, (const void *)keys_tf32,
                 {"attention backward tf32, keys", keys::THREADS, keys::SHARED, 1}, &maps, w,
                 (void *)&what.statistics);
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
    return workspace_bytes(shape_of((const bt_attention_backward_args *)args));
}

bt_status bt_attention_backward_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape s = shape_of(a);
    BT_TRY(check_workspace(launch, "attention backward tf32", workspace_bytes(s)));
    transposition what = {};
    what.from[Q] = a->q;
    what.from[K] = a->k;
    what.from[DO] = a->d_o;
    what.count = TRANSPOSED;
    what.statistics = (float *)launch->workspace;
    what.to = (float *)((char *)launch->workspace + statistics_bytes(s));
    what.o = a->o;
    what.lse = (const float *)a->lse;
    BT_TRY(transpose(launch, s, what, "attention backward tf32, transposition"));
    const work w = work_make(s, 3, launch->device->info.processor_count);
    BT_TRY(run_queries(launch, a, s, w, what));
    return run_keys(launch, a, s, w, what);
}
