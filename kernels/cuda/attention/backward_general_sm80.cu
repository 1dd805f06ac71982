// kernels/cuda/attention/backward_general_sm80.cu - flash attention backward for any call
// With P = exp(scale q k^T - lse) over the keys that a query sees, M dropout's mask (1 / (1 - rate)
// where kept, else 0), dP = M do v^T, delta = rowsum(do o), dS = P (dP - delta):
//   dv = (M P)^T do    dk = scale dS^T q    dq = scale dS k
// Shapes   views of [B, T, H, D], any strides; 1 <= D <= 256; grouped heads, counts of queries and
//          keys of their own, windows, packed documents: kernels.h
// Types    bf16 or tf32 products with fp32 sums, or fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     one kernel, launched twice: blocks that own queries and pass over keys sum dq, blocks
//          that own keys and pass over the group's heads and their queries sum dk and dv, 128
//          columns at a time. Both compute P anew, so nothing is summed across blocks.
// Workspace stats [B, H, q_tokens] of {lse log2(e), delta}, f32
// Bitwise  one thread sums an output: heads ascending, then tokens ascending
// NaN      a NaN in a query's operands reaches its dq and the keys that it sees; one in k or v
//          reaches the rows of its tile as well
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
#include "kernels/cuda/attention/general.cuh"

namespace
{

struct general_params {
    bt_attention_backward_args a;
    float scale, scale_log2;
    bool aligned;
    float2 *stats; // [batch, heads, q_tokens]
    dropout_step dropout;
};

template <typename M, int DIM, bool KEYS> struct config {
    using T = typename M::T;
    static constexpr bool NARROW = sizeof(T) == 2;
    static constexpr int D = DIM, THREADS = !NARROW && D == 256 ? 64 : 128, BM = THREADS / 2;
    static constexpr int BN = NARROW ? (D == 64 ? 64 : 32) : (D == 64 ? 32 : 16);
    static constexpr int COLUMNS = KEYS && D == 256 ? 128 : D, PARTS = D / COLUMNS;
    static constexpr int OWN_BYTES = tile_bytes<T, BM, D>(), STREAM_BYTES = tile_bytes<T, BN, D>();
    static constexpr int WARP_BYTES = tile_bytes<T, 16, D>(); // of a warp's own rows
    static constexpr int STAGE_BYTES = 2 * STREAM_BYTES + BN * 8 + BM * MASK_WORDS<BN> * 4;
    static constexpr int STAGES = 2 * OWN_BYTES + 2 * STAGE_BYTES <= SHARED_LIMIT ? 2 : 1;
    static constexpr int SHARED = 2 * OWN_BYTES + STAGES * STAGE_BYTES;
    static_assert(STAGES == 1 || !NARROW || STAGE_BYTES % (2 * D) == 0,
                  "stages must hold whole rows");
};

// A warp per query row. delta: as given, or computed, and written where it is wanted.
template <typename T> __global__ void __launch_bounds__(256) prepare(general_params params)
{
    const bt_attention_backward_args &a = params.a;
    const bt_attention_shape &s = a.shape;
    const int64_t index = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    if (index >= s.batch * s.heads * s.q_tokens) {
        return;
    }
    const head_place place = head_place_make(s.heads, index / s.q_tokens);
    const int64_t row = index % s.q_tokens;
    const T *o = view_head<const T>(a.o, place) + row * a.o.token_stride;
    const T *d_o = view_head<const T>(a.d_o, place) + row * a.d_o.token_stride;
    float delta = 0.0f;
    if (a.delta_given) {
        delta = ((const float *)a.delta)[index];
    } else {
        for (int d = threadIdx.x % 32; d < s.head_dim; d += 32) {
            delta = fmaf(value_of(o[d]), value_of(d_o[d]), delta);
        }
        delta = quad_sum(delta);
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
            delta += __shfl_xor_sync(0xffffffffU, delta, step);
        }
    }
    if (threadIdx.x % 32 == 0) {
        params.stats[index] = make_float2(((const float *)a.lse)[index] * LOG2_E, delta);
        if (a.delta && !a.delta_given) {
            ((float *)a.delta)[index] = delta;
        }
    }
}

