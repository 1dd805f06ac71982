// kernels/cuda/attention/queries_sm90.cuh - the backward's first kernel: dq, and row statistics
//   p = exp(s - lse), ds = p (do v^T - delta), dq = scale ds k, delta = sum do o
// A warpgroup owns 64 queries and processes the keys visible to them, 64 at a time, descending. In
// bf16 it writes lse and delta to the workspace, for the second kernel; in tf32 a pass has done so
// (statistics_tf32_sm90.cuh), and the tiles of a stage (k, v, k transposed) have a barrier each: k
// is free long before k transposed.
#ifndef BT_KERNELS_CUDA_ATTENTION_QUERIES_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_QUERIES_SM90_CUH

#include "kernels/cuda/attention/backward_sm90.cuh"
#include "kernels/cuda/attention/transpose_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct query_maps {
    CUtensorMap q, k, v, d_o, dq;
    CUtensorMap o; // unless the format transposes
    bool adds;     // to the old dq
};
struct query_rows {
    const float *lse;  // [B, H, q_tokens]
    float *statistics; // see STATISTICS; NULL: not written (side_by_side_bf16_sm90.cuh)
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of the thread's two rows: lse log2(e), and delta.
struct statistics {
    float lse0, lse1, delta0, delta1;
};

__device__ __forceinline__ float dot(uint4 a, uint4 b)
{
    const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sum = fmaf(low_bf16(x[i]), low_bf16(y[i]), sum);
        sum = fmaf(high_bf16(x[i]), high_bf16(y[i]), sum);
    }
    return sum;
}

// Rows past the last token have an lse of inf, which makes their P zero.
__device__ __forceinline__ float2 lse_of(const float *lse, const work &w, const item &t, int block,
                                         const place &at)
{
    const int token = block * BLOCK + row_of(at);
    const float *row = lse + (int64_t)t.index * w.q_tokens + token;
    return make_float2(load_if(token >= 0 && token < w.q_tokens, row, INFINITY),
                       load_if(token >= 0 && token + 8 < w.q_tokens, row + 8, INFINITY));
}

__device__ __forceinline__ float *statistics_of(float *all, const work &w, const item &t, int block,
                                                const place &at)
{
    return all + ((int64_t)t.index * w.q_tiles + block) * STATISTICS + row_of(at);
}

__device__ __forceinline__ statistics read_rows(const float *from, bool reads)
{
    return {load_if(reads, from, INFINITY), load_if(reads, from + 8, INFINITY),
            load_if(reads, from + BLOCK, 0.0f), load_if(reads, from + BLOCK + 8, 0.0f)};
}

// delta from the tiles of do and o in bf16; both to the workspace. A lane takes 16 columns of two
// rows in each column tile.
template <class F>
__device__ __forceinline__ statistics make_rows(uint32_t own, float2 lse, float *to, bool writes,
                                                const place &at)
{
    const int row = row_of(at), quad = at.lane & 3;
    const uint32_t d_o = own + F::TILE_BYTES + row * 128, o = d_o + F::TILE_BYTES;
    const uint32_t turn = (uint32_t)row & 7;
    const uint32_t c0 = ((2 * quad) ^ turn) << 4, c1 = ((2 * quad + 1) ^ turn) << 4;
    auto product = [&](uint32_t from) { // of the row that lies so far on
        float sum = 0.0f;
#pragma unroll
        for (int n = 0; n < F::COLUMN_TILES; ++n) {
            const uint32_t at0 = from + n * TILE + c0, at1 = from + n * TILE + c1;
            sum += dot(load_four(d_o + at0), load_four(o + at0)) +
                   dot(load_four(d_o + at1), load_four(o + at1));
        }
        return sum;
    };
    statistics r;
    r.lse0 = lse.x * LOG2_OF_E;
    r.lse1 = lse.y * LOG2_OF_E;
    r.delta0 = row_sum(product(0));
    r.delta1 = row_sum(product(1024));
    writes = writes && quad == 0;
    store_if(writes, to, r.lse0);
    store_if(writes, to + 8, r.lse1);
    store_if(writes, to + BLOCK, r.delta0);
    store_if(writes, to + BLOCK + 8, r.delta1);
    return r;
}

// p in place of the scores.
__device__ __forceinline__ void exponentials_of_rows(float (&s)[32], const statistics &r,
                                                     float scale_log2)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            s[4 * i + e] = exp2_approximate(fmaf(s[4 * i + e], scale_log2, -r.lse0));
            s[4 * i + 2 + e] = exp2_approximate(fmaf(s[4 * i + 2 + e], scale_log2, -r.lse1));
        }
    }
}

