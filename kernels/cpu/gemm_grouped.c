// kernels/cpu/gemm_grouped.c - products of a group, one after another
#include "kernels/cpu/cpu.h"

static const bt_kernel *row_of(const bt_device *device, const bt_gemm_args *product)
{
    return bt_kernel_lookup(device, BT_KERNEL_GEMM, product->ab_dtype, product);
}

bool bt_gemm_grouped_cpu_accepts(const bt_device *device, const void *args)
{
    const bt_gemm_grouped_args *group = args;
    for (int64_t i = 0; i < group->count; ++i) {
        if (!row_of(device, &group->products[i])) {
            return false;
        }
    }
    return true;
}

// The maximum over the products, which run one after another.
size_t bt_gemm_grouped_cpu_workspace(const bt_device *device, const void *args)
{
    const bt_gemm_grouped_args *group = args;
    size_t most_bytes = 0;
    for (int64_t i = 0; i < group->count; ++i) {
        const bt_kernel *row = row_of(device, &group->products[i]);
        if (row && row->workspace) {
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
