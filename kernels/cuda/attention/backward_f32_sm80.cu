// kernels/cuda/attention/backward_f32_sm80.cu - flash attention backward in IEEE fp32 on the FMA
// units. Mathematics, plan and workspace: backward.cuh; lanes and products: ffma.cuh.
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8
// Types    fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     4 warps, a tile of 64 keys by 64 queries (32 by 32 at D <= 128). Scores transposed: a
// warp
//          owns a quarter of the keys, so P^T and dS^T reach dv and dk through rows of shared
//          memory that are the warp's own; dq then needs all of dS^T, hence one barrier. The next q
//          and do arrive while dq is computed. Products dwarf barriers here: one buffer of each is
//          enough.
// Bitwise  one thread sums an output, in ascending order of the summed index; it depends on the
//          number of SMs only where a head is dealt out to several blocks
// NaN      as backward_bf16_sm80.cu
// Errors   accepts() as in accepts.cu; INVALID_ARGUMENT for too small a workspace
// Oracle   float64, see tests/conformance/test_attention.c
#include "kernels/cuda/attention/backward.cuh"
#include "kernels/cuda/attention/ffma.cuh"

namespace
{

template <int DIM> struct config {
    using T = float;
    static constexpr int D = DIM, THREADS = 128, BLOCKS_PER_SM = 2;
    static constexpr int BN = D == 64 ? 64 : 32, BM = BN;
    static constexpr int KEYS = BN / 16, QUERIES = BM / 8; // of a thread in S^T
    static constexpr int DQ_ROWS = BM / 16;                // of a thread in dq
    static constexpr int STRIDE = D + 4, P_STRIDE = BM + 4;
    static constexpr int TILE_FLOATS = BN * STRIDE;
    static constexpr int SHARED = (4 * TILE_FLOATS + BN * P_STRIDE + 2 * BM) * 4;
};

// Where and how one query tile's dq is summed.
struct dq_step {
    int row0; // the thread's first query
    int keys; // of this key tile that any query of the tile sees
    bool first, last;
};

// dq (+)= dS k: a thread takes DQ_ROWS neighbouring queries and its columns. ds [BN, P_STRIDE] from
// the thread's first query, k_tile from the lane's column 4c.
template <typename C>
__device__ __forceinline__ void sum_dq(const backward_params &params, const dq_step &step,
                                       float *dq, float *scratch, const float *ds,
                                       const float *k_tile, int c)
{
    constexpr int D = C::D;
    float sum[C::DQ_ROWS][D / 8] = {};
    float4 before[C::DQ_ROWS][D / 32];
    if (!step.first) {
#pragma unroll
        for (int i = 0; i < C::DQ_ROWS; ++i) {
#pragma unroll
            for (int h = 0; h < D / 32; ++h) {
                before[i][h] = __ldcg(
                    (const float4 *)(scratch + (int64_t)(step.row0 + i) * D + 4 * c + 32 * h));
            }
        }
    }
#pragma unroll 4
    for (int key = 0; key < step.keys; ++key) {
        float x[C::DQ_ROWS];
        if constexpr (C::DQ_ROWS == 4) {
            const float4 wide = *(const float4 *)(ds + key * C::P_STRIDE);
            x[0] = wide.x, x[1] = wide.y, x[2] = wide.z, x[3] = wide.w;
        } else {
            const float2 wide = *(const float2 *)(ds + key * C::P_STRIDE);
            x[0] = wide.x, x[1] = wide.y;
        }
        accumulate<D, C::DQ_ROWS>(sum, x, k_tile + key * C::STRIDE);
    }
    const bt_attention_backward_args &a = params.a;
#pragma unroll
    for (int i = 0; i < C::DQ_ROWS; ++i) {
        const int row = step.row0 + i;
        float *sums = scratch + (int64_t)row * D + 4 * c;
        if (!step.first) {
#pragma unroll
            for (int h = 0; h < D / 32; ++h) {
                const float4 x = before[i][h];
                sum[i][4 * h] += x.x, sum[i][4 * h + 1] += x.y;
                sum[i][4 * h + 2] += x.z, sum[i][4 * h + 3] += x.w;
            }
        }
        if (!step.last) {
#pragma unroll
            for (int h = 0; h < D / 32; ++h) {
                __stcg((float4 *)(sums + 32 * h),
                       make_float4(sum[i][4 * h], sum[i][4 * h + 1], sum[i][4 * h + 2],
                                   sum[i][4 * h + 3]));
            }
        } else if (row < a.shape.q_tokens) {
            store_row<D>(dq + row * a.dq.token_stride, sum[i], params.scale, c,
                         (int)a.shape.head_dim);
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(128, 2) backward_f32(const backward_params params)
{
    using C = config<D>;
    extern __shared__ __align__(1024) float shared_floats[];
    const bt_attention_backward_args &a = params.a;
    const int tokens = (int)a.shape.q_tokens, head_dim = (int)a.shape.head_dim,
              groups = params.plan.groups;
    const int warp = threadIdx.x >> 5, r = lane_r(threadIdx.x & 31), c = lane_c(threadIdx.x & 31);
    const int first_key = warp * 4 * C::KEYS + r;        // of the thread's; the next is 4 further
    const int first_query = (warp * 4 + r) * C::DQ_ROWS; // of the thread's in dq
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    float *const k_tile = shared_floats, *const v_tile = k_tile + C::TILE_FLOATS,
                 *const q_tile = v_tile + C::TILE_FLOATS, *const do_tile = q_tile + C::TILE_FLOATS,
                 *const p_tile = do_tile + C::TILE_FLOATS,
                 *const stat_tile = p_tile + C::BN * C::P_STRIDE;

    work_item work;
    for (int64_t round = 0; next_item<D>(params, round, &work); ++round) {
        const float2 *stats = params.stats + work.head * params.plan.padded;
        float *dq = view_head<float>(a.dq, work.place);
        auto load = [&](float *tile, const bt_attention_view &view, int row0) {
            tile_load<float, C::BN, D, C::THREADS>(shared_address(tile),
                                                   view_head<const float>(view, work.place),
                                                   view.token_stride, row0, tokens, head_dim);
        };
        auto load_step = [&](int i) {
            load(q_tile, a.q, i * C::BM);
            load(do_tile, a.d_o, i * C::BM);
            if (threadIdx.x < C::BM / 2) {
                cp_async16(shared_address(stat_tile + threadIdx.x * 4),
                           stats + i * C::BM + threadIdx.x * 2, true);
            }
            cp_async_commit();
        };
        for (int key_tile = work.group; key_tile < params.plan.key_tiles; key_tile += groups) {
            const int key0 = key_tile * C::BN, begin = CAUSAL ? key_tile : 0;
            __syncthreads(); // the tile before is done with shared memory
            load(k_tile, a.k, key0);
            load(v_tile, a.v, key0);
            load_step(begin);
            float dk[C::KEYS][D / 8] = {}, dv[C::KEYS][D / 8] = {};
            for (int i = begin; i < query_tiles; ++i) {
                cp_async_wait<0>();
                __syncthreads(); // q and do have landed for all, and all are done with dS
                float p[C::KEYS][C::QUERIES] = {}, ds[C::KEYS][C::QUERIES] = {};
                product_nt<D, C::KEYS, C::QUERIES>(p, k_tile + first_key * C::STRIDE, 4 * C::STRIDE,
                                                   q_tile + c * C::STRIDE, 8 * C::STRIDE);
                product_nt<D, C::KEYS, C::QUERIES>(ds, v_tile + first_key * C::STRIDE,
                                                   4 * C::STRIDE, do_tile + c * C::STRIDE,
                                                   8 * C::STRIDE);
                float *rows = p_tile + first_key * C::P_STRIDE;
                const bool edge = CAUSAL ? i == key_tile : key0 + C::BN > tokens;
#pragma unroll
                for (int y = 0; y < C::QUERIES; ++y) {
                    const int query = i * C::BM + c + 8 * y;
                    const float2 at = *(const float2 *)(stat_tile + 2 * (c + 8 * y));
#pragma unroll
                    for (int x = 0; x < C::KEYS; ++x) {
                        const int key = key0 + first_key + 4 * x;
                        const bool zero = edge && key > (CAUSAL ? query : tokens - 1);
                        p[x][y] = exp2_fast(fmaf(p[x][y], params.scale_log2, -at.x));
                        ds[x][y] = zero ? 0.0f : p[x][y] * (ds[x][y] - at.y);
                        rows[4 * x * C::P_STRIDE + c + 8 * y] = zero ? 0.0f : p[x][y];
                    }
                }
                __syncwarp();
                product_nn<D, C::KEYS, C::BM>(dv, rows, 4 * C::P_STRIDE, do_tile + 4 * c);
                __syncwarp();
#pragma unroll
                for (int x = 0; x < C::KEYS; ++x) {
#pragma unroll
                    for (int y = 0; y < C::QUERIES; ++y) {
                        rows[4 * x * C::P_STRIDE + c + 8 * y] = ds[x][y];
                    }
                }
                __syncwarp();
                product_nn<D, C::KEYS, C::BM>(dk, rows, 4 * C::P_STRIDE, q_tile + 4 * c);
                __syncthreads(); // dS is complete, and all are done with q and do
                if (i + 1 < query_tiles) {
                    load_step(i + 1);
                }
                const int seen = CAUSAL ? min(i + 1, params.plan.key_tiles) : params.plan.key_tiles;
                const dq_step step = {i * C::BM + first_query, min(C::BN, tokens - key0),
                                      key_tile < groups, groups == 1 && key_tile + 1 == seen};
                sum_dq<C>(params, step, dq, work.scratch, p_tile + first_query, k_tile + 4 * c, c);
            }
            float *dk_head = view_head<float>(a.dk, work.place);
            float *dv_head = view_head<float>(a.dv, work.place);
#pragma unroll
            for (int x = 0; x < C::KEYS; ++x) {
                const int64_t key = key0 + first_key + 4 * x;
                if (key < tokens) {
                    store_row<D>(dk_head + key * a.dk.token_stride, dk[x], params.scale, c,
                                 head_dim);
                    store_row<D>(dv_head + key * a.dv.token_stride, dv[x], 1.0f, c, head_dim);
                }
            }
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    return backward_run<config<D>>(
        launch, args, args->shape.causal ? backward_f32<D, true> : backward_f32<D, false>,
        "attention_backward f32");
}

} // namespace

bt_status bt_attention_backward_f32_sm80(const bt_launch *launch, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? run<64>(launch, backward) : run<128>(launch, backward);
}

size_t bt_attention_backward_f32_workspace(const bt_device *device, const void *args)
{
    const bt_attention_backward_args *backward = (const bt_attention_backward_args *)args;
    return backward->shape.head_dim <= 64 ? backward_workspace<config<64>>(device, backward)
                                          : backward_workspace<config<128>>(device, backward);
}
