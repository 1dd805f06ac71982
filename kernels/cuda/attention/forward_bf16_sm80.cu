// kernels/cuda/attention/forward_bf16_sm80.cu - flash attention, bf16 in and out
//   o = softmax(scale q k^T) v by the online softmax: running maximum m, sum l and unscaled o
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8; lse [B, H, T] f32
// Types    bf16 operands, fp32 sums and softmax; P is rounded to bf16 before P v
// Plan     a block takes 128 query rows of one head, a warp 32 (D <= 64) or 16 (D <= 128) of them,
//          with q's fragments in registers. Keys come 64 at a time in two buffers: while tile j is
//          worked on, cp.async brings tile j+1; one barrier a tile. A warp skips tiles that lie
//          wholly above its diagonal. Blocks of a head run next to each other (k and v stay in L2),
//          the longest first.
// Bitwise  one warp sums a row, in ascending key order
// NaN      in a row's q, or in k or v of a key it sees, makes the row NaN; a NaN in v may also
//          reach earlier rows of the same tile (0 * NaN in the product)
// Errors   accepts() as in accepts.cu
// Oracle   softmax in float64 on the bf16 operands, see tests/conformance/test_attention.c
// Source   Dao 2023, arXiv:2307.08691; Milakov & Gimelshein 2018, arXiv:1805.02867
#include "kernels/cuda/attention/softmax.cuh"

namespace
{

template <int D> struct config {
    static constexpr int WARPS = D == 64 ? 4 : 8;
    static constexpr int M_TILES = D == 64 ? 2 : 1; // 16-row tiles of a warp
    static constexpr int BM = WARPS * M_TILES * 16, BN = 64, THREADS = WARPS * 32;
    static constexpr int Q_BYTES = tile_bytes<bf16, BM, D>(), KV_BYTES = tile_bytes<bf16, BN, D>();
    static constexpr int SHARED = Q_BYTES + 4 * KV_BYTES;
};

// s = q k^T for one key tile; k_base as fragment() wants it, in lane_cols order.
template <int D, int M_TILES>
__device__ __forceinline__ void scores(float (&s)[M_TILES][8][4],
                                       const uint32_t (&q)[M_TILES][D / 16][4], uint32_t k_base)
{
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            uint32_t b[4];
            ldmatrix(b, fragment<D>(k_base, n, k));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_bf16(s[m][2 * n], q[m][k], b[0], b[1]);
                mma_bf16(s[m][2 * n + 1], q[m][k], b[2], b[3]);
            }
        }
    }
}

