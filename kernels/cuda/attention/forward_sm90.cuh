// kernels/cuda/attention/forward_sm90.cuh - the forward kernel of the Hopper family, any format
//   o = softmax(scale q k^T) v, lse = log sum exp
// A warpgroup owns 64 queries and processes keys 64 at a time, starting with the last visible tile.
// P goes from C fragments to A fragments in registers. The reference m of a row is its maximum over
// the first tile, and is raised only for scores of more than 2^40 times its weight: fp32 and bf16
// have room for those.
#ifndef BT_KERNELS_CUDA_ATTENTION_FORWARD_SM90_CUH
#define BT_KERNELS_CUDA_ATTENTION_FORWARD_SM90_CUH

#include <float.h>

#include "kernels/cuda/attention/pipeline_sm90.cuh"
#include "kernels/cuda/attention/transpose_tf32_sm90.cuh"

namespace bt_attention_sm90
{
namespace
{

struct forward_maps {
    CUtensorMap q, k, v, o;
};

// The result over other keys, with which this call's is merged. `base` NULL: none.
struct old_result {
    const char *base;
    int64_t batch_stride, token_stride, head_stride; // bytes
    int head_dim;
};
struct forward_rows {
    float *lse; // [B, H, q_tokens]
    old_result old;
};

inline forward_rows forward_rows_of(const bt_attention_args *a)
{
    const int64_t size = (int64_t)bt_dtype_size(a->dtype);
    return {(float *)a->lse,
            {a->accumulate ? (const char *)a->o.base : nullptr, a->o.batch_stride * size,
             a->o.token_stride * size, a->o.head_stride * size, (int)a->shape.head_dim}};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

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

template <int N>
__device__ __forceinline__ void raise(float2 most, float (&o)[N][32], row_state &r,
                                      float scale_log2)
{
    const float m0 = fmaxf(r.m0, reference_of(most.x, scale_log2));
    const float m1 = fmaxf(r.m1, reference_of(most.y, scale_log2));
    const float f0 = exp2_approximate(r.m0 - m0), f1 = exp2_approximate(r.m1 - m1);
    r = {m0, m1, r.l0 * f0, r.l1 * f1};
#pragma unroll
    for (int i = 0; i < 32 * N; ++i) {
        o[i >> 5][i & 31] *= i & 2 ? f1 : f0;
    }
}

// Two neighbouring values of o in memory, zeros if they do not exist.
template <class F>
__device__ __forceinline__ float2 old_pair(bool exists, const char *row, int column)
{
    if constexpr (F::TRANSPOSES) {
        const float *from = (const float *)row + column;
        return make_float2(load_if(exists, from, 0.0f), load_if(exists, from + 1, 0.0f));
    } else {
        const float *from = (const float *)(row + 2 * column);
        const uint32_t x = __float_as_uint(load_if(exists, from, 0.0f));
        return make_float2(low_bf16(x), high_bf16(x));
    }
}

// The shares of this call's and of the old result in that over the keys of both; lse becomes that
// of both. Rows that see no key have no share.
__device__ __forceinline__ float2 shares(float &lse, float old)
{
    const float most = fmaxf(fmaxf(old, lse), -FLT_MAX);
    const float a = exp2_approximate((lse - most) * LOG2_OF_E);
    const float b = exp2_approximate((old - most) * LOG2_OF_E), sum = a + b;
    const float inverse = sum > 0.0f ? reciprocal_approximate(sum) : 0.0f;
    lse = most + LN_OF_2 * log2_approximate(sum);
    return make_float2(a * inverse, b * inverse);
}

// Merges the two rows with the old result: o times f becomes the merged o, and the lse those of
// both. `old_lse`: of the first row. Returns the factors that are left.
template <class F>
__device__ __forceinline__ float2 merge_old(float (&o)[F::COLUMN_TILES][32], float2 f, float2 &lse,
                                            const old_result &old, const float *old_lse,
                                            const item &t, int token, int tokens, const place &at)
{
    const bool has0 = token >= 0 && token < tokens, has1 = token >= 0 && token + 8 < tokens;
    const float2 s0 = shares(lse.x, load_if(has0, old_lse, 0.0f));
    const float2 s1 = shares(lse.y, load_if(has1, old_lse + 8, 0.0f));
    const float f0 = f.x * s0.x, f1 = f.y * s1.x;
    const char *row =
        old.base + t.batch * old.batch_stride + t.head * old.head_stride + token * old.token_stride;
#pragma unroll
    for (int n = 0; n < F::COLUMN_TILES; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int column = n * COLUMNS + 8 * i + column_of(at);
            const bool inside = column < old.head_dim;
            const float2 x0 = old_pair<F>(inside && has0, row, column);
            const float2 x1 = old_pair<F>(inside && has1, row + 8 * old.token_stride, column);
            float(&d)[4] = *(float(*)[4])(o[n] + 4 * i);
            d[0] = fmaf(d[0], f0, s0.y * x0.x);
            d[1] = fmaf(d[1], f0, s0.y * x0.y);
            d[2] = fmaf(d[2], f1, s1.y * x1.x);
            d[3] = fmaf(d[3], f1, s1.y * x1.y);
        }
    }
    __syncwarp(); // a quad has read the old lse before one of its lanes overwrites it
    return make_float2(1.0f, 1.0f);
}

#endif

// GENERAL: see mask_sm90.cuh. FEW: shorter items. ADDS: merges with an old result, if there is one:
// in the plain kernels the code for it alone would cost up to 5 %.
template <class F, bool GENERAL, bool FEW, bool ADDS> struct forward : plain_ring {
    using maps = forward_maps;
    using rows = forward_rows;
    static constexpr bool WIDE = F::TILE_BYTES > 2 * TILE, UPWARDS = false;
    // The scores of the next tile follow the sum of this one, so that P and scores share registers
    // and three groups fit; else they are computed ahead of it.
    static constexpr bool SERIAL = WIDE && F::TRANSPOSES;
    static constexpr int GROUPS = SERIAL ? 3 : WIDE || FEW ? 2 : 3, BUFFERS = WIDE ? 1 : 2;
    // Of scores, the k-steps of 8 whose q is in registers, as many as fit: shared memory is busy.
    static constexpr int HELD = !F::TRANSPOSES ? 0 : FEW ? 8 : WIDE ? 4 : 7;
    static constexpr int STAGES = WIDE ? 2 : F::TILE_BYTES > TILE ? 4 : 7;
    static constexpr transposition TRANSPOSED = F::TRANSPOSES ? BESIDE : NONE; // v, in its place
    static constexpr int SPLIT = F::TRANSPOSES ? 2 : 1, PARTS = SPLIT; // the second: transposed
    static constexpr int PART_BYTES = F::TILE_BYTES, ROW_BYTES = 0;    // q
    static constexpr int STAGE_BYTES = 2 * F::TILE_BYTES, STAGE_STEP = 2 * F::STEP; // k, v
    using sees = visible_to_queries<GROUPS, GENERAL>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static __device__ __forceinline__ int members(const work &) { return 1; }
    static __device__ __forceinline__ void load_own(const maps &maps, uint32_t to, int block,
                                                    const item &t, uint32_t full)
    {
        load<F>(to, &maps.q, block, t.head, t.batch, full);
    }
    template <class Take>
    static __device__ __forceinline__ void load_stage(const maps &maps, const work &w, uint32_t to,
                                                      uint32_t, int tile, const item &t, int,
                                                      const Take &take)
    {
        const int head = kv_head_of(w, t);
        const uint32_t full = take(0, STAGE_BYTES);
        load<F>(to, &maps.k, tile, head, t.batch, full);
        load<F>(to + F::TILE_BYTES, &maps.v, tile, head, t.batch, full);
    }
    static __device__ __forceinline__ void transpose(uint32_t stage, int part, int lane)
    {
#pragma unroll
        for (int i = 0; i < F::COLUMN_TILES; ++i) {
            const uint32_t tile = stage + F::TILE_BYTES + i * 2 * TILE;
            transpose_tile<TRANSPOSERS>(tile, tile, part, lane);
        }
    }
    static __device__ __forceinline__ void send_own(const maps &maps, uint32_t from, int block,
                                                    const item &t)
    {
        send<F>(&maps.o, from, block, t.head, t.batch);
    }

    static __device__ __forceinline__ void end_rows(const work &w, const rows &rows,
                                                    float (&o)[F::COLUMN_TILES][32],
                                                    const row_state &r, uint32_t own, const item &t,
                                                    int block, const place &at)
    {
        const float l0 = row_sum(r.l0), l1 = row_sum(r.l1);
        const int token = block * BLOCK + row_of(at);
        const bool writes = (at.lane & 3) == 0 && token >= 0;
        float2 f = {reciprocal_approximate(l0), reciprocal_approximate(l1)};
        float2 lse = {LN_OF_2 * (r.m0 + log2_approximate(l0)),
                      LN_OF_2 * (r.m1 + log2_approximate(l1))};
        if constexpr (GENERAL) { // a row without visible keys is zero, not 0 / 0
            const bounds keys0 = keys_seen(w, token), keys1 = keys_seen(w, token + 8);
            f.x = keys0.first < keys0.end ? f.x : 0.0f;
            f.y = keys1.first < keys1.end ? f.y : 0.0f;
        }
        float *to = rows.lse + (int64_t)t.index * w.q_tokens + token;
        if (ADDS && rows.old.base) {
            f = merge_old<F>(o, f, lse, rows.old, to, t, token, w.q_tokens, at);
        }
        F::store(own, o, f.x, f.y, at);
        store_if(writes && token < w.q_tokens, to, lse.x);
        store_if(writes && token + 8 < w.q_tokens, to + 8, lse.y);
    }

    static __device__ __forceinline__ void scores(float (&s)[32], const uint32_t (&q)[32],
                                                  uint64_t queries, uint64_t keys)
    {
        if constexpr (HELD == 0) {
            F::scores(s, queries, keys);
        } else {
            F::template scores_partly_held<HELD>(s, q, queries, keys);
        }
    }

    static __device__ __forceinline__ void consume(const work &w, const rows &rows,
                                                   const memory<forward> &mem, const place &at)
    {
        const uint64_t stages = operand(mem.stage(0));
        float s[32], o[F::COLUMN_TILES][32];
        uint32_t p[F::FRAGMENT], q[32]; // q: as far as HELD
        reader<forward> from = {mem, at, {}};
        ring_place<STAGES> &ring = from.ring;
        for (int round = 0;; ++round) {
            const int index = item_index(round, blockIdx.x, gridDim.x);
            if (index >= w.total) {
                break;
            }
            const item t = item_at(w, index);
            const int block = sees::block(w, t, turn_of<GROUPS>(at.group, round));
            const int own = mem.place_of(round, at.group);
            const visible_tiles visible = sees::of(w, t, block);
            from.pass(visible.item.top - visible.own.top);
            const uint64_t queries = operand(mem.own(own));
            mbarrier_wait(mem.own_full(own), mem.phase_of(round));
            if constexpr (HELD > 0) {
                load_fragments(q, mem.own(own), at);
                __syncwarp(); // results take its place
            }
            from.ready();
            wgmma_fence();
            scores(s, q, queries, stages + ring.stage * STAGE_STEP);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_settle(s);
            mask_keys<GENERAL>(s, w, visible, block, visible.own.top, at, -INFINITY);
            const float2 most = largest(s);
            row_state r = {reference_of(most.x, w.scale_log2), reference_of(most.y, w.scale_log2),
                           0.0f, 0.0f};
            exponentials(s, w.scale_log2, r);
            F::pack(p, s);
            int old;
            for (int tile = visible.own.top - 1;; --tile) {
                old = ring.stage;
                from.ready(1);
                ring.advance();
                if (tile < visible.own.bottom) {
                    break;
                }
                if constexpr (SERIAL) {
                    wgmma_fence();
                    F::accumulate(o, p, stages + old * STAGE_STEP + F::STEP,
                                  tile != visible.own.top - 1);
                    wgmma_commit();
                    wgmma_wait<0>();
                    wgmma_settle(p);
                    settle(o);
                    from.release(old, 0);
                    from.ready();
                    wgmma_fence();
                    scores(s, q, queries, stages + ring.stage * STAGE_STEP);
                    wgmma_commit();
                    wgmma_wait<0>();
                } else {
                    from.ready();
                    wgmma_fence();
                    scores(s, q, queries, stages + ring.stage * STAGE_STEP);
                    wgmma_commit();
                    F::accumulate(o, p, stages + old * STAGE_STEP + F::STEP,
                                  tile != visible.own.top - 1);
                    wgmma_commit();
                    wgmma_wait<1>();
                }
                wgmma_settle(s);
                if constexpr (GENERAL) {
                    mask_keys<GENERAL>(s, w, visible, block, tile, at, -INFINITY);
                }
                const float2 most = largest(s);
                if (__any_sync(0xffffffffu, fmaf(most.x, w.scale_log2, -r.m0) > 40.0f ||
                                                fmaf(most.y, w.scale_log2, -r.m1) > 40.0f)) {
                    wgmma_wait<0>();
                    settle(o);
                    raise(most, o, r, w.scale_log2);
                }
                exponentials(s, w.scale_log2, r);
                if constexpr (!SERIAL) {
                    wgmma_wait<0>();
                    wgmma_settle(p);
                    from.release(old, 0);
                }
                F::pack(p, s);
            }
            wgmma_fence();
            F::accumulate(o, p, stages + old * STAGE_STEP + F::STEP,
                          visible.own.top != visible.own.bottom);
            wgmma_commit();
            wgmma_wait<0>();
            settle(o);
            from.release(old, 0);
            end_rows(w, rows, o, r, mem.own(own), t, block, at);
            results_ready(mem, own, at);
            if constexpr (GENERAL) {
                from.pass(visible.own.bottom - visible.item.bottom);
            }
        }
    }
#endif
};

template <class F, class KERNEL>
bt_status run_kernel(const bt_launch *launch, const char *name, const bt_attention_args *a,
                     const bounds *documents)
{
    const shape &s = a->shape;
    forward_maps maps;
    BT_TRY(map_view(s, QUERIES, &a->q, F::LOADED, &maps.q));
    BT_TRY(map_view(s, KEYS, &a->k, F::LOADED, &maps.k));
    BT_TRY(map_view(s, KEYS, &a->v, F::LOADED, &maps.v));
    BT_TRY(map_view(s, QUERIES, &a->o, F::STORED, &maps.o));
    work w = work_make(s, QUERIES, KERNEL::GROUPS, launch->device->info.processor_count);
    w.documents = documents;
    return start_kernel<KERNEL>(launch, name, maps, w, forward_rows_of(a));
}

template <class F, bool GENERAL, bool FEW = false>
bt_status run_forward(const bt_launch *launch, const char *name, const bt_attention_args *a,
                      const bounds *documents)
{
    return GENERAL || a->accumulate
               ? run_kernel<F, forward<F, GENERAL, FEW, true>>(launch, name, a, documents)
               : run_kernel<F, forward<F, GENERAL, FEW, GENERAL>>(launch, name, a, documents);
}

} // namespace
} // namespace bt_attention_sm90
#endif
