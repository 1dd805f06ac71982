// framework/base/rng.h - counter-based random numbers (Philox4x32-10)
//
// The i-th number of a stream is a function of (seed, stream, i) alone, so any thread may produce
// any part and the result does not depend on how the work is split. CPU and GPU give the same
// numbers.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#ifndef BT_BASE_RNG_H
#define BT_BASE_RNG_H

#include <stdint.h>

typedef struct bt_rng {
    uint64_t seed;
    uint64_t stream; // purpose: a parameter's index, a step, an op
} bt_rng;

// Four random words for counter `index`.
void bt_rng_block(bt_rng rng, uint64_t index, uint32_t words[4]);
// Uniform in (0, 1): 24 bits, never 0 or 1.
float bt_rng_uniform(bt_rng rng, uint64_t index);
// Uniform integer in [0, bound), bound > 0; bias below bound / 2^64.
uint64_t bt_rng_below(bt_rng rng, uint64_t index, uint64_t bound);
// Fills values[count] from N(mean, deviation^2), by Box-Muller in double, rounded to float.
void bt_rng_normal_fill(bt_rng rng, float *values, int64_t count, double mean, double deviation);
// Fills values[count] from [low, high), low < high; a value that rounds to high becomes the float
// below it.
void bt_rng_uniform_fill(bt_rng rng, float *values, int64_t count, double low, double high);

#endif
