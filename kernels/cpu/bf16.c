// kernels/cpu/bf16.c - converts bf16 to f32 and back, on all threads
#include "kernels/cpu/bf16.h"

#include "framework/base/dtype.h"
#include "kernels/cpu/vector.h"

BT_CLONES static void bf16_widen_part(float *restrict to, const uint16_t *restrict from,
                                      int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] = bt_bf16_to_f32(from[i]);
    }
}

BT_CLONES static void bf16_narrow_part(uint16_t *restrict to, const float *restrict from,
                                       int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] = bt_f32_to_bf16(from[i]);
    }
}

const float *bt_bf16_widen(float *to, const void *from, int64_t count)
{
#pragma omp parallel for schedule(static) if (count > BT_CHUNK)
    for (int64_t at = 0; at < count; at += BT_CHUNK) {
        bf16_widen_part(to + at, (const uint16_t *)from + at, bt_bf16_least(count - at, BT_CHUNK));
    }
    return to;
}

const float *bt_bf16_widen_rows(float *to, const void *from, int64_t rows, int64_t cols,
                                int64_t stride)
{
#pragma omp parallel for schedule(static) if (rows * cols > BT_CHUNK)
    for (int64_t r = 0; r < rows; ++r) {
        bf16_widen_part(to + r * cols, (const uint16_t *)from + r * stride, cols);
    }
    return to;
}

void bt_bf16_narrow(void *to, const float *from, int64_t count)
{
#pragma omp parallel for schedule(static) if (count > BT_CHUNK)
    for (int64_t at = 0; at < count; at += BT_CHUNK) {
        bf16_narrow_part((uint16_t *)to + at, from + at, bt_bf16_least(count - at, BT_CHUNK));
    }
}

void bt_bf16_narrow_rows(void *to, int64_t stride, const float *from, int64_t rows, int64_t cols)
{
#pragma omp parallel for schedule(static) if (rows * cols > BT_CHUNK)
    for (int64_t r = 0; r < rows; ++r) {
        bf16_narrow_part((uint16_t *)to + r * stride, from + r * cols, cols);
    }
}
