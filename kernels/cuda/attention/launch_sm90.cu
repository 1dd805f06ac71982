// kernels/cuda/attention/launch_sm90.cu - the host's part of the Hopper kernels: what a call must
//   fulfil, its tensor maps, how its items are dealt out, the launch
// Shapes   views of [B, T, H, D] with strides of any order, positive and multiples of 16 bytes;
//          D a multiple of 8 up to 64 (wide: 128): TMA fills columns past D with zeros
// Sync     maps are made anew for each launch and travel as its argument: nothing is cached
#include <math.h>

#include "kernels/attention.h"
#include "kernels/cuda/attention/sm90.h"
#include "kernels/cuda/gemm/arch_sm90.h"

namespace bt_attention_sm90
{

// ---- items ------------------------------------------------------------------------------------

// Cost of a head's item `part`, in tiles: under a causal mask part 0 is the longest. Entering an
// item costs about as much as one and a half tiles.
static int64_t cost_of(const work &w, int blocks, int part)
{
    return 2 * (w.causal ? w.tiles - (int64_t)part * blocks : w.tiles) + 3;
}

// How much longer than the mean of all the busiest of some sampled workers is busy.
static double imbalance(const work &w, int blocks, int group, int workers)
{
    constexpr int SAMPLES = 16;
    const int64_t per_group = (int64_t)group * w.parts, rounds = bt_div_up(w.total, workers);
    double most = 0, all = 0;
    for (int part = 0; part < w.parts; ++part) {
        all += (double)cost_of(w, blocks, part) * w.heads;
    }
    for (int sample = 0; sample < SAMPLES; ++sample) {
        const int64_t worker = (int64_t)sample * (workers - 1) / (SAMPLES - 1);
        double busy = 0;
        for (int64_t round = 0; round < rounds; ++round) {
            const int64_t item = round * workers + (round & 1 ? workers - 1 - worker : worker);
            const int64_t first = item / per_group * group;
            if (item < w.total) {
                busy += (double)cost_of(
                    w, blocks, (int)(item % per_group / bt_min_i64(group, w.heads - first)));
            }
        }
        most = busy > most ? busy : most;
    }
    return most * workers / all;
}

// Of all heads at once and some smaller groups, the evenest. Twice as many heads at a time read
// about that much more from memory, once their keys and values no longer fit in L2.
static int group_of(const work &w, int blocks, int workers)
{
    constexpr int64_t IN_CACHE = 24 << 20;
    const int64_t head_bytes = (int64_t)w.tokens * HEAD_DIM_MOST * 4; // bf16: half, or wide
    int best = w.heads;
    if (w.total <= 4 * workers) {
        return best;
    }
    double least = INFINITY;
    const int candidates[] = {workers / 6, workers / 4, workers / 3, workers / 2, workers, w.heads};
    for (int group : candidates) {
        if (group >= 1 && group <= w.heads) {
            const double spill = fmax(1.0, (double)(group * head_bytes) / IN_CACHE);
            const double cost = imbalance(w, blocks, group, workers) * (1 + 0.02 * log2(spill));
            if (cost < least) {
                least = cost;
                best = group;
            }
        }
    }
    return best;
}

work work_make(const shape &s, int blocks, int workers)
{
    work w = {};
    w.tokens = (int)s.tokens;
    w.tiles = (int)tiles_of(s);
    w.parts = (int)bt_div_up(w.tiles, blocks);
    w.heads = (int)(s.batch * s.heads);
    w.total = w.heads * w.parts;
    w.causal = s.causal;
    w.scale = (float)s.scale;
    w.scale_log2 = (float)(s.scale * 1.4426950408889634);
    w.group = group_of(w, blocks, workers);
    w.per_group = divisor::make((int64_t)w.group * w.parts);
    w.by_group = divisor::make(w.group);
    w.by_last = divisor::make(w.heads % w.group ? w.heads % w.group : w.group);
    w.by_heads = divisor::make(s.heads);
    return w;
}

// ---- maps -------------------------------------------------------------------------------------

bt_status map_view(const shape &s, const bt_attention_view *view, CUtensorMapDataType type,
                   CUtensorMap *map)
{
    const cuuint64_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2 : 4;
    auto stride = [&](int64_t count, int64_t elements) { // of one element it is never used
        return (cuuint64_t)(count > 1 ? elements : s.head_dim) * bytes;
    };
    const bt_tensor_map_shape what = {
        type,
        CU_TENSOR_MAP_SWIZZLE_128B,
        4,
        {(cuuint64_t)s.head_dim, (cuuint64_t)s.tokens, (cuuint64_t)s.heads, (cuuint64_t)s.batch},
        {stride(s.tokens, view->token_stride), stride(s.heads, view->head_stride),
         stride(s.batch, view->batch_stride)},
        {(cuuint32_t)(128 / bytes), BLOCK, 1, 1}};
    return bt_tensor_map_make(view->base, &what, map);
}

bt_status map_statistics(const shape &s, const float *statistics, CUtensorMap *map)
{
    const cuuint64_t tile = STATISTICS * sizeof(float), tiles = (cuuint64_t)tiles_of(s);
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

bt_status start(const bt_launch *launch, const void *kernel, const kernel_shape &how, void *maps,
                work w, void *rows)
{
    const cudaStream_t stream = bt_cuda_stream(launch); // makes the device current
    const int64_t most = bt_div_up(w.total, how.workers_per_block);
    const unsigned blocks = (unsigned)bt_min_i64(launch->device->info.processor_count, most);
    void *arguments[] = {maps, &w, rows};
    BT_TRY(bt_cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, how.shared_bytes),
        how.name));
    BT_TRY(bt_cuda_check(cudaLaunchKernel(kernel, dim3(blocks), dim3((unsigned)how.threads),
                                          arguments, (size_t)how.shared_bytes, stream),
                         how.name));
    return bt_cuda_launched(how.name);
}

