// kernels/cuda/attention/keys_bf16_sm90.cuh - the bf16 backward's second kernel: dk and dv
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// A warpgroup owns 64 keys and processes the queries that attend to them, 64 at a time, ascending,
// with their statistics, which the first kernel or delta_sm90.cu wrote. Query heads that share the
// keys come one after another (GENERAL only).
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_BF16_SM90_CUH

#include "kernels/cuda/attention/backward_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// GENERAL: see mask_sm90.cuh.
template <class F, bool GENERAL, class GRID = whole_grid> struct keys : plain_ring {
    using grid = GRID;
    using maps = key_maps;
    using rows = const float *; // unused
    static constexpr bool WIDE = F::COLUMN_TILES > 1, UPWARDS = true;
    static constexpr int GROUPS = WIDE ? 2 : 3, BUFFERS = WIDE ? 1 : 2, STAGES = WIDE ? 5 : 7;
    static constexpr int SPLIT = 1, PARTS = 1;
    static constexpr int PART_BYTES = 2 * F::TILE_BYTES, ROW_BYTES = 4 * STATISTICS; // k, v
    static constexpr int STAGE_BYTES = 2 * F::TILE_BYTES, STAGE_STEP = 2 * F::STEP;  // q, do
    static constexpr bool JOINS = BUFFERS == 2 && !GENERAL;
    using sees = visible_to_keys<GROUPS, GENERAL>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &w)
    {
        return GENERAL ? w.q_per_kv : 1;
    }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.k, block, t.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.v, block, t.head, t.batch, full);
    }
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &w, uint32_t to,
                                                      uint32_t to_rows, int tile, const item &t,
                                                      int member, const Take &take)
    {
        const int head = t.head * members(w) + member, index = t.index * members(w) + member;
        const uint32_t full = take(0, STAGE_BYTES + ROW_BYTES);
        load<F>(to, &maps.q, tile, head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.d_o, tile, head, t.batch, full);
        tma_load(to_rows, &maps.statistics, 0, tile, index, 0, full);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send_gradient<F>(&maps.dk, from, block, t.head, t.batch, maps.adds);
        send_gradient<F>(&maps.dv, from + F::TILE_BYTES, block, t.head, t.batch, maps.adds);
    }

    static __device__ __forceinline__ void pack_both(uint32_t (&p)[16], uint32_t (&ds)[16],
                                                     const float (&s)[32], const float (&dp)[32],
                                                     uint32_t rows)
    {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float2 delta = load_pair(rows + 4 * BLOCK + i * 32);
            p[2 * i] = pack_bf16(s[4 * i], s[4 * i + 1]);
            p[2 * i + 1] = pack_bf16(s[4 * i + 2], s[4 * i + 3]);
            ds[2 * i] = pack_bf16(s[4 * i] * (dp[4 * i] - delta.x),
                                  s[4 * i + 1] * (dp[4 * i + 1] - delta.y));
            ds[2 * i + 1] = pack_bf16(s[4 * i + 2] * (dp[4 * i + 2] - delta.x),
                                      s[4 * i + 3] * (dp[4 * i + 3] - delta.y));
        }
    }

    // The tiles of queries that attend to a block of keys, whose first products are in flight; the
    // last one's dk and dv are not yet added. Returns the stage that holds it.
    static __device__ __forceinline__ int
    walk(float (&s)[32], float (&dp)[32], float (&dk)[F::COLUMN_TILES][32],
         float (&dv)[F::COLUMN_TILES][32], uint32_t (&p)[16], uint32_t (&ds)[16],
         reader<keys> &from, const work &w, const visible_tiles &visible, uint64_t own,
         uint64_t stages, int block, bool adds_first, const place &at)
    {
        int old;
        for (int tile = visible.own.bottom;; ++tile) {
            const uint32_t tile_rows = from.mem.rows(from.ring.stage) + (at.lane & 3) * 8;
            wgmma_wait<1>();
            wgmma_settle(s);
            exponentials_of_columns(s, tile_rows, w.scale_log2);
            mask_queries<GENERAL>(s, w, visible, block, tile, at);
            wgmma_wait<0>();
            wgmma_settle(dp);
            pack_both(p, ds, s, dp, tile_rows);
            old = from.ring.stage;
            from.ring.advance();
            if (tile == visible.own.top) {
                return old;
            }
            const bool adds = tile != visible.own.bottom || adds_first;
            from.ready();
            wgmma_fence();
            F::accumulate(dv, p, stages + old * STAGE_STEP + F::STEP, adds);
            F::accumulate(dk, ds, stages + old * STAGE_STEP, adds);
            wgmma_commit();
            F::scores(s, own, stages + from.ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_wait<1>(); // frees the registers of p and ds for dp
            wgmma_settle(p);
            wgmma_settle(ds);
            from.release(old);
            wgmma_fence();
            F::scores(dp, own + F::STEP, stages + from.ring.stage * STAGE_STEP + F::STEP);
            wgmma_commit();
        }
    }

    // The same for double-buffered own tiles: an item's first products are issued with the last
    // ones of the previous item. It skips at most two tiles while it holds a stage.
    static __device__ __forceinline__ void consume_joined(const work &w, const memory<keys> &mem,
                                                          const place &at)
    {
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dp[32], dk[F::COLUMN_TILES][32], dv[F::COLUMN_TILES][32];
        uint32_t p[16], ds[16];
        reader<keys> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        int round = 0, index = item_index(0, mem.worker(), mem.workers()), old;
        if (index >= w.total) {
            return;
        }
        auto enter = [&](const visible_tiles &visible, int place) {
            from.pass(visible.own.bottom - visible.item.bottom);
            mbarrier_wait(mem.own_full(place), mem.phase_of(round));
            from.ready();
        };
        auto store = [&](int place) {
            F::store(mem.own(place), dk, w.scale, w.scale, at);
            F::store(mem.own(place) + F::TILE_BYTES, dv, 1.0f, 1.0f, at);
            results_ready(mem, place, at);
        };
        item t = item_at(w, index);
        int block = sees::block(w, t, turn_of<GROUPS>(at.group, 0));
        int place = mem.place_of(0, at.group);
        visible_tiles visible = sees::of(w, t, block);
        enter(visible, place);
        uint64_t own = operand(mem.own(place));
        wgmma_fence();
        F::scores(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        F::scores(dp, own + F::STEP, stages + ring.stage * STAGE_STEP + F::STEP);
        wgmma_commit();
        for (;;) {
            old = walk(s, dp, dk, dv, p, ds, from, w, visible, own, stages, block, false, at);
            index = item_index(round + 1, mem.worker(), mem.workers());
            if (index >= w.total) {
                break;
            }
            const int done = place;
            const bool adds = visible.own.top != visible.own.bottom;
            ++round;
            t = item_at(w, index);
            block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            place = mem.place_of(round, at.group);
            visible = sees::of(w, t, block);
            enter(visible, place);
            own = operand(mem.own(place));
            wgmma_fence();
            F::accumulate(dv, p, stages + old * STAGE_STEP + F::STEP, adds);
            F::accumulate(dk, ds, stages + old * STAGE_STEP, adds);
            wgmma_commit();
            F::scores(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_settle(p);
            wgmma_settle(ds);
            from.release(old);
            wgmma_fence();
            F::scores(dp, own + F::STEP, stages + ring.stage * STAGE_STEP + F::STEP);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_settle(s);
            wgmma_settle(dp);
            settle(dk);
            settle(dv);
            store(done);
        }
        const bool adds = visible.own.top != visible.own.bottom;
        wgmma_fence();
        F::accumulate(dv, p, stages + old * STAGE_STEP + F::STEP, adds);
        F::accumulate(dk, ds, stages + old * STAGE_STEP, adds);
        wgmma_commit();
        wgmma_wait<0>();
        settle(dk);
        settle(dv);
        from.release(old);
        store(place);
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &,
                                                   const memory<keys> &mem, const place &at)
    {
        if constexpr (JOINS) {
            consume_joined(w, mem, at);
            return;
        }
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dp[32], dk[F::COLUMN_TILES][32], dv[F::COLUMN_TILES][32];
        uint32_t p[16], ds[16];
        reader<keys> from = {mem, at, {}};
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
                from.ready();
                wgmma_fence();
                F::scores(s, own, stages + ring.stage * STAGE_STEP);
                wgmma_commit();
                F::scores(dp, own + F::STEP, stages + ring.stage * STAGE_STEP + F::STEP);
                wgmma_commit();
                const int old = walk(s, dp, dk, dv, p, ds, from, w, visible, own, stages, block,
                                     member > 0, at);
                const bool adds = visible.own.bottom != visible.own.top || member > 0;
                wgmma_fence();
                F::accumulate(dv, p, stages + old * STAGE_STEP + F::STEP, adds);
                F::accumulate(dk, ds, stages + old * STAGE_STEP, adds);
                wgmma_commit();
                wgmma_wait<0>();
                settle(dk);
                settle(dv);
                from.release(old);
                if constexpr (GENERAL) {
                    from.pass(visible.item.top - visible.own.top);
                }
            }
            F::store(mem.own(place), dk, w.scale, w.scale, at);
            F::store(mem.own(place) + F::TILE_BYTES, dv, 1.0f, 1.0f, at);
            results_ready(mem, place, at);
        }
    }
#endif
};

} // namespace
} // namespace bt_attention_sm90
#endif
