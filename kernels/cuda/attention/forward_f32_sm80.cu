// kernels/cuda/attention/forward_f32_sm80.cu - flash attention in IEEE fp32 on the FMA units
//   o = softmax(scale q k^T) v by the online softmax: running maximum m, sum l and unscaled o
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8; lse [B, H, T] f32
// Types    fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     a block of 4 warps takes 128 (D <= 64) or 64 query rows of one head and 64 or 32 keys at
//          a time; a warp owns 32 or 16 rows, a thread ROWS x 8 scores (x 4 at D <= 128) and ROWS x
//          D / 8 sums, in registers. Operands come from shared memory 16 bytes at a time along the
//          summed index. P passes through a patch of shared memory that belongs to the warp, 32
//          keys at a time. k and v take turns as in forward_tf32_sm80.cu.
// Lanes    r (4 values) picks a row, c (8 values) a key or column. r is made of lane bits 1 and 4,
// c
//          of bits 0, 2 and 3: then lanes i and i ^ 1 read the same row, lanes i and i ^ 2 the same
//          key, which lets shared memory serve two quarter-warps of a 16-byte access at once.
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
    static constexpr int COLS = D / 8, STRIDE = D + 4, P_STRIDE = 36;
    static constexpr int Q_FLOATS = BM * STRIDE, KV_FLOATS = BN * STRIDE;
    static constexpr int SHARED = (Q_FLOATS + 2 * KV_FLOATS + BM * P_STRIDE) * 4;
};

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(128, 2) forward_f32(const forward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) unsigned char shared[];
    const bt_attention_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim;
    const int blocks = (tokens + C::BM - 1) / C::BM;
    const int64_t head = blockIdx.x / blocks;
    const head_place place = head_place_make(a.shape.heads, head);
    const int row0 = (blocks - 1 - (int)(blockIdx.x % blocks)) * C::BM;
    const int warp = threadIdx.x >> 5, r = lane_r(threadIdx.x & 31), c = lane_c(threadIdx.x & 31);
    const int warp_row = warp * 4 * C::ROWS + r; // of row 0 of the thread; row i is 4 i further
    const int last_row = row0 + (warp + 1) * 4 * C::ROWS - 1;
    const int keys = CAUSAL ? min(tokens, row0 + C::BM) : tokens;
    const int tiles = (keys + C::BN - 1) / C::BN;

    const float *q = view_head<const float>(a.q, place);
    const float *k = view_head<const float>(a.k, place);
    const float *v = view_head<const float>(a.v, place);
    float *q_tile = (float *)shared, *k_tile = q_tile + C::Q_FLOATS,
          *v_tile = k_tile + C::KV_FLOATS, *p_tile = v_tile + C::KV_FLOATS;
    auto load = [&](float *tile, const float *from, int64_t stride, int key0) {
        tile_load<float, C::BN, D, C::THREADS>(shared_address(tile), from, stride, key0, tokens,
                                               head_dim);
        cp_async_commit();
    };
    tile_load<float, C::BM, D, C::THREADS>(shared_address(q_tile), q, a.q.token_stride, row0,
                                           tokens, head_dim);
    load(k_tile, k, a.k.token_stride, 0);

    float o[C::ROWS][C::COLS] = {}, row_max[C::ROWS], row_sum[C::ROWS] = {};
#pragma unroll
    for (int i = 0; i < C::ROWS; ++i) {
        row_max[i] = -INFINITY;
    }
    for (int tile = 0; tile < tiles; ++tile) {
        const int key0 = tile * C::BN;
        const bool active = !CAUSAL || key0 <= last_row;
        float s[C::ROWS][C::KEYS] = {};
        cp_async_wait<0>();
        __syncthreads(); // k has landed for all, and all are done with v of the tile before
        load(v_tile, v, a.v.token_stride, key0);
        if (active) {
            product_nt<D, C::ROWS, C::KEYS>(s, q_tile + warp_row * C::STRIDE, 4 * C::STRIDE,
                                            k_tile + c * C::STRIDE, 8 * C::STRIDE);
            if (key0 + C::BN > tokens || (CAUSAL && key0 + C::BN - 1 > row0 + warp * 4 * C::ROWS)) {
#pragma unroll
                for (int i = 0; i < C::ROWS; ++i) {
#pragma unroll
                    for (int j = 0; j < C::KEYS; ++j) {
                        const int key = key0 + c + 8 * j, row = row0 + warp_row + 4 * i;
                        if (key >= tokens || (CAUSAL && key > row)) {
                            s[i][j] = -INFINITY;
                        }
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < C::ROWS; ++i) {
                float top = row_max[i];
#pragma unroll
                for (int j = 0; j < C::KEYS; ++j) {
                    top = fmaxf(top, s[i][j]);
                }
                top = row_of_lanes_max(top);
                const float shift = top == -INFINITY ? 0.0f : top * params.scale_log2;
                const float fade = exp2_fast(fmaf(row_max[i], params.scale_log2, -shift));
                float sum = 0.0f;
#pragma unroll
                for (int j = 0; j < C::KEYS; ++j) {
                    s[i][j] = exp2_fast(fmaf(s[i][j], params.scale_log2, -shift));
                    sum += s[i][j];
                }
                row_max[i] = top;
                row_sum[i] = fmaf(row_sum[i], fade, sum);
#pragma unroll
                for (int d = 0; d < C::COLS; ++d) {
                    o[i][d] *= fade;
                }
            }
        }
        cp_async_wait<0>();
        __syncthreads(); // v has landed for all, and all are done with k
        if (tile + 1 < tiles) {
            load(k_tile, k, a.k.token_stride, key0 + C::BN);
        }
        if (!active) {
            continue;
        }
#pragma unroll
        for (int part = 0; part < C::BN / 32; ++part) {
            float *p = p_tile + warp_row * C::P_STRIDE;
            __syncwarp();
#pragma unroll
            for (int i = 0; i < C::ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    p[4 * i * C::P_STRIDE + c + 8 * j] = s[i][part * 4 + j];
                }
            }
            __syncwarp();
            product_nn<D, C::ROWS, 32>(o, p, 4 * C::P_STRIDE,
                                       v_tile + part * 32 * C::STRIDE + 4 * c);
        }
    }

    float *lse = (float *)a.lse + head * a.shape.q_tokens, *out = view_head<float>(a.o, place);
#pragma unroll
    for (int i = 0; i < C::ROWS; ++i) {
        const int row = row0 + warp_row + 4 * i;
        const float sum = row_of_lanes_sum(row_sum[i]);
        if (row < tokens) {
            if (c == 0) {
                lse[row] = fmaf(row_max[i], params.scale, logf(sum));
            }
            store_row<D>(out + row * a.o.token_stride, o[i], 1.0f / sum, c, head_dim);
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_args *args)
{
    using C = config<D>;
    static_assert(C::SHARED <= SHARED_LIMIT, "accepts() promises less");
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
