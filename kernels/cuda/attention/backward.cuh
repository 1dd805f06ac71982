// kernels/cuda/attention/backward.cuh - code shared by the three sm_80 backward kernels: plan,
// workspace, the passes before and after
//
// With P = exp(scale q k^T - lse), dP = do v^T, delta = rowsum(do * o), dS = P * (dP - delta):
//   dv = P^T do    dk = scale dS^T q    dq = scale dS k
// One block takes the key tiles of one head in ascending order, and for each the query tiles. dk
// and dv of a key tile stay in registers; dq is summed over key tiles in fp32 scratch that only
// this block touches, so the order is fixed and no atomics are needed. Blocks are persistent and
// scratch belongs to a block, not to a head: it stays in L2. Where there are too few heads to fill
// the device, each head's key tiles are distributed over `groups` blocks (key tile modulo groups)
// with a scratch each, which reduce_dq adds up in ascending order.
//
// Workspace  stats [heads, padded tokens] of {lse * log2(e), delta}, {inf, 0} past the last token,
//            which makes P zero there; then scratch [blocks, padded tokens, D] f32
#ifndef BT_KERNELS_CUDA_ATTENTION_BACKWARD_CUH
#define BT_KERNELS_CUDA_ATTENTION_BACKWARD_CUH

#include "kernels/cuda/attention/tile.cuh"

namespace
{

struct backward_plan {
    int64_t heads; // over the batch
    int padded;    // tokens, rounded up to 64
    int key_tiles, groups;
    int64_t blocks; // of the main kernel
    size_t stats_bytes, scratch_bytes;
};

struct backward_params {
    bt_attention_backward_args a;
    backward_plan plan;
    float scale, scale_log2;
    float2 *stats;
    float *scratch;
};

// Items are (group, head), heads fastest, so that under a causal mask the longest come first;
// blocks take them in alternating directions: 0 1 2 2 1 0 0 1 2 ...
__host__ __device__ __forceinline__ int64_t item_of(int64_t round, int64_t block, int64_t blocks)
{
    return round * blocks + (round & 1 ? blocks - 1 - block : block);
}

// Work of the busiest block, relative to one head, when each head is split into `groups`. Called
// only for few heads, so 32 bits suffice, and on every call, so they are faster than 64.
inline double busiest_block(const backward_plan &plan, bool causal, int groups, int64_t slots)
{
    uint32_t weight[8] = {}, whole = 0, most = 0;
    for (int tile = 0; tile < plan.key_tiles; ++tile) {
        const uint32_t work = causal ? (uint32_t)(plan.key_tiles - tile) : 1;
        weight[tile % groups] += work;
        whole += work;
    }
    const uint32_t heads = (uint32_t)plan.heads, items = heads * (uint32_t)groups;
    const uint32_t blocks = items < slots ? items : (uint32_t)slots;
    for (uint32_t block = 0; block < blocks; ++block) {
        uint32_t load = 0, item = block;
        for (uint32_t round = 0; item < items; item = (uint32_t)item_of(++round, block, blocks)) {
            load += weight[item / heads];
        }
        most = load > most ? load : most;
    }
    return (double)most / (double)whole;
}

// Each further group must gain 3 %, the cost of its scratch and of its part in the reduction.
template <int D, int BN, int BLOCKS_PER_SM>
backward_plan backward_plan_make(const bt_device *device, const bt_attention_backward_args *args)
{
    backward_plan plan = {};
    plan.heads = args->shape.batch * args->shape.heads;
    plan.padded = (int)((args->shape.q_tokens + 63) / 64 * 64);
    plan.key_tiles = (int)((args->shape.q_tokens + BN - 1) / BN);
    plan.groups = 1;
    const int64_t slots = (int64_t)device->info.processor_count * BLOCKS_PER_SM;
    // Many heads need no groups; from 2^15 key tiles on the weights would overflow 32 bits.
    const bool few = plan.heads < 2 * slots && plan.key_tiles < 1 << 15;
    double best = INFINITY;
    for (int groups = 1; few && groups <= 8 && groups <= plan.key_tiles; ++groups) {
        const double cost =
            busiest_block(plan, args->shape.causal, groups, slots) * (1.0 + 0.03 * (groups - 1));
        if (cost < best) {
            best = cost;
            plan.groups = groups;
        }
    }
    const int64_t items = plan.heads * plan.groups;
    plan.blocks = items < slots ? items : slots;
    plan.stats_bytes = bt_align_256((size_t)(plan.heads * plan.padded) * sizeof(float2));
    if (plan.key_tiles > 1) {
        plan.scratch_bytes =
            (size_t)((plan.groups > 1 ? items : plan.blocks) * plan.padded) * D * sizeof(float);
    }
    return plan;
}

// What a block does in one round; false when there is nothing left.
struct work_item {
    int64_t head;
    head_place place;
    int group;
    float *scratch; // [padded tokens, D]
};

template <int D>
__device__ __forceinline__ bool next_item(const backward_params &params, int64_t round,
                                          work_item *work)
{
    const backward_plan &plan = params.plan;
    const int64_t item = item_of(round, blockIdx.x, gridDim.x);
    work->head = item % plan.heads;
    work->place = head_place_make(params.a.shape.heads, work->head);
    work->group = (int)(item / plan.heads);
    work->scratch =
        params.scratch + (plan.groups > 1 ? item : blockIdx.x) * (int64_t)plan.padded * D;
    return item < plan.heads * plan.groups;
}

template <typename T> __device__ __forceinline__ void unpack16(float *to, uint4 from);

template <> __device__ __forceinline__ void unpack16<float>(float *to, uint4 from)
{
    to[0] = __uint_as_float(from.x);
    to[1] = __uint_as_float(from.y);
    to[2] = __uint_as_float(from.z);
    to[3] = __uint_as_float(from.w);
}

template <> __device__ __forceinline__ void unpack16<bf16>(float *to, uint4 from)
{
    const uint32_t words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    }
}

