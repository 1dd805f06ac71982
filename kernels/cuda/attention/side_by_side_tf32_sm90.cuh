// kernels/cuda/attention/side_by_side_tf32_sm90.cuh - the tf32 backward of few heads, up to 64
//   columns: both kernels in one launch
// One after the other, the kernels of queries and of keys each last as long as their longest item,
// while other multiprocessors have nothing to do. Here some blocks take items of queries, the
// others items of keys, two tiles each where the two kernels take three. Results have their bits.
#ifndef BT_KERNELS_CUDA_ATTENTION_SIDE_BY_SIDE_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_SIDE_BY_SIDE_TF32_SM90_CUH

#include "kernels/cuda/attention/keys_tf32_sm90.cuh"
#include "kernels/cuda/attention/queries_sm90.cuh"
#include "kernels/cuda/attention/statistics_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

using format = tf32_tiles<1>;

inline bt_status make_query_maps(const bt_attention_backward_args *a, query_maps *maps)
{
    const shape &s = a->shape;
    *maps = {};
    maps->adds = a->accumulate_dq;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps->q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps->k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps->v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps->d_o));
    return map_view(s, QUERIES, &a->dq, format::STORED, &maps->dq);
}

inline bt_status make_key_maps(const bt_attention_backward_args *a, const float *statistics,
                               key_maps *maps)
{
    const shape &s = a->shape;
    *maps = {};
    maps->adds = a->accumulate_dkv;
    BT_TRY(map_view(s, QUERIES, &a->q, format::LOADED, &maps->q));
    BT_TRY(map_view(s, KEYS, &a->k, format::LOADED, &maps->k));
    BT_TRY(map_view(s, KEYS, &a->v, format::LOADED, &maps->v));
    BT_TRY(map_view(s, QUERIES, &a->d_o, format::LOADED, &maps->d_o));
    BT_TRY(map_view(s, KEYS, &a->dk, format::STORED, &maps->dk));
    BT_TRY(map_view(s, KEYS, &a->dv, format::STORED, &maps->dv));
    return map_statistics(s, statistics, &maps->statistics);
}

namespace side_by_side
{

using query_side = queries<format, false, part_of_grid>;
using key_side = keys_tf32<false, part_of_grid>;
static_assert(query_side::GROUPS == GROUPS_TF32 && key_side::GROUPS == GROUPS_TF32,
              "both kernels must have the same block shape");
constexpr int THREADS = layout<query_side>::THREADS;
constexpr int SHARED = layout<query_side>::SHARED > layout<key_side>::SHARED
                           ? layout<query_side>::SHARED
                           : layout<key_side>::SHARED;

struct both_maps {
    query_maps of_queries;
    key_maps of_keys;
};
struct both_work {
    work of_queries, of_keys;
    query_rows rows;
    int query_blocks;
};

__global__ void __launch_bounds__(THREADS, 1)
    both_sides_tf32(const __grid_constant__ both_maps maps, const both_work w)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t base = shared_address(shared);
    const int block = (int)blockIdx.x, blocks = (int)gridDim.x;
    if (block < w.query_blocks) {
        process<query_side>(maps.of_queries, w.of_queries, w.rows, {{block, w.query_blocks}, base},
                            place_make());
    } else {
        process<key_side>(maps.of_keys, w.of_keys, nullptr,
                          {{block - w.query_blocks, blocks - w.query_blocks}, base}, place_make());
    }
#endif
}

inline bt_status run(const bt_launch *launch, const bt_attention_backward_args *a,
                     float *statistics)
{
    const shape &s = a->shape;
    const int64_t sms = launch->device->info.processor_count, heads = s.batch * s.heads;
    both_maps maps;
    BT_TRY(make_query_maps(a, &maps.of_queries));
    BT_TRY(make_key_maps(a, statistics, &maps.of_keys));
    // A tile costs queries three products, keys four.
    const int64_t query_items = heads * bt_div_up(q_tiles_of(s), query_side::GROUPS);
    const int64_t key_items = heads * bt_div_up(kv_tiles_of(s), key_side::GROUPS);
    int64_t query_blocks = query_items, key_blocks = key_items;
    if (query_items + key_items > sms) {
        query_blocks = bt_min_i64(query_items, bt_max_i64(sms * 3 / 7, 1));
        key_blocks = bt_min_i64(key_items, bt_max_i64(sms - query_blocks, 1));
    }
    both_work w = {};
    w.of_queries = work_make(s, QUERIES, query_side::GROUPS, (int)query_blocks);
    w.of_keys = work_make(s, KEYS, key_side::GROUPS, (int)key_blocks);
    w.rows = {nullptr, statistics};
    w.query_blocks = (int)query_blocks;
    void *arguments[] = {&maps, &w};
    return start_blocks(launch, (const void *)both_sides_tf32,
                        {"attention backward tf32, side by side", THREADS, SHARED},
                        {(unsigned)(query_blocks + key_blocks), 1, 1}, arguments);
}

} // namespace side_by_side
} // namespace
} // namespace bt_attention_sm90
#endif
