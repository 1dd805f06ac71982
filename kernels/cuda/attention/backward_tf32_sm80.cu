// kernels/cuda/attention/backward_tf32_sm80.cu - flash attention backward, fp32 in and out, tf32
// products. Mathematics, plan and workspace: backward.cuh.
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8
// Types    q, k, v, do, P and dS rounded to nearest tf32; sums and softmax fp32
// Plan     as backward_bf16_sm80.cu: scores transposed, S^T = k q^T, a warp owns 16 keys, step i
//          computes dq of step i - 1, one barrier a step. D <= 64: 4 warps, 64 keys, 32 queries a
//          step; D <= 128: 2 warps, 32 keys, 16 queries. Two or three blocks share an SM.
// Layout   summed indices are reordered (k = t stands for 2t, t + 4 for 2t + 1) and n index 4h + j,
//          n stands for column 32h + 4n + j, as in forward_tf32_sm80.cu. dS^T lies in rows of BM
//          + 4.
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

// The columns of one 8-deep step: sum[4h + j] += a b, b at the lane's row 2t and column 4g.
template <int N, int STRIDE>
__device__ __forceinline__ void accumulate(float (&sum)[N][4], const uint32_t (&a)[4],
                                           const float *b)
{
#pragma unroll
    for (int h = 0; h < N / 4; ++h) {
        const uint4 b0 = *(const uint4 *)(b + 32 * h);
        const uint4 b1 = *(const uint4 *)(b + 32 * h + STRIDE);
        mma_tf32(sum[4 * h], a, b0.x, b1.x);
        mma_tf32(sum[4 * h + 1], a, b0.y, b1.y);
        mma_tf32(sum[4 * h + 2], a, b0.z, b1.z);
        mma_tf32(sum[4 * h + 3], a, b0.w, b1.w);
    }
}

// sum += p b: p [16 keys, BM] as C fragments, rounded; b_tile [BM, D].
template <typename C>
__device__ __forceinline__ void product_nn(float (&sum)[C::D / 8][4],
                                           const float (&p)[C::BM / 8][4], const float *b_tile,
                                           int g, int t)
{
#pragma unroll
    for (int k = 0; k < C::BM / 8; ++k) {
        const uint32_t a[4] = {__float_as_uint(p[k][0]), __float_as_uint(p[k][2]),
                               __float_as_uint(p[k][1]), __float_as_uint(p[k][3])};
        accumulate<C::D / 8, C::STRIDE>(sum, a, b_tile + (k * 8 + 2 * t) * C::STRIDE + 4 * g);
    }
}

// Where and how one query tile's dq is summed.
struct dq_step {
    int row0; // first query
    int keys; // of this key tile that any of its rows sees, a multiple of 16
    bool first, last;
};

// dq (+)= dS k for one query tile: a warp takes 16 rows and DQ_COLS columns.
template <typename C>
__device__ __forceinline__ void sum_dq(const backward_params &params, const dq_step &step,
                                       int64_t head, float *scratch, const float *ds,
                                       const float *k_tile, int warp, int g, int t)
{
    constexpr int N = C::DQ_COLS / 8;
    const int row = warp % C::DQ_WARPS_M * 16, column = warp / C::DQ_WARPS_M * C::DQ_COLS;
    float *sums = scratch + (int64_t)(step.row0 + row + g) * C::D + column + 8 * t;
    float4 before[2][N / 4][2];
    if (!step.first) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            before[i & 1][i >> 2][i >> 1 & 1] =
                __ldcg((const float4 *)(sums + (i & 1) * 8 * C::D + (i >> 2) * 32) + (i >> 1 & 1));
        }
    }
    float sum[N][4] = {};
#pragma unroll
    for (int k = 0; k < C::BN / 8; ++k) {
        if (k * 8 < step.keys) {
            const float *x = ds + (k * 8 + 2 * t) * C::DS_STRIDE + row + g;
            const uint32_t a[4] = {__float_as_uint(x[0]), __float_as_uint(x[8]),
                                   __float_as_uint(x[C::DS_STRIDE]),
                                   __float_as_uint(x[C::DS_STRIDE + 8])};
            accumulate<N, C::STRIDE>(sum, a, k_tile + (k * 8 + 2 * t) * C::STRIDE + column + 4 * g);
        }
    }
    const bt_attention_backward_args &a = params.a;
    float *dq = view_head<float>(a.dq, a.heads, head);
#pragma unroll
    for (int i = 0; i < N; ++i) { // row half, 32-column block, 4-column half
        const int half = i & 1, h = i >> 2, e = 2 * half + (i >> 1 & 1);
        float4 x =
            make_float4(sum[4 * h][e], sum[4 * h + 1][e], sum[4 * h + 2][e], sum[4 * h + 3][e]);
        if (!step.first) {
            const float4 y = before[half][h][i >> 1 & 1];
            x = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        }
        const int at = step.row0 + row + g + half * 8;
        if (!step.last) {
            __stcg((float4 *)(sums + half * 8 * C::D + h * 32) + (i >> 1 & 1), x);
        } else if (at < a.tokens && column + 32 * h + 8 * t < a.head_dim) {
            ((float4 *)(dq + at * a.dq.token_stride + column + 32 * h + 8 * t))[i >> 1 & 1] =
                make_float4(x.x * params.scale, x.y * params.scale, x.z * params.scale,
                            x.w * params.scale);
        }
    }
}

// Writes a warp's 16 rows of dk or dv.
template <typename C>
__device__ __forceinline__ void
store_rows(const bt_attention_view &view, const bt_attention_backward_args &a, int64_t head,
           int row0, const float (&sum)[C::D / 8][4], float scale, int g, int t)
{
    float *out = view_head<float>(view, a.heads, head);
#pragma unroll
    for (int i = 0; i < C::D / 8; ++i) { // row half, 32-column block, 4-column half
        const int row = row0 + g + (i & 1) * 8, h = i >> 2, e = 2 * (i & 1) + (i >> 1 & 1);
        if (row < a.tokens && 32 * h + 8 * t < a.head_dim) {
            ((float4 *)(out + row * view.token_stride + 32 * h + 8 * t))[i >> 1 & 1] =
                make_float4(sum[4 * h][e] * scale, sum[4 * h + 1][e] * scale,
                            sum[4 * h + 2][e] * scale, sum[4 * h + 3][e] * scale);
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
    const int tokens = (int)a.tokens, head_dim = (int)a.head_dim, groups = params.plan.groups;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    float *const k_tile = shared_floats, *const v_tile = k_tile + C::KV_FLOATS,
                 *const stages = v_tile + C::KV_FLOATS,
                 *const ds_tiles = stages + 2 * C::STAGE_FLOATS;

    for (int64_t item = blockIdx.x; item < params.plan.heads * groups; item += gridDim.x) {
        const int64_t head = item / groups;
        float *scratch = scratch_of(params, item, D);
        const float *q = view_head<const float>(a.q, a.heads, head);
        const float *d_o = view_head<const float>(a.d_o, a.heads, head);
        const float2 *stats = params.stats + head * params.plan.padded;
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
        for (int key_tile = (int)(item % groups); key_tile < params.plan.key_tiles;
             key_tile += groups) {
            const int key0 = key_tile * C::BN, warp_key = key0 + warp * 16;
            const int begin = CAUSAL ? key0 / C::BM : 0;
            auto dq_of = [&](int i) {
                const int seen = CAUSAL ? (i * C::BM + C::BM - 1) / C::BN + 1 : INT_MAX;
                return dq_step{i * C::BM, CAUSAL ? min(C::BN, (i + 1) * C::BM - key0) : C::BN,
                               key_tile < groups,
                               groups == 1 && key_tile + 1 == min(seen, params.plan.key_tiles)};
            };
            __syncthreads(); // the tile before is done with shared memory
            tile_load<float, C::BN, D, C::THREADS>(shared_address(k_tile),
                                                   view_head<const float>(a.k, a.heads, head),
                                                   a.k.token_stride, key0, tokens, head_dim);
            tile_load<float, C::BN, D, C::THREADS>(shared_address(v_tile),
                                                   view_head<const float>(a.v, a.heads, head),
                                                   a.v.token_stride, key0, tokens, head_dim);
            load_step(begin);
            cp_async_wait<0>();
            tile_round<C::BN, D, C::THREADS>(k_tile);
            tile_round<C::BN, D, C::THREADS>(v_tile);
            float dk[D / 8][4] = {}, dv[D / 8][4] = {};
            for (int i = begin; i < query_tiles; ++i) {
                float *q_tile = stages + (i & 1) * C::STAGE_FLOATS, *do_tile = q_tile + C::Q_FLOATS;
                const float4 *stat = (const float4 *)(do_tile + C::Q_FLOATS);
                cp_async_wait<0>();
                tile_round<C::BM, D, C::THREADS>(q_tile);
                tile_round<C::BM, D, C::THREADS>(do_tile);
                __syncthreads(); // tile i is there, dS of i - 1 complete, buffers of i - 2 free
                if (i + 1 < query_tiles) {
                    load_step(i + 1);
                }
                if (i > begin) {
                    sum_dq<C>(params, dq_of(i - 1), head, scratch,
                              ds_tiles + (i - 1 & 1) * C::DS_FLOATS, k_tile, warp, g, t);
                }
                const int row0 = i * C::BM;
                if (CAUSAL && warp_key > row0 + C::BM - 1) {
                    continue;
                }
                auto masked = [&](int n, int e) {
                    const int key = warp_key + g + (e & 2) * 4;
                    return key > (CAUSAL ? row0 + n * 8 + 2 * t + (e & 1) : tokens - 1);
                };
                const bool edge = CAUSAL ? warp_key + 15 > row0 : warp_key + 15 >= tokens;
                float p[C::BM / 8][4], ds[C::BM / 8][4];
                product_nt<C>(p, shared_address(k_tile + warp * 16 * C::STRIDE),
                              shared_address(q_tile), lane);
                product_nt<C>(ds, shared_address(v_tile + warp * 16 * C::STRIDE),
                              shared_address(do_tile), lane);
                float *ds_tile = ds_tiles + (i & 1) * C::DS_FLOATS + (warp * 16 + g) * C::DS_STRIDE;
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    const float4 at = stat[n * 4 + t]; // {lse, delta} of two queries
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const float x =
                            exp2_fast(fmaf(p[n][e], params.scale_log2, e & 1 ? -at.z : -at.x));
                        const float y = x * (ds[n][e] - (e & 1 ? at.w : at.y));
                        const bool zero = edge && masked(n, e);
                        p[n][e] = zero ? 0.0f : round_tf32(x);
                        ds[n][e] = zero ? 0.0f : round_tf32(y);
                    }
                    *(float2 *)(ds_tile + n * 8 + 2 * t) = make_float2(ds[n][0], ds[n][1]);
                    *(float2 *)(ds_tile + 8 * C::DS_STRIDE + n * 8 + 2 * t) =
                        make_float2(ds[n][2], ds[n][3]);
                }
                product_nn<C>(dv, p, do_tile, g, t);
                product_nn<C>(dk, ds, q_tile, g, t);
            }
            __syncthreads();
            sum_dq<C>(params, dq_of(query_tiles - 1), head, scratch,
                      ds_tiles + (query_tiles - 1 & 1) * C::DS_FLOATS, k_tile, warp, g, t);
            store_rows<C>(a.dk, a, head, warp_key, dk, params.scale, g, t);
            store_rows<C>(a.dv, a, head, warp_key, dv, 1.0f, g, t);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    return backward_run<config<D>>(launch, args,
                                   args->causal ? backward_tf32<D, true> : backward_tf32<D, false>,
                                   "attention_backward tf32");
}

} // namespace

bt_status bt_attention_backward_tf32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->head_dim <= 64 ? run<64>(launch, backward) : run<128>(launch, backward);
}

size_t bt_attention_backward_tf32_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->head_dim <= 64 ? backward_workspace<config<64>>(device, backward)
                                    : backward_workspace<config<128>>(device, backward);
}
