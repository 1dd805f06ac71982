// kernels/cuda/attention/forward_general_sm80.cu - flash attention for any call
//   o = dropout(softmax(scale q k^T over the keys that a query sees)) v, by the online softmax
// Shapes   views of [B, T, H, D], any strides; 1 <= D <= 256; grouped heads, counts of queries and
//          keys of their own, windows, packed documents: kernels.h
// Types    bf16 or tf32 products with fp32 sums, or fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     a block of 4 warps takes 64 query rows of a head, a warp 16 of them, and passes over the
//          tiles of keys between the first row's first and the last row's last key. The next tiles
//          arrive while one is computed, where shared memory has room for both.
// Bitwise  one thread sums an output, in ascending key order
// NaN      a NaN in a query reaches its own row, one in k or v the rows of its tile as well
// Errors   accepts() as in accepts.cu
// Oracle   float64, see tests/conformance/test_attention.c
#include "kernels/cuda/attention/general.cuh"

namespace
{

struct general_params {
    bt_attention_args a;
    float scale_log2;
    bool aligned;
    dropout_step dropout;
};

template <typename M, int DIM> struct config {
    using T = typename M::T;
    static constexpr int D = DIM, THREADS = 128, BM = 64;
    static constexpr int BN = sizeof(T) == 2 ? 64 : D == 64 ? 64 : D == 128 ? 32 : 16;
    static constexpr int OWN_BYTES = tile_bytes<T, BM, D>(), STREAM_BYTES = tile_bytes<T, BN, D>();
    static constexpr int WARP_BYTES = tile_bytes<T, 16, D>(); // of a warp's own rows
    static constexpr int STAGE_BYTES = 2 * STREAM_BYTES + BM * MASK_WORDS<BN> * 4;
    static constexpr int STAGES = OWN_BYTES + 2 * STAGE_BYTES <= SHARED_LIMIT ? 2 : 1;
    static constexpr int SHARED = OWN_BYTES + STAGES * STAGE_BYTES;
    static_assert(STAGES == 1 || sizeof(T) == 4 || STAGE_BYTES % (2 * D) == 0,
                  "stages must hold whole rows");
};

template <typename M, int D>
__global__ void __launch_bounds__(128, D == 256 ? 1 : 2)
    forward_general(const __grid_constant__ general_params params)
{
    using C = config<M, D>;
    using T = typename C::T;
    constexpr int N = C::BN / 8;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_args &a = params.a;
    const bt_attention_shape &s = a.shape;
    const int head_dim = (int)s.head_dim, keys = (int)s.kv_tokens;
    const int warp = threadIdx.x >> 5, g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
    const int64_t tiles = (s.q_tokens + C::BM - 1) / C::BM;
    const int64_t head = blockIdx.x / tiles;
    const int row0 = (int)(tiles - 1 - blockIdx.x % tiles) * C::BM, row = row0 + warp * 16 + g;
    const head_place place = head_place_make(s.heads, head);
    const head_place kv_place = {place.batch, place.head / (s.heads / s.kv_heads)};
    const T *k = view_head<const T>(a.k, kv_place), *v = view_head<const T>(a.v, kv_place);
    unsigned char *q_tile = shared;
    const seen_range block = seen_by_tile<false, C::BM>(s, row0);
    const seen_rows rows = {{seen_by<false>(s, row), seen_by<false>(s, row + 8)}};

    rows_load<T, C::BM, D, C::THREADS>(q_tile, view_head<const T>(a.q, place), a.q.token_stride,
                                       row0, (int)s.q_tokens, head_dim, params.aligned);
    cp_async_commit(); // a wait ignores copies that belong to no group
    auto load = [&](int key0, int stage) {
        unsigned char *k_tile = shared + C::OWN_BYTES + stage * C::STAGE_BYTES;
        rows_load<T, C::BN, D, C::THREADS>(k_tile, k, a.k.token_stride, key0, keys, head_dim,
                                           params.aligned);
        rows_load<T, C::BN, D, C::THREADS>(k_tile + C::STREAM_BYTES, v, a.v.token_stride, key0,
                                           keys, head_dim, params.aligned);
        cp_async_commit();
    };
    if (C::STAGES == 2 && block.begin < block.end) {
        load(block.begin, 0);
    }
    cp_async_wait<0>();
    rows_finish<M, C::BM, D, C::THREADS>(q_tile);
    float o[D / 8][4] = {}, row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
    int stage = 0;
    for (int key0 = block.begin; key0 < block.end; key0 += C::BN) {
        unsigned char *k_tile = shared + C::OWN_BYTES + stage * C::STAGE_BYTES;
        unsigned char *v_tile = k_tile + C::STREAM_BYTES;
        uint32_t *mask = (uint32_t *)(v_tile + C::STREAM_BYTES);
        if (C::STAGES == 1) {
            __syncthreads(); // all are done with the tiles before
            load(key0, 0);
        }
        if (s.dropout > 0) {
            mask_fill<false, C::BM, C::BN, C::THREADS>(mask, params.dropout, s, head, row0, key0);
        }
        cp_async_wait<0>();
        rows_finish<M, C::BN, D, C::THREADS>(k_tile);
        rows_finish<M, C::BN, D, C::THREADS>(v_tile);
        __syncthreads(); // the tiles are there, and all are done with those before
        if (C::STAGES == 2) {
            stage ^= 1;
            if (key0 + C::BN < block.end) {
                load(key0 + C::BN, stage);
            }
        }
        if (!rows.any(key0, C::BN)) {
            continue;
        }
        float p[N][4] = {};
        product_nt<M, D, N>(p, q_tile + warp * C::WARP_BYTES, k_tile);
#pragma unroll
        for (int i = 0; i < 4 * N; ++i) {
            p[i >> 2][i & 3] *= params.scale_log2;
        }
        if (!rows.whole(key0, C::BN)) {
#pragma unroll
            for (int i = 0; i < 4 * N; ++i) {
                const int column = (i >> 2) * 8 + 2 * t + (i & 1);
                float &x = p[i >> 2][i & 3];
                x = rows.sees(i >> 1 & 1, key0 + column) ? x : -INFINITY;
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = row_max[half];
#pragma unroll
            for (int i = 0; i < 2 * N; ++i) {
                top = fmaxf(top, p[i >> 1][2 * half + (i & 1)]);
            }
            top = quad_max(top);
            const float shift = top == -INFINITY ? 0.0f : top;
            const float fade = exp2_fast(row_max[half] - shift);
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 2 * N; ++i) {
                float &x = p[i >> 1][2 * half + (i & 1)];
                x = exp2_fast(x - shift);
                sum += x;
            }
            row_sum[half] = fmaf(row_sum[half], fade, sum);
            if (__any_sync(0xffffffffU, row_max[half] != top)) {
#pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    o[n][2 * half] *= fade;
                    o[n][2 * half + 1] *= fade;
                }
            }
            row_max[half] = top;
        }
        if (s.dropout > 0) {
#pragma unroll
            for (int i = 0; i < 4 * N; ++i) {
                const int column = (i >> 2) * 8 + 2 * t + (i & 1);
                const bool kept = mask_keeps<C::BN>(mask, warp * 16 + g + (i >> 1 & 1) * 8, column);
                p[i >> 2][i & 3] = kept ? p[i >> 2][i & 3] * params.dropout.scale : 0.0f;
            }
        }
        product_nn<M, D, D / 8, N>(o, p, v_tile, 0);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int at = row + half * 8;
        const float sum = quad_sum(row_sum[half]);
        const bool sees = rows.of[half].begin < rows.of[half].end;
        float *const to = (float *)a.lse + head * s.q_tokens + at;
        float lse = sees ? fmaf(row_max[half], LN_2, logf(sum)) : -INFINITY;
        float factor = sees ? 1.0f / sum : 1.0f, keep = KEEP_NOTHING;
        if (a.accumulate) {
            keep = merge_lse(lse, at < s.q_tokens ? *to : -INFINITY, factor);
            __syncwarp(); // a quad has read the old lse before one of its lanes overwrites it
        }
        if (at < s.q_tokens) {
            if (t == 0) {
                *to = lse;
            }
            if (!sees) {
#pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    o[n][2 * half] = o[n][2 * half + 1] = 0.0f;
                }
            }
            row_store<T, D / 8>(view_head<T>(a.o, place) + at * a.o.token_stride, o, half, factor,
                                0, head_dim, keep);
        }
    }
}

