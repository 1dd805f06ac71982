// kernels/cuda/gemm/launch_sm80.cu - host code of the sm_80 GEMMs: conditions of a call, plans by a
//   cost model, launch
//
// The model counts cycles of the busiest SM. A round gives each block one tile and costs
//   multiply   k-blocks of a tile times the cycles of the arithmetic units for all blocks of an SM,
//              divided by an efficiency; in a last round of no more tiles than SMs each runs alone
//   finish     the epilogue, for 128 x 128 values
// Cut tiles cost the same plus writing and adding their parts.
//
// Sync     launches that cut tiles are cooperative; others overlap the end of the previous kernel
//          where the device supports it (programmatic dependent launch)
// Errors   INVALID_ARGUMENT for a plan of another call, or too small a workspace
#include <string.h>

#include "kernels/cuda/gemm/sm80.h"
#include "kernels/cuda/overlap.h"

namespace bt_gemm_sm80
{

// Fitted to all plans of GPT-2's products of 4096 tokens on an H200 (lab/README.md).
constexpr double START_CYCLES = 3000, FINISH_CYCLES = 4500, PART_CYCLES = 12000;
constexpr double ALONE = 0.88;        // fraction of an SM's rate that a single block reaches
constexpr int SHARE_BLOCKS_LEAST = 4; // k-blocks of cut tiles for a block

bool is_legal(const family &of, const bt_gemm_args *args)
{
    const int64_t most = INT64_C(1) << 30;
    const bool gelu =
        args->epilogue == BT_EPILOGUE_BIAS_GELU || args->epilogue == BT_EPILOGUE_DGELU;
    return args->ab_dtype == of.dtype && (of.dtype == BT_BF16 || args->compute == of.compute) &&
           (args->d_dtype == of.dtype || args->d_dtype == BT_F32) &&
           (unsigned)args->epilogue < BT_EPILOGUE_COUNT && !args->dbias &&
           (!gelu || (args->beta == 0 && args->aux)) && args->m >= 1 && args->n >= 1 &&
           args->k >= 1 && args->batch >= 1 && args->m <= most && args->n <= most &&
           args->k <= most && args->batch <= 65535 &&
           bt_div_up(args->m, 128) * bt_div_up(args->n, 128) <= most / SPLITS_MOST / args->batch;
}

static int64_t tiles_of(const bt_gemm_args *args, const variant &how)
{
    return bt_div_up(args->m, how.tile_m) * bt_div_up(args->n, how.tile_n) * args->batch;
}

// Blocks of a kernel per SM; 0 where a block does not fit. An SM has 1 KiB more shared memory than
// a block can use, and reserves 1 KiB for each block.
static int blocks_per_sm(const variant &how, const bt_device_info &on)
{
    const int64_t fit = ((int64_t)on.shared_bytes + 1024) / (how.shared_bytes + 1024);
    return (int)bt_min_i64(how.blocks_per_sm, fit);
}

// How a plan distributes a call's tiles to blocks.
struct deal {
    int64_t tiles, cut, depth_blocks, blocks;
};

// `blocks` is 0 where there is nothing to cut as `splits` says, or too little.
static deal deal_of(const bt_gemm_args *args, const bt_device_info &on, const variant &how,
                    int splits)
{
    const int64_t slots = (int64_t)on.processor_count * blocks_per_sm(how, on);
    deal d = {tiles_of(args, how), 0, bt_div_up(args->k, how.depth), 0};
    if (splits == 1) {
        d.blocks = bt_min_i64(d.tiles, slots);
        return d;
    }
    const int64_t whole = d.tiles / slots - (splits - 2); // rounds
    if (whole < 0) {
        return d;
    }
    d.cut = d.tiles - whole * slots;
    const int64_t most = d.cut * d.depth_blocks / SHARE_BLOCKS_LEAST;
    if (whole > 0 ? d.cut > 0 && most >= slots : most > d.cut) {
        d.blocks = bt_min_i64(most, slots);
    }
    return d;
}

static double estimate(const family &of, const bt_device_info &on, const variant &how,
                       const deal &d)
{
    const int64_t per_sm = blocks_per_sm(how, on), slots = on.processor_count * per_sm;
    const double size = (double)how.tile_m * how.tile_n / (128 * 128);
    const double block = 2.0 * how.tile_m * how.tile_n * how.depth / of.flops_per_cycle *
                         (double)per_sm / how.efficiency;
    const double tile = block * (double)d.depth_blocks + FINISH_CYCLES * size;
    const int64_t whole = (d.tiles - d.cut) / slots, rest = (d.tiles - d.cut) % slots;
    const double last = rest == 0 ? 0
                        : rest > on.processor_count
                            ? tile
                            : tile / (double)per_sm / (per_sm > 1 ? ALONE : 1);
    const double cut = d.cut == 0 ? 0
                                  : block * (double)bt_div_up(d.cut * d.depth_blocks, d.blocks) +
                                        (FINISH_CYCLES + PART_CYCLES) * size;
    return START_CYCLES + (double)whole * tile + last + cut;
}

static int group_of(const bt_gemm_args *args) { return args->trans_a ? 8 : 16; }

int plans_of(const family &of, const bt_gemm_args *args, const bt_device_info &on,
             plan plans[PLANS_MOST])
{
    int count = 0;
    for (int v = 0; v < of.variant_count; ++v) {
        const variant &how = of.variants[v];
        if (how.trans_a != args->trans_a || how.trans_b != args->trans_b ||
            how.d_dtype != args->d_dtype || blocks_per_sm(how, on) == 0) {
            continue;
        }
        for (int splits = 1; splits <= SPLITS_MOST; ++splits) {
            const deal d = deal_of(args, on, how, splits);
            if (d.blocks == 0) {
                continue;
            }
            const plan next = {&how, splits, group_of(args), estimate(of, on, how, d),
                               (int)d.blocks};
            int at = count++;
            for (; at > 0 && plans[at - 1].cycles > next.cycles; --at) {
                plans[at] = plans[at - 1];
            }
            plans[at] = next;
        }
    }
    return count;
}

plan plan_at(const family &of, const bt_gemm_args *args, int number)
{
    const int variant = number / PLAN_NUMBERS, splits = number % PLAN_NUMBERS;
    const bool there =
        variant >= 0 && variant < of.variant_count && splits >= 1 && splits <= SPLITS_MOST;
    return {there ? &of.variants[variant] : NULL, splits, group_of(args), 0, 0};
}

int number_of(const family &of, const plan &chosen)
{
    return (int)(chosen.how - of.variants) * PLAN_NUMBERS + chosen.splits;
}

static size_t flags_bytes(int64_t blocks) { return bt_align_256((size_t)blocks * sizeof(int)); }

static size_t workspace_of(const variant &how, const deal &d)
{
    return d.cut == 0 ? 0
                      : flags_bytes(d.blocks) +
                            (size_t)(d.blocks * how.tile_m * how.tile_n) * sizeof(float);
}

size_t workspace_of(const bt_gemm_args *args, const plan &chosen)
{
    const deal d = {tiles_of(args, *chosen.how), chosen.splits > 1, 0, chosen.blocks};
    return workspace_of(*chosen.how, d);
}

static bool aligned(const void *matrix, int64_t ld, int64_t stride, int64_t batch, int64_t size)
{
    return (uintptr_t)matrix % 16 == 0 && ld * size % 16 == 0 &&
           (batch == 1 || stride * size % 16 == 0);
}

// 1 <= by < 2^31; with 2^shift >= by, the factor is 2^(31 + shift) / by and less than 1 more.
static divisor divisor_of(int64_t by)
{
    unsigned shift = 0;
    while ((INT64_C(1) << shift) < by) {
        ++shift;
    }
    return {(int)by, (unsigned)bt_div_up(INT64_C(1) << (31 + shift), by), shift};
}

static problem make_problem(const bt_gemm_args *args, const plan &chosen, const deal &d)
{
    problem p;
    const int64_t rows = bt_div_up(args->m, chosen.how->tile_m),
                  columns = bt_div_up(args->n, chosen.how->tile_n);
    const int64_t in = (int64_t)bt_dtype_size(args->ab_dtype);
    const int64_t out = (int64_t)bt_dtype_size(args->d_dtype);
    memset(&p, 0, sizeof p);
    p.call = *args;
    p.alpha = (float)args->alpha;
    p.beta = (float)args->beta;
    p.tiles = (int)d.tiles;
    p.per_batch = divisor_of(rows * columns);
    p.per_group = divisor_of(chosen.group * columns);
    p.group_rows = divisor_of(chosen.group);
    p.last_rows = divisor_of(rows % chosen.group > 0 ? rows % chosen.group : chosen.group);
    p.whole_groups = (int)(rows / chosen.group);
    p.depth_blocks = (int)d.depth_blocks;
    p.cut = (int)d.cut;
    p.share = (int)(d.cut * d.depth_blocks / d.blocks);
    p.larger = (int)(d.cut * d.depth_blocks % d.blocks);
    p.wide_a = aligned(args->a, args->lda, args->stride_a, args->batch, in);
    p.wide_b = aligned(args->b, args->ldb, args->stride_b, args->batch, in);
    p.wide_d = aligned(args->d, args->ldd, args->stride_d, args->batch, out) &&
               (p.beta == 0.0f || aligned(args->c, args->ldc, args->stride_c, args->batch, out)) &&
               (args->epilogue < BT_EPILOGUE_BIAS_GELU || (uintptr_t)args->aux % 16 == 0);
    return p;
}

bt_status launch_plan(const bt_launch *launch, const family &of, const bt_gemm_args *args,
                      const plan &chosen)
{
    const variant *how = chosen.how;
    const bt_device_info &on = launch->device->info;
    const bool fitting = how && how->trans_a == args->trans_a && how->trans_b == args->trans_b &&
                         how->d_dtype == args->d_dtype && blocks_per_sm(*how, on) > 0;
    const deal d = fitting ? deal_of(args, on, *how, chosen.splits) : deal{};
    const size_t needed = d.blocks > 0 ? workspace_of(*how, d) : 0;
    cudaStream_t stream = bt_cuda_stream(launch);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    config.attrs = &attribute;
    if (d.blocks == 0 || needed > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: the plan is of another call, or the workspace is too small: expected "
                        "%zu bytes, got %zu",
                        of.name, needed, launch->workspace_bytes);
    }
    problem p = make_problem(args, chosen, d);
    if (d.cut > 0) {
        p.left_parts = (int *)launch->workspace;
        p.parts = (float *)((char *)launch->workspace + flags_bytes(d.blocks));
        BT_TRY(bt_cuda_check(cudaMemsetAsync(p.left_parts, 0, flags_bytes(d.blocks), stream),
                             "flags of parts"));
        attribute.id = cudaLaunchAttributeCooperative; // blocks wait for parts of other blocks
        attribute.val.cooperative = 1;
        config.numAttrs = 1;
    } else {
        bt_cuda_overlap(launch->device, (const void *)how->kernel, &config);
    }
    if (how->shared_bytes > 0) {
        BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)how->kernel,
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  how->shared_bytes),
                             of.name));
    }
    config.gridDim = dim3((unsigned)d.blocks);
    config.blockDim = dim3((unsigned)how->threads);
    config.dynamicSmemBytes = (size_t)how->shared_bytes;
    config.stream = stream;
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&config, how->kernel, p), of.name));
    return bt_cuda_launched(of.name);
}

