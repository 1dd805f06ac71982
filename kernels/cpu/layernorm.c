// kernels/cpu/layernorm.c - layer normalisation with an optional residual in front
//   s = x + residual;  xhat = (s - mean) * rstd;  y = xhat * gamma + beta
//   dx (+)= rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma
//   dgamma (+)= sum_r dy xhat;  dbeta (+)= sum_r dy
// Shapes   rows of cols elements, contiguous; sum may be x or residual, dx may be dy when it does
//          not accumulate
// Types    f32, f64, parameters and their gradients alike. Mean, variance (second pass about the
//          mean, no cancellation) and all sums in double; the rest in the type
// Cost     forward one read, one write of x; backward reads dy and s twice: the parameter gradients
//          come first, by blocks of columns, ascending r
// NaN      a NaN in a row makes the row NaN, and in backward the parameter gradients of its columns
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

bool bt_layernorm_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_layernorm_args *op = args;
    return op->param_dtype == op->dtype;
}

bool bt_layernorm_backward_cpu_accepts(const bt_device *device, const void *args)
{
    (void)device;
    const bt_layernorm_backward_args *op = args;
    return op->param_dtype == op->dtype && op->grad_dtype == op->dtype;
}

#define BT_BODY "kernels/cpu/layernorm.inl"
#include "kernels/cpu/both.h"
