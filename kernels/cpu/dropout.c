// kernels/cpu/dropout.c - y[i] (+)= x[i] / (1 - rate) where kept, else 0
//   kept iff the uniform number of word i % 4 of Philox block i / 4 is at least `rate`
// Shapes   contiguous [count]; y may be x
// Types    f32, f64, bf16
// Cost     bound by Philox: ten rounds for four elements
// NaN      a dropped element is 0 whatever it was
#include "framework/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { WORDS = 4 }; // of a Philox block; BT_CHUNK is a multiple

// bt_rng_uniform's number, from a word; the largest may be 1 here, which every rate keeps.
static float uniform_of(uint32_t word) { return (float)(((word >> 8) + 0.5) * 0x1p-24); }

static bt_status check_rate(double rate)
{
    return rate >= 0 && rate < 1 ? BT_OK
                                 : bt_error(BT_STATUS_INVALID_ARGUMENT,
                                            "dropout rate %g; allowed: 0 <= rate < 1", rate);
}

#define BT_BODY "kernels/cpu/dropout.inl"
#include "kernels/cpu/both.h"

// ---- bf16: one block of words at a time, through f32 -------------------------------------------

static void drop_bf16(const bt_dropout_args *op, int64_t from, int64_t to)
{
    const bt_rng rng = {op->seed, op->stream};
    const uint16_t *x = op->x;
    const float keep = (float)(1 - op->rate);
    uint16_t *y = op->y;
    for (int64_t at = from; at < to; at += WORDS) {
        uint32_t words[WORDS];
        bt_rng_block(rng, (uint64_t)(at / WORDS), words);
        for (int64_t i = at; i < to && i < at + WORDS; ++i) {
            const bool kept = (double)uniform_of(words[i - at]) >= op->rate;
            const float value = kept ? bt_bf16_to_f32(x[i]) / keep : 0;
            y[i] = bt_f32_to_bf16(op->accumulate ? bt_bf16_to_f32(y[i]) + value : value);
        }
    }
}

bt_status bt_dropout_cpu_bf16(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_dropout_args *op = args;
    BT_TRY(check_rate(op->rate));
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += BT_CHUNK) {
        drop_bf16(op, at, op->count - at < BT_CHUNK ? op->count : at + BT_CHUNK);
    }
    return BT_OK;
}
