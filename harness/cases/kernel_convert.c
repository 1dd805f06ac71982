// harness/cases/kernel_convert.c - converts f64 values to the type of an operand, and back
#include <string.h>

#include "harness/cases/kernel.h"

void bt_kernel_narrow(bt_dtype dtype, const double *values, int64_t count, void *out)
{
    float *f32 = out;
    uint16_t *bf16 = out;
    int32_t *i32 = out;
    if (dtype == BT_F32) {
        for (int64_t i = 0; i < count; ++i) {
            f32[i] = (float)values[i];
        }
    } else if (dtype == BT_BF16) {
        for (int64_t i = 0; i < count; ++i) {
            bf16[i] = bt_f32_to_bf16((float)values[i]);
        }
    } else if (dtype == BT_I32) {
        for (int64_t i = 0; i < count; ++i) {
            i32[i] = (int32_t)values[i];
        }
    } else {
        memcpy(out, values, (size_t)count * sizeof *values);
    }
}

void bt_kernel_widen(bt_dtype dtype, const void *from, int64_t count, double *values)
{
    const float *f32 = from;
    const uint16_t *bf16 = from;
    const int32_t *i32 = from;
    if (dtype == BT_F32) {
        for (int64_t i = 0; i < count; ++i) {
            values[i] = (double)f32[i];
        }
    } else if (dtype == BT_BF16) {
        for (int64_t i = 0; i < count; ++i) {
            values[i] = (double)bt_bf16_to_f32(bf16[i]);
        }
    } else if (dtype == BT_I32) {
        for (int64_t i = 0; i < count; ++i) {
            values[i] = i32[i];
        }
    } else {
        memcpy(values, from, (size_t)count * sizeof *values);
    }
}
