// kernels/cuda/attention/pairs_bf16_sm90.cuh - the bf16 forward of heads up to 64 columns
//   o = softmax(scale q k^T) v, lse = log sum exp
// Two pairs of warpgroups of 112 registers, each pair with a ring of keys and values, a warp that
// fills it and one that sends results. A warpgroup owns 64 queries and takes keys 64 at a time, the
// last tile that it sees first. Its next scores are under way while it takes exponentials; P goes
// from C fragments to A fragments in registers. An item's first product is issued with the last one
// of the item before.
// Softmax  without a running maximum: the first tile fixes a reference m for each row, rounded up
//          to an integer. P has room for 2^40 above it, since bf16 has the exponents of f32. Where
//          a tile's sum goes beyond (or is NaN), that warp computes its scores again with mma.sync,
//          raises m and rescales: right for all inputs, and rare.
#ifndef BT_KERNELS_CUDA_ATTENTION_PAIRS_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_PAIRS_BF16_SM90_CUH

#include "kernels/cuda/attention/forward_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{
namespace pairs
{

constexpr int STAGES = 5, CONSUMERS = 4, THREADS = 128 * (CONSUMERS + 1);
constexpr int STAGE_BYTES = 2 * TILE, STAGE_STEP = 2 * TILE_STEP; // keys, then values
// Of a pair: the queries of both warpgroups, twice, then the ring; its barriers at the end.
constexpr int OWN_BYTES = 2 * TILE, RING = 2 * OWN_BYTES, PAIR_BYTES = RING + STAGES * STAGE_BYTES;
constexpr int BARRIERS = 2 * PAIR_BYTES, PAIR_BARRIERS = 128, SHARED = BARRIERS + 2 * PAIR_BARRIERS;
static_assert(8 * (2 * STAGES + 6) <= PAIR_BARRIERS && SHARED <= SHARED_BYTES_MOST,
              "more shared memory than a block may use");

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A pair's part of shared memory: barriers of the ring's stages, of its own queries, and of the
// finished rows in their place.
struct pair_memory {
    uint32_t own, ring, full, empty, own_full, own_empty, out_full;
};

__device__ __forceinline__ pair_memory pair_at(uint32_t base, int pair)
{
    const uint32_t own = base + pair * PAIR_BYTES, full = base + BARRIERS + pair * PAIR_BARRIERS;
    return {own,
            own + RING,
            full,
            full + 8 * STAGES,
            full + 16 * STAGES,
            full + 16 * STAGES + 16,
            full + 16 * STAGES + 32};
}

__device__ __forceinline__ void barriers_init(const pair_memory &at)
{
    for (int i = 0; i < STAGES; ++i) {
        mbarrier_init(at.full + 8 * i, 1);
        mbarrier_init(at.empty + 8 * i, 8); // warps of a pair
    }
    for (int i = 0; i < 2; ++i) {
        mbarrier_init(at.own_full + 8 * i, 1);
        mbarrier_init(at.own_empty + 8 * i, 1);
        mbarrier_init(at.out_full + 8 * i, 8);
    }
}

// The pair's two tiles of queries, the shortest rows last, and the keys that they begin with.
__device__ __forceinline__ int first_block(const work &w, const item &t)
{
    return (w.parts - 1 - t.part) * 2;
}
__device__ __forceinline__ int last_tile(const work &w, int first)
{
    return w.causal ? first + 1 : w.kv_tiles - 1;
}
// A tile past the end (of an odd number) works on zeros, and TMA stores nothing of it.
__device__ __forceinline__ int first_tile(const work &w, int block)
{
    return w.causal ? block : w.kv_tiles - 1;
}

__device__ __forceinline__ void produce(const forward_maps &p, const work &w, const pair_memory &at,
                                        int worker, int workers)
{
    ring_place<STAGES> ring;
    ring.phase = 1;
    for (int round = 0;; ++round) {
        const int index = item_index(round, worker, workers), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int first = first_block(w, t), kv_head = kv_head_of(w, t);
        const uint32_t own = at.own + buffer * OWN_BYTES, own_full = at.own_full + 8 * buffer;
        mbarrier_wait(at.own_empty + 8 * buffer, (round >> 1 & 1) ^ 1);
        mbarrier_expect(own_full, OWN_BYTES);
        tma_load(own, &p.q, 0, first * BLOCK, t.head, t.batch, own_full);
        tma_load(own + TILE, &p.q, 0, (first + 1) * BLOCK, t.head, t.batch, own_full);
        for (int tile = last_tile(w, first); tile >= 0; --tile) {
            const uint32_t full = at.full + 8 * ring.stage;
            const uint32_t to = at.ring + ring.stage * STAGE_BYTES;
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES);
            tma_load(to, &p.k, 0, tile * BLOCK, kv_head, t.batch, full);
            tma_load(to + TILE, &p.v, 0, tile * BLOCK, kv_head, t.batch, full);
            ring.advance();
        }
    }
}

