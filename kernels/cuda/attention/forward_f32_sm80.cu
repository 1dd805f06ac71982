// kernels/cuda/attention/forward_f32_sm80.cu - flash attention in IEEE fp32 on the FMA units
//   o = softmax(scale q k^T) v by the online softmax: running maximum m, sum l and unscaled o
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8; lse [B, H, T] f32
// Types    fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     a block of 4 warps takes 128 (D <= 64) or 64 query rows of one head and 64 or 32 keys at
//          a time; a warp owns 32 or 16 rows, a thread ROWS x 8 scores (x 4 at D <= 128) and ROWS x
//          D / 8 sums, in registers. q and k are transposed on their way to shared memory, so that
//          both products are outer products: ffma.cuh. P passes through a patch of shared memory
//          that belongs to the warp, transposed as well, 32 keys at a time. k and v take turns as
//          in forward_tf32_sm80.cu.
// Order    Rows that see most keys come first, of all heads. A warp of 32 rows has 16 in each half
//          of its block: under a causal mask all warps compute the last tile, for the second half
//          alone. The first warps still have less to do: of two blocks on an SM one takes its rows
//          in reverse order, so that every scheduler gets as much.
// Bitwise  one thread sums an output, in ascending key order; a row's l is a tree over 8 lanes
// NaN      as forward_bf16_sm80.cu
// Errors   accepts() as in accepts.cu
// Oracle   softmax in float64, see tests/conformance/test_attention.c
#include "kernels/cuda/attention/ffma.cuh"

