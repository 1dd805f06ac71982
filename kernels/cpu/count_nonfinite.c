// kernels/cpu/count_nonfinite.c - how many elements are NaN or infinite
// Shapes   contiguous [count]
// Types    f32, f64; integers are counted, so the order does not matter
#include <float.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

#define LARGEST_f32 FLT_MAX
#define LARGEST_f64 DBL_MAX
#define BT_BODY     "kernels/cpu/count_nonfinite.inl"
#include "kernels/cpu/both.h"