// Sends the pair's finished rows, for which consumers must not branch (mbarrier_arrive_if).
__device__ __forceinline__ void send(const forward_maps &p, const work &w, const pair_memory &at,
                                     int worker, int workers)
{
    for (int round = 0;; ++round) {
        const int index = item_index(round, worker, workers), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int token = first_block(w, t) * BLOCK;
        const uint32_t own = at.own + buffer * OWN_BYTES;
        mbarrier_wait(at.out_full + 8 * buffer, round >> 1 & 1);
        tma_store(&p.o, own, 0, token, t.head, t.batch);
        tma_store(&p.o, own + TILE, 0, token + BLOCK, t.head, t.batch);
        tma_store_commit();
        tma_store_wait_read<0>();
        mbarrier_arrive(at.own_empty + 8 * buffer);
    }
    tma_store_wait<0>();
}

// A warp's 16 rows of q k^T once more; its C fragments lie as those of wgmma.
__device__ __forceinline__ void scores_again(float (&s)[32], uint32_t q, uint32_t k,
                                             const place &at)
{
    const int row = at.lane & 15, half = at.lane >> 4;
    q += (at.thread >> 5) * 2048;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        s[i] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const uint32_t chunk = (uint32_t)((2 * step + half) ^ (row & 7)) << 4;
        uint32_t a[4];
        load_matrices(q + row * 128 + chunk, a);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            uint32_t b[4];
            load_matrices(k + (16 * n + row) * 128 + chunk, b);
            multiply_warp(*(float(*)[4])(s + 8 * n), a, b[0], b[2]);
            multiply_warp(*(float(*)[4])(s + 8 * n + 4), a, b[1], b[3]);
        }
    }
}

// P = exp2(scale_log2 s - m) in place of the scores, and its sums.
__device__ __forceinline__ float2 exponentials_of(float (&s)[32], float scale_log2,
                                                  const row_state &r)
{
    float2 sum = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            sum.x += s[4 * i + e] = exp2_approximate(fmaf(s[4 * i + e], scale_log2, -r.m0));
            sum.y += s[4 * i + 2 + e] = exp2_approximate(fmaf(s[4 * i + 2 + e], scale_log2, -r.m1));
        }
    }
    return sum;
}

// References that cover the scores; finite, so that a row may begin with scores of -inf.
__device__ __forceinline__ float2 references(const float (&s)[32], float scale_log2)
{
    float m0 = s[0], m1 = s[2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        m0 = fmaxf(m0, fmaxf(s[4 * i], s[4 * i + 1]));
        m1 = fmaxf(m1, fmaxf(s[4 * i + 2], s[4 * i + 3]));
    }
    return make_float2(fmaxf(ceilf(scale_log2 * row_max(m0)), -FLT_MAX),
                       fmaxf(ceilf(scale_log2 * row_max(m1)), -FLT_MAX));
}

// Scores went beyond the rows' references: raises them, with all that depends on them.
__device__ __forceinline__ void raise_rows(float (&s)[32], float (&o)[32], row_state &r,
                                           float scale_log2)
{
    const float2 needed = references(s, scale_log2);
    const float m0 = fmaxf(r.m0, needed.x), m1 = fmaxf(r.m1, needed.y);
    const float f0 = exp2_approximate(r.m0 - m0), f1 = exp2_approximate(r.m1 - m1);
    r = {m0, m1, r.l0 * f0, r.l1 * f1};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        o[4 * i] *= f0;
        o[4 * i + 1] *= f0;
        o[4 * i + 2] *= f1;
        o[4 * i + 3] *= f1;
    }
}

// The scores of the first tile to P.
__device__ __forceinline__ row_state begin_rows(float (&s)[32], const work &w, int tile,
                                                const place &at)
{
    mask_keys<false>(s, w, {{}, {0, tile}, {}}, tile, tile, at, -INFINITY);
    const float2 m = references(s, w.scale_log2);
    row_state r = {m.x, m.y, 0.0f, 0.0f};
    const float2 sum = exponentials_of(s, w.scale_log2, r);
    r.l0 = sum.x;
    r.l1 = sum.y;
    return r;
}

// The finished rows go to the warpgroup's own tile of queries, from where they are sent.
template <bool ADDS>
__device__ __forceinline__ void end_rows(const work &w, const forward_rows &rows, float (&o)[32],
                                         const row_state &r, uint32_t own, uint32_t out_full,
                                         const item &t, int block, const place &at)
{
    const float l0 = row_sum(r.l0), l1 = row_sum(r.l1);
    const int token = block * BLOCK + row_of(at);
    float2 f = {reciprocal_approximate(l0), reciprocal_approximate(l1)};
    float2 lse = {LN_OF_2 * (r.m0 + log2_approximate(l0)), LN_OF_2 * (r.m1 + log2_approximate(l1))};
    float *to = rows.lse + (int64_t)t.index * w.q_tokens + token;
    if constexpr (ADDS) {
        f = merge_old<bf16_tiles<1>>(*(float(*)[1][32])o, f, lse, rows.old, to, t, token,
                                     w.q_tokens, at);
    }
    store_bf16(own, o, f.x, f.y, at);
    fence_async();
    __syncwarp();
    mbarrier_arrive_if(out_full, at.lane == 0);
    const bool writes = (at.lane & 3) == 0;
    store_if(writes && token < w.q_tokens, to, lse.x);
    store_if(writes && token + 8 < w.q_tokens, to + 8, lse.y);
}

