// kernels/cuda/attention/backward_bf16_sm80.cu - flash attention backward, bf16 in and out
// Mathematics, plan and workspace: backward.cuh.
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8
// Types    bf16 operands, fp32 sums; P and dS are rounded to bf16 before their products
// Plan     scores are computed transposed, S^T = k q^T: a warp owns 16 keys, so P^T and dS^T are
//          A fragments of dv and dk as they stand, and only dS^T goes through shared memory, for
//          dq. D <= 64: 8 warps, 128 keys, 64 queries a step; D <= 128: 4 warps, 64 keys, 32
//          queries. q, do and stats come through two buffers; step i computes dq of step i - 1, so
//          that one barrier a step is enough: it says that tile i has landed, that dS of step i - 1
//          is complete, and that everyone is done with the buffers of step i - 2.
// Bitwise  every sum has one owner and a fixed order; it depends on the number of SMs only where a
//          head is dealt out to several blocks
// NaN      as the products propagate it; an output may be NaN also where a masked dS meets NaN
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691
#include <limits.h>

#include "kernels/cuda/attention/backward.cuh"

namespace
{

template <int DIM> struct config {
    using T = bf16;
    static constexpr int D = DIM, WARPS = D == 64 ? 8 : 4, THREADS = WARPS * 32;
    static constexpr int BN = WARPS * 16, BM = D == 64 ? 64 : 32;
    static constexpr int BLOCKS_PER_SM = D == 64 ? 1 : 2;
    static constexpr bool HOLD_KV = D == 64;     // k's and v's fragments stay in registers
    static constexpr bool FETCH_EARLY = D == 64; // dq's sum so far comes a step ahead
    static constexpr int DQ_WARPS_M = BM / 16, DQ_COLS = D / (WARPS / DQ_WARPS_M);
    static constexpr int KV_BYTES = tile_bytes<bf16, BN, D>(), Q_BYTES = tile_bytes<bf16, BM, D>();
    static constexpr int STATS_BYTES = BM * 8, STAGE_BYTES = 2 * Q_BYTES + STATS_BYTES;
    static constexpr int DS_BYTES = BN * BM * 2;
    static constexpr int SHARED = 2 * KV_BYTES + 2 * STAGE_BYTES + 2 * DS_BYTES;
};

// s = a b^T over D: the warp's 16 rows of a (fragments held, or at a_base) times the BM rows at
// b_base; bases as fragment() wants them, in lane_rows and lane_cols order.
template <typename C>
__device__ __forceinline__ void product_nt(float (&s)[C::BM / 8][4],
                                           const uint32_t (&held)[C::HOLD_KV ? C::D / 16 : 1][4],
                                           uint32_t a_base, uint32_t b_base)
{
#pragma unroll
    for (int n = 0; n < C::BM / 8; ++n) {
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < C::D / 16; ++k) {
        uint32_t a[4];
        if constexpr (C::HOLD_KV) {
            a[0] = held[k][0], a[1] = held[k][1], a[2] = held[k][2], a[3] = held[k][3];
        } else {
            ldmatrix(a, fragment<C::D>(a_base, 0, k));
        }
#pragma unroll
        for (int n = 0; n < C::BM / 16; ++n) {
            uint32_t b[4];
            ldmatrix(b, fragment<C::D>(b_base, n, k));
            mma_bf16(s[2 * n], a, b[0], b[1]);
            mma_bf16(s[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// sum += p b: p [16 keys, BM] as packed A fragments, b [BM, D] at b_base, in lane_rows order.
template <typename C>
__device__ __forceinline__ void product_nn(float (&sum)[C::D / 8][4],
                                           const uint32_t (&p)[C::BM / 8][2], uint32_t b_base)
{
#pragma unroll
    for (int k = 0; k < C::BM / 16; ++k) {
        const uint32_t a[4] = {p[2 * k][0], p[2 * k][1], p[2 * k + 1][0], p[2 * k + 1][1]};
#pragma unroll
        for (int n = 0; n < C::D / 16; ++n) {
            uint32_t b[4];
            ldmatrix_trans(b, fragment<C::D>(b_base, k, n));
            mma_bf16(sum[2 * n], a, b[0], b[1]);
            mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// What a lane needs for its part of dq: a warp takes 16 rows and DQ_COLS columns of a query tile.
struct dq_lane {
    int row, column;          // first element of its C fragment
    uint32_t ds_base, k_base; // fragment addresses in the first dS tile and the k tile
    int64_t token_stride;
    bf16 *dq; // the head's
};

// What dq's products of a query tile start from: zero, or the sum over the key tiles before.
template <typename C>
__device__ __forceinline__ void fetch_dq(float (&sum)[C::DQ_COLS / 8][4], const dq_lane &lane,
                                         const float *scratch, int row0, bool first)
{
    const float *sums = scratch + (int64_t)(row0 + lane.row) * C::D + lane.column;
#pragma unroll
    for (int i = 0; i < C::DQ_COLS / 4; ++i) {
        const int half = i & 1, n = i >> 1;
        float2 x = make_float2(0.0f, 0.0f);
        if (!first) {
            x = __ldcg((const float2 *)(sums + half * 8 * C::D + n * 8));
        }
        sum[n][2 * half] = x.x, sum[n][2 * half + 1] = x.y;
    }
}

// sum += dS k for the query tile at row0, stored as dq if `last`, else back to scratch. Of the key
// tile only the first `keys` are seen by this query tile, a multiple of BM.
template <typename C>
__device__ __forceinline__ void
sum_dq(float (&sum)[C::DQ_COLS / 8][4], const backward_params &params, const dq_lane &lane,
       float *scratch, uint32_t ds_offset, int row0, int keys, bool last)
{
    constexpr int N = C::DQ_COLS / 8;
    float *sums = scratch + (int64_t)(row0 + lane.row) * C::D + lane.column;
#pragma unroll
    for (int part = 0; part < C::BN / C::BM; ++part) {
        if (part == 0 || part * C::BM < keys) {
#pragma unroll
            for (int k = part * C::BM / 16; k < (part + 1) * C::BM / 16; ++k) {
                uint32_t a[4];
                ldmatrix_trans(a, lane.ds_base + ds_offset + k * 16 * C::BM * 2);
#pragma unroll
                for (int n = 0; n < N / 2; ++n) {
                    uint32_t b[4];
                    ldmatrix_trans(b, fragment<C::D>(lane.k_base, k, n));
                    mma_bf16(sum[2 * n], a, b[0], b[1]);
                    mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
                }
            }
        }
    }
    if (!last) {
#pragma unroll
        for (int i = 0; i < 2 * N; ++i) {
            __stcg((float2 *)(sums + (i & 1) * 8 * C::D + (i >> 1) * 8),
                   make_float2(sum[i >> 1][2 * (i & 1)], sum[i >> 1][2 * (i & 1) + 1]));
        }
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = row0 + lane.row + half * 8;
        const float keep = params.a.accumulate_dq ? 1.0f : KEEP_NOTHING;
        bf16 *out = lane.dq + row * lane.token_stride + lane.column;
        if (row < params.a.shape.q_tokens) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
                if (lane.column + n * 8 < params.a.shape.head_dim) {
                    store_pair(out + n * 8, pair_added(sum[n][2 * half], sum[n][2 * half + 1],
                                                       params.scale, keep, out + n * 8));
                }
            }
        }
    }
}

// Writes a warp's 16 rows of dk or dv.
template <typename C>
__device__ __forceinline__ void store_rows(bf16 *out, int64_t token_stride,
                                           const bt_attention_backward_args &a, int row0,
                                           const float (&sum)[C::D / 8][4], float scale, int lane)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = row0 + (lane >> 2) + half * 8;
        const float keep = a.accumulate_dkv ? 1.0f : KEEP_NOTHING;
        bf16 *to = out + row * token_stride + (lane & 3) * 2;
        if (row < a.shape.q_tokens) {
#pragma unroll
            for (int n = 0; n < C::D / 8; ++n) {
                if (n * 8 < a.shape.head_dim) {
                    store_pair(to + n * 8, pair_added(sum[n][2 * half], sum[n][2 * half + 1], scale,
                                                      keep, to + n * 8));
                }
            }
        }
    }
}

// Zero where a query may not see a key: key0 and query0 belong to element 0 of the C fragments.
template <int N, bool CAUSAL>
__device__ __forceinline__ void mask(float (&s)[N][4], int key0, int query0, int tokens)
{
#pragma unroll
    for (int i = 0; i < 4 * N; ++i) {
        const int key = key0 + (i & 2) * 4, query = query0 + (i >> 2) * 8 + (i & 1);
        s[i >> 2][i & 3] = key > (CAUSAL ? query : tokens - 1) ? 0.0f : s[i >> 2][i & 3];
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS, config<D>::BLOCKS_PER_SM)
    backward_bf16(const backward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_backward_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim,
              groups = params.plan.groups;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    const uint32_t k_tile = shared_address(shared), v_tile = k_tile + C::KV_BYTES,
                   stages = v_tile + C::KV_BYTES, ds_tiles = stages + 2 * C::STAGE_BYTES;
    const lane_place rows = lane_rows(lane), cols = lane_cols(lane);
    const uint32_t by_rows = swizzle<D>(rows.row, rows.chunk);
    const uint32_t by_cols = swizzle<D>(cols.row, cols.chunk);
    const uint32_t own_rows = warp * 16 * D * 2 + by_rows; // of k and v
    unsigned char *const ds_own = shared + 2 * C::KV_BYTES + 2 * C::STAGE_BYTES;
    const int dq_row = warp % C::DQ_WARPS_M * 16, dq_column = warp / C::DQ_WARPS_M * C::DQ_COLS;
    dq_lane dq = {dq_row + g,
                  dq_column + 2 * t,
                  ds_tiles + swizzle<C::BM>(cols.row, dq_row / 8 + cols.chunk),
                  k_tile + swizzle<D>(rows.row, dq_column / 8 + rows.chunk),
                  a.dq.token_stride,
                  nullptr};

    work_item work;
    for (int64_t round = 0; next_item<D>(params, round, &work); ++round) {
        const bf16 *q = view_head<const bf16>(a.q, work.place);
        const bf16 *d_o = view_head<const bf16>(a.d_o, work.place);
        const float2 *stats = params.stats + work.head * params.plan.padded;
        dq.dq = view_head<bf16>(a.dq, work.place);
        auto load_step = [&](int i) {
            const uint32_t stage = stages + (i & 1) * C::STAGE_BYTES;
            tile_load<bf16, C::BM, D, C::THREADS>(stage, q, a.q.token_stride, i * C::BM, tokens,
                                                  head_dim);
            tile_load<bf16, C::BM, D, C::THREADS>(stage + C::Q_BYTES, d_o, a.d_o.token_stride,
                                                  i * C::BM, tokens, head_dim);
            if (threadIdx.x < C::BM / 2) {
                cp_async16(stage + 2 * C::Q_BYTES + threadIdx.x * 16,
                           stats + i * C::BM + threadIdx.x * 2, true);
            }
            cp_async_commit();
        };
        for (int key_tile = work.group; key_tile < params.plan.key_tiles; key_tile += groups) {
            const int key0 = key_tile * C::BN, warp_key = key0 + warp * 16;
            const int begin = CAUSAL ? key0 / C::BM : 0;
            const bool first = key_tile < groups;
            float dq_sum[C::DQ_COLS / 8][4];
            auto start_dq = [&](int i) { fetch_dq<C>(dq_sum, dq, work.scratch, i * C::BM, first); };
            auto finish_dq = [&](int i) {
                const int row0 = i * C::BM,
                          seen = CAUSAL ? (row0 + C::BM - 1) / C::BN + 1 : INT_MAX;
                if (!C::FETCH_EARLY) {
                    start_dq(i);
                }
                sum_dq<C>(dq_sum, params, dq, work.scratch, (i & 1) * C::DS_BYTES, row0,
                          CAUSAL ? row0 + C::BM - key0 : C::BN,
                          groups == 1 && key_tile + 1 == min(seen, params.plan.key_tiles));
            };
            __syncthreads(); // the tile before is done with shared memory
            tile_load<bf16, C::BN, D, C::THREADS>(k_tile, view_head<const bf16>(a.k, work.place),
                                                  a.k.token_stride, key0, tokens, head_dim);
            tile_load<bf16, C::BN, D, C::THREADS>(v_tile, view_head<const bf16>(a.v, work.place),
                                                  a.v.token_stride, key0, tokens, head_dim);
            load_step(begin);
            cp_async_wait<0>();
            __syncthreads();
            uint32_t k_frag[C::HOLD_KV ? D / 16 : 1][4], v_frag[C::HOLD_KV ? D / 16 : 1][4];
            if constexpr (C::HOLD_KV) {
#pragma unroll
                for (int k = 0; k < D / 16; ++k) {
                    ldmatrix(k_frag[k], fragment<D>(k_tile + own_rows, 0, k));
                    ldmatrix(v_frag[k], fragment<D>(v_tile + own_rows, 0, k));
                }
            }
            float dk[D / 8][4] = {}, dv[D / 8][4] = {};
            for (int i = begin; i < query_tiles; ++i) {
                cp_async_wait<0>();
                __syncthreads(); // see Plan
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
                const uint32_t q_tile = stages + (i & 1) * C::STAGE_BYTES,
                               do_tile = q_tile + C::Q_BYTES;
                const float4 *stat = (const float4 *)(shared + 2 * C::KV_BYTES +
                                                      (i & 1) * C::STAGE_BYTES + 2 * C::Q_BYTES) +
                                     t; // {lse, delta} of two queries; the next two 4 further on
                const bool edge = CAUSAL ? warp_key + 15 > row0 : warp_key + 15 >= tokens;
                float p[C::BM / 8][4], ds[C::BM / 8][4];
                uint32_t packed[C::BM / 8][2];
                product_nt<C>(p, k_frag, k_tile + own_rows, q_tile + by_cols);
#pragma unroll
                for (int j = 0; j < C::BM / 2; ++j) {
                    const float lse = j & 1 ? stat[(j >> 2) * 4].z : stat[(j >> 2) * 4].x;
                    p[j >> 2][j & 3] = exp2_fast(fmaf(p[j >> 2][j & 3], params.scale_log2, -lse));
                }
                if (edge) {
                    mask<C::BM / 8, CAUSAL>(p, warp_key + g, row0 + 2 * t, tokens);
                }
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    packed[n][0] = pack_bf16(p[n][0], p[n][1]);
                    packed[n][1] = pack_bf16(p[n][2], p[n][3]);
                }
                product_nn<C>(dv, packed, do_tile + by_rows);
                product_nt<C>(ds, v_frag, v_tile + own_rows, do_tile + by_cols);
#pragma unroll
                for (int j = 0; j < C::BM / 2; ++j) {
                    const float delta = j & 1 ? stat[(j >> 2) * 4].w : stat[(j >> 2) * 4].y;
                    ds[j >> 2][j & 3] = p[j >> 2][j & 3] * (ds[j >> 2][j & 3] - delta);
                }
                if (edge) {
                    mask<C::BM / 8, CAUSAL>(ds, warp_key + g, row0 + 2 * t, tokens);
                }
                unsigned char *ds_tile = ds_own + (i & 1) * C::DS_BYTES;
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    packed[n][0] = pack_bf16(ds[n][0], ds[n][1]);
                    packed[n][1] = pack_bf16(ds[n][2], ds[n][3]);
                    *(uint32_t *)(ds_tile + swizzle<C::BM>(warp * 16 + g, n) + 4 * t) =
                        packed[n][0];
                    *(uint32_t *)(ds_tile + swizzle<C::BM>(warp * 16 + g + 8, n) + 4 * t) =
                        packed[n][1];
                }
                if (C::FETCH_EARLY) { // while dk is computed
                    start_dq(i);
                }
                product_nn<C>(dk, packed, q_tile + by_rows);
            }
            __syncthreads();
            finish_dq(query_tiles - 1);
            store_rows<C>(view_head<bf16>(a.dk, work.place), a.dk.token_stride, a, warp_key, dk,
                          params.scale, lane);
            store_rows<C>(view_head<bf16>(a.dv, work.place), a.dv.token_stride, a, warp_key, dv,
                          1.0f, lane);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    return backward_run<config<D>>(
        launch, args, args->shape.causal ? backward_bf16<D, true> : backward_bf16<D, false>,
        "attention_backward bf16");
}

} // namespace

bt_status bt_attention_backward_bf16_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? run<64>(launch, backward) : run<128>(launch, backward);
}

size_t bt_attention_backward_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? backward_workspace<config<64>>(device, backward)
                                          : backward_workspace<config<128>>(device, backward);
}
