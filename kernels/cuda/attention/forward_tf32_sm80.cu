// kernels/cuda/attention/forward_tf32_sm80.cu - flash attention, fp32 in and out, tf32 products
//   o = softmax(scale q k^T) v by the online softmax: running maximum m, sum l and unscaled o
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8; lse [B, H, T] f32
// Types    q, k, v and P rounded to nearest tf32; sums and softmax fp32
// Plan     a block of 4 warps takes 128 (D <= 64) or 64 query rows of one head, and keys 64 at a
//          time. One buffer each for k and v: v of a tile arrives while its scores are computed, k
//          of the next tile while the weighted sum is. Each thread rounds the chunks that it copied
//          before the barrier that publishes them. Two blocks share an SM and fill each other's
//          gaps.
// Layout   the weighted sum is computed transposed, o^T = v^T P^T, because P's C fragments are B
//          fragments as they stand (mma.cuh); o^T's columns are rows 2t and 2t + 1 of P
// Bitwise  one warp sums a row, in ascending key order
// NaN      as forward_bf16_sm80.cu
// Errors   accepts() as in accepts.cu
// Oracle   softmax in float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691
#include "kernels/cuda/attention/softmax.cuh"

namespace
{

template <int D> struct config {
    static constexpr int WARPS = 4, THREADS = 128;
    static constexpr int M_TILES = D == 64 ? 2 : 1; // 16-row tiles of a warp
    static constexpr int BM = WARPS * M_TILES * 16, BN = 64;
    static constexpr int Q_BYTES = tile_bytes<float, BM, D>();
    static constexpr int KV_BYTES = tile_bytes<float, BN, D>();
    static constexpr int SHARED = Q_BYTES + 2 * KV_BYTES;
};

// s = q k^T for one key tile; q_tile starts at the warp's rows.
template <int D, int M_TILES>
__device__ __forceinline__ void scores(float (&s)[M_TILES][8][4], uint32_t q_tile, uint32_t k_tile,
                                       int lane)
{
    const lane_place at_q = lane_rows(lane), at_k = lane_cols(lane);
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < D / 8; ++k) {
        uint32_t q[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            ldmatrix(q[m], q_tile + padded<D>(m * 16 + at_q.row, k * 2 + at_q.chunk));
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            uint32_t b[4];
            ldmatrix(b, k_tile + padded<D>(n * 16 + at_k.row, k * 2 + at_k.chunk));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_tf32(s[m][2 * n], q[m], b[0], b[1]);
                mma_tf32(s[m][2 * n + 1], q[m], b[2], b[3]);
            }
        }
    }
}

// o^T += v^T p^T for one key tile; p is rounded to tf32; v_at as transposed_fragment() wants it.
// o[d][n]: columns 16 d + 2g (elements 0, 1) and the next (2, 3), rows 8 n + 2t and the next.
template <int D, int M_TILES>
__device__ __forceinline__ void weigh(float (&o)[D / 16][2 * M_TILES][4],
                                      const float (&p)[M_TILES][8][4], const float *v_at)
{
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        uint32_t b[2 * M_TILES][2];
#pragma unroll
        for (int i = 0; i < 4 * M_TILES; ++i) {
            b[i >> 1][i & 1] = __float_as_uint(round_tf32_positive(p[i >> 2][k][i & 3]));
        }
#pragma unroll
        for (int d = 0; d < D / 16; ++d) {
            uint32_t a[4];
            transposed_fragment<D>(a, v_at + k * 8 * (D + 4) + d * 16);
#pragma unroll
            for (int n = 0; n < 2 * M_TILES; ++n) {
                mma_tf32(o[d][n], a, b[n][0], b[n][1]);
            }
        }
    }
}

