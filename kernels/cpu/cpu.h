// kernels/cpu/cpu.h - shared declarations of the CPU's kernels and the table
//
// Declares the launch function of every CPU row, and the accepts() and workspace() functions that
// rows name.
#ifndef BT_KERNELS_CPU_CPU_H
#define BT_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)                                         \
    bt_status bt_##name(const bt_launch *launch, const void *args);
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA

extern const bt_kernel bt_cpu_kernels[]; // table.c
extern const int bt_cpu_kernel_count;

bool bt_reduce_sum_cpu_accepts(const bt_device *device, const void *args);
bool bt_layernorm_cpu_accepts(const bt_device *device, const void *args);
bool bt_layernorm_backward_cpu_accepts(const bt_device *device, const void *args);
bool bt_embedding_backward_cpu_accepts(const bt_device *device, const void *args);
bool bt_attention_cpu_accepts(const bt_device *device, const void *args);
bool bt_attention_backward_cpu_accepts(const bt_device *device, const void *args);
bool bt_gemm_cpu_accepts(const bt_device *device, const void *args);
bool bt_gemm_grouped_cpu_accepts(const bt_device *device, const void *args);
bool bt_gemm_pieces_cpu_accepts(const bt_device *device, const void *args);

bool bt_reduce_sum_cpu_bf16_accepts(const bt_device *device, const void *args);
bool bt_layernorm_cpu_bf16_accepts(const bt_device *device, const void *args);
bool bt_layernorm_backward_cpu_bf16_accepts(const bt_device *device, const void *args);
bool bt_embedding_backward_cpu_bf16_accepts(const bt_device *device, const void *args);
bool bt_gemm_cpu_bf16_accepts(const bt_device *device, const void *args);

size_t bt_layernorm_backward_cpu_workspace(const bt_device *device, const void *args);
size_t bt_embedding_backward_cpu_workspace(const bt_device *device, const void *args);
size_t bt_attention_cpu_workspace(const bt_device *device, const void *args);
size_t bt_attention_backward_cpu_workspace(const bt_device *device, const void *args);
size_t bt_grad_norm_cpu_workspace(const bt_device *device, const void *args);
size_t bt_elementwise_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_reduce_sum_cpu_workspace(const bt_device *device, const void *args);
size_t bt_reduce_sum_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_softmax_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_softmax_backward_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_layernorm_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_layernorm_backward_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_embedding_backward_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_cross_entropy_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_cross_entropy_backward_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_cross_entropy_grad_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_gemm_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_gemm_grouped_cpu_workspace(const bt_device *device, const void *args);
size_t bt_gemm_pieces_cpu_workspace(const bt_device *device, const void *args);
size_t bt_attention_cpu_bf16_workspace(const bt_device *device, const void *args);
size_t bt_attention_backward_cpu_bf16_workspace(const bt_device *device, const void *args);

// The mean over all rows that a call of cross_entropy requests.
bt_cross_entropy_mean_args bt_cross_entropy_mean_of(const bt_cross_entropy_args *op);

#endif
