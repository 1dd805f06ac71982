// kernels/cuda/attention/backward_f32_sm80.cu - flash attention backward in IEEE fp32 on the FMA
// units. Mathematics, plan and workspace: backward.cuh; lanes and products: ffma.cuh.
// Shapes   views of [B, T, H, D], any T; D <= 128, multiple of 8
// Types    fp32 throughout; exp2 by ex2.approx (2^-22)
// Plan     4 warps, a tile of 64 keys by 64 queries (32 by 32 at D <= 128). A warp owns a quarter
//          of the queries for the scores and for dq, and for dk and dv a quarter of the keys (half
//          of the keys and of the columns at D <= 128); P and then dS pass between them through one
//          tile. k and v are transposed on their way to shared memory, k is there as it is as well:
//          the right operands of ffma.cuh. The next q and do arrive while dq is computed; a query's
//          statistics lie in what pads its row of q.
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
    static constexpr int QUERIES = BM / 16, KEYS = BN / 8; // of a thread in the scores
    static constexpr int STRIDE = D + 4, P_STRIDE = BN + 4;
    static constexpr int KEY_FLOATS = BN * D, QUERY_FLOATS = BM * STRIDE;
    static constexpr int SHARED = (3 * KEY_FLOATS + 2 * QUERY_FLOATS + BM * P_STRIDE) * 4;
};

// Starts the copy of rows row0 .. of a tile that is only a right operand: no padding.
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void tile_load_flat(float *tile, const float *head, int64_t token_stride,
                                               int row0, int tokens, int head_dim)
{
    constexpr int CHUNKS = D / 4, STEP = THREADS / CHUNKS;
    const int row = (int)threadIdx.x / CHUNKS, column = (int)threadIdx.x % CHUNKS * 4;
    const int rows = column < head_dim ? tokens - row0 - row : 0;
    const float *source = head + (row0 + row) * token_stride + column;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        cp_async16(shared_address(tile + (row + i) * D + column), source + i * token_stride,
                   i < rows);
    }
}

// Where and how one query tile's dq is summed.
struct dq_step {
    int row0; // the thread's first query
    int keys; // of this key tile that any query of the warp sees
    bool first, last;
};

