// kernels/cuda/gemm/candidates.cu - lists the plans that can compute a GEMM call, for the tuner
//   (framework/linalg/tune.h), the laboratory, tests and records
//
// BT_GEMM selects the rows. A row's own cost estimate hides no plan, except that of a group under
// `auto`. The sm_80 rows are left out where a Hopper row serves the same call: they reach at most
// half of its rate.
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/gemm/arch_sm90.h"
#include "kernels/cuda/gemm/sm80.h"
#include "kernels/cuda/gemm/sm90.h"

static int depth_of(const bt_gemm_sm90::family &of, const bt_gemm_sm90::plan &) { return of.depth; }

static int depth_of(const bt_gemm_sm80::family &, const bt_gemm_sm80::plan &chosen)
{
    return chosen.how->depth;
}

// Number of parts of K: splits that add to D one after the other, or blocks of a cluster.
static int parts_of(const bt_gemm_sm90::plan &chosen)
{
    return chosen.how->cluster > 1 ? chosen.how->cluster : chosen.splits;
}

static int parts_of(const bt_gemm_sm80::plan &chosen) { return chosen.splits; }

static int plans_on(const bt_device_info &on, const bt_gemm_sm90::family &of,
                    const bt_gemm_args *args, bt_gemm_sm90::plan *plans)
{
    return plans_of(of, args, on.processor_count, plans);
}

static int plans_on(const bt_device_info &on, const bt_gemm_sm80::family &of,
                    const bt_gemm_args *args, bt_gemm_sm80::plan *plans)
{
    return plans_of(of, args, on, plans);
}

// The best plans of a family by its cost model; number_of and related functions come from the
// family's namespace.
template <typename PLAN, typename FAMILY>
static int best_of(const FAMILY &of, const bt_device *device, const bt_gemm_args *args,
                   bt_kernel_plan *out, int most)
{
    PLAN plans[bt_gemm_sm90::PLANS_MOST];
    static_assert(bt_gemm_sm90::PLANS_MOST == bt_gemm_sm80::PLANS_MOST,
                  "both architectures share one array of plans");
    const int count = (int)bt_min_i64(plans_on(device->info, of, args, plans), most);
    for (int i = 0; i < count; ++i) {
        const PLAN &chosen = plans[i];
        bt_kernel_plan *to = &out[i];
        to->number = number_of(of, chosen);
        to->workspace_bytes = workspace_of(args, chosen);
        const int length = snprintf(to->name, sizeof to->name, "%dx%dx%d", chosen.how->tile_m,
                                    chosen.how->tile_n, depth_of(of, chosen));
        if (parts_of(chosen) > 1) {
            (void)snprintf(to->name + length, sizeof to->name - (size_t)length, " %s %d",
                           chosen.splits > 1 ? "split" : "cluster", parts_of(chosen));
        }
    }
    return count;
}

static bt_cuda_gemm_choice choice_of(const bt_device *device)
{
    return ((bt_cuda_device *)device->impl)->gemm_choice;
}

static bool hopper_serves(const bt_gemm_sm90::family &of, const bt_device *device,
                          const bt_gemm_args *args)
{
    const bt_cuda_gemm_choice choice = choice_of(device);
    return bt_sm90_code_runs(device->info.arch, BT_CUDA_SM90A) &&
           (choice == BT_CUDA_GEMM_AUTO || choice == BT_CUDA_GEMM_OWN) && is_legal(of, args);
}

template <const bt_gemm_sm90::family &OF>
static int hopper(const bt_device *device, const bt_gemm_args *args, bt_kernel_plan *out, int most)
{
    return hopper_serves(OF, device, args)
               ? best_of<bt_gemm_sm90::plan>(OF, device, args, out, most)
               : 0;
}

template <const bt_gemm_sm80::family &OF>
static int any_gpu(const bt_device *device, const bt_gemm_args *args, bt_kernel_plan *out, int most)
{
    const bt_cuda_gemm_choice choice = choice_of(device);
    const bool asked =
        choice == BT_CUDA_GEMM_AUTO || choice == BT_CUDA_GEMM_OWN || choice == BT_CUDA_GEMM_SM80;
    const bool better = hopper_serves(bt_gemm_sm90::family_bf16, device, args) ||
                        hopper_serves(bt_gemm_sm90::family_tf32, device, args);
    return asked && !better && is_legal(OF, args)
               ? best_of<bt_gemm_sm80::plan>(OF, device, args, out, most)
               : 0;
}

static int library(const bt_device *device, const bt_gemm_args *args, bt_kernel_plan *out, int most)
{
    const bt_cuda_gemm_choice choice = choice_of(device);
    if (most < 1 || choice == BT_CUDA_GEMM_OWN || choice == BT_CUDA_GEMM_SM80 ||
        !bt_gemm_cublaslt_accepts(device, args)) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->workspace_bytes = bt_gemm_cublaslt_workspace(device, args);
    return 1;
}

// The group's own choice, without a name since records name the row alone, then every plan. A group
// of several launches has its own choice alone.
static int grouped(const bt_device *device, const bt_gemm_grouped_args *args, bt_kernel_plan *out,
                   int most)
{
    bt_gemm_sm90::group_plan plans[bt_gemm_sm90::GROUP_PLANS_MOST];
    const int count = (int)args->count;
    if (most < 1 || !bt_gemm_grouped_bf16_sm90_accepts(device, args)) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->workspace_bytes = bt_gemm_grouped_bf16_sm90_workspace(device, args);
    if (args->count > bt_gemm_sm90::GROUP_MOST) {
        return 1;
    }
    const int found = (int)bt_min_i64(
        bt_gemm_sm90::group_plans_of(args->products, count, device->info.processor_count, plans),
        most - 1);
    for (int i = 0; i < found; ++i) {
        const bt_gemm_sm90::group_plan &chosen = plans[i];
        bt_kernel_plan *to = &out[i + 1];
        to->number = i + 1;
        to->workspace_bytes = bt_gemm_sm90::group_workspace_of(args->products, count, chosen);
        (void)snprintf(to->name, sizeof to->name, "%dx%dx%d cut %d among %d", chosen.how->tile_m,
                       chosen.how->tile_n, bt_gemm_sm90::family_bf16.depth, chosen.cut_tiles,
                       chosen.sharers);
    }
    return found + 1;
}

int bt_cuda_gemm_plans(const bt_device *device, const bt_kernel *kernel, const void *args,
                       bt_kernel_plan *plans, int most)
{
    if (kernel->launch == bt_gemm_grouped_bf16_sm90) {
        return grouped(device, (const bt_gemm_grouped_args *)args, plans, most);
    }
    static const struct {
        bt_status (*launch)(const bt_launch *launch, const void *args); // the row's
        int (*plans)(const bt_device *device, const bt_gemm_args *args, bt_kernel_plan *out,
                     int most);
    } rows[] = {{bt_gemm_cublaslt_f32, library},
                {bt_gemm_cublaslt_bf16, library},
                {bt_gemm_bf16_sm80, any_gpu<bt_gemm_sm80::family_bf16>},
                {bt_gemm_tf32_sm80, any_gpu<bt_gemm_sm80::family_tf32>},
                {bt_gemm_fp32_sm80, any_gpu<bt_gemm_sm80::family_fp32>},
                {bt_gemm_bf16_sm90, hopper<bt_gemm_sm90::family_bf16>},
                {bt_gemm_tf32_sm90, hopper<bt_gemm_sm90::family_tf32>}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (rows[i].launch == kernel->launch) {
            return rows[i].plans(device, (const bt_gemm_args *)args, plans, most);
        }
    }
    return 0;
}
