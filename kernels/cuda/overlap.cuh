// kernels/cuda/overlap.cuh - programmatic dependent launch: a kernel starts while its predecessor
// in the stream ends
//
// A kernel launched by `launch_after` calls `wait_for_previous` before it reads or writes global
// memory. `allow_next` lets the next kernel start as blocks of this one exit; without it that
// happens when all blocks have exited. A kernel calls it after `wait_for_previous`, so that at most
// one predecessor is unfinished while a kernel waits.
#ifndef BT_KERNELS_CUDA_OVERLAP_CUH
#define BT_KERNELS_CUDA_OVERLAP_CUH

#include "kernels/cuda/overlap.h"

// Returns when the previous kernel has finished and its writes are visible.
static __device__ __forceinline__ void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

static __device__ __forceinline__ void allow_next()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Launches a kernel that waits for the previous kernel of the stream itself. Errors are reported by
// bt_cuda_launched.
template <typename... P, typename... A>
static void launch_after(const bt_device *device, void (*kernel)(P...), dim3 grid, dim3 block,
                         size_t shared_bytes, cudaStream_t stream, A... args)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    bt_cuda_overlap(device, (const void *)kernel, &config);
    (void)cudaLaunchKernelEx(&config, kernel, P(args)...);
}

#endif
