// kernels/cuda/attention/launch_sm90.cu - host code of the Hopper kernels: tensor maps, schedule of
//   items, launch
// Sync     each launch encodes its maps and passes them as an argument. The group size of recent
//          shapes is cached per thread
#include <math.h>
#include <string.h>

#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/overlap.h"

namespace bt_attention_sm90
{

// ---- items ------------------------------------------------------------------------------------

// Inputs of the choice of group size. `triangle`: part 0 of a head has all tiles, each following
// part `blocks` fewer; else every part has all tiles.
struct dealing {
    int heads, parts, tiles, blocks, workers, triangle;
    int64_t head_bytes; // keys and values, as far as they must fit in L2
};

// Cost of a head's item `part`, in half tiles. Entering an item costs about one and a half tiles.
static int64_t cost_of(const dealing &d, int part)
{
    return 2 * (d.triangle ? d.tiles - (int64_t)part * d.blocks : d.tiles) + 3;
}

// Load imbalance: time of the busiest of some sampled workers relative to the mean of all.
static double imbalance(const dealing &d, int group)
{
    constexpr int SAMPLES = 16;
    const int64_t per_group = (int64_t)group * d.parts, total = (int64_t)d.heads * d.parts;
    const int64_t workers = d.workers, rounds = bt_div_up(total, workers);
    double most = 0, all = 0;
    for (int part = 0; part < d.parts; ++part) {
        all += (double)cost_of(d, part) * d.heads;
    }
    for (int sample = 0; sample < SAMPLES; ++sample) {
        const int64_t worker = (int64_t)sample * (workers - 1) / (SAMPLES - 1);
        double busy = 0;
        for (int64_t round = 0; round < rounds; ++round) {
            const int64_t item = round * workers + (round & 1 ? workers - 1 - worker : worker);
            const int64_t first = item / per_group * group;
            if (item < total) {
                busy += (double)cost_of(
                    d, (int)(item % per_group / bt_min_i64(group, d.heads - first)));
            }
        }
        most = busy > most ? busy : most;
    }
    return most * (double)workers / all;
}

// The best balanced of some group sizes up to all heads. Once keys and values of a group exceed L2,
// each doubling of the group costs about 2 % more.
static int group_of(const dealing &d)
{
    constexpr int64_t IN_CACHE = 24 << 20;
    int best = d.heads;
    double least = INFINITY;
    const int workers = d.workers;
    const int candidates[] = {workers / 6, workers / 4, workers / 3, workers / 2, workers, d.heads};
    for (int group : candidates) {
        if (group >= 1 && group <= d.heads) {
            const double spill = fmax(1.0, (double)(group * d.head_bytes) / IN_CACHE);
            const double cost = imbalance(d, group) * (1 + 0.02 * log2(spill));
            if (cost < least) {
                least = cost;
                best = group;
            }
        }
    }
    return best;
}

// The same with a per-thread cache of recent shapes, because the search takes some 10 us.
static int remembered_group_of(const dealing &d)
{
    constexpr uint32_t PLACES = 32;
    struct known {
        dealing of;
        int group;
    };
    static thread_local known all[PLACES];
    if ((int64_t)d.heads * d.parts <= 4 * (int64_t)d.workers) {
        return d.heads;
    }
    uint32_t hash = (uint32_t)d.heads * 31 + (uint32_t)d.tiles;
    hash = hash * 31 + (uint32_t)(d.blocks * 2 + d.triangle);
    known *at = &all[(hash * 0x9e3779b1u) >> 27];
    if (memcmp(&at->of, &d, sizeof d) != 0) {
        *at = {d, group_of(d)};
    }
    return at->group;
}

work work_make(const shape &s, side of, int blocks, int workers)
{
    constexpr int FAR = 1 << 30; // beyond every token
    const int window = s.window > 0 ? (int)bt_min_i64(s.window - 1, FAR) : FAR;
    const int64_t heads = of == QUERIES ? s.heads : s.kv_heads;
    work w = {};
    w.q_tokens = (int)s.q_tokens;
    w.kv_tokens = (int)s.kv_tokens;
    w.q_tiles = (int)q_tiles_of(s);
    w.kv_tiles = (int)kv_tiles_of(s);
    w.parts = (int)bt_div_up(of == QUERIES ? w.q_tiles : w.kv_tiles, blocks);
    w.heads = (int)(s.batch * heads);
    w.total = w.heads * w.parts;
    w.q_per_kv = (int)(s.heads / s.kv_heads);
    w.causal = s.causal;
    w.scale = (float)s.scale;
    w.scale_log2 = (float)(s.scale * 1.4426950408889634);
    w.q_first = (int)s.q_first;
    w.before = window;
    w.after = s.causal ? 0 : window;
    const dealing d = {w.heads,
                       w.parts,
                       of == QUERIES ? w.kv_tiles : w.q_tiles,
                       blocks,
                       workers,
                       s.causal && s.q_tokens == s.kv_tokens && s.window == 0 && !s.starts,
                       s.kv_tokens * COLUMNS * 4}; // bf16: half, or wide
    w.group = remembered_group_of(d);
    w.per_group = divisor::make((int64_t)w.group * w.parts);
    w.by_group = divisor::make(w.group);
    w.by_last = divisor::make(w.heads % w.group ? w.heads % w.group : w.group);
    w.by_heads = divisor::make(heads);
    w.by_q_per_kv = divisor::make(w.q_per_kv);
    return w;
}

bool side_by_side_pays_bf16(const shape &s, int sms)
{
    const int64_t parts = bt_div_up(q_tiles_of(s), GROUPS_BF16), heads = s.batch * s.heads;
    if (s.head_dim > COLUMNS) {
        return false;
    }
    if (!s.causal) {
        return heads * (parts + bt_div_up(kv_tiles_of(s), GROUPS_BF16)) <= sms;
    }
    const int64_t steps = parts * q_tiles_of(s) - GROUPS_BF16 * (parts * (parts - 1) / 2);
    return heads * steps <= sms * q_tiles_of(s);
}

bool side_by_side_pays_tf32(const shape &s, int sms)
{
    const int64_t items =
        bt_div_up(q_tiles_of(s), GROUPS_TF32) + bt_div_up(kv_tiles_of(s), GROUPS_TF32);
    return s.head_dim <= COLUMNS && mask_is_plain(s) && s.heads == s.kv_heads &&
           s.batch * s.heads * items <= (s.causal ? 4 : 2) * (int64_t)sms;
}

// ---- maps -------------------------------------------------------------------------------------

bt_status map_view(const shape &s, side of, const bt_attention_view *view, CUtensorMapDataType type,
                   CUtensorMap *map)
{
    const int64_t tokens = of == QUERIES ? s.q_tokens : s.kv_tokens;
    const int64_t heads = of == QUERIES ? s.heads : s.kv_heads;
    const cuuint64_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2 : 4;
    auto stride = [&](int64_t count, int64_t elements) { // of one element it is never used
        return (cuuint64_t)(count > 1 ? elements : s.head_dim) * bytes;
    };
    const bt_tensor_map_shape what = {
        type,
        CU_TENSOR_MAP_SWIZZLE_128B,
        4,
        {(cuuint64_t)s.head_dim, (cuuint64_t)tokens, (cuuint64_t)heads, (cuuint64_t)s.batch},
        {stride(tokens, view->token_stride), stride(heads, view->head_stride),
         stride(s.batch, view->batch_stride)},
        {(cuuint32_t)(128 / bytes), BLOCK, 1, 1}};
    return bt_tensor_map_make(view->base, &what, map);
}

bt_status map_statistics(const shape &s, const float *statistics, CUtensorMap *map)
{
    const cuuint64_t tile = STATISTICS * sizeof(float), tiles = (cuuint64_t)q_tiles_of(s);
    const cuuint64_t heads = (cuuint64_t)(s.batch * s.heads);
    const bt_tensor_map_shape what = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                      CU_TENSOR_MAP_SWIZZLE_NONE,
                                      4,
                                      {STATISTICS, tiles, heads, 1},
                                      {tile, tile * tiles, tile * tiles * heads},
                                      {STATISTICS, 1, 1, 1}};
    return bt_tensor_map_make(statistics, &what, map);
}

