// kernels/cuda/attention/sm90.h - types shared by host and device code of the Hopper kernels
#ifndef BT_KERNELS_CUDA_ATTENTION_SM90_H
#define BT_KERNELS_CUDA_ATTENTION_SM90_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/tensor_map.h"

namespace bt_attention_sm90
{

constexpr int BLOCK = 64;                        // tokens of a tile
constexpr int COLUMNS = 64;                      // of a column tile: a head has 1, 2 or 4
constexpr int SHARED_BYTES_MOST = 232448;        // what a block may have
constexpr float LOG2_OF_E = 1.4426950408889634f; // lse is kept to base 2 between the kernels
constexpr float LN_OF_2 = 0.6931471805599453f;

using shape = bt_attention_shape;

// Tokens [first, end).
struct bounds {
    int first, end;
};

// Whether items consist of queries or of keys.
enum side { QUERIES, KEYS };

// Schedule of the items (parts of heads) on persistent workers. Heads are processed in groups whose
// operands stay in L2; within a group the first items of all heads come first, which are the
// longest under a causal mask. In round r worker w of n gets item r n + w, or r n + n - 1 - w in
// odd rounds, to balance long and short items. Results do not depend on the schedule.
struct work {
    int q_tokens, kv_tokens;     // of a head
    int q_tiles, kv_tiles;       // tiles of BLOCK tokens
    int parts, total;            // items of a head, of all heads
    int heads, group;            // over the batch; key/value heads if items consist of keys
    int q_per_kv;                // query heads of a key/value head
    bool causal;                 // key <= query
    float scale, scale_log2;     // scale, scale log2(e)
    divisor per_group, by_group; // a group's items, its heads
    divisor by_last, by_heads;   // the last group's heads, heads of a batch entry
    divisor by_q_per_kv;
    // Used by the general kernels in place of `causal`: query i sees keys q_first + i - before ..
    // q_first + i + after, limited to documents[i] unless `documents` is NULL.
    int q_first, before, after;
    const bounds *documents; // [tokens]
};

inline int64_t q_tiles_of(const shape &s) { return bt_div_up(s.q_tokens, BLOCK); }
inline int64_t kv_tiles_of(const shape &s) { return bt_div_up(s.kv_tokens, BLOCK); }

// All keys, or causal with as many keys as queries.
inline bool mask_is_plain(const shape &s)
{
    return !s.starts && s.window == 0 &&
           (!s.causal || (s.q_tokens == s.kv_tokens && s.q_first == 0));
}

// Items of `blocks` tiles of queries or keys each.
work work_make(const shape &s, side of, int blocks, int workers);

// Maps [head_dim, tokens, heads, batch] of one side whose boxes are 64 tokens by 128 bytes,
// swizzled. `type` of f32 operands may be TFLOAT32: TMA rounds what it loads.
bt_status map_view(const shape &s, side of, const bt_attention_view *view, CUtensorMapDataType type,
                   CUtensorMap *map);
// Row statistics of the backward [heads, q_tiles, 2, BLOCK] f32, a tile's at once: lse log2(e),
// which is inf past the last token, then delta = sum dO O.
constexpr int STATISTICS = 2 * BLOCK;
inline size_t statistics_bytes(const shape &s)
{
    return bt_align_256((size_t)(s.batch * s.heads * q_tiles_of(s)) * STATISTICS * sizeof(float));
}
// Both directions between a tile's statistics and delta [heads, q_tokens]. lse is [heads,
// q_tokens].
bt_status statistics_of_delta(const bt_launch *launch, const bt_attention_backward_args *a,
                              float *statistics);
bt_status delta_of_statistics(const bt_launch *launch, const bt_attention_backward_args *a,
                              const float *statistics);
bt_status map_statistics(const shape &s, const float *statistics, CUtensorMap *map);

// The bounds of each token's document, for work.documents.
inline size_t documents_bytes(const shape &s)
{
    return s.starts ? bt_align_256((size_t)s.q_tokens * sizeof(bounds)) : 0;
}
bt_status find_documents(const bt_launch *launch, const shape &s, bounds *to);

// Of few heads up to 64 columns, a backward runs its two kernels in one launch
// (side_by_side_*_sm90.cuh) where the longest item decides how long either takes. Warpgroups of a
// block, with a tile each:
constexpr int GROUPS_BF16 = 3, GROUPS_TF32 = 2;
bool side_by_side_pays_bf16(const shape &s, int sms);
bool side_by_side_pays_tf32(const shape &s, int sms);

struct kernel_shape {
    const char *name;
    int threads, shared_bytes;
};

// Kernels wait for the previous kernel before they touch global memory (overlap.h).
// A persistent launch: a block on each SM, or fewer where there are fewer items. Kernels take three
// arguments: maps (const __grid_constant__), `w`, and what `rows` points to.
bt_status start(const bt_launch *launch, const void *kernel, const kernel_shape &how,
                const void *maps, work w, const void *rows);
// Any grid, any arguments.
bt_status start_blocks(const bt_launch *launch, const void *kernel, const kernel_shape &how,
                       dim3 blocks, void **arguments);
bt_status check_workspace(const bt_launch *launch, const char *name, size_t needed);

} // namespace bt_attention_sm90
#endif
