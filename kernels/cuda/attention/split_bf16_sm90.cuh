// kernels/cuda/attention/split_bf16_sm90.cuh - the bf16 forward of few heads, up to 64 columns
//   o = softmax(scale q k^T) v, lse = log sum exp
// Where items do not fill the multiprocessors, the longest item decides. Here two warpgroups share
// 64 queries: one takes the last visible tile of keys and every second one before it, the other the
// rest. At the end the first adds the sums of the second to its own. A block has two such pairs of
// warpgroups, each with one item at most, and fills a multiprocessor. Softmax as in
// pairs_bf16_sm90.cuh.
#ifndef BT_KERNELS_CUDA_ATTENTION_SPLIT_BF16_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_SPLIT_BF16_SM90_CUH

#include "kernels/cuda/attention/pairs_bf16_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{
namespace split
{

constexpr int STAGES = 5, HALVES = 2, PAIRS = 2, CONSUMERS = HALVES * PAIRS;
constexpr int THREADS = 128 * (CONSUMERS + 1), STAGE_BYTES = 2 * TILE;
constexpr int STAGE_STEP = 2 * TILE_STEP; // keys, then values
constexpr int SUMS = 36;                  // of a thread: o, m, l
constexpr int RING = TILE, MERGE = RING + STAGES * STAGE_BYTES, BARRIERS = MERGE + SUMS * 512;
constexpr int PAIR_BYTES = (BARRIERS + 128 + 1023) / 1024 * 1024, SHARED = PAIRS * PAIR_BYTES;
static_assert(8 * (2 * STAGES + 2) <= 128 && SHARED <= SHARED_BYTES_MOST,
              "more shared memory than a block may use");
// Items up to which this kernel takes less time than pairs; not the number of multiprocessors of
// the device, since results depend on it.
constexpr int ITEMS_MOST = 264;

inline bool pays(const shape &s) { return s.batch * s.heads * q_tiles_of(s) <= ITEMS_MOST; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct split_memory {
    uint32_t own, ring, full, empty, own_full, out_full;
};

__device__ __forceinline__ split_memory memory_at(uint32_t base)
{
    const uint32_t full = base + BARRIERS;
    return {base, base + RING, full, full + 8 * STAGES, full + 16 * STAGES, full + 16 * STAGES + 8};
}

// Called by one lane. The first loads follow at once: they do not wait for the other warps.
__device__ __forceinline__ void initialise(const forward_maps &p, const split_memory &at)
{
    tma_prefetch(&p.q);
    tma_prefetch(&p.k);
    tma_prefetch(&p.v);
    tma_prefetch(&p.o);
    for (int i = 0; i < STAGES; ++i) {
        mbarrier_init(at.full + 8 * i, 1);
        mbarrier_init(at.empty + 8 * i, 4); // warps of the warpgroup whose tile it is
    }
    mbarrier_init(at.own_full, 1);
    mbarrier_init(at.out_full, 4);
    mbarrier_init_fence();
}

__device__ __forceinline__ void load_stage(const forward_maps &p, const split_memory &at, int stage,
                                           int tile, int kv_head, int batch)
{
    const uint32_t full = at.full + 8 * stage, to = at.ring + stage * STAGE_BYTES;
    mbarrier_expect(full, STAGE_BYTES);
    tma_load(to, &p.k, 0, tile * BLOCK, kv_head, batch, full);
    tma_load(to + TILE, &p.v, 0, tile * BLOCK, kv_head, batch, full);
}

// The scores of a warpgroup's first tile to P. Before the first key (for the second warpgroup, of
// an item with one tile) all are masked, and P is zero.
__device__ __forceinline__ row_state begin_rows(float (&s)[32], const work &w, int tile, int half,
                                                const place &at)
{
    int last = w.causal ? row_of(at) + half * BLOCK : w.kv_tokens - 1 - tile * BLOCK;
    last = tile < 0 ? -BLOCK : last;
    mask_after(s, last - column_of(at), last - column_of(at) + (w.causal && tile >= 0 ? 8 : 0),
               -INFINITY);
    const float2 m = pairs::references(s, w.scale_log2);
    row_state r = {m.x, m.y, 0.0f, 0.0f};
    const float2 sum = pairs::exponentials_of(s, w.scale_log2, r);
    r.l0 = sum.x;
    r.l1 = sum.y;
    return r;
}

// The sums of the second warpgroup to those of the first.
__device__ __forceinline__ void hand_over(float *merge, const float (&o)[32], const row_state &r)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        merge[128 * i] = o[i];
    }
    merge[128 * 32] = r.m0;
    merge[128 * 33] = r.m1;
    merge[128 * 34] = r.l0;
    merge[128 * 35] = r.l1;
}
__device__ __forceinline__ void add_other(const float *merge, float (&o)[32], row_state &r)
{
    const row_state other = {merge[128 * 32], merge[128 * 33], merge[128 * 34], merge[128 * 35]};
    const float m0 = fmaxf(r.m0, other.m0), m1 = fmaxf(r.m1, other.m1);
    const float f0 = exp2_approximate(r.m0 - m0), f1 = exp2_approximate(r.m1 - m1);
    const float g0 = exp2_approximate(other.m0 - m0), g1 = exp2_approximate(other.m1 - m1);
    r = {m0, m1, fmaf(other.l0, g0, r.l0 * f0), fmaf(other.l1, g1, r.l1 * f1)};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int a = 4 * i + e, b = a + 2;
            o[a] = fmaf(merge[128 * a], g0, o[a] * f0);
            o[b] = fmaf(merge[128 * b], g1, o[b] * f1);
        }
    }
}