// stats: 8 lanes per (batch, token, head), heads fastest as in memory.
template <typename T> __global__ void __launch_bounds__(256) prepare_stats(backward_params params)
{
    constexpr int PER_CHUNK = 16 / (int)sizeof(T);
    const bt_attention_backward_args &a = params.a;
    const int64_t index = (int64_t)blockIdx.x * 32 + threadIdx.x / 8;
    const int64_t row = index / a.shape.heads;
    const int64_t batch = row / params.plan.padded, token = row % params.plan.padded;
    const head_place place = {batch, index % a.shape.heads};
    const int64_t head = batch * a.shape.heads + place.head;
    const bool counts = batch < a.shape.batch, valid = counts && token < a.shape.q_tokens;
    float delta = 0.0f;
    if (valid) {
        const T *o = view_head<const T>(a.o, place) + token * a.o.token_stride;
        const T *d_o = view_head<const T>(a.d_o, place) + token * a.d_o.token_stride;
        for (int d = (int)(threadIdx.x % 8) * PER_CHUNK; d < a.shape.head_dim; d += 8 * PER_CHUNK) {
            float x[PER_CHUNK], y[PER_CHUNK];
            unpack16<T>(x, *(const uint4 *)(o + d));
            unpack16<T>(y, *(const uint4 *)(d_o + d));
#pragma unroll
            for (int i = 0; i < PER_CHUNK; ++i) {
                delta = fmaf(x[i], y[i], delta);
            }
        }
    }
    delta = quad_sum(delta);
    delta += __shfl_xor_sync(0xffffffffU, delta, 4);
    if (counts && threadIdx.x % 8 == 0) {
        const float lse =
            valid ? ((const float *)a.lse)[head * a.shape.q_tokens + token] : INFINITY;
        params.stats[head * params.plan.padded + token] = make_float2(lse * LOG2_E, delta);
    }
}

// dq = scale * the groups' sums, in ascending order; a group took part in a query tile if one of
// its key tiles is not wholly above it. 4 columns a thread.
template <typename T, int D, int BM, int BN>
__global__ void __launch_bounds__(256) reduce_dq(backward_params params)
{
    const bt_attention_backward_args &a = params.a;
    const int64_t index = (int64_t)blockIdx.x * 256 + threadIdx.x;
    const int64_t row = index / (D / 4);
    const int column = (int)(index % (D / 4)) * 4;
    const int64_t head = row / a.shape.q_tokens, token = row % a.shape.q_tokens;
    if (head >= params.plan.heads || column >= a.shape.head_dim) {
        return;
    }
    const int key_tiles =
        a.shape.causal ? (int)(token / BM * BM + BM - 1) / BN + 1 : params.plan.key_tiles;
    const int groups = min(params.plan.groups, key_tiles);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int group = 0; group < groups; ++group) {
        const int64_t item = group * params.plan.heads + head;
        const float4 x =
            *(const float4 *)(params.scratch + (item * params.plan.padded + token) * D + column);
        sum.x += x.x;
        sum.y += x.y;
        sum.z += x.z;
        sum.w += x.w;
    }
    T *out = view_head<T>(a.dq, head_place_make(a.shape.heads, head)) + token * a.dq.token_stride +
             column;
    const float keep = a.accumulate_dq ? 1.0f : KEEP_NOTHING;
    store_pair(out, pair_added(sum.x, sum.y, params.scale, keep, out));
    store_pair(out + 2, pair_added(sum.z, sum.w, params.scale, keep, out + 2));
}

// The whole backward: C holds T, D, BM, BN, THREADS, BLOCKS_PER_SM and SHARED of the main kernel.
template <typename C>
bt_status backward_run(const bt_launch *launch, const bt_attention_backward_args *args,
                       void (*kernel)(backward_params), const char *name)
{
    using T = typename C::T;
    static_assert(C::SHARED <= SHARED_LIMIT, "more shared memory than accepts() allows");
    if (args->shape.batch * args->shape.heads * args->shape.q_tokens == 0) {
        return BT_OK;
    }
    backward_params params = {
        *args,
        backward_plan_make<C::D, C::BN, C::BLOCKS_PER_SM>(launch->device, args),
        (float)args->shape.scale,
        (float)(args->shape.scale * 1.4426950408889634),
        (float2 *)launch->workspace,
        nullptr};
    const backward_plan &plan = params.plan;
    if (launch->workspace_bytes < plan.stats_bytes + plan.scratch_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %zu bytes of workspace, %zu are needed",
                        name, launch->workspace_bytes, plan.stats_bytes + plan.scratch_bytes);
    }
    params.scratch = (float *)((char *)launch->workspace + plan.stats_bytes);
    BT_TRY(launch_kernel(launch, prepare_stats<T>, (plan.heads * plan.padded + 31) / 32, 256, 0,
                         params, name));
    BT_TRY(launch_kernel(launch, kernel, plan.blocks, C::THREADS, C::SHARED, params, name));
    if (plan.groups > 1) {
        const int64_t chunks = plan.heads * args->shape.q_tokens * (C::D / 4);
        BT_TRY(launch_kernel(launch, reduce_dq<T, C::D, C::BM, C::BN>, (chunks + 255) / 256, 256, 0,
                             params, name));
    }
    return BT_OK;
}

template <typename C>
size_t backward_workspace(const bt_device *device, const bt_attention_backward_args *args)
{
    const backward_plan plan = backward_plan_make<C::D, C::BN, C::BLOCKS_PER_SM>(device, args);
    return plan.stats_bytes + plan.scratch_bytes;
}

} // namespace
#endif
