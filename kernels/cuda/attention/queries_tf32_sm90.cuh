// kernels/cuda/attention/queries_tf32_sm90.cuh - the tf32 backward's dq
//   p = exp(s - lse), ds = p (do v^T - delta), dq = scale ds k
// A warpgroup owns 64 queries and takes the keys that they see, 64 at a time, downwards. The tiles
// of a stage (k, v, k transposed) have a barrier each: k is free long before k transposed.
#ifndef BT_KERNELS_CUDA_ATTENTION_QUERIES_TF32_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_QUERIES_TF32_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct query_maps {
    CUtensorMap q, k, v, d_o, transposed, dq;
    int k_transposed; // which operand of `transposed`
};

namespace queries
{
constexpr int STAGES = 2, TILES = 3, THREADS = 512;
constexpr int BIG = 2 * TILE, BIG_STEP = 2 * TILE_STEP; // a tile of f32
// q and do of each warpgroup, then the ring.
constexpr int PART_BYTES = 2 * BIG, RING = 3 * PART_BYTES;
constexpr int STAGE_BYTES = TILES * BIG, STAGE_STEP = TILES * BIG_STEP;
constexpr int BARRIERS = RING + STAGES * STAGE_BYTES, SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES * TILES + 9) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
} // namespace queries

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace queries
{

struct memory {
    uint32_t base, full, empty, own_full, own_empty, out_full;
};

__device__ __forceinline__ memory memory_at(uint32_t base)
{
    const uint32_t full = base + BARRIERS, own_full = full + 16 * STAGES * TILES;
    return {base, full, full + 8 * STAGES * TILES, own_full, own_full + 24, own_full + 48};
}

__device__ __forceinline__ void barriers_init(const memory &at)
{
    for (int i = 0; i < STAGES * TILES; ++i) {
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

__device__ __forceinline__ void load_own(const query_maps &maps, const work &w, const memory &at,
                                         const item &t, int round)
{
    for (int group = 0; group < 3; ++group) { // a tile before 0 comes as zeros
        const uint32_t to = at.base + group * PART_BYTES, own_full = at.own_full + 8 * group;
        const int token = query_block(w, t, turn_of(group, round)) * BLOCK;
        mbarrier_wait(at.own_empty + 8 * group, (round & 1) ^ 1);
        mbarrier_expect(own_full, PART_BYTES);
        load_f32(to, &maps.q, token, t.head, t.batch, own_full);
        load_f32(to + BIG, &maps.d_o, token, t.head, t.batch, own_full);
    }
}

__device__ __forceinline__ void produce(const query_maps &maps, const work &w, const memory &at)
{
    ring_place<STAGES> ring;
    ring.phase = 1;
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int top = top_key_tile(w, t), own_at = max(top - (STAGES - 1), 0);
        // Where the next tile of a stage goes, when it is free.
        auto take = [&](int which) {
            const int tile = ring.stage * TILES + which;
            mbarrier_wait(at.empty + 8 * tile, ring.phase);
            mbarrier_expect(at.full + 8 * tile, BIG);
            return at.full + 8 * tile;
        };
        for (int tile = top; tile >= 0; --tile) {
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            const int token = tile * BLOCK;
            if (tile == own_at) { // after as many stages as are free without the item's own tiles
                load_own(maps, w, at, t, round);
            }
            load_f32(to, &maps.k, token, t.head, t.batch, take(0));
            load_f32(to + BIG, &maps.v, token, t.head, t.batch, take(1));
            const uint32_t full = take(2);
            tma_load(to + 2 * BIG, &maps.transposed, token, 0, t.index, maps.k_transposed, full);
            tma_load(to + 2 * BIG + TILE, &maps.transposed, token + 32, 0, t.index,
                     maps.k_transposed, full);
            ring.advance();
        }
    }
}

// Sends the results of one warpgroup.
__device__ __forceinline__ void send(const query_maps &maps, const work &w, const memory &at,
                                     int group)
{
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int block = query_block(w, t, turn_of(group, round));
        mbarrier_wait(at.out_full + 8 * group, round & 1);
        if (block >= 0) {
            send_f32(&maps.dq, at.base + group * PART_BYTES, block * BLOCK, t.head, t.batch);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
        mbarrier_arrive(at.own_empty + 8 * group);
    }
    tma_store_wait<0>();
}

__device__ __forceinline__ void consume(const work &w, const float *statistics, const memory &mem,
                                        const place &at)
{
    const uint32_t own_base = mem.base + at.group * PART_BYTES;
    const uint64_t stages = operand(mem.base + RING), own = operand(own_base);
    float s[32], dp[32], dq[32];
    uint32_t ds[32];
    ring_place<STAGES> ring;
    auto release = [&](int stage, int which) {
        mbarrier_arrive_if(mem.empty + 8 * (stage * TILES + which), at.lane == 0);
    };
    auto ready = [&](int which) {
        mbarrier_wait(mem.full + 8 * (ring.stage * TILES + which), ring.phase);
    };
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int block = query_block(w, t, turn_of(at.group, round));
        const int first = first_key_tile(w, block);
        const float *rows =
            statistics + ((int64_t)t.index * w.tiles + block) * STATISTICS + row_of(at);
        const bool reads = block >= 0;
        const float lse0 = load_if(reads, rows, INFINITY),
                    lse1 = load_if(reads, rows + 8, INFINITY);
        const float delta0 = load_if(reads, rows + BLOCK, 0.0f);
        const float delta1 = load_if(reads, rows + BLOCK + 8, 0.0f);
        for (int tile = top_key_tile(w, t); tile > first; --tile) {
#pragma unroll
            for (int which = 0; which < TILES; ++which) {
                ready(which);
                release(ring.stage, which);
            }
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * at.group, round & 1);
        ready(0);
        ready(1);
        wgmma_fence();
        multiply_tf32(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        wgmma_commit(); // in the place of dq's
        multiply_tf32(dp, own + BIG_STEP, stages + ring.stage * STAGE_STEP + BIG_STEP);
        wgmma_commit();
        int old = -1;
        for (int tile = first;; --tile) {
            wgmma_wait<2>();
            wgmma_settle(s);
            release(ring.stage, 0);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    s[4 * i + e] = exp2_approximate(fmaf(s[4 * i + e], w.scale_log2, -lse0));
                    s[4 * i + 2 + e] =
                        exp2_approximate(fmaf(s[4 * i + 2 + e], w.scale_log2, -lse1));
                }
            }
            if (tile == first) {
                const sight sees = sight_of(w, first, at);
                mask_after(s, sees.last, sees.last + sees.step, 0.0f);
            }
            wgmma_wait<0>();
            wgmma_settle(dp);
            release(ring.stage, 1);
            if (old >= 0) {
                release(old, 2);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                ds[4 * i] = tf32_of(s[4 * i] * (dp[4 * i] - delta0));
                ds[4 * i + 2] = tf32_of(s[4 * i + 1] * (dp[4 * i + 1] - delta0));
                ds[4 * i + 1] = tf32_of(s[4 * i + 2] * (dp[4 * i + 2] - delta1));
                ds[4 * i + 3] = tf32_of(s[4 * i + 3] * (dp[4 * i + 3] - delta1));
            }
            ready(2);
            old = ring.stage;
            ring.advance();
            if (tile == 0) {
                break;
            }
            ready(0);
            ready(1);
            wgmma_fence();
            multiply_tf32(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            multiply_tf32(dq, ds, stages + old * STAGE_STEP + 2 * BIG_STEP, tile != first);
            wgmma_commit();
            multiply_tf32(dp, own + BIG_STEP, stages + ring.stage * STAGE_STEP + BIG_STEP);
            wgmma_commit();
        }
        wgmma_fence();
        multiply_tf32(dq, ds, stages + old * STAGE_STEP + 2 * BIG_STEP, first != 0);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(dq);
        release(old, 2);
        store_f32(own_base, dq, w.scale, w.scale, at);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * at.group, at.lane == 0);
    }
}

} // namespace queries

#endif

__global__ void __launch_bounds__(queries::THREADS, 1)
    queries_tf32(const __grid_constant__ query_maps maps, const work w, const float *statistics)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const queries::memory mem = queries::memory_at(shared_address(shared));
    if (threadIdx.x == 0) {
        queries::barriers_init(mem);
    }
    __syncthreads();
    if (at.group == 3) {
        registers_give<32>();
        if (at.thread == 0) {
            queries::produce(maps, w, mem);
        } else if (at.warp > 12 && at.lane == 0) {
            queries::send(maps, w, mem, at.warp - 13);
        }
    } else {
        registers_take<160>();
        queries::consume(w, statistics, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90
#endif
