// kernels/cuda/attention/wide_tf32_sm90.cuh - the tf32 backward for heads of two column tiles
//   p = exp(s - lse), ds = p (do v^T - delta): dq = scale ds k, dk = scale ds^T q, dv = p^T do
// Shared memory holds the five operands of dk and dv for no more than one block of keys, so dv has
// a kernel of its own: eight products instead of seven. dq and dk are one kernel with the sides
// exchanged. The operand of its sums is transposed in its place when the scores have been computed
// from it. There are two places for it, and one for the other tile (do or v); each has a barrier,
// and the next tile is loaded as soon as the last product that read it is done.
#ifndef BT_KERNELS_CUDA_ATTENTION_WIDE_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_WIDE_TF32_SM90_CUH

#include <type_traits>

#include "kernels/cuda/attention/queries_sm90.cuh"
#include "kernels/cuda/attention/transpose_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// Operands of the item's own side and of the other: q and do, k and v.
struct gradient_maps {
    CUtensorMap own[2], other[2], statistics, gradient;
    bool adds; // to the old gradient
};

struct gradient_rows {
    float *statistics; // read by items of queries; those of keys load tiles
    int zero;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The head of the other side that an item's `member` meets; `index`: over the batch.
struct other_head {
    int head, index;
};
template <side OF>
__device__ __forceinline__ other_head other_head_of(const work &w, const item &t, int member)
{
    if constexpr (OF == QUERIES) {
        return {kv_head_of(w, t), kv_index_of(w, t)};
    }
    return {t.head * w.q_per_kv + member, t.index * w.q_per_kv + member};
}

#endif

// dq (items of queries) or dk (of keys). GENERAL: see mask_sm90.cuh.
template <side OF, bool GENERAL> struct gradient : plain_ring {
    using F = tf32_tiles<2>;
    using maps = gradient_maps;
    using rows = gradient_rows;
    static constexpr bool UPWARDS = OF == KEYS;
    static constexpr int GROUPS = 2, BUFFERS = 1, STAGES = 2;
    static constexpr int SPLIT = OF == KEYS ? 4 : 3, PARTS = SPLIT;
    static constexpr int PART_BYTES = 2 * F::TILE_BYTES;
    static constexpr int ROW_BYTES = OF == KEYS ? 4 * STATISTICS : 0;
    static constexpr int STAGE_BYTES = F::TILE_BYTES, STAGE_STEP = F::STEP;
    // Of a stage; SUMS is FIRST transposed.
    enum part { FIRST, SECOND, ROWS, SUMS = SPLIT - 1 };
    static constexpr transposition TRANSPOSED = AFTER;
    static constexpr int SHARED_BYTES = F::TILE_BYTES, SHARED_PART = SECOND;
    using sees = std::conditional_t<OF == KEYS, visible_to_keys<GROUPS, GENERAL>,
                                    visible_to_queries<GROUPS, GENERAL>>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &w)
    {
        return OF == KEYS ? w.q_per_kv : 1;
    }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.own[0], block, t.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.own[1], block, t.head, t.batch, full);
    }
    // `shared`: the place of SECOND.
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &w, uint32_t to,
                                                      uint32_t shared, uint32_t to_rows, int tile,
                                                      const item &t, int member, const Take &take)
    {
        const other_head other = other_head_of<OF>(w, t, member);
        uint32_t full = take(FIRST, F::TILE_BYTES);
        load<F>(to, &maps.other[0], tile, other.head, t.batch, full);
        full = take(SECOND, F::TILE_BYTES);
        load<F>(shared, &maps.other[1], tile, other.head, t.batch, full);
        if constexpr (OF == KEYS) {
            full = take(ROWS, ROW_BYTES);
            tma_load(to_rows, &maps.statistics, 0, tile, other.index, 0, full);
        }
    }
    static __device__ __forceinline__ void transpose(uint32_t stage, int part, int lane)
    {
        transpose_tile<TRANSPOSERS>(stage, stage, part, lane);
        transpose_tile<TRANSPOSERS>(stage + 2 * TILE, stage + 2 * TILE, part, lane);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send_gradient<F>(&maps.gradient, from, block, t.head, t.batch, maps.adds);
    }

    // p in place of the scores, masked.
    static __device__ __forceinline__ void weigh(float (&s)[32], const work &w,
                                                 const visible_tiles &visible, const statistics &r,
                                                 uint32_t rows, int block, int tile,
                                                 const place &at)
    {
        if constexpr (OF == KEYS) {
            exponentials_of_columns(s, rows, w.scale_log2);
            mask_queries<GENERAL>(s, w, visible, block, tile, at);
        } else {
            exponentials_of_rows(s, r, w.scale_log2);
            mask_keys<GENERAL>(s, w, visible, block, tile, at, 0.0f);
        }
    }
    static __device__ __forceinline__ void pack(uint32_t (&ds)[32], const float (&s)[32],
                                                const float (&dp)[32], const statistics &r,
                                                uint32_t rows)
    {
        if constexpr (OF == QUERIES) {
            pack_ds<F>(ds, s, dp, r);
        } else {
            float d[32];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float2 delta = load_pair(rows + 4 * BLOCK + i * 32);
                d[4 * i] = s[4 * i] * (dp[4 * i] - delta.x);
                d[4 * i + 1] = s[4 * i + 1] * (dp[4 * i + 1] - delta.y);
                d[4 * i + 2] = s[4 * i + 2] * (dp[4 * i + 2] - delta.x);
                d[4 * i + 3] = s[4 * i + 3] * (dp[4 * i + 3] - delta.y);
            }
            F::pack(ds, d);
        }
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &rows,
                                                   const memory<gradient> &mem, const place &at)
    {
        const uint64_t stages = operand(mem.stage(0)), shared = operand(mem.shared());
        float s[32], dp[32], d[F::COLUMN_TILES][32];
        uint32_t ds[F::FRAGMENT];
        reader<gradient> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        for (int round = 0;; ++round) {
            const int index = item_index(round, blockIdx.x, gridDim.x);
            if (index >= w.total) {
                break;
            }
            const item t = item_at(w, index);
            const int block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            const int place = mem.place_of(round, at.group);
            const visible_tiles visible = sees::of(w, t, block);
            const uint64_t owned = operand(mem.own(place));
            statistics r = {};
            if constexpr (OF == QUERIES) {
                r = read_rows(statistics_of(rows.statistics, w, t, block, at), block >= 0);
            }
            const int below = visible.own.bottom - visible.item.bottom;
            const int above = visible.item.top - visible.own.top;
            const int count = visible.own.top - visible.own.bottom + 1;
            for (int member = 0; member < members(w); ++member) {
                from.pass(UPWARDS ? below : above);
                mbarrier_wait(mem.own_full(place), mem.phase_of(round));
                // Descriptors of a single place are invariant, and ptxas would keep them in
                // ordinary registers. `zero` hides that.
                uint64_t still = (uint64_t)(ring.phase * rows.zero);
                uint64_t own = owned + still, second = shared + still;
                from.ready(FIRST);
                wgmma_fence();
                F::scores(s, own, stages + ring.stage * STAGE_STEP);
                wgmma_commit();
                wgmma_commit(); // an empty group where the sum's will be
                from.ready(SECOND);
                wgmma_fence();
                F::scores(dp, own + F::STEP, second);
                wgmma_commit();
                int old = 0; // the stage of the tile whose sum is under way
                for (int i = 0;;) {
                    const int tile = UPWARDS ? visible.own.bottom + i : visible.own.top - i;
                    const uint32_t columns = mem.rows(ring.stage) + (at.lane & 3) * 8;
                    wgmma_wait<2>();
                    wgmma_settle(s);
                    from.release(ring.stage, FIRST);
                    if constexpr (OF == KEYS) {
                        from.ready(ROWS);
                    }
                    weigh(s, w, visible, r, columns, block, tile, at);
                    wgmma_wait<1>();
                    if (i > 0) {
                        from.release(old, SUMS);
                    }
                    wgmma_wait<0>();
                    wgmma_settle(dp);
                    from.release(ring.stage, SECOND);
                    pack(ds, s, dp, r, columns);
                    if constexpr (OF == KEYS) {
                        from.release(ring.stage, ROWS);
                    }
                    from.ready(SUMS);
                    old = ring.stage;
                    ring.advance();
                    if (++i == count) {
                        break;
                    }
                    still = (uint64_t)(ring.phase * rows.zero);
                    own = owned + still, second = shared + still;
                    from.ready(FIRST);
                    wgmma_fence();
                    F::scores(s, own, stages + ring.stage * STAGE_STEP);
                    wgmma_commit();
                    F::accumulate(d, ds, stages + old * STAGE_STEP, member > 0 || i > 1);
                    wgmma_commit();
                    from.ready(SECOND);
                    wgmma_fence();
                    F::scores(dp, own + F::STEP, second);
                    wgmma_commit();
                }
                wgmma_fence();
                F::accumulate(d, ds, stages + old * STAGE_STEP, member > 0 || count > 1);
                wgmma_commit();
                wgmma_wait<0>();
                settle(d);
                from.release(old, SUMS);
                if constexpr (GENERAL && UPWARDS) {
                    from.pass(above);
                }
            }
            F::store(mem.own(place), d, w.scale, w.scale, at);
            results_ready(mem, place, at);
            if constexpr (GENERAL && !UPWARDS) {
                from.pass(below);
            }
        }
    }
