// kernels/cuda/attention/mask_sm90.cuh - which tiles an item processes, and which pairs it masks
//
// An item has N blocks of 64 tokens, one for each of N warpgroups. The assignment rotates, because
// under a causal mask the first block has the most work. Blocks of queries are numbered from the
// end and may be negative, blocks of keys from the beginning and may be past the end, where a
// head's number of tiles is not a multiple of N: these blocks process the zeros that TMA loads
// there, and nothing of them is stored. The ring holds the tiles of the other side that are visible
// to any block of the item; a warpgroup skips those that are not visible to its own block.
//
// GENERAL false: all keys, or key <= query with as many keys as queries. True: work.before, .after
// and .documents. The bounds of a token's visible range are nondecreasing in the token.
#ifndef BT_KERNELS_CUDA_ATTENTION_MASK_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_MASK_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// A range of tiles, both ends included; at least one tile, which may be fully masked.
struct span {
    int bottom, top;
};

// The tiles of an item and of one of its blocks, and those that need no mask (GENERAL only).
struct visible_tiles {
    span item, own, whole;
};

template <int N> __device__ __forceinline__ int turn_of(int group, int round)
{
    return (group + round) % N;
}

__device__ __forceinline__ bounds document_of(const work &w, int token, int tokens)
{
    return w.documents ? w.documents[token] : bounds{0, tokens};
}
__device__ __forceinline__ bounds keys_seen(const work &w, int query)
{
    query = min(max(query, 0), w.q_tokens - 1);
    const bounds of = document_of(w, query, w.kv_tokens);
    const int place = w.q_first + query;
    return {max(of.first, place - w.before), min(of.end, place + w.after + 1)};
}
__device__ __forceinline__ bounds queries_seeing(const work &w, int key)
{
    key = min(max(key, 0), w.kv_tokens - 1);
    const bounds of = document_of(w, key, w.q_tokens);
    const int place = key - w.q_first; // the query at that position
    return {max(of.first, place - w.after), min(of.end, place + w.before + 1)};
}
template <side OF> __device__ __forceinline__ bounds seen(const work &w, int token)
{
    return OF == QUERIES ? keys_seen(w, token) : queries_seeing(w, token);
}

__device__ __forceinline__ int limit(int x, int least, int most)
{
    return min(max(x, least), most);
}
// The tiles visible to the tokens from `first` to `last`, within `in`.
template <side OF>
__device__ __forceinline__ span span_of(const work &w, int first, int last, span in)
{
    const int bottom = limit(seen<OF>(w, first).first >> 6, in.bottom, in.top);
    return {bottom, limit((seen<OF>(w, last).end - 1) >> 6, bottom, in.top)};
}

// Items of queries.
template <int N, bool GENERAL> struct visible_to_queries {
    static __device__ __forceinline__ int block(const work &w, const item &t, int turn)
    {
        return w.q_tiles - 1 - t.part * N - turn;
    }
    static __device__ __forceinline__ span item_span(const work &w, const item &t)
    {
        if constexpr (GENERAL) {
            const int end = (w.q_tiles - t.part * N) * BLOCK;
            return span_of<QUERIES>(w, end - N * BLOCK, end - 1, {0, w.kv_tiles - 1});
        }
        return {0, (w.causal ? w.q_tiles - t.part * N : w.kv_tiles) - 1};
    }
    static __device__ __forceinline__ visible_tiles of(const work &w, const item &t, int block)
    {
        const span all = item_span(w, t);
        if constexpr (GENERAL) {
            const int first = block * BLOCK, last = first + BLOCK - 1;
            return {all,
                    span_of<QUERIES>(w, first, last, all),
                    {(max(keys_seen(w, last).first, 0) + BLOCK - 1) >> 6,
                     (keys_seen(w, first).end >> 6) - 1}};
        }
        return {all, {0, w.causal ? max(block, 0) : w.kv_tiles - 1}, {}};
    }
};
// Items of keys.
template <int N, bool GENERAL> struct visible_to_keys {
    static __device__ __forceinline__ int block(const work &, const item &t, int turn)
    {
        return t.part * N + turn;
    }
    static __device__ __forceinline__ span item_span(const work &w, const item &t)
    {
        if constexpr (GENERAL) {
            const int first = t.part * N * BLOCK;
            return span_of<KEYS>(w, first, first + N * BLOCK - 1, {0, w.q_tiles - 1});
        }
        return {w.causal ? t.part * N : 0, w.q_tiles - 1};
    }
    static __device__ __forceinline__ visible_tiles of(const work &w, const item &t, int block)
    {
        const span all = item_span(w, t);
        if constexpr (GENERAL) {
            const int first = block * BLOCK, last = first + BLOCK - 1;
            return {all,
                    span_of<KEYS>(w, first, last, all),
                    {(max(queries_seeing(w, last).first, 0) + BLOCK - 1) >> 6,
                     (queries_seeing(w, first).end >> 6) - 1}};
        }
        return {all, {w.causal ? min(block, w.q_tiles - 1) : 0, w.q_tiles - 1}, {}};
    }
};

