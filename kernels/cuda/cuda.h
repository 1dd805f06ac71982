// kernels/cuda/cuda.h - shared declarations of the CUDA backend's host code: device, streams,
// errors, rows
//
// Invariants
//   1. A bt_stream, bt_event or bt_graph of this backend is a cudaStream_t, cudaEvent_t or
//      cudaGraphExec_t under another name; NULL as a stream is the device's own stream.
//   2. Functions that launch or allocate make their device current; callers need not.
//   3. Plans and handles belong to the device (bt_cuda_device). Kernels hold no state.
#ifndef BT_KERNELS_CUDA_CUDA_H
#define BT_KERNELS_CUDA_CUDA_H

#include <cuda_runtime.h>

#include "framework/base/idioms.h"
#include "kernels/kernels.h"

// Which GEMM kernels to use, from the environment variable BT_GEMM when the device is opened:
// "auto" (ours where they are expected to be faster; the default), "own" (ours wherever they
// support the call), "cublaslt" (never ours), "cublaslt-best" (likewise, the fastest of its first
// algorithms), "sm80" (the sm_80 kernels wherever they support the call, for tests).
typedef enum bt_cuda_gemm_choice {
    BT_CUDA_GEMM_AUTO,
    BT_CUDA_GEMM_OWN,
    BT_CUDA_GEMM_CUBLASLT,
    BT_CUDA_GEMM_CUBLASLT_BEST,
    BT_CUDA_GEMM_SM80
} bt_cuda_gemm_choice;

// bt_device.impl of this backend.
typedef struct bt_cuda_device {
    cudaStream_t stream;       // owned: what NULL stands for
    struct bt_cuda_gemm *gemm; // owned: handle and plans of gemm/cublaslt.cu
    bt_cuda_gemm_choice gemm_choice;
} bt_cuda_device;

// Turns a CUDA result into a status; `what` names the call. A memory error is OUT_OF_MEMORY, a
// missing driver or device UNAVAILABLE, anything else INTERNAL.
BT_CHECKED bt_status bt_cuda_check(cudaError_t result, const char *what);
// The result of the launch just made (not of its execution).
BT_CHECKED bt_status bt_cuda_launched(const char *kernel);
// Makes the device current for this thread and returns the stream to use.
cudaStream_t bt_cuda_stream_of(const bt_device *device, bt_stream stream);
static inline cudaStream_t bt_cuda_stream(const bt_launch *launch)
{
    return bt_cuda_stream_of(launch->device, launch->stream);
}

// The backend's parts, put together in backend.cu.
void bt_cuda_stream_table(bt_backend *backend); // stream.cu: streams, events, graphs
bt_status bt_cuda_gemm_create(struct bt_cuda_gemm **out);
void bt_cuda_gemm_destroy(struct bt_cuda_gemm *gemm);
// gemm/candidates.cu: bt_backend.plans
int bt_cuda_gemm_plans(const bt_device *device, const bt_kernel *kernel, const void *args,
                       bt_kernel_plan *plans, int most);

static inline int64_t bt_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t bt_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
// Rounds up to the alignment of a part of a workspace.
static inline size_t bt_align_256(size_t size_bytes) { return (size_bytes + 255) / 256 * 256; }
static inline bool bt_aligned_16(const void *pointer) { return ((uintptr_t)pointer & 15) == 0; }
// Blocks of a grid whose blocks take several pieces each: at most `per_sm` for each SM, at least 1.
static inline unsigned bt_cuda_grid(const bt_device *device, int64_t pieces, int per_sm)
{
    int64_t most = (int64_t)device->info.processor_count * per_sm;
    return (unsigned)bt_max_i64(1, bt_min_i64(pieces, most));
}

// Every row's launch function, and the accepts() and workspace() functions that rows name.
#define BT_KERNEL_CPU(op, dtype, name, accepts, workspace)
#define BT_KERNEL_CUDA(op, dtype, min_arch, name, accepts, workspace)                              \
    bt_status bt_##name(const bt_launch *launch, const void *args);
#include "kernels/kernels.inl"
#undef BT_KERNEL_CPU
#undef BT_KERNEL_CUDA

