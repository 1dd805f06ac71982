// kernels/cuda/attention/forward_wide_bf16_sm90.cu - flash attention for Hopper, bf16, wide heads
//   o = softmax(scale q k^T) v, lse = log sum exp
// Shapes   views of [B, T, H, D], any T; 64 < D <= 128, a multiple of 8; lse [B, H, T] f32
// Types    bf16 operands, fp32 sums and softmax; P is rounded to bf16 before P v
// Plan     persistent blocks, three warpgroups of 160 registers and a fourth whose warps fetch
// tiles
//          and send results. A warpgroup owns 64 queries and takes keys 64 at a time, the last tile
//          that it sees first; a tile is two of 64 columns. P goes from C fragments to A fragments
//          in registers.
// Softmax  the reference m of a row is its maximum over the first tile, and is raised only for
//          scores of more than 2^40 times its weight: fp32 and bf16 have room for those
// Bitwise  one warp sums a row, in descending key order; the schedule changes nothing
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
// reach
//          earlier rows of the same tile (0 * NaN in the product)
// Errors   accepts() as in accepts.cu
// Oracle   softmax in float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; PTX ISA as in ptx_sm90
#include <float.h>

#include "kernels/cuda/attention/sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct maps {
    CUtensorMap q, k, v, o;
};

constexpr int STAGES = 4, THREADS = 512;
// q of each warpgroup, twice, then the ring of keys and values.
constexpr int PART_BYTES = 2 * TILE, OWN_BYTES = 3 * PART_BYTES, RING = 2 * OWN_BYTES;
constexpr int STAGE_BYTES = 4 * TILE, STAGE_STEP = 4 * TILE_STEP, VALUE_STEP = 2 * TILE_STEP;
constexpr int BARRIERS = RING + STAGES * STAGE_BYTES, SHARED = BARRIERS + 256;
static_assert(8 * (2 * STAGES + 10) <= 256 && SHARED <= SHARED_BYTES_MOST, "shared memory");

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

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

__device__ __forceinline__ void produce(const maps &maps, const work &w, const memory &at)
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
            load_wide(own + turn * PART_BYTES, &maps.q, query_block(w, t, turn) * BLOCK, t.head,
                      t.batch, own_full);
        }
        for (int tile = top_key_tile(w, t); tile >= 0; --tile) {
            const uint32_t full = at.full + 8 * ring.stage;
            const uint32_t to = at.base + RING + ring.stage * STAGE_BYTES;
            const int token = tile * BLOCK;
            mbarrier_wait(at.empty + 8 * ring.stage, ring.phase);
            mbarrier_expect(full, STAGE_BYTES);
            load_wide(to, &maps.k, token, t.head, t.batch, full);
            load_wide(to + 2 * TILE, &maps.v, token, t.head, t.batch, full);
            ring.advance();
        }
    }
}

// Sends the results of one warpgroup.
__device__ __forceinline__ void send(const maps &maps, const work &w, const memory &at, int group)
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
            send_wide(&maps.o, at.base + buffer * OWN_BYTES + turn * PART_BYTES, block * BLOCK,
                      t.head, t.batch);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
        mbarrier_arrive(at.own_empty + 8 * buffer);
    }
    tma_store_wait<0>();
}

// Of the thread's two rows: the reference to base 2, and this lane's part of the sum of P.
struct row_state {
    float m0, m1, l0, l1;
};

// P = exp2(scale_log2 s - m) in place of the scores.
__device__ __forceinline__ void exponentials(float (&s)[32], float scale_log2, row_state &r)
{
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            r.l0 += s[4 * i + e] = exp2_approximate(fmaf(s[4 * i + e], scale_log2, -r.m0));
            r.l1 += s[4 * i + 2 + e] = exp2_approximate(fmaf(s[4 * i + 2 + e], scale_log2, -r.m1));
        }
    }
}

// The thread's largest scores of its two rows.
__device__ __forceinline__ float2 largest(const float (&s)[32])
{
    float2 most = {s[0], s[2]};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        most.x = fmaxf(most.x, fmaxf(s[4 * i], s[4 * i + 1]));
        most.y = fmaxf(most.y, fmaxf(s[4 * i + 2], s[4 * i + 3]));
    }
    return most;
}

// References are finite, so that a row may begin with scores of -inf.
__device__ __forceinline__ float reference_of(float most, float scale_log2)
{
    return fmaxf(scale_log2 * row_max(most), -FLT_MAX);
}

__device__ __forceinline__ void raise(float2 most, float (&o)[2][32], row_state &r,
                                      float scale_log2)
{
    const float m0 = fmaxf(r.m0, reference_of(most.x, scale_log2));
    const float m1 = fmaxf(r.m1, reference_of(most.y, scale_log2));
    const float f0 = exp2_approximate(r.m0 - m0), f1 = exp2_approximate(r.m1 - m1);
    r = {m0, m1, r.l0 * f0, r.l1 * f1};
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        o[i >> 5][i & 31] *= i & 2 ? f1 : f0;
    }
}