// o += p v for one key tile; p is rounded to bf16; v_base as fragment() wants it, in lane_rows
// order.
template <int D, int M_TILES>
__device__ __forceinline__ void weigh(float (&o)[M_TILES][D / 8][4],
                                      const float (&p)[M_TILES][8][4], uint32_t v_base)
{
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        uint32_t a[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            a[m][0] = pack_bf16(p[m][2 * k][0], p[m][2 * k][1]);
            a[m][1] = pack_bf16(p[m][2 * k][2], p[m][2 * k][3]);
            a[m][2] = pack_bf16(p[m][2 * k + 1][0], p[m][2 * k + 1][1]);
            a[m][3] = pack_bf16(p[m][2 * k + 1][2], p[m][2 * k + 1][3]);
        }
#pragma unroll
        for (int n = 0; n < D / 16; ++n) {
            uint32_t b[4];
            ldmatrix_trans(b, fragment<D>(v_base, k, n));
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                mma_bf16(o[m][2 * n], a[m], b[0], b[1]);
                mma_bf16(o[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(config<D>::THREADS) forward_bf16(const forward_params params)
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

    const bf16 *q = view_head<const bf16>(a.q, place);
    const bf16 *k = view_head<const bf16>(a.k, place);
    const bf16 *v = view_head<const bf16>(a.v, place);
    const uint32_t q_tile = shared_address(shared), k_tiles = q_tile + C::Q_BYTES,
                   v_tiles = k_tiles + 2 * C::KV_BYTES;
    auto load = [&](int tile) {
        const uint32_t offset = (tile & 1) * C::KV_BYTES;
        tile_load<bf16, C::BN, D, C::THREADS>(k_tiles + offset, k, a.k.token_stride, tile * C::BN,
                                              tokens, head_dim);
        tile_load<bf16, C::BN, D, C::THREADS>(v_tiles + offset, v, a.v.token_stride, tile * C::BN,
                                              tokens, head_dim);
        cp_async_commit();
    };

    tile_load<bf16, C::BM, D, C::THREADS>(q_tile, q, a.q.token_stride, row0, tokens, head_dim);
    load(0);
    cp_async_wait<0>();
    __syncthreads();
    const lane_place rows = lane_rows(lane), cols = lane_cols(lane);
    const uint32_t k_base = k_tiles + swizzle<D>(cols.row, cols.chunk);
    const uint32_t v_base = v_tiles + swizzle<D>(rows.row, rows.chunk);
    uint32_t q_frag[C::M_TILES][D / 16][4];
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
        for (int i = 0; i < D / 16; ++i) {
            ldmatrix(q_frag[m][i],
                     q_tile + swizzle<D>(warp_row + m * 16 + rows.row, i * 2 + rows.chunk));
        }
    }

    float o[C::M_TILES][D / 8][4] = {}, row_max[C::M_TILES][2], row_sum[C::M_TILES][2] = {};
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
        row_max[m][0] = row_max[m][1] = -INFINITY;
    }
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<0>();
        __syncthreads(); // tile has landed for all, and all are done with the other buffer
        if (tile + 1 < tiles) {
            load(tile + 1);
        }
        const int key0 = tile * C::BN;
        if (CAUSAL && key0 > last_row) {
            continue;
        }
        const uint32_t offset = (tile & 1) * C::KV_BYTES;
        float s[C::M_TILES][8][4];
        scores<D, C::M_TILES>(s, q_frag, k_base + offset);
        if (key0 + C::BN > tokens || (CAUSAL && key0 + C::BN - 1 > first_row)) {
            mask_scores<C::M_TILES, CAUSAL>(s, key0, first_row, tokens, g, t);
        }
        softmax_tile<C::M_TILES>(s, row_max, row_sum, params, [&](int m, int half, float fade) {
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                o[m][n][2 * half] *= fade;
                o[m][n][2 * half + 1] *= fade;
            }
        });
        weigh<D, C::M_TILES>(o, s, v_base + offset);
    }

    // o leaves through the warp's own rows of the q tile, so that global stores are 16 bytes wide.
    float *lse = (float *)a.lse + head * a.shape.q_tokens;
    bf16 *out = view_head<bf16>(a.o, place);
#pragma unroll
    for (int m = 0; m < C::M_TILES; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row + m * 16 + half * 8 + g;
            const joined_row joined =
                join_row(row_max[m][half], quad_sum(row_sum[m][half]), params, lse, row0 + row);
            if (t == 0 && row0 + row < tokens) {
                lse[row0 + row] = joined.lse;
            }
            const bf16 *old = out + (row0 + row) * a.o.token_stride + 2 * t;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                const float2 x =
                    pair_added(o[m][n][2 * half], o[m][n][2 * half + 1], joined.scale,
                               n * 8 < head_dim ? joined.keep : KEEP_NOTHING, old + n * 8);
                *(uint32_t *)(shared + swizzle<D>(row, n) + 4 * t) = pack_bf16(x.x, x.y);
            }
        }
    }
    __syncwarp();
    for (int i = lane; i < C::M_TILES * 16 * (D / 8); i += 32) {
        const int row = warp_row + i / (D / 8), chunk = i % (D / 8);
        if (row0 + row < tokens && chunk * 8 < head_dim) {
            *(uint4 *)(out + (row0 + row) * a.o.token_stride + chunk * 8) =
                *(const uint4 *)(shared + swizzle<D>(row, chunk));
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
        launch, args->shape.causal ? forward_bf16<D, true> : forward_bf16<D, false>, blocks,
        C::THREADS, C::SHARED, forward_params_make(args), "attention bf16");
}

} // namespace

bt_status bt_attention_bf16_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_args *attention = (const bt_attention_args *)args;
    if (attention->shape.batch * attention->shape.heads * attention->shape.q_tokens == 0) {
        return BT_OK;
    }
    return attention->shape.head_dim <= 64 ? run<64>(launch, attention)
                                           : run<128>(launch, attention);
}
