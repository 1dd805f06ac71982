// kernels/cpu/gemm_grouped.c - products of a group, one after the other
#include "kernels/cpu/cpu.h"

static bool find(const bt_device *device, const bt_gemm_args *product, const bt_kernel **row)
{
    return bt_kernel_find(device, BT_KERNEL_GEMM, product->ab_dtype, product, row) == BT_OK;
}

bool bt_gemm_grouped_cpu_accepts(const bt_device *device, const void *args)
{
    const bt_gemm_grouped_args *group = args;
    const bt_kernel *row = NULL;
    for (int64_t i = 0; i < group->count; ++i) {
        if (!find(device, &group->products[i], &row)) {
            return false;
        }
    }
    return true;
}

// The most that one product asks for: they run in turn.
size_t bt_gemm_grouped_cpu_workspace(const bt_device *device, const void *args)
{
    const bt_gemm_grouped_args *group = args;
    const bt_kernel *row = NULL;
    size_t most_bytes = 0;
    for (int64_t i = 0; i < group->count; ++i) {
        if (find(device, &group->products[i], &row) && row->workspace) {
            size_t bytes = row->workspace(device, &group->products[i]);
            most_bytes = bytes > most_bytes ? bytes : most_bytes;
        }
    }
    return most_bytes;
}

bt_status bt_gemm_grouped_cpu(const bt_launch *launch, const void *args)
{
    const bt_gemm_grouped_args *group = args;
    for (int64_t i = 0; i < group->count; ++i) {
        const bt_gemm_args *product = &group->products[i];
        const bt_kernel *row = NULL;
        BT_TRY(bt_kernel_find(launch->device, BT_KERNEL_GEMM, product->ab_dtype, product, &row));
        BT_TRY(row->launch(launch, product));
    }
    return BT_OK;
}
