// kernels/cpu/softmax.c - row softmax and its backward
//   y[r,c] = exp(x[r,c] - max_r) / sum_c exp(x[r,c] - max_r)
//   dx[r,c] = y[r,c] (dy[r,c] - sum_c dy[r,c] y[r,c])
// Shapes   [rows, cols] contiguous; y may be x, dx may be dy
// Types    f32, f64; sums of a few exps in the type (exps.inl), of such sums in double; exp as in
//          math.h: relative error of y at most 8 eps
// Cost     bound by memory; one thread per row
// NaN      a NaN in a row makes the row NaN; so does +infinity, and a row of -infinity only
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

#define BT_BODY "kernels/cpu/softmax.inl"
#include "kernels/cpu/both.h"
