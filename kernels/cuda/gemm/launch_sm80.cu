// kernels/cuda/gemm/launch_sm80.cu - the host's part of the GEMMs for any GPU: what a call must
//   fulfil, plans by a cost model, the launch
//
// The model counts cycles of the busiest SM: with U units over P blocks, n = ceil(U / P) units of
//   multiply   k-blocks of a unit times what the arithmetic units need, over an efficiency
//   finish     the ending, for 128 x 128 values
// that share the SM with the other blocks there; splits of one tile that end together add one after
// the other.
//
// Sync     launches that split K are cooperative
// Errors   INVALID_ARGUMENT for a plan of another call, or too small a workspace
#include <string.h>

#include "kernels/cuda/gemm/sm80.h"

namespace bt_gemm_sm80
{

constexpr double START_CYCLES = 2000, FINISH_CYCLES = 4000, TURN_CYCLES = 6000;
constexpr int SPLIT_BLOCKS_LEAST = 8; // k-blocks of a split

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

static bool can_split(const bt_gemm_args *args)
{
    return args->d_dtype == BT_F32 &&
           (args->epilogue == BT_EPILOGUE_NONE || args->epilogue == BT_EPILOGUE_BIAS);
}

static int64_t tiles_of(const bt_gemm_args *args, const variant &how)
{
    return bt_div_up(args->m, how.tile_m) * bt_div_up(args->n, how.tile_n) * args->batch;
}

static double estimate(const family &of, const bt_gemm_args *args, int processors,
                       const variant &how, int splits)
{
    const int64_t units = tiles_of(args, how) * splits, slots = processors * how.blocks_per_sm;
    const int64_t rounds = bt_div_up(units, slots);
    const double blocks = (double)bt_div_up(bt_div_up(args->k, how.depth), splits);
    const double share = units > processors ? how.blocks_per_sm : 1; // of an SM's time
    const double multiply =
        blocks * 2.0 * how.tile_m * how.tile_n * how.depth / of.flops_per_cycle * share;
    const double finish = FINISH_CYCLES * how.tile_m * how.tile_n / (128 * 128);
    const int64_t together = bt_min_i64(splits, bt_div_up(slots, tiles_of(args, how)));
    return START_CYCLES + (double)rounds * (multiply / how.efficiency + finish) +
           (double)(together - 1) * TURN_CYCLES * how.tile_m * how.tile_n / (128 * 128);
}

int plans_of(const family &of, const bt_gemm_args *args, int processors, plan plans[PLANS_MOST])
{
    int count = 0;
    for (int v = 0; v < of.variant_count; ++v) {
        const variant &how = of.variants[v];
        const int64_t blocks = bt_div_up(args->k, how.depth);
        if (how.trans_a != args->trans_a || how.trans_b != args->trans_b ||
            how.d_dtype != args->d_dtype) {
            continue;
        }
        for (int splits = 1; splits <= (can_split(args) ? SPLITS_MOST : 1); ++splits) {
            if (splits > 1 && blocks < splits * SPLIT_BLOCKS_LEAST) {
                break;
            }
            const plan next = {&how, splits, args->trans_a ? 8 : 16,
                               estimate(of, args, processors, how, splits)};
            int at = count++;
            for (; at > 0 && plans[at - 1].cycles > next.cycles; --at) {
                plans[at] = plans[at - 1];
            }
            plans[at] = next;
        }
    }
    return count;
}

size_t workspace_of(const bt_gemm_args *args, const plan &chosen)
{
    return chosen.splits > 1 ? bt_align_256((size_t)tiles_of(args, *chosen.how) * sizeof(int)) : 0;
}

static bool aligned(const void *matrix, int64_t ld, int64_t stride, int64_t batch, int64_t size)
{
    return (uintptr_t)matrix % 16 == 0 && ld * size % 16 == 0 &&
           (batch == 1 || stride * size % 16 == 0);
}

static problem make_problem(const bt_gemm_args *args, const plan &chosen)
{
    problem p;
    const int64_t in = (int64_t)bt_dtype_size(args->ab_dtype);
    const int64_t out = (int64_t)bt_dtype_size(args->d_dtype);
    memset(&p, 0, sizeof p);
    p.call = *args;
    p.alpha = (float)args->alpha;
    p.beta = (float)args->beta;
    p.tiles_m = (int)bt_div_up(args->m, chosen.how->tile_m);
    p.tiles_n = (int)bt_div_up(args->n, chosen.how->tile_n);
    p.splits = chosen.splits;
    p.units = p.tiles_m * p.tiles_n * (int)args->batch * p.splits;
    p.group = chosen.group;
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
    const size_t flags_bytes = workspace_of(args, chosen);
    const variant *how = chosen.how;
    cudaStream_t stream = bt_cuda_stream(launch);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    if (flags_bytes > launch->workspace_bytes) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "%s: a workspace of %zu bytes where %zu are needed", of.name,
                        launch->workspace_bytes, flags_bytes);
    }
    problem p = make_problem(args, chosen);
    if (chosen.splits > 1) {
        p.turn = (int *)launch->workspace;
        BT_TRY(bt_cuda_check(cudaMemsetAsync(p.turn, 0, flags_bytes, stream), "split flags"));
    }
    if (how->shared_bytes > 0) {
        BT_TRY(bt_cuda_check(cudaFuncSetAttribute((const void *)how->kernel,
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  how->shared_bytes),
                             of.name));
    }
    attribute.id = cudaLaunchAttributeCooperative; // splits wait for each other
    attribute.val.cooperative = 1;
    config.gridDim = dim3((unsigned)bt_min_i64(
        p.units, (int64_t)launch->device->info.processor_count * how->blocks_per_sm));
    config.blockDim = dim3((unsigned)how->threads);
    config.dynamicSmemBytes = (size_t)how->shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = chosen.splits > 1 ? 1 : 0;
    BT_TRY(bt_cuda_check(cudaLaunchKernelEx(&config, how->kernel, p), of.name));
    return bt_cuda_launched(of.name);
}

static plan plan_of(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    plan plans[PLANS_MOST];
    (void)plans_of(of, args, device->info.processor_count, plans);
    return plans[0];
}

bool accepts(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    const bt_cuda_gemm_choice choice = ((bt_cuda_device *)device->impl)->gemm_choice;
    // GELU of f32 is left to a product and a pass over it, which are faster.
    const bool lacking = choice == BT_CUDA_GEMM_AUTO && args->epilogue < BT_EPILOGUE_BIAS_GELU;
    return (choice == BT_CUDA_GEMM_OWN || choice == BT_CUDA_GEMM_SM80 || lacking) &&
           is_legal(of, args) && !(lacking && bt_gemm_cublaslt_accepts(device, args));
}

size_t workspace(const family &of, const bt_device *device, const bt_gemm_args *args)
{
    return workspace_of(args, plan_of(of, device, args));
}

bt_status run(const family &of, const bt_launch *launch, const bt_gemm_args *args)
{
    return bt_error_context(launch_plan(launch, of, args, plan_of(of, launch->device, args)),
                            "gemm of [%lld,%lld] by [%lld,%lld]", (long long)args->m,
                            (long long)args->k, (long long)args->k, (long long)args->n);
}

} // namespace bt_gemm_sm80