template <typename M, int D>
bt_status run(const bt_launch *launch, const bt_attention_args *args, const char *name)
{
    using C = config<M, D>;
    static_assert(C::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
    const bt_attention_shape &s = args->shape;
    const size_t size = sizeof(typename C::T);
    const general_params params = {*args, (float)(s.scale * 1.4426950408889634),
                                   view_is_aligned(args->q, s.head_dim, size) &&
                                       view_is_aligned(args->k, s.head_dim, size) &&
                                       view_is_aligned(args->v, s.head_dim, size),
                                   dropout_step_make(s.dropout, s.seed, s.stream)};
    return launch_kernel(launch, forward_general<M, D>,
                         s.batch * s.heads * ((s.q_tokens + C::BM - 1) / C::BM), C::THREADS,
                         C::SHARED, params, name);
}

template <typename M>
bt_status run(const bt_launch *launch, const bt_attention_args *args, const char *name)
{
    const bt_attention_shape &s = args->shape;
    if (s.batch * s.heads * s.q_tokens == 0) {
        return BT_OK;
    }
    return s.head_dim <= 64    ? run<M, 64>(launch, args, name)
           : s.head_dim <= 128 ? run<M, 128>(launch, args, name)
                               : run<M, 256>(launch, args, name);
}

} // namespace

bt_status bt_attention_general_bf16_sm80(const bt_launch *launch, const void *args)
{
    return run<bf16_math>(launch, (const bt_attention_args *)args, "attention general bf16");
}

bt_status bt_attention_general_tf32_sm80(const bt_launch *launch, const void *args)
{
    return run<tf32_math>(launch, (const bt_attention_args *)args, "attention general tf32");
}

bt_status bt_attention_general_f32_sm80(const bt_launch *launch, const void *args)
{
    return run<fp32_math>(launch, (const bt_attention_args *)args, "attention general f32");
}