// ds = p (dp - delta), as a fragment.
template <class F>
__device__ __forceinline__ void pack_ds(uint32_t (&ds)[F::FRAGMENT], const float (&s)[32],
                                        const float (&dp)[32], const statistics &r)
{
    float d[32];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            d[4 * i + e] = s[4 * i + e] * (dp[4 * i + e] - r.delta0);
            d[4 * i + 2 + e] = s[4 * i + 2 + e] * (dp[4 * i + 2 + e] - r.delta1);
        }
    }
    F::pack(ds, d);
}

#endif

// GENERAL: see mask_sm90.cuh.
template <class F, bool GENERAL, class GRID = whole_grid> struct queries : plain_ring {
    using grid = GRID;
    using maps = query_maps;
    using rows = query_rows;
    static constexpr bool ACROSS = F::TRANSPOSES, WIDE = !ACROSS && F::COLUMN_TILES > 1;
    static constexpr bool UPWARDS = false;
    static constexpr int GROUPS = WIDE || ACROSS ? 2 : 3, BUFFERS = WIDE || ACROSS ? 1 : 2;
    static constexpr int STAGES = ACROSS ? 3 : WIDE ? 4 : 5;
    static constexpr int SPLIT = ACROSS ? 3 : 1, PARTS = 3; // parts: k, v, k of the sum
    static constexpr transposition TRANSPOSED = ACROSS ? COPY : NONE;
    static constexpr int PART_BYTES = (ACROSS ? 2 : 3) * F::TILE_BYTES, ROW_BYTES = 0; // q, do, o
    static constexpr int STAGE_TILES = ACROSS ? 3 : 2;
    static constexpr int STAGE_BYTES = STAGE_TILES * F::TILE_BYTES;
    static constexpr int STAGE_STEP = STAGE_TILES * F::STEP, SUM_STEP = ACROSS ? 2 * F::STEP : 0;
    static constexpr bool JOINS = BUFFERS == 2 && !GENERAL;
    using sees = visible_to_queries<GROUPS, GENERAL>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &) { return 1; }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.q, block, t.head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.d_o, block, t.head, t.batch, full);
        if constexpr (!ACROSS) {
            load<F>(to + 2 * F::TILE_BYTES, &maps.o, block, t.head, t.batch, full);
        }
    }
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &w, uint32_t to,
                                                      uint32_t, int tile, const item &t, int,
                                                      const Take &take)
    {
        const int head = kv_head_of(w, t);
        uint32_t full = take(0, ACROSS ? F::TILE_BYTES : STAGE_BYTES);
        load<F>(to, &maps.k, tile, head, t.batch, full);
        if constexpr (ACROSS) {
            full = take(1, F::TILE_BYTES);
        }
        load<F>(to + F::TILE_BYTES, &maps.v, tile, head, t.batch, full);
    }
    static __device__ __forceinline__ void transpose(uint32_t stage, int part, int lane)
    {
        transpose_tile<TRANSPOSERS>(stage, stage + 2 * F::TILE_BYTES, part, lane);
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send_gradient<F>(&maps.dq, from, block, t.head, t.batch, maps.adds);
    }

    // The tiles of a block of queries, whose first products are in flight; the last one's dq is not
    // yet added. Returns the stage that holds it.
    template <class Left>
    static __device__ __forceinline__ int
    walk(float (&s)[32], float (&dp)[32], float (&dq)[F::COLUMN_TILES][32],
         uint32_t (&ds)[F::FRAGMENT], reader<queries> &from, const work &w,
         const visible_tiles &visible, const statistics &r, const Left &q, const Left &d_o,
         uint64_t stages, int block, const place &at)
    {
        ring_place<STAGES> &ring = from.ring;
        int old = -1;
        for (int tile = visible.own.top;; --tile) {
            wgmma_wait<2>();
            wgmma_settle(s);
            from.release(ring.stage, 0);
            exponentials_of_rows(s, r, w.scale_log2);
            mask_keys<GENERAL>(s, w, visible, block, tile, at, 0.0f);
            wgmma_wait<0>();
            wgmma_settle(dp);
            from.release(ring.stage, 1);
            if (old >= 0) {
                from.release(old, 2);
            }
            pack_ds<F>(ds, s, dp, r);
            from.ready(2);
            old = ring.stage;
            ring.advance();
            if (tile == visible.own.bottom) {
                return old;
            }
            from.ready(0);
            from.ready(1);
            wgmma_fence();
            F::scores(s, q, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            F::accumulate(dq, ds, stages + old * STAGE_STEP + SUM_STEP, tile != visible.own.top);
            wgmma_commit();
            F::scores(dp, d_o, stages + ring.stage * STAGE_STEP + F::STEP);
            wgmma_commit();
        }
    }

    // The same for double-buffered own tiles: an item's first products are issued with the last one
    // of the previous item. It skips at most two tiles while it holds a stage.
    static __device__ __forceinline__ void
    consume_joined(const work &w, const rows &rows, const memory<queries> &mem, const place &at)
    {
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dp[32], dq[F::COLUMN_TILES][32];
        uint32_t ds[F::FRAGMENT];
        reader<queries> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        int round = 0, index = item_index(0, mem.worker(), mem.workers()), old;
        if (index >= w.total) {
            return;
        }
        auto enter = [&](const visible_tiles &visible, int place) {
            from.pass(visible.item.top - visible.own.top);
            mbarrier_wait(mem.own_full(place), mem.phase_of(round));
            from.ready();
        };
        item t = item_at(w, index);
        int block = sees::block(w, t, turn_of<GROUPS>(at.group, 0));
        int place = mem.place_of(0, at.group);
        visible_tiles visible = sees::of(w, t, block);
        float2 lse = lse_of(rows.lse, w, t, block, at);
        enter(visible, place);
        uint64_t own = operand(mem.own(place));
        wgmma_fence();
        F::scores(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        wgmma_commit(); // an empty group where dq's will be
        F::scores(dp, own + F::STEP, stages + ring.stage * STAGE_STEP + F::STEP);
        wgmma_commit();
        for (;;) {
            const statistics r =
                make_rows<F>(mem.own(place), lse, statistics_of(rows.statistics, w, t, block, at),
                             block >= 0 && (GRID::WHOLE || rows.statistics), at);
            old = walk(s, dp, dq, ds, from, w, visible, r, own, own + F::STEP, stages, block, at);
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
            lse = lse_of(rows.lse, w, t, block, at);
            enter(visible, place);
            own = operand(mem.own(place));
            wgmma_fence();
            F::scores(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            F::accumulate(dq, ds, stages + old * STAGE_STEP + SUM_STEP, adds);
            wgmma_commit();
            F::scores(dp, own + F::STEP, stages + ring.stage * STAGE_STEP + F::STEP);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_settle(s);
            wgmma_settle(dp);
            settle(dq);
            from.release(old);
            F::store(mem.own(done), dq, w.scale, w.scale, at);
            results_ready(mem, done, at);
        }
        wgmma_fence();
        F::accumulate(dq, ds, stages + old * STAGE_STEP + SUM_STEP,
                      visible.own.top != visible.own.bottom);
        wgmma_commit();
        wgmma_wait<0>();
        settle(dq);
        from.release(old);
        F::store(mem.own(place), dq, w.scale, w.scale, at);
        results_ready(mem, place, at);
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &rows,
                                                   const memory<queries> &mem, const place &at)
    {
        if constexpr (JOINS) {
            consume_joined(w, rows, mem, at);
            return;
        }
        const uint64_t stages = operand(mem.stage(0));
        float s[32], dp[32], dq[F::COLUMN_TILES][32];
        uint32_t ds[F::FRAGMENT];
        reader<queries> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        for (int round = 0;; ++round) {
            const int index = item_index(round, mem.worker(), mem.workers());
            if (index >= w.total) {
                break;
            }
            const item t = item_at(w, index);
            const int block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            const int place = mem.place_of(round, at.group);
            float *written = statistics_of(rows.statistics, w, t, block, at);
            const visible_tiles visible = sees::of(w, t, block);
            statistics r;
            float2 lse;
            if constexpr (ACROSS) {
                r = read_rows(written, block >= 0);
            } else {
                lse = lse_of(rows.lse, w, t, block, at);
            }
            from.pass(visible.item.top - visible.own.top);
            const uint64_t own = operand(mem.own(place));
            mbarrier_wait(mem.own_full(place), mem.phase_of(round));
            const auto q = F::left(own, mem.own(place), at);
            const auto d_o = F::left(own + F::STEP, mem.own(place) + F::TILE_BYTES, at);
            from.ready(0);
            from.ready(1);
            wgmma_fence();
            F::scores(s, q, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_commit(); // an empty group where dq's will be
            F::scores(dp, d_o, stages + ring.stage * STAGE_STEP + F::STEP);
            wgmma_commit();
            if constexpr (!ACROSS) {
                r = make_rows<F>(mem.own(place), lse, written, block >= 0, at);
            }
            const int old = walk(s, dp, dq, ds, from, w, visible, r, q, d_o, stages, block, at);
            wgmma_fence();
            F::accumulate(dq, ds, stages + old * STAGE_STEP + SUM_STEP,
                          visible.own.top != visible.own.bottom);
            wgmma_commit();
            wgmma_wait<0>();
            settle(dq);
            from.release(old, 2);
            F::store(mem.own(place), dq, w.scale, w.scale, at);
            results_ready(mem, place, at);
            if constexpr (GENERAL) {
                from.pass(visible.own.bottom - visible.item.bottom);
            }
        }
    }
#endif
};

} // namespace
} // namespace bt_attention_sm90
#endif
