// kernels/cuda/attention/forward_tf32_sm80.cu - flash attention, fp32 in and out, tf32 products
//   o = softmax(scale q k^T) v by the online softmax: running maximum m, sum l and unscaled o
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8; lse [B, H, T] f32
// Types    q, k, v and P rounded to nearest tf32; sums and softmax fp32
// Plan     a block of 4 warps takes 128 (D <= 64) or 64 query rows of one head, and keys 64 at a
//          time. One buffer each for k and v: v of a tile arrives while its scores are computed, k
//          of the next tile while the weighted sum is. Each thread rounds the chunks that it copied
//          before the barrier that publishes them. Two blocks share an SM and fill each other's
//          gaps.
// Layout   the product with v takes P's C fragment as A fragment by reordering keys (mma.cuh), and
//          n index 4h + j, n stands for column 32h + 4n + j, so that v is read, and o written, in
//          16-byte pieces
// Bitwise  one warp sums a row, in ascending key order
// NaN      as forward_bf16_sm80.cu
// Errors   accepts() as in accepts.cu
// Oracle   softmax in float64, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691
#include "kernels/cuda/attention/tile.cuh"

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

// o += p v for one key tile; p is rounded to tf32.
template <int D, int M_TILES>
__device__ __forceinline__ void weigh(float (&o)[M_TILES][D / 8][4],
                                      const float (&p)[M_TILES][8][4], const float *v_tile, int g,
                                      int t)
{
    constexpr int STRIDE = D + 4;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        uint32_t a[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            a[m][0] = __float_as_uint(round_tf32(p[m][k][0]));
            a[m][1] = __float_as_uint(round_tf32(p[m][k][2]));
            a[m][2] = __float_as_uint(round_tf32(p[m][k][1]));
            a[m][3] = __float_as_uint(round_tf32(p[m][k][3]));
        }
#pragma unroll
        for (int h = 0; h < D / 32; ++h) {
            const float *v = v_tile + (k * 8 + 2 * t) * STRIDE + 32 * h + 4 * g;
            const uint4 b0 = *(const uint4 *)v, b1 = *(const uint4 *)(v + STRIDE);
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_tf32(o[m][4 * h], a[m], b0.x, b1.x);
                mma_tf32(o[m][4 * h + 1], a[m], b0.y, b1.y);
                mma_tf32(o[m][4 * h + 2], a[m], b0.z, b1.z);
                mma_tf32(o[m][4 * h + 3], a[m], b0.w, b1.w);
            }
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS, 2) forward_tf32(const forward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_args &a = params.a;
    const int tokens = (int)a.tokens, head_dim = (int)a.head_dim;
    const int blocks = (tokens + C::BM - 1) / C::BM;
    const int64_t head = blockIdx.x / blocks;
    const int row0 = (blocks - 1 - (int)(blockIdx.x % blocks)) * C::BM;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int warp_row = warp * C::M_TILES * 16; // within the block
    const int first_row = row0 + warp_row, last_row = first_row + C::M_TILES * 16 - 1;
    const int keys = CAUSAL ? min(tokens, row0 + C::BM) : tokens;
    const int tiles = (keys + C::BN - 1) / C::BN;

    const float *q = view_head<const float>(a.q, a.heads, head);
    const float *k = view_head<const float>(a.k, a.heads, head);
    const float *v = view_head<const float>(a.v, a.heads, head);
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

    float o[C::M_TILES][D / 8][4] = {}, row_max[C::M_TILES][2], row_sum[C::M_TILES][2] = {};
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
#pragma unroll
                for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
                    for (int i = 0; i < 32; ++i) {
                        const int key = key0 + (i >> 2) * 8 + 2 * t + (i & 1);
                        const int row = first_row + m * 16 + g + (i & 2) * 4;
                        if (key >= tokens || (CAUSAL && key > row)) {
                            s[m][i >> 2][i & 3] = -INFINITY;
                        }
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) { // rows g and g + 8
                    float top = row_max[m][half];
#pragma unroll
                    for (int n = 0; n < 8; ++n) {
                        top = fmaxf(top, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
                    }
                    top = quad_max(top);
                    const float shift = top == -INFINITY ? 0.0f : top * params.scale_log2;
                    const float fade = exp2_fast(fmaf(row_max[m][half], params.scale_log2, -shift));
                    float sum = 0.0f;
#pragma unroll
                    for (int n = 0; n < 8; ++n) {
#pragma unroll
                        for (int e = 2 * half; e < 2 * half + 2; ++e) {
                            s[m][n][e] = exp2_fast(fmaf(s[m][n][e], params.scale_log2, -shift));
                            sum += s[m][n][e];
                        }
                    }
                    row_max[m][half] = top;
                    row_sum[m][half] = fmaf(row_sum[m][half], fade, sum);
#pragma unroll
                    for (int n = 0; n < D / 8; ++n) {
                        o[m][n][2 * half] *= fade;
                        o[m][n][2 * half + 1] *= fade;
                    }
                }
            }
        }
        cp_async_wait<0>();
        tile_round<C::BN, D, C::THREADS>(v_tile);
        __syncthreads(); // v has landed for all, and all are done with k
        if (tile + 1 < tiles) {
            load(k_tile, k, a.k.token_stride, key0 + C::BN);
        }
        if (active) {
            weigh<D, C::M_TILES>(o, s, v_tile, g, t);
        }
    }

    float *lse = (float *)a.lse + head * a.tokens, *out = view_head<float>(a.o, a.heads, head);
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + m * 16 + half * 8 + g;
            const float sum = quad_sum(row_sum[m][half]), inverse = 1.0f / sum;
            if (row >= tokens) {
                continue;
            }
            if (t == 0) {
                lse[row] = fmaf(row_max[m][half], params.scale, logf(sum));
            }
#pragma unroll
            for (int h = 0; h < D / 32; ++h) {
                if (32 * h + 8 * t < head_dim) {
                    float4 *to = (float4 *)(out + row * a.o.token_stride + 32 * h + 8 * t);
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        to[e] = make_float4(o[m][4 * h][2 * half + e] * inverse,
                                            o[m][4 * h + 1][2 * half + e] * inverse,
                                            o[m][4 * h + 2][2 * half + e] * inverse,
                                            o[m][4 * h + 3][2 * half + e] * inverse);
                    }
                }
            }
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_args *args)
{
    using C = config<D>;
    static_assert(C::SHARED <= SHARED_LIMIT, "accepts() promises less");
    const int64_t blocks = args->batch * args->heads * ((args->tokens + C::BM - 1) / C::BM);
    return launch_kernel(launch, args->causal ? forward_tf32<D, true> : forward_tf32<D, false>,
                         blocks, C::THREADS, C::SHARED, forward_params_make(args),
                         "attention tf32");
}

} // namespace

bt_status bt_attention_tf32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_args *attention = (const bt_attention_args *)args;
    if (attention->batch * attention->heads * attention->tokens == 0) {
        return BT_OK;
    }
    return attention->head_dim <= 64 ? run<64>(launch, attention) : run<128>(launch, attention);
}