// ---- launch -----------------------------------------------------------------------------------

bt_status start(const bt_launch *launch, const void *kernel, const kernel_shape &how,
                const void *maps, work w, const void *rows)
{
    void *arguments[] = {(void *)maps, &w, (void *)rows};
    return start_blocks(launch, kernel, how,
                        dim3((unsigned)bt_min_i64(launch->device->info.processor_count, w.total)),
                        arguments);
}

bt_status start_blocks(const bt_launch *launch, const void *kernel, const kernel_shape &how,
                       dim3 blocks, void **arguments)
{
    const cudaStream_t stream = bt_cuda_stream(launch); // makes the device current
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3((unsigned)how.threads);
    config.dynamicSmemBytes = (size_t)how.shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    bt_cuda_overlap(launch->device, kernel, &config);
    BT_TRY(bt_cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, how.shared_bytes),
        how.name));
    BT_TRY(bt_cuda_check(cudaLaunchKernelExC(&config, kernel, arguments), how.name));
    return bt_cuda_launched(how.name);
}

bt_status check_workspace(const bt_launch *launch, const char *name, size_t needed)
{
    return launch->workspace_bytes >= needed
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %zu bytes of workspace, %zu are needed",
                          name, launch->workspace_bytes, needed);
}

} // namespace bt_attention_sm90