static plan plan_of(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    plan plans[PLANS_MOST];
    (void)plans_of(of, args, device->info, plans);
    return plans[0];
}

// Calls that `auto` gives to these kernels: fp32 weight gradients larger than 768 x 768, where they
// are faster than cuBLASLt on an H200 (lab/README.md).
static bool is_worth_it(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    return of.dtype == BT_F32 && of.compute == BT_COMPUTE_NATIVE && device->info.arch == 90 &&
           args->trans_a && !args->trans_b && args->m * args->n > INT64_C(768) * 768 &&
           args->k >= 4096;
}

bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    if (!is_legal(of, args)) {
        return false;
    }
    if (choice != BT_CUDA_GEMM_AUTO) {
        return choice == BT_CUDA_GEMM_OWN || choice == BT_CUDA_GEMM_SM80;
    }
    // GELU of f32: a product followed by a pass over it is faster.
    return is_worth_it(of, device, args) ||
           (args->epilogue < BT_EPILOGUE_BIAS_GELU && !bt_gemm_cublaslt_accepts(device, args));
}

size_t workspace(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    return workspace_of(args, plan_of(of, device, args));
}

bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args)
{
    const plan chosen =
        launch->plan ? plan_at(of, args, launch->plan) : plan_of(of, launch->device, args);
    return bt_error_context(launch_plan(launch, of, args, chosen),
                            "gemm of [%lld,%lld] by [%lld,%lld]", (long long)args->m,
                            (long long)args->k, (long long)args->k, (long long)args->n);
}

} // namespace bt_gemm_sm80
