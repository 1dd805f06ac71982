// kernels/cuda/attention/keys_tf32_sm90.cuh - the tf32 backward's dk and dv
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// A warpgroup owns 64 keys and takes the queries that see them, 64 at a time, upwards: tiles of q,
// do, both transposed, and row statistics.
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_TF32_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct key_maps {
    CUtensorMap q, k, v, d_o, transposed, dk, dv, statistics;
    int q_transposed, d_o_transposed; // which operands of `transposed`
};

namespace keys
{
constexpr int STAGES = 2, THREADS = 512;
constexpr int BIG = 2 * TILE, BIG_STEP = 2 * TILE_STEP; // a tile of f32
// k and v of each warpgroup, then the ring, then its statistics.
constexpr int PART_BYTES = 2 * BIG, RING = 3 * PART_BYTES, ROW_BYTES = 4 * STATISTICS;
constexpr int STAGE_BYTES = 4 * BIG, STAGE_STEP = 4 * BIG_STEP;
constexpr int ROWS = RING + STAGES * STAGE_BYTES, BARRIERS = ROWS + STAGES * ROW_BYTES;
constexpr int SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 9) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
} // namespace keys

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace keys
{

struct memory {
    uint32_t base, full, empty, own_full, own_empty, out_full;
};

__device__ __forceinline__ memory memory_at(uint32_t base)
{
    const uint32_t full = base + BARRIERS, own_full = full + 16 * STAGES;
    return {base, full, full + 8 * STAGES, own_full, own_full + 24, own_full + 48};
}

__device__ __forceinline__ void barriers_init(const memory &at)
{
    for (int i = 0; i < STAGES; ++i) {
        mbarrier_init(at.full + 8 * i, 1);
        mbarrier_init(at.empty + 8 * i, 12); // warps
    }
    for (int i = 0; i < 3; ++i) {
        mbarrier_init(at.own_full + 8 * i, 1);
        mbarrier_init(at.own_empty + 8 * i, 1);
        mbarrier_init(at.out_full + 8 * i, 4); // the warpgroup's warps
    }
    mbarrier_init_fence();
}

__device__ __forceinline__ void load_own(const key_maps &maps, const memory &at, const item &t,
                                         int round)
{
    for (int group = 0; group < 3; ++group) { // a tile past the end comes as zeros
        const uint32_t to = at.base + group * PART_BYTES, own_full = at.own_full + 8 * group;
        const int token = key_block(t, turn_of(group, round)) * BLOCK;
        mbarrier_wait(at.own_empty + 8 * group, (round & 1) ^ 1);
        mbarrier_expect(own_full, PART_BYTES);
        load_f32(to, &maps.k, token, t.head, t.batch, own_full);
        load_f32(to + BIG, &maps.v, token, t.head, t.batch, own_full);
    }
}

__device__ __forceinline__ void produce(const key_maps &maps, const work &w, const memory &at)
{
    ring_place<STAGES> ring;
    ring.phase = 1;
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int bottom = bottom_query_tile(w, t);
        const int own_at = min(bottom + STAGES - 1, w.tiles - 1);
        for (int tile = bottom; tile < w.tiles; ++tile) {
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            const uint32_t full = at.full + 8 * ring.stage;
            const int token = tile * BLOCK;
            if (tile == own_at) { // after as many stages as are free without the item's own tiles
                load_own(maps, at, t, round);
            }
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES + ROW_BYTES);
            load_f32(to, &maps.q, token, t.head, t.batch, full);
            load_f32(to + BIG, &maps.d_o, token, t.head, t.batch, full);
            for (int half = 0; half < 2; ++half) {
                tma_load(to + 2 * BIG + half * TILE, &maps.transposed, token + half * 32, 0,
                         t.index, maps.d_o_transposed, full);
                tma_load(to + 3 * BIG + half * TILE, &maps.transposed, token + half * 32, 0,
                         t.index, maps.q_transposed, full);
            }
            tma_load(at.base + ROWS + ring.stage * ROW_BYTES, &maps.statistics, 0, tile, t.index, 0,
                     full);
            ring.advance();
        }
    }
}

