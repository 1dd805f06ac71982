// kernels/cuda/async.cuh - asynchronous copies from global to shared memory (cp.async)
//
// `copy_commit` closes a batch; batches complete in order. `copy_wait<PENDING>` waits until at most
// PENDING of this thread's batches are incomplete. A thread may then read what it copied itself,
// and after a barrier also what other threads copied.
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