// From a value per row g of a fragment to the values of rows 2t and 2t + 1.
__device__ __forceinline__ float2 rows_to_columns(float x, int t)
{
    return make_float2(__shfl_sync(0xffffffffU, x, 8 * t), __shfl_sync(0xffffffffU, x, 8 * t + 4));
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS, 2) forward_tf32(const forward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim;
    const int blocks = (tokens + C::BM - 1) / C::BM;
    const int64_t head = blockIdx.x / blocks;
    const head_place place = head_place_make(a.shape.heads, head);
    const int row0 = (blocks - 1 - (int)(blockIdx.x % blocks)) * C::BM;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int warp_row = warp * C::M_TILES * 16; // within the block
    const int first_row = row0 + warp_row, last_row = first_row + C::M_TILES * 16 - 1;
    const int keys = CAUSAL ? min(tokens, row0 + C::BM) : tokens;
    const int tiles = (keys + C::BN - 1) / C::BN;

    const float *q = view_head<const float>(a.q, place);
    const float *k = view_head<const float>(a.k, place);
    const float *v = view_head<const float>(a.v, place);
    float *q_tile = (float *)shared, *k_tile = (float *)(shared + C::Q_BYTES),
          *v_tile = (float *)(shared + C::Q_BYTES + C::KV_BYTES);
    auto load = [&](float *tile, const float *from, int64_t stride, int key0) {
        tile_load<float, C::BN, D, C::THREADS>(shared_address(tile), from, stride, key0, tokens,
                                               head_dim);
        cp_async_commit();
    };

    tile_load<float, C::BM, D, C::THREADS>(shared_address(q_tile), q, a.q.token_stride, row0,
                                           tokens, head_dim);
    load(k_tile, k, a.k.token_stride, 0);
    cp_async_wait<0>();
    tile_round<C::BM, D, C::THREADS>(q_tile);

    float o[D / 16][2 * C::M_TILES][4] = {}, row_max[C::M_TILES][2], row_sum[C::M_TILES][2] = {};
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
        row_max[m][0] = row_max[m][1] = -INFINITY;
    }
    for (int tile = 0; tile < tiles; ++tile) {
        const int key0 = tile * C::BN;
        const bool active = !CAUSAL || key0 <= last_row;
        float s[C::M_TILES][8][4];
        cp_async_wait<0>();
        tile_round<C::BN, D, C::THREADS>(k_tile);
        __syncthreads(); // k has landed for all, and all are done with v of the tile before
        load(v_tile, v, a.v.token_stride, key0);
        if (active) {
            scores<D, C::M_TILES>(s, shared_address(q_tile) + padded<D>(warp_row, 0),
                                  shared_address(k_tile), lane);
            if (key0 + C::BN > tokens || (CAUSAL && key0 + C::BN - 1 > first_row)) {
                mask_scores<C::M_TILES, CAUSAL>(s, key0, first_row, tokens, g, t);
            }
            softmax_tile<C::M_TILES>(s, row_max, row_sum, params, [&](int m, int half, float fade) {
                const float2 fades = rows_to_columns(fade, t);
#pragma unroll
                for (int d = 0; d < D / 16; ++d) {
                    float(&x)[4] = o[d][2 * m + half];
                    x[0] *= fades.x, x[1] *= fades.y, x[2] *= fades.x, x[3] *= fades.y;
                }
            });
        }
        cp_async_wait<0>();
        tile_round<C::BN, D, C::THREADS>(v_tile);
        __syncthreads(); // v has landed for all, and all are done with k
        if (tile + 1 < tiles) {
            load(k_tile, k, a.k.token_stride, key0 + C::BN);
        }
        if (active) {
            weigh<D, C::M_TILES>(o, s, v_tile + 2 * t * (D + 4) + 2 * g);
        }
    }

    float *lse = (float *)a.lse + head * a.shape.q_tokens, *out = view_head<float>(a.o, place);
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int first = first_row + m * 16 + half * 8;
            const joined_row joined =
                join_row(row_max[m][half], quad_sum(row_sum[m][half]), params, lse, first + g);
            const float2 scale = rows_to_columns(joined.scale, t);
            const float2 keep = rows_to_columns(joined.keep, t);
            if (t == 0 && first + g < tokens) {
                lse[first + g] = joined.lse;
            }
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int row = first + 2 * t + e;
                float *to = out + row * a.o.token_stride + 2 * g;
#pragma unroll
                for (int d = 0; d < D / 16; ++d) {
                    const float(&x)[4] = o[d][2 * m + half];
                    if (row < tokens && d * 16 + 2 * g < head_dim) {
                        store_pair(to + d * 16, pair_added(x[e], x[2 + e], e ? scale.y : scale.x,
                                                           e ? keep.y : keep.x, to + d * 16));
                    }
                }
            }
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_args *args)
{
    using C = config<D>;
    static_assert(C::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
    const int64_t blocks =
        args->shape.batch * args->shape.heads * ((args->shape.q_tokens + C::BM - 1) / C::BM);
    return launch_kernel(
        launch, args->shape.causal ? forward_tf32<D, true> : forward_tf32<D, false>, blocks,
        C::THREADS, C::SHARED, forward_params_make(args), "attention tf32");
}

} // namespace

bt_status bt_attention_tf32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_args *attention = (const bt_attention_args *)args;
    if (attention->shape.batch * attention->shape.heads * attention->shape.q_tokens == 0) {
        return BT_OK;
    }
    return attention->shape.head_dim <= 64 ? run<64>(launch, attention)
                                           : run<128>(launch, attention);
}
