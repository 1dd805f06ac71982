// kernels/cuda/attention/keys_tf32_sm90.cuh - the tf32 backward's second kernel: dk and dv
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// A warpgroup owns 64 keys and processes the queries that attend to them, 64 at a time, ascending:
// tiles of q, do, both transposed, and row statistics.
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH

#include "kernels/cuda/attention/backward_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct key_maps {
    CUtensorMap q, k, v, d_o, transposed, dk, dv, statistics;
    int q_transposed, d_o_transposed; // which operands of `transposed`
};

struct keys_tf32 {
    using F = tf32_tiles<1>;
    using maps = key_maps;
    using rows = const float *; // unused
    static constexpr bool UPWARDS = true;
    static constexpr int GROUPS = 3, BUFFERS = 1, STAGES = 2, SPLIT = 1, PARTS = 1;
    static constexpr int PART_BYTES = 2 * F::TILE_BYTES, ROW_BYTES = 4 * STATISTICS; // k, v
    static constexpr int STAGE_BYTES = 4 * F::TILE_BYTES, STAGE_STEP = 4 * F::STEP;
    using sees = visible_to_keys<GROUPS, false>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &) { return 1; }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.k, block, t.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.v, block, t.head, t.batch, full);
    }
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &, uint32_t to,
                                                      uint32_t to_rows, int tile, const item &t,
                                                      int, const Take &take)
    {
        const uint32_t full = take(0, STAGE_BYTES + ROW_BYTES);
        load<F>(to, &maps.q, tile, t.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.d_o, tile, t.head, t.batch, full);
        load_transposed<F>(to + 2 * F::TILE_BYTES, &maps.transposed, tile, t.index,
                           maps.d_o_transposed, full);
        load_transposed<F>(to + 3 * F::TILE_BYTES, &maps.transposed, tile, t.index,
                           maps.q_transposed, full);
        tma_load(to_rows, &maps.statistics, 0, tile, t.index, 0, full);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send<F>(&maps.dk, from, block, t.head, t.batch);
        send<F>(&maps.dv, from + F::TILE_BYTES, block, t.head, t.batch);
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
            const int index = item_index(round, blockIdx.x, gridDim.x);
            if (index >= w.total) {
                break;
            }
            const item t = item_at(w, index);
            const int block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            const int place = mem.place_of(round, at.group);
            const visible_tiles visible = sees::of(w, t, block);
            const uint64_t own = operand(mem.own(place));
            from.pass(visible.own.bottom - visible.item.bottom);
            mbarrier_wait(mem.own_full(place), mem.phase_of(round));
            for (int tile = visible.own.bottom; tile < w.q_tiles; ++tile) {
                const uint64_t stage = stages + ring.stage * STAGE_STEP;
                const uint32_t rows = mem.rows(ring.stage) + (at.lane & 3) * 8;
                from.ready();
                wgmma_fence();
                F::scores(s, own, stage);
                wgmma_commit();
                F::scores(dp, own + F::STEP, stage + F::STEP);
                wgmma_commit();
                wgmma_wait<1>();
                wgmma_settle(s);
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const float2 lse = load_pair(rows + i * 32);
                    s[4 * i] = exp2_approximate(fmaf(s[4 * i], w.scale_log2, -lse.x));
                    s[4 * i + 1] = exp2_approximate(fmaf(s[4 * i + 1], w.scale_log2, -lse.y));
                    s[4 * i + 2] = exp2_approximate(fmaf(s[4 * i + 2], w.scale_log2, -lse.x));
                    s[4 * i + 3] = exp2_approximate(fmaf(s[4 * i + 3], w.scale_log2, -lse.y));
                }
                mask_queries<false>(s, w, visible, block, tile, at);
                F::pack(p, s);
                wgmma_fence();
                F::accumulate(dv, p, stage + 2 * F::STEP, tile != visible.own.bottom);
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
                F::accumulate(dk, ds, stage + 3 * F::STEP, tile != visible.own.bottom);
                wgmma_commit();
                wgmma_wait<0>();
                settle(dk);
                settle(dv);
                from.release(ring.stage);
                ring.advance();
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
