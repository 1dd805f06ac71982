// kernels/cuda/attention/keys_bf16_sm90.cuh - the backward's second kernel: dk and dv
//   p^T = exp(s^T - lse), ds^T = p^T (v do^T - delta), dv = p^T do, dk = scale ds^T q
// A warpgroup owns 64 keys and takes the queries that see them, 64 at a time, upwards, with their
// statistics, which the first kernel wrote.
#ifndef BT_KERNELS_CUDA_ATTENTION_KEYS_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_KEYS_BF16_SM90_CUH

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
constexpr int STAGES = 7, THREADS = 512;
// k and v of each warpgroup, twice, then the ring of queries and do, then their statistics.
constexpr int PART_BYTES = 2 * TILE, OWN_BYTES = 3 * PART_BYTES, RING = 2 * OWN_BYTES;
constexpr int STAGE_BYTES = 2 * TILE, STAGE_STEP = 2 * TILE_STEP, ROW_BYTES = 4 * STATISTICS;
constexpr int ROWS = RING + STAGES * STAGE_BYTES, BARRIERS = ROWS + STAGES * ROW_BYTES;
constexpr int SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 10) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
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
    return {base, full, full + 8 * STAGES, own_full, own_full + 16, own_full + 32};
}

__device__ __forceinline__ void barriers_init(const memory &at)
{
    for (int i = 0; i < STAGES; ++i) {
        mbarrier_init(at.full + 8 * i, 1);
        mbarrier_init(at.empty + 8 * i, 12); // warps
    }
    for (int i = 0; i < 2; ++i) {
        mbarrier_init(at.own_full + 8 * i, 1);
        mbarrier_init(at.own_empty + 8 * i, 3); // senders
    }
    for (int i = 0; i < 6; ++i) {
        mbarrier_init(at.out_full + 8 * i, 4); // of buffer i / 3, warpgroup i % 3: its warps
    }
    mbarrier_init_fence();
}

__device__ __forceinline__ void produce(const key_maps &maps, const work &w, const memory &at)
{
    ring_place<STAGES> ring;
    ring.phase = 1;
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const uint32_t own = at.base + buffer * OWN_BYTES, own_full = at.own_full + 8 * buffer;
        mbarrier_wait(at.own_empty + 8 * buffer, (round >> 1 & 1) ^ 1);
        mbarrier_expect(own_full, OWN_BYTES);
        for (int turn = 0; turn < 3; ++turn) { // a tile past the end comes as zeros
            const uint32_t to = own + turn * PART_BYTES;
            const int token = key_block(t, turn) * BLOCK;
            tma_load(to, &maps.k, 0, token, t.head, t.batch, own_full);
            tma_load(to + TILE, &maps.v, 0, token, t.head, t.batch, own_full);
        }
        for (int tile = bottom_query_tile(w, t); tile < w.tiles; ++tile) {
            const uint32_t full = at.full + 8 * ring.stage;
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES + ROW_BYTES);
            tma_load(to, &maps.q, 0, tile * BLOCK, t.head, t.batch, full);
            tma_load(to + TILE, &maps.d_o, 0, tile * BLOCK, t.head, t.batch, full);
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
        const int index = item_index(round, blockIdx.x, gridDim.x), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int turn = turn_of(group, round), token = key_block(t, turn) * BLOCK;
        const uint32_t own = at.base + buffer * OWN_BYTES + turn * PART_BYTES;
        mbarrier_wait(at.out_full + 8 * (buffer * 3 + group), round >> 1 & 1);
        tma_store(&maps.dk, own, 0, token, t.head, t.batch);
        tma_store(&maps.dv, own + TILE, 0, token, t.head, t.batch);
        tma_store_commit();
        tma_store_wait_read<0>();
        mbarrier_arrive(at.own_empty + 8 * buffer);
    }
    tma_store_wait<0>();
}

__device__ __forceinline__ void consume(const work &w, const memory &mem, const place &at)
{
    const uint64_t stages = operand(mem.base + RING);
    float s[32], dp[32], dk[32], dv[32];
    uint32_t p[16], ds[16];
    ring_place<STAGES> ring;
    int round = 0, index = item_index(0, blockIdx.x, gridDim.x);
    if (index >= w.total) {
        return;
    }
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    auto own_of = [&](int round) {
        return mem.base + (round & 1) * OWN_BYTES + turn_of(at.group, round) * PART_BYTES;
    };
    // Waits for an item's keys and for the first tile of queries that see them.
    auto enter = [&](const item &t, int round, int block) {
        for (int tile = bottom_query_tile(w, t); tile < first_query_tile(w, block); ++tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * (round & 1), round >> 1 & 1);
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
    };
    auto store = [&](int round) {
        store_bf16(own_of(round), dk, w.scale, w.scale, at);
        store_bf16(own_of(round) + TILE, dv, 1.0f, 1.0f, at);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * ((round & 1) * 3 + at.group), at.lane == 0);
    };
    item t = item_at(w, index);
    int block = key_block(t, turn_of(at.group, 0)), old;
    enter(t, 0, block);
    uint64_t own = operand(own_of(0));
    wgmma_fence();
    multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
    wgmma_commit();
    multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
    wgmma_commit();
    for (;;) {
        const int first = first_query_tile(w, block);
        old = 0;
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
            multiply_bf16(dv, p, stages + old * STAGE_STEP + TILE_STEP, tile != first);
            multiply_bf16(dk, ds, stages + old * STAGE_STEP, tile != first);
            wgmma_commit();
            multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_wait<1>(); // frees the registers of p and ds for dp
            wgmma_settle(p);
            wgmma_settle(ds);
            release(old);
            wgmma_fence();
            multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
            wgmma_commit();
        }
        index = item_index(round + 1, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item next = item_at(w, index);
        const int next_block = key_block(next, turn_of(at.group, round + 1));
        enter(next, round + 1, next_block);
        own = operand(own_of(round + 1));
        wgmma_fence();
        multiply_bf16(dv, p, stages + old * STAGE_STEP + TILE_STEP, first != w.tiles - 1);
        multiply_bf16(dk, ds, stages + old * STAGE_STEP, first != w.tiles - 1);
        wgmma_commit();
        multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_settle(p);
        wgmma_settle(ds);
        release(old);
        wgmma_fence();
        multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(s);
        wgmma_settle(dp);
        wgmma_settle(dk);
        wgmma_settle(dv);
        store(round);
        ++round;
        t = next;
        block = next_block;
    }
    const bool adds = first_query_tile(w, block) != w.tiles - 1;
    wgmma_fence();
    multiply_bf16(dv, p, stages + old * STAGE_STEP + TILE_STEP, adds);
    multiply_bf16(dk, ds, stages + old * STAGE_STEP, adds);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(dk);
    wgmma_settle(dv);
    release(old);
    store(round);
}

} // namespace keys

#endif

__global__ void __launch_bounds__(keys::THREADS, 1)
    keys_bf16(const __grid_constant__ key_maps maps, const work w, const void *)
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
