// kernels/cpu/vector.h - vector code for the current machine, selected at run time
//
// A function marked BT_CLONES is compiled several times; the loader selects the widest version that
// the processor has (GNU indirect functions), so the binary starts on every x86-64. The versions
// give the same bits: multiply-adds are fused where the source says fma and nowhere else, and sums
// use lanes defined in the source (lanes.inl), not by the machine. Other machines use their
// baseline (on aarch64 it includes vectors). The thread sanitizer cannot run code that the loader
// calls.
//
// The compiler clones neither the loop that an OpenMP pragma moves to a separate function nor a
// callee that it does not inline. So the parallel loop stays in the launch function and calls one
// BT_CLONES function per row or chunk, and what that calls is BT_INLINE.
#ifndef BT_KERNELS_CPU_VECTOR_H
#define BT_KERNELS_CPU_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BT_NO_CLONES
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || !defined(__linux__)
#define BT_NO_CLONES
#endif

#if defined(BT_NO_CLONES)
#define BT_CLONES
#elif defined(__clang__) // clang 14 does not support detecting levels at run time
#define BT_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define BT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

#define BT_INLINE static inline __attribute__((always_inline))

// Prefetches the memory `ahead` bytes after x, at any address: a prefetch never faults.
BT_INLINE void bt_prefetch(const void *x, int64_t ahead, size_t size_bytes)
{
    const uintptr_t at = (uintptr_t)x + (uintptr_t)ahead; // an integer, because the address may be
                                                          // outside of any array
    for (size_t line = 0; line < size_bytes; line += 64) {
        __builtin_prefetch((const void *)(at + line));
    }
}

enum {
    BT_CHUNK = 16384,    // elements per thread and turn in elementwise kernels
    BT_LANES = 32,       // partial sums of a reduction
    BT_AHEAD = 1024,     // prefetch distance of reductions, bytes
    BT_COLUMN_BLOCK = 64 // columns per thread and turn in sums over rows
};

#endif
