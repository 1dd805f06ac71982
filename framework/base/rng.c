// framework/base/rng.c - Philox4x32-10 on the host
#include "framework/base/rng.h"

#include <math.h>

void bt_rng_block(bt_rng rng, uint64_t index, uint32_t words[4])
{
    uint32_t key0 = (uint32_t)rng.seed;
    uint32_t key1 = (uint32_t)(rng.seed >> 32);
    uint32_t c0 = (uint32_t)index;
    uint32_t c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)rng.stream;
    uint32_t c3 = (uint32_t)(rng.stream >> 32);
    for (int round = 0; round < 10; ++round) {
        uint64_t product0 = (uint64_t)0xD2511F53U * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

static double open_unit(uint32_t word) { return ((word >> 8) + 0.5) * 0x1p-24; }

float bt_rng_uniform(bt_rng rng, uint64_t index)
{
    uint32_t words[4];
    bt_rng_block(rng, index, words);
    const float value = (float)open_unit(words[0]);
    return value < 1.0F ? value : 0x1.fffffep-1F; // the largest of 2^24 rounds to 1
}

uint64_t bt_rng_below(bt_rng rng, uint64_t index, uint64_t bound)
{
    uint32_t words[4];
    bt_rng_block(rng, index, words);
    uint64_t wide = (uint64_t)words[0] << 32 | words[1];
    return wide % bound;
}

void bt_rng_normal_fill(bt_rng rng, float *values, int64_t count, double mean, double deviation)
{
    const double two_pi = 6.283185307179586;
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < (count + 3) / 4; ++block) {
        uint32_t words[4];
        bt_rng_block(rng, (uint64_t)block, words);
        for (int64_t pair = 0; pair < 2; ++pair) {
            double radius = sqrt(-2.0 * log(open_unit(words[2 * pair])));
            double angle = two_pi * open_unit(words[2 * pair + 1]);
            int64_t at = 4 * block + 2 * pair;
            if (at < count) {
                values[at] = (float)(mean + deviation * radius * cos(angle));
            }
            if (at + 1 < count) {
                values[at + 1] = (float)(mean + deviation * radius * sin(angle));
            }
        }
    }
}

void bt_rng_uniform_fill(bt_rng rng, float *values, int64_t count, double low, double high)
{
    const float high_float = (float)high, below_high = nextafterf(high_float, (float)low);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < (count + 3) / 4; ++block) {
        uint32_t words[4];
        bt_rng_block(rng, (uint64_t)block, words);
        for (int64_t i = 0; i < 4 && 4 * block + i < count; ++i) {
            const float value = (float)(low + (high - low) * open_unit(words[i]));
            values[4 * block + i] = value < high_float ? value : below_high;
        }
    }
}