template <typename M, int D, bool KEYS>
__global__ void __launch_bounds__(config<M, D, KEYS>::THREADS, D == 64 ? 2 : 1)
    backward_general(const __grid_constant__ general_params params)
{
    using C = config<M, D, KEYS>;
    using T = typename C::T;
    constexpr int N = C::BN / 8, COLS = C::COLUMNS / 8;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_backward_args &a = params.a;
    const bt_attention_shape &s = a.shape;
    const int head_dim = (int)s.head_dim;
    const int warp = threadIdx.x >> 5, g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
    const int own_tokens = (int)(KEYS ? s.kv_tokens : s.q_tokens);
    const int other_tokens = (int)(KEYS ? s.q_tokens : s.kv_tokens);
    const int64_t tiles = (own_tokens + C::BM - 1) / C::BM, group = s.heads / s.kv_heads;
    const int column0 = (int)(blockIdx.x % C::PARTS) * C::COLUMNS;
    const int64_t item = blockIdx.x / C::PARTS, own_head = item / tiles;
    const int64_t tile = item % tiles; // the longest of a causal call first
    const int row0 = (int)(KEYS ? tile : tiles - 1 - tile) * C::BM, row = row0 + warp * 16 + g;
    const head_place place = head_place_make(KEYS ? s.kv_heads : s.heads, own_head);
    const bt_attention_view &x_view = KEYS ? a.k : a.q, &y_view = KEYS ? a.v : a.d_o;
    const bt_attention_view &u_view = KEYS ? a.q : a.k, &w_view = KEYS ? a.d_o : a.v;
    unsigned char *x_tile = shared, *y_tile = x_tile + C::OWN_BYTES;
    const seen_range block = seen_by_tile<KEYS, C::BM>(s, row0);
    const seen_rows rows = {{seen_by<KEYS>(s, row), seen_by<KEYS>(s, row + 8)}};

    rows_load<T, C::BM, D, C::THREADS>(x_tile, view_head<const T>(x_view, place),
                                       x_view.token_stride, row0, own_tokens, head_dim,
                                       params.aligned);
    rows_load<T, C::BM, D, C::THREADS>(y_tile, view_head<const T>(y_view, place),
                                       y_view.token_stride, row0, own_tokens, head_dim,
                                       params.aligned);
    cp_async_commit(); // a wait ignores copies that belong to no group
    // One head of the group after another; for each the tiles that are not fully masked.
    const int64_t members = block.begin < block.end ? (KEYS ? group : 1) : 0;
    float2 next_stat = make_float2(INFINITY, 0.0f);
    auto head_of = [&](int64_t member) {
        return KEYS ? place.head * group + member : place.head / group;
    };
    auto load = [&](int64_t member, int at, int stage) {
        const head_place other = {place.batch, head_of(member)};
        unsigned char *u_tile = shared + 2 * C::OWN_BYTES + stage * C::STAGE_BYTES;
        rows_load<T, C::BN, D, C::THREADS>(u_tile, view_head<const T>(u_view, other),
                                           u_view.token_stride, at, other_tokens, head_dim,
                                           params.aligned);
        rows_load<T, C::BN, D, C::THREADS>(u_tile + C::STREAM_BYTES,
                                           view_head<const T>(w_view, other), w_view.token_stride,
                                           at, other_tokens, head_dim, params.aligned);
        cp_async_commit();
        if (KEYS && threadIdx.x < C::BN) {
            const int query = at + (int)threadIdx.x;
            next_stat = make_float2(INFINITY, 0.0f);
            if (query < other_tokens) {
                next_stat =
                    params.stats[(place.batch * s.heads + other.head) * other_tokens + query];
            }
        }
    };
    if (C::STAGES == 2 && members > 0) {
        load(0, block.begin, 0);
    }
    cp_async_wait<0>();
    rows_finish<M, C::BM, D, C::THREADS>(x_tile);
    rows_finish<M, C::BM, D, C::THREADS>(y_tile);
    float2 own_stat[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (!KEYS && row + half * 8 < own_tokens) {
            own_stat[half] = params.stats[own_head * own_tokens + row + half * 8];
        }
    }
    float first[COLS][4] = {};             // dq, or dk
    float second[KEYS ? COLS : 1][4] = {}; // dv
    int stage = 0, next_at = block.begin;
    for (int64_t member = 0, next = 0; member < members; member = next) {
        const int at = next_at;
        const bool head_ends = at + C::BN >= block.end;
        next_at = head_ends ? block.begin : at + C::BN;
        next = member + (head_ends ? 1 : 0);
        unsigned char *u_tile = shared + 2 * C::OWN_BYTES + stage * C::STAGE_BYTES;
        unsigned char *w_tile = u_tile + C::STREAM_BYTES;
        float2 *stat_tile = (float2 *)(w_tile + C::STREAM_BYTES); // KEYS: of the stream's queries
        uint32_t *mask = (uint32_t *)(stat_tile + C::BN);
        if (C::STAGES == 1) {
            __syncthreads(); // all are done with the tiles before
            load(member, at, 0);
        }
        if (KEYS && threadIdx.x < C::BN) {
            stat_tile[threadIdx.x] = next_stat;
        }
        if (s.dropout > 0) {
            const int64_t query_head =
                place.batch * s.heads + (KEYS ? head_of(member) : place.head);
            mask_fill<KEYS, C::BM, C::BN, C::THREADS>(mask, params.dropout, s, query_head, row0,
                                                      at);
        }
        cp_async_wait<0>();
        rows_finish<M, C::BN, D, C::THREADS>(u_tile);
        rows_finish<M, C::BN, D, C::THREADS>(w_tile);
        __syncthreads(); // the tiles are there, and all are done with those before
        if (C::STAGES == 2) {
            stage ^= 1;
            if (next < members) {
                load(next, next_at, stage);
            }
        }
        if (!rows.any(at, C::BN)) {
            continue;
        }
        float p[N][4] = {}, ds[N][4] = {};
        product_nt<M, D, N>(p, x_tile + warp * C::WARP_BYTES, u_tile);
        product_nt<M, D, N>(ds, y_tile + warp * C::WARP_BYTES, w_tile);
        // p becomes M P, ds becomes dS.
#pragma unroll
        for (int i = 0; i < 4 * N; ++i) {
            const int half = i >> 1 & 1, column = (i >> 2) * 8 + 2 * t + (i & 1);
            const float2 stat = KEYS ? stat_tile[column] : own_stat[half];
            float &weight = p[i >> 2][i & 3], &slope = ds[i >> 2][i & 3];
            const float x = exp2_fast(fmaf(weight, params.scale_log2, -stat.x));
            weight = x;
            if (s.dropout > 0) {
                const bool keeps = mask_keeps<C::BN>(mask, warp * 16 + g + half * 8, column);
                weight = keeps ? x * params.dropout.scale : 0.0f;
                slope = keeps ? slope * params.dropout.scale : 0.0f;
            }
            slope = x * (slope - stat.y);
        }
        if (!rows.whole(at, C::BN)) {
#pragma unroll
            for (int i = 0; i < 4 * N; ++i) {
                const int column = (i >> 2) * 8 + 2 * t + (i & 1);
                const bool sees = rows.sees(i >> 1 & 1, at + column);
                p[i >> 2][i & 3] = sees ? p[i >> 2][i & 3] : 0.0f;
                ds[i >> 2][i & 3] = sees ? ds[i >> 2][i & 3] : 0.0f;
            }
        }
        product_nn<M, D, COLS, N>(first, ds, u_tile, column0);
        if constexpr (KEYS) {
            product_nn<M, D, COLS, N>(second, p, w_tile, column0);
        }
    }
    const bt_attention_view &first_view = KEYS ? a.dk : a.dq;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t at = row + half * 8;
        if (at < own_tokens) {
            row_store<T, COLS>(view_head<T>(first_view, place) + at * first_view.token_stride,
                               first, half, params.scale, column0, head_dim,
                               (KEYS ? a.accumulate_dkv : a.accumulate_dq) ? 1.0f : KEEP_NOTHING);
            if constexpr (KEYS) {
                row_store<T, COLS>(view_head<T>(a.dv, place) + at * a.dv.token_stride, second, half,
                                   1.0f, column0, head_dim, a.accumulate_dkv ? 1.0f : KEEP_NOTHING);
            }
        }
    }
}

