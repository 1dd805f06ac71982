// kernels/cuda/attention/keys_wide_bf16_sm90.cuh - dk and dv of wide heads
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// As keys_bf16_sm90.cuh, with tiles of 128 columns and two warpgroups of 240 registers. An item's
// own tiles stand once.
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_WIDE_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_WIDE_BF16_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct key_maps {
    CUtensorMap q, k, v, d_o, dk, dv, statistics;
};

namespace keys
{
constexpr int GROUPS = 2, STAGES = 5, THREADS = 128 * (GROUPS + 1);
constexpr int WIDE = 2 * TILE, WIDE_STEP = 2 * TILE_STEP; // a tile of 128 columns
// k and v of each warpgroup, then the ring of queries and do, then their statistics.
constexpr int PART_BYTES = 2 * WIDE, RING = GROUPS * PART_BYTES, ROW_BYTES = 4 * STATISTICS;
constexpr int STAGE_BYTES = 2 * WIDE, STAGE_STEP = 2 * WIDE_STEP;
constexpr int ROWS = RING + STAGES * STAGE_BYTES, BARRIERS = ROWS + STAGES * ROW_BYTES;
constexpr int SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 3 * GROUPS) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
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
    return {base, full, full + 8 * STAGES, own_full, own_full + 8 * GROUPS, own_full + 16 * GROUPS};
}

__device__ __forceinline__ void barriers_init(const memory &at)
{
    for (int i = 0; i < STAGES; ++i) {
        mbarrier_init(at.full + 8 * i, 1);
        mbarrier_init(at.empty + 8 * i, 4 * GROUPS); // warps
    }
    for (int i = 0; i < GROUPS; ++i) {
        mbarrier_init(at.own_full + 8 * i, 1);
        mbarrier_init(at.own_empty + 8 * i, 1);
        mbarrier_init(at.out_full + 8 * i, 4); // the warpgroup's warps
    }
    mbarrier_init_fence();
}

__device__ __forceinline__ void load_own(const key_maps &maps, const memory &at, const item &t,
                                         int round)
{
    for (int group = 0; group < GROUPS; ++group) { // a tile past the end comes as zeros
        const uint32_t to = at.base + group * PART_BYTES, own_full = at.own_full + 8 * group;
        const int token = key_block<GROUPS>(t, turn_of<GROUPS>(group, round)) * BLOCK;
        mbarrier_wait(at.own_empty + 8 * group, (round & 1) ^ 1);
        mbarrier_expect(own_full, PART_BYTES);
        load_wide(to, &maps.k, token, t.head, t.batch, own_full);
        load_wide(to + WIDE, &maps.v, token, t.head, t.batch, own_full);
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
        const int bottom = bottom_query_tile<GROUPS>(w, t);
        const int own_at = min(bottom + STAGES - 1, w.tiles - 1);
        for (int tile = bottom; tile < w.tiles; ++tile) {
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            const uint32_t full = at.full + 8 * ring.stage;
            if (tile == own_at) { // after as many stages as are free without the item's own tiles
                load_own(maps, at, t, round);
            }
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES + ROW_BYTES);
            load_wide(to, &maps.q, tile * BLOCK, t.head, t.batch, full);
            load_wide(to + WIDE, &maps.d_o, tile * BLOCK, t.head, t.batch, full);
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
        const int token = key_block<GROUPS>(t, turn_of<GROUPS>(group, round)) * BLOCK;
        const uint32_t own = at.base + group * PART_BYTES;
        mbarrier_wait(at.out_full + 8 * group, round & 1);
        send_wide(&maps.dk, own, token, t.head, t.batch);
        send_wide(&maps.dv, own + WIDE, token, t.head, t.batch);
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
    float s[32], dp[32], dk[2][32], dv[2][32];
    uint32_t p[16], ds[16];
    ring_place<STAGES> ring;
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int first =
            first_query_tile(w, key_block<GROUPS>(t, turn_of<GROUPS>(at.group, round)));
        for (int tile = bottom_query_tile<GROUPS>(w, t); tile < first; ++tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * at.group, round & 1);
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
        wgmma_fence();
        multiply_wide(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        multiply_wide(dp, own + WIDE_STEP, stages + ring.stage * STAGE_STEP + WIDE_STEP);
        wgmma_commit();
        int old;
        for (int tile = first;; ++tile) {
            const uint32_t rows = mem.base + ROWS + ring.stage * ROW_BYTES + (at.lane & 3) * 8;
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
            wgmma_wait<0>();
            wgmma_settle(dp);
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
            old = ring.stage;
            ring.advance();
            if (tile == w.tiles - 1) {
                break;
            }
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            wgmma_fence();
            multiply_wide(dv, p, stages + old * STAGE_STEP + WIDE_STEP, tile != first);
            multiply_wide(dk, ds, stages + old * STAGE_STEP, tile != first);
            wgmma_commit();
            multiply_wide(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_wait<1>(); // frees the registers of p and ds for dp
            wgmma_settle(p);
            wgmma_settle(ds);
            release(old);
            wgmma_fence();
            multiply_wide(dp, own + WIDE_STEP, stages + ring.stage * STAGE_STEP + WIDE_STEP);
            wgmma_commit();
        }
        wgmma_fence();
        multiply_wide(dv, p, stages + old * STAGE_STEP + WIDE_STEP, first != w.tiles - 1);
        multiply_wide(dk, ds, stages + old * STAGE_STEP, first != w.tiles - 1);
        wgmma_commit();
        wgmma_wait<0>();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            wgmma_settle(dk[half]);
            wgmma_settle(dv[half]);
            store_bf16(own_base + half * TILE, dk[half], w.scale, w.scale, at);
            store_bf16(own_base + WIDE + half * TILE, dv[half], 1.0f, 1.0f, at);
        }
        release(old);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * at.group, at.lane == 0);
    }
}

} // namespace keys

#endif

__global__ void __launch_bounds__(keys::THREADS, 1)
    keys_wide_bf16(const __grid_constant__ key_maps maps, const work w, const void *)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const keys::memory mem = keys::memory_at(shared_address(shared));
    if (threadIdx.x == 0) {
        keys::barriers_init(mem);
    }
    __syncthreads();
    if (at.group == keys::GROUPS) {
        registers_give<24>();
        const int helper = at.warp - 4 * keys::GROUPS;
        if (at.thread == 0) {
            keys::produce(maps, w, mem);
        } else if (helper > 0 && helper <= keys::GROUPS && at.lane == 0) {
            keys::send(maps, w, mem, helper - 1);
        }
    } else {
        registers_take<240>();
        keys::consume(w, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90
#endif
