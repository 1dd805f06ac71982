// kernels/cpu/bf16.h - helpers to build the CPU's bf16 rows from the f32 ones
//
// A call is split into blocks of a fixed size; a block's operands are widened into the workspace,
// the f32 kernel runs on them with all its threads, and its results are rounded once, to nearest
// even. So results are those of the f32 kernel on the widened operands, rounded; a block fits the
// cache, so memory traffic is bf16 only.
//
// Invariants
//   1. Blocks depend on shapes alone: the same bits for any number of threads.
//   2. f32 operands of a bf16 call (statistics, parameter gradients) are passed to the f32 kernel
//      unchanged.
#ifndef BT_KERNELS_CPU_BF16_H
#define BT_KERNELS_CPU_BF16_H

#include "kernels/cpu/cpu.h"

enum { BT_BF16_BLOCK = 1 << 18 }; // elements of one operand that are widened at a time

// to[i] = from[i], `count` elements on all threads. Returns `to`.
const float *bt_bf16_widen(float *to, const void *from, int64_t count);
// The same for rows of cols elements: `to` is contiguous, `from` has a row stride.
const float *bt_bf16_widen_rows(float *to, const void *from, int64_t rows, int64_t cols,
                                int64_t stride);
// to[i] = bf16(from[i]).
void bt_bf16_narrow(void *to, const float *from, int64_t count);
void bt_bf16_narrow_rows(void *to, int64_t stride, const float *from, int64_t rows, int64_t cols);

// A pointer advanced by `count` bf16 elements.
static inline const void *bt_bf16_at(const void *base, int64_t count)
{
    return (const uint16_t *)base + count;
}

static inline void *bt_bf16_to(void *base, int64_t count) { return (uint16_t *)base + count; }

// Number of rows of `cols` elements in a block, at least one.
static inline int64_t bt_bf16_block_rows(int64_t cols)
{
    return cols > 0 && cols < BT_BF16_BLOCK ? BT_BF16_BLOCK / cols : 1;
}

static inline int64_t bt_bf16_least(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