#define BT_CUDA_ACCEPTS(name) bool bt_##name##_accepts(const bt_device *device, const void *args)
#define BT_CUDA_WORKSPACE(name)                                                                    \
    size_t bt_##name##_workspace(const bt_device *device, const void *args)
BT_CUDA_ACCEPTS(copy_cuda);
BT_CUDA_ACCEPTS(gemm_cublaslt);
BT_CUDA_WORKSPACE(gemm_cublaslt);
BT_CUDA_ACCEPTS(gemm_bf16_sm90);
BT_CUDA_WORKSPACE(gemm_bf16_sm90);
BT_CUDA_ACCEPTS(gemm_grouped_bf16_sm90);
BT_CUDA_ACCEPTS(gemm_pieces_bf16_sm90);
BT_CUDA_WORKSPACE(gemm_grouped_bf16_sm90);
BT_CUDA_ACCEPTS(gemm_bf16_sm80);
BT_CUDA_WORKSPACE(gemm_bf16_sm80);
BT_CUDA_ACCEPTS(gemm_tf32_sm80);
BT_CUDA_WORKSPACE(gemm_tf32_sm80);
BT_CUDA_ACCEPTS(gemm_fp32_sm80);
BT_CUDA_WORKSPACE(gemm_fp32_sm80);
BT_CUDA_ACCEPTS(gemm_tf32_sm90);
BT_CUDA_WORKSPACE(gemm_tf32_sm90);
BT_CUDA_ACCEPTS(cross_entropy_grad_sm90_f32);
BT_CUDA_ACCEPTS(cross_entropy_grad_sm90_bf16);
BT_CUDA_ACCEPTS(linear_exps_bf16_sm90);
BT_CUDA_WORKSPACE(linear_exps_bf16_sm90);
BT_CUDA_ACCEPTS(layernorm_cuda);
BT_CUDA_ACCEPTS(layernorm_backward_cuda);
BT_CUDA_WORKSPACE(layernorm_backward_cuda);
BT_CUDA_WORKSPACE(grad_norm_cuda_f32);
BT_CUDA_ACCEPTS(reduce_sum_cuda);
BT_CUDA_WORKSPACE(reduce_sum_cuda);
BT_CUDA_ACCEPTS(sum_parts_cuda);
BT_CUDA_ACCEPTS(embedding_backward_cuda);
BT_CUDA_WORKSPACE(embedding_backward_cuda);
BT_CUDA_ACCEPTS(attention_general);
BT_CUDA_ACCEPTS(attention_general_tf32);
BT_CUDA_ACCEPTS(attention_backward_general);
BT_CUDA_ACCEPTS(attention_backward_general_tf32);
BT_CUDA_WORKSPACE(attention_backward_general);
BT_CUDA_ACCEPTS(attention_bf16);
BT_CUDA_ACCEPTS(attention_tf32);
BT_CUDA_ACCEPTS(attention_f32);
BT_CUDA_ACCEPTS(attention_backward_bf16);
BT_CUDA_ACCEPTS(attention_backward_tf32);
BT_CUDA_ACCEPTS(attention_backward_f32);
BT_CUDA_WORKSPACE(attention_backward_bf16);
BT_CUDA_WORKSPACE(attention_backward_tf32);
BT_CUDA_WORKSPACE(attention_backward_f32);
BT_CUDA_ACCEPTS(attention_bf16_sm90);
BT_CUDA_ACCEPTS(attention_general_bf16_sm90);
BT_CUDA_ACCEPTS(attention_tf32_sm90);
BT_CUDA_ACCEPTS(attention_backward_bf16_sm90);
BT_CUDA_ACCEPTS(attention_backward_general_bf16_sm90);
BT_CUDA_ACCEPTS(attention_backward_tf32_sm90);
BT_CUDA_WORKSPACE(attention_general_bf16_sm90);
BT_CUDA_WORKSPACE(attention_tf32_sm90);
BT_CUDA_WORKSPACE(attention_backward_bf16_sm90);
BT_CUDA_WORKSPACE(attention_backward_general_bf16_sm90);
BT_CUDA_WORKSPACE(attention_backward_tf32_sm90);

#endif