// dq (+)= dS k: a thread takes its queries of the scores and its columns. ds [BM, P_STRIDE] from
// the thread's first query, k_tile from the lane's column 4c. Sums are added to those before even
// where there are none: what is stored 16 bytes at a time then is not what FFMAs add to (ffma.cuh).
template <typename C>
__device__ __forceinline__ void sum_dq(const backward_params &params, const dq_step &step,
                                       float *dq, float *scratch, const float *ds,
                                       const float *k_tile, int c)
{
    constexpr int D = C::D;
    float sum[C::QUERIES][D / 8] = {};
    float4 before[C::QUERIES][D / 32] = {};
    if (!step.first) {
#pragma unroll
        for (int i = 0; i < C::QUERIES; ++i) {
#pragma unroll
            for (int h = 0; h < D / 32; ++h) {
                before[i][h] = __ldcg(
                    (const float4 *)(scratch + (int64_t)(step.row0 + i) * D + 4 * c + 32 * h));
            }
        }
    }
    product_along<C::QUERIES, D / 8>(sum, ds, C::P_STRIDE, k_tile, D, step.keys);
    const bt_attention_backward_args &a = params.a;
#pragma unroll
    for (int i = 0; i < C::QUERIES; ++i) {
        const int row = step.row0 + i;
        float *sums = scratch + (int64_t)row * D + 4 * c;
#pragma unroll
        for (int h = 0; h < D / 32; ++h) {
            const float4 x = before[i][h];
            sum[i][4 * h] += x.x, sum[i][4 * h + 1] += x.y;
            sum[i][4 * h + 2] += x.z, sum[i][4 * h + 3] += x.w;
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
                         (int)a.shape.head_dim, a.accumulate_dq ? 1.0f : KEEP_NOTHING);
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
    const int first_query = (warp * 4 + r) * C::QUERIES;    // of the thread's in the scores and dq
    const int warp_key = (D == 64 ? warp : warp >> 1) * 16; // dk and dv: keys 4r ..
    const int column = D == 64 ? 0 : (warp & 1) * 64;       // columns 4c .., 32 + 4c ..
    const int query_tiles = (tokens + C::BM - 1) / C::BM;
    float *const k_across = shared_floats, *const k_tile = k_across + C::KEY_FLOATS,
                 *const v_across = k_tile + C::KEY_FLOATS, *const q_tile = v_across + C::KEY_FLOATS,
                 *const do_tile = q_tile + C::QUERY_FLOATS,
                 *const p_tile = do_tile + C::QUERY_FLOATS;
    const float *const own_q = q_tile + first_query * C::STRIDE;
    float *const own_p = p_tile + first_query * C::P_STRIDE;

    work_item work;
    for (int64_t round = 0; next_item<D>(params, round, &work); ++round) {
        const float2 *stats = params.stats + work.head * params.plan.padded;
        float *dq = view_head<float>(a.dq, work.place);
        const float *k = view_head<const float>(a.k, work.place);
        auto load_step = [&](int i) {
            tile_load<float, C::BM, D, C::THREADS>(shared_address(q_tile),
                                                   view_head<const float>(a.q, work.place),
                                                   a.q.token_stride, i * C::BM, tokens, head_dim);
            tile_load<float, C::BM, D, C::THREADS>(shared_address(do_tile),
                                                   view_head<const float>(a.d_o, work.place),
                                                   a.d_o.token_stride, i * C::BM, tokens, head_dim);
            if (threadIdx.x < C::BM) {
                cp_async8(shared_address(q_tile + threadIdx.x * C::STRIDE + D),
                          stats + i * C::BM + threadIdx.x);
            }
            cp_async_commit();
        };
        for (int key_tile = work.group; key_tile < params.plan.key_tiles; key_tile += groups) {
            const int key0 = key_tile * C::BN, begin = CAUSAL ? key_tile : 0;
            __syncthreads(); // the tile before is done with shared memory
            tile_load_transposed<C::BN, D, C::THREADS>(k_across, C::BN, k, a.k.token_stride, key0,
                                                       tokens, head_dim);
            tile_load_transposed<C::BN, D, C::THREADS>(v_across, C::BN,
                                                       view_head<const float>(a.v, work.place),
                                                       a.v.token_stride, key0, tokens, head_dim);
            tile_load_flat<C::BN, D, C::THREADS>(k_tile, k, a.k.token_stride, key0, tokens,
                                                 head_dim);
            load_step(begin);
            float dk[4][8] = {}, dv[4][8] = {};
            for (int i = begin; i < query_tiles; ++i) {
                const bool edge = CAUSAL ? i == key_tile : key0 + C::BN > tokens;
                // Whether query `x` of the thread does not see its key `y`.
                auto hidden = [&](int x, int y) {
                    const int key = key0 + 4 * c + y / 4 * 32 + y % 4;
                    return edge && key > (CAUSAL ? i * C::BM + first_query + x : tokens - 1);
                };
                cp_async_wait<0>();
                __syncthreads(); // q and do have landed for all, and all are done with dS
                float p[C::QUERIES][C::KEYS] = {};
                product_along<C::QUERIES, C::KEYS>(p, own_q, C::STRIDE, k_across + 4 * c, C::BN, D);
#pragma unroll
                for (int x = 0; x < C::QUERIES; ++x) {
                    const float lse = own_q[x * C::STRIDE + D];
#pragma unroll
                    for (int y = 0; y < C::KEYS; ++y) {
                        p[x][y] = exp2_fast(fmaf(p[x][y], params.scale_log2, -lse));
                        p[x][y] = hidden(x, y) ? 0.0f : p[x][y];
                    }
                    store_row<C::BN>(own_p + x * C::P_STRIDE, p[x], 1.0f, c, C::BN);
                }
                __syncthreads(); // P is complete
                const int seen_from =
                    CAUSAL && edge ? warp_key : 0; // no query before sees the keys
                const float *sum_p = p_tile + seen_from * C::P_STRIDE + warp_key;
                product_across<4, 8>(dv, sum_p + 4 * r, C::P_STRIDE,
                                     do_tile + seen_from * C::STRIDE + column + 4 * c, C::STRIDE,
                                     C::BM - seen_from);
                float ds[C::QUERIES][C::KEYS] = {};
                product_along<C::QUERIES, C::KEYS>(ds, own_q + C::QUERY_FLOATS, C::STRIDE,
                                                   v_across + 4 * c, C::BN, D);
                __syncthreads(); // all are done with P
#pragma unroll
                for (int x = 0; x < C::QUERIES; ++x) {
                    const float delta = own_q[x * C::STRIDE + D + 1];
                    load_runs(p[x], own_p + x * C::P_STRIDE + 4 * c, 32);
#pragma unroll
                    for (int y = 0; y < C::KEYS; ++y) {
                        ds[x][y] = hidden(x, y) ? 0.0f : p[x][y] * (ds[x][y] - delta);
                    }
                    store_row<C::BN>(own_p + x * C::P_STRIDE, ds[x], 1.0f, c, C::BN);
                }
                __syncthreads(); // dS is complete
                product_across<4, 8>(dk, sum_p + 4 * r, C::P_STRIDE,
                                     q_tile + seen_from * C::STRIDE + column + 4 * c, C::STRIDE,
                                     C::BM - seen_from);
                __syncthreads(); // all are done with q and do
                if (i + 1 < query_tiles) {
                    load_step(i + 1);
                }
                const int seen = CAUSAL ? min(i + 1, params.plan.key_tiles) : params.plan.key_tiles;
                const dq_step step = {i * C::BM + first_query,
                                      CAUSAL && edge ? (warp + 1) * 4 * C::QUERIES : C::BN,
                                      key_tile < groups, groups == 1 && key_tile + 1 == seen};
                sum_dq<C>(params, step, dq, work.scratch, own_p, k_tile + 4 * c, c);
            }
            const float keep = a.accumulate_dkv ? 1.0f : KEEP_NOTHING;
            float *dk_head = view_head<float>(a.dk, work.place) + column;
            float *dv_head = view_head<float>(a.dv, work.place) + column;
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                const int64_t key = key0 + warp_key + 4 * r + x;
                if (key < tokens) {
                    store_row<64>(dk_head + key * a.dk.token_stride, dk[x], params.scale, c,
                                  head_dim - column, keep);
                    store_row<64>(dv_head + key * a.dv.token_stride, dv[x], 1.0f, c,
                                  head_dim - column, keep);
                }
            }
        }
    }
}

template <int D> bt_status run(const bt_launch *launch, const bt_attention_backward_args *args)
{
    static_assert(config<D>::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
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
