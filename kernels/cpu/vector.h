// kernels/cpu/vector.h - vector code for the machine at hand, chosen at run time
//
// A function marked BT_CLONES is compiled several times; the loader picks the widest version that
// the processor has (GNU indirect functions), so the binary starts on every x86-64. The versions
// give the same bits: multiply-adds are fused where the source says fma and nowhere else, and sums
// are kept in lanes of the source (lanes.inl), not of the machine. Other machines get what their
// baseline gives (on aarch64 that has vectors already). The thread sanitizer cannot run code that
// the loader calls.
//
// The compiler clones neither the loop that an OpenMP pragma moves to a function of its own nor a
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
#elif defined(__clang__) // it does not find out about levels at run time (clang 14)
#define BT_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define BT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

#define BT_INLINE static inline __attribute__((always_inline))

// Asks for the memory `ahead` bytes on from x, which may lie anywhere: a prefetch never faults.
BT_INLINE void bt_prefetch(const void *x, int64_t ahead, size_t size_bytes)
{
    const uintptr_t at = (uintptr_t)x + (uintptr_t)ahead; // no pointer: it may be no array's
    for (size_t line = 0; line < size_bytes; line += 64) {
        __builtin_prefetch((const void *)(at + line));
    }
}

enum {
    BT_CHUNK = 16384,    // elements that one thread takes at a time in elementwise kernels
    BT_LANES = 32,       // partial sums of a reduction
    BT_AHEAD = 1024,     // bytes that a reduction asks memory for before it needs them
    BT_COLUMN_BLOCK = 64 // columns that one thread takes at a time in sums over rows
};

#endif
