// kernels/cuda/attention/backward_tf32_sm90.cu - flash attention backward for Hopper, f32 in
//   memory, products in tf32
//   with p = exp(scale q k^T - lse) of the pairs that see each other, dp = do v^T,
//   delta = rowsum(do o), ds = p (dp - delta): dv = p^T do, dk = scale ds^T q, dq = scale ds k
// Shapes   views of [B, T, H, D], lse [B, H, q_tokens] f32; D <= 128, a multiple of 8; grouped
//          heads, any counts of queries and keys, q_first, windows, packed documents, accumulation
// Types    operands rounded to the nearest tf32, fp32 sums; delta from the f32 values. Accumulation
//          adds in fp32 at L2, where subnormal numbers count as zero
// Plan     a pass transposes and rounds k and do (transposed_tf32_sm90.h) and writes row
//          statistics; queries_sm90.cuh gives dq. Then q takes k's place in the workspace, and
//          keys_tf32_sm90.cuh gives dk and dv, query heads of a key/value head in ascending order.
//          Beyond 64 columns wide_tf32_sm90.cuh gives all three. GENERAL where the mask is not
//          plain
// Bitwise  fixed order of each sum; the schedule and the number of SMs change nothing
// Workspace  row statistics, 8 bytes a row; two transposed operands: the larger of k and q, and do;
//          of packed documents another 8 bytes a token
// NaN      in q or do: dq of its row, dk and dv of the keys that it sees; in k or v: likewise of
//          all rows that see it; it may also reach rows whose block meets its tile (0 * NaN in the
//          product)
// Errors   accepts() as in accepts_sm90.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include "kernels/cuda/attention/keys_tf32_sm90.cuh"
#include "kernels/cuda/attention/queries_sm90.cuh"
#include "kernels/cuda/attention/transposed_tf32_sm90.h"
#include "kernels/cuda/attention/wide_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

using format = tf32_tiles<1>;

// Offsets in the workspace, in bytes; the row statistics come first.
struct places {
    size_t k_or_q, d_o, documents, end;
};

places places_of(const shape &s)
{
    const size_t of_queries = bt_align_256(transposed_bytes(s, QUERIES));
    const size_t of_keys = bt_align_256(transposed_bytes(s, KEYS));
    places at;
    at.k_or_q = statistics_bytes(s);
    at.d_o = at.k_or_q + (of_queries > of_keys ? of_queries : of_keys);
    at.documents = at.d_o + of_queries;
    at.end = at.documents + documents_bytes(s);
    return at;
}

// What the kernels read in the workspace.
struct passed {
    transposed k, q, d_o; // q takes the place of k
    float *statistics;
    const bounds *documents; // NULL: none
};

template <bool GENERAL>
bt_status run_queries(const bt_launch *launch, const bt_attention_backward_args *a,
                      const passed &from)
{
    using kernel = queries<format, GENERAL>;
    const shape &s = a->shape;
    query_maps maps = {};
    const query_rows rows = {nullptr, from.statistics, {}};
    maps.adds = a->accumulate;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps.d_o));
    BT_TRY(map_transposed(s, from.k, &maps.k_transposed));
    BT_TRY(map_view(s, QUERIES, &a->dq, format::STORED, &maps.dq));
    work w = work_make(s, QUERIES, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = from.documents;
    return start_kernel<kernel>(launch, "attention backward tf32, queries", maps, w, rows);
}

template <bool GENERAL>
bt_status run_keys(const bt_launch *launch, const bt_attention_backward_args *a, const passed &from)
{
    using kernel = keys_tf32<GENERAL>;
    const shape &s = a->shape;
    key_maps maps = {};
    maps.adds = a->accumulate;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps.d_o));
    BT_TRY(map_transposed(s, from.q, &maps.q_transposed));
    BT_TRY(map_transposed(s, from.d_o, &maps.d_o_transposed));
    BT_TRY(map_view(s, KEYS, &a->dk, format::STORED, &maps.dk));
    BT_TRY(map_view(s, KEYS, &a->dv, format::STORED, &maps.dv));
    BT_TRY(map_statistics(s, from.statistics, &maps.statistics));
    work w = work_make(s, KEYS, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = from.documents;
    return start_kernel<kernel>(launch, "attention backward tf32, keys", maps, w, nullptr);
}

