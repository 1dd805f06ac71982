// kernels/cpu/unary.c - y = f(x), and dx (+)= dy f'(x)
//   One row of unary.inl per function: its value and its slope, as expressions in x and alpha.
// Shapes   contiguous [count]; y may be x, dx may be dy if it does not accumulate
// Types    f32, f64; in that type throughout. Accuracy in math.h
// Cost     bound by memory for f32; f64 by libm's exp
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/vector.h"

#define BT_BODY "kernels/cpu/unary.inl"
#include "kernels/cpu/both.h"