template <bool ADDS>
__device__ __forceinline__ void consume(const work &w, const forward_rows &rows,
                                        const pair_memory &mem, const place &at, int worker,
                                        int workers)
{
    const int half = at.group & 1;
    const uint64_t stages = operand(mem.ring);
    float s[32], o[32];
    uint32_t pack[16];
    ring_place<STAGES> ring;
    int round = 0, index = item_index(0, worker, workers);
    if (index >= w.total) {
        return;
    }
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    // Waits for an item's queries and for the first tile that they see.
    auto enter = [&](const item &t, int round, int block) {
        mbarrier_wait(mem.own_full + 8 * (round & 1), round >> 1 & 1);
        for (int tile = last_tile(w, first_block(w, t)); tile > first_tile(w, block); --tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
    };
    item t = item_at(w, index);
    int block = first_block(w, t) + half;
    uint32_t own = mem.own + half * TILE;
    enter(t, 0, block);
    wgmma_fence();
    multiply_bf16(s, operand(own), stages + ring.stage * STAGE_STEP);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(s);
    row_state r;
    for (;;) {
        const int first = first_tile(w, block);
        r = begin_rows(s, w, first, at);
        pack_tile(pack, s);
        const uint64_t queries = operand(own);
        for (int tile = first - 1; tile >= 0; --tile) {
            const int old = ring.stage;
            ring.advance();
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            wgmma_fence();
            multiply_bf16(s, queries, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            multiply_bf16(o, pack, stages + old * STAGE_STEP + TILE_STEP, tile != first - 1);
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_settle(s);
            float2 sum = exponentials_of(s, w.scale_log2, r);
            if (__any_sync(0xffffffffu, !(fmaxf(sum.x, sum.y) < 0x1p40f))) { // inf or NaN, too
                scores_again(s, own, mem.ring + ring.stage * STAGE_BYTES, at);
                wgmma_wait<0>();
                wgmma_settle(o);
                raise_rows(s, o, r, w.scale_log2);
                sum = exponentials_of(s, w.scale_log2, r);
            }
            r.l0 += sum.x;
            r.l1 += sum.y;
            wgmma_wait<0>();
            release(old);
            pack_tile(pack, s);
        }
        index = item_index(round + 1, worker, workers);
        if (index >= w.total) {
            break;
        }
        const item next = item_at(w, index);
        const int next_block = first_block(w, next) + half, old = ring.stage;
        const uint32_t next_own = mem.own + (round + 1 & 1) * OWN_BYTES + half * TILE;
        ring.advance();
        enter(next, round + 1, next_block);
        wgmma_fence();
        multiply_bf16(s, operand(next_own), stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        multiply_bf16(o, pack, stages + old * STAGE_STEP + TILE_STEP, first != 0);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(s);
        wgmma_settle(o);
        release(old);
        end_rows<ADDS>(w, rows, o, r, own, mem.out_full + 8 * (round & 1), t, block, at);
        ++round;
        t = next;
        block = next_block;
        own = next_own;
    }
    wgmma_fence();
    multiply_bf16(o, pack, stages + ring.stage * STAGE_STEP + TILE_STEP, first_tile(w, block) != 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(o);
    end_rows<ADDS>(w, rows, o, r, own, mem.out_full + 8 * (round & 1), t, block, at);
}

#endif

// ADDS: merges with an old result.
template <bool ADDS>
__global__ void __launch_bounds__(THREADS, 1)
    forward_pairs(const __grid_constant__ forward_maps p, const work w, const forward_rows rows)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const int pair = at.group < CONSUMERS ? at.group >> 1 : at.warp & 1;
    // The second pairs come in reverse: where each pair has one item, the longest shares its
    // multiprocessor with the shortest.
    const int workers = 2 * (int)gridDim.x;
    const int worker = pair ? workers - 1 - (int)blockIdx.x : (int)blockIdx.x;
    const pair_memory mem = pair_at(shared_address(shared), pair);
    if (threadIdx.x == 0) {
        barriers_init(pair_at(shared_address(shared), 0));
        barriers_init(pair_at(shared_address(shared), 1));
        mbarrier_init_fence();
    }
    __syncthreads();
    wait_for_predecessor();
    if (at.group == CONSUMERS) {
        registers_give<24>();
        if (at.lane == 0) {
            if (at.warp < 4 * CONSUMERS + 2) {
                produce(p, w, mem, worker, workers);
            } else {
                send(p, w, mem, worker, workers);
            }
        }
    } else {
        registers_take<112>();
        consume<ADDS>(w, rows, mem, at, worker, workers);
    }
#endif
}

} // namespace pairs
} // namespace
} // namespace bt_attention_sm90
#endif
