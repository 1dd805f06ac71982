// kernels/cuda/attention/queries_bf16_sm90.cuh - the backward's first kernel: dq and row statistics
//   p = exp(s - lse), ds = p (do v^T - delta), dq = scale ds k, delta = sum do o
// A warpgroup owns 64 queries and takes the keys that they see, 64 at a time, downwards. lse and
// delta go to the workspace, for the second kernel.
#ifndef BT_KERNELS_CUDA_ATTENTION_QUERIES_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_QUERIES_BF16_SM90_CUH

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct query_maps {
    CUtensorMap q, k, v, o, d_o, dq;
};
struct query_rows {
    const float *lse;  // [B, H, T]
    float *statistics; // see STATISTICS
};

namespace queries
{
constexpr int STAGES = 5, THREADS = 512;
// q, do and o of each warpgroup, twice, then the ring of keys and values.
constexpr int PART_BYTES = 3 * TILE, OWN_BYTES = 3 * PART_BYTES, RING = 2 * OWN_BYTES;
constexpr int STAGE_BYTES = 2 * TILE, STAGE_STEP = 2 * TILE_STEP;
constexpr int BARRIERS = RING + STAGES * STAGE_BYTES, SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 10) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
} // namespace queries

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace queries
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

__device__ __forceinline__ void produce(const query_maps &maps, const work &w, const memory &at)
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
        for (int turn = 0; turn < 3; ++turn) { // a tile before 0 comes as zeros
            const uint32_t to = own + turn * PART_BYTES;
            const int token = query_block(w, t, turn) * BLOCK;
            tma_load(to, &maps.q, 0, token, t.head, t.batch, own_full);
            tma_load(to + TILE, &maps.d_o, 0, token, t.head, t.batch, own_full);
            tma_load(to + 2 * TILE, &maps.o, 0, token, t.head, t.batch, own_full);
        }
        for (int tile = top_key_tile(w, t); tile >= 0; --tile) {
            const uint32_t full = at.full + 8 * ring.stage;
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES);
            tma_load(to, &maps.k, 0, tile * BLOCK, t.head, t.batch, full);
            tma_load(to + TILE, &maps.v, 0, tile * BLOCK, t.head, t.batch, full);
            ring.advance();
        }
    }
}

// Sends the results of one warpgroup.
__device__ __forceinline__ void send(const query_maps &maps, const work &w, const memory &at,
                                     int group)
{
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int turn = turn_of(group, round), block = query_block(w, t, turn);
        mbarrier_wait(at.out_full + 8 * (buffer * 3 + group), round >> 1 & 1);
        if (block >= 0) {
            tma_store(&maps.dq, at.base + buffer * OWN_BYTES + turn * PART_BYTES, 0, block * BLOCK,
                      t.head, t.batch);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
        mbarrier_arrive(at.own_empty + 8 * buffer);
    }
    tma_store_wait<0>();
}

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
    const float *row = lse + (int64_t)t.index * w.tokens + token;
    return make_float2(load_if(token >= 0 && token < w.tokens, row, INFINITY),
                       load_if(token >= 0 && token + 8 < w.tokens, row + 8, INFINITY));
}

// delta from the tiles of do and o; both to the workspace. A lane takes 16 columns of two rows.
__device__ __forceinline__ statistics begin_rows(uint32_t own, float2 lse, float *to, const work &w,
                                                 const item &t, int block, const place &at)
{
    const int row = row_of(at), quad = at.lane & 3;
    const uint32_t d_o = own + TILE + row * 128, o = d_o + TILE, turn = (uint32_t)row & 7;
    const uint32_t c0 = ((2 * quad) ^ turn) << 4, c1 = ((2 * quad + 1) ^ turn) << 4;
    statistics r;
    r.lse0 = lse.x * LOG2_OF_E;
    r.lse1 = lse.y * LOG2_OF_E;
    r.delta0 = row_sum(dot(load_four(d_o + c0), load_four(o + c0)) +
                       dot(load_four(d_o + c1), load_four(o + c1)));
    r.delta1 = row_sum(dot(load_four(d_o + 1024 + c0), load_four(o + 1024 + c0)) +
                       dot(load_four(d_o + 1024 + c1), load_four(o + 1024 + c1)));
    const bool writes = quad == 0 && block >= 0;
    to += ((int64_t)t.index * w.tiles + block) * STATISTICS + row;
    store_if(writes, to, r.lse0);
    store_if(writes, to + 8, r.lse1);
    store_if(writes, to + BLOCK, r.delta0);
    store_if(writes, to + BLOCK + 8, r.delta1);
    return r;
}

