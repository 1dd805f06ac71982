// kernels/cpu/shard_ids.c - ids and targets of a vocabulary whose rows are split over ranks
// Shapes   contiguous [count]
// Types    i32; the mask f32, f64, bf16
#include <math.h>
#include <stdint.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

static void set_element(void *x, bt_dtype dtype, int64_t i, float value)
{
    if (dtype == BT_F64) {
        ((double *)x)[i] = (double)value;
    } else if (dtype == BT_BF16) {
        ((uint16_t *)x)[i] = bt_f32_to_bf16(value);
    } else {
        ((float *)x)[i] = value;
    }
}

static bool is_between(int64_t x, int64_t first, int64_t count)
{
    return x >= first && x < first + count;
}

bt_status bt_shard_ids_cpu(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_shard_ids_args *op = args;
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t i = 0; i < op->count; ++i) {
        const int64_t id = op->ids[i];
        const bool own = is_between(id, op->first, op->rows);
        const float other = is_between(id, 0, op->vocab) ? 0 : NAN;
        op->own[i] = own ? (int32_t)(id - op->first) : 0;
        set_element(op->mask, op->dtype, i, own ? 1 : other);
    }
    return BT_OK;
}

bt_status bt_shard_targets_cpu(const bt_launch *launch, const void *args)
{
    (void)launch;
    const bt_shard_targets_args *op = args;
#pragma omp parallel for schedule(static) if (op->count > BT_CHUNK)
    for (int64_t i = 0; i < op->count; ++i) {
        const int64_t target = op->targets[i];
        const bool counts = target != op->ignore;
        const bool own = counts && is_between(target, op->first, op->rows);
        const bool known = is_between(target, 0, op->vocab);
        const int32_t place = own ? (int32_t)(target - op->first) : -1;
        op->own[i] = place;
        op->column[i] = own || !counts ? place : INT32_MAX;
        op->owner[i] = !counts ? -1 : known ? (int32_t)(target / op->each) : INT32_MAX;
    }
    return BT_OK;
}