// d[4j + e] of columns before `first` or from `end` on becomes `value`; bounds for the row and for
// the row 8 below, columns relative to the thread's first column.
__device__ __forceinline__ void mask_outside(float (&d)[32], bounds row0, bounds row1, float value)
{
    const uint32_t count0 = (uint32_t)max(row0.end - row0.first, 0);
    const uint32_t count1 = (uint32_t)max(row1.end - row1.first, 0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int column = 8 * i + e;
            d[4 * i + e] = (uint32_t)(column - row0.first) < count0 ? d[4 * i + e] : value;
            d[4 * i + 2 + e] = (uint32_t)(column - row1.first) < count1 ? d[4 * i + 2 + e] : value;
        }
    }
}
__device__ __forceinline__ void mask_after(float (&d)[32], int last0, int last1, float value)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            d[4 * i + e] = 8 * i + e > last0 ? value : d[4 * i + e];
            d[4 * i + 2 + e] = 8 * i + e > last1 ? value : d[4 * i + 2 + e];
        }
    }
}
__device__ __forceinline__ void mask_before(float (&d)[32], int first0, int first1, float value)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            d[4 * i + e] = 8 * i + e < first0 ? value : d[4 * i + e];
            d[4 * i + 2 + e] = 8 * i + e < first1 ? value : d[4 * i + 2 + e];
        }
    }
}

// Of the rows of `block`, at `tile` of the other side.
template <side OF>
__device__ __forceinline__ void mask_unseen(float (&d)[32], const work &w, int block, int tile,
                                            const place &at, float value)
{
    const int row = block * BLOCK + row_of(at), column = tile * BLOCK + column_of(at);
    bounds row0 = seen<OF>(w, row), row1 = seen<OF>(w, row + 8);
    row0 = {row0.first - column, row0.end - column};
    row1 = {row1.first - column, row1.end - column};
    mask_outside(d, row0, row1, value);
}
// A block of queries against a tile of keys. Without GENERAL only the top tile needs it.
template <bool GENERAL>
__device__ __forceinline__ void mask_keys(float (&d)[32], const work &w, const visible_tiles &sees,
                                          int block, int tile, const place &at, float value)
{
    if constexpr (GENERAL) {
        if (tile < sees.whole.bottom || tile > sees.whole.top) {
            mask_unseen<QUERIES>(d, w, block, tile, at, value);
        }
    } else if (tile == sees.own.top) {
        const int last = w.causal ? row_of(at) : w.kv_tokens - 1 - tile * BLOCK;
        mask_after(d, last - column_of(at), last - column_of(at) + (w.causal ? 8 : 0), value);
    }
}
// A block of keys against a tile of queries. Without GENERAL only the bottom tile needs it; the
// statistics of queries past the end make their P zero.
template <bool GENERAL>
__device__ __forceinline__ void mask_queries(float (&d)[32], const work &w,
                                             const visible_tiles &sees, int block, int tile,
                                             const place &at)
{
    if constexpr (GENERAL) {
        if (tile < sees.whole.bottom || tile > sees.whole.top) {
            mask_unseen<KEYS>(d, w, block, tile, at, 0.0f);
        }
    } else if (w.causal && tile == sees.own.bottom) {
        const int own = row_of(at) - column_of(at);
        mask_before(d, own, own + 8, 0.0f);
    }
}

} // namespace
} // namespace bt_attention_sm90
#endif
