// kernels/cuda/attention/sm90.h - what host and device of the Hopper kernels share
#ifndef BT_KERNELS_CUDA_ATTENTION_SM90_H
#define BT_KERNELS_CUDA_ATTENTION_SM90_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/tensor_map.h"

namespace bt_attention_sm90
{

constexpr int BLOCK = 64;                        // tokens of a tile
constexpr int HEAD_DIM_MOST = 64;                // columns of a tile
constexpr int WIDE_DIM_MOST = 128;               // of two tiles side by side
constexpr int SHARED_BYTES_MOST = 232448;        // what a block may have
constexpr float LOG2_OF_E = 1.4426950408889634f; // lse is kept to base 2 between the kernels
constexpr float LN_OF_2 = 0.6931471805599453f;

// How the parts of all heads, the items, are dealt out to persistent workers. Heads come in groups
// whose operands stay in L2; within a group, all heads' first items come first, which are the
// longest under a causal mask. Round r gives worker w of n the item r n + w, or r n + n - 1 - w in
// odd rounds, so that long and short even out. Nothing computed depends on it.
struct work {
    int tokens, tiles;           // of a head, tiles of BLOCK tokens
    int parts, total;            // items of a head, of all heads
    int heads, group;            // over the batch
    bool causal;                 // key <= query
    float scale, scale_log2;     // scale, scale log2(e)
    divisor per_group, by_group; // a group's items, its heads
    divisor by_last, by_heads;   // the last group's heads, heads of a batch entry
};

// What both directions take of a call.
struct shape {
    int64_t batch, heads, tokens, head_dim;
    double scale;
    bool causal;
};

template <typename Args> shape shape_of(const Args *args)
{
    return {args->shape.batch,    args->shape.heads, args->shape.q_tokens,
            args->shape.head_dim, args->shape.scale, args->shape.causal};
}

inline int64_t tiles_of(const shape &s) { return bt_div_up(s.tokens, BLOCK); }

// Items of `blocks` tiles of queries (or keys) each.
work work_make(const shape &s, int blocks, int workers);

// Maps [head_dim, tokens, heads, batch] whose boxes are 64 tokens by 128 bytes, swizzled.
// `type` of f32 operands may be TFLOAT32: TMA rounds what it loads.
bt_status map_view(const shape &s, const bt_attention_view *view, CUtensorMapDataType type,
                   CUtensorMap *map);
// Row statistics of the backward [heads, tiles, 2, BLOCK] f32, a tile's at once: lse log2(e), which
// is inf past the last token, then delta = sum dO O.
constexpr int STATISTICS = 2 * BLOCK;
inline size_t statistics_bytes(const shape &s)
{
    return bt_align_256((size_t)(s.batch * s.heads * tiles_of(s)) * STATISTICS * sizeof(float));
}
bt_status map_statistics(const shape &s, const float *statistics, CUtensorMap *map);

// A persistent launch: a block on each SM, or fewer where there are fewer items.
struct kernel_shape {
    const char *name;
    int threads, shared_bytes;
    int workers_per_block; // each takes items of its own
};

// Kernels take three arguments: maps (const __grid_constant__), `w`, and what `rows` points to.
bt_status start(const bt_launch *launch, const void *kernel, const kernel_shape &how, void *maps,
                work w, void *rows);
bt_status check_workspace(const bt_launch *launch, const char *name, size_t needed);

// What a row's accepts() asks.
// Head sizes are above `above`, up to `most`.
bool forward_fits(const bt_device *device, const bt_attention_args *args, int above, int most);
bool backward_fits(const bt_device *device, const bt_attention_backward_args *args, int above,
                   int most);

} // namespace bt_attention_sm90
#endif