__device__ __forceinline__ void consume(const work &w, const query_rows &rows, const memory &mem,
                                        const place &at)
{
    const uint64_t stages = operand(mem.base + RING);
    float s[32], dp[32], dq[32];
    uint32_t ds[16];
    ring_place<STAGES> ring;
    int round = 0, index = item_index(0, blockIdx.x, gridDim.x);
    if (index >= w.total) {
        return;
    }
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    auto own_of = [&](int round) {
        return mem.base + (round & 1) * OWN_BYTES + turn_of(at.group, round) * PART_BYTES;
    };
    // Waits for an item's queries and for the first tile that they see.
    auto enter = [&](const item &t, int round, int block) {
        for (int tile = top_key_tile(w, t); tile > first_key_tile(w, block); --tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * (round & 1), round >> 1 & 1);
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
    };
    auto store = [&](int round) {
        store_bf16(own_of(round), dq, w.scale, w.scale, at);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * ((round & 1) * 3 + at.group), at.lane == 0);
    };
    item t = item_at(w, index);
    int block = query_block(w, t, turn_of(at.group, 0)), old;
    float2 lse = lse_of(rows.lse, w, t, block, at);
    enter(t, 0, block);
    uint64_t own = operand(own_of(0));
    wgmma_fence();
    multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
    wgmma_commit();
    wgmma_commit(); // in the place of dq's
    multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
    wgmma_commit();
    for (;;) {
        const int first = first_key_tile(w, block);
        const statistics r = begin_rows(own_of(round), lse, rows.statistics, w, t, block, at);
        old = -1;
        for (int tile = first;; --tile) {
            wgmma_wait<2>();
            wgmma_settle(s);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    s[4 * i + e] = exp2_approximate(fmaf(s[4 * i + e], w.scale_log2, -r.lse0));
                    s[4 * i + 2 + e] =
                        exp2_approximate(fmaf(s[4 * i + 2 + e], w.scale_log2, -r.lse1));
                }
            }
            if (tile == first) {
                const sight sees = sight_of(w, first, at);
                mask_after(s, sees.last, sees.last + sees.step, 0.0f);
            }
            wgmma_wait<0>();
            wgmma_settle(dp);
            if (old >= 0) {
                release(old);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                ds[2 * i] = pack_bf16(s[4 * i] * (dp[4 * i] - r.delta0),
                                      s[4 * i + 1] * (dp[4 * i + 1] - r.delta0));
                ds[2 * i + 1] = pack_bf16(s[4 * i + 2] * (dp[4 * i + 2] - r.delta1),
                                          s[4 * i + 3] * (dp[4 * i + 3] - r.delta1));
            }
            old = ring.stage;
            ring.advance();
            if (tile == 0) {
                break;
            }
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            wgmma_fence();
            multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            multiply_bf16(dq, ds, stages + old * STAGE_STEP, tile != first);
            wgmma_commit();
            multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
            wgmma_commit();
        }
        index = item_index(round + 1, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item next = item_at(w, index);
        const int next_block = query_block(w, next, turn_of(at.group, round + 1));
        lse = lse_of(rows.lse, w, next, next_block, at);
        enter(next, round + 1, next_block);
        own = operand(own_of(round + 1));
        wgmma_fence();
        multiply_bf16(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        multiply_bf16(dq, ds, stages + old * STAGE_STEP, first != 0);
        wgmma_commit();
        multiply_bf16(dp, own + TILE_STEP, stages + ring.stage * STAGE_STEP + TILE_STEP);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(s);
        wgmma_settle(dp);
        wgmma_settle(dq);
        release(old);
        store(round);
        ++round;
        t = next;
        block = next_block;
    }
    wgmma_fence();
    multiply_bf16(dq, ds, stages + old * STAGE_STEP, first_key_tile(w, block) != 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(dq);
    release(old);
    store(round);
}

} // namespace queries

#endif

__global__ void __launch_bounds__(queries::THREADS, 1)
    queries_bf16(const __grid_constant__ query_maps maps, const work w, const query_rows rows)
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
        queries::consume(w, rows, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90
#endif
