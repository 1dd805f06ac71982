// kernels/cuda/attention/backward_tf32_sm80.cu - flash attention backward, fp32 in and out, tf32
// products. Mathematics, plan and workspace: backward.cuh.
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8
// Types    q, k, v, do, P and dS rounded to nearest tf32; sums and softmax fp32
// Plan     as backward_bf16_sm80.cu: scores transposed, S^T = k q^T, a warp owns 16 keys, step i
//          computes dq of step i - 1, one barrier a step. D <= 64: 4 warps, 64 keys, 32 queries a
//          step; D <= 128: 2 warps, 32 keys, 16 queries. Two or three blocks share an SM.
// Layout   P^T's and dS^T's C fragments are B fragments of the transposed products dv^T = do^T P
//          and dk^T = q^T dS, as in forward_tf32_sm80.cu; dq is computed transposed as well,
//          dq^T = k^T dS^T
// Bitwise  as backward_bf16_sm80.cu
// NaN      as backward_bf16_sm80.cu
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691
#include <limits.h>

#include "kernels/cuda/attention/backward.cuh"

namespace
{

template <int DIM> struct config {
    using T = float;
    static constexpr int D = DIM, WARPS = D == 64 ? 4 : 2, THREADS = WARPS * 32;
    static constexpr int BN = WARPS * 16, BM = D == 64 ? 32 : 16;
    static constexpr int BLOCKS_PER_SM = D == 64 ? 2 : 3;
    static constexpr bool FETCH_EARLY = D == 64; // dq's sum so far comes a step ahead
    static constexpr int DQ_WARPS_M = BM / 16, DQ_COLS = D / (WARPS / DQ_WARPS_M);
    static constexpr int STRIDE = D + 4, DS_STRIDE = BM + 4; // floats
    static constexpr int KV_FLOATS = BN * STRIDE, Q_FLOATS = BM * STRIDE;
    static constexpr int STAGE_FLOATS = 2 * Q_FLOATS + 2 * BM, DS_FLOATS = BN * DS_STRIDE;
    static constexpr int SHARED = (2 * KV_FLOATS + 2 * STAGE_FLOATS + 2 * DS_FLOATS) * 4;
};

// s = a b^T over D: the 16 rows of a_tile times the BM rows of b_tile.
template <typename C>
__device__ __forceinline__ void product_nt(float (&s)[C::BM / 8][4], uint32_t a_tile,
                                           uint32_t b_tile, int lane)
{
    const lane_place at_a = lane_rows(lane), at_b = lane_cols(lane);
#pragma unroll
    for (int n = 0; n < C::BM / 8; ++n) {
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < C::D / 8; ++k) {
        uint32_t a[4];
        ldmatrix(a, a_tile + padded<C::D>(at_a.row, k * 2 + at_a.chunk));
#pragma unroll
        for (int n = 0; n < C::BM / 16; ++n) {
            uint32_t b[4];
            ldmatrix(b, b_tile + padded<C::D>(n * 16 + at_b.row, k * 2 + at_b.chunk));
            mma_tf32(s[2 * n], a, b[0], b[1]);
            mma_tf32(s[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// sum^T += b^T p: p [16 keys, BM] as C fragments, rounded; b_at in b [BM, D] as
// transposed_fragment() wants it. sum[d][n]: columns 16 d + 2g (elements 0, 1) and the next (2, 3),
// keys 8 n + 2t and the next.
template <typename C>
__device__ __forceinline__ void product_tn(float (&sum)[C::D / 16][2][4],
                                           const float (&p)[C::BM / 8][4], const float *b_at)
{
#pragma unroll
    for (int k = 0; k < C::BM / 8; ++k) {
#pragma unroll
        for (int d = 0; d < C::D / 16; ++d) {
            uint32_t a[4];
            transposed_fragment<C::D>(a, b_at + k * 8 * C::STRIDE + d * 16);
            mma_tf32(sum[d][0], a, __float_as_uint(p[k][0]), __float_as_uint(p[k][1]));
            mma_tf32(sum[d][1], a, __float_as_uint(p[k][2]), __float_as_uint(p[k][3]));
        }
    }
}

// What a lane needs for its part of dq: a warp takes 16 rows and DQ_COLS columns of a query tile.
struct dq_lane {
    int row, column;    // first element of its C fragment: rows 2t, columns 2g
    const float *ds_at; // in the first dS tile: key 2t, query g of the warp's rows
    const float *k_at;  // in the k tile, as transposed_fragment() wants it
    int64_t token_stride;
    float *dq; // the head's
};

// What dq's products of a query tile start from: zero, or the sum over the key tiles before.
template <typename C>
__device__ __forceinline__ void fetch_dq(float (&sum)[C::DQ_COLS / 16][2][4], const dq_lane &lane,
                                         const float *scratch, int row0, bool first)
{
    const float *sums = scratch + (int64_t)(row0 + lane.row) * C::D + lane.column;
#pragma unroll
    for (int i = 0; i < C::DQ_COLS / 4; ++i) {
        const int e = i & 1, n = i >> 1 & 1, d = i >> 2;
        float2 x = make_float2(0.0f, 0.0f);
        if (!first) {
            x = __ldcg((const float2 *)(sums + (e + 8 * n) * C::D + d * 16));
        }
        sum[d][n][e] = x.x, sum[d][n][2 + e] = x.y;
    }
}

// sum += dS k for the query tile at row0, stored as dq if `last`, else back to scratch. Of the key
// tile only the first `keys` are seen by this query tile, a multiple of BM.
template <typename C>
__device__ __forceinline__ void sum_dq(float (&sum)[C::DQ_COLS / 16][2][4],
                                       const backward_params &params, const dq_lane &lane,
                                       float *scratch, int ds_offset, int row0, int keys, bool last)
{
    constexpr int N = C::DQ_COLS / 16;
    const int row = row0 + lane.row;
    float *sums = scratch + (int64_t)row * C::D + lane.column;
#pragma unroll
    for (int part = 0; part < C::BN / C::BM; ++part) {
        if (part == 0 || part * C::BM < keys) {
#pragma unroll
            for (int k = part * C::BM / 8; k < (part + 1) * C::BM / 8; ++k) {
                const float *ds = lane.ds_at + ds_offset + k * 8 * C::DS_STRIDE;
                const uint32_t b[4] = {__float_as_uint(ds[0]), __float_as_uint(ds[C::DS_STRIDE]),
                                       __float_as_uint(ds[8]),
                                       __float_as_uint(ds[C::DS_STRIDE + 8])};
#pragma unroll
                for (int d = 0; d < N; ++d) {
                    uint32_t a[4];
                    transposed_fragment<C::D>(a, lane.k_at + k * 8 * C::STRIDE + d * 16);
                    mma_tf32(sum[d][0], a, b[0], b[1]);
                    mma_tf32(sum[d][1], a, b[2], b[3]);
                }
            }
        }
    }
    const float keep = params.a.accumulate_dq ? 1.0f : KEEP_NOTHING;
#pragma unroll
    for (int i = 0; i < 4 * N; ++i) {
        const int e = i & 1, n = i >> 1 & 1, d = i >> 2, at = row + e + 8 * n;
        const float2 x = make_float2(sum[d][n][e], sum[d][n][2 + e]);
        float *out = lane.dq + at * lane.token_stride + lane.column + 16 * d;
        if (!last) {
            __stcg((float2 *)(sums + (e + 8 * n) * C::D + d * 16), x);
        } else if (at < params.a.shape.q_tokens && lane.column + 16 * d < params.a.shape.head_dim) {
            store_pair(out, pair_added(x.x, x.y, params.scale, keep, out));
        }
    }
}

// Writes a warp's 16 rows of dk or dv, sum as product_tn() leaves it.
template <typename C>
__device__ __forceinline__ void
store_rows(float *out, int64_t token_stride, const bt_attention_backward_args &a, int row0,
           const float (&sum)[C::D / 16][2][4], float scale, int g, int t)
{
    const float keep = a.accumulate_dkv ? 1.0f : KEEP_NOTHING;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int e = i & 1, n = i >> 1, row = row0 + 8 * n + 2 * t + e;
        float *to = out + row * token_stride + 2 * g;
        if (row < a.shape.q_tokens) {
#pragma unroll
            for (int d = 0; d < C::D / 16; ++d) {
                if (16 * d + 2 * g < a.shape.head_dim) {
                    store_pair(to + 16 * d, pair_added(sum[d][n][e], sum[d][n][2 + e], scale, keep,
                                                       to + 16 * d));
                }
            }
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS, config<D>::BLOCKS_PER_SM)
    backward_tf32(const backward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) float shared_floats[];
    const bt_attention_backward_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim,
              groups = params.plan.groups;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    float *const k_tile = shared_floats, *const v_tile = k_tile + C::KV_FLOATS,
                 *const stages = v_tile + C::KV_FLOATS,
                 *const ds_tiles = stages + 2 * C::STAGE_FLOATS;

    const int dq_row = warp % C::DQ_WARPS_M * 16, dq_column = warp / C::DQ_WARPS_M * C::DQ_COLS;
    dq_lane dq = {dq_row + 2 * t,
                  dq_column + 2 * g,
                  ds_tiles + 2 * t * C::DS_STRIDE + dq_row + g,
                  k_tile + 2 * t * C::STRIDE + dq_column + 2 * g,
                  a.dq.token_stride,
                  nullptr};
    const uint32_t k_own = shared_address(k_tile + warp * 16 * C::STRIDE),
                   v_own = shared_address(v_tile + warp * 16 * C::STRIDE);

    work_item work;
    for (int64_t round = 0; next_item<D>(params, round, &work); ++round) {
        const float *q = view_head<const float>(a.q, work.place);
        const float *d_o = view_head<const float>(a.d_o, work.place);
        const float2 *stats = params.stats + work.head * params.plan.padded;
        dq.dq = view_head<float>(a.dq, work.place);
        auto load_step = [&](int i) {
            const uint32_t stage = shared_address(stages + (i & 1) * C::STAGE_FLOATS);
            tile_load<float, C::BM, D, C::THREADS>(stage, q, a.q.token_stride, i * C::BM, tokens,
                                                   head_dim);
            tile_load<float, C::BM, D, C::THREADS>(stage + C::Q_FLOATS * 4, d_o, a.d_o.token_stride,
                                                   i * C::BM, tokens, head_dim);
            if (threadIdx.x < C::BM / 2) {
                cp_async16(stage + 2 * C::Q_FLOATS * 4 + threadIdx.x * 16,
                           stats + i * C::BM + threadIdx.x * 2, true);
            }
            cp_async_commit();
        };
        for (int key_tile = work.group; key_tile < params.plan.key_tiles; key_tile += groups) {
            const int key0 = key_tile * C::BN, warp_key = key0 + warp * 16;
            const int begin = CAUSAL ? key0 / C::BM : 0;
            const bool first = key_tile < groups;
            float dq_sum[C::DQ_COLS / 16][2][4];
            auto start_dq = [&](int i) { fetch_dq<C>(dq_sum, dq, work.scratch, i * C::BM, first); };
            auto finish_dq = [&](int i) {
                const int row0 = i * C::BM,
                          seen = CAUSAL ? (row0 + C::BM - 1) / C::BN + 1 : INT_MAX;
                if (!C::FETCH_EARLY) {
                    start_dq(i);
                }
                sum_dq<C>(dq_sum, params, dq, work.scratch, (i & 1) * C::DS_FLOATS, row0,
                          CAUSAL ? row0 + C::BM - key0 : C::BN,
                          groups == 1 && key_tile + 1 == min(seen, params.plan.key_tiles));
            };
            __syncthreads(); // the tile before is done with shared memory
            tile_load<float, C::BN, D, C::THREADS>(shared_address(k_tile),
                                                   view_head<const float>(a.k, work.place),
                                                   a.k.token_stride, key0, tokens, head_dim);
            tile_load<float, C::BN, D, C::THREADS>(shared_address(v_tile),
                                                   view_head<const float>(a.v, work.place),
                                                   a.v.token_stride, key0, tokens, head_dim);
            load_step(begin);
            cp_async_wait<0>();
            tile_round<C::BN, D, C::THREADS>(k_tile);
            tile_round<C::BN, D, C::THREADS>(v_tile);
            float dk[D / 16][2][4] = {}, dv[D / 16][2][4] = {};
            for (int i = begin; i < query_tiles; ++i) {
                float *q_tile = stages + (i & 1) * C::STAGE_FLOATS, *do_tile = q_tile + C::Q_FLOATS;
                cp_async_wait<0>();
                tile_round<C::BM, D, C::THREADS>(q_tile);
                tile_round<C::BM, D, C::THREADS>(do_tile);
                __syncthreads(); // tile i is there, dS of i - 1 complete, buffers of i - 2 free
                if (i + 1 < query_tiles) {
                    load_step(i + 1);
                }
                if (i > begin) {
                    finish_dq(i - 1);
                }
                const int row0 = i * C::BM;
                if (CAUSAL && warp_key > row0 + C::BM - 1) {
                    if (C::FETCH_EARLY) {
                        start_dq(i);
                    }
                    continue;
                }
                auto masked = [&](int n, int e) {
                    const int key = warp_key + g + (e & 2) * 4;
                    return key > (CAUSAL ? row0 + n * 8 + 2 * t + (e & 1) : tokens - 1);
                };
                const bool edge = CAUSAL ? warp_key + 15 > row0 : warp_key + 15 >= tokens;
                float p[C::BM / 8][4], ds[C::BM / 8][4];
                product_nt<C>(p, k_own, shared_address(q_tile), lane);
                product_nt<C>(ds, v_own, shared_address(do_tile), lane);
                // {lse, delta} of two queries; the next two 4 further on
                const float4 *stat = (const float4 *)(do_tile + C::Q_FLOATS) + t;
                float *ds_own =
                    ds_tiles + (i & 1) * C::DS_FLOATS + (warp * 16 + g) * C::DS_STRIDE + 2 * t;
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    const float4 at = stat[n * 4];
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const float x =
                            exp2_fast(fmaf(p[n][e], params.scale_log2, e & 1 ? -at.z : -at.x));
                        const float y = x * (ds[n][e] - (e & 1 ? at.w : at.y));
                        const bool zero = edge && masked(n, e);
                        p[n][e] = zero ? 0.0f : round_tf32_positive(x);
                        ds[n][e] = zero ? 0.0f : round_tf32(y);
                    }
                    *(float2 *)(ds_own + n * 8) = make_float2(ds[n][0], ds[n][1]);
                    *(float2 *)(ds_own + 8 * C::DS_STRIDE + n * 8) =
                        make_float2(ds[n][2], ds[n][3]);
                }
                if (C::FETCH_EARLY) { // while dv and dk are computed
                    start_dq(i);
                }
                product_tn<C>(dv, p, do_tile + 2 * t * C::STRIDE + 2 * g);
                product_tn<C>(dk, ds, q_tile + 2 * t * C::STRIDE + 2 * g);
            }
            __syncthreads();
            finish_dq(query_tiles - 1);
            store_rows<C>(view_head<float>(a.dk, work.place), a.dk.token_stride, a, warp_key, dk,
                          params.scale, g, t);
            store_rows<C>(view_head<float>(a.dv, work.place), a.dv.token_stride, a, warp_key, dv,
                          1.0f, g, t);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    return backward_run<config<D>>(
        launch, args, args->shape.causal ? backward_tf32<D, true> : backward_tf32<D, false>,
        "attention_backward tf32");
}

} // namespace

bt_status bt_attention_backward_tf32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? run<64>(launch, backward) : run<128>(launch, backward);
}

size_t bt_attention_backward_tf32_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? backward_workspace<config<64>>(device, backward)
                                          : backward_workspace<config<128>>(device, backward);
}
