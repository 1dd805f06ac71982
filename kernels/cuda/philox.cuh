// kernels/cuda/philox.cuh - dropout's random words: Philox4x32-10 as in framework/base/rng.c
// Element i takes word i % 4 of block i / 4, so host and device keep the same elements, bit for
// bit.
//   Source Salmon, Moraes, Dror, Shaw, SC 2011
#ifndef BT_KERNELS_CUDA_PHILOX_CUH
#define BT_KERNELS_CUDA_PHILOX_CUH

#include <stdint.h>

constexpr int PHILOX_WORDS = 4;   // of a block
constexpr int PHILOX_ROUNDS = 10; // whose keys come from the constant bank

// The same for all elements of a call.
struct dropout_step {
    uint32_t key0[PHILOX_ROUNDS], key1[PHILOX_ROUNDS];
    uint64_t stream;
    uint32_t least; // a word that is not below it keeps its element
    float scale;    // 1 / (1 - rate)
};

static __device__ __forceinline__ void philox_block(const dropout_step &with, uint32_t index_high,
                                                    uint32_t index_low,
                                                    uint32_t (&words)[PHILOX_WORDS])
{
    uint32_t c0 = index_low;
    uint32_t c1 = index_high;
    uint32_t c2 = (uint32_t)with.stream;
    uint32_t c3 = (uint32_t)(with.stream >> 32);
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ with.key0[round];
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ with.key1[round];
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

static __device__ __forceinline__ uint32_t philox_word(const uint32_t (&words)[PHILOX_WORDS],
                                                       int word)
{
    return word == 0 ? words[0] : word == 1 ? words[1] : word == 2 ? words[2] : words[3];
}

// The smallest word whose number in (0, 1), as framework/base/rng.c makes it from the upper 24
// bits, is not below the rate. The number grows with the word, and the largest rounds to 1.
static inline uint32_t dropout_least_word(double rate)
{
    uint32_t below = 0; // of the upper 24 bits: all less than this are below the rate
    uint32_t kept = 0xffffff;
    while (below < kept) {
        const uint32_t middle = below + (kept - below) / 2;
        const float uniform = ((float)middle + 0.5f) * 0x1p-24f;
        if ((double)uniform >= rate) {
            kept = middle;
        } else {
            below = middle + 1;
        }
    }
    return kept << 8;
}

static inline dropout_step dropout_step_make(double rate, uint64_t seed, uint64_t stream)
{
    dropout_step step;
    for (uint32_t round = 0; round < PHILOX_ROUNDS; ++round) {
        step.key0[round] = (uint32_t)seed + round * 0x9E3779B9u;
        step.key1[round] = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    }
    step.stream = stream;
    step.least = dropout_least_word(rate);
    step.scale = (float)(1.0 / (1.0 - rate));
    return step;
}

#endif
