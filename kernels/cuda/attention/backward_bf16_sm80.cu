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
    static constexpr bool HOLD_KV = D == 64; // k's and v's fragments stay in registers
    static constexpr int DQ_WARPS_M = BM / 16, DQ_COLS = D / (WARPS / DQ_WARPS_M);
    static constexpr int KV_BYTES = tile_bytes<bf16, BN, D>(), Q_BYTES = tile_bytes<bf16, BM, D>();
    static constexpr int STATS_BYTES = BM * 8, STAGE_BYTES = 2 * Q_BYTES + STATS_BYTES;
    static constexpr int DS_BYTES = BN * BM * 2;
    static constexpr int SHARED = 2 * KV_BYTES + 2 * STAGE_BYTES + 2 * DS_BYTES;
};

// s = a b^T over D: the warp's 16 rows of `a` (fragments held, or loaded from a_tile) times the BM
// rows of b_tile.
template <typename C>
__device__ __forceinline__ void product_nt(float (&s)[C::BM / 8][4],
                                           const uint32_t (&held)[C::HOLD_KV ? C::D / 16 : 1][4],
                                           uint32_t a_tile, uint32_t b_tile, int warp, int lane)
{
    const lane_place at_a = lane_rows(lane), at_b = lane_cols(lane);
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
            ldmatrix(a, a_tile + swizzle<C::D>(warp * 16 + at_a.row, k * 2 + at_a.chunk));
        }
#pragma unroll
        for (int n = 0; n < C::BM / 16; ++n) {
            uint32_t b[4];
            ldmatrix(b, b_tile + swizzle<C::D>(n * 16 + at_b.row, k * 2 + at_b.chunk));
            mma_bf16(s[2 * n], a, b[0], b[1]);
            mma_bf16(s[2 * n + 1], a, b[2], b[3]);
        }
    }
}

// sum += p b: p [16 keys, BM] as packed A fragments, b_tile [BM, D].
template <typename C>
__device__ __forceinline__ void
product_nn(float (&sum)[C::D / 8][4], const uint32_t (&p)[C::BM / 8][2], uint32_t b_tile, int lane)
{
    const lane_place at = lane_rows(lane);
#pragma unroll
    for (int k = 0; k < C::BM / 16; ++k) {
        const uint32_t a[4] = {p[2 * k][0], p[2 * k][1], p[2 * k + 1][0], p[2 * k + 1][1]};
#pragma unroll
        for (int n = 0; n < C::D / 16; ++n) {
            uint32_t b[4];
            ldmatrix_trans(b, b_tile + swizzle<C::D>(k * 16 + at.row, n * 2 + at.chunk));
            mma_bf16(sum[2 * n], a, b[0], b[1]);
            mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
        }
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
                                       int64_t head, float *scratch, uint32_t ds, uint32_t k_tile,
                                       int warp, int lane)
{
    constexpr int N = C::DQ_COLS / 8;
    const int row = warp % C::DQ_WARPS_M * 16, column = warp / C::DQ_WARPS_M * C::DQ_COLS;
    const int g = lane >> 2, t = lane & 3;
    const lane_place at_a = lane_cols(lane), at_b = lane_rows(lane);
    float *sums = scratch + (int64_t)(step.row0 + row + g) * C::D + column + 2 * t;
    float2 before[N][2];
    if (!step.first) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            before[n][0] = __ldcg((const float2 *)(sums + n * 8));
            before[n][1] = __ldcg((const float2 *)(sums + 8 * C::D + n * 8));
        }
    }
    float sum[N][4] = {};
#pragma unroll
    for (int k = 0; k < C::BN / 16; ++k) {
        if (k * 16 < step.keys) {
            uint32_t a[4];
            ldmatrix_trans(a, ds + swizzle<C::BM>(k * 16 + at_a.row, row / 8 + at_a.chunk));
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                uint32_t b[4];
                ldmatrix_trans(
                    b, k_tile + swizzle<C::D>(k * 16 + at_b.row, column / 8 + n * 2 + at_b.chunk));
                mma_bf16(sum[2 * n], a, b[0], b[1]);
                mma_bf16(sum[2 * n + 1], a, b[2], b[3]);
            }
        }
    }
    if (!step.first) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            sum[n][0] += before[n][0].x, sum[n][1] += before[n][0].y;
            sum[n][2] += before[n][1].x, sum[n][3] += before[n][1].y;
        }
    }
    const bt_attention_backward_args &a = params.a;
    bf16 *dq = view_head<bf16>(a.dq, a.heads, head);
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float x = sum[n][2 * half], y = sum[n][2 * half + 1];
            if (!step.last) {
                __stcg((float2 *)(sums + half * 8 * C::D + n * 8), make_float2(x, y));
            } else if (step.row0 + row + g + half * 8 < a.tokens && column + n * 8 < a.head_dim) {
                *(uint32_t *)(dq + (step.row0 + row + g + half * 8) * a.dq.token_stride + column +
                              n * 8 + 2 * t) = pack_bf16(x * params.scale, y * params.scale);
            }
        }
    }
}

// Writes a warp's 16 rows of dk or dv.
template <typename C>
__device__ __forceinline__ void
store_rows(const bt_attention_view &view, const bt_attention_backward_args &a, int64_t head,
           int row0, const float (&sum)[C::D / 8][4], float scale, int lane)
{
    bf16 *out = view_head<bf16>(view, a.heads, head);
#pragma unroll
    for (int n = 0; n < C::D / 8; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = row0 + (lane >> 2) + half * 8;
            if (row < a.tokens && n * 8 < a.head_dim) {
                *(uint32_t *)(out + row * view.token_stride + n * 8 + (lane & 3) * 2) =
                    pack_bf16(sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale);
            }
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS, config<D>::BLOCKS_PER_SM)
    backward_bf16(const backward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_backward_args &a = params.a;
    const int tokens = (int)a.tokens, head_dim = (int)a.head_dim, groups = params.plan.groups;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    const uint32_t k_tile = shared_address(shared), v_tile = k_tile + C::KV_BYTES,
                   stages = v_tile + C::KV_BYTES;
    unsigned char *const ds_tiles = shared + 2 * C::KV_BYTES + 2 * C::STAGE_BYTES;

    for (int64_t item = blockIdx.x; item < params.plan.heads * groups; item += gridDim.x) {
        const int64_t head = item / groups;
        float *scratch = scratch_of(params, item, D);
        const bf16 *q = view_head<const bf16>(a.q, a.heads, head);
        const bf16 *d_o = view_head<const bf16>(a.d_o, a.heads, head);
        const float2 *stats = params.stats + head * params.plan.padded;
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
            tile_load<bf16, C::BN, D, C::THREADS>(k_tile, view_head<const bf16>(a.k, a.heads, head),
                                                  a.k.token_stride, key0, tokens, head_dim);
            tile_load<bf16, C::BN, D, C::THREADS>(v_tile, view_head<const bf16>(a.v, a.heads, head),
                                                  a.v.token_stride, key0, tokens, head_dim);
            load_step(begin);
            cp_async_wait<0>();
            __syncthreads();
            uint32_t k_frag[C::HOLD_KV ? D / 16 : 1][4], v_frag[C::HOLD_KV ? D / 16 : 1][4];
            if constexpr (C::HOLD_KV) {
                const lane_place at = lane_rows(lane);
#pragma unroll
                for (int k = 0; k < D / 16; ++k) {
                    const uint32_t offset = swizzle<D>(warp * 16 + at.row, k * 2 + at.chunk);
                    ldmatrix(k_frag[k], k_tile + offset);
                    ldmatrix(v_frag[k], v_tile + offset);
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
                    sum_dq<C>(params, dq_of(i - 1), head, scratch,
                              shared_address(ds_tiles + (i - 1 & 1) * C::DS_BYTES), k_tile, warp,
                              lane);
                }
                const int row0 = i * C::BM;
                if (CAUSAL && warp_key > row0 + C::BM - 1) {
                    continue;
                }
                const uint32_t q_tile = stages + (i & 1) * C::STAGE_BYTES,
                               do_tile = q_tile + C::Q_BYTES;
                const float4 *stat = (const float4 *)(shared + 2 * C::KV_BYTES +
                                                      (i & 1) * C::STAGE_BYTES + 2 * C::Q_BYTES);
                float p[C::BM / 8][4], ds[C::BM / 8][4];
                uint32_t packed[C::BM / 8][2];
                product_nt<C>(p, k_frag, k_tile, q_tile, warp, lane);
                const bool edge = CAUSAL ? warp_key + 15 > row0 : warp_key + 15 >= tokens;
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    const float4 at = stat[n * 4 + t]; // {lse, delta} of two queries
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        p[n][e] =
                            exp2_fast(fmaf(p[n][e], params.scale_log2, e & 1 ? -at.z : -at.x));
                    }
                }
                auto masked = [&](int n, int e) {
                    const int key = warp_key + g + (e & 2) * 4;
                    return key > (CAUSAL ? row0 + n * 8 + 2 * t + (e & 1) : tokens - 1);
                };
                if (edge) {
#pragma unroll
                    for (int i = 0; i < C::BM / 2; ++i) {
                        p[i >> 2][i & 3] = masked(i >> 2, i & 3) ? 0.0f : p[i >> 2][i & 3];
                    }
                }
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    packed[n][0] = pack_bf16(p[n][0], p[n][1]);
                    packed[n][1] = pack_bf16(p[n][2], p[n][3]);
                }
                product_nn<C>(dv, packed, do_tile, lane);
                product_nt<C>(ds, v_frag, v_tile, do_tile, warp, lane);
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    const float4 at = stat[n * 4 + t];
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        ds[n][e] = p[n][e] * (ds[n][e] - (e & 1 ? at.w : at.y));
                    }
                }
                if (edge) {
#pragma unroll
                    for (int i = 0; i < C::BM / 2; ++i) {
                        ds[i >> 2][i & 3] = masked(i >> 2, i & 3) ? 0.0f : ds[i >> 2][i & 3];
                    }
                }
                unsigned char *ds_tile = ds_tiles + (i & 1) * C::DS_BYTES;
#pragma unroll
                for (int n = 0; n < C::BM / 8; ++n) {
                    packed[n][0] = pack_bf16(ds[n][0], ds[n][1]);
                    packed[n][1] = pack_bf16(ds[n][2], ds[n][3]);
                    *(uint32_t *)(ds_tile + swizzle<C::BM>(warp * 16 + g, n) + 4 * t) =
                        packed[n][0];
                    *(uint32_t *)(ds_tile + swizzle<C::BM>(warp * 16 + g + 8, n) + 4 * t) =
                        packed[n][1];
                }
                product_nn<C>(dk, packed, q_tile, lane);
            }
            __syncthreads();
            sum_dq<C>(params, dq_of(query_tiles - 1), head, scratch,
                      shared_address(ds_tiles + (query_tiles - 1 & 1) * C::DS_BYTES), k_tile, warp,
                      lane);
            store_rows<C>(a.dk, a, head, warp_key, dk, params.scale, lane);
            store_rows<C>(a.dv, a, head, warp_key, dv, 1.0f, lane);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    return backward_run<config<D>>(launch, args,
                                   args->causal ? backward_bf16<D, true> : backward_bf16<D, false>,
                                   "attention_backward bf16");
}

} // namespace

bt_status bt_attention_backward_bf16_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->head_dim <= 64 ? run<64>(launch, backward) : run<128>(launch, backward);
}

size_t bt_attention_backward_bf16_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->head_dim <= 64 ? backward_workspace<config<64>>(device, backward)
                                    : backward_workspace<config<128>>(device, backward);
}
