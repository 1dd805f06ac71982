// kernels/cpu/table.c - the CPU's kernels, from kernels.inl
//
// Nothing but the table: it refers to every kernel, and a kernel may look up another row.
#include "kernels/cpu/cpu.h"

const bt_kernel bt_cpu_kernels[] = {
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)                                         \
    {BT_KERNEL_##op, BT_DEVICE_CPU, BT_##dtype, 0, #name, accepts, workspace, bt_##name},
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA
};

const int bt_cpu_kernel_count = (int)(sizeof bt_cpu_kernels / sizeof bt_cpu_kernels[0]);
