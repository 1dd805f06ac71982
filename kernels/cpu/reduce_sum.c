// kernels/cpu/reduce_sum.c - y[o,i] (+)= scale * sum_r x[o,r,i]
// Shapes   x [outer, reduce, inner], y [outer, inner], contiguous, must not alias; a sum over
//          nothing is zero
// Types    f32, f64; sums in double, rounded once: bitwise repeatable
//          inner == 1: in the lanes of lanes.inl; otherwise ascending r
// Cost     reads x once; bound by memory. One thread per row (inner == 1) or block of columns
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

#include <math.h>

bool bt_reduce_sum_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_reduce_sum_args *op = args;
    return op->y_dtype == op->dtype;
}

#define BT_BODY "kernels/cpu/reduce_sum.inl"
#include "kernels/cpu/both.h"
