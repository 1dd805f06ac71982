// kernels/cpu/layernorm.c - layer normalization with an optional residual sum before it
//   s = x + residual;  xhat = (s - mean) * rstd;  y = xhat * gamma + beta
//   dx (+)= rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma
//   dgamma (+)= sum_r dy xhat;  dbeta (+)= sum_r dy
// Shapes   rows of cols elements, contiguous; sum may be x or residual, dx may be dy if it does not
//          accumulate
// Types    f32, f64, parameters and their gradients alike. Mean in double; variance (second
//          pass about the mean, no cancellation): sums of SQUARES terms in the type, of such sums
//          in double, relative error at most SQUARES eps; backward likewise, by ROW_BLOCK terms;
//          the rest in the type
// Cost     bound by memory; each operand is read once from it
// Order    dgamma, dbeta: up to PARTS parts of the rows, in double in the workspace, each of sums
//          of ROW_BLOCK rows, added in ascending order
// NaN      a NaN in a row makes the row NaN, and in backward the parameter gradients of its columns
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

enum {
    ROW_BLOCK = 16, // number of terms that backward adds in the type itself
    PARTS = 128,    // maximum number of parts: enough for the threads, few to add
    SQUARES = 8     // number of terms of the variance that are added in the type
};

// Rows of a part, in blocks of ROW_BLOCK, and the number of parts.
static int64_t part_rows(int64_t rows)
{
    return (rows + ROW_BLOCK * PARTS - 1) / (ROW_BLOCK * PARTS) * ROW_BLOCK;
}

static int64_t part_count(int64_t rows)
{
    return rows > 0 ? (rows + part_rows(rows) - 1) / part_rows(rows) : 0;
}

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
    return (size_t)(part_count(op->rows) * 2 * op->cols) *
           (sizeof(double) + bt_dtype_size(op->dtype));
}

#define BT_BODY "kernels/cpu/layernorm.inl"
#include "kernels/cpu/both.h"
