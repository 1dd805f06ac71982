// kernels/cuda/attention/backward_tf32_sm90.cu - flash attention backward for Hopper, f32 in
//   memory, products in tf32
//   with p = exp(scale q k^T - lse) of the pairs that see each other, dp = do v^T,
//   delta = rowsum(do o), ds = p (dp - delta): dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 128, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents, accumulation
// Types    operands rounded to the nearest tf32, fp32 sums; delta from the f32 values. Accumulation
//          adds in fp32 at L2, where subnormal numbers count as zero
// Plan     a pass writes row statistics (statistics_tf32_sm90.cuh); queries_sm90.cuh gives dq,
//          keys_tf32_sm90.cuh dk and dv, query heads of a key/value head in ascending order; of few
//          heads both at once (side_by_side_tf32_sm90.cuh). Operands of sums over tokens are
//          transposed in shared memory (transpose_tf32_sm90.cuh). GENERAL where the mask is not
//          plain. Beyond 64 columns wide_tf32_sm90.cuh gives all three gradients
// Bitwise  fixed order of each sum; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row; of packed documents another 8 bytes a token
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: likewise of
//          all rows that see it; it may also reach rows whose block meets its tile (0 * NaN in the
//          product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/side_by_side_tf32_sm90.cuh"
#include "kernels/cuda/attention/wide_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

template <bool GENERAL>
bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a,
                      float *statistics, const bounds *documents)
{
    using kernel = queries<format, GENERAL>;
    query_maps maps;
    BT_TRY(make_query_maps(a, &maps));
    work w = work_make(a->shape, QUERIES, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward tf32, queries", maps, w,
                                {nullptr, statistics});
}

template <bool GENERAL>
bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a,
                   const float *statistics, const bounds *documents)
{
    using kernel = keys_tf32<GENERAL>;
    key_maps maps;
    BT_TRY(make_key_maps(a, statistics, &maps));
    work w = work_make(a->shape, KEYS, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward tf32, keys", maps, w, nullptr);
}

// dq or dk of two column tiles.
template <side OF, bool GENERAL>
bt_status run_gradient(const bt_launch *launch, const bt_attention_backward_args *a,
                       float *statistics, const bounds *documents)
{
    using kernel = gradient<OF, GENERAL>;
    using F = typename kernel::F;
    constexpr bool QUERY = OF == QUERIES;
    constexpr side OTHER = QUERY ? KEYS : QUERIES;
    const shape &s = a->shape;
    const bt_attention_view *of_queries[] = {&a->q, &a->d_o}, *of_keys[] = {&a->k, &a->v};
    gradient_maps maps = {};
    maps.adds = QUERY ? a->accumulate_dq : a->accumulate_dkv;
    for (int i = 0; i < 2; ++i) {
        BT_TRY(map_view(s, OF, (QUERY ? of_queries : of_keys)[i], F::LOADED, &maps.own[i]));
        BT_TRY(map_view(s, OTHER, (QUERY ? of_keys : of_queries)[i], F::LOADED, &maps.other[i]));
    }
    BT_TRY(map_statistics(s, statistics, &maps.statistics));
    BT_TRY(map_view(s, OF, QUERY ? &a->dq : &a->dk, F::STORED, &maps.gradient));
    work w = work_make(s, OF, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward tf32, wide heads", maps, w,
                                {statistics, 0});
}

// dv of two column tiles.
template <bool GENERAL>
bt_status run_values(const bt_launch *launch, const bt_attention_backward_args *a,
                     const float *statistics, const bounds *documents)
{
    using kernel = values<GENERAL>;
    using F = typename kernel::F;
    const shape &s = a->shape;
    value_maps maps = {};
    maps.adds = a->accumulate_dkv;
    BT_TRY(map_view(s, QUERIES, &a->q, F::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, F::LOADED, &maps.k));
    BT_TRY(map_view(s, QUERIES, &a->d_o, F::LOADED, &maps.d_o));
    BT_TRY(map_statistics(s, statistics, &maps.statistics));
    BT_TRY(map_view(s, KEYS, &a->dv, F::STORED, &maps.dv));
    work w = work_make(s, KEYS, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<kernel>(launch, "attention backward tf32, wide values", maps, w, nullptr);
}

// The gradients that are wanted; the row statistics are there.
template <bool GENERAL>
bt_status run_wanted(const bt_launch *launch, const bt_attention_backward_args *a,
                     float *statistics, const bounds *documents)
{
    const bool wide = a->shape.head_dim > COLUMNS;
    if (a->dq.base) {
        BT_TRY((wide ? run_gradient<QUERIES, GENERAL> : run_queries<GENERAL>)(launch, a, statistics,
                                                                              documents));
    }
    if (!a->dk.base) {
        return BT_OK;
    }
    if (!wide) {
        return run_keys<GENERAL>(launch, a, statistics, documents);
    }
    BT_TRY(run_values<GENERAL>(launch, a, statistics, documents));
    return run_gradient<KEYS, GENERAL>(launch, a, statistics, documents);
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_backward_tf32_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    const shape &s = ((const bt_attention_backward_args *)args)->shape;
    return statistics_bytes(s) + documents_bytes(s);
}

bt_status bt_attention_backward_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape &s = a->shape;
    const size_t at_documents = statistics_bytes(s);
    char *workspace = (char *)launch->workspace;
    float *statistics = (float *)workspace;
    bounds *documents = s.starts ? (bounds *)(workspace + at_documents) : nullptr;
    BT_TRY(check_workspace(launch, "attention backward tf32", at_documents + documents_bytes(s)));
    if (documents) {
        BT_TRY(find_documents(launch, s, documents));
    }
    BT_TRY(a->delta_given ? statistics_of_delta(launch, a, statistics)
                          : write_statistics(launch, a, statistics));
    if (a->delta && !a->delta_given) {
        BT_TRY(delta_of_statistics(launch, a, statistics));
    }
    if (a->dq.base && a->dk.base &&
        side_by_side_pays_tf32(s, launch->device->info.processor_count)) {
        return side_by_side::run(launch, a, statistics);
    }
    return (mask_is_plain(s) ? run_wanted<false> : run_wanted<true>)(launch, a, statistics,
                                                                     documents);
}
