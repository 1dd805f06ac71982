// kernels/cuda/attention/queries_wide_bf16_sm90.cuh - dq and row statistics of wide heads
//   p = exp(s - lse), ds = p (do v^T - delta), dq = scale ds k, delta = sum do o
// As queries_bf16_sm90.cuh, with tiles of 128 columns and two warpgroups of 240 registers. An
// item's own tiles stand once.
#ifndef BT_KERNELS_CUDA_ATTENTION_QUERIES_WIDE_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_QUERIES_WIDE_BF16_SM90_CUH

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
constexpr int GROUPS = 2, STAGES = 4, THREADS = 128 * (GROUPS + 1);
constexpr int WIDE = 2 * TILE, WIDE_STEP = 2 * TILE_STEP; // a tile of 128 columns
// q, do and o of each warpgroup, then the ring of keys and values.
constexpr int PART_BYTES = 3 * WIDE, RING = GROUPS * PART_BYTES;
constexpr int STAGE_BYTES = 2 * WIDE, STAGE_STEP = 2 * WIDE_STEP;
constexpr int BARRIERS = RING + STAGES * STAGE_BYTES, SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 3 * GROUPS) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");
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

__device__ __forceinline__ void load_own(const query_maps &maps, const work &w, const memory &at,
                                         const item &t, int round)
{
    for (int group = 0; group < GROUPS; ++group) { // a tile before 0 comes as zeros
        const uint32_t to = at.base + group * PART_BYTES, own_full = at.own_full + 8 * group;
        const int token = query_block<GROUPS>(w, t, turn_of<GROUPS>(group, round)) * BLOCK;
        mbarrier_wait(at.own_empty + 8 * group, (round & 1) ^ 1);
        mbarrier_expect(own_full, PART_BYTES);
        load_wide(to, &maps.q, token, t.head, t.batch, own_full);
        load_wide(to + WIDE, &maps.d_o, token, t.head, t.batch, own_full);
        load_wide(to + 2 * WIDE, &maps.o, token, t.head, t.batch, own_full);
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
        const int top = top_key_tile<GROUPS>(w, t), own_at = max(top - (STAGES - 1), 0);
        for (int tile = top; tile >= 0; --tile) {
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            const uint32_t full = at.full + 8 * ring.stage;
            if (tile == own_at) { // after as many stages as are free without the item's own tiles
                load_own(maps, w, at, t, round);
            }
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES);
            load_wide(to, &maps.k, tile * BLOCK, t.head, t.batch, full);
            load_wide(to + WIDE, &maps.v, tile * BLOCK, t.head, t.batch, full);
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
        const int block = query_block<GROUPS>(w, t, turn_of<GROUPS>(group, round));
        mbarrier_wait(at.out_full + 8 * group, round & 1);
        if (block >= 0) {
            send_wide(&maps.dq, at.base + group * PART_BYTES, block * BLOCK, t.head, t.batch);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
        mbarrier_arrive(at.own_empty + 8 * group);
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

// delta from the tiles of do and o; both to the workspace. A lane takes 32 columns of two rows.
__device__ __forceinline__ statistics begin_rows(uint32_t own, float2 lse, float *to, const work &w,
                                                 const item &t, int block, const place &at)
{
    const int row = row_of(at), quad = at.lane & 3;
    const uint32_t d_o = own + WIDE + row * 128, o = d_o + WIDE, turn = (uint32_t)row & 7;
    const uint32_t c0 = ((2 * quad) ^ turn) << 4, c1 = ((2 * quad + 1) ^ turn) << 4;
    auto product = [&](uint32_t from) { // of the row that lies so far on, both halves
        return dot(load_four(d_o + from + c0), load_four(o + from + c0)) +
               dot(load_four(d_o + from + c1), load_four(o + from + c1)) +
               dot(load_four(d_o + from + TILE + c0), load_four(o + from + TILE + c0)) +
               dot(load_four(d_o + from + TILE + c1), load_four(o + from + TILE + c1));
    };
    statistics r;
    r.lse0 = lse.x * LOG2_OF_E;
    r.lse1 = lse.y * LOG2_OF_E;
    r.delta0 = row_sum(product(0));
    r.delta1 = row_sum(product(1024));
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
    const uint32_t own_base = mem.base + at.group * PART_BYTES;
    const uint64_t stages = operand(mem.base + RING), own = operand(own_base);
    float s[32], dp[32], dq[2][32];
    uint32_t ds[16];
    ring_place<STAGES> ring;
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x);
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int block = query_block<GROUPS>(w, t, turn_of<GROUPS>(at.group, round));
        const int first = first_key_tile(w, block);
        const float2 lse = lse_of(rows.lse, w, t, block, at);
        for (int tile = top_key_tile<GROUPS>(w, t); tile > first; --tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.own_full + 8 * at.group, round & 1);
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
        wgmma_fence();
        multiply_wide(s, own, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        wgmma_commit(); // in the place of dq's
        multiply_wide(dp, own + WIDE_STEP, stages + ring.stage * STAGE_STEP + WIDE_STEP);
        wgmma_commit();
        const statistics r = begin_rows(own_base, lse, rows.statistics, w, t, block, at);
        int old = -1;
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
            multiply_wide(s, own, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            multiply_wide(dq, ds, stages + old * STAGE_STEP, tile != first);
            wgmma_commit();
            multiply_wide(dp, own + WIDE_STEP, stages + ring.stage * STAGE_STEP + WIDE_STEP);
            wgmma_commit();
        }
        wgmma_fence();
        multiply_wide(dq, ds, stages + old * STAGE_STEP, first != 0);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(dq[0]);
        wgmma_settle(dq[1]);
        release(old);
        store_bf16(own_base, dq[0], w.scale, w.scale, at);
        store_bf16(own_base + TILE, dq[1], w.scale, w.scale, at);
        fence_async();
        __syncwarp();
        mbarrier_arrive_if(mem.out_full + 8 * at.group, at.lane == 0);
    }
}

} // namespace queries

#endif

__global__ void __launch_bounds__(queries::THREADS, 1)
    queries_wide_bf16(const __grid_constant__ query_maps maps, const work w, const query_rows rows)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const queries::memory mem = queries::memory_at(shared_address(shared));
    if (threadIdx.x == 0) {
        queries::barriers_init(mem);
    }
    __syncthreads();
    if (at.group == queries::GROUPS) {
        registers_give<24>();
        const int helper = at.warp - 4 * queries::GROUPS;
        if (at.thread == 0) {
            queries::produce(maps, w, mem);
        } else if (helper > 0 && helper <= queries::GROUPS && at.lane == 0) {
            queries::send(maps, w, mem, helper - 1);
        }
    } else {
        registers_take<240>();
        queries::consume(w, rows, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90
#endif
