// kernels/cuda/attention/keys_tf32_sm90.cuh - the tf32 backward's second kernel: dk and dv
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// A warpgroup owns 64 keys and processes the queries that attend to them, 64 at a time, ascending:
// tiles of q, do, both transposed, and row statistics. Query heads that share the keys come one
// after another.
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH

#include "kernels/cuda/attention/backward_sm90.cuh"
#include "kernels/cuda/attention/transpose_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

// GENERAL: see mask_sm90.cuh.
template <bool GENERAL, class GRID = whole_grid> struct keys_tf32 : plain_ring {
    using F = tf32_tiles<1>;
    using grid = GRID;
    using maps = key_maps;
    using rows = const float *; // unused
    static constexpr bool UPWARDS = true;
    static constexpr int GROUPS = 2, BUFFERS = 1, STAGES = 2; // of three the registers would not do
    static constexpr int SPLIT = 2, PARTS = 2;                // the second: transposed
    static constexpr transposition TRANSPOSED = BESIDE;
    static constexpr int PART_BYTES = 2 * F::TILE_BYTES, ROW_BYTES = 4 * STATISTICS; // k, v
    static constexpr int STAGE_BYTES = 4 * F::TILE_BYTES, STAGE_STEP = 4 * F::STEP;
    using sees = visible_to_keys<GROUPS, GENERAL>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &w) { return w.q_per_kv; }
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
        const uint32_t full = take(0, 2 * F::TILE_BYTES + ROW_BYTES);
        load<F>(to, &maps.q, tile, head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.d_o, tile, head, t.batch, full);
        tma_load(to_rows, &maps.statistics, 0, tile, index, 0, full);
    }
    static __device__ __forceinline__ void transpose(uint32_t stage, int part, int lane)
    {
        const uint32_t d_o = stage + F::TILE_BYTES;
        transpose_tile<TRANSPOSERS>(d_o, d_o + F::TILE_BYTES, part, lane);
        transpose_tile<TRANSPOSERS>(stage, stage + 3 * F::TILE_BYTES, part, lane);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send_gradient<F>(&maps.dk, from, block, t.head, t.batch, maps.adds);
        send_gradient<F>(&maps.dv, from + F::TILE_BYTES, block, t.head, t.batch, maps.adds);
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &,
                                                   const memory<keys_tf32> &mem, const place &at)
    {
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dp[32], dk[1][32], dv[1][32];
        uint32_t p[32];
        reader<keys_tf32> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        for (int round = 0;; ++round) {
            const int index = item_index(round, mem.worker(), mem.workers());
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
                const auto k = F::left(own, mem.own(place), at);
                const auto v = F::left(own + F::STEP, mem.own(place) + F::TILE_BYTES, at);
                for (int tile = visible.own.bottom; tile <= visible.own.top; ++tile) {
                    const uint64_t stage = stages + ring.stage * STAGE_STEP;
                    const bool adds = member > 0 || tile != visible.own.bottom;
                    const uint32_t rows = mem.rows(ring.stage) + (at.lane & 3) * 8;
                    from.ready();
                    wgmma_fence();
                    F::scores(s, k, stage);
                    wgmma_commit();
                    F::scores(dp, v, stage + F::STEP);
                    wgmma_commit();
                    wgmma_wait<1>();
                    wgmma_settle(s);
                    exponentials_of_columns(s, rows, w.scale_log2);
                    mask_queries<GENERAL>(s, w, visible, block, tile, at);
                    F::pack(p, s);
                    from.ready(1);
                    wgmma_fence();
                    F::accumulate(dv, p, stage + 2 * F::STEP, adds);
                    wgmma_commit();
                    wgmma_wait<1>();
                    wgmma_settle(dp);
                    uint32_t ds[32];
#pragma unroll
                    for (int i = 0; i < 8; ++i) { // from the rounded p: s has no registers left
                        const float2 delta = load_pair(rows + 4 * BLOCK + i * 32);
                        const float p0 = __uint_as_float(p[4 * i]);
                        const float p1 = __uint_as_float(p[4 * i + 2]);
                        const float p2 = __uint_as_float(p[4 * i + 1]);
                        const float p3 = __uint_as_float(p[4 * i + 3]);
                        ds[4 * i] = tf32_of(p0 * (dp[4 * i] - delta.x));
                        ds[4 * i + 2] = tf32_of(p1 * (dp[4 * i + 1] - delta.y));
                        ds[4 * i + 1] = tf32_of(p2 * (dp[4 * i + 2] - delta.x));
                        ds[4 * i + 3] = tf32_of(p3 * (dp[4 * i + 3] - delta.y));
                    }
                    wgmma_fence();
                    F::accumulate(dk, ds, stage + 3 * F::STEP, adds);
                    wgmma_commit();
                    wgmma_wait<0>();
                    settle(dk);
                    settle(dv);
                    from.release(ring.stage, 0);
                    ring.advance();
                }
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