__device__ __forceinline__ void end_rows(const work &w, float *lse, const float (&o)[2][32],
                                         const row_state &r, uint32_t own, uint32_t out_full,
                                         const item &t, int block, const place &at)
{
    const float l0 = row_sum(r.l0), l1 = row_sum(r.l1);
    const int token = block * BLOCK + row_of(at);
    const bool writes = (at.lane & 3) == 0 && token >= 0;
    const float f0 = reciprocal_approximate(l0), f1 = reciprocal_approximate(l1);
    store_bf16(own, o[0], f0, f1, at);
    store_bf16(own + TILE, o[1], f0, f1, at);
    fence_async();
    __syncwarp();
    mbarrier_arrive_if(out_full, at.lane == 0);
    lse += (int64_t)t.index * w.tokens + token;
    store_if(writes && token < w.tokens, lse, LN_OF_2 * (r.m0 + log2_approximate(l0)));
    store_if(writes && token + 8 < w.tokens, lse + 8, LN_OF_2 * (r.m1 + log2_approximate(l1)));
}

__device__ __forceinline__ void consume(const work &w, float *lse, const memory &mem,
                                        const place &at)
{
    const uint64_t stages = operand(mem.base + RING);
    float s[32], o[2][32];
    uint32_t p[16];
    ring_place<STAGES> ring;
    auto release = [&](int stage) { mbarrier_arrive_if(mem.empty + 8 * stage, at.lane == 0); };
    for (int round = 0;; ++round) {
        const int index = item_index(round, blockIdx.x, gridDim.x), buffer = round & 1;
        if (index >= w.total) {
            break;
        }
        const item t = item_at(w, index);
        const int turn = turn_of(at.group, round), block = query_block(w, t, turn);
        const int first = first_key_tile(w, block);
        for (int tile = top_key_tile(w, t); tile > first; --tile) {
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            release(ring.stage);
            ring.advance();
        }
        const uint32_t own = mem.base + buffer * OWN_BYTES + turn * PART_BYTES;
        const uint64_t queries = operand(own);
        mbarrier_wait(mem.own_full + 8 * buffer, round >> 1 & 1);
        mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
        wgmma_fence();
        multiply_wide(s, queries, stages + ring.stage * STAGE_STEP);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(s);
        const sight sees = sight_of(w, first, at);
        mask_after(s, sees.last, sees.last + sees.step, -INFINITY);
        const float2 most = largest(s);
        row_state r = {reference_of(most.x, w.scale_log2), reference_of(most.y, w.scale_log2), 0.0f,
                       0.0f};
        exponentials(s, w.scale_log2, r);
        pack_tile(p, s);
        int old;
        for (int tile = first - 1;; --tile) {
            old = ring.stage;
            ring.advance();
            if (tile < 0) {
                break;
            }
            mbarrier_wait(mem.full + 8 * ring.stage, ring.phase);
            wgmma_fence();
            multiply_wide(s, queries, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            multiply_wide(o, p, stages + old * STAGE_STEP + VALUE_STEP, tile != first - 1);
            wgmma_commit();
            wgmma_wait<1>();
            wgmma_settle(s);
            const float2 most = largest(s);
            if (__any_sync(0xffffffffu, fmaf(most.x, w.scale_log2, -r.m0) > 40.0f ||
                                            fmaf(most.y, w.scale_log2, -r.m1) > 40.0f)) {
                wgmma_wait<0>();
                wgmma_settle(o[0]);
                wgmma_settle(o[1]);
                raise(most, o, r, w.scale_log2);
            }
            exponentials(s, w.scale_log2, r);
            wgmma_wait<0>();
            wgmma_settle(p);
            release(old);
            pack_tile(p, s);
        }
        wgmma_fence();
        multiply_wide(o, p, stages + old * STAGE_STEP + VALUE_STEP, first != 0);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(o[0]);
        wgmma_settle(o[1]);
        release(old);
        end_rows(w, lse, o, r, own, mem.out_full + 8 * (buffer * 3 + at.group), t, block, at);
    }
}

#endif

__global__ void __launch_bounds__(THREADS, 1)
    forward_wide_bf16(const __grid_constant__ maps maps, const work w, float *lse)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const memory mem = memory_at(shared_address(shared));
    if (threadIdx.x == 0) {
        barriers_init(mem);
    }
    __syncthreads();
    if (at.group == 3) {
        registers_give<32>();
        if (at.thread == 0) {
            produce(maps, w, mem);
        } else if (at.warp > 12 && at.lane == 0) {
            send(maps, w, mem, at.warp - 13);
        }
    } else {
        registers_take<160>();
        consume(w, lse, mem, at);
    }
#endif
}

} // namespace
} // namespace bt_attention_sm90

bt_status bt_attention_wide_bf16_sm90(const bt_launch *launch, const void *args)
{
    using namespace bt_attention_sm90;
    constexpr CUtensorMapDataType TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const bt_attention_args *a = (const bt_attention_args *)args;
    const shape s = shape_of(a);
    maps maps;
    BT_TRY(map_view(s, &a->q, TYPE, &maps.q));
    BT_TRY(map_view(s, &a->k, TYPE, &maps.k));
    BT_TRY(map_view(s, &a->v, TYPE, &maps.v));
    BT_TRY(map_view(s, &a->o, TYPE, &maps.o));
    return start(launch, (const void *)forward_wide_bf16,
                 {"attention bf16, wide heads", THREADS, SHARED, 1}, &maps,
                 work_make(s, 3, launch->device->info.processor_count), (void *)&a->lse);
}
