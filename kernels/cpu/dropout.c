// kernels/cpu/dropout.c - y[i] (+)= x[i] / (1 - rate) where kept, else 0
//   kept iff the uniform number of word i % 4 of Philox block i / 4 is at least `rate`
// Shapes   contiguous [count]; y may be x
// Types    f32, f64, bf16
// Cost     bound by Philox: ten rounds for four elements
// NaN      a dropped element is 0 for any input
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

// BT_CHUNK is a multiple of BT_DROPOUT_WORDS.

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
    for (int64_t at = from; at < to; at += BT_DROPOUT_WORDS) {
        uint32_t words[BT_DROPOUT_WORDS];
        bt_rng_block(rng, (uint64_t)(at / BT_DROPOUT_WORDS), words);
        for (int64_t i = at; i < to && i < at + BT_DROPOUT_WORDS; ++i) {
            const bool kept = bt_dropout_keeps(words[i - at], op->rate);
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