// Sends the results of one warpgroup; TMA stores nothing of tiles past the end.
__device__ __forceinline__ void send(const key_maps &maps, const work &w, const memory &at,
                                     int group)
{
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int token = key_block(t, turn_of(group, round)) * BLOCK;
        const uint32_t own = at.base + group * PART_BYTES;
        mbarrier_wait(at.out_full + 8 * group, round & 1);
        send_f32(&maps.dk, own, token, t.head, t.batch);
        send_f32(&maps.dv, own + BIG, token, t.head, t.batch);
        tma_store_commit();
        tma_store_wait_read<0>();
        mbarrier_arrive(at.own_empty + 8 * group);
    }
    tma_store_wait<0>();
}

__device__ __forceinline__ void consume(const work &w, const memory &mem, const place &at)
{
    const uint32_t own_base = mem.base + at.group * PART_BYTES;
    const uint64_t stages = operand(mem.base + RING), own = operand(own_base);
    float s[32], dp[32], dk[32], dv[32];
    uint32_t p[32];
    ring_place<STAGES> ring;
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int first = first_query_tile(w, key_block(t, turn_of(at.group, round)));
        for (int tile = bottom_query_tile(w, t); tile < first; ++tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * at.group, round & 1);
        for (int tile = first; tile < w.tiles; ++tile) {
            const uint64_t stage = stages + ring.stage * STAGE_STEP;
            const uint32_t rows = mem.base + ROWS + ring.stage * ROW_BYTES + (at.lane & 3) * 8;
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            wgmma_fence();
            multiply_tf32(s, own, stage);
            wgmma_commit();
            multiply_tf32(dp, own + BIG_STEP, stage + BIG_STEP);
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
            if (w.causal && tile == first) { // a query before the key does not see it
                const int own_key = row_of(at) - column_of(at);
                mask_before(s, own_key, own_key + 8, 0.0f);
            }
            round_tile(p, s);
            wgmma_fence();
            multiply_tf32(dv, p, stage + 2 * BIG_STEP, tile != first);
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_settle(dp);
            uint32_t ds[32];
#pragma unroll
            for (int i = 0; i < 8; ++i) { // from the rounded p: s has no registers left
                const float2 delta = load_pair(rows + 4 * BLOCK + i * 32);
                const float p0 = __uint_as_float(p[4 * i]), p1 = __uint_as_float(p[4 * i + 2]);
                const float p2 = __uint_as_float(p[4 * i + 1]), p3 = __uint_as_float(p[4 * i + 3]);
                ds[4 * i] = tf32_of(p0 * (dp[4 * i] - delta.x));
                ds[4 * i + 2] = tf32_of(p1 * (dp[4 * i + 1] - delta.y));
                ds[4 * i + 1] = tf32_of(p2 * (dp[4 * i + 2] - delta.x));
                ds[4 * i + 3] = tf32_of(p3 * (dp[4 * i + 3] - delta.y));
            }
            wgmma_fence();
            multiply_tf32(dk, ds, stage + 3 * BIG_STEP, tile != first);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_settle(dk);
            wgmma_settle(dv);
            release(ring.stage);
            ring.advance();
        }
        store_f32(own_base, dk, w.scale, w.scale, at);
        store_f32(own_base + BIG, dv, 1.0f, 1.0f, at);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * at.group, at.lane == 0);
    }
}

} // namespace keys

#endif

__global__ void __launch_bounds__(keys::THREADS, 1)
    keys_tf32(const __grid_constant__ key_maps maps, const work w, const void *)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const keys::memory mem = keys::memory_at(shared_address(shared));
    if (threadIdx.x == 0) {
        keys::barriers_init(mem);
    }
    __syncthreads();
    if (at.group == 3) {
        registers_give<32>();
        if (at.thread == 0) {
            keys::produce(maps, w, mem);
        } else if (at.warp > 12 && at.lane == 0) {
            keys::send(maps, w, mem, at.warp - 13);
        }
    } else {
        registers_take<160>();
        keys::consume(w, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90
#endif
