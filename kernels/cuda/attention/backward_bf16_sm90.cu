// kernels/cuda/attention/backward_bf16_sm90.cu - flash attention backward for Hopper, bf16
//   with p = exp(scale q k^T - lse), dp = do v^T, delta = rowsum(do o), ds = p (dp - delta):
//   dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], any T; D <= 64, a multiple of 8; lse [B, H, T] f32
// Types    bf16 operands, fp32 sums; p and ds are rounded to bf16 before their products
// Plan     two kernels with seven products instead of one with five: queries_bf16_sm90.cuh gives dq
//          and the row statistics, keys_bf16_sm90.cuh dk and dv. Each sum has one owner, and p and
//          ds go from C fragments to A fragments in the registers of the warpgroup that made them.
//          Both: persistent blocks, three warpgroups of 160 registers, and a fourth whose warps
//          fetch tiles and send results.
// Bitwise  fixed order of each sum, no atomics; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: the same of
//          all rows that see it
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/keys_bf16_sm90.cuh"
#include "kernels/cuda/attention/queries_bf16_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                      const work &w)
{
    query_maps maps;
    query_rows rows = {(const float *)a->lse, (float *)launch->workspace};
    BT_TRY(map_view(s, &a->q, TYPE, &maps.q));
    BT_TRY(map_view(s, &a->k, TYPE, &maps.k));
    BT_TRY(map_view(s, &a->v, TYPE, &maps.v));
    BT_TRY(map_view(s, &a->o, TYPE, &maps.o));
    BT_TRY(map_view(s, &a->d_o, TYPE, &maps.d_o));
    BT_TRY(map_view(s, &a->dq, TYPE, &maps.dq));
    return start(launch, (const void *)queries_bf16,
                 {"attention backward bf16, queries", queries::THREADS, queries::SHARED, 1}, &maps,
                 w, &rows);
}

bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a, const shape &s,
                   const work &w)
{
    key_maps maps;
    const void *none = nullptr;
    BT_TRY(map_view(s, &a->q, TYPE, &maps.q));
    BT_TRY(map_view(s, &a->k, TYPE, &maps.k));
    BT_TRY(map_view(s, &a->v, TYPE, &maps.v));
    BT_TRY(map_view(s, &a->d_o, TYPE, &maps.d_o));
    BT_TRY(map_view(s, &a->dk, TYPE, &maps.dk));
    BT_TRY(map_view(s, &a->dv, TYPE, &maps.dv));
    BT_TRY(map_statistics(s, (const float *)launch->workspace, &maps.statistics));
    return start(launch, (const void *)keys_bf16,
                 {"attention backward bf16, keys", keys::THREADS, keys::SHARED, 1}, &maps, w,
                 &none);
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_backward_bf16_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    return statistics_bytes(shape_of((const bt_attention_backward_args *)args));
}

bt_status bt_attention_backward_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape s = shape_of(a);
    BT_TRY(check_workspace(launch, "attention backward bf16", statistics_bytes(s)));
    const work w = work_make(s, 3, launch->device->info.processor_count);
    BT_TRY(run_queries(launch, a, s, w));
    return run_keys(launch, a, s, w);
}
