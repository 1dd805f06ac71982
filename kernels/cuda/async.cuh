// kernels/cuda/async.cuh - copies from global to shared memory that need no registers (cp.async)
//
// Batches are closed by `copy_commit` and arrive in order; `copy_wait<PENDING>` waits until at most
// PENDING of this thread's batches are missing. A thread may then read what it asked for itself;
// what others asked for only after a barrier.
#ifndef BT_KERNELS_CUDA_ASYNC_CUH
#define BT_KERNELS_CUDA_ASYNC_CUH

#include "kernels/cuda/cuda.cuh"

// 16 or 4 bytes; zeros where there is nothing to read.
template <int BYTES>
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool there = true)
{
    const unsigned target = (unsigned)__cvta_generic_to_shared(to);
    const int size = there ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from),
                     "r"(size)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(from),
                     "r"(size)
                     : "memory");
    }
}

static __device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif
