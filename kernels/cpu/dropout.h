// kernels/cpu/dropout.h - the mask of dropout
#ifndef BT_KERNELS_CPU_DROPOUT_H
#define BT_KERNELS_CPU_DROPOUT_H

#include <stdbool.h>

#include "framework/base/rng.h"

enum { BT_DROPOUT_WORDS = 4 }; // of a Philox block; element i takes word i % 4 of block i / 4

// bt_rng_uniform's number, from a word; the largest may be 1 here, which is kept at every rate.
static inline float bt_dropout_uniform(uint32_t word)
{
    return (float)(((word >> 8) + 0.5) * 0x1p-24);
}

static inline bool bt_dropout_keeps(uint32_t word, double rate)
{
    return (double)bt_dropout_uniform(word) >= rate;
}

#endif