// dq or dk of two column tiles.
template <side OF, bool GENERAL>
bt_status run_gradient(const bt_launch *launch, const bt_attention_backward_args *a,
                       const passed &from)
{
    using kernel = gradient<OF, GENERAL>;
    using F = typename kernel::F;
    constexpr bool QUERY = OF == QUERIES;
    constexpr side OTHER = QUERY ? KEYS : QUERIES;
    const shape &s = a->shape;
    const bt_attention_view *of_queries[] = {&a->q, &a->d_o}, *of_keys[] = {&a->k, &a->v};
    gradient_maps maps = {};
    maps.adds = a->accumulate;
    for (int i = 0; i < 2; ++i) {
        BT_TRY(map_view(s, OF, (QUERY ? of_queries : of_keys)[i], F::LOADED, &maps.own[i]));
        BT_TRY(map_view(s, OTHER, (QUERY ? of_keys : of_queries)[i], F::LOADED, &maps.other[i]));
    }
    BT_TRY(map_transposed(s, QUERY ? from.k : from.q, &maps.sums));
    BT_TRY(map_statistics(s, from.statistics, &maps.statistics));
    BT_TRY(map_view(s, OF, QUERY ? &a->dq : &a->dk, F::STORED, &maps.gradient));
    work w = work_make(s, OF, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = from.documents;
    return start_kernel<kernel>(launch, "attention backward tf32, wide heads", maps, w,
                                {from.statistics, 0});
}

// dv of two column tiles.
template <bool GENERAL>
bt_status run_values(const bt_launch *launch, const bt_attention_backward_args *a,
                     const passed &from)
{
    using kernel = values<GENERAL>;
    using F = typename kernel::F;
    const shape &s = a->shape;
    value_maps maps = {};
    maps.adds = a->accumulate;
    BT_TRY(map_view(s, QUERIES, &a->q, F::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, F::LOADED, &maps.k));
    BT_TRY(map_transposed(s, from.d_o, &maps.d_o_transposed));
    BT_TRY(map_statistics(s, from.statistics, &maps.statistics));
    BT_TRY(map_view(s, KEYS, &a->dv, F::STORED, &maps.dv));
    work w = work_make(s, KEYS, kernel::GROUPS, launch->device->info.processor_count);
    w.documents = from.documents;
    return start_kernel<kernel>(launch, "attention backward tf32, wide values", maps, w, nullptr);
}

// What is launched before q takes the place of k, and after it.
template <bool GENERAL>
bt_status run_first(const bt_launch *launch, const bt_attention_backward_args *a,
                    const passed &from)
{
    return a->shape.head_dim <= COLUMNS ? run_queries<GENERAL>(launch, a, from)
                                        : run_gradient<QUERIES, GENERAL>(launch, a, from);
}
template <bool GENERAL>
bt_status run_second(const bt_launch *launch, const bt_attention_backward_args *a,
                     const passed &from)
{
    if (a->shape.head_dim <= COLUMNS) {
        return run_keys<GENERAL>(launch, a, from);
    }
    BT_TRY(run_values<GENERAL>(launch, a, from));
    return run_gradient<KEYS, GENERAL>(launch, a, from);
}

} // namespace
} // namespace bt_attention_sm90

size_t bt_attention_backward_tf32_sm90_workspace(const bt_device *, const void *args)
{
    using namespace bt_attention_sm90;
    return places_of(((const bt_attention_backward_args *)args)->shape).end;
}

bt_status bt_attention_backward_tf32_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    const bt_attention_backward_args *a = (const bt_attention_backward_args *)args;
    const shape &s = a->shape;
    const places at = places_of(s);
    char *workspace = (char *)launch->workspace;
    BT_TRY(check_workspace(launch, "attention backward tf32", at.end));
    bounds *documents = s.starts ? (bounds *)(workspace + at.documents) : nullptr;
    if (documents) {
        BT_TRY(find_documents(launch, s, documents));
    }
    const passed from = {{a->k, KEYS, (float *)(workspace + at.k_or_q)},
                         {a->q, QUERIES, (float *)(workspace + at.k_or_q)},
                         {a->d_o, QUERIES, (float *)(workspace + at.d_o)},
                         (float *)workspace,
                         documents};
    const bool plain = mask_is_plain(s);
    const transposition first = {
        {from.k, from.d_o}, 2, a->o, (const float *)a->lse, from.statistics};
    BT_TRY(transpose(launch, s, first, "attention backward tf32, transposition"));
    BT_TRY((plain ? run_first<false> : run_first<true>)(launch, a, from));
    const transposition second = {{from.q}, 1, {}, nullptr, nullptr};
    BT_TRY(transpose(launch, s, second, "attention backward tf32, transposition of q"));
    return (plain ? run_second<false> : run_second<true>)(launch, a, from);
}
