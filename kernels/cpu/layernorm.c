// kernels/cpu/layernorm.c - layer normalisation with an optional residual in front
//   s = x + residual;  xhat = (s - mean) * rstd;  y = xhat * gamma + beta
//   dx (+)= rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma
//   dgamma (+)= sum_r dy xhat;  dbeta (+)= sum_r dy
// Shapes   rows of cols elements, contiguous; sum may be x or residual, dx may be dy when it does
//          not accumulate
// Types    f32, f64, parameters and their gradients alike. Mean in double; variance (second
//          pass about the mean, no cancellation): sums of SQUARES terms in the type, of such sums
//          in double, relative error at most SQUARES eps; backward likewise, by ROW_BLOCK terms;
//          the rest in the type
// Cost     bound by memory; each operand is read once from it
// Order    dgamma, dbeta: parts of ROW_BLOCK rows in the workspace, added up in ascending order
// NaN      a NaN in a row makes the row NaN, and in backward the parameter gradients of its columns
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

enum {
    ROW_BLOCK = 16, // terms that backward adds up in the type itself
    SQUARES = 8     // terms of the variance that are
};

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

size_t bt_layernorm_backward_cpu_workspace(const bt_device *device, const void *args)
{
    (void)device;
    const bt_layernorm_backward_args *op = args;
    const int64_t blocks = (op->rows + ROW_BLOCK - 1) / ROW_BLOCK;
    return (size_t)(blocks * 2 * op->cols) * bt_dtype_size(op->dtype);
}

#define BT_BODY "kernels/cpu/layernorm.inl"
#include "kernels/cpu/both.h"