#endif
};

struct value_maps {
    CUtensorMap q, k, d_o, statistics, dv;
    bool adds; // to the old dv
};

// dv. P shares registers with the scores, so that three groups fit; they take turns at multiplying.
template <bool GENERAL> struct values : plain_ring {
    using F = tf32_tiles<2>;
    using maps = value_maps;
    using rows = const float *; // unused
    static constexpr bool UPWARDS = true;
    static constexpr int GROUPS = 3, BUFFERS = 1, STAGES = 2;
    static constexpr int SPLIT = 2, PARTS = 2; // the second: do transposed, in its place
    static constexpr transposition TRANSPOSED = BESIDE;
    static constexpr int PART_BYTES = F::TILE_BYTES, ROW_BYTES = 4 * STATISTICS;    // k
    static constexpr int STAGE_BYTES = 2 * F::TILE_BYTES, STAGE_STEP = 2 * F::STEP; // q, do
    using sees = visible_to_keys<GROUPS, GENERAL>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &w) { return w.q_per_kv; }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.k, block, t.head, t.batch, full);
    }
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &w, uint32_t to,
                                                      uint32_t to_rows, int tile, const item &t,
                                                      int member, const Take &take)
    {
        const other_head other = other_head_of<KEYS>(w, t, member);
        const uint32_t full = take(0, STAGE_BYTES + ROW_BYTES);
        load<F>(to, &maps.q, tile, other.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.d_o, tile, other.head, t.batch, full);
        tma_load(to_rows, &maps.statistics, 0, tile, other.index, 0, full);
    }
    static __device__ __forceinline__ void transpose(uint32_t stage, int part, int lane)
    {
        const uint32_t d_o = stage + F::TILE_BYTES;
        transpose_tile<TRANSPOSERS>(d_o, d_o, part, lane);
        transpose_tile<TRANSPOSERS>(d_o + 2 * TILE, d_o + 2 * TILE, part, lane);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send_gradient<F>(&maps.dv, from, block, t.head, t.batch, maps.adds);
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &,
                                                   const memory<values> &mem, const place &at)
    {
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dv[F::COLUMN_TILES][32];
        uint32_t p[F::FRAGMENT];
        reader<values> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        for (int round = 0;; ++round) {
            const int index = item_index(round, blockIdx.x, gridDim.x);
            if (index >= w.total) {
                break;
            }
            const item t = item_at(w, index);
            const int block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            const int place = mem.place_of(round, at.group);
            const visible_tiles visible = sees::of(w, t, block);
            const uint64_t own = operand(mem.own(place));
            for (int member = 0; member < members(w); ++member) {
                from.pass(visible.own.bottom - visible.item.bottom);
                mbarrier_wait(mem.own_full(place), mem.phase_of(round));
                for (int tile = visible.own.bottom; tile <= visible.own.top; ++tile) {
                    const uint64_t stage = stages + ring.stage * STAGE_STEP;
                    const uint32_t rows = mem.rows(ring.stage) + (at.lane & 3) * 8;
                    from.ready();
                    wgmma_fence();
                    F::scores(s, own, stage);
                    wgmma_commit();
                    wgmma_wait<0>();
                    wgmma_settle(s);
                    exponentials_of_columns(s, rows, w.scale_log2);
                    mask_queries<GENERAL>(s, w, visible, block, tile, at);
                    F::pack(p, s);
                    from.ready(1);
                    wgmma_fence();
                    F::accumulate(dv, p, stage + F::STEP, member > 0 || tile != visible.own.bottom);
                    wgmma_commit();
                    wgmma_wait<0>();
                    wgmma_settle(p);
                    settle(dv);
                    from.release(ring.stage, 0);
                    ring.advance();
                }
                if constexpr (GENERAL) {
                    from.pass(visible.item.top - visible.own.top);
                }
            }
            F::store(mem.own(place), dv, 1.0f, 1.0f, at);
            results_ready(mem, place, at);
        }
    }
#endif
};

} // namespace
} // namespace bt_attention_sm90
#endif
