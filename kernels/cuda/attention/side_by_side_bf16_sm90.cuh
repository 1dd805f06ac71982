// kernels/cuda/attention/side_by_side_bf16_sm90.cuh - the bf16 backward of few heads: both kernels
//   in one launch
// One after the other, the kernels of queries and of keys each last as long as their longest item,
// while other multiprocessors have nothing to do. Here some blocks take items of queries, the
// others items of keys. The keys need the row statistics at once, so a pass before writes them; it
// sums as make_rows does, and results have the bits of the two kernels.
#ifndef BT_KERNELS_CUDA_ATTENTION_SIDE_BY_SIDE_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_SIDE_BY_SIDE_BF16_SM90_CUH

#include "kernels/cuda/attention/keys_bf16_sm90.cuh"
#include "kernels/cuda/attention/queries_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{
namespace side_by_side
{

using query_side = queries<bf16_tiles<1>, false, part_of_grid>;
using key_side = keys<bf16_tiles<1>, false, part_of_grid>;
static_assert(query_side::GROUPS == GROUPS_BF16 && key_side::GROUPS == GROUPS_BF16,
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

// Where rows of o and do are, and how many columns they have. Strides in elements.
struct row_sources {
    const char *o, *d_o;
    int64_t o_batch, o_token, o_head, d_o_batch, d_o_token, d_o_head;
    int head_dim;
};

constexpr int ROW_LANES = 4, ROW_THREADS = ROW_LANES * BLOCK;

// The statistics of a tile of queries.
__global__ void __launch_bounds__(ROW_THREADS)
    row_statistics(const row_sources from, const work w, const float *lse, float *statistics)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    wait_for_predecessor();
    start_successor();
    const int index = (int)blockIdx.y, tile = (int)blockIdx.x, row = (int)threadIdx.x / ROW_LANES;
    const int quad = (int)threadIdx.x % ROW_LANES, token = tile * BLOCK + row;
    const int batch = (int)w.by_heads.quotient((uint32_t)index);
    const int head = index - batch * (int)w.by_heads.by;
    const bool exists = token < w.q_tokens;
    const char *o = from.o + 2 * (batch * from.o_batch + token * from.o_token + head * from.o_head);
    const char *d_o =
        from.d_o + 2 * (batch * from.d_o_batch + token * from.d_o_token + head * from.d_o_head);
    uint4 a[2], b[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int column = 16 * quad + 8 * i;
        a[i] = b[i] = make_uint4(0, 0, 0, 0);
        if (exists && column < from.head_dim) {
            a[i] = *(const uint4 *)(d_o + 2 * column);
            b[i] = *(const uint4 *)(o + 2 * column);
        }
    }
    const float log2_sum = exists ? lse[(int64_t)index * w.q_tokens + token] * LOG2_OF_E : INFINITY;
    const float delta = row_sum(dot(a[0], b[0]) + dot(a[1], b[1]));
    if (quad == 0) {
        float *to = statistics + ((int64_t)index * w.q_tiles + tile) * STATISTICS + row;
        to[0] = log2_sum;
        to[BLOCK] = delta;
    }
#endif
}

__global__ void __launch_bounds__(THREADS, 1)
    both_sides(const __grid_constant__ both_maps maps, const both_work w)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t base = shared_address(shared);
    const int block = (int)blockIdx.x, blocks = (int)gridDim.x;
    if (block < w.query_blocks) {
        process<query_side>(maps.of_queries, w.of_queries, w.rows, {{block, w.query_blocks}, base},
                            place_make());
    } else {
        process<key_side>(maps.of_keys, w.of_keys, {},
                          {{block - w.query_blocks, blocks - w.query_blocks}, base}, place_make());
    }
#endif
}

inline bt_status run(const bt_launch *launch, const bt_attention_backward_args *a,
                     float *statistics)
{
    const char *name = "attention backward bf16, side by side";
    const shape &s = a->shape;
    const int64_t sms = launch->device->info.processor_count;
    const CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    both_maps maps = {};
    query_maps &q = maps.of_queries;
    key_maps &k = maps.of_keys;
    q.adds = a->accumulate_dq;
    k.adds = a->accumulate_dkv;
    BT_TRY(map_view(s, QUERIES, &a->q, type, &q.q));
    BT_TRY(map_view(s, KEYS, &a->k, type, &q.k));
    BT_TRY(map_view(s, KEYS, &a->v, type, &q.v));
    BT_TRY(map_view(s, QUERIES, &a->o, type, &q.o));
    BT_TRY(map_view(s, QUERIES, &a->d_o, type, &q.d_o));
    BT_TRY(map_view(s, QUERIES, &a->dq, type, &q.dq));
    k.q = q.q;
    k.k = q.k;
    k.v = q.v;
    k.d_o = q.d_o;
    BT_TRY(map_view(s, KEYS, &a->dk, type, &k.dk));
    BT_TRY(map_view(s, KEYS, &a->dv, type, &k.dv));
    BT_TRY(map_statistics(s, statistics, &k.statistics));
    // A tile costs queries three products, keys four: 6/13 of the blocks by measured time.
    const int64_t query_items = s.batch * s.heads * bt_div_up(q_tiles_of(s), query_side::GROUPS);
    const int64_t key_items = s.batch * s.heads * bt_div_up(kv_tiles_of(s), key_side::GROUPS);
    int64_t query_blocks = query_items, key_blocks = key_items;
    if (query_items + key_items > sms) {
        query_blocks = bt_min_i64(query_items, sms > 1 ? bt_max_i64(sms * 6 / 13, 1) : 1);
        key_blocks = bt_min_i64(key_items, bt_max_i64(sms - query_blocks, 1));
    }
    both_work w = {};
    w.of_queries = work_make(s, QUERIES, query_side::GROUPS, (int)query_blocks);
    w.of_keys = work_make(s, KEYS, key_side::GROUPS, (int)key_blocks);
    w.rows = {(const float *)a->lse, nullptr};
    w.query_blocks = (int)query_blocks;
    row_sources from = {(const char *)a->o.base, (const char *)a->d_o.base, a->o.batch_stride,
                        a->o.token_stride,       a->o.head_stride,          a->d_o.batch_stride,
                        a->d_o.token_stride,     a->d_o.head_stride,        (int)s.head_dim};
    const float *lse = (const float *)a->lse;
    void *pass[] = {&from, &w.of_queries, &lse, &statistics};
    BT_TRY(start_blocks(launch, (const void *)row_statistics, {name, ROW_THREADS, 0},
                        {(unsigned)w.of_queries.q_tiles, (unsigned)w.of_queries.heads, 1}, pass));
    void *arguments[] = {&maps, &w};
    return start_blocks(launch, (const void *)both_sides, {name, THREADS, SHARED},
                        {(unsigned)(query_blocks + key_blocks), 1, 1}, arguments);
}

} // namespace side_by_side
} // namespace
} // namespace bt_attention_sm90
#endif
