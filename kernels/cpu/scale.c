// kernels/cpu/scale.c - y[i] (+)= factor[i / group] x[i]
// Shapes   contiguous [count]; y may be x if it is not accumulated
// Types    f32, f64 in that type; bf16 through f32, rounded once
// Cost     bound by memory; none in place with a single factor of 1
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

static bool is_idle(const bt_scale_args *op, double factor)
{
    return !op->accumulate && op->y == op->x && factor >= 1 && factor <= 1;
}

#define BT_BODY "kernels/cpu/scale.inl"
#include "kernels/cpu/both.h"

BT_CLONES static void scale_bf16(const uint16_t *x, float factor, uint16_t *y, int64_t count,
                                 bool accumulate)
{
    for (int64_t i = 0; i < count; ++i) {
        const float value = factor * bt_bf16_to_f32(x[i]);
        y[i] = bt_f32_to_bf16(accumulate ? bt_bf16_to_f32(y[i]) + value : value);
    }
}

bt_status bt_scale_cpu_bf16(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_scale_args *op = args;
    const float *factor = op->factor;
    if (op->group == 0 && is_idle(op, (double)*factor)) {
        return BT_OK;
    }
    const int64_t step = op->group > 0 ? op->group : BT_CHUNK;
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t at = 0; at < op->count; at += step) {
        scale_bf16((const uint16_t *)op->x + at, factor[op->group > 0 ? at / step : 0],
                   (uint16_t *)op->y + at, op->count - at < step ? op->count - at : step,
                   op->accumulate);
    }
    return BT_OK;
}
