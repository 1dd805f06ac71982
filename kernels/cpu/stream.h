// kernels/cpu/stream.h - non-temporal stores of large results
//
// A plain store reads its line first, so a copy moves three bytes instead of two. Large results are
// computed a block at a time in a buffer that stays in the L1 cache, and written from there by
// non-temporal stores, which do not read. Small results use plain stores: the next reader finds
// them in the cache. The bits are the same. Machines without such stores copy.
//
// Such stores are not ordered with others: each thread that used them calls bt_stream_end before
// others may read (before it leaves the parallel region).
#ifndef BT_KERNELS_CPU_STREAM_H
#define BT_KERNELS_CPU_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/cpu/vector.h"

#if defined(__x86_64__) && defined(__linux__)
#define BT_STREAM_LINES
#endif

enum {
    BT_STREAM_BLOCK = 256, // elements of such a buffer: loads of the next run overlap its stores
    BT_STREAM_ROW = 4096   // of a buffer for a row
};
#define BT_STREAM_BYTES ((int64_t)16 << 20)

// Whether a result of this size uses non-temporal stores.
BT_INLINE bool bt_stream_wanted(int64_t size_bytes) { return size_bytes >= BT_STREAM_BYTES; }

// The block, of `count`, that comes i-th: four interleaved streams, each contiguous, let more of
// the processor's prefetchers run than one.
BT_INLINE int64_t bt_stream_order(int64_t i, int64_t count)
{
    enum { PLACES = 4, GROUP = 64 };
    const int64_t within = i % GROUP, first = i - within;
    const int64_t blocks = count - first < GROUP ? count - first : GROUP, each = blocks / PLACES;
    return within < PLACES * each ? first + within % PLACES * each + within / PLACES : i;
}

// Prefetches the block of x that comes after the i-th, so that it arrives while that one is
// computed: hardware prefetchers stop at the end of a page and restart in each stream.
BT_INLINE void bt_stream_ask(const void *x, int64_t i, int64_t count, size_t block_bytes)
{
    const int64_t next = bt_stream_order(i + 1 < count ? i + 1 : i, count);
    bt_prefetch(x, next * (int64_t)block_bytes, block_bytes);
}

#ifdef BT_STREAM_LINES
// Whole lines of 64 bytes: the processor need not combine a line from parts.
__attribute__((target("avx512f"))) static inline void bt_stream_lines(char *to, const char *from,
                                                                      size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes; at += 64) {
        const __m512i line = _mm512_loadu_si512((const void *)(from + at));
        _mm512_stream_si512((__m512i *)(void *)(to + at), line);
    }
}
#endif

BT_INLINE void bt_stream_out(void *to, const void *from, size_t size_bytes)
{
#ifdef __SSE2__
    char *target = to;
    const char *source = from;
    size_t head = -(uintptr_t)target & 63;
    head = head < size_bytes ? head : size_bytes;
    memcpy(target, source, head);
    size_t at = head;
#ifdef BT_STREAM_LINES
    if (__builtin_cpu_supports("avx512f")) {
        const size_t lines = (size_bytes - at) & ~(size_t)63;
        bt_stream_lines(target + at, source + at, lines);
        at += lines;
    }
#endif
    for (; at + 16 <= size_bytes; at += 16) {
        const __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(source + at));
        _mm_stream_si128((__m128i *)(void *)(target + at), part);
    }
    memcpy(target + at, source + at, size_bytes - at);
#else
    memcpy(to, from, size_bytes);
#endif
}

BT_INLINE void bt_stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#endif