namespace
{

template <int D> struct config {
    static constexpr int THREADS = 128, ROWS = D == 64 ? 8 : 4, BM = 16 * ROWS;
    static constexpr int BN = D == 64 ? 64 : 32, KEYS = BN / 8; // KEYS: of a thread
    static constexpr int COLS = D / 8, STRIDE = D + 4;
    static constexpr int Q_STRIDE = BM + 4, K_STRIDE = BN + 4, P_STRIDE = BM / 4 + 4;
    static constexpr int Q_FLOATS = D * Q_STRIDE, K_FLOATS = D * K_STRIDE, V_FLOATS = BN * STRIDE;
    static constexpr int P_FLOATS = 32 * P_STRIDE; // of a warp
    static constexpr int SHARED = (Q_FLOATS + K_FLOATS + V_FLOATS + 4 * P_FLOATS) * 4;
};

// Row i of a thread, from its first one on.
__host__ __device__ constexpr int row_of(int i) { return i / 4 * 64 + i % 4; }

template <int FIRST> struct rows_from {
    static constexpr int value = FIRST;
};

// Whether this block has the upper warp slots of its SM's schedulers; the same for all threads.
__device__ __forceinline__ bool upper_slots()
{
    __shared__ uint32_t slot;
    if (threadIdx.x == 0) {
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    }
    __syncthreads();
    return slot & 4;
}

// Scores of a tile become unscaled P, of rows FIRST on; row_max, row_sum and o are brought up to
// date.
template <int FIRST, int ROWS, int KEYS, int COLS>
__device__ __forceinline__ void softmax(float (&s)[ROWS][KEYS], float (&o)[ROWS][COLS],
                                        float (&row_max)[ROWS], float (&row_sum)[ROWS],
                                        float scale_log2)
{
#pragma unroll
    for (int i = FIRST; i < ROWS; ++i) {
        float top = row_max[i];
#pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            top = fmaxf(top, s[i][j]);
        }
        top = row_of_lanes_max(top);
        const float shift = top == -INFINITY ? 0.0f : top * scale_log2;
        const float fade = exp2_fast(fmaf(row_max[i], scale_log2, -shift));
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            s[i][j] = exp2_fast(fmaf(s[i][j], scale_log2, -shift));
            sum += s[i][j];
        }
        row_max[i] = top;
        row_sum[i] = fmaf(row_sum[i], fade, sum);
#pragma unroll
        for (int d = 0; d < COLS; ++d) {
            o[i][d] *= fade;
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(128, 2) forward_f32(const forward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim;
    const int64_t heads = a.shape.batch * a.shape.heads, head = blockIdx.x % heads;
    const head_place place = head_place_make(a.shape.heads, head);
    const int row0 = ((tokens - 1) / C::BM - (int)(blockIdx.x / heads)) * C::BM;
    const int lane = threadIdx.x & 31, r = lane_r(lane), c = lane_c(lane);
    const int warp = CAUSAL && upper_slots() ? 3 - (threadIdx.x >> 5) : threadIdx.x >> 5;
    const int warp_row = warp * 16, last_row = row0 + C::BM - 64 + warp_row + 15;
    const int first_row = row0 + warp_row + 4 * r; // the thread's; row i: row_of(i) further
    const int keys = CAUSAL ? min(tokens, row0 + C::BM) : tokens;

    const float *q = view_head<const float>(a.q, place);
    const float *k = view_head<const float>(a.k, place);
    const float *v = view_head<const float>(a.v, place);
    float *q_tile = (float *)shared, *k_tile = q_tile + C::Q_FLOATS, *v_tile = k_tile + C::K_FLOATS,
          *p_tile = v_tile + C::V_FLOATS + warp * C::P_FLOATS;
    auto load_k = [&](int key0) {
        tile_load_transposed<C::BN, D, C::THREADS>(k_tile, C::K_STRIDE, k, a.k.token_stride, key0,
                                                   tokens, head_dim);
        cp_async_commit();
    };
    tile_load_transposed<C::BM, D, C::THREADS>(q_tile, C::Q_STRIDE, q, a.q.token_stride, row0,
                                               tokens, head_dim);
    load_k(0);

    float o[C::ROWS][C::COLS] = {}, row_max[C::ROWS], row_sum[C::ROWS] = {};
#pragma unroll
    for (int i = 0; i < C::ROWS; ++i) {
        row_max[i] = -INFINITY;
    }
    // Rows from `first` on meet keys key0 ..; a thread's other rows see none of them.
    auto step = [&](int key0, auto first) {
        constexpr int FIRST = decltype(first)::value, COUNT = C::ROWS - FIRST;
        const bool active = !CAUSAL || key0 <= last_row;
        float s[C::ROWS][C::KEYS] = {};
        cp_async_wait<0>();
        __syncthreads(); // k has landed for all, and all are done with v of the tile before
        tile_load<float, C::BN, D, C::THREADS>(shared_address(v_tile), v, a.v.token_stride, key0,
                                               tokens, head_dim);
        cp_async_commit();
        if (active) {
            product_square<COUNT, C::KEYS>(*(float(*)[COUNT][C::KEYS])(s + FIRST),
                                           q_tile + warp_row + 4 * r + row_of(FIRST), C::Q_STRIDE,
                                           64, k_tile + 4 * c, C::K_STRIDE, D);
            if (key0 + C::BN > tokens || (CAUSAL && key0 + C::BN - 1 > row0 + warp_row)) {
#pragma unroll
                for (int i = FIRST; i < C::ROWS; ++i) {
#pragma unroll
                    for (int j = 0; j < C::KEYS; ++j) {
                        const int key = key0 + 4 * c + j / 4 * 32 + j % 4;
                        if (key >= tokens || (CAUSAL && key > first_row + row_of(i))) {
                            s[i][j] = -INFINITY;
                        }
                    }
                }
            }
            softmax<FIRST>(s, o, row_max, row_sum, params.scale_log2);
        }
        cp_async_wait<0>();
        __syncthreads(); // v has landed for all, and all are done with k
        if (key0 + C::BN < keys) {
            load_k(key0 + C::BN);
        }
#pragma unroll
        for (int part = 0; part < C::BN / 32; ++part) {
            if (CAUSAL && key0 + 32 * part > last_row) {
                break;
            }
            __syncwarp();
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int i = FIRST; i < C::ROWS; i += 4) {
                    const int key = 4 * part + j; // of the thread's
                    *(float4 *)(p_tile + (4 * c + j) * C::P_STRIDE + 4 * r + 4 * i) =
                        make_float4(s[i][key], s[i + 1][key], s[i + 2][key], s[i + 3][key]);
                }
            }
            __syncwarp();
            product_square<COUNT, C::COLS>(*(float(*)[COUNT][C::COLS])(o + FIRST),
                                           p_tile + 4 * r + 4 * FIRST, C::P_STRIDE, 16,
                                           v_tile + part * 32 * C::STRIDE + 4 * c, C::STRIDE, 32);
        }
    };
    for (int key0 = 0; key0 < keys; key0 += C::BN) {
        if (CAUSAL && C::ROWS == 8 && key0 >= row0 + 64) {
            step(key0, rows_from<C::ROWS - 4>{});
        } else {
            step(key0, rows_from<0>{});
        }
    }

    float *lse = (float *)a.lse + head * a.shape.q_tokens, *out = view_head<float>(a.o, place);
#pragma unroll
    for (int i = 0; i < C::ROWS; ++i) {
        const int row = first_row + row_of(i);
        const joined_row joined =
            join_row(row_max[i], row_of_lanes_sum(row_sum[i]), params, lse, row);
        if (row < tokens) {
            if (c == 0) {
                lse[row] = joined.lse;
            }
            store_row<D>(out + row * a.o.token_stride, o[i], joined.scale, c, head_dim,
                         joined.keep);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_args *args)
{
    using C = config<D>;
    static_assert(C::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
    const int64_t blocks =
        args->shape.batch * args->shape.heads * ((args->shape.q_tokens + C::BM - 1) / C::BM);
    return launch_kernel(launch, args->shape.causal ? forward_f32<D, true> : forward_f32<D, false>,
                         blocks, C::THREADS, C::SHARED, forward_params_make(args), "attention f32");
}

} // namespace

bt_status bt_attention_f32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_args *attention = (const bt_attention_args *)args;
    if (attention->shape.batch * attention->shape.heads * attention->shape.q_tokens == 0) {
        return BT_OK;
    }
    return attention->shape.head_dim <= 64 ? run<64>(launch, attention)
                                           : run<128>(launch, attention);
}
