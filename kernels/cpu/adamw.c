// kernels/cpu/adamw.c - AdamW over many tensors: one pass over parameters, gradients and moments
//   g = grad * scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//   param -= lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + epsilon) + decay param)
// Shapes   items in host memory, each contiguous [count]
// Types    f32, f64, in that type; 1/(1-b^t) is computed in double and rounded once
// Cost     reads 4, writes 3 words per element: bound by memory
// NaN      a NaN in *scale leaves everything unchanged; a NaN in grad spreads to its element
// Source   Loshchilov & Hutter 2017, arXiv:1711.05101
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vector.h"

#define BT_BODY "kernels/cpu/adamw.inl"
#include "kernels/cpu/both.h"