bt_status check_workspace(const bt_launch *launch, const char *name, size_t needed)
{
    return launch->workspace_bytes >= needed
               ? BT_OK
               : bt_error(BT_STATUS_INVALID_ARGUMENT, "%s: %zu bytes of workspace, %zu are needed",
                          name, launch->workspace_bytes, needed);
}

// ---- calls ------------------------------------------------------------------------------------

static bool view_fits(const shape &s, const bt_attention_view *view, bt_dtype dtype)
{
    const int64_t size = (int64_t)bt_dtype_size(dtype), most = (int64_t)1 << 40;
    auto fits = [&](int64_t count, int64_t stride) {
        return count <= 1 || (stride > 0 && stride < most / size && stride * size % 16 == 0);
    };
    return (uintptr_t)view->base % 16 == 0 && fits(s.tokens, view->token_stride) &&
           fits(s.heads, view->head_stride) && fits(s.batch, view->batch_stride);
}

static bool shape_fits(const bt_device *device, const shape &s, int above, int most_dim)
{
    const int64_t most = (int64_t)1 << 29; // tiles, and three times as many blocks
    return bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) &&
           device->info.shared_bytes >= SHARED_BYTES_MOST && s.batch >= 1 && s.heads >= 1 &&
           s.tokens >= 1 && s.batch <= most && s.heads <= most && s.tokens <= most &&
           (double)s.batch * (double)s.heads * (double)(s.tokens + BLOCK) <
               (double)BLOCK * (double)most &&
           s.head_dim > above && s.head_dim <= most_dim && s.head_dim % 8 == 0 && s.scale > 0.0 &&
           isfinite(s.scale);
}

bool forward_fits(const bt_device *device, const bt_attention_args *args, int above, int most)
{
    const shape s = shape_of(args);
    const bt_attention_view *views[] = {&args->q, &args->k, &args->v, &args->o};
    bool fits = bt_attention_plain(&args->shape) && shape_fits(device, s, above, most);
    for (const bt_attention_view *view : views) {
        fits = fits && view_fits(s, view, args->dtype);
    }
    return fits;
}

bool backward_fits(const bt_device *device, const bt_attention_backward_args *args, int above,
                   int most)
{
    const shape s = shape_of(args);
    const bt_attention_view *views[] = {&args->q,   &args->k,  &args->v,  &args->o,
                                        &args->d_o, &args->dq, &args->dk, &args->dv};
    bool fits =
        bt_attention_plain(&args->shape) && !args->accumulate && shape_fits(device, s, above, most);
    for (const bt_attention_view *view : views) {
        fits = fits && view_fits(s, view, args->dtype);
    }
    return fits;
}

} // namespace bt_attention_sm90