size_t stats_bytes(const bt_attention_shape &s)
{
    return bt_align_256((size_t)(s.batch * s.heads * s.q_tokens) * sizeof(float2));
}

template <typename M, int D, bool KEYS>
bt_status start(const bt_launch *launch, const general_params &params, const char *name)
{
    using C = config<M, D, KEYS>;
    static_assert(C::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
    const bt_attention_shape &s = params.a.shape;
    const int64_t heads = s.batch * (KEYS ? s.kv_heads : s.heads);
    const int64_t tiles = ((KEYS ? s.kv_tokens : s.q_tokens) + C::BM - 1) / C::BM;
    return heads * tiles == 0
               ? BT_OK
               : launch_kernel(launch, backward_general<M, D, KEYS>, heads * tiles * C::PARTS,
                               C::THREADS, C::SHARED, params, name);
}

// The gradients that are wanted.
template <typename M, int D>
bt_status start_both(const bt_launch *launch, const general_params &params, const char *name)
{
    if (params.a.dq.base) {
        BT_TRY((start<M, D, false>(launch, params, name)));
    }
    return params.a.dk.base ? start<M, D, true>(launch, params, name) : BT_OK;
}

template <typename M>
bt_status run(const bt_launch *launch, const bt_attention_backward_args *args, const char *name)
{
    using T = typename M::T;
    const bt_attention_shape &s = args->shape;
    const int64_t rows = s.batch * s.heads * s.q_tokens;
    if (launch->workspace_bytes < stats_bytes(s)) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %zu bytes of workspace, %zu are needed",
                        name, launch->workspace_bytes, stats_bytes(s));
    }
    bool aligned = true;
    const bt_attention_view *views[] = {&args->q, &args->k, &args->v, &args->d_o};
    for (const bt_attention_view *view : views) {
        aligned = aligned && view_is_aligned(*view, s.head_dim, sizeof(T));
    }
    const general_params params = {*args,
                                   (float)s.scale,
                                   (float)(s.scale * 1.4426950408889634),
                                   aligned,
                                   (float2 *)launch->workspace,
                                   dropout_step_make(s.dropout, s.seed, s.stream)};
    if (rows > 0) {
        BT_TRY(launch_kernel(launch, prepare<T>, (rows + 7) / 8, 256, 0, params, name));
    }
    return s.head_dim <= 64    ? start_both<M, 64>(launch, params, name)
           : s.head_dim <= 128 ? start_both<M, 128>(launch, params, name)
                               : start_both<M, 256>(launch, params, name);
}

} // namespace

bt_status bt_attention_backward_general_bf16_sm80(const bt_launch *launch, const void *args)
{
    return run<bf16_math>(launch, (const bt_attention_backward_args *)args,
                          "attention_backward general bf16");
}

bt_status bt_attention_backward_general_tf32_sm80(const bt_launch *launch, const void *args)
{
    return run<tf32_math>(launch, (const bt_attention_backward_args *)args,
                          "attention_backward general tf32");
}

bt_status bt_attention_backward_general_f32_sm80(const bt_launch *launch, const void *args)
{
    return run<fp32_math>(launch, (const bt_attention_backward_args *)args,
                          "attention_backward general f32");
}

size_t bt_attention_backward_general_workspace(const bt_device *device, const void *args)
{
    (void)device;
    return stats_bytes(((const bt_attention_backward_args *)args)->shape);
}