__device__ __forceinline__ void consume(const work &w, float *lse, const split_memory &mem,
                                        float *merge, const item &t, int block, int top, int pair,
                                        const place &at)
{
    const int half = at.group & 1;
    const int tiles = half ? max((top + 1) >> 1, 1) : (top + 2) >> 1;
    const uint64_t stages = operand(mem.ring), queries = operand(mem.own);
    float s[32], o[32];
    uint32_t pack[16];
    int stage = half, phase = 0;
    mbarrier_wait(mem.own_full, 0);
    mbarrier_wait(mem.full + 8 * stage, 0);
    wgmma_fence();
    multiply_bf16(s, queries, stages + stage * STAGE_STEP);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(s);
    row_state r = begin_rows(s, w, top - half, half, at);
    pack_tile(pack, s);
    for (int i = 1; i < tiles; ++i) {
        const int old = stage;
        stage += HALVES;
        phase ^= stage >= STAGES;
        stage -= stage >= STAGES ? STAGES : 0;
        mbarrier_wait(mem.full + 8 * stage, phase);
        wgmma_fence();
        multiply_bf16(s, queries, stages + stage * STAGE_STEP);
        wgmma_commit();
        multiply_bf16(o, pack, stages + old * STAGE_STEP + TILE_STEP, i != 1);
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_settle(s);
        float2 sum = pairs::exponentials_of(s, w.scale_log2, r);
        if (__any_sync(0xffffffffu, !(fmaxf(sum.x, sum.y) < 0x1p40f))) { // inf or NaN, too
            pairs::scores_again(s, mem.own, mem.ring + stage * STAGE_BYTES, at);
            wgmma_wait<0>();
            wgmma_settle(o);
            pairs::raise_rows(s, o, r, w.scale_log2);
            sum = pairs::exponentials_of(s, w.scale_log2, r);
        }
        r.l0 += sum.x;
        r.l1 += sum.y;
        wgmma_wait<0>();
        mbarrier_arrive_if(mem.empty + 8 * old, at.lane == 0);
        pack_tile(pack, s);
    }
    wgmma_fence();
    multiply_bf16(o, pack, stages + stage * STAGE_STEP + TILE_STEP, tiles != 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_settle(o);
    if (half) {
        hand_over(merge, o, r);
    }
    barrier_sync(1 + pair, 128 * HALVES);
    if (!half) {
        add_other(merge, o, r);
        pairs::end_rows<false>(w, {lse, {}}, o, r, mem.own, mem.out_full, t, block, at);
    }
}

#endif

__global__ void __launch_bounds__(THREADS, 1)
    forward_split(const __grid_constant__ forward_maps p, const work w, float *lse)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char shared[];
    const place at = place_make();
    const int pair = at.group < CONSUMERS ? at.group / HALVES : at.warp & 1;
    const split_memory mem = memory_at(shared_address(shared) + pair * PAIR_BYTES);
    // The longest items are first pairs'; the shortest of the rest go beside the longest.
    const int index = pair ? w.total - 1 - (int)blockIdx.x : (int)blockIdx.x;
    const bool works = !pair || index >= (int)gridDim.x;
    const item t = item_at(w, works ? index : 0);
    const int block = w.q_tiles - 1 - t.part, top = pairs::first_tile(w, block);
    const int tiles = max(top + 1, HALVES), kv_head = kv_head_of(w, t);
    const bool moves = works && at.group == CONSUMERS && at.warp < 4 * CONSUMERS + PAIRS;
    if (moves && at.lane == 0) {
        initialise(p, mem);
    }
    wait_for_predecessor();
    if (moves && at.lane == 0) {
        mbarrier_expect(mem.own_full, TILE);
        tma_load(mem.own, &p.q, 0, block * BLOCK, t.head, t.batch, mem.own_full);
        for (int i = 0; i < min(STAGES, tiles); ++i) {
            load_stage(p, mem, i, top - i, kv_head, t.batch);
        }
    }
    __syncthreads();
    if (at.group < CONSUMERS) {
        registers_take<112>();
        if (works) {
            consume(w, lse, mem, (float *)(shared + pair * PAIR_BYTES + MERGE) + at.thread, t,
                    block, top, pair, at);
        }
        return;
    }
    registers_give<24>();
    if (moves && at.lane == 0) {
        ring_place<STAGES> ring;
        for (int i = STAGES; i < tiles; ++i) {
            mbarrier_wait(mem.empty + 8 * ring.stage, ring.phase);
            load_stage(p, mem, ring.stage, top - i, kv_head, t.batch);
            ring.advance();
        }
        mbarrier_wait(mem.out_full, 0);
        tma_store(&p.o, mem.own, 0, block * BLOCK, t.head, t.batch);
        tma_store_commit();
        tma_store_wait<0>();
    }
#endif
}

inline bt_status run(const bt_launch *launch, const bt_attention_args *a, const forward_maps &maps)
{
    work w = work_make(a->shape, QUERIES, 1, ITEMS_MOST);
    const int64_t sms = bt_min_i64(launch->device->info.processor_count, w.total);
    const int64_t blocks = sms * PAIRS < w.total ? bt_div_up(w.total, PAIRS) : sms;
    void *arguments[] = {(void *)&maps, &w, (void *)&a->lse};
    return start_blocks(launch, (const void *)forward_split,
                        {"attention bf16, few heads", THREADS, SHARED}, dim3((unsigned)blocks),
                        arguments);
}

} // namespace split
} // namespace
} // namespace bt_attention_sm90
#endif
